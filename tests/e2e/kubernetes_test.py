"""Backends that Kubernetes knows: EndpointSlices of a Service, pods of an InferencePool, and API servers in trouble."""

import pathlib
import ssl
import threading
import time

import case
from certificates import Authority
from kubernetes import ApiServer, endpoint, endpoint_slice, inference_pool, pod
from process import command
from reloading import ReloadCase, Traffic
from stream import Stream

SERVICE = {"kubernetes": {"service": "models/llama", "port": "http"}}
POOL = {"kubernetes": {"inference_pool": "models/llama"}}
QUICK = {"check": "http", "path": "/health", "interval": "200ms"}


class Pods(ReloadCase):
    """Pods are scripted servers on addresses of loopback, all with one port."""

    def setUp(self):
        self.api = ApiServer(self)
        self.port = 0
        self.pods = {}  # host -> server
        self.ended = {}  # host -> when it was terminating for a second
        self.late = []  # requests after that
        self.slice = {}  # host -> endpoint

    def serve(self, exchange):
        if exchange.target != "/health":
            host = exchange.backend.address.partition(":")[0]
            if exchange.began > self.ended.get(host, exchange.began):
                self.late.append((host, exchange.began - self.ended[host]))
        if exchange.target != "/sse":
            return exchange.answer(b"hello")
        return None

    def pod(self, number):
        """The address of a server."""
        host = f"127.0.1.{number}"
        if host not in self.pods:
            self.pods[host] = self.backend(self.serve, host=host, port=self.port)
            self.port = self.pods[host].port
        return host

    def publish(self, name="llama-1"):
        """Writes the slice with the current endpoints."""
        self.api.put("endpointslices", endpoint_slice(name, "llama", list(self.slice.values()), self.port))

    def add(self, *numbers, **how):
        for number in numbers:
            host = self.pod(number)
            self.slice[host] = endpoint(host, f"llama-{number}", **how)
        self.publish()

    def terminate(self, number):
        host = self.pod(number)
        self.slice[host] = endpoint(host, f"llama-{number}", ready=False, serving=True, terminating=True)
        self.ended[host] = time.monotonic() + 1
        self.publish()

    def drop(self, number):
        del self.slice[self.pod(number)]
        self.publish()

    def start(self, discover=None, pool=None, **config):
        return self.running(pool={"backends": [], "discover": discover or SERVICE, "picker": "round-robin",
                                  "health": QUICK, **(pool or {})},
                            **{"kubernetes": {"api": self.api.url}, **config})

    def running(self, pool=None, **config):
        """Without `backends`, which may not be empty in a file."""
        self.config = {"listeners": [{"name": "public", "address": "127.0.0.1:0"}], "workers": 2,
                       "admin": {"address": "127.0.0.1:0"}, "pools": [{"name": "pool", **pool}], **config}
        del self.config["pools"][0]["backends"]
        self.served = self.daemon(self.config)
        self.config["access_log"] = {"path": str(self.served.access_path)}
        return self.served

    def ids(self):
        return sorted(each["id"] for each in self.served.api("backends"))

    def at(self, *numbers):
        return sorted(f"127.0.1.{number}:{self.port}" for number in numbers)

    def wait_for(self, *numbers):
        self.eventually(lambda: self.ids() == self.at(*numbers), f"{numbers}, not {self.ids()}")

    def wait_up(self, *numbers):
        self.wait_for(*numbers)
        self.eventually(lambda: set(self.states().values()) == {"up"}, "all up")

    def ask(self):
        with Stream.connect(self.served.address) as stream:
            return stream.exchange().status

    def discovered(self, what):
        return self.served.metric(f"evenkeel_discovery_{what}", pool="pool")


