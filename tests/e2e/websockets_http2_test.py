"""WebSockets over HTTP/2: extended CONNECT (RFC 8441), from clients and to backends."""

import base64
import os
import signal
import ssl
import threading
import time
import unittest

import case
from certificates import Authority
from http2 import (CANCEL, ENHANCE_YOUR_CALM, INITIAL_WINDOW_SIZE, INTERNAL_ERROR, NO_ERROR, PROTOCOL_ERROR, Peer, Reset, Wire,
                   headers, request_fields)
from stream import Closed, Stream
from websocket_echo import EchoServer, switch, websockets

if websockets is not None:
    from websockets.frames import Opcode
    from websockets.protocol import Protocol
    from websockets.protocol import Side as WebSocketSide

ENABLE_CONNECT_PROTOCOL = 8


def connect_fields(*fields, protocol="websocket", path="/ws", scheme="http"):
    return [*request_fields("CONNECT", path, scheme=scheme), (":protocol", protocol), ("sec-websocket-version", "13"), *fields]


def echo(ask):
    switch(ask)
    while piece := ask.stream.read_some():
        ask.send(piece)
    ask.stream.close()


def read_bytes(stream, count):
    """That many bytes of a tunnel, and whatever has come with the last of them."""
    received = b""
    while len(received) < count:
        piece = stream.read_piece()
        if not piece:
            raise Closed(f"the tunnel has ended after {received[:100]!r}")
        received += piece
    return received


class Messages:
    """WebSocket messages in a tunnel."""

    def __init__(self, stream):
        self._stream = stream
        self._protocol = Protocol(WebSocketSide.CLIENT, max_size=None)

    def _flush(self):
        for each in self._protocol.data_to_send():
            if each:
                self._stream.send(each)
            else:
                self._stream.end()

    def send(self, message):
        if isinstance(message, str):
            self._protocol.send_text(message.encode())
        else:
            self._protocol.send_binary(message)
        self._flush()

    def close(self, code):
        self._protocol.send_close(code)
        self._flush()

    def read(self):
        """The next frame, which is a message; of the close, its code."""
        while True:
            for frame in self._protocol.events_received():
                if frame.opcode is Opcode.CLOSE:
                    return self._protocol.close_rcvd.code
                return frame.data.decode() if frame.opcode is Opcode.TEXT else bytes(frame.data)
            piece = self._stream.read_piece()
            if piece:
                self._protocol.receive_data(piece)
            else:
                self._protocol.receive_eof()
            self._flush()


class Tunnels(case.Case):
    def start(self, *backends, **config):
        self.daemon_ = self.start_daemon(*backends, **config)
        self.peer = self.connect()

    def connect(self, tls=None, **kwargs):
        peer = Peer.connect(self.daemon_.address, tls=tls, **kwargs)

        def end():
            peer.close()
            self.assertEqual(peer.violations, [])

        self.addCleanup(end)
        return peer

    def open(self, *fields, end=False, **kwargs):
        return self.peer.open_stream(connect_fields(*fields, **kwargs), end)

    def opened(self, *fields, **kwargs):
        """A tunnel that the backend has accepted."""
        stream = self.open(*fields, **kwargs)
        self.assertEqual(stream.read_head().status, 200)
        return stream

    def assert_reset(self, stream, code):
        with self.assertRaises(Reset) as raised:
            while stream.read_piece():
                pass
        self.assertEqual(raised.exception.code, code)

    def assert_still_serves(self):
        self.assertNotIn(self.peer.exchange().status, range(500, 600))


