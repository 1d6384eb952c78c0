"""Misbehaving clients and misbehaving servers at the same time: whatever they do, the daemon keeps running, releases
everything and exits cleanly."""

import time

import case
from chaos import ChaosCase
from stream import Closed, Stream

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


class Server:
    """A backend script that responds correctly, wrongly, late or not at all."""

    def __init__(self, chance):
        self._chance = chance

    def __call__(self, request):
        if self._chance.random() < 0.8:
            request.read_body()
        self._chance.choice([self.whole, self.whole, self.whole, self.streamed, self.streamed,
                             self.silent, self.cut, self.nonsense, self.until_close, self.closing,
                             self.late, self.hinted, self.too_much, self.tunnel, self.bodiless])(request)

    def whole(self, request):
        request.answer(b"x" * self._chance.choice([0, 10, 5000, 70_000, 300_000]))

    def streamed(self, request):
        request.begin_chunks()
        for _ in range(self._chance.randrange(10)):
            request.chunk(b"y" * self._chance.choice([1, 10, 17_000, 70_000]))
        if self._chance.random() < 0.2:
            return self.cut(request)
        request.end_chunks(self._chance.choice([(), [("X-Sum", "1")]]))

    def silent(self, request):
        request.stream.wait_closed()

    def cut(self, request):
        self._chance.choice([request.stream.close, request.stream.reset])()

    def nonsense(self, request):
        request.send(b"220 ESMTP\r\n\r\n")
        request.stream.close()

    def until_close(self, request):
        request.send(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
        request.stream.close()

    def closing(self, request):
        request.answer(b"bye")
        request.stream.close()

    def late(self, request):
        time.sleep(0.05)
        request.answer(b"late")

    def hinted(self, request):
        request.send(b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n")
        request.answer(b"ok")

    def too_much(self, request):
        request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcand more")

    def tunnel(self, request):
        request.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                     b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nConnection: upgrade\r\n\r\nhello")
        request.send(request.stream.read_some())
        request.stream.close()

    def bodiless(self, request):
        request.answer(b"", status=self._chance.choice([204, 304]))


class Client:
    """Sends complete, malformed and partial requests, on one connection after another."""

    def __init__(self, address, chance):
        self._address = address
        self._chance = chance
        self.count = 0

    def run(self, until):
        while time.monotonic() < until:
            try:
                with Stream.connect(self._address) as stream:
                    while self._chance.random() < 0.8:
                        self.count += 1
                        self._chance.choice([
                            self.get, self.get, self.head, self.post, self.post, self.chunked, self.leave,
                            self.reset, self.pipeline, self.half_a_head, self.half_a_body, self.upgrade,
                            self.expect, self.nonsense])(stream)
            except (OSError, Closed):
                pass  # expected; any other exception means a malformed response

    def get(self, stream):
        stream.exchange(target=f"/{self.count}")

    def head(self, stream):
        stream.exchange("HEAD")

    def post(self, stream):
        stream.exchange("POST", "/v1/x", body=b"b" * self._chance.choice([0, 1, 5000, 100_000, 400_000]))

    def chunked(self, stream):
        stream.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(self._chance.randrange(5)):
            size = self._chance.choice([1, 100, 20_000])
            stream.send(b"%x\r\n%s\r\n" % (size, b"q" * size))
        stream.send(b"0\r\n\r\n")
        stream.read_response()

    def leave(self, stream):
        stream.ask()
        stream.close()

    def reset(self, stream):
        stream.ask()
        stream.reset()

    def pipeline(self, stream):
        stream.send(GET * 5)
        for _ in range(5):
            stream.read_response()

    def half_a_head(self, stream):
        stream.send(GET[:20])
        stream.close()

    def half_a_body(self, stream):
        stream.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf")
        self._chance.choice([stream.close, stream.reset, stream.wait_closed])()

    def upgrade(self, stream):
        stream.send(b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nraw")
        stream.read_head()
        stream.send(b"x" * 1000)
        stream.close()

    def expect(self, stream):
        stream.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        head = stream.read_head()
        if head.status != 100:  # refused before the body was requested
            return stream.close()
        stream.send(b"hello")
        stream.read_response()

    def nonsense(self, stream):
        stream.send(self._chance.randbytes(50) + b"\r\n\r\n")
        stream.read_response()


class Chaos(ChaosCase):
    def check(self, picker):
        chance = self.choices(picker)
        backends = [self.backend(self.tolerate_closed(Server(chance())), reads_body=False) for _ in range(4)]
        daemon = self.impatient_daemon(*backends, picker=picker, limits={"max_in_flight": 3})
        self.run_clients([Client(daemon.address, chance()) for _ in range(20)], at_least=200)
        self.check_nothing_is_left(daemon)

    def tolerate_closed(self, script):
        """Ignores errors of a script whose connection has closed."""
        def play(request):
            try:
                script(request)
            except ValueError as broken:  # an incomplete chunk
                raise Closed() from broken
        return play

    def test_least_connections_survives(self):
        self.check("least-connections")

    def test_consistent_hash_survives(self):
        self.check("consistent-hash")


if __name__ == "__main__":
    case.main()
