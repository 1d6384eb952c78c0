"""Frames and header sections of HTTP/2 that a client must not send, one connection for each."""

import struct
import threading

import http2
from hardening.attack import Attack, shown
from hardening.http1_requests import statuses_of
from hardening.naive_server import NaiveServer
from http2 import (CONTINUATION, DATA, ENABLE_PUSH, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE,
                   MAX_CONCURRENT_STREAMS, MAX_FRAME_SIZE, MAX_WINDOW, PING,
                   PREFACE, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, Wire, data, frame, headers, literal,
                   ping, request_fields, rst_stream, settings, window_update)
from stream import Closed

TITLE = "Requests over HTTP/2"
NOTATION = """Outcome: a status, RST_STREAM or GOAWAY with its code, `close` for a connection that ends; then the requests that reach the
server over HTTP/1.1. A request on another stream of the same connection is served unless the connection ends. `cut off`: the server gets a part of
the request and then the end of its connection; `incomplete at most`: that, or nothing."""


ENABLE_CONNECT_PROTOCOL = 8  # RFC 8441


def frames(name, sends, *sent, code, opened=False):
    """An error of the connection. `opened`: while a POST is open on stream 1."""
    first = headers(1, request_fields("POST", "/p"), end=False) if opened else b""
    return Attack(name, sends, first + b"".join(sent), tuple(f"GOAWAY {each}, close; nothing forwarded" for each in code.split("|"))
                  + tuple(f"GOAWAY {each}, close; cut off" for each in code.split("|") if opened))


def raw(name, sends, sent, *expected):
    """Bytes in place of a whole connection."""
    return Attack(name, sends, ("raw", sent), expected)


SETTINGS_CASES = [
    Attack("H2-SETTINGS-OURS", "the preface: our SETTINGS", ("settings", b""),
           ("MAX_CONCURRENT_STREAMS 128, ENABLE_CONNECT_PROTOCOL, no push; nothing forwarded",)),
    raw("H2-PREFACE-BAD", "another preface", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + settings(), "505, close; nothing forwarded"),
    raw("H2-FIRST-FRAME-NOT-SETTINGS", "PING before SETTINGS", PREFACE + ping(), "GOAWAY PROTOCOL_ERROR, close; nothing forwarded"),
    frames("H2-SETTINGS-LENGTH", "5 bytes of SETTINGS", frame(SETTINGS, 0, 0, b"\0" * 5), code="FRAME_SIZE_ERROR"),
    frames("H2-SETTINGS-STREAM", "SETTINGS of stream 1", frame(SETTINGS, 0, 1), code="PROTOCOL_ERROR"),
    frames("H2-SETTINGS-ACK-PAYLOAD", "an acknowledgement with payload", frame(SETTINGS, 1, 0, b"\0" * 6), code="FRAME_SIZE_ERROR"),
    frames("H2-SETTINGS-PUSH-2", "ENABLE_PUSH = 2", settings({2: 2}), code="PROTOCOL_ERROR"),
    frames("H2-SETTINGS-WINDOW", "INITIAL_WINDOW_SIZE = 2^31", settings({INITIAL_WINDOW_SIZE: 1 << 31}), code="FLOW_CONTROL_ERROR"),
    frames("H2-SETTINGS-FRAME-SIZE-LOW", "MAX_FRAME_SIZE = 16383", settings({MAX_FRAME_SIZE: 16383}), code="PROTOCOL_ERROR"),
    frames("H2-SETTINGS-FRAME-SIZE-HIGH", "MAX_FRAME_SIZE = 2^24", settings({MAX_FRAME_SIZE: 1 << 24}), code="PROTOCOL_ERROR"),
    frames("H2-SETTINGS-33-ENTRIES", "33 entries in one SETTINGS",
           frame(SETTINGS, 0, 0, struct.pack("!HI", INITIAL_WINDOW_SIZE, 65535) * 33), code="ENHANCE_YOUR_CALM"),
    frames("H2-PING-LENGTH", "a PING of 7 bytes", ping(b"\0" * 7), code="FRAME_SIZE_ERROR"),
    frames("H2-PING-STREAM", "a PING of stream 1", frame(PING, 0, 1, b"\0" * 8), code="PROTOCOL_ERROR"),
]

