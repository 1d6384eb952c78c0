"""HTTP/2 backends, correct and misbehaving: connections are shared up to the backend's limit, refused requests go to
another backend, and a backend that violates the protocol affects only its own requests."""

import signal
import struct
import threading
import time

import case
import http2
from http2 import (ACK, CONTINUATION, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, INTERNAL_ERROR,
                   MAX_CONCURRENT_STREAMS, MAX_HEADER_LIST_SIZE, NO_ERROR, PUSH_PROMISE, REFUSED_STREAM, SETTINGS, Peer, Reset, data, frame,
                   goaway, headers, literal, ping, rst_stream, settings, window_update)
from process import SANITIZED
from stream import PATIENCE, Closed, Stream, exchange

MEGABYTE = 1 << 20
MOST_MEMORY = 8 * MEGABYTE

OK = [(":status", "200")]


def answer(stream, body=b"fine"):
    return headers(stream, OK, end=False) + data(stream, body, end=True)


class Gate:
    """A script that holds every request until `let_through()`."""

    def __init__(self):
        self.held = []
        self._open = threading.Event()

    def __call__(self, request):
        self.held.append(request)
        assert self._open.wait(PATIENCE), "this request was never let through"
        request.answer(request.target.encode())

    def let_through(self):
        self._open.set()


