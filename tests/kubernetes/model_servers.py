"""Model servers in a cluster without kubelets and controllers: what these would write of them.

    model_servers.py FOLDER SECONDS ADDRESS...     # FOLDER: api_server.py's; the Service default/llama has these addresses, which
                                                   # come and go at random, and at the end all of them
"""

import json
import pathlib
import random
import ssl
import sys
import time

from api_server import ApiServer, Refused

SLICE = 100  # endpoints of a slice, as the controller fills it


class Endpoints:
    """The EndpointSlices of a Service."""

    def __init__(self, server, service="llama", namespace="default", ports=(("http", 8000),)):
        self.server, self.service, self.namespace = server, service, namespace
        self.ports = [{"name": name, "port": port, "protocol": "TCP"} for name, port in ports]
        self.slices = 0
        server.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": service, "namespace": namespace},
                      "spec": {"ports": [{"name": name, "port": port} for name, port in ports], "clusterIP": "None"}})

    def set(self, serving, terminating=()):
        """Replaces them: `serving` are ready, `terminating` still answer and get nothing new."""
        endpoints = [endpoint(each, True, True, False) for each in serving] + [endpoint(each, False, True, True) for each in terminating]
        wanted = [endpoints[first:first + SLICE] for first in range(0, len(endpoints), SLICE)] or [[]]
        for number in range(max(len(wanted), self.slices)):
            document = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": self.ports,
                        "metadata": {"name": f"{self.service}-{number}", "namespace": self.namespace,
                                     "labels": {"kubernetes.io/service-name": self.service}},
                        "endpoints": wanted[number] if number < len(wanted) else []}
            if number < len(wanted):
                self.server.apply(document)
            else:
                self.server.request("DELETE", f"{self.server.path_of(document)}/{document['metadata']['name']}")
        self.slices = len(wanted)

    def churn(self, addresses, seconds, seed=1):
        """Some of the addresses at a time, changed about ten times a second; all of them at the end. Returns the number of changes."""
        chance, changes, end = random.Random(seed), 0, time.monotonic() + seconds
        while time.monotonic() < end:
            chosen = chance.sample(addresses, chance.randint(1, len(addresses)))
            leaving = chance.randint(0, len(chosen) - 1)
            self.set(chosen[leaving:], chosen[:leaving])
            changes += 1
            time.sleep(0.1)
        self.set(addresses)
        return changes + 1


def endpoint(address, ready, serving, terminating):
    return {"addresses": [address], "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
            "zone": f"zone-{int(address.rpartition('.')[2]) % 3}"}


class Pods:
    """Pods with labels, as an InferencePool selects them."""

    def __init__(self, server, labels, namespace="default"):
        self.server, self.labels, self.namespace = server, labels, namespace

    def document(self, address):
        return {"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "llama-" + address.replace(".", "-"), "namespace": self.namespace, "labels": self.labels},
                "spec": {"containers": [{"name": "server", "image": "server"}]}}

    def add(self, address, ready=True):
        """A pod that runs at the address."""
        document = self.document(address)
        try:
            self.server.create(document)
        except Refused as refused:
            if refused.status != 409:
                raise
        self.say(address, ready)

    def say(self, address, ready):
        """Sets the condition Ready, as the kubelet does by the pod's probe."""
        document = self.document(address)
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
                  "conditions": [{"type": "Ready", "status": str(ready)}]}
        self.server.request("PATCH", f"{self.server.path_of(document)}/{document['metadata']['name']}/status", {"status": status},
                            "application/merge-patch+json")

    def remove(self, address):
        document = self.document(address)
        self.server.request("DELETE", f"{self.server.path_of(document)}/{document['metadata']['name']}", gracePeriodSeconds=0)


def connected(folder):
    """The API server that api_server.py runs in the folder."""
    server = ApiServer(folder)
    config = json.loads((pathlib.Path(folder) / "kubeconfig").read_text())
    server.url = config["clusters"][0]["cluster"]["server"]
    server.context = ssl.create_default_context(cafile=pathlib.Path(folder) / "ca.crt")
    server.context.check_hostname = False
    return server


if __name__ == "__main__":
    print(Endpoints(connected(sys.argv[1])).churn(sys.argv[3:], float(sys.argv[2])), "changes")