GET = headers(1, request_fields("GET", "/p"))


def closed(name, sends, *sent):
    """On a stream whose request has ended and been answered."""
    return Attack(name, sends, ("answered", b"".join(sent)), ("200, GOAWAY STREAM_CLOSED, close; GET /p",))


STREAMS = [
    frames("H2-DATA-IDLE", "DATA on stream 5, which is idle", data(5, b"abc"), code="PROTOCOL_ERROR"),
    frames("H2-DATA-STREAM-0", "DATA on stream 0", data(0, b"abc"), code="PROTOCOL_ERROR"),
    frames("H2-HEADERS-STREAM-0", "HEADERS on stream 0", headers(0, request_fields()), code="PROTOCOL_ERROR"),
    frames("H2-HEADERS-EVEN", "HEADERS on stream 2", headers(2, request_fields()), code="PROTOCOL_ERROR"),
    Attack("H2-HEADERS-LOWER", "HEADERS on stream 3 after stream 5",
           headers(5, request_fields("POST", "/p"), end=False) + headers(3, request_fields()),
           ("GOAWAY PROTOCOL_ERROR, close; nothing forwarded", "GOAWAY PROTOCOL_ERROR, close; cut off")),
    closed("H2-DATA-AFTER-END", "DATA after END_STREAM", data(1, b"more", end=True)),
    closed("H2-HEADERS-AFTER-END", "HEADERS after END_STREAM", headers(1, [("x", "1")])),
    frames("H2-PUSH-PROMISE", "PUSH_PROMISE from a client",
           frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack("!I", 2) + literal(request_fields())), code="PROTOCOL_ERROR", opened=True),
    frames("H2-RST-IDLE", "RST_STREAM of stream 5, which is idle", rst_stream(5), code="PROTOCOL_ERROR"),
    frames("H2-RST-LENGTH", "3 bytes of RST_STREAM", frame(RST_STREAM, 0, 1, b"\0" * 3), code="FRAME_SIZE_ERROR", opened=True),
    frames("H2-FRAME-TOO-LARGE", "a DATA frame of 16385 bytes", data(1, b"x" * 16385), code="FRAME_SIZE_ERROR", opened=True),
    frames("H2-PADDING-TOO-LONG", "padding longer than its frame", frame(DATA, http2.PADDED, 1, b"\xff" + b"x" * 10),
           code="PROTOCOL_ERROR", opened=True),
    frames("H2-PRIORITY-LENGTH", "4 bytes of PRIORITY", frame(PRIORITY, 0, 1, b"\0" * 4), code="FRAME_SIZE_ERROR", opened=True),
    frames("H2-PRIORITY-SELF", "a stream that depends on itself", frame(PRIORITY, 0, 1, struct.pack("!IB", 1, 16)),
           code="PROTOCOL_ERROR", opened=True),
]