class Sharing(case.Case):
    def front(self, *backends, pool=None, **config):
        return self.start_daemon(*backends, pool={"protocol": "h2", **(pool or {})}, workers=1, **config)

    def ask_many(self, daemon, count, path="/%d"):
        peer = Peer.connect(daemon.address)
        self.addCleanup(peer.close)
        return [peer.request(path=path % number if "%" in path else path) for number in range(count)]

    def test_many_requests_share_one_connection(self):
        gate = Gate()
        backend = self.h2_backend(gate)
        daemon = self.front(backend)
        calls = self.ask_many(daemon, 50)
        self.eventually(lambda: len(gate.held) == 50, "all requests at the backend")
        gate.let_through()
        for number, call in enumerate(calls):
            self.assertEqual(call.read_response().body, b"/%d" % number)
        self.assertEqual(backend.accepted, 1)

    def test_requests_of_many_http1_clients_share_one_connection(self):
        gate = Gate()
        backend = self.h2_backend(gate)
        daemon = self.front(backend)
        streams = []
        for number in range(20):
            streams.append(Stream.connect(daemon.address))
            self.addCleanup(streams[-1].close)
            streams[-1].ask(target=f"/{number}")
        self.eventually(lambda: len(gate.held) == 20, "all requests at the backend")
        gate.let_through()
        for number, stream in enumerate(streams):
            self.assertEqual(stream.read_response().body, b"/%d" % number)
        self.assertEqual(backend.accepted, 1)

    def test_requests_over_the_backends_limit_use_another_connection(self):
        gate = Gate()
        backend = self.h2_backend(gate, values={MAX_CONCURRENT_STREAMS: 10})
        daemon = self.front(backend)
        calls = self.ask_many(daemon, 1)
        self.eventually(lambda: len(gate.held) == 1)  # now the daemon knows its settings
        calls += self.ask_many(daemon, 24)
        self.eventually(lambda: len(gate.held) == 25, "all requests at the backend: none waits in the library")
        gate.let_through()
        for call in calls:
            self.assertEqual(call.read_response().status, 200)
        self.assertGreaterEqual(backend.accepted, 3)

    def test_a_lowered_limit_applies_from_then_on(self):
        gate = Gate()
        backend = self.h2_backend(gate)
        daemon = self.front(backend)
        calls = self.ask_many(daemon, 5)
        self.eventually(lambda: len(gate.held) == 5, "all requests at the backend")
        first = backend.peers[0]
        first.send(settings({MAX_CONCURRENT_STREAMS: 1}), ping(b"have you"))
        self.eventually(lambda: any(each.kind == http2.PING for each in first.trace), "the answer")
        calls += self.ask_many(daemon, 5)
        self.eventually(lambda: len(gate.held) == 10, "all requests at the backend")
        self.assertEqual(len(first.streams), 5)
        gate.let_through()
        for call in calls:
            self.assertEqual(call.read_response().status, 200)

    def test_a_client_reset_affects_no_other_stream(self):
        gate = Gate()
        backend = self.h2_backend(gate)
        daemon = self.front(backend)
        calls = self.ask_many(daemon, 10)
        self.eventually(lambda: len(gate.held) == 10, "all requests at the backend")
        leaver = next(request for request in gate.held if request.target == "/3")
        began = time.monotonic()
        calls[3].reset()
        self.assert_within(leaver.wait_disconnected() - began, 0.5 if not SANITIZED else 5)
        self.assertEqual(leaver.stream.reset_code, http2.CANCEL)
        gate.let_through()
        for number, call in enumerate(calls):
            if number != 3:
                self.assertEqual(call.read_response().body, b"/%d" % number)
        self.assertEqual(backend.connections(), 1)

    def test_a_slow_client_delays_only_its_own_response(self):
        sent = [0]

        def script(request):
            if request.target != "/large":
                return request.answer(b"small")
            request.begin_chunks()
            for _ in range(800):
                request.chunk(b"x" * 65536)
                sent[0] += 65536
            request.end_chunks()

        backend = self.h2_backend(script)
        daemon = self.front(backend)
        before = daemon.resident_bytes()
        peer = Peer.connect(daemon.address)
        self.addCleanup(peer.close)
        large = peer.request(path="/large")
        self.assertEqual(large.read_head().status, 200)
        for _ in range(200):  # on the same client and backend connections
            self.assertEqual(peer.exchange(path="/small").body, b"small")
        self.assertLess(sent[0], 20 * MEGABYTE, "nothing holds the backend back")
        if not SANITIZED:
            self.assertLess(daemon.resident_bytes() - before, MOST_MEMORY)
        self.assertEqual(sum(map(len, large.pieces())), 800 * 65536)
        self.assertEqual(backend.accepted, 1)

    def test_queued_uploads_do_not_block_the_active_one(self):
        body = b"u" * 300_000
        backend = self.h2_backend(lambda request: request.answer(b"%d" % len(request.body)))
        daemon = self.front(backend, pool={"limits": {"max_in_flight": 1}})
        with Peer.connect(daemon.address) as peer:
            uploads = [self.spawn(lambda: peer.exchange("POST", "/up", body=body).body) for _ in range(30)]
            for upload in uploads:
                self.assertEqual(upload.join(), b"300000")

    def test_requests_that_the_drain_cuts_off_are_logged_as_such(self):
        gate = Gate()
        daemon = self.front(self.h2_backend(gate), shutdown={"drain": "200ms"})
        with Peer.connect(daemon.address) as peer:
            peer.request(path="/held")
            self.eventually(lambda: len(gate.held) == 1)
            daemon.signal(signal.SIGTERM)
            self.assertEqual(daemon.wait_exit(), 3)
        gate.let_through()
        (line,) = daemon.wait_access(1)
        self.assertEqual((line["path"], line["reason"]), ("/held", "draining"))

    def test_trailers_after_a_full_write_are_complete(self):
        trailers = [(f"z{number}", "\\" * 900) for number in range(32)]
        sent = threading.Event()

        def play(wire, _):
            assert sent.wait(PATIENCE)  # everything waits for our settings until then
            wire.send(settings({MAX_CONCURRENT_STREAMS: 100, INITIAL_WINDOW_SIZE: MEGABYTE}), window_update(0, 1 << 24))
            section = 0
            while True:
                received = wire.take()
                if received.kind == SETTINGS and not received.flags & ACK:
                    wire.send(settings(ack=True))
                if received.kind == HEADERS and received.flags & END_STREAM:
                    section = received.stream
                if received.kind in (HEADERS, CONTINUATION) and received.stream == section and received.flags & END_HEADERS:
                    wire.send(answer(section, b"whole"))

        daemon = self.front(self.hostile(play))
        with http2.Wire.connect(daemon.address) as client:
            client.open()
            client.send(*[headers(stream, http2.request_fields("POST"), end=False) for stream in (1, 3, 5, 7, 9)])
            for stream in (1, 3, 5):
                client.send(*[data(stream, b"x" * 16384)] * 3)
            block = literal(trailers)
            parts = [block[at:at + 16384] for at in range(0, len(block), 16384)]
            client.send(data(7, end=True), frame(HEADERS, END_STREAM, 9, parts[0]),
                        *[frame(CONTINUATION, END_HEADERS if part is parts[-1] else 0, 9, part) for part in parts[1:]])
            self.eventually(lambda: daemon.metric("evenkeel_requests_in_flight") == 5)
            sent.set()
            while True:
                received = client.take()
                if received.kind == http2.DATA and received.stream == 9:
                    self.assertEqual(received.payload, b"whole")
                    break

    def test_interim_responses_pass(self):
        def script(request):
            request.send_head([("link", "</style.css>; rel=preload")], status=103)
            request.answer(b"done")

        daemon = self.front(self.h2_backend(script))
        with Peer.connect(daemon.address) as peer:
            call = peer.request()
            self.assertEqual(call.read_response().body, b"done")
            self.assertEqual([each.status for each in call.interim], [103])

    def test_a_length_that_the_backend_does_not_declare_is_not_declared_to_the_client(self):
        def script(request):
            status = 304 if request.target == "/unchanged" else 200
            request.send_head([], status=status, end=True)

        daemon = self.front(self.h2_backend(script))
        for method, target in (("HEAD", "/"), ("GET", "/unchanged")):
            response = exchange(daemon.address, method, target)
            self.assertIsNone(response.field("content-length"), response)
            with Peer.connect(daemon.address) as peer:
                response = peer.request(method=method, path=target).read_response()
                self.assertIsNone(response.field("content-length"), response)

    def test_a_status_that_does_not_exist_is_an_error(self):
        backend = self.h2_backend(lambda request: request.send_head([], status=999, end=True))
        daemon = self.front(backend)
        self.assertEqual(exchange(daemon.address).status, 502)

    def test_auto_detects_the_backends_protocol(self):
        modern = self.h2_backend(lambda request: request.answer(b"modern"))
        plain = self.backend(lambda request: request.answer(b"plain"))
        for backend, words in ((modern, b"modern"), (plain, b"plain")):
            daemon = self.start_daemon(backend, pool={"protocol": "auto"})
            for _ in range(3):
                self.assertEqual(exchange(daemon.address, "POST", body=b"{}").body, words)

    def test_idle_connections_are_closed(self):
        backend = self.h2_backend()
        daemon = self.front(backend, pool={"keep_alive": {"idle": "200ms"}})
        self.assertEqual(exchange(daemon.address).body, b"hello")
        self.eventually(lambda: backend.connections() == 0, "the end of the idle link")