@unittest.skipIf(websockets is None, "PyPI's websockets is not installed (./dev setup)")
class WebSocketsOverHttp2(Tunnels):
    def setUp(self):
        self.server = EchoServer()
        self.addCleanup(self.server.close)
        self.start(self.server.address)

    def test_messages_come_back(self):
        messages = Messages(self.opened())
        for message in ("hello", "", "\u00e9 \U0001f41f", b"\x00\xff", os.urandom(1_000_000)):
            messages.send(message)
            self.assertEqual(messages.read(), message)

    def test_the_server_may_send_first(self):
        self.assertEqual(Messages(self.opened(path="/speaks-first")).read(), "I begin")

    def test_the_end_of_the_client_reaches_the_server(self):
        messages = Messages(self.opened())
        messages.close(4001)
        self.assertEqual(messages.read(), 4001)
        self.eventually(lambda: self.server.closed == [4001], "the code of the close")
        line = self.daemon_.wait_access(1)[0]
        self.assertEqual((line["method"], line["protocol"], line["status"], line["reason"]), ("GET", "HTTP/2", 101, None))

    def test_the_end_of_the_server_reaches_the_client(self):
        stream = self.opened(path="/leaves")
        self.assertEqual(Messages(stream).read(), 4000)

    def test_a_client_that_is_cut_off_ends_the_servers_side(self):
        messages = Messages(self.opened())
        messages.send("hello")
        messages.read()
        self.peer.cut()
        self.eventually(lambda: self.server.closed == [1006], "an abnormal end")
        self.daemon_.wait_at_rest()

    def test_many_tunnels_share_a_connection(self):
        tunnels = [Messages(self.opened()) for _ in range(20)]
        for number, each in enumerate(tunnels):
            each.send(f"hello {number}")
        for number, each in enumerate(tunnels):
            self.assertEqual(each.read(), f"hello {number}")


@unittest.skipIf(websockets is None, "PyPI's websockets is not installed (./dev setup)")
class WebSocketsOverTls(Tunnels):
    def test_the_client_agrees_on_http2_and_the_backend_gets_http1(self):
        authority = Authority(self.folder())
        certificate = authority.issue("127.0.0.1")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate.cert, certificate.key)
        tls.set_alpn_protocols(["h2", "http/1.1"])
        server = EchoServer(tls)
        self.addCleanup(server.close)
        self.daemon_ = self.start_daemon(
            "https://" + server.address, pool={"tls": {"ca": authority.cert}, "health": {"check": "off"}},
            listeners=[{"name": "public", "address": "127.0.0.1:0",
                        "tls": {"certificates": [{"cert": certificate.cert, "key": certificate.key}]}}])
        client = ssl.create_default_context(cafile=authority.cert)
        client.set_alpn_protocols(["h2"])
        self.peer = self.connect(tls=client)
        messages = Messages(self.opened(scheme="https"))
        messages.send("hello")
        self.assertEqual(messages.read(), "hello")


