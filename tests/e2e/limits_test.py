"""Requests for a full pool wait in a queue, first come first served. A full queue or a long wait refuses them, with a Retry-After."""

import json
import threading
import time

import case
from stream import Stream, exchange


class Gate:
    """A script that holds every request until the test releases it."""

    def __init__(self):
        self._permits = threading.Semaphore(0)

    def __call__(self, ask):
        assert self._permits.acquire(timeout=30), "the test did not release this request"
        ask.answer(ask.target.encode())

    def let_through(self, count=1):
        for _ in range(count):
            self._permits.release()


class Limits(case.Case):
    def full(self, size=10, timeout="20s", most=1, backends=1):
        """A pool whose slots are all taken by `holders`, which the gate releases."""
        self.gate = Gate()
        self.backends = [self.backend(self.gate) for _ in range(backends)]
        self.daemon_ = self.start_daemon(*self.backends, pool={"limits": {
            "max_in_flight": most, "queue": {"size": size, "timeout": timeout}}})
        self.holders = [self.ask("/holder") for _ in range(most * backends)]
        self.eventually(lambda: self.pool()["in_flight"] == most * backends, "a full pool")
        self.addCleanup(self.gate.let_through, 1000)
        return self.daemon_

    def ask(self, target):
        stream = Stream.connect(self.daemon_.address)
        self.addCleanup(stream.close)
        stream.ask("POST", target, body=b"{}")
        return stream

    def pool(self):
        return self.daemon_.api("pools")[0]

    def waiting(self, count):
        self.eventually(lambda: self.pool()["waiting"] == count, f"{count} in line")

    def test_requests_wait_and_are_served_in_the_order_in_which_they_came(self):
        daemon = self.full()
        streams = []
        for number in range(8):
            streams.append(self.ask(f"/{number}"))
            self.waiting(number + 1)  # each is queued before the next one is sent

        self.eventually(lambda: daemon.metric("evenkeel_requests_waiting", pool="pool") == 8)
        self.gate.let_through(9)
        for number, stream in enumerate(streams):
            self.assertEqual(stream.read_response().body, b"/%d" % number)

        served = [each.target for each in self.backends[0].exchanges]
        self.assertEqual(served, ["/holder"] + [f"/{number}" for number in range(8)])
        waited = [line["wait_ms"] for line in daemon.wait_access(9) if line["path"] != "/holder"]
        self.assertTrue(all(each > 0 for each in waited), waited)

    def test_no_backend_ever_has_more_than_its_limit(self):
        self.full(most=3, backends=2, size=100)
        streams = [self.ask(f"/{number}") for number in range(40)]
        self.waiting(40)
        for _ in range(46):
            for backend in self.daemon_.api("backends"):
                self.assertLessEqual(backend["in_flight"], 3)
            self.gate.let_through()
        for stream in streams:
            self.assertEqual(stream.read_response().status, 200)

    def test_a_full_queue_rejects_at_once_with_429(self):
        daemon = self.full(size=2)
        for number in range(2):
            self.ask(f"/{number}")
        self.waiting(2)

        began = time.monotonic()
        answer = exchange(daemon.address, "POST", "/v1/chat/completions", body=b"{}")

        self.assert_within(time.monotonic() - began, 5)
        self.assertEqual((answer.status, answer.reason), (429, "queue_full"))
        self.assertGreaterEqual(int(answer.field("retry-after")), 1)
        self.assertGreaterEqual(int(answer.field("retry-after-ms")), 1)
        self.assertEqual(answer.field("x-should-retry"), "true")
        self.assertEqual(json.loads(answer.body)["error"]["code"], "queue_full")
        self.assertEqual(daemon.wait_access(1)[0]["reason"], "queue_full")
        self.assertEqual(daemon.metric("evenkeel_errors_total", pool="pool", reason="queue_full"), 1)

    def test_a_queue_of_length_zero_disables_queueing(self):
        daemon = self.full(size=0)
        self.assertEqual(exchange(daemon.address).status, 429)

    def test_a_queue_timeout_answers_503(self):
        daemon = self.full(timeout="150ms")
        began = time.monotonic()
        answer = exchange(daemon.address, "POST", "/v2/models/m/infer", body=b"{}")

        self.assertGreaterEqual(time.monotonic() - began, 0.15)
        self.assertEqual((answer.status, answer.reason), (503, "queue_timeout"))
        self.assertGreaterEqual(int(answer.field("retry-after")), 1)
        self.assertEqual(set(json.loads(answer.body)), {"error"})
        line = daemon.wait_access(1)[0]
        self.assertEqual((line["reason"], line["backend"], line["attempts"]), ("queue_timeout", None, []))
        self.assertGreaterEqual(line["wait_ms"], 150)
        self.assertEqual(self.pool()["waiting"], 0)

    def test_a_client_that_disconnects_while_queued_never_reaches_a_backend(self):
        self.full(size=2)
        leaver = self.ask("/leaver")
        self.waiting(1)
        stayer = self.ask("/stayer")
        self.waiting(2)

        leaver.close()
        self.waiting(1)
        arriving = self.ask("/arriving")
        self.waiting(2)

        self.gate.let_through(3)
        self.assertEqual(stayer.read_response().body, b"/stayer")
        self.assertEqual(arriving.read_response().body, b"/arriving")
        self.assertEqual([each.target for each in self.backends[0].exchanges],
                         ["/holder", "/stayer", "/arriving"])
        left = next(line for line in self.daemon_.wait_access(4) if line["path"] == "/leaver")
        self.assertEqual((left["status"], left["reason"]), (499, "client_gone"))

    def test_a_slot_that_a_client_frees_by_leaving_goes_to_the_queue(self):
        self.full()
        waiter = self.ask("/waiter")
        self.waiting(1)
        self.holders[0].close()
        self.waiting(0)
        self.gate.let_through(2)
        self.assertEqual(waiter.read_response().body, b"/waiter")

    def test_a_full_pool_does_not_make_another_wait(self):
        gate = Gate()
        full, free = self.backend(gate), self.backend()
        daemon = self.daemon({
            "pools": [{"name": "full", "backends": [full.address],
                       "limits": {"max_in_flight": 1, "queue": {"size": 4}}},
                      {"name": "free", "backends": [free.address]}],
            "routes": [{"match": {"path": "/full"}, "pool": "full"}, {"pool": "free"}]})
        holders = []
        for _ in range(3):
            stream = Stream.connect(daemon.address)
            self.addCleanup(stream.close)
            stream.ask(target="/full")
            holders.append(stream)
        self.eventually(lambda: daemon.api("pools")[0]["waiting"] == 2, "a line")

        self.assertEqual(exchange(daemon.address, target="/free").status, 200)
        self.assertEqual(daemon.api("pools")[0]["saturation"], 1)

        gate.let_through(3)
        for stream in holders:
            self.assertEqual(stream.read_response().status, 200)


if __name__ == "__main__":
    case.main()