class SharedConnections(case.Case):
    """What one client sends must not end the connection that others use."""

    def test_a_head_that_the_backend_would_not_accept_is_refused(self):
        backend = self.h2_backend(values={MAX_HEADER_LIST_SIZE: 8192})
        daemon = self.start_daemon(backend, workers=1, pool={"protocol": "h2"})
        self.assertEqual(exchange(daemon.address).status, 200)  # its SETTINGS are here
        answer = exchange(daemon.address, fields=[("x-large", "x" * 20_000)])
        self.assertEqual((answer.status, answer.reason), (431, "header_too_large"))
        self.assertEqual(exchange(daemon.address, fields=[("x-large", "x" * 7_000)]).status, 200)
        self.assertEqual(len(backend.exchanges), 2)
        self.assertEqual(daemon.backend(backend.address)["errors_total"], 0)


class Refusing(case.Case):
    """A request that the backend has certainly not processed may go to another backend, even a POST."""

    def first_then_good(self, play, **pool):
        """A scripted backend and a normal one; the first is always picked first."""
        good = self.h2_backend(lambda request: request.answer(b"good " + request.body))
        bad = self.hostile(play)
        daemon = self.start_daemon(bad, good, workers=1, pool={
            "protocol": "h2", "picker": "round-robin", **pool})
        return daemon, bad, good

    def check_sent_to_another_backend(self, play, attempts=2, **pool):
        daemon, _, good = self.first_then_good(play, **pool)
        for number in range(4):
            body = b"body %d" % number
            told = exchange(daemon.address, "POST", "/v1/x", body=body)
            self.assertEqual((told.status, told.body), (200, b"good " + body))
        self.assertEqual(len(good.exchanges), 4)
        self.assertGreaterEqual(max(len(line["attempts"]) for line in daemon.wait_access(4)), attempts)

    @staticmethod
    def requests(wire):
        """Yields the streams of the requests as they arrive."""
        while True:
            received = wire.take()
            if received.kind == SETTINGS and not received.flags & ACK:
                wire.send(settings(ack=True))
            if received.kind == http2.PING and not received.flags & ACK:
                wire.send(ping(received.payload, ack=True))
            if received.kind == HEADERS:
                yield received.stream

    def test_a_refused_stream(self):
        def play(wire, _):
            wire.send(settings())
            for stream in self.requests(wire):
                wire.send(rst_stream(stream, REFUSED_STREAM))

        self.check_sent_to_another_backend(play)

    def test_a_goaway_that_names_no_stream(self):
        def play(wire, _):
            wire.send(settings())
            for _ in self.requests(wire):
                wire.send(goaway(0, NO_ERROR))
                wire.until_closed()

        self.check_sent_to_another_backend(play)

    def test_a_goaway_and_a_close_that_name_no_stream(self):
        def play(wire, _):
            wire.send(settings())
            for _ in self.requests(wire):
                wire.send(goaway(0, http2.ENHANCE_YOUR_CALM))
                return

        self.check_sent_to_another_backend(play)

    def test_only_an_idle_close_race_is_retried(self):
        asked = []  # (connection, stream)
        working = threading.Event()

        def play(wire, _):
            connection = len({number for number, _ in asked})
            wire.send(settings())
            for stream in self.requests(wire):
                asked.append((connection, stream))
                if connection > 0 or stream == 1:
                    wire.send(answer(stream))
                elif stream == 3:
                    working.set()  # as long as it takes
                else:
                    return  # closes without a word about either stream

        daemon = self.start_daemon(self.hostile(play), workers=1, pool={"protocol": "h2"})
        self.assertEqual(exchange(daemon.address, "POST", "/first", body=b"1").status, 200)
        long = self.spawn(lambda: exchange(daemon.address, "POST", "/long", body=b"2").status)
        self.assertTrue(working.wait(PATIENCE))
        time.sleep(1.1)  # a request older than a second is no idle-close race
        self.assertEqual(exchange(daemon.address, "POST", "/short", body=b"3").status, 200)
        self.assertEqual(long.join(), 502)
        self.assertEqual(asked, [(0, 1), (0, 3), (0, 5), (1, 1)])

    def test_a_backend_that_allows_no_streams(self):
        def play(wire, _):
            wire.send(settings({MAX_CONCURRENT_STREAMS: 0}))
            for stream in self.requests(wire):
                wire.send(rst_stream(stream, REFUSED_STREAM))

        self.check_sent_to_another_backend(play, attempts=1)  # nothing could be sent to the others, so they are not attempts

    def test_only_backends_that_allow_no_streams_is_an_error_within_the_timeout(self):
        def play(wire, _):
            wire.send(settings({MAX_CONCURRENT_STREAMS: 0}))
            for stream in self.requests(wire):
                wire.send(rst_stream(stream, REFUSED_STREAM))

        daemon = self.start_daemon(self.hostile(play), pool={
            "protocol": "h2", "timeouts": {"connect": "1s", "first_byte": "2s"}})
        began = time.monotonic()
        told = exchange(daemon.address, "POST", body=b"{}")
        self.assertIn(told.status, (502, 503, 504))
        self.assert_within(time.monotonic() - began, 10)

    def test_a_goaway_lets_older_streams_finish(self):
        """The first of two requests is answered on the closing connection, the second on another."""
        second = threading.Event()

        def play(wire, number):
            wire.send(settings())
            asked = self.requests(wire)
            first = next(asked)
            if number == 1:
                wire.send(headers(first, OK, end=False), data(first, b"begun "))
                wire.until(lambda told: sum(each.kind == HEADERS for each in told.frames) == 2)
                wire.send(goaway(first, NO_ERROR))
                second.wait(PATIENCE)
                wire.send(data(first, b"and ended", end=True))
                wire.until_closed()
            else:
                wire.send(answer(first, b"elsewhere"))
                wire.until_closed()

        backend = self.hostile(play)
        daemon = self.start_daemon(backend, pool={"protocol": "h2"}, workers=1)
        with Peer.connect(daemon.address) as peer:
            older = peer.request(path="/older")
            self.assertEqual(older.read_head().status, 200)
            self.assertEqual(peer.exchange("POST", "/newer", body=b"again").body, b"elsewhere")
            second.set()
            self.assertEqual(older.read_body(), b"begun and ended")
        self.assertEqual(backend.accepted, 2)

    def test_a_reset_with_another_code_is_not_retried(self):
        """The backend may have processed the request."""
        count = [0]

        def play(wire, _):
            wire.send(settings())
            for stream in self.requests(wire):
                count[0] += 1
                wire.send(rst_stream(stream, INTERNAL_ERROR))

        daemon = self.start_daemon(self.hostile(play), self.hostile(play), pool={"protocol": "h2"})
        self.assertEqual(exchange(daemon.address, "POST", body=b"{}").status, 502)
        self.assertEqual(count, [1])