class Services(Pods):
    def test_the_endpoints_of_all_slices_are_backends_from_the_start(self):
        self.add(1, 2)
        host = self.pod(3)
        self.api.put("endpointslices", endpoint_slice("llama-2", "llama", [endpoint(host, "llama-3")], self.port,
                                                      {"tier": "gold"}))
        self.api.put("endpointslices", endpoint_slice("other", "other", [endpoint("127.0.1.9", "x")], self.port))
        self.start()
        self.assertEqual(self.ids(), self.at(1, 2, 3))
        self.assertEqual({self.ask() for _ in range(6)}, {200})
        third = next(each for each in self.served.api("backends") if each["address"].startswith(host))
        self.assertEqual((third["zone"], third["labels"]), ("eu-1a", {"tier": "gold", "pod": "llama-3"}))
        self.assertEqual(self.discovered("backends"), 3)

    def test_pods_come_go_and_move_under_load_and_no_request_fails(self):
        self.add(1, 2, 3)
        self.start()
        self.wait_up(1, 2, 3)
        traffic = Traffic(self, self.served.address, h1=3, h2=1, sse=0)
        numbers = [1, 2, 3]
        for round_number in range(6):
            new = 4 + round_number
            self.add(new)
            self.wait_up(*numbers, new)
            gone = numbers.pop(0)
            numbers.append(new)
            self.terminate(gone)
            self.wait_for(*numbers)
            self.drop(gone)
        asked = traffic.asked()
        self.eventually(lambda: traffic.asked() > asked + 100)
        self.eventually(lambda: time.monotonic() > max(self.ended.values()) + 0.5)
        self.assertGreater(traffic.end(), 100)
        self.assertEqual(self.late, [], "requests to pods that were terminating for a second")

    def test_a_request_in_flight_ends_on_a_terminating_pod(self):
        go, begun = threading.Event(), threading.Event()
        self.addCleanup(go.set)

        def slow(exchange):
            if exchange.target == "/health":
                return exchange.answer(b"ok")
            exchange.begin_chunks()
            exchange.chunk(b"one")
            begun.set()
            go.wait(30)
            exchange.chunk(b"two")
            return exchange.end_chunks()

        self.serve = slow
        self.add(1)
        self.start()
        self.wait_up(1)
        with Stream.connect(self.served.address) as stream:
            stream.ask()
            head = stream.read_head()
            self.assertEqual(stream.read_chunk(head), b"one")
            self.terminate(1)
            self.wait_for()
            self.assertEqual(self.ask(), 503, "no pod takes new requests")
            go.set()
            self.assertEqual(stream.read_chunk(head), b"two")
            self.assertFalse(stream.read_chunk(head))

    def test_the_daemon_starts_without_pods_and_takes_the_first_that_come(self):
        self.pod(1)
        self.publish()
        self.start()
        self.assertEqual(self.ids(), [])
        self.assertEqual(self.ask(), 503)
        self.add(1)
        self.wait_up(1)
        self.assertEqual(self.ask(), 200)

    def test_what_operators_have_set_stays_while_pods_come_and_go(self):
        self.add(1, 2)
        self.start()
        self.wait_up(1, 2)
        first = self.at(1)[0]
        self.assertEqual(self.served.ask_admin(f"/api/v1/backends/{first}/drain", method="POST").status, 200)
        self.add(3)
        self.wait_for(1, 2, 3)
        self.assertEqual(self.states()[first], "draining")
        self.reload()
        self.assertEqual(self.ids(), self.at(1, 2, 3))
        self.assertEqual(self.states()[first], "draining")

    def test_a_reload_begins_and_ends_discovery(self):
        self.add(1)
        self.start()
        self.wait_up(1)
        fixed = self.pod(7)
        del self.pool["discover"]
        self.pool["backends"] = [f"{fixed}:{self.port}"]
        self.reload()
        self.assertEqual(self.ids(), self.at(7))
        self.add(2)
        self.pool["discover"] = SERVICE
        self.reload()
        self.assertEqual(self.ids(), self.at(1, 2, 7))

    def test_a_port_that_there_is_not_is_named(self):
        self.add(1)
        self.start(discover={"kubernetes": {"service": "models/llama", "port": 80}})
        self.served.wait_line("no port '80', but %d" % self.port)
        self.assertEqual(self.ids(), [])


