"""Like chaos_test, over HTTP/2: misbehaving clients and servers whose streams share connections."""

import time

import case
import http2
from chaos import ChaosCase
from http2 import Peer, goaway, ping, settings, window_update
from stream import Closed
from websocket_echo import switch


ENABLE_CONNECT_PROTOCOL = 8


class Server:
    """A backend script that responds correctly, wrongly, late or not at all."""

    def __init__(self, chance):
        self._chance = chance

    def __call__(self, request):
        if request.method == "CONNECT" and self._chance.random() < 0.7:
            return self.tunnel(request)
        if self._chance.random() < 0.8:
            request.read_body()
        self._chance.choice([self.whole, self.whole, self.whole, self.streamed, self.streamed, self.silent, self.cut,
                             self.broken, self.late, self.hinted, self.too_much, self.leaving, self.early,
                             self.bodiless, self.fidgeting])(request)

    def tunnel(self, request):
        request.send_head()
        for piece in request.pieces():
            request.chunk(piece)
            if self._chance.random() < 0.1:
                return self._chance.choice([self.cut, self.broken, self.silent])(request)
        request.end_chunks()

    def whole(self, request):
        request.answer(b"x" * self._chance.choice([0, 10, 5000, 70_000, 300_000]))

    def streamed(self, request):
        request.begin_chunks()
        for _ in range(self._chance.randrange(10)):
            request.chunk(b"y" * self._chance.choice([1, 10, 17_000, 70_000]))
        if self._chance.random() < 0.3:
            return self._chance.choice([self.cut, self.broken])(request)
        request.end_chunks(self._chance.choice([(), [("X-Sum", "1")]]))

    def silent(self, request):
        request.wait_disconnected()

    def cut(self, request):
        if self._chance.random() < 0.3:
            request.peer.cut()

    def broken(self, request):
        request.abort(self._chance.randrange(14))

    def late(self, request):
        time.sleep(0.05)
        request.answer(b"late")

    def hinted(self, request):
        request.send_head([("link", "a")], status=103)
        request.answer(b"ok")

    def too_much(self, request):
        request.send_head([("content-length", "3")])
        request.chunk(b"abc and more")

    def leaving(self, request):
        request.peer.send(goaway(self._chance.choice([request.stream.number, 0, 2**31 - 1])))
        request.answer(b"bye")

    def early(self, request):
        request.answer(b"enough")
        request.abort(http2.NO_ERROR)

    def bodiless(self, request):
        request.send_head(status=self._chance.choice([204, 304]), end=True)

    def fidgeting(self, request):
        request.peer.send(settings({http2.INITIAL_WINDOW_SIZE: self._chance.choice([0, 1000, 70_000])}), ping(),
                      window_update(0, 1))
        request.answer(b"still here")
        request.peer.send(settings({http2.INITIAL_WINDOW_SIZE: 65535}))


class Http1Server:
    """As `Server`, over HTTP/1.1, whose tunnels end in all ways."""

    def __init__(self, chance):
        self._chance = chance

    def __call__(self, request):
        if request.head.field("upgrade") is None:
            return self._chance.choice([lambda: request.answer(b"x" * 5000), request.abort, request.wait_disconnected])()
        if self._chance.random() < 0.2:
            return request.answer(b"no", status=self._chance.choice([200, 204, 403, 503]))
        switch(request, accept=self._chance.choice([None, None, None, "wrong"]))
        while piece := request.stream.read_some():
            request.send(piece)
            if self._chance.random() < 0.1:
                return self._chance.choice([request.abort, request.stream.close, request.wait_disconnected])()
        return request.stream.close()