class Handshake(Tunnels):
    """What becomes of an extended CONNECT and of the answer to it."""

    def answered(self, script, *fields, **kwargs):
        self.backend_ = self.backend(script)
        self.start(self.backend_)
        return self.open(*fields, **kwargs)

    def test_it_is_offered(self):
        self.start(self.backend())
        self.peer.wait_settled()
        self.assertEqual(self.peer.their(ENABLE_CONNECT_PROTOCOL, 0), 1)

    def test_the_backend_gets_an_upgrade(self):
        stream = self.answered(echo, ("sec-websocket-key", "of the client"), ("sec-websocket-accept", "of the client"),
                               ("sec-websocket-protocol", "chat, v2"), ("sec-websocket-extensions", "permessage-deflate"),
                               ("cookie", "a=1"), ("te", "trailers"), ("expect", "100-continue"), path="/ws?x=1")
        self.assertEqual(stream.read_head().status, 200)
        head = self.backend_.exchanges[0].head
        self.assertEqual(head.first_line, "GET /ws?x=1 HTTP/1.1")
        for name, values in (("host", ["test"]), ("connection", ["upgrade"]), ("upgrade", ["websocket"]),
                             ("sec-websocket-version", ["13"]), ("sec-websocket-protocol", ["chat, v2"]),
                             ("sec-websocket-extensions", ["permessage-deflate"]), ("cookie", ["a=1"]), ("te", []),
                             ("expect", []), ("content-length", []), ("transfer-encoding", []), ("sec-websocket-accept", [])):
            self.assertEqual(head.all(name), values, name)
        key, = head.all("sec-websocket-key")
        self.assertEqual(len(base64.b64decode(key, validate=True)), 16)

    def test_each_tunnel_has_a_key_of_its_own(self):
        self.answered(echo).read_head()
        self.opened()
        keys = [each.head.field("sec-websocket-key") for each in self.backend_.exchanges]
        self.assertEqual(len(set(keys)), 2)

    def test_the_client_gets_the_fields_that_concern_it(self):
        head = self.answered(lambda ask: switch(ask, ("Sec-WebSocket-Protocol", "v2"), ("X-Kept", "1"))).read_head()
        self.assertEqual((head.status, head.field("sec-websocket-protocol"), head.field("x-kept")), (200, "v2", "1"))
        for name in ("sec-websocket-accept", "upgrade", "connection", "content-length"):
            self.assertIsNone(head.field(name), name)

    def test_a_refusal_is_passed_on(self):
        stream = self.answered(lambda ask: ask.answer(b"no", status=403, fields=[("x-why", "because")]))
        head = stream.read_response()
        self.assertEqual((head.status, head.body, head.field("x-why")), (403, b"no", "because"))
        self.assert_still_serves()
        self.assertEqual(self.daemon_.wait_access(1)[0]["status"], 403)

    def test_what_was_sent_ahead_of_a_refusal_is_no_request(self):
        stream = self.answered(lambda ask: ask.answer(b"no", status=403))
        stream.send(b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertEqual(stream.read_response().status, 403)
        self.assert_still_serves()
        self.assertEqual([each.target for each in self.backend_.exchanges], ["/ws", "/"])

    def test_what_was_sent_ahead_of_the_answer_reaches_the_server(self):
        asked = threading.Event()

        def late(ask):
            asked.wait()
            echo(ask)

        stream = self.answered(late)
        stream.send(b"early")
        asked.set()
        self.assertEqual(stream.read_head().status, 200)
        self.assertEqual(read_bytes(stream, 5), b"early")

    def test_an_answer_without_a_tunnel_is_no_success(self):
        for content_type in ("text/plain", "application/grpc"):
            head = self.answered(lambda ask: ask.answer(b"hello"), ("content-type", content_type)).read_response()
            self.assertEqual((head.status, head.reason), (501, "not_implemented"))
            line = self.daemon_.wait_access(1)[0]
            self.assertEqual((line["status"], line["reason"]), (501, "not_implemented"))
            self.assertEqual(self.daemon_.metric("evenkeel_backend_errors_total"), 0)

    def test_a_wrong_accept_is_a_broken_backend(self):
        for broken in ({"accept": "wrong"}, {"upgrade": "chat"}):
            head = self.answered(lambda ask: switch(ask, **broken)).read_response()
            self.assertEqual((head.status, head.reason), (502, "backend_protocol"), broken)
            self.eventually(lambda: self.backend_.connections() == 0, "the end of the connection")

    def test_other_protocols_are_not_implemented(self):
        self.start(self.backend())
        for protocol in ("connect-udp", "webtransport", "h2c"):
            head = self.open(protocol=protocol, end=True).read_response()
            self.assertEqual((head.status, head.reason), (501, "not_implemented"), protocol)
        line = self.daemon_.wait_access(3)[0]
        self.assertEqual((line["method"], line["status"], line["backend"]), ("CONNECT", 501, None))

    def test_the_fields_are_checked_as_those_of_any_request(self):
        backend = self.backend()
        self.start(backend)
        for fields in (connect_fields(scheme="wss"), connect_fields(path="ws"), connect_fields(path="/a b"),
                       connect_fields(path="/a\r\nx: y"), connect_fields(("host", "other")),
                       connect_fields(("content-length", "0")), connect_fields(("content-length", "5")),
                       connect_fields(("upgrade", "websocket")), connect_fields(("x", "a\r\nb: c")),
                       connect_fields(protocol=""), connect_fields(protocol="websocket\r\nx: y"),
                       [*request_fields("GET", "/ws"), (":protocol", "websocket")]):
            try:
                status = self.peer.open_stream(fields, end=False).read_response().status
            except Reset as reset:
                status = reset.code
            self.assertIn(status, (400, 501, PROTOCOL_ERROR), fields)
        self.assertEqual(backend.exchanges, [])
        self.assert_still_serves()

    def test_a_connect_without_protocol_is_refused_as_ever(self):
        self.start(self.backend())
        head = self.peer.open_stream([(":method", "CONNECT"), (":authority", "other:443")]).read_response()
        self.assertEqual(head.status, 405)


class Ends(Tunnels):
    """A backend that is scripted byte by byte."""

    def tunnel(self, script, **config):
        self.backend_ = self.backend(script)
        self.start(self.backend_, **config)
        return self.opened()

    def line(self):
        line = self.daemon_.wait_access(1)[0]
        return line["status"], line["reason"]

    def test_a_client_that_has_sent_everything_still_receives(self):
        seen = []

        def script(ask):
            switch(ask)
            while piece := ask.stream.read_some():
                seen.append(piece)
            ask.send(b"last words")
            ask.stream.close()

        stream = self.tunnel(script)
        stream.send(b"and done", end=True)
        self.assertEqual(b"".join(stream.pieces()), b"last words")
        self.assertEqual(b"".join(seen), b"and done")
        self.assertEqual(self.line(), (101, None))

    def test_a_client_may_end_its_side_with_the_request(self):
        self.start(self.backend(lambda ask: (switch(ask), ask.stream.wait_closed(), ask.send(b"news"), ask.stream.close())))
        stream = self.open(end=True)
        self.assertEqual((stream.read_head().status, b"".join(stream.pieces())), (200, b"news"))

    def test_the_end_of_the_backend_ends_the_stream(self):
        stream = self.tunnel(lambda ask: (switch(ask), ask.send(b"bye"), ask.stream.close()))
        self.assertEqual(b"".join(stream.pieces()), b"bye")
        self.assertIn(stream.reset_code, (None, NO_ERROR))
        self.assertEqual(self.line(), (101, None))

    def test_a_backend_that_breaks_cancels_the_stream(self):
        def script(ask):
            switch(ask)
            ask.stream.read_exactly(1)
            ask.abort()

        stream = self.tunnel(script)
        stream.send(b"x")
        self.assert_reset(stream, CANCEL)
        self.assertEqual(self.line(), (101, "backend_closed"))
        self.daemon_.wait_at_rest()

    def test_a_reset_by_the_client_closes_the_backends_connection(self):
        ended = threading.Event()
        stream = self.tunnel(lambda ask: (switch(ask), ask.wait_disconnected(), ended.set()))
        stream.reset()
        self.assertTrue(ended.wait(20))
        self.assertEqual(self.line()[0], 499)
        self.daemon_.wait_at_rest()

    def test_trailers_do_not_belong_in_a_tunnel(self):
        ended = threading.Event()
        stream = self.tunnel(lambda ask: (switch(ask), ask.wait_disconnected(), ended.set()))
        stream.end([("x", "1")])
        self.assert_reset(stream, PROTOCOL_ERROR)
        self.assertTrue(ended.wait(20))
        self.assertEqual(self.line(), (101, "bad_request"))

    def test_trailers_that_come_with_the_head_refuse_it(self):
        backend = self.backend(lambda ask: ask.answer(b"hello"))
        self.start(backend)
        with Wire.connect(self.daemon_.address).open() as wire:
            wire.send(headers(1, connect_fields(), end=False), headers(1, [("x", "1")]))
            wire.until(lambda transcript: transcript.resets or transcript.statuses)
            self.assertEqual((wire.transcript.resets, wire.transcript.statuses), ({1: PROTOCOL_ERROR}, {}))
            line = self.daemon_.wait_access(1)[0]
            self.assertEqual((line["reason"], line["backend"]), ("bad_request", None))
            wire.send(*(headers(number, connect_fields(), end=False) + headers(number, [("x", "1")])
                        for number in range(3, 303, 2)))
            self.assertEqual(wire.until(lambda transcript: transcript.goaway is not None).goaway, ENHANCE_YOUR_CALM)
        self.assertEqual(backend.exchanges, [])

    def test_tunnels_that_are_reset_for_their_trailers_are_counted(self):
        """As every reset that a client provokes (CVE-2025-8671): a burst of 100."""
        self.start(self.backend(lambda ask: (switch(ask), ask.wait_disconnected())))
        tunnels = [self.open() for _ in range(125)]
        for stream in tunnels:
            self.assertEqual(stream.read_head().status, 200)
        self.peer.send(*(headers(stream.number, [("x", "1")]) for stream in tunnels))
        self.peer.wait(None, lambda: self.peer.goaway is not None)
        self.assertEqual(self.peer.goaway[1], ENHANCE_YOUR_CALM)
        self.daemon_.wait_at_rest()

    def test_a_tunnel_that_both_sides_leave_idle_ends(self):
        stream = self.tunnel(echo, pool={"timeouts": {"idle": "300ms"}})
        self.assert_reset(stream, CANCEL)
        self.assertEqual(self.line(), (101, "idle_timeout"))

    def test_a_tunnel_is_not_idle_while_its_client_sends(self):
        def script(ask):
            switch(ask)
            ask.send(ask.stream.read_exactly(12))
            ask.wait_disconnected()

        stream = self.tunnel(script, pool={"timeouts": {"idle": "4s"}})
        for _ in range(12):
            stream.send(b"x")
            time.sleep(0.5)  # less than the timeout, also on a busy machine
        self.assertEqual(read_bytes(stream, 12), b"x" * 12)
        stream.reset()

    def test_it_may_send_more_than_a_body_may_have_and_pause_for_longer(self):
        stream = self.tunnel(echo, listeners=[{"name": "public", "address": "127.0.0.1:0", "limits": {"body": "1KiB"},
                                               "timeouts": {"body": "200ms"}}])
        for _ in range(3):
            time.sleep(0.5)  # more than twice the timeout
            stream.send(b"x" * 1000)
            self.assertEqual(read_bytes(stream, 1000), b"x" * 1000)
        stream.reset()
        self.assertEqual(self.line()[0], 499)  # it was open until then


class FlowControl(Tunnels):
    SIZE = 16_000_000

    def test_a_backend_that_does_not_read_holds_the_client_back(self):
        reads = threading.Event()

        def script(ask):
            if ask.target != "/ws":
                return ask.answer(b"hello")
            switch(ask)
            reads.wait(20)
            ask.stream.read_exactly(self.SIZE)
            return ask.send(b"all")

        self.start(self.backend(script))
        stream = self.opened()
        before = self.daemon_.resident_bytes()
        sending = self.spawn(lambda: stream.send(bytes(self.SIZE)))
        self.eventually(lambda: stream._credit == 0, "a full window")
        self.daemon_.wait_asleep()
        self.assertTrue(sending.is_alive())
        self.assertLess(self.daemon_.resident_bytes() - before, 4_000_000)
        self.assertEqual(self.peer.exchange("GET", "/other").status, 200)  # the connection goes on
        reads.set()
        sending.join()
        self.assertEqual(read_bytes(stream, 3), b"all")
        stream.reset()

    def test_a_client_that_does_not_read_holds_the_backend_back(self):
        sent = threading.Event()

        def script(ask):
            if ask.target != "/ws":
                return ask.answer(b"hello")
            switch(ask)
            ask.send(bytes(self.SIZE))
            sent.set()
            return ask.stream.close()

        self.start(self.backend(script))
        self.peer = self.connect(values={INITIAL_WINDOW_SIZE: 100_000})
        stream = self.opened()
        before = self.daemon_.resident_bytes()
        self.eventually(lambda: stream.received >= 100_000, "a full window")
        self.daemon_.wait_asleep()
        self.assertFalse(sent.is_set())
        self.assertLess(self.daemon_.resident_bytes() - before, 4_000_000)
        self.assertEqual(self.peer.exchange("GET", "/other").status, 200)
        self.assertEqual(sum(len(piece) for piece in stream.pieces()), self.SIZE)


class Drain(Tunnels):
    def test_a_drain_waits_for_the_tunnel(self):
        self.start(self.backend(echo), shutdown={"drain": "20s"})
        stream = self.opened()
        self.daemon_.signal(signal.SIGTERM)
        self.daemon_.wait_line("draining")
        self.eventually(lambda: self.peer.goaway is not None, "a GOAWAY")
        stream.send(b"still here")
        self.assertEqual(read_bytes(stream, 10), b"still here")
        stream.end()
        self.assertEqual(b"".join(stream.pieces()), b"")
        self.assertEqual(self.daemon_.wait_exit(), 0)

    def test_the_deadline_of_the_drain_cuts_it_off(self):
        self.start(self.backend(echo), shutdown={"drain": "300ms"})
        stream = self.opened()
        self.assertEqual(self.daemon_.stop(), 3)
        with self.assertRaises((Closed, ConnectionError)):
            while stream.read_piece():
                pass
        self.assertEqual(self.daemon_.wait_access(1)[0]["reason"], "draining")


class Http2Backends(Tunnels):
    """Pools with `protocol: h2`, whose backends offer extended CONNECT or do not."""

    def start_h2(self, script, offers=True):
        self.backend_ = self.h2_backend(script, reads_body=False, values={ENABLE_CONNECT_PROTOCOL: 1} if offers else None)
        self.start(self.backend_, pool={"protocol": "h2", "health": {"check": "off"}})

    @staticmethod
    def echo(ask):
        ask.send_head([("sec-websocket-protocol", "v2")])
        for piece in ask.pieces():
            ask.chunk(piece)
        ask.end_chunks()

    def upgrade(self, stream, key="dGhlIHNhbXBsZSBub25jZQ=="):
        stream.send(b"GET /ws HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                    b"Sec-WebSocket-Key: " + key.encode() + b"\r\nSec-WebSocket-Version: 13\r\n\r\n")
        return stream.read_head()

    def asked(self):
        """The pseudo-fields that the backend got, and whether it got a key."""
        head = self.backend_.exchanges[0].head
        return head.pseudo, head.field("sec-websocket-key")

    def test_an_upgrade_over_http1_becomes_extended_connect(self):
        self.start_h2(self.echo)
        with Stream.connect(self.daemon_.address) as stream:
            head = self.upgrade(stream)
            self.assertEqual((head.status, head.field("upgrade"), head.field("sec-websocket-accept"),
                              head.field("sec-websocket-protocol")),
                             (101, "websocket", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "v2"))
            self.assertEqual(self.asked(), ({":method": "CONNECT", ":protocol": "websocket", ":scheme": "http",
                                             ":authority": "test", ":path": "/ws"}, None))
            payload = os.urandom(1_000_000)
            sending = self.spawn(lambda: stream.send(payload))
            self.assertEqual(stream.read_exactly(len(payload)), payload)
            sending.join()
            stream.socket.shutdown(1)
            self.assertEqual(stream.read_some(), b"")
        self.assertEqual(self.daemon_.wait_access(1)[0]["status"], 101)

    def test_http2_on_both_sides(self):
        self.start_h2(self.echo)
        stream = self.opened()
        self.assertEqual(self.asked()[0][":protocol"], "websocket")
        self.assertIsNone(stream.head.field("sec-websocket-accept"))
        stream.send(b"hello")
        self.assertEqual(read_bytes(stream, 5), b"hello")
        stream.send(b" and bye", end=True)
        self.assertEqual(b"".join(stream.pieces()), b" and bye")

    def test_a_refusal_is_passed_on(self):
        self.start_h2(lambda ask: ask.answer(b"no", status=403))
        head = self.open().read_response()
        self.assertEqual((head.status, head.body), (403, b"no"))
        with Stream.connect(self.daemon_.address) as stream:
            head = self.upgrade(stream)
            self.assertEqual((head.status, head.field("upgrade")), (403, None))
        self.eventually(lambda: all(each.stream.ended for each in self.backend_.exchanges), "the ends of the requests")

    def test_a_backend_that_resets_the_stream_cancels_the_clients(self):
        self.start_h2(lambda ask: (ask.send_head(), next(ask.pieces()), ask.abort(INTERNAL_ERROR)))
        stream = self.opened()
        stream.send(b"x")
        self.assert_reset(stream, CANCEL)

    def test_a_reset_by_the_client_resets_the_stream(self):
        gone = threading.Event()
        self.start_h2(lambda ask: (ask.send_head(), ask.wait_disconnected(), gone.set()))
        self.opened().reset()
        self.assertTrue(gone.wait(20))

    def test_a_tunnel_that_both_sides_leave_idle_ends(self):
        self.backend_ = self.h2_backend(self.echo, reads_body=False, values={ENABLE_CONNECT_PROTOCOL: 1})
        self.start(self.backend_, pool={"protocol": "h2", "health": {"check": "off"}, "timeouts": {"idle": "300ms"}})
        self.assert_reset(self.opened(), CANCEL)

    def test_a_backend_that_ends_first_sees_an_orderly_end(self):
        """Not a reset, which RFC 8441 likens to that of TCP."""
        self.start_h2(lambda ask: (ask.send_head(), ask.chunk(b"bye"), ask.end_chunks(), list(ask.pieces())))
        self.assertEqual(b"".join(self.opened().pieces()), b"bye")
        with Stream.connect(self.daemon_.address) as stream:
            self.assertEqual(self.upgrade(stream).status, 101)
            self.assertEqual(stream.read_exactly(3), b"bye")
            self.assertEqual(stream.read_some(), b"")
        for ask in self.backend_.exchanges:
            self.eventually(lambda asked=ask.stream: asked.ended or asked.gone_at, "the end of the tunnel")
            self.assertEqual((ask.stream.ended, ask.stream.reset_code), (True, None))
        self.assertEqual([(line["status"], line["reason"]) for line in self.daemon_.wait_access(2)], [(101, None)] * 2)

    def test_trailers_of_the_client_do_not_reach_the_backend(self):
        self.start_h2(lambda ask: (ask.send_head(), ask.wait_disconnected()))
        stream = self.opened()
        stream.end([("x", "1")])
        self.assert_reset(stream, PROTOCOL_ERROR)
        asked = self.backend_.exchanges[0].stream
        asked.wait_disconnected()
        self.assertEqual((asked.reset_code, asked.ended, asked.head.trailers), (CANCEL, False, []))

    def test_trailers_of_the_backend_do_not_reach_the_client(self):
        self.start_h2(lambda ask: (ask.send_head(), next(ask.pieces()), ask.end_chunks([("x", "1")]), ask.wait_disconnected()))
        stream = self.opened()
        stream.send(b"x")
        self.assert_reset(stream, CANCEL)
        self.assertEqual(stream.head.trailers, [])
        asked = self.backend_.exchanges[0].stream
        asked.wait_disconnected()
        self.assertEqual(asked.reset_code, PROTOCOL_ERROR)
        line = self.daemon_.wait_access(1)[0]
        self.assertEqual((line["status"], line["reason"]), (101, "backend_protocol"))

    def test_trailers_of_a_refusal_are_passed_on(self):
        self.start_h2(lambda ask: (ask.send_head(status=403), ask.chunk(b"no"), ask.end_chunks([("x", "1")])))
        head = self.open().read_response()
        self.assertEqual((head.status, head.body, head.trailers), (403, b"no", [("x", "1")]))

    def test_a_backend_that_does_not_offer_it_gets_an_ordinary_request(self):
        self.start_h2(lambda ask: ask.answer(b"hello"), offers=False)
        self.assertEqual(self.open().read_response().status, 501)
        self.assertEqual(self.backend_.exchanges[0].method, "GET")


if __name__ == "__main__":
    case.main()
