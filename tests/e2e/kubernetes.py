"""A scripted API server of Kubernetes: objects that a test changes, lists and watches of them, and the troubles of real ones."""

import json
import threading
import urllib.parse

KINDS = {"endpointslices": "EndpointSliceList", "pods": "PodList", "inferencepools": "InferencePoolList"}


class ApiServer:
    """Keeps its objects when `stop` and `start` are called, as etcd does."""

    def __init__(self, case, token=None, tls=None):
        self._case = case
        self._tls = tls
        self.token = token  # that requests need; None: none
        self.objects = {}  # (kind, name) -> object
        self.version = 1000
        self.oldest = 0  # older versions have been compacted
        self.events = []  # (version, kind, event)
        self.lists = []  # targets of lists, and of watches
        self.watches = []
        self.garbage = None  # what lists answer with; None: what there is
        self.delay = 0.0  # of each list, in seconds
        self._ended = 0  # how often all watches were ended
        self._changed = threading.Condition()
        self.server = None
        self.port = 0
        self.start()

    @property
    def url(self):
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def start(self):
        self.server = self._case.backend(self._answer, port=self.port, tls=self._tls)
        self.port = self.server.port

    def stop(self):
        """Dies: all connections end."""
        self.end_watches()
        self.server.close()

    def put(self, kind, body):
        """Adds or replaces an object."""
        with self._changed:
            key = kind, body["metadata"]["name"]
            event = "MODIFIED" if key in self.objects else "ADDED"
            self._note(kind, event, key, body)
            self.objects[key] = body

    def remove(self, kind, name):
        with self._changed:
            body = self.objects.pop((kind, name))
            self._note(kind, "DELETED", (kind, name), dict(body, metadata=dict(body["metadata"])))

    def bookmark(self):
        with self._changed:
            self.version += 1
            for kind in KINDS:
                body = {"metadata": {"resourceVersion": str(self.version)}}
                self.events.append((self.version, kind, {"type": "BOOKMARK", "object": body}))
            self._changed.notify_all()

    def compact(self):
        """Forgets what has happened: a watch from before is told that it has expired."""
        with self._changed:
            self.version += 1
            self.oldest = self.version
            self.events.clear()

    def end_watches(self):
        """Closes all watches in order, as the server does after a while."""
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def tell(self, event):
        """Sends an event to all watches, whatever it is."""
        with self._changed:
            self.version += 1
            for kind in KINDS:
                self.events.append((self.version, kind, event))
            self._changed.notify_all()

    def _note(self, kind, event, key, body):
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        copy = json.loads(json.dumps(body))
        self.events.append((self.version, kind, {"type": event, "object": copy}))
        self._changed.notify_all()

    def _answer(self, exchange):
        path, _, query = exchange.target.partition("?")
        asked = dict(urllib.parse.parse_qsl(query))
        kind = path.rpartition("/")[2]
        if self.token and exchange.head.field("authorization") != f"Bearer {self.token}":
            return exchange.answer(b'{"kind":"Status","code":401}', status=401, phrase="Unauthorized")
        if kind not in KINDS:
            return exchange.answer(b'{"kind":"Status","code":404}', status=404, phrase="Not Found")
        if asked.get("watch") == "1":
            self.watches.append(exchange.target)
            return self._watch(exchange, kind, int(asked["resourceVersion"]))
        self.lists.append(exchange.target)
        if self.delay:
            threading.Event().wait(self.delay)
        if self.garbage is not None:
            return exchange.answer(self.garbage)
        with self._changed:
            items = [each for (its, _), each in self.objects.items() if its == kind and wanted(each, asked)]
            body = json.dumps({"kind": KINDS[kind], "items": items,
                               "metadata": {"resourceVersion": str(self.version)}})
        return exchange.answer(body.encode(), fields=[("content-type", "application/json")])

    def _watch(self, exchange, kind, version):
        server, ended = self.server, self._ended
        exchange.begin_chunks([("content-type", "application/json")])
        if version < self.oldest:
            gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
            exchange.chunk(json.dumps(gone).encode() + b"\n")
            return exchange.end_chunks()
        while True:
            with self._changed:
                news = [(at, event) for at, its, event in self.events if its == kind and at > version]
                if not news:
                    if self._ended != ended or self.server is not server:
                        break
                    self._changed.wait(0.2)
            for at, event in news:
                version = at
                line = event if isinstance(event, bytes) else json.dumps(event).encode()
                exchange.chunk(line + b"\n")
        return exchange.end_chunks()


def wanted(body, asked):
    """Whether an object has the labels and the name that a query asks for."""
    labels = body["metadata"].get("labels", {})
    for each in filter(None, asked.get("labelSelector", "").split(",")):
        name, _, value = each.partition("=")
        if labels.get(name) != value:
            return False
    name = asked.get("fieldSelector", "").partition("metadata.name=")[2]
    return not name or body["metadata"]["name"] == name


def endpoint(host, name, ready=True, serving=None, terminating=None, zone="eu-1a"):
    return {"addresses": [host], "zone": zone, "targetRef": {"kind": "Pod", "name": name, "uid": f"uid-{name}"},
            "conditions": {"ready": ready, "serving": serving, "terminating": terminating}}


def endpoint_slice(name, service, endpoints, port, labels=None):
    return {"metadata": {"name": name, "labels": {"kubernetes.io/service-name": service, **(labels or {})}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": port}], "endpoints": endpoints}


def pod(name, host, labels, ready=True, deleted=False, annotations=None):
    metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": metadata,
            "status": {"podIP": host, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}}


def inference_pool(name, labels, *ports):
    return {"metadata": {"name": name},
            "spec": {"selector": {"matchLabels": labels}, "targetPorts": [{"number": port} for port in ports]}}