class Client:
    """Sends complete, malformed and partial requests, many streams on one connection after another."""

    def __init__(self, address, chance, tunnels):
        self._address = address
        self._chance = chance
        self._tunnels = [self.tunnel, self.tunnel] if tunnels else []
        self.count = 0
        self.violations = []

    def run(self, until):
        while time.monotonic() < until:
            peer = None
            try:
                peer = Peer.connect(self._address, values={
                    http2.INITIAL_WINDOW_SIZE: self._chance.choice([1000, 65535, 1 << 20])},
                    violations=self.violations)
                while self._chance.random() < 0.9:
                    self.count += 1
                    self._chance.choice([self.get, self.get, self.post, self.post, self.many, self.many, self.leave,
                                         self.half_a_body, self.trailers, self.unread, self.fidget, *self._tunnels])(peer)
            except (OSError, Closed):
                pass
            finally:
                if peer is not None:
                    peer.close()

    def get(self, peer):
        peer.exchange(path=f"/{self.count}")

    def post(self, peer):
        peer.exchange("POST", "/v1/x", body=b"b" * self._chance.choice([0, 1, 5000, 100_000, 400_000]))

    def many(self, peer):
        calls = [peer.request(path="/many") for _ in range(self._chance.randrange(20))]
        for call in calls:
            if self._chance.random() < 0.3:
                call.reset(self._chance.randrange(14))
        for call in calls:
            if call.number not in peer.refused:
                try:
                    call.read_response()
                except http2.Reset:
                    pass

    def leave(self, peer):
        peer.request(path="/leave")
        peer.cut()

    def half_a_body(self, peer):
        call = peer.request("POST", "/half", [("content-length", "100")], end=False)
        call.send(b"half")
        self._chance.choice([call.reset, peer.cut, lambda: None])()

    def trailers(self, peer):
        call = peer.request("POST", "/trailers", [("te", "trailers")], end=False)
        for _ in range(self._chance.randrange(5)):
            call.send(b"q" * self._chance.choice([1, 100, 20_000]))
        call.end([("x-sum", "1")])
        call.read_response()

    def unread(self, peer):
        call = peer.request(path="/unread")
        call.read_head()
        if self._chance.random() < 0.5:
            call.reset()

    def fidget(self, peer):
        peer.send(ping(), window_update(0, 1000), settings({}))

    def tunnel(self, peer):
        fields = [*http2.request_fields("CONNECT", "/ws"), (":protocol", self._chance.choice(["websocket"] * 5 + ["chat"]))]
        call = peer.open_stream(fields, end=self._chance.random() < 0.1)
        if self._chance.random() < 0.7 and call.read_head().status != 200:
            return
        for _ in range(self._chance.randrange(5)):
            call.send(b"t" * self._chance.choice([1, 100, 20_000]))
        self._chance.choice([call.end, call.end, call.reset, peer.cut, lambda: None, lambda: call.end([("x", "1")])])()
        if call.number not in peer.refused:
            call.read_response()


class Chaos(ChaosCase):
    def check(self, protocol):
        chance = self.choices(protocol)
        backends = [self.h2_backend(Server(chance()), reads_body=False,
                                    values={http2.MAX_CONCURRENT_STREAMS: most, ENABLE_CONNECT_PROTOCOL: 1}) for most in (1, 5, 100, 1000)]
        daemon = self.impatient_daemon(*backends, protocol=protocol, limits={"max_in_flight": 30})
        # With `auto` an upgrade takes a connection of HTTP/1.1, which these servers do not speak.
        clients = [Client(daemon.address, chance(), tunnels=protocol == "h2") for _ in range(12)]
        self.run_clients(clients, at_least=100)
        for client in clients:
            self.assertEqual(client.violations, [])
        self.check_nothing_is_left(daemon)

    def test_protocol_h2_survives(self):
        self.check("h2")

    def test_tunnels_to_http1_survive(self):
        chance = self.choices("http1")
        daemon = self.impatient_daemon(*(self.backend(Http1Server(chance())) for _ in range(4)), limits={"max_in_flight": 30})
        clients = [Client(daemon.address, chance(), tunnels=True) for _ in range(12)]
        self.run_clients(clients, at_least=20)
        for client in clients:
            self.assertEqual(client.violations, [])
        self.check_nothing_is_left(daemon)

    def test_protocol_auto_survives(self):
        self.check("auto")


if __name__ == "__main__":
    case.main()
