"""Every pair of client and backend protocol, clear and over TLS, through everything that a request can do.
One class per pair; it owns a daemon and a backend, and each test gives the backend a script."""

import hashlib
import threading
import time

import case
from backend import Backend
from certificates import Authority, serving
from h2_backend import H2Backend
from http2 import NO_ERROR, Peer, request_fields
from process import SANITIZED, Daemon, wait_until
from stream import PATIENCE, Closed, Stream

MEGABYTE = 1 << 20
SIZE = (8 if SANITIZED else 50) * MEGABYTE
AT_ONCE = 0.25 if not SANITIZED else 2.0  # seconds
# The most that one request buffers: its windows, chunks in flight, and TLS records.
MOST_MEMORY = 4 * MEGABYTE


def lower(fields):
    """With lower-case names, as HTTP/2 requires."""
    return [(name.lower(), value) for name, value in fields]


class Http1Client:
    """One request at a time on a connection."""

    def __init__(self, address, tls=None, receive_buffer=None):
        self._stream = Stream.connect(address, tls=tls, receive_buffer=receive_buffer)
        self._head = None
        self._left = None
        self.close = self._stream.close

    def begin(self, method="GET", target="/", fields=(), length=None, chunked=False):
        lines = [f"{method} {target} HTTP/1.1", "Host: test", *(f"{name}: {value}" for name, value in fields)]
        if any(name == "te" for name, _ in fields):
            lines.append("Connection: te")
        if chunked:
            lines.append("Transfer-Encoding: chunked")
        elif length is not None:
            lines.append(f"Content-Length: {length}")
        self._chunked = chunked
        self._method = method
        self._stream.send(("\r\n".join(lines) + "\r\n\r\n").encode())
        return self

    def send(self, payload):
        self._stream.send(b"%x\r\n%s\r\n" % (len(payload), payload) if self._chunked else payload)

    def end(self, trailers=()):
        if self._chunked:
            self._stream.send(b"0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in trailers).encode()
                              + b"\r\n")

    def head(self):
        self._head = self._stream.read_head()
        bodiless = self._method == "HEAD" or self._head.status == 204
        self._left = 0 if bodiless else self._head.length()
        return self._head

    def piece(self):
        if self._head.chunked() and self._left is None:
            return self._stream.read_chunk(self._head)
        assert self._left is not None, "neither chunks nor a length"
        if self._left == 0:
            return b""
        piece = self._stream.read_some()
        if not piece:
            raise Closed("the body is cut")
        self._left -= len(piece)
        return piece

    def leave(self):
        self._stream.reset()


class Http2Client:
    """A connection with one stream at a time."""

    def __init__(self, address, tls=None, receive_buffer=None):
        self._peer = Peer.connect(address, tls=tls, receive_buffer=receive_buffer)
        if tls is not None:
            assert self._peer.wire.stream.socket.alpn == "h2"

    def close(self):
        self._peer.close()
        assert not self._peer.violations, self._peer.violations

    def begin(self, method="GET", target="/", fields=(), length=None, chunked=False):
        if length is not None:
            fields = [*fields, ("content-length", str(length))]
        self._stream = self._peer.open_stream(request_fields(method, target, fields),
                                              end=not chunked and not length)
        self._left = length
        return self

    def send(self, payload):
        if self._left is not None:
            self._left -= len(payload)
        self._stream.send(payload, end=self._left == 0)

    def end(self, trailers=()):
        if self._left is None:
            self._stream.end(trailers)

    def head(self):
        return self._stream.read_head()

    def piece(self):
        return self._stream.read_piece()

    def leave(self):
        self._stream.reset()