class InferencePools(Pods):
    LABELS = {"app": "llama"}

    def add_pod(self, number, **how):
        host = self.pod(number)
        self.api.put("pods", pod(f"llama-{number}", host, dict(self.LABELS, **{"llm-d.ai/role": "decode"}), **how))

    def test_ready_pods_are_backends_and_pods_that_are_deleted_are_not(self):
        self.add_pod(1)
        self.add_pod(2, ready=False)
        self.api.put("pods", pod("other", "127.0.1.9", {"app": "other"}))
        self.api.put("inferencepools", inference_pool("llama", self.LABELS, self.port))
        self.start(discover=POOL)
        self.assertEqual(self.ids(), self.at(1))
        [only] = self.served.api("backends")
        self.assertEqual(only["labels"]["llm-d.ai/role"], "decode")
        self.add_pod(2)
        self.wait_up(1, 2)
        self.add_pod(1, deleted=True)
        self.wait_for(2)
        self.assertEqual(self.ask(), 200)

    def test_another_selector_and_a_pool_that_comes_late_count(self):
        self.add_pod(1)
        self.api.put("pods", pod("green", self.pod(2), {"app": "green"}))
        self.start(discover=POOL)
        self.served.wait_line("there is no InferencePool models/llama")
        self.api.put("inferencepools", inference_pool("llama", self.LABELS, self.port))
        self.wait_for(1)
        self.api.put("inferencepools", inference_pool("llama", {"app": "green"}, self.port))
        self.wait_for(2)

    def test_each_rank_of_a_pod_is_a_backend(self):
        self.add_pod(1)
        second = self.backend(self.serve, host="127.0.1.1")
        self.api.put("inferencepools", inference_pool("llama", self.LABELS, self.port, second.port))
        self.start(discover=POOL)
        self.assertEqual(self.ids(), sorted(self.at(1) + [second.address]))
        self.assertEqual({each["labels"]["rank"] for each in self.served.api("backends")}, {"0", "1"})