class Keepalive(case.Case):
    """PING tells a slow model from a dead server."""

    def test_a_slow_backend_is_kept_and_a_dead_one_is_detected(self):
        def think(request):
            if request.target == "/think":
                time.sleep(13)
            request.answer(b"thought")

        thinking = self.h2_backend(think)
        gone = self.hostile(lambda wire, _: (wire.send(settings()), wire.until_closed(60)))
        daemons = [self.start_daemon(backend, pool={"protocol": "h2"}) for backend in (thinking, gone)]
        answer_ = self.spawn(lambda: exchange(daemons[0].address, "POST", "/think", body=b"{}"))
        with Stream.connect(daemons[1].address) as stream:
            stream.socket.settimeout(40)
            began = time.monotonic()
            told = stream.exchange("POST", "/", body=b"{}")
            self.assertEqual(told.status, 502)
            self.assert_within(time.monotonic() - began, 30)
        self.assertEqual(answer_.join().body, b"thought")
        self.assertEqual(thinking.accepted, 1)
        self.assertGreaterEqual(thinking.peers[0].pings, 1)
        self.assertLessEqual(thinking.peers[0].pings, 2, "gRPC's servers end connections that ping more")


class Disconnects(case.Case):
    """A backend that violates the protocol or floods us."""

    def check(self, play, status=502, aborted=False, within=10, requests=1):
        """`play(wire, stream)` answers a request. The client gets a 502 or, if the response had begun (`aborted`), a visible
        abort. Clients of another pool are served all the time, and memory does not grow."""
        def each_connection(wire, _):
            wire.send(settings())
            for stream in Refusing.requests(wire):
                play(wire, stream)

        bad = self.hostile(each_connection)
        good = self.h2_backend(lambda request: request.answer(b"good"))
        daemon = self.daemon({
            "pools": [{"name": name, "protocol": "h2", "backends": [backend.address]}
                      for name, backend in (("bad", bad), ("good", good))],
            "routes": [{"match": {"path": "/good"}, "pool": "good"}, {"match": {"path": "/**"}, "pool": "bad"}],
            "workers": 1})
        before = daemon.resident_bytes()
        most = [before]
        stop = threading.Event()

        def bystander():
            with Peer.connect(daemon.address) as peer:
                while not stop.is_set():
                    assert peer.exchange(path="/good").body == b"good"
                    most[0] = max(most[0], daemon.resident_bytes())
                    stop.wait(0.01)

        beside = self.spawn(bystander)
        try:
            for _ in range(requests):
                began = time.monotonic()
                with Peer.connect(daemon.address) as peer:
                    try:
                        self.assertEqual(peer.exchange("POST", "/bad", body=b"{}").status, status)
                    except (Reset, Closed):
                        self.assertTrue(aborted, "it should have been told")
                    self.assertEqual(peer.violations, [])
                self.assert_within(time.monotonic() - began, within)
        finally:
            stop.set()
            beside.join()
        if not SANITIZED:
            self.assertLess(most[0] - before, MOST_MEMORY)
        daemon.wait_at_rest()
        return daemon

    def flood(self, wire, *chunks, times):
        """Sends until the daemon closes the connection."""
        for _ in range(times):
            wire.send(*chunks)
        wire.until_closed()

    # ---- floods ----

    def test_endless_interim_responses(self):
        self.check(lambda wire, stream: self.flood(
            wire, headers(stream, [(":status", "103"), ("link", "x" * 100)], end=False) * 100, times=5000))

    def test_an_oversized_header_list(self):
        def play(wire, stream):
            block = literal([*OK, *[("x-large", "x" * 8000)] * 40])
            parts = [block[at:at + 16384] for at in range(0, len(block), 16384)]
            wire.send(*(frame(CONTINUATION if at else HEADERS, END_HEADERS if at == len(parts) - 1 else 0, stream, part)
                        for at, part in enumerate(parts)))

        self.check(play)

    def test_a_bomb_of_indexed_fields(self):
        def play(wire, stream):
            block = literal(OK) + b"\x40\x01x" + http2.integer(4000, 7) + b"v" * 4000 + b"\xbe" * 12_000
            wire.send(frame(HEADERS, END_HEADERS | END_STREAM, stream, block))

        self.check(play, requests=5)

    def test_endless_continuations(self):
        self.check(lambda wire, stream: (
            wire.send(headers(stream, OK, flags=0)),
            self.flood(wire, frame(CONTINUATION, 0, stream, literal([("x", "y" * 100)])) * 100, times=5000)))

    def test_endless_settings(self):
        self.check(lambda wire, stream: self.flood(wire, settings({INITIAL_WINDOW_SIZE: 70_000}) * 100, times=20_000))

    def test_endless_pings(self):
        self.check(lambda wire, stream: self.flood(wire, ping() * 100, times=20_000))

    def test_endless_window_updates(self):
        self.check(lambda wire, stream: self.flood(wire, window_update(0, 1) * 100, times=20_000))

    def test_endless_empty_data(self):
        self.check(lambda wire, stream: (wire.send(headers(stream, OK, end=False)),
                                         self.flood(wire, data(stream) * 100, times=20_000)), aborted=True)

    def test_endless_unknown_frames(self):
        self.check(lambda wire, stream: self.flood(wire, frame(0xbe, 0, 0, b"grease") * 100, times=20_000))

    # ---- violations ----

    def test_a_push(self):
        self.check(lambda wire, stream: wire.send(frame(PUSH_PROMISE, END_HEADERS, stream, struct.pack(
            "!I", 2) + literal(http2.request_fields())), answer(stream)))

    def test_data_before_the_head(self):
        self.check(lambda wire, stream: wire.send(data(stream, b"early", end=True)))

    def test_data_on_an_unopened_stream(self):
        self.check(lambda wire, stream: wire.send(data(stream + 100, b"x"), answer(stream)))

    def test_no_status(self):
        self.check(lambda wire, stream: wire.send(headers(stream, [("x", "1")])))

    def test_an_invalid_status(self):
        for status in ("abc", "20", "2000", "-20", ""):
            with self.subTest(status):
                self.check(lambda wire, stream, status=status: wire.send(headers(stream, [(":status", status)])))

    def test_a_status_below_100(self):
        self.check(lambda wire, stream: wire.send(headers(stream, [(":status", "099")], end=False), data(stream, b"x", end=True)))

    def test_switching_protocols(self):
        self.check(lambda wire, stream: wire.send(headers(stream, [(":status", "101")], end=False)))

    def test_names_in_capitals(self):
        self.check(lambda wire, stream: wire.send(headers(stream, [*OK, ("Upper", "1")])))

    def test_values_with_line_breaks(self):
        for value in ("a\r\nset-cookie: b", "a\nb", "a\0b"):
            with self.subTest(repr(value)):
                self.check(lambda wire, stream, value=value: wire.send(headers(stream, [*OK, ("x", value)])))

    def test_connection_fields(self):
        for field in (("connection", "close"), ("transfer-encoding", "chunked"), ("upgrade", "h2c")):
            with self.subTest(field[0]):
                self.check(lambda wire, stream, field=field: wire.send(headers(stream, [*OK, field])))

    def test_less_than_the_content_length(self):
        self.check(lambda wire, stream: wire.send(
            headers(stream, [*OK, ("content-length", "10")], end=False), data(stream, b"short", end=True)), aborted=True)

    def test_more_than_the_content_length(self):
        self.check(lambda wire, stream: wire.send(
            headers(stream, [*OK, ("content-length", "3")], end=False), data(stream, b"much more", end=True)),
            aborted=True)

    def test_two_content_lengths(self):
        self.check(lambda wire, stream: wire.send(
            headers(stream, [*OK, ("content-length", "3"), ("content-length", "4")], end=False),
            data(stream, b"abc", end=True)))

    def test_trailers_without_end_stream(self):
        self.check(lambda wire, stream: wire.send(
            headers(stream, OK, end=False), data(stream, b"abc"), headers(stream, [("x-sum", "1")], end=False)),
            aborted=True)

    def test_trailers_with_pseudo_fields(self):
        self.check(lambda wire, stream: wire.send(
            headers(stream, OK, end=False), data(stream, b"abc"), headers(stream, [(":status", "500")])), aborted=True)

    def test_more_data_than_the_windows(self):
        self.check(lambda wire, stream: self.flood(
            wire, headers(stream, OK, end=False), *(data(stream, b"x" * 16384) for _ in range(1000)), times=1), aborted=True)

    def test_an_oversized_frame(self):
        self.check(lambda wire, stream: wire.send(headers(stream, OK, end=False), data(stream, b"x" * 70_000, end=True)),
                   aborted=True)

    def test_a_reset_mid_response(self):
        self.check(lambda wire, stream: wire.send(
            headers(stream, OK, end=False), data(stream, b"half"), rst_stream(stream, INTERNAL_ERROR)), aborted=True)

    def test_a_no_error_reset_after_a_response_stops_only_the_upload(self):
        def play(wire, _):
            wire.send(settings())
            for stream in Refusing.requests(wire):
                wire.send(answer(stream, b"enough"), rst_stream(stream, NO_ERROR))

        daemon = self.start_daemon(self.hostile(play), pool={"protocol": "h2"})
        for _ in range(5):
            with Peer.connect(daemon.address) as peer:
                upload = peer.request("POST", "/", end=False)
                try:
                    for _ in range(20):
                        upload.send(b"x" * 16384)
                except Reset as reset:
                    self.assertEqual(reset.code, NO_ERROR)
                told = upload.read_response() if upload.head is None or not upload.ended else upload.head
                self.assertEqual((told.status, upload.read_body()), (200, b"enough"))

    def test_a_no_error_reset_mid_response_is_an_abort(self):
        self.check(lambda wire, stream: wire.send(
            headers(stream, OK, end=False), data(stream, b"half"), rst_stream(stream, NO_ERROR)), aborted=True)

    def test_a_close_mid_response(self):
        self.check(lambda wire, stream: (wire.send(headers(stream, OK, end=False), data(stream, b"half")), wire.close()),
                   aborted=True)

    def test_a_goaway_and_a_close_mid_response(self):
        self.check(lambda wire, stream: (wire.send(headers(stream, OK, end=False), data(stream, b"half"),
                                                   goaway(stream, NO_ERROR)), wire.close()), aborted=True)

    def test_a_server_that_speaks_http1(self):
        daemon = self.start_daemon(self.backend(), pool={"protocol": "h2"})
        self.assertEqual(exchange(daemon.address, "POST", body=b"{}").status, 502)

    def test_a_server_that_sends_no_settings(self):
        bad = self.hostile(lambda wire, _: wire.until_closed())
        daemon = self.start_daemon(bad, pool={"protocol": "h2", "timeouts": {"connect": "500ms", "first_byte": "500ms"}})
        began = time.monotonic()
        self.assertIn(exchange(daemon.address, "POST", body=b"{}").status, (502, 504))
        self.assert_within(time.monotonic() - began, 5)

    def test_frames_after_the_end_of_a_response(self):
        """DATA after the end of a response closes the connection; the response was complete before."""
        def play(wire, stream):
            wire.send(answer(stream, b"whole"))
            wire.send(data(stream, b"and more"))

        def each_connection(wire, _):
            wire.send(settings())
            for stream in Refusing.requests(wire):
                play(wire, stream)

        daemon = self.start_daemon(self.hostile(each_connection), pool={"protocol": "h2"})
        for _ in range(5):
            told = exchange(daemon.address)
            self.assertEqual((told.status, told.body), (200, b"whole"))


if __name__ == "__main__":
    case.main()