WINDOWS = [
    frames("H2-WINDOW-UPDATE-0-STREAM", "WINDOW_UPDATE of 0 for a stream", window_update(1, 0), code="PROTOCOL_ERROR", opened=True),
    frames("H2-WINDOW-UPDATE-0-CONNECTION", "WINDOW_UPDATE of 0 for the connection", window_update(0, 0), code="PROTOCOL_ERROR"),
    frames("H2-WINDOW-UPDATE-LENGTH", "3 bytes of WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, b"\0" * 3), code="FRAME_SIZE_ERROR"),
    Attack("H2-WINDOW-OVERFLOW-STREAM", "WINDOW_UPDATE beyond 2^31-1 for a stream",
           headers(1, request_fields("POST", "/p"), end=False) + window_update(1, MAX_WINDOW),
           ("RST_STREAM FLOW_CONTROL_ERROR; nothing forwarded", "RST_STREAM FLOW_CONTROL_ERROR; cut off")),
    frames("H2-WINDOW-OVERFLOW-CONNECTION", "WINDOW_UPDATE beyond 2^31-1 for the connection", window_update(0, MAX_WINDOW),
           code="FLOW_CONTROL_ERROR"),
    frames("H2-SETTINGS-WINDOW-OVERFLOW", "SETTINGS that raise an open stream's window beyond 2^31-1",
           window_update(1, MAX_WINDOW - 65535), settings({INITIAL_WINDOW_SIZE: 70_000}), code="FLOW_CONTROL_ERROR", opened=True),
]

BLOCK = request_fields("GET", "/p")


def hpack(name, sends, block):
    return frames(name, sends, frame(HEADERS, END_HEADERS | END_STREAM, 1, block), code="COMPRESSION_ERROR")


HEADER_BLOCKS = [
    frames("H2-CONTINUATION-ALONE", "CONTINUATION without HEADERS", frame(CONTINUATION, END_HEADERS, 1), code="PROTOCOL_ERROR"),
    frames("H2-CONTINUATION-INTERLEAVED", "a PING between HEADERS and CONTINUATION",
           headers(1, BLOCK, flags=0), ping(), code="PROTOCOL_ERROR"),
    frames("H2-CONTINUATION-OTHER-STREAM", "CONTINUATION of another stream",
           headers(1, BLOCK, flags=0), frame(CONTINUATION, END_HEADERS, 3), code="PROTOCOL_ERROR"),
    hpack("H2-HPACK-INDEX", "an index beyond the table", literal(BLOCK) + b"\xff\x80\x01"),
    hpack("H2-HPACK-INDEX-0", "the index 0", literal(BLOCK) + b"\x80"),
    hpack("H2-HPACK-HUFFMAN-PADDING", "Huffman padding of zeros", literal(BLOCK) + b"\x00\x81\x18\x81\x18"),
    hpack("H2-HPACK-HUFFMAN-EOS", "EOS in a Huffman string", literal(BLOCK) + b"\x00\x84\xff\xff\xff\xff\x01a"),
    hpack("H2-HPACK-SIZE-OVER-LIMIT", "a table larger than announced", http2.integer(1 << 20, 5, 0x20) + literal(BLOCK)),
    hpack("H2-HPACK-SIZE-LATE", "a table size after the first field", literal(BLOCK) + http2.integer(100, 5, 0x20)),
    hpack("H2-HPACK-TRUNCATED", "a header block that ends in a string", literal(BLOCK) + b"\x00\x05ab"),
]


MALFORMED_OUTCOMES = ("RST_STREAM PROTOCOL_ERROR; nothing forwarded", "400; nothing forwarded")


def request(name, fields, *expected, sends=None, body=None):
    """A request on stream 1; `body`: DATA that ends it."""
    sent = headers(1, fields, end=body is None) + (b"" if body is None else data(1, body, end=True))
    return Attack(name, sends, ("request", sent), expected or MALFORMED_OUTCOMES)


def field(name, key, value, **kwargs):
    return request(name, request_fields("GET", "/p", [(key, value)]), sends=shown(f"{key}: {value}"), **kwargs)


def pseudo(name, key, value, *expected):
    fields = [(each, value if each == key else old) for each, old in request_fields("GET", "/p")]
    return request(name, fields, *expected, sends=shown(f"{key} = {value}"))


METHOD, SCHEME, AUTHORITY, PATH = request_fields("GET", "/p")
CONNECT = (":method", "CONNECT")
WEBSOCKET = [CONNECT, (":protocol", "websocket"), SCHEME, AUTHORITY, PATH]
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
INJECTED = "x\r\nx-smuggled: 1"

MALFORMED = [
    request("H2-PSEUDO-MISSING-METHOD", [SCHEME, AUTHORITY, PATH], sends="no `:method`"),
    request("H2-PSEUDO-MISSING-SCHEME", [METHOD, AUTHORITY, PATH], sends="no `:scheme`"),
    request("H2-PSEUDO-MISSING-PATH", [METHOD, SCHEME, AUTHORITY], sends="no `:path`"),
    request("H2-PSEUDO-DUPLICATE", [METHOD, METHOD, SCHEME, AUTHORITY, PATH], sends="two `:method`"),
    request("H2-PSEUDO-AFTER-FIELDS", [METHOD, SCHEME, AUTHORITY, ("x", "1"), PATH], sends="`:path` after a field"),
    request("H2-PSEUDO-UNKNOWN", [METHOD, SCHEME, AUTHORITY, PATH, (":x", "1")], sends="`:x`"),
    request("H2-PSEUDO-STATUS", [METHOD, SCHEME, AUTHORITY, PATH, (":status", "200")], sends="`:status` in a request"),
    request("H2-EXTENDED-CONNECT", WEBSOCKET, "501; GET /p connection: upgrade upgrade: websocket",
            sends="extended CONNECT (RFC 8441) for a WebSocket; the server answers 200 without an upgrade"),
    request("H2-EXTENDED-CONNECT-SMUGGLES", WEBSOCKET, "501; GET /p connection: upgrade upgrade: websocket", body=SMUGGLED,
            sends="the same, with a request of HTTP/1.1 as DATA"),
    request("H2-EXTENDED-CONNECT-OTHER", [CONNECT, (":protocol", "connect-udp"), SCHEME, AUTHORITY, PATH], "501; nothing forwarded",
            sends="`:protocol` = `connect-udp`"),
    request("H2-EXTENDED-CONNECT-CL", [*WEBSOCKET, ("content-length", "0")], sends="extended CONNECT with a `content-length`"),
    request("H2-PROTOCOL-WITHOUT-CONNECT", [METHOD, (":protocol", "websocket"), SCHEME, AUTHORITY, PATH],
            sends="`:protocol` in a GET"),
    field("H2-UPPERCASE", "Upper", "1"),
    field("H2-CONNECTION", "connection", "close"),
    field("H2-KEEP-ALIVE", "keep-alive", "timeout=5"),
    field("H2-PROXY-CONNECTION", "proxy-connection", "keep-alive"),
    field("H2-TRANSFER-ENCODING", "transfer-encoding", "chunked"),
    field("H2-UPGRADE", "upgrade", "websocket"),
    field("H2-TE", "te", "gzip"),
    request("H2-TE-TRAILERS", request_fields("GET", "/p", [("te", "trailers")]), "200; GET /p connection: te", sends="`te: trailers`"),
    field("H2-HOST-NOT-AUTHORITY", "host", "other"),
    field("H2-CL-INVALID", "content-length", "+3"),
    request("H2-CL-TWO", request_fields("POST", "/p", [("content-length", "3"), ("content-length", "4")]),
            sends="two `content-length`", body=b"abc"),
    pseudo("H2-PATH-EMPTY", ":path", ""),
    field("H2-VALUE-LEADING-SP", "x", " a"),
    field("H2-VALUE-TRAILING-TAB", "x", "a\t"),
    field("HG-H2-1", "x", "\ta\t"),
    field("HG-H2-2", "", ""),
]

CUT_OFF = ("RST_STREAM PROTOCOL_ERROR; nothing forwarded", "RST_STREAM PROTOCOL_ERROR; cut off")

DOWNGRADE = [
    field("H2-CRLF-IN-VALUE", "x", INJECTED),
    field("H2-LF-IN-VALUE", "x", "a\nb"),
    field("H2-CR-IN-VALUE", "x", "a\rb"),
    field("H2-NUL-IN-VALUE", "x", "a\0b"),
    field("H2-REQUEST-IN-VALUE", "x", "a\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"),
    field("H2-CRLF-IN-NAME", "x: 1\r\nx-smuggled", "1"),
    field("H2-COLON-IN-NAME", "x:y", "1"),
    field("H2-SP-IN-NAME", "x y", "1"),
    field("H2-NUL-IN-NAME", "x\0y", "1"),
    field("H2-NON-ASCII-NAME", "x\x80", "1"),
    field("H2-CTL-IN-NAME", "x\x7f", "1"),
    pseudo("H2-CRLF-IN-PATH", ":path", "/p HTTP/1.1\r\nx-smuggled: 1"),
    pseudo("H2-SP-IN-PATH", ":path", "/p HTTP/1.1"),
    pseudo("H2-NUL-IN-PATH", ":path", "/p\0"),
    pseudo("H2-FRAGMENT-IN-PATH", ":path", "/p#x"),
    pseudo("H2-PATH-WITHOUT-SLASH", ":path", "p"),
    pseudo("H2-PATH-ABSOLUTE", ":path", "http://other/p"),
    pseudo("H2-PATH-ASTERISK", ":path", "*"),
    pseudo("H2-CRLF-IN-METHOD", ":method", "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\nGET"),
    pseudo("H2-SP-IN-METHOD", ":method", "GE T"),
    pseudo("H2-CRLF-IN-SCHEME", ":scheme", "http\r\nx: y"),
    pseudo("H2-SCHEME-UNKNOWN", ":scheme", "gopher"),
    pseudo("H2-SCHEME-URL", ":scheme", "http://other/?"),
    pseudo("H2-CRLF-IN-AUTHORITY", ":authority", "a\r\nx: y"),
    pseudo("H2-SP-IN-AUTHORITY", ":authority", "a b"),
    pseudo("H2-USERINFO-IN-AUTHORITY", ":authority", "user@a"),
    pseudo("H2-PATH-IN-AUTHORITY", ":authority", "a/b"),
    pseudo("H2-NUL-IN-AUTHORITY", ":authority", "a\0"),
    request("H2-CL-SHORT", request_fields("POST", "/p", [("content-length", "5")]), *CUT_OFF,
            sends="`content-length: 5` and 3 bytes", body=b"abc"),
    request("H2-CL-LONG", request_fields("POST", "/p", [("content-length", "5")]), *CUT_OFF,
            sends="`content-length: 5` and 7 bytes", body=b"abcdefg"),
    request("H2-CL-NO-BODY", request_fields("POST", "/p", [("content-length", "5")]), *CUT_OFF,
            sends="`content-length: 5` and END_STREAM"),
    Attack("H2-TRAILERS-PSEUDO", "`:path` in trailers",
           ("request", headers(1, request_fields("POST", "/p"), end=False) + data(1, b"abc") + headers(1, [(":path", "/q")])), CUT_OFF),
    Attack("H2-TRAILERS-TE", "`transfer-encoding` in trailers",
           ("request", headers(1, request_fields("POST", "/p"), end=False) + data(1, b"abc")
            + headers(1, [("transfer-encoding", "chunked")])), CUT_OFF),
    Attack("H2-TRAILERS-CRLF", "CR and LF in trailers",
           ("request", headers(1, request_fields("POST", "/p"), end=False) + data(1, b"abc")
            + headers(1, [("x", "a\r\n\r\nGET /smuggled HTTP/1.1")])), CUT_OFF),
    Attack("H2-TRAILERS-NOT-END", "trailers without END_STREAM",
           ("request", headers(1, request_fields("POST", "/p"), end=False) + data(1, b"abc") + headers(1, [("x", "1")], end=False)),
           CUT_OFF),
    request("H2-COOKIE-CRUMBS", request_fields("GET", "/p", [("cookie", "a=b"), ("cookie", "c=d")]), "200; GET /p cookie: a=b; c=d",
            sends="two `cookie` fields"),
    request("H2-POST-NO-CL", request_fields("POST", "/p"), '200; POST /p transfer-encoding: chunked "hello"', sends="a body without `content-length`", body=b"hello"),
    request("H2-POST-NO-BODY", request_fields("POST", "/p"), "200; POST /p content-length: 0", sends="a POST that ends with its head"),
    request("H2-UNDERSCORE-ALIASES", request_fields("POST", "/p", [("content_length", "50"), ("transfer_encoding", "chunked")]),
            '200; POST /p transfer-encoding: chunked "hello"', '200; POST /p content-length: 5 "hello"',
            sends="`content_length`, `transfer_encoding`", body=b"hello"),
    request("H2-HOST-AND-AUTHORITY", request_fields("GET", "/p", [("host", "test")]), "200; GET /p", sends="`host` equal to `:authority`"),
]


def large(name, sends, fields, *expected):
    block = literal(request_fields("GET", "/p", fields))
    parts = [block[at:at + 16384] for at in range(0, len(block), 16384)]
    sent = b"".join(frame(CONTINUATION if at else HEADERS, (0 if at else END_STREAM) | (END_HEADERS if at == len(parts) - 1 else 0),
                          1, part) for at, part in enumerate(parts))
    return Attack(name, sends, ("request", sent), expected)


LARGE = [
    large("H2-HEADER-LIST-40K", "a field of 40000 bytes", [("x", "y" * 40_000)], "431; nothing forwarded"),
    large("H2-HEADER-LIST-90K", "90 KB of fields", [("x", "y" * 30_000)] * 3, "431; nothing forwarded"),
    large("H2-HEADER-LIST-101-FIELDS", "101 fields and more", [("x", "y")] * 105, "431; nothing forwarded"),
    large("H2-HEADER-LIST-1000-CRUMBS", "1000 `cookie` fields", [("cookie", "a=b")] * 1000,
          "431; nothing forwarded"),
]

ONE_BYTE_FRAMES = 20_000

LEGITIMATE = [
    Attack("H2-ONE-BYTE-DATA", f"{ONE_BYTE_FRAMES} DATA frames of 1 byte", ("request", headers(
        1, request_fields("POST", "/p"), end=False) + data(1, b"x") * ONE_BYTE_FRAMES + data(1, b"", end=True)),
        (f'200; POST /p transfer-encoding: chunked "{ONE_BYTE_FRAMES} bytes"',)),
]


class Bench:
    """A daemon in front of an HTTP/1.1 server that believes every byte."""

    def __init__(self, test):
        self.server = NaiveServer()
        test.addCleanup(self.server.close)
        self.daemon = test.start_daemon(self.server.address, workers=1)

    def run(self, attack):
        self.server.requests.clear()
        self.server.cut_off = 0
        kind, sent = attack.payload if isinstance(attack.payload, tuple) else ("frames", attack.payload)
        with Wire.connect(self.daemon.address) as wire:
            if kind == "raw":
                outcome = self._raw(wire, sent)
            elif kind == "settings":
                outcome = self._settings(wire.open().their_settings())
            else:
                wire.open()
                outcome = self._frames(wire, sent, kind)
        self._fence()
        return f"{outcome}; {self.server.forwarded()}"

    @staticmethod
    def _settings(values):
        return (f"MAX_CONCURRENT_STREAMS {values.get(MAX_CONCURRENT_STREAMS)}, "
                + ("ENABLE_CONNECT_PROTOCOL" if values.get(ENABLE_CONNECT_PROTOCOL) else "no ENABLE_CONNECT_PROTOCOL")
                + (", no push" if values.get(ENABLE_PUSH, 0) == 0 else ", push"))

    @staticmethod
    def _raw(wire, sent):
        """The answer may be frames or text."""
        wire.stream.send(sent)
        wire.stream.socket.settimeout(5)
        received = b""
        try:
            while part := wire.stream.socket.recv(65536):
                received += part
        except ConnectionError:
            pass
        except TimeoutError:
            return "open"
        if received.startswith(b"HTTP/1.1"):
            return ", ".join([*statuses_of(received), "close"])
        wire.feed(received)
        try:
            while wire._frames:
                wire.take()
        except Closed:
            pass
        code = wire.transcript.goaway
        return "close" if code is None else f"GOAWAY {http2.error_name(code)}, close"

    def _frames(self, wire, sent, kind):
        transcript = wire.transcript
        parts = []
        try:
            if kind == "answered":
                wire.ask(1, path="/p")
                parts.append(str(wire.answer_to(1).status))
            sender = threading.Thread(target=self._send, args=(wire, sent), daemon=True)
            sender.start()
            done = {"frames": lambda _: False, "answered": lambda _: False,
                    "request": lambda each: 1 in each.ended or 1 in each.resets}[kind]
            wire.stream.socket.settimeout(5 if kind == "request" else 1.5)
            wire.until(lambda each: each.goaway is not None or done(each))
            sender.join()
        except (Closed, ConnectionError, TimeoutError):
            pass
        if transcript.goaway is not None:
            ended = wire.until_closed(5).closed
            return ", ".join([*parts, f"GOAWAY {http2.error_name(transcript.goaway)}", *(["close"] if ended else [])])
        if kind != "answered":
            parts += [str(transcript.statuses[each]) for each in transcript.ended]
            parts += [f"RST_STREAM {http2.error_name(code)}" for each, code in transcript.resets.items()
                      if each not in transcript.statuses]
        try:
            wire.ask(101, path="/fence")
            assert wire.answer_to(101).status == 200
        except (Closed, ConnectionError):
            parts.append("close")
        return ", ".join(parts)

    @staticmethod
    def _send(wire, sent):
        try:
            wire.stream.send(sent)
        except OSError:
            pass

    def _fence(self):
        with Wire.connect(self.daemon.address).open() as wire:
            wire.ask(1, path="/fence")
            assert wire.answer_to(1).status == 200
