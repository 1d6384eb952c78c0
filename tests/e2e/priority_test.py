"""Requests that wait for a slot are served by priority."""

import hashlib
import threading

import case
from stream import PATIENCE, Stream, exchange


class Priorities(case.Case):
    def setUp(self):
        self.gate = threading.Semaphore(0)
        self.served = []
        self.streams = []

    def full(self, queue=None, route=None, **config):
        """A daemon whose only slot is taken until `serve`."""
        def script(request):
            self.served.append(request.target)
            self.gate.acquire(timeout=PATIENCE)
            request.answer(b"hello")

        self.daemon_ = self.start_daemon(
            self.backend(script), pool={"limits": {"max_in_flight": 1, "queue": queue or {}}},
            routes=[{"pool": "pool", **(route or {})}], **config)
        self.send("/first")
        self.eventually(lambda: self.served == ["/first"], "the request that takes the slot")
        return self.daemon_

    def send(self, target, priority=None, key=None, source=None):
        stream = Stream.connect(self.daemon_.address, source=source)
        self.addCleanup(stream.close)
        before = self.waiting()
        fields = {"x-priority": priority, "x-api-key": key}
        stream.ask(target=target, fields=[(name, value) for name, value in fields.items() if value])
        self.streams.append(stream)
        return stream, before

    def queue(self, target, priority=None, key=None, source=None):
        """Sends a request that finds a place in the queue."""
        stream, before = self.send(target, priority, key, source)
        self.eventually(lambda: self.waiting() == before + 1, "one more in the queue")
        return stream

    def waiting(self):
        return self.daemon_.api("pools")[0]["waiting"]

    def serve(self, *streams):
        """Lets all requests through; the order in which they are served, without the first."""
        self.gate.release(100)
        for stream in streams:
            self.assertEqual(stream.read_response().status, 200)
        self.assertEqual(self.streams[0].read_response().status, 200)
        return self.served[1:]

    def test_the_most_urgent_goes_first(self):
        daemon = self.full()
        streams = [self.queue(target, priority) for target, priority in (
            ("/batch", "batch"), ("/standard", None), ("/interactive", "Interactive"), ("/odd", "highest"))]

        self.assertEqual(self.serve(*streams), ["/interactive", "/standard", "/odd", "/batch"])
        logged = {line["path"]: line.get("priority") for line in daemon.wait_access(5)}
        self.assertEqual(logged, {"/first": None, "/batch": "batch", "/standard": None,
                                  "/interactive": "interactive", "/odd": None})

    def test_an_urgent_one_takes_the_place_of_a_lower_one_in_a_full_queue(self):
        daemon = self.full(queue={"size": 2})
        kept, displaced = self.queue("/kept", "batch"), self.queue("/displaced", "batch")

        refused = exchange(daemon.address, target="/refused", fields=[("x-priority", "batch")])
        urgent, _ = self.send("/urgent", "interactive")
        answer = displaced.read_response()

        self.assertEqual((refused.status, refused.field("x-evenkeel-reason")), (429, "queue_full"))
        self.assertEqual((answer.status, answer.field("x-evenkeel-reason")), (429, "queue_full"))
        self.assertIsNotNone(answer.field("retry-after"))
        self.assertEqual(self.serve(kept, urgent), ["/urgent", "/kept"])
        self.assertEqual(daemon.metric("evenkeel_errors_total", reason="queue_full"), 2)

    def test_a_low_one_is_not_starved(self):
        self.full(queue={"timeout": "3s"})
        old = self.queue("/old", "batch")
        began = self.daemon_.api("status")["uptime_seconds"]
        # It has risen by two classes after two thirds of the timeout.
        self.eventually(lambda: self.daemon_.api("status")["uptime_seconds"] > began + 2.1, "two seconds")
        young = self.queue("/young", "interactive")

        self.assertEqual(self.serve(old, young), ["/old", "/young"])

    def test_a_route_sets_the_default_and_the_most(self):
        daemon = self.full(route={"priority": "standard"})
        streams = [self.queue("/a", "interactive"), self.queue("/b", "batch"), self.queue("/c")]

        self.assertEqual(self.serve(*streams), ["/a", "/c", "/b"])
        logged = {line["path"]: line.get("priority") for line in daemon.wait_access(4)}
        self.assertEqual(logged, {"/first": None, "/a": None, "/b": "batch", "/c": None})

    def test_a_tenant_has_a_default_and_a_most(self):
        daemon = self.full(tenants=[
            {"name": name, "keys_sha256": [hashlib.sha256(name.encode()).hexdigest()], "priority": priority}
            for name, priority in (("urgent", "interactive"), ("nightly", "batch"))])
        streams = [self.queue("/nightly", key="nightly"), self.queue("/raised", "interactive", key="nightly"),
                   self.queue("/lowered", "batch", key="urgent"), self.queue("/none", key="unknown"),
                   self.queue("/urgent", key="urgent")]

        self.assertEqual(self.serve(*streams), ["/urgent", "/none", "/nightly", "/raised", "/lowered"])
        logged = {line["path"]: (line.get("tenant"), line.get("priority")) for line in daemon.wait_access(6)}
        self.assertEqual(logged, {"/first": (None, None), "/nightly": ("nightly", "batch"), "/raised": ("nightly", "batch"),
                                  "/lowered": ("urgent", "batch"), "/none": (None, None),
                                  "/urgent": ("urgent", "interactive")})

    def test_each_client_has_a_share_of_the_places_also_if_it_is_of_no_tenant(self):
        self.full(queue={"size": 4}, tenants=[{"name": "acme", "keys_sha256": ["0" * 64]}])
        greedy = [self.queue(f"/greedy{number}", source="127.0.0.2") for number in range(4)]

        other, _ = self.send("/other", source="127.0.0.3")
        displaced = greedy.pop().read_response()

        self.assertEqual((displaced.status, displaced.reason), (429, "queue_full"))
        self.assertEqual(self.serve(*greedy, other), ["/greedy0", "/greedy1", "/greedy2", "/other"])


if __name__ == "__main__":
    case.main()
