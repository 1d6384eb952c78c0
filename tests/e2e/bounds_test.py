"""How long a client can keep evenkeel waiting, and how much it can make it hold."""

import gzip
import threading
import time

import case
from certificates import Authority
from http2 import Peer
from process import SANITIZED
from stream import Closed, Stream, exchange

MEGABYTE = 1 << 20


class SlowClients(case.Case):
    def check_slow(self, address, pieces, tls=None):
        """Sends the pieces one by one, also after the response. Returns the beginning of the response."""
        began = time.monotonic()
        received = b""
        with Stream.connect(address, tls=tls, name="localhost") as stream:
            try:
                for piece in pieces:
                    stream.send(piece)
                    time.sleep(0.05)
                    if time.monotonic() - began > 5:
                        break
            except OSError:
                pass  # closed by the daemon
            try:
                received = stream.read_head().raw
            except (Closed, OSError):
                pass
            stream.wait_closed(5)
        self.assert_within(time.monotonic() - began, 4)
        return received[:12]

    def test_a_head_that_comes_byte_by_byte_has_one_deadline(self):
        authority = Authority(self.folder())
        limits = {"timeouts": {"header": "600ms"}}
        daemon = self.start_daemon(self.backend(), listeners=[
            {"name": "clear", **limits},
            {"name": "tls", "tls": {"certificates": [authority.issue("localhost").config()]}, **limits}])
        head = [b"GET / HTTP/1.1\r\nHost: a\r\n", *[b"%c" % each for each in b"X: " + b"y" * 200]]
        slow = [self.spawn(lambda: self.check_slow(daemon.listening["clear"], head)),
                self.spawn(lambda: self.check_slow(daemon.listening["tls"], head, authority.trust()))]
        self.assertEqual([each.join() for each in slow], [b"HTTP/1.1 408"] * 2)

    def test_a_client_that_goes_on_slowly_after_its_408_does_not_hold_its_connection(self):
        daemon = self.start_daemon(self.backend(), listeners=[{"name": "public", "timeouts": {"body": "300ms"}}])
        head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n"
        with Stream.connect(daemon.address) as stream:
            stream.send(head)
            self.assertEqual(stream.read_response().status, 408)
            began = time.monotonic()
            with self.assertRaises(OSError):
                while time.monotonic() - began < 5:
                    stream.send(b"x")
                    time.sleep(0.05)
            self.assert_within(time.monotonic() - began, 4)

    def test_a_connection_on_which_nothing_comes_is_closed(self):
        daemon = self.start_daemon(self.backend(), listeners=[{"name": "public", "timeouts": {"header": "300ms"}}])
        with Stream.connect(daemon.address) as stream:
            began = time.monotonic()
            self.assert_within(stream.wait_closed(5) - began, 3)


class Bounds(case.Case):
    def test_pipelined_requests_are_processed_one_at_a_time(self):
        lock, running, most = threading.Lock(), [0], [0]

        def script(request):
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            request.answer(request.target.encode())
            with lock:
                running[0] -= 1

        daemon = self.start_daemon(self.backend(script))
        with Stream.connect(daemon.address) as stream:
            stream.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % each for each in range(1000)))
            for each in range(1000):
                self.assertEqual(stream.read_response().body, b"/%d" % each)
        self.assertEqual(most[0], 1)

    def test_a_line_of_100_megabytes_in_a_stream_of_events_is_not_held(self):
        def script(request):
            if request.method == "GET":
                return request.answer(b"")
            request.begin_chunks([("content-type", "text/event-stream")])
            request.chunk(b"data: ")
            for _ in range(100):
                request.chunk(b"x" * MEGABYTE)
            request.chunk(b"\n\n")
            return request.end_chunks()

        daemon = self.start_daemon(self.backend(script), pool={"engine": "vllm"})
        before = most = daemon.resident_bytes()
        received = 0
        with Stream.connect(daemon.address) as stream:
            stream.ask("POST", "/v1/chat/completions", body=b'{"stream": true}')
            head = stream.read_head()
            while piece := stream.read_chunk(head):
                received += len(piece)
                most = max(most, daemon.resident_bytes())
        self.assertEqual(received, 100 * MEGABYTE + 8)
        if not SANITIZED:
            self.assertLess(most - before, 8 * MEGABYTE)

    def test_compressed_bodies_pass_as_they_are(self):
        """Neither a request nor a response is inflated."""
        bomb = gzip.compress(b"\0" * (50 * MEGABYTE))
        packed = [("content-encoding", "gzip"), ("content-type", "application/json")]
        backend = self.backend(lambda request: request.answer(bomb, fields=packed))
        daemon = self.start_daemon(backend)
        before = daemon.resident_bytes()
        answer = exchange(daemon.address, "POST", "/v1/chat/completions", packed, body=bomb)
        self.assertEqual((answer.status, answer.body), (200, bomb))
        self.assertEqual(backend.exchanges[0].body, bomb)
        if not SANITIZED:
            self.assertLess(daemon.resident_bytes() - before, 8 * MEGABYTE)

    def test_clients_cannot_add_series_to_the_metrics(self):
        daemon = self.start_daemon(self.backend(), routes=[{"match": {"path": "/v1/**"}, "pool": "pool"}])

        def ask(number):
            with Peer.connect(daemon.address) as peer:
                for method in ("POST", f"X{number}"):
                    peer.exchange(method, f"/v1/{number}", authority=f"host{number}.test",
                                  fields=[("user-agent", f"client{number}")], body=b'{"model": "m%d"}' % number)
            exchange(daemon.address, "GET", f"/nowhere/{number}", host=f"host{number}.test")

        ask(0)
        daemon.wait_at_rest()
        before = set(daemon.metrics())
        for number in range(1, 30):
            ask(number)
        daemon.wait_at_rest()
        self.assertEqual({key for key in daemon.metrics() if key not in before}, set())


if __name__ == "__main__":
    case.main()