class ApiServersInTrouble(Pods):
    def test_the_last_list_stays_while_the_server_is_away_and_its_news_come_later(self):
        self.add(1, 2)
        self.start()
        self.wait_up(1, 2)
        traffic = Traffic(self, self.served.address, h1=2, h2=0, sse=0)
        self.api.stop()
        self.eventually(lambda: self.discovered("failures_total") > 0, "a failure that is counted")
        self.served.wait_line("the 2 backends found .* ago stay")
        self.assertEqual(self.ids(), self.at(1, 2))
        self.add(3)
        self.api.compact()
        self.api.start()
        self.wait_up(1, 2, 3)
        traffic.end()

    def test_an_expired_version_leads_to_a_new_list(self):
        self.add(1)
        self.start()
        self.wait_up(1)
        lists = len(self.api.lists)
        self.add(2)
        self.wait_for(1, 2)
        self.api.compact()
        self.api.end_watches()
        self.eventually(lambda: len(self.api.lists) > lists, "another list")
        self.add(3)
        self.wait_for(1, 2, 3)
        self.assertEqual(self.discovered("failures_total"), 0, "that is no failure")

    def test_a_watch_that_ends_goes_on_from_its_last_bookmark(self):
        self.add(1)
        self.start()
        self.wait_up(1)
        self.eventually(lambda: self.api.watches)
        self.api.bookmark()
        version, lists = self.api.version, len(self.api.lists)
        self.api.end_watches()
        self.eventually(lambda: any(f"resourceVersion={version}&" in each for each in self.api.watches),
                        "a watch from the bookmark on")
        self.assertEqual(len(self.api.lists), lists, "no further list")

    def test_garbage_and_errors_inside_a_watch_change_nothing(self):
        self.add(1, 2)
        self.start()
        self.wait_up(1, 2)
        self.api.garbage = b'{"kind": "Status", "items": []}'
        for nonsense in (b"<html>", {"type": "ERROR", "object": {"code": 500, "message": "etcd"}}, {"type": "ADDED"}):
            before = self.discovered("failures_total")
            watches = len(self.api.watches)
            self.api.tell(nonsense)
            self.eventually(lambda: self.discovered("failures_total") > before, "a failure that is counted")
            self.api.garbage, kept = None, self.api.garbage
            self.eventually(lambda: len(self.api.watches) > watches, "another watch")
            self.api.garbage = kept
        self.assertEqual(self.ids(), self.at(1, 2))
        self.api.garbage = b"not even JSON"
        self.api.end_watches()
        self.api.garbage = None
        self.add(3)
        self.wait_for(1, 2, 3)

    def test_a_list_that_lacks_more_than_half_is_looked_at_twice(self):
        self.add(1, 2, 3)
        self.start()
        self.wait_up(1, 2, 3)
        kept = dict(self.api.objects)
        self.api.objects.clear()
        self.api.compact()
        self.api.end_watches()
        self.eventually(lambda: self.discovered("held_total") == 1, "a list that is held")
        self.assertEqual(self.ids(), self.at(1, 2, 3))
        self.api.objects.update(kept)
        lists = len(self.api.lists)
        self.eventually(lambda: len(self.api.lists) > lists and len(self.api.watches) > 1, "the second look")
        self.assertEqual(self.ids(), self.at(1, 2, 3))

    def test_a_list_that_stays_short_counts(self):
        self.add(1, 2, 3)
        self.start()
        self.wait_up(1, 2, 3)
        for number in (1, 2):
            del self.slice[self.pod(number)]
        self.api.objects.clear()
        self.api.objects["endpointslices", "llama-1"] = endpoint_slice("llama-1", "llama", list(self.slice.values()),
                                                                      self.port)
        self.api.compact()
        self.api.end_watches()
        self.wait_for(3)
        self.assertEqual(self.discovered("held_total"), 1)

    def test_a_slow_server_delays_the_start_but_does_not_prevent_it(self):
        self.add(1)
        self.api.delay = 4.5
        self.start()
        self.assertEqual(self.ids(), [])
        self.wait_for(1)


class Access(Pods):
    def test_a_token_that_is_replaced_is_read_again_and_the_authority_is_verified(self):
        folder = self.folder()
        authority = Authority(folder)
        issued = authority.issue("127.0.0.1")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(issued.cert, issued.key)
        self.api = ApiServer(self, token="first", tls=tls)
        token = pathlib.Path(folder, "token")
        token.write_text("first\n")
        self.add(1)
        self.start(kubernetes={"api": self.api.url, "token_file": str(token), "ca": authority.cert})
        self.assertEqual(self.ids(), self.at(1))
        self.api.token = "second"
        self.api.compact()
        self.api.end_watches()
        self.served.wait_line("answers 401: it does not accept the token")
        token.write_text("second\n")
        self.add(2)
        self.wait_for(1, 2)

    def test_a_server_of_another_authority_is_not_believed(self):
        folder = self.folder()
        issued = Authority(folder, "another").issue("127.0.0.1")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(issued.cert, issued.key)
        self.api = ApiServer(self, tls=tls)
        self.add(1)
        self.start(kubernetes={"api": self.api.url, "ca": Authority(folder).cert})
        self.served.wait_line("no backend is found yet")
        self.assertEqual(self.ids(), [])

    def test_check_and_start_need_no_api_server(self):
        self.add(1)
        self.api.stop()
        self.start()
        checked = command("check", "-c", str(self.served.config_path))
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        self.assertEqual(self.ids(), [])
        self.assertEqual(self.ask(), 503)


if __name__ == "__main__":
    case.main()
