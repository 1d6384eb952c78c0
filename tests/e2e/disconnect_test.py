"""Disconnects: a client that disconnects stops its generation, and a client sees a backend's disconnect as an abort, never as
the end of a response."""

import threading
import time

import case
from process import SANITIZED
from stream import Closed, Stream, exchange

AT_ONCE = 0.05 if not SANITIZED else 1.0  # seconds from the client's disconnect to the backend's


def begin_stream(request):
    request.begin_chunks()
    request.chunk(b"data: 1\n\n")


class ClientDisconnects(case.Case):
    def check_backend_sees_it(self, script, leave, read=None):
        """`script` runs until the backend connection closes; `leave(stream)` closes the client's."""
        seen = []
        playing = threading.Event()

        def until_closed(request):
            if request.target == "/next":
                return request.answer(b"fine")
            script(request)
            playing.set()
            seen.append(request.stream.wait_closed())

        backend = self.backend(until_closed)
        daemon = self.start_daemon(backend)
        delays = []
        for number in range(1, 6):
            playing.clear()
            stream = Stream.connect(daemon.address)
            stream.ask("POST", "/v1/chat/completions", body=b"{}")
            if read:
                read(stream)
            self.assertTrue(playing.wait(10))
            left = time.monotonic()
            leave(stream)
            self.eventually(lambda: len(seen) == number, "the end of the backend's connection")
            delays.append(seen[-1] - left)
            stream.close()
        self.assert_within(sorted(delays)[2], AT_ONCE, delays)

        self.assertEqual(exchange(daemon.address, target="/next").body, b"fine")
        lines = daemon.wait_access(6)
        gone = [line for line in lines if line["path"] != "/next"]
        self.assertEqual([line["status"] for line in gone], [499] * 5)
        self.assertEqual([line["reason"] for line in gone], ["client_gone"] * 5)
        self.assertEqual([line["aborted"] for line in gone], [True] * 5)
        self.assertEqual(daemon.metric("evenkeel_errors_total", reason="client_gone"), 5)
        self.assertEqual(daemon.metric("evenkeel_requests_total", code="499"), 5)
        self.assertEqual(daemon.backend(backend.address)["errors_total"], 0, "it was not its fault")

    def test_close_before_the_response(self):
        self.check_backend_sees_it(lambda request: None, lambda stream: stream.close())

    def test_reset_before_the_response(self):
        self.check_backend_sees_it(lambda request: None, lambda stream: stream.reset())

    def test_close_mid_stream(self):
        def read(stream):
            self.assertEqual(stream.read_chunk(stream.read_head()), b"data: 1\n\n")

        self.check_backend_sees_it(begin_stream, lambda stream: stream.close(), read)

    def test_reset_mid_stream(self):
        self.check_backend_sees_it(begin_stream, lambda stream: stream.reset())

    def test_half_close_mid_stream(self):
        self.check_backend_sees_it(begin_stream, lambda stream: stream.socket.shutdown(1))

    def test_half_close_wait_answers_half_closed_clients(self):
        go = threading.Event()

        def script(request):
            go.wait(10)
            request.answer(b"still here")

        backend = self.backend(script)
        daemon = self.start_daemon(backend, listeners=[{"name": "public", "half_close": "wait"}])
        with Stream.connect(daemon.address) as stream:
            stream.ask()
            stream.socket.shutdown(1)
            self.eventually(lambda: backend.exchanges, "the request at the backend")
            go.set()
            self.assertEqual(stream.read_response().body, b"still here")

    def test_disconnect_mid_request_reaches_the_backend(self):
        ends = []

        def script(request):
            request.stream.read_exactly(3)
            ends.append(request.stream.wait_closed())

        backend = self.backend(script, reads_body=False)
        daemon = self.start_daemon(backend)
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\nabc")
            self.eventually(lambda: backend.exchanges, "the request at the backend")
        self.eventually(lambda: ends, "the end of the backend's connection")
        self.assertEqual(daemon.wait_access(1)[0]["reason"], "client_gone")

    def test_disconnect_during_an_upload_that_the_backend_does_not_read(self):
        """The backend is busy and sees the closed connection when it reads again."""
        look = threading.Event()
        ends = []

        def script(request):
            look.wait(20)
            request.stream.wait_closed()
            ends.append(request.stream.ended)

        backend = self.backend(script, reads_body=False)
        daemon = self.start_daemon(backend)
        stream = Stream.connect(daemon.address)
        stream.send(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 30000000\r\n\r\n")
        stream.socket.settimeout(0.3)
        with self.assertRaises(TimeoutError, msg="the upload must be held back"):
            stream.send(b"x" * 29_000_000)
        # A FIN would wait behind the unread bytes, so this must be a reset.
        stream.reset()

        daemon.wait_at_rest()  # does not wait for the backend
        look.set()
        self.eventually(lambda: ends, "the end of the backend's connection")

    def test_disconnect_while_the_backend_is_being_connected(self):
        deaf = self.unresponsive_server()
        daemon = self.start_daemon(deaf, pool={"timeouts": {"connect": "60s"}})
        stream = Stream.connect(daemon.address)
        stream.ask()
        self.eventually(lambda: daemon.backend(deaf)["in_flight"] == 1, "a lease")
        stream.close()
        daemon.wait_at_rest()
        self.assertEqual(daemon.backend(deaf)["errors_total"], 0)


class BackendDisconnects(case.Case):
    def check_abort(self, end, begin=begin_stream, reason="backend_closed", pool=None, version="1.1"):
        """Calls `end(request)` when the client has read what `begin(request)` sent."""
        has_read = threading.Event()

        def script(request):
            begin(request)
            has_read.wait(10)
            end(request)

        backend = self.backend(script)
        daemon = self.start_daemon(backend, pool=pool)
        with Stream.connect(daemon.address) as stream:
            stream.send(b"GET /v1/models HTTP/%s\r\nHost: test\r\n\r\n" % version.encode())
            head = stream.read_head()
            self.assertEqual(head.status, 200)
            stream.buffer = stream.read_some()
            has_read.set()
            with self.assertRaises((Closed, ConnectionError), msg="the abort must be visible"):
                stream.read_body(head)

        line = daemon.wait_access(1)[0]
        self.assertEqual((line["status"], line["reason"], line["aborted"]), (200, reason, True))
        self.assertEqual(daemon.metric("evenkeel_errors_total", pool="pool", reason=reason), 1)
        self.assertEqual(daemon.metric("evenkeel_backend_errors_total", backend=backend.address,
                                       reason=reason), 1)
        self.assertEqual(daemon.backend(backend.address)["errors_total"], 1)

    def test_close_between_chunks(self):
        self.check_abort(lambda request: request.stream.close())

    def test_close_before_the_content_length(self):
        self.check_abort(lambda request: request.stream.close(), begin=lambda request: request.send(
            b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"))

    def test_reset(self):
        self.check_abort(lambda request: request.stream.reset())

    def test_http10_clients_see_a_reset(self):
        """An HTTP/1.0 response ends with the connection, so only a reset shows that it is incomplete."""
        self.check_abort(lambda request: request.stream.close(), version="1.0")

    def test_invalid_chunk(self):
        def end(request):
            request.send(b"zzz\r\nwhat is this\r\n")
            request.stream.wait_closed()

        self.check_abort(end, reason="backend_protocol")

    def test_silence_until_the_idle_timeout(self):
        self.check_abort(lambda request: request.stream.wait_closed(), reason="idle_timeout",
                         pool={"timeouts": {"idle": "100ms"}})

    def test_a_request_that_may_have_been_processed_is_not_retried(self):
        """Only the client can know whether it is safe to send it again."""
        first = self.backend(lambda request: request.stream.close())
        daemon = self.start_daemon(first)

        answer = exchange(daemon.address, "POST", "/v1/chat/completions", body=b"{}")

        self.assertEqual((answer.status, answer.reason), (502, "backend_closed"))
        self.assertEqual(len(first.exchanges), 1)


if __name__ == "__main__":
    case.main()
