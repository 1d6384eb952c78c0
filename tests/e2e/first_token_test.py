"""What counts as the beginning of a response, and what follows from it: timeouts, pickers, and the latencies that operators
see. Most servers send the head of a stream at once and its first token seconds later."""

import threading
import time

import case
from stream import Closed, Stream, exchange


def stream_after(delay, more=b""):
    """A script: the head of a stream at once, a token after `delay()` seconds."""
    def script(ask):
        ask.begin_chunks([("Content-Type", "text/event-stream")])
        time.sleep(delay())
        ask.chunk(b"data: token\n\n" + more)
        ask.end_chunks()
    return script


def fail(ask):
    ask.answer(b"{}", status=500, phrase="Broken")


class FirstToken(case.Case):
    def test_the_access_log_and_the_metrics_measure_the_first_token(self):
        daemon = self.start_daemon(self.backend(stream_after(lambda: 0.3)))
        exchange(daemon.address, "POST", body=b"{}")

        line = daemon.wait_access(1)[0]
        self.assertGreaterEqual(line["ttfb_ms"], 300)
        for name in ("time_to_first_byte_seconds", "backend_time_to_first_byte_seconds"):
            self.assertGreaterEqual(daemon.metric(f"evenkeel_{name}_sum"), 0.3, name)
        self.assertGreaterEqual(daemon.api("backends")[0]["latency"]["ttft_seconds"], 0.25)

    def check_timeout(self, backend, **pool):
        """The head arrives, the first token does not."""
        daemon = self.start_daemon(backend, pool={"timeouts": {"first_byte": "300ms", "idle": "60s"}, **pool})
        began = time.monotonic()
        with Stream.connect(daemon.address) as stream:
            stream.ask("POST", body=b"{}")
            head = stream.read_head()
            self.assertEqual(head.status, 200)
            with self.assertRaises(Closed):
                stream.read_body(head)
        self.assert_within(time.monotonic() - began, 5)
        line = daemon.wait_access(1)[0]
        self.assertEqual(line["reason"], "first_byte_timeout")
        self.assertIsNone(line["ttfb_ms"])
        self.assertEqual(daemon.metric("evenkeel_backend_errors_total", reason="first_byte_timeout"), 1)

    def test_a_stream_without_a_first_token_is_cut_off(self):
        def script(ask):
            ask.begin_chunks()
            ask.stream.wait_closed()
        self.check_timeout(self.backend(script))

    def test_a_stream_without_a_first_token_is_cut_off_over_http2(self):
        released = threading.Event()
        self.addCleanup(released.set)

        def script(ask):
            ask.begin_chunks()
            released.wait(10)
        self.check_timeout(self.h2_backend(script), protocol="h2")

    def test_pauses_after_the_first_token_are_not_limited_by_it(self):
        def script(ask):
            ask.begin_chunks()
            ask.chunk(b"a")
            time.sleep(0.5)
            ask.chunk(b"b")
            ask.end_chunks()
        daemon = self.start_daemon(self.backend(script), pool={"timeouts": {"first_byte": "200ms"}})
        self.assertEqual(exchange(daemon.address, "POST", body=b"{}").body, b"ab")


class Picking(case.Case):
    def picks(self, daemon, backends):
        known = {each["address"]: each["picks_total"] for each in daemon.api("backends")}
        return [known[each.address] for each in backends]

    def test_one_request_at_a_time_goes_to_the_fastest(self):
        for picker in ("least-latency", "gpu"):
            with self.subTest(picker):
                delays = (0.2, 0.02, 0.1)
                backends = [self.backend(stream_after(lambda delay=delay: delay)) for delay in delays]
                daemon = self.start_daemon(*backends, pool={"picker": picker})
                for _ in range(30):
                    exchange(daemon.address, "POST", body=b"{}")
                picks = self.picks(daemon, backends)
                self.assertGreater(picks[1], 15, picks)  # a busy machine delays some answers of the fastest
                self.assertGreaterEqual(min(picks), 1, picks)

    def test_a_server_that_fails_at_once_is_not_preferred(self):
        for picker in ("least-connections", "queue-depth", "least-latency", "gpu"):
            with self.subTest(picker):
                backends = [self.backend(fail)] + [self.backend(stream_after(lambda: 0.1)) for _ in range(3)]
                daemon = self.start_daemon(*backends, pool={"picker": picker})

                def client(address=daemon.address):
                    for _ in range(20):
                        exchange(address, "POST", body=b"{}")
                for each in [self.spawn(client) for _ in range(4)]:
                    each.join()
                picks = self.picks(daemon, backends)
                self.assertEqual(sum(picks), 80)
                self.assertLessEqual(picks[0], 16, picks)


class Latency(case.Case):
    def test_a_server_that_becomes_slow_shows_it_within_seconds(self):
        """Ten times slower, with 40 requests a second from then on too."""
        delay = [0.02]
        daemon = self.start_daemon(self.backend(stream_after(lambda: delay[0])))
        stop = threading.Event()

        def client():
            while not stop.is_set():
                exchange(daemon.address, "POST", body=b"{}")
                time.sleep(0.2)
        clients = [self.spawn(client) for _ in range(8)]
        try:
            def ttft():
                return daemon.api("backends")[0]["latency"]["ttft_seconds"] or 0
            time.sleep(6)  # a history of fast responses, part of the scenario
            self.assert_within(ttft(), 0.1)
            delay[0] = 0.2
            self.eventually(lambda: ttft() > 0.15, "the median to follow", within=6)
            self.assertGreater(daemon.api("backends")[0]["latency"]["ttft_p99_seconds"], 0.15)
        finally:
            stop.set()
            for each in clients:
                each.join()

    def test_failures_are_apart_from_successes(self):
        fails = [False]
        slow = stream_after(lambda: 0.1)
        daemon = self.start_daemon(self.backend(lambda ask: fail(ask) if fails[0] else slow(ask)))
        for _ in range(3):
            exchange(daemon.address, "POST", body=b"{}")
        fails[0] = True
        for _ in range(50):
            exchange(daemon.address, "POST", body=b"{}")

        latency = daemon.api("backends")[0]["latency"]
        self.assertGreater(latency["ttft_seconds"], 0.08, "fast failures are no fast responses")
        self.assertGreater(latency["e2e_seconds"], 0.08)
        self.assertGreater(latency["failures_per_second"], 1)
        self.assertEqual(daemon.api("backends")[0]["errors_total"], 50)


if __name__ == "__main__":
    case.main()