class Pair:
    front = back = front_tls = back_tls = None  # of each class below

    @classmethod
    def setUpClass(cls):
        folder = case.tempfile.TemporaryDirectory(prefix="evenkeel-e2e-")
        cls.addClassCleanup(folder.cleanup)
        listener = {"name": "public", "limits": {"body": "1GiB"}}
        pool = {"name": "pool", "protocol": "h2" if cls.back is H2Backend else "http1"}
        cls.trust = behind = None
        if cls.front_tls or cls.back_tls:
            authority = Authority(folder.name)
            ours = authority.issue("127.0.0.1", "localhost")
            if cls.front_tls:
                listener["tls"] = {"certificates": [ours.config()]}
                cls.trust = authority.trust(["h2"] if cls.front is Http2Client else ["http/1.1"])
            if cls.back_tls:
                pool["tls"] = {"ca": authority.cert}
                behind = serving(ours, ["h2" if cls.back is H2Backend else "http/1.1"])

        cls.backend = cls.back(tls=behind, reads_body=False)
        cls.addClassCleanup(cls.backend.close)
        pool["backends"] = [("https://" if cls.back_tls else "http://") + cls.backend.address]
        cls.daemon = Daemon(folder.name, {"listeners": [listener], "pools": [pool]})
        cls.addClassCleanup(cls.daemon.finish)

    def setUp(self):
        self.addCleanup(self.daemon.wait_at_rest)
        self.addCleanup(lambda: self.assertEqual(self.backend.failures, []))

    def client(self, **kwargs):
        client = self.front(self.daemon.address, tls=self.trust, **kwargs)
        self.addCleanup(client.close)
        return client

    def play(self, script):
        self.backend.script = script

    def stalled(self, progress):
        """Waits until no byte moves any more. Returns the memory that the daemon holds then."""
        last, since = -1, time.monotonic()
        until = since + PATIENCE
        while time.monotonic() - since < 0.1:
            time.sleep(0.01)
            self.assertLess(time.monotonic(), until, "it never stalls")
            if progress[0] != last:
                last, since = progress[0], time.monotonic()
        if not SANITIZED:  # then too little is sent: the kernel's buffers hold all of it
            self.assertLess(last, SIZE, "nothing holds the sender back")
        return self.daemon.resident_bytes()

    # ---- the behaviours ----

    def test_small_requests_and_answers_pass(self):
        asked = []

        def script(ask):
            asked.append((ask.method, ask.target, ask.head.field("x-asked")))
            body = b"".join(ask.pieces())
            if ask.target == "/nothing":
                return ask.answer(b"", status=204) if isinstance(self.backend, Backend) else ask.send_head(
                    status=204, end=True)
            ask.answer(b"echo " + body, fields=[("X-Answered", ask.target)])

        self.play(script)
        client = self.client()
        for method, target, body in (("GET", "/a?b=c", b""), ("POST", "/v1/x", b"question"), ("HEAD", "/h", b""),
                                     ("DELETE", "/nothing", b""), ("PUT", "/p", b"y" * 70_000)):
            client.begin(method, target, [("x-asked", "yes")], length=len(body) if method in ("POST", "PUT") else None)
            if body:
                client.send(body)
            head = client.head()
            received = b"".join(iter(client.piece, b""))
            self.assertEqual(asked.pop(), (method, target, "yes"))
            self.assertEqual(asked, [])
            if target == "/nothing":
                self.assertEqual((head.status, received), (204, b""))
                continue
            self.assertEqual((head.status, head.field("x-answered")), (200, target))
            self.assertEqual(received, b"" if method == "HEAD" else b"echo " + body)

    def test_fifty_megabytes_up_arrive_whole(self):
        """The backend reads only once no byte moves any more: the client is blocked, and nothing accumulates."""
        sent = [0]
        read_on = threading.Event()
        block = self.daemon.pid.to_bytes(8, "big") * (MEGABYTE // 8)

        def script(ask):
            read_on.wait(PATIENCE)
            digest = hashlib.sha256()
            count = 0
            for piece in ask.pieces():
                digest.update(piece)
                count += len(piece)
            ask.answer(f"{count} {digest.hexdigest()}".encode())

        self.play(script)
        before = self.daemon.resident_bytes()
        client = self.client().begin("POST", "/up", length=SIZE)

        def upload():
            for _ in range(SIZE // MEGABYTE):
                for at in range(0, MEGABYTE, 1 << 18):
                    client.send(block[at:at + (1 << 18)])
                    sent[0] += 1 << 18

        uploading = self.spawn(upload)
        during = self.stalled(sent)
        read_on.set()
        self.assertEqual(client.head().status, 200)
        told = b"".join(iter(client.piece, b"")).decode()
        uploading.join()
        expected = hashlib.sha256(block * (SIZE // MEGABYTE)).hexdigest()
        self.assertEqual(told, f"{SIZE} {expected}")
        self.check_memory(before, during)

    def test_fifty_megabytes_down_arrive_whole(self):
        """The client reads only once no byte moves any more: the backend is blocked, and nothing accumulates."""
        sent = [0]
        block = self.daemon.pid.to_bytes(8, "little") * (MEGABYTE // 8)

        def script(ask):
            ask.begin_chunks()
            for _ in range(SIZE // MEGABYTE):
                for at in range(0, MEGABYTE, 1 << 18):
                    ask.chunk(block[at:at + (1 << 18)])
                    sent[0] += 1 << 18
            ask.end_chunks()

        self.play(script)
        before = self.daemon.resident_bytes()
        client = self.client(receive_buffer=1 << 18).begin("GET", "/down")
        self.assertEqual(client.head().status, 200)
        during = self.stalled(sent)
        digest = hashlib.sha256()
        count = 0
        while piece := client.piece():
            digest.update(piece)
            count += len(piece)
        self.assertEqual(count, SIZE)
        self.assertEqual(digest.digest(), hashlib.sha256(block * (SIZE // MEGABYTE)).digest())
        self.check_memory(before, during)

    def check_memory(self, before, during):
        if not SANITIZED:
            self.assertLess(during - before, MOST_MEMORY)
            self.assertLess(self.daemon.resident_bytes() - before, MOST_MEMORY)

    def test_events_arrive_one_by_one(self):
        """The backend sends each event only after the previous one has arrived: a proxy that collects would hang."""
        arrived = threading.Semaphore(0)

        def script(ask):
            ask.begin_chunks([("Content-Type", "text/event-stream")])
            for number in range(20):
                ask.chunk(b"data: %d\n\n" % number)
                assert arrived.acquire(timeout=PATIENCE), "the event did not arrive"
            ask.end_chunks()

        self.play(script)
        client = self.client().begin("GET", "/events")
        self.assertEqual(client.head().field("content-type"), "text/event-stream")
        for number in range(20):
            self.assertEqual(client.piece(), b"data: %d\n\n" % number)
            arrived.release()
        self.assertEqual(client.piece(), b"")

    def test_trailers_pass_both_ways(self):
        asked = []

        def script(ask):
            body = b"".join(ask.pieces())
            asked.append((body, lower(ask.head.trailers)))
            ask.begin_chunks([("Trailer", "x-sum")])
            ask.chunk(b"abc")
            ask.end_chunks([("x-sum", "900150"), ("grpc-status", "0")])

        self.play(script)
        client = self.client().begin("POST", "/trailers", [("te", "trailers"), ("trailer", "x-asked")], chunked=True)
        client.send(b"question")
        client.end([("x-asked", "1"), ("x-also", "2 3")])
        head = client.head()
        self.assertEqual(b"".join(iter(client.piece, b"")), b"abc")
        self.assertEqual(lower(head.trailers), [("x-sum", "900150"), ("grpc-status", "0")])
        self.assertEqual(asked, [(b"question", [("x-asked", "1"), ("x-also", "2 3")])])

    def test_an_early_answer_arrives_while_the_request_is_still_being_sent(self):
        gone = []

        def script(ask):
            next(ask.pieces())  # the upload has begun and is not complete
            ask.answer(b"too much", status=413)
            if isinstance(self.backend, H2Backend):
                ask.abort(NO_ERROR)  # "the rest is not needed", RFC 9113 8.1
            else:
                gone.append(ask.wait_disconnected())

        self.play(script)
        client = self.client().begin("POST", "/early", length=SIZE)
        client.send(b"x" * 20_000)
        self.assertEqual(client.head().status, 413)
        self.assertEqual(b"".join(iter(client.piece, b"")), b"too much")
        client.leave()
        if not isinstance(self.backend, H2Backend):
            wait_until(lambda: gone, what="the end of the backend's connection")

    def test_a_client_that_leaves_is_noticed_by_the_backend_at_once(self):
        gone = []

        def script(ask):
            ask.begin_chunks()
            ask.chunk(b"begun")
            gone.append(ask.wait_disconnected())

        self.play(script)
        for number in range(1, 4):
            client = self.client().begin("GET", "/long")
            self.assertEqual(client.head().status, 200)
            self.assertEqual(client.piece(), b"begun")
            left = time.monotonic()
            client.leave()
            wait_until(lambda number=number: len(gone) == number, what="the end at the backend")
            gone[-1] -= left
        self.assert_within(min(gone), AT_ONCE)

    def test_a_client_that_leaves_before_the_answer_is_noticed_too(self):
        gone = []
        waiting = threading.Event()

        def script(ask):
            waiting.set()
            gone.append(ask.wait_disconnected())

        self.play(script)
        client = self.client().begin("GET", "/long")
        self.assertTrue(waiting.wait(PATIENCE))
        client.leave()
        wait_until(lambda: gone, what="the end at the backend")

    def test_a_client_sees_that_the_backend_aborted(self):
        arrived = threading.Event()

        def script(ask):
            ask.begin_chunks()
            ask.chunk(b"begun")
            arrived.wait(PATIENCE)
            ask.abort()

        self.play(script)
        client = self.client().begin("GET", "/broken")
        self.assertEqual(client.head().status, 200)
        self.assertEqual(client.piece(), b"begun")
        arrived.set()
        with self.assertRaises((Closed, ConnectionError), msg="the abort must be visible"):
            while client.piece():
                pass


for front_name, client_class in (("H1", Http1Client), ("H2", Http2Client)):
    for back_name, backend_class in (("H1", Backend), ("H2", H2Backend)):
        for front_tls in (False, True):
            for back_tls in (False, True):
                pair = (f"{front_name}{'Tls' if front_tls else 'Clear'}Front"
                        f"{back_name}{'Tls' if back_tls else 'Clear'}Back")
                globals()[pair] = type(pair, (Pair, case.Case), {
                    "front": client_class, "front_tls": front_tls, "back": backend_class, "back_tls": back_tls,
                    "__module__": __name__})


if __name__ == "__main__":
    case.main()
