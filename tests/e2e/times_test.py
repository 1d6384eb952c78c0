"""Which of the pauses of a client and a server each time that we report contains. Both pause in every gap; pauses between
requests belong to none."""

import json
import ssl
import time

import case
import http2
from certificates import Authority
from slowness import slowness
from stream import Stream

CHAT = "/v1/chat/completions"
BODY = json.dumps({"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "hello"}]}).encode()
TOKEN = (b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"tiny","choices":'
         b'[{"index":0,"delta":{"content":"word"},"finish_reason":null}]}\n\n')
USAGE = (b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"tiny","choices":[],'
         b'"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}\n\n')

BODY_PARTS = [BODY[:20], BODY[20:]]
HEAD_PAUSES, BODY_PAUSES = 1, 3  # of the client: within its head; before, within and at the end of its body
# Of the server: before its head, within it, before the first token, between two, before the end.
SERVER_PAUSES_TO_FIRST_BYTE, SERVER_PAUSES = 3, 5


class Http1Client:
    """Sends a chunked request in parts, and what follows it at another time."""

    def __init__(self, stream):
        self.stream = stream

    def exchange(self, pause):
        self.stream.send(b"P")
        pause()
        self.stream.send(b"OST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                         b"Transfer-Encoding: chunked\r\n\r\n" % CHAT.encode())
        for part in BODY_PARTS:
            pause()
            self.stream.send(b"%x\r\n%s\r\n" % (len(part), part))
        pause()
        self.stream.send(b"0\r\nx-trailer: 1\r\n\r\n")
        return self.stream.read_response()

    def send_two_segments(self):
        """As most clients in Python send their requests."""
        self.stream.send(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                         % (CHAT.encode(), len(BODY)))
        time.sleep(0.02)
        self.stream.send(BODY)
        return self.stream.read_response()

    def close(self):
        self.stream.close()


class Http2Client:
    def __init__(self, wire):
        self.wire = wire.open()
        self.number = -1

    def exchange(self, pause):
        self.number += 2
        block = http2.literal(http2.request_fields("POST", CHAT, [("content-type", "application/json")]))
        self.wire.send(http2.frame(http2.HEADERS, 0, self.number, block[:30]))
        pause()
        self.wire.send(http2.frame(http2.CONTINUATION, http2.END_HEADERS, self.number, block[30:]))
        for part in BODY_PARTS:
            pause()
            self.wire.send(http2.data(self.number, part))
        pause()
        self.wire.send(http2.data(self.number, b"", end=True))
        return self.wire.answer_to(self.number)

    def send_two_segments(self):
        self.number += 2
        self.wire.ask(self.number, "POST", CHAT, [("content-type", "application/json")], end=False)
        time.sleep(0.02)
        self.wire.send(http2.data(self.number, BODY, end=True))
        return self.wire.answer_to(self.number)

    def close(self):
        self.wire.close()


class Times(case.Case):
    def setUp(self):
        self.length = 0.3 * min(slowness(), 2)
        self.quiet = False  # the server does not pause

    def pause(self, count=1):
        if not self.quiet:
            time.sleep(count * self.length)

    def script(self, ask):
        self.pause()
        ask.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n")
        self.pause()
        ask.send(b"Content-Type: text/event-stream\r\n\r\n")
        self.pause()
        ask.chunk(TOKEN)
        self.pause()
        ask.chunk(TOKEN)
        ask.chunk(USAGE)
        self.pause()
        ask.end_chunks()

    def serve(self, inspect, **listener):
        return self.start_daemon(
            self.backend(self.script), workers=1, listeners=[{"name": "public", **listener}],
            pool={"inspect": inspect, "engine": "vllm", "health": {"check": "off"}, "metrics": {"scrape": "off"}})

    def assert_pauses(self, seconds, count, what):
        """So many pauses are in a time."""
        low, high = (count - 0.25) * self.length, (count + 0.9) * self.length
        self.assertTrue(low <= seconds < high, f"{what}: {seconds * 1000:.0f} ms, which is {seconds / self.length:.2f} "
                        f"pauses and not {count}")

    def measure(self, daemon, client, inspect):
        """One request with pauses, after one without and an idle time."""
        self.quiet = True
        self.assertEqual(client.send_two_segments().status, 200)
        self.quiet = False
        self.pause(2)
        before = daemon.metrics()
        self.assertEqual(client.exchange(self.pause).status, 200)
        line = daemon.wait_access(2)[-1]
        after = daemon.metrics()

        def grown(name):
            sums = [sum(value for (series, _), value in page.items() if series == name + "_sum")
                    for page in (before, after)]
            return sums[1] - sums[0]

        to_first_byte = HEAD_PAUSES + BODY_PAUSES + SERVER_PAUSES_TO_FIRST_BYTE
        in_all = HEAD_PAUSES + BODY_PAUSES + SERVER_PAUSES
        logged = {"duration_ms": in_all, "head_ms": HEAD_PAUSES, "wait_ms": 0, "connect_ms": 0, "retry_ms": 0,
                  "overhead_ms": 0, "backend_ms": SERVER_PAUSES + (0 if inspect else BODY_PAUSES),
                  "ttfb_ms": to_first_byte}
        counted = {"request_duration": in_all, "time_to_first_byte": to_first_byte, "wait": 0, "overhead": 0,
                   "backend_time_to_first_byte": SERVER_PAUSES_TO_FIRST_BYTE, "backend_latency": SERVER_PAUSES}
        if inspect:
            logged |= {"body_ms": BODY_PAUSES, "ttft_ms": to_first_byte, "tpot_ms": 1, "max_gap_ms": 1}
            counted |= {"time_to_first_token": to_first_byte, "inter_token_gap": 1, "time_per_output_token": 1}
            request = daemon.api("requests/recent")[0]
            for name, count in (("duration", in_all), ("wait", 0), ("ttft", to_first_byte), ("tpot", 1),
                                ("max_gap", 1)):
                self.assert_pauses(request[f"{name}_seconds"], count, f"ctl requests: {name}")
        for name, count in logged.items():
            self.assert_pauses(line[name] / 1000, count, name)
        for name, count in counted.items():
            self.assert_pauses(grown(f"evenkeel_{name}_seconds"), count, name)
        parts = sum(line.get(name) or 0 for name in ("head_ms", "body_ms", "wait_ms", "connect_ms", "retry_ms",
                                                     "overhead_ms", "backend_ms"))
        self.assertAlmostEqual(line["duration_ms"], parts, delta=0.01)

    def check(self, make_client, tls=None, proxy=False):
        for inspect in (False, True):
            with self.subTest(inspect=inspect):
                daemon = self.serve(inspect, **({"tls": tls} if tls else {}),
                                    **({"proxy_protocol": ["127.0.0.0/8"]} if proxy else {}))
                client = make_client(daemon.address)
                self.addCleanup(client.close)
                self.measure(daemon, client, inspect)
                client.close()
                daemon.finish()

    def trusting_tls(self):
        authority = Authority(self.folder())
        return {"certificates": [authority.issue("127.0.0.1").config()]}, ssl.create_default_context(cafile=authority.cert)

    def test_over_http1(self):
        self.check(lambda address: Http1Client(Stream.connect(address)))

    def test_over_http1_with_tls(self):
        listener, context = self.trusting_tls()
        self.check(lambda address: Http1Client(Stream.connect(address, tls=context)), listener)

    def test_over_http1_behind_a_proxy_header(self):
        def connect(address):
            stream = Stream.connect(address)
            stream.send(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n")
            time.sleep(self.length)
            return Http1Client(stream)

        self.check(connect, proxy=True)

    def test_over_http2(self):
        self.check(lambda address: Http2Client(http2.Wire.connect(address)))

    def test_over_http2_with_tls(self):
        listener, context = self.trusting_tls()
        context.set_alpn_protocols(["h2"])
        self.check(lambda address: Http2Client(http2.Wire.connect(address, tls=context)), listener)

    def test_a_wait_for_a_slot_is_in_no_other_time(self):
        def slow(ask):
            self.pause(2)
            ask.answer(b"done")

        backend = self.backend(slow)
        daemon = self.start_daemon(backend, workers=1, pool={"limits": {"max_in_flight": 1}})
        with Stream.connect(daemon.address) as first, Stream.connect(daemon.address) as second:
            first.ask(target="/first")
            self.eventually(lambda: backend.exchanges, "the first request")
            second.ask(target="/second")
            first.read_response()
            second.read_response()

        line = next(each for each in daemon.wait_access(2) if each["path"] == "/second")
        for name, count in (("wait_ms", 2), ("backend_ms", 2), ("duration_ms", 4), ("head_ms", 0), ("connect_ms", 0),
                            ("overhead_ms", 0), ("ttfb_ms", 4)):
            self.assert_pauses(line[name] / 1000, count, name)

    def test_a_kept_connection_lasts_as_long_as_it_may_be_idle(self):
        self.quiet = True
        daemon = self.serve(False, timeouts={"header": "200ms", "idle": "60s"})
        client = Http1Client(Stream.connect(daemon.address))
        self.addCleanup(client.close)
        client.send_two_segments()
        time.sleep(0.6)
        self.assertEqual(client.send_two_segments().status, 200)
        self.assertEqual([line["reason"] for line in daemon.wait_access(2)], [None, None])


if __name__ == "__main__":
    case.main()
