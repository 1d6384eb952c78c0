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


ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}\n\n'
HEARTBEAT = 0.05


def beat(ask, seconds=None):
    """A comment at once and then every so often, as llama.cpp and proxies send them; without `seconds` until the peer
    leaves."""
    end = None if seconds is None else time.monotonic() + seconds
    while end is None or time.monotonic() < end:
        ask.chunk(b": heartbeat\n\n")
        time.sleep(HEARTBEAT)


def heartbeats_before(delay):
    """A script: comments and the role at once, a token after `delay` seconds."""
    def script(ask):
        ask.begin_chunks([("Content-Type", "text/event-stream")])
        ask.chunk(b": heartbeat\n\n" + ROLE)
        beat(ask, delay)
        ask.chunk(TOKEN + b"data: [DONE]\n\n")
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

    def test_comments_and_roles_are_no_token(self):
        for inspect in (False, True):
            with self.subTest(inspect=inspect):
                daemon = self.start_daemon(self.backend(heartbeats_before(0.4)), pool={"inspect": inspect})
                body = exchange(daemon.address, "POST", "/v1/chat/completions",
                                body=b'{"model":"m","stream":true,"messages":[]}').body
                self.assertTrue(body.startswith(b": heartbeat\n\n"), body)

                line = daemon.wait_access(1)[0]
                self.assertGreaterEqual(line["ttfb_ms"], 400)
                for name in ("time_to_first_byte_seconds", "backend_time_to_first_byte_seconds"):
                    self.assertGreaterEqual(daemon.metric(f"evenkeel_{name}_sum"), 0.4, name)
                self.assertGreaterEqual(daemon.api("backends")[0]["latency"]["ttft_seconds"], 0.35)

    def test_white_space_before_json_is_no_answer(self):
        def script(ask):
            ask.begin_chunks([("Content-Type", "application/json")])
            for _ in range(8):
                ask.chunk(b" \n")
                time.sleep(HEARTBEAT)
            ask.chunk(b'{"choices":[]}')
            ask.end_chunks()
        daemon = self.start_daemon(self.backend(script))
        self.assertEqual(exchange(daemon.address, "POST", "/v1/chat/completions", body=b"{}").body, b" \n" * 8 + b'{"choices":[]}')
        self.assertGreaterEqual(daemon.wait_access(1)[0]["ttfb_ms"], 400)
        self.assertGreaterEqual(daemon.metric("evenkeel_backend_time_to_first_byte_seconds_sum"), 0.4)
        self.assertGreaterEqual(daemon.api("backends")[0]["latency"]["ttft_seconds"], 0.35)

    def test_lists_of_json_are_output(self):
        def script(ask):
            ask.begin_chunks([("Content-Type", "text/event-stream")])
            ask.chunk(b": heartbeat\n\ndata: []\n\n")
            time.sleep(0.3)
            ask.chunk(b'data: [{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}]\n\n')
            ask.chunk(b"data: [DONE]\n\n")
            ask.end_chunks()
        daemon = self.start_daemon(self.backend(script))
        exchange(daemon.address, "POST", "/v1beta/models/m:streamGenerateContent", body=b"{}")
        self.assertGreaterEqual(daemon.wait_access(1)[0]["ttfb_ms"], 300)
        ttft = daemon.api("backends")[0]["latency"]["ttft_seconds"]
        self.assertIsNotNone(ttft, "a stream without output is no sample")
        self.assertGreaterEqual(ttft, 0.25)

    def test_a_stream_that_ends_without_output_says_nothing_of_the_speed(self):
        def script(ask):
            ask.begin_chunks([("Content-Type", "text/event-stream")])
            ask.chunk(b": heartbeat\n\n")
            ask.end_chunks()
        daemon = self.start_daemon(self.backend(script))
        self.assertEqual(exchange(daemon.address, "POST", body=b"{}").body, b": heartbeat\n\n")
        daemon.wait_access(1)
        self.assertIsNone(daemon.api("backends")[0]["latency"]["ttft_seconds"])

    def test_comments_do_not_hide_a_server_that_never_starts(self):
        def script(ask):
            ask.begin_chunks([("Content-Type", "text/event-stream")])
            try:
                beat(ask)
            except OSError:
                pass  # evenkeel has left
        for backend, pool in ((self.backend(script), {}), (self.h2_backend(script), {"protocol": "h2"})):
            with self.subTest(pool):
                daemon = self.start_daemon(backend, pool={"timeouts": {"first_byte": "400ms"}, **pool})
                with Stream.connect(daemon.address) as stream:
                    stream.ask("POST", "/v1/chat/completions", body=b"{}")
                    head = stream.read_head()
                    self.assertEqual(head.status, 200)
                    got = b""
                    with self.assertRaises(Closed):
                        while True:
                            got += stream.read_chunk(head)
                self.assertTrue(got.startswith(b": heartbeat\n\n"), got)
                self.assertIn(b"first_byte_timeout", got.splitlines()[-2])
                line = daemon.wait_access(1)[0]
                self.assertEqual(line["reason"], "first_byte_timeout")
                self.assertIsNone(line["ttfb_ms"])

    def test_a_subscription_may_consist_of_comments(self):
        def script(ask):
            ask.begin_chunks([("Content-Type", "text/event-stream")])
            beat(ask, 0.8)
            ask.end_chunks()
        daemon = self.start_daemon(self.backend(script), pool={"timeouts": {"first_byte": "300ms"}})
        answer = exchange(daemon.address, "GET", "/events")
        self.assertGreaterEqual(answer.body.count(b": heartbeat"), 8)

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

    def test_heartbeats_make_no_server_fast(self):
        for picker in ("least-latency", "gpu"):
            with self.subTest(picker):
                backends = [self.backend(heartbeats_before(0.6)), self.backend(stream_after(lambda: 0.1, TOKEN))]
                daemon = self.start_daemon(*backends, pool={"picker": picker})
                for _ in range(20):
                    exchange(daemon.address, "POST", body=b"{}")
                picks = self.picks(daemon, backends)
                self.assertGreater(picks[1], 10, picks)  # nearly none if a heartbeat were a token

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
