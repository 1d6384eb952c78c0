"""Requests of HTTP/1.1 that a client must not send, and harmless ones that look like them. A request is either refused together
with everything behind it, or evenkeel and the server understand it alike.

The ids are those of Http11Probe (SMUG, MAL, COMP, RFC9112), PortSwigger's permutations (PS) and the HTTP Garden's findings (HG-S: in
servers, HG-T: in proxies, by their numbers there)."""

import re

from hardening.attack import Attack, shown
from hardening.naive_server import NaiveServer
from stream import PATIENCE, Stream

TITLE = "Requests over HTTP/1.1"
NOTATION = """Outcome: the statuses that the client receives; `close` if evenkeel then closes the connection; the requests that reach the
server, with their framing and body. Every refused request is followed by `GET /smuggled`, which must not be answered. `cut off`: the
server gets a part of the request and then the end of its connection; `incomplete at most`: that, or nothing."""

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
HELLO = b"5\r\nhello\r\n0\r\n\r\n"


def refused(name, raw, status=400, sends=None):
    return Attack(name, sends or shown(raw), raw + SMUGGLED, (f"{status}, close; nothing forwarded",))


def understood(name, raw, *forwarded, sends=None, statuses=None):
    """The server gets exactly these requests."""
    statuses = statuses or ["200"] * len(forwarded)
    return Attack(name, sends or shown(raw), raw, (", ".join(statuses) + "; " + ", ".join(forwarded),))


def post(fields, body=b""):
    return b"POST /p HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n" + body


def get(fields):
    return b"GET / HTTP/1.1\r\nHost: a\r\n" + fields + b"\r\n"


def refused_post(name, fields, body=b"hello", status=400):
    return refused(name, post(fields, body), status, shown(fields[:-2]))


def refused_get(name, fields, status=400):
    return refused(name, get(fields), status, shown(fields[:-2] if fields.endswith(b"\r\n") else fields))


def refused_line(name, line, status=400):
    return refused(name, line + b"\r\nHost: a\r\n\r\n", status, shown(line))


def refused_chunks(name, body, status=400):
    """Found while the request is forwarded."""
    return Attack(name, shown(body), post(b"Transfer-Encoding: chunked\r\n", body + SMUGGLED),
                  (f"{status}, close; nothing forwarded", f"{status}, close; cut off"))


CONFLICT = b"0\r\n\r\nG"
CL6, CL4, TE = b"Content-Length: 6\r\n", b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n"

FRAMING_CONFLICTS = [
    refused_post("SMUG-CL-TE-BOTH", CL6 + TE, CONFLICT),
    refused_post("SMUG-CLTE-DESYNC", CL6 + TE, CONFLICT),
    refused_post("SMUG-TECL-DESYNC", TE + CL6, CONFLICT),
    refused_post("SMUG-CLTE-PIPELINE", CL4 + TE, b"0\r\n\r\n"),
    refused_post("SMUG-TECL-PIPELINE", TE + b"Content-Length: 30\r\n", b"0\r\n\r\n"),
    refused_post("SMUG-CLTE-SMUGGLED-GET", CL4 + TE, b"0\r\n\r\n"),
    refused_post("SMUG-CLTE-SMUGGLED-GET-CL-PLUS", b"Content-Length: +4\r\n" + TE, b"0\r\n\r\n"),
    refused_post("SMUG-CLTE-SMUGGLED-GET-CL-NON-NUMERIC", b"Content-Length: N\r\n" + TE, b"0\r\n\r\n"),
    refused_post("SMUG-CLTE-SMUGGLED-GET-TE-CASE-MISMATCH", CL4 + b"Transfer-Encoding: Chunked\r\n", b"0\r\n\r\n"),
    refused_post("SMUG-CLTE-SMUGGLED-GET-TE-LEADING-COMMA", CL4 + b"Transfer-Encoding: , chunked\r\n", b"0\r\n\r\n"),
    refused_post("SMUG-CLTE-SMUGGLED-GET-TE-OBS-FOLD", CL4 + b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n"),
    refused_post("SMUG-CLTE-SMUGGLED-GET-TE-TRAILING-SPACE", CL4 + b"Transfer-Encoding: chunked \r\n", b"0\r\n\r\n"),
    refused_post("SMUG-CLTE-SMUGGLED-HEAD", CL4 + TE, b"0\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n\r\n"),
    refused_post("SMUG-CLTE-CONN-CLOSE", b"Connection: close\r\n" + CL6 + TE, CONFLICT),
    refused_post("SMUG-TECL-CONN-CLOSE", b"Connection: close\r\n" + TE + CL6, CONFLICT),
]


def length(name, value):
    return refused_post(name, b"Content-Length:" + value + b"\r\n")


CONTENT_LENGTH = [
    refused_post("SMUG-DUPLICATE-CL", b"Content-Length: 5\r\nContent-Length: 10\r\n"),
    refused_post("SMUG-DUPLICATE-CL-SAME", b"Content-Length: 5\r\nContent-Length: 5\r\n"),
    length("SMUG-CL-COMMA-DIFFERENT", b" 5, 10"),
    length("SMUG-CL-COMMA-SAME", b" 5, 5"),
    length("SMUG-CL-COMMA-TRIPLE", b" 5, 5, 5"),
    length("SMUG-CL-NEGATIVE", b" -5"),
    length("SMUG-CL-NEGATIVE-ZERO", b" -0"),
    length("SMUG-CL-HEX-PREFIX", b" 0x5"),
    length("SMUG-CL-OCTAL", b" 0o5"),
    length("SMUG-CL-INTERNAL-SPACE", b" 1 0"),
    length("SMUG-CL-UNDERSCORE", b" 1_0"),
    length("SMUG-CL-DOUBLE-ZERO", b" 00"),
    length("MAL-CL-EMPTY", b" "),
    length("MAL-CL-OVERFLOW", b" 99999999999999999999999"),
    length("MAL-CL-WRAP-2-64", b" 18446744073709551621"),
    length("PS-CL-plus", b" +5"),
    length("PS-CL-minus", b" -5"),
    length("PS-CL-pad", b" 000005"),
    length("PS-CL-e", b" 5e0"),
    length("PS-CL-dec", b" 5.0"),
    length("PS-CL-commaprefix", b" 0, 5"),
    length("PS-CL-commasuffix", b" 5, 0"),
    length("SMUG-CL-LEADING-ZEROS", b" 005"),
    understood("SMUG-CL-EXTRA-LEADING-SP", post(b"Content-Length:  5\r\n", b"hello"), 'POST /p content-length: 5 "hello"'),
    understood("MAL-CL-TAB-BEFORE-VALUE", post(b"Content-Length:\t5\r\n", b"hello"), 'POST /p content-length: 5 "hello"'),
    understood("SMUG-CL-TRAILING-SPACE", post(b"Content-Length: 5 \r\n", b"hello"), 'POST /p content-length: 5 "hello"'),
]


def coding(name, fields, status=400):
    return refused_post(name, fields, HELLO, status)


CHUNKED = 'POST /p transfer-encoding: chunked "hello"'

TRANSFER_ENCODING = [
    coding("SMUG-TE-XCHUNKED", b"Transfer-Encoding: xchunked\r\n", 501),
    coding("SMUG-TE-IDENTITY", b"Transfer-Encoding: identity\r\n"),
    coding("SMUG-TE-EMPTY-VALUE", b"Transfer-Encoding: \r\n"),
    coding("SMUG-TE-DUPLICATE-HEADERS", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
    coding("SMUG-TE-DOUBLE-CHUNKED", b"Transfer-Encoding: chunked, chunked\r\n"),
    coding("SMUG-TE-NOT-FINAL-CHUNKED", b"Transfer-Encoding: chunked, gzip\r\n"),
    refused("SMUG-TE-HTTP10", b"POST /p HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n" + TE + b"\r\n" + HELLO),
    coding("SMUG-TE-SP-BEFORE-COLON", b"Transfer-Encoding : chunked\r\n"),
    coding("SMUG-TE-VTAB", b"Transfer-Encoding: \x0bchunked\r\n"),
    coding("SMUG-TE-FORMFEED", b"Transfer-Encoding: \x0cchunked\r\n"),
    coding("SMUG-TE-NULL", b"Transfer-Encoding: chunked\0\r\n"),
    coding("SMUG-TE-OBS-FOLD", b"Transfer-Encoding:\r\n chunked\r\n"),
    coding("SMUG-TE-LEADING-COMMA", b"Transfer-Encoding: ,chunked\r\n"),
    coding("SMUG-TE-TRAILING-COMMA", b"Transfer-Encoding: chunked,\r\n"),
    coding("SMUG-CHUNKED-WITH-PARAMS", b"Transfer-Encoding: chunked;ext=val\r\n"),
    understood("PS-TE-vanilla", post(TE, HELLO), CHUNKED),
    coding("PS-TE-nameprefix1", b" Transfer-Encoding: chunked\r\n"),
    coding("PS-TE-vertwrap", b"Transfer-Encoding: \n\x0bchunked\r\n"),
    coding("PS-TE-0dwrap", b"Foo: bar\r\n\rTransfer-Encoding: chunked\r\n"),
    coding("PS-TE-spjunk", b"Transfer-Encoding x: chunked\r\n"),
    coding("PS-TE-backslash", b"Transfer\\Encoding: chunked\r\n"),
    coding("PS-TE-unispace", b"Transfer-Encoding: \xa0chunked\r\n"),
    coding("PS-TE-0dsuffix", b"Transfer-Encoding: chunked\r\r\n"),
    understood("PS-TE-tabsuffix", post(b"Transfer-Encoding: chunked\t\r\n", HELLO), CHUNKED),
    coding("PS-TE-dualchunk", b"Transfer-Encoding: chunked\r\nTransfer-encoding: identity\r\n"),
    coding("PS-TE-quoted", b"Transfer-Encoding: \"chunked\"\r\n"),
    coding("PS-TE-badwrap", b"Transfer-Encoding: x\r\n chunked\r\n"),
    understood("SMUG-TE-CASE-MISMATCH", post(b"Transfer-Encoding: Chunked\r\n", HELLO), CHUNKED),
    understood("SMUG-TE-TAB-BEFORE-VALUE", post(b"Transfer-Encoding:\tchunked\r\n", HELLO), CHUNKED),
    understood("SMUG-TE-UNDERSCORE", post(b"Transfer_Encoding: chunked\r\nContent_Length: 5\r\nContent-Length: 2\r\n", b"hi"),
               'POST /p content-length: 2 "hi"'),
]

CHUNKS = [
    refused_chunks("SMUG-CHUNK-BARE-SEMICOLON", b"5;\r\nhello\r\n0\r\n\r\n"),
    refused_chunks("SMUG-CHUNK-BARE-CR-TERM", b"5\rhello\r\n0\r\n\r\n"),
    refused_chunks("SMUG-CHUNK-EXT-CR", b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    refused_chunks("SMUG-CHUNK-EXT-CTRL", b"5;a\0\r\nhello\r\n0\r\n\r\n"),
    refused_chunks("SMUG-CHUNK-EXT-INVALID-TOKEN", b"5;[x]=y\r\nhello\r\n0\r\n\r\n"),
    refused_chunks("SMUG-CHUNK-EXT-LF", b"5;a\nhello\r\n0\r\n\r\n"),
    refused_chunks("SMUG-CHUNK-HEX-PREFIX", b"0x5\r\nhello\r\n0\r\n\r\n"),
    refused_chunks("SMUG-CHUNK-INVALID-SIZE-DESYNC", b"+\r\nhello\r\n0\r\n\r\n"),
    refused_chunks("SMUG-CHUNK-LEADING-SP", b" 5\r\nhello\r\n0\r\n\r\n"),
    refused_chunks("SMUG-CHUNK-LF-TERM", b"5\nhello\n0\n\n"),
    refused_chunks("SMUG-CHUNK-LF-TRAILER", b"5\r\nhello\r\n0\r\nx: 1\n\r\n"),
    refused_chunks("SMUG-CHUNK-MISSING-TRAILING-CRLF", b"5\r\nhello0\r\n\r\n"),
    refused_chunks("SMUG-CHUNK-NEGATIVE", b"-5\r\nhello\r\n0\r\n\r\n"),
    refused_chunks("SMUG-CHUNK-SIZE-PLUS", b"+5\r\nhello\r\n0\r\n\r\n"),
    refused_chunks("SMUG-CHUNK-SIZE-TRAILING-OWS", b"5 \r\nhello\r\n0\r\n\r\n"),
    refused_chunks("SMUG-CHUNK-SPILL", b"5\r\nhello!!\r\n0\r\n\r\n"),
    refused_chunks("SMUG-CHUNK-UNDERSCORE", b"0_5\r\nhello\r\n0\r\n\r\n"),
    refused_chunks("MAL-CHUNK-SIZE-OVERFLOW", b"ffffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    refused_chunks("MAL-CHUNK-SIZE-17-DIGITS", b"00000000000000005\r\nhello\r\n0\r\n\r\n"),
    refused_chunks("MAL-CHUNK-EXT-64K", b"5;" + b"a" * 65536 + b"\r\nhello\r\n0\r\n\r\n"),
    Attack("MAL-CHUNK-EXT-EACH", "1000 chunks of 1 byte, each with an extension of 250 bytes",
           post(TE, (b"1;" + b"e" * 250 + b"\r\nx\r\n") * 1000 + b"0\r\n\r\n" + SMUGGLED),
           ("400, close; nothing forwarded", "400, close; cut off")),
    Attack("MAL-TRAILERS-20000", "20000 trailers", post(TE, b"0\r\n" + b"x: 1\r\n" * 20000 + b"\r\n" + SMUGGLED),
           ("400, close; nothing forwarded", "400, close; cut off")),
    refused_chunks("MAL-TRAILER-LINE-64K", b"0\r\nx: " + b"a" * 65536 + b"\r\n\r\n"),
]


def dropped_trailer(name, trailer):
    raw = post(TE, b"5\r\nhello\r\n0\r\n" + trailer + b"\r\nx-ok: 1\r\n\r\n")
    return understood(name, raw, CHUNKED + " trailer x-ok: 1", sends=shown(b"0\r\n" + trailer + b"\r\nx-ok: 1\r\n\r\n"))


TRAILERS = [
    dropped_trailer("SMUG-TRAILER-CL", b"Content-Length: 50"),
    dropped_trailer("SMUG-TRAILER-TE", b"Transfer-Encoding: chunked"),
    dropped_trailer("SMUG-TRAILER-HOST", b"Host: evil"),
    dropped_trailer("SMUG-TRAILER-AUTH", b"Authorization: Bearer x"),
    dropped_trailer("SMUG-TRAILER-CONTENT-TYPE", b"Content-Type: text/html"),
    dropped_trailer("SMUG-TRAILER-X-FORWARDED-FOR", b"X-Forwarded-For: 1.2.3.4"),
    dropped_trailer("SMUG-TRAILER-COOKIE", b"Cookie: a=b"),
]

START_LINES = [
    refused_line("MAL-LONG-METHOD", b"A" * 5000 + b" / HTTP/1.1"),
    refused_line("MAL-LONG-URL", b"GET /" + b"a" * 65000 + b" HTTP/1.1", 414),
    refused_line("RFC9112-3-MISSING-TARGET", b"GET HTTP/1.1"),
    refused_line("RFC9112-3-MULTI-SP", b"GET  /  HTTP/1.1"),
    refused_line("COMP-REQUEST-LINE-TAB", b"GET\t/\tHTTP/1.1"),
    refused_line("COMP-SPACE-IN-TARGET", b"GET /a b HTTP/1.1"),
    refused_line("COMP-VERSION-CASE", b"GET / http/1.1"),
    refused_line("COMP-VERSION-LEADING-ZEROS", b"GET / HTTP/01.01"),
    refused_line("COMP-VERSION-MISSING-MINOR", b"GET / HTTP/1"),
    refused_line("COMP-VERSION-WHITESPACE", b"GET / HTTP/ 1.1"),
    refused_line("COMP-HTTP12-VERSION", b"GET / HTTP/1.2"),
    Attack("MAL-H2-PREFACE", "the preface of HTTP/2, which every port speaks, then HTTP/1.1",
           b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SMUGGLED, ("close; nothing forwarded",)),
    refused_line("COMP-HTTP20-VERSION", b"GET / HTTP/2.0", 505),
    refused_line("COMP-HTTP09", b"GET /"),
    refused_line("COMP-FRAGMENT-IN-TARGET", b"GET /a#b HTTP/1.1"),
    refused_line("COMP-BACKSLASH-IN-TARGET", b"GET /a\\..\\b HTTP/1.1"),
    refused_line("COMP-NUL-IN-TARGET", b"GET /\0 HTTP/1.1"),
    refused_line("COMP-NON-ASCII-IN-TARGET", b"GET /\xff HTTP/1.1"),
    refused_line("COMP-CR-IN-REQUEST-LINE", b"GET / HTTP/1.1\rX: y"),
    refused_line("COMP-LEADING-SPACE", b" GET / HTTP/1.1"),
    refused("COMP-TWO-LEADING-CRLF", b"\r\n\r\n" + get(b"")),
    understood("COMP-LEADING-CRLF", b"\r\n" + get(b""), "GET /"),
    refused("MAL-TLS-HELLO", b"\x16\x03\x01\x02\x01\x01\xfc\x03\x03\r\n\r\n"),
]

FIELDS = [
    refused_get("MAL-NUL-IN-HEADER-VALUE", b"X: a\0b\r\n"),
    refused_get("MAL-CONTROL-CHARS-HEADER", b"X: a\x01\x1fb\r\n"),
    refused_get("MAL-NON-ASCII-HEADER-NAME", b"X-\xc3\xa4: a\r\n"),
    refused_get("MAL-LONG-HEADER-NAME", b"X" * 40000 + b": a\r\n", 431),
    refused_get("MAL-LONG-HEADER-VALUE", b"X: " + b"a" * 70000 + b"\r\n", 431),
    refused("MAL-MANY-HEADERS", get(b"X: a\r\n" * 1000), 431, "1000 fields"),
    refused_get("RFC9112-5-EMPTY-HEADER-NAME", b": a\r\n"),
    refused_get("RFC9112-5-HEADER-NO-COLON", b"Xa\r\n"),
    refused_get("RFC9112-5-INVALID-HEADER-NAME", b"X[]: a\r\n"),
    refused_get("SMUG-BARE-CR-HEADER-VALUE", b"X: a\rTransfer-Encoding: chunked\r\n"),
    refused_get("SMUG-BARE-LF-HEADER-VALUE", b"X: a\nTransfer-Encoding: chunked\r\n"),
    refused("RFC9112-2.2-BARE-LF-LINES", b"GET / HTTP/1.1\nHost: a\n\n"),
    refused("SMUG-WHITESPACE-BEFORE-HEADERS", b"GET / HTTP/1.1\r\n \r\nHost: a\r\n\r\n"),
    refused_get("RFC9112-5.2-OBS-FOLD", b"X: a\r\n b\r\n"),
    refused_get("RFC9112-5.2-OBS-FOLD-TAB", b"X: a\r\n\tb\r\n"),
    refused_get("RFC9112-5.1-SP-BEFORE-COLON", b"X : a\r\n"),
]


def host(name, fields):
    return refused(name, b"GET / HTTP/1.1\r\n" + fields + b"\r\n", 400, shown(fields[:-2]) if fields else "no Host field")


HOST = [
    host("RFC9112-3.2-MISSING-HOST", b""),
    host("COMP-DUPLICATE-HOST", b"Host: a\r\nHost: b\r\n"),
    host("COMP-DUPLICATE-HOST-SAME", b"Host: a\r\nHost: a\r\n"),
    host("SMUG-MULTIPLE-HOST-COMMA", b"Host: a, b\r\n"),
    host("COMP-HOST-EMPTY-VALUE", b"Host: \r\n"),
    host("COMP-HOST-WITH-PATH", b"Host: a/b\r\n"),
    host("COMP-HOST-WITH-USERINFO", b"Host: user@a\r\n"),
    refused("SMUG-ABSOLUTE-URI-HOST-MISMATCH", b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    understood("COMP-ABSOLUTE-FORM", b"GET http://a/x HTTP/1.1\r\nHost: a\r\n\r\n", "GET /x"),
]

METHODS = [
    refused_line("COMP-METHOD-CONNECT", b"CONNECT a:443 HTTP/1.1", 405),
    refused_line("COMP-METHOD-TRACE", b"TRACE / HTTP/1.1", 405),
    understood("COMP-UNKNOWN-METHOD", b"BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n", "BREW /pot"),
    refused_line("COMP-ASTERISK-WITH-GET", b"GET * HTTP/1.1"),
]

HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"


def with_body(name, method, fields=b""):
    """A body that looks like a request is a body, and the request behind it is a request."""
    raw = method + b" /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n" % len(HIDDEN) + fields + b"\r\n" + HIDDEN + SMUGGLED
    return understood(name, raw, f'{method.decode()} /x content-length: {len(HIDDEN)} "{len(HIDDEN)} bytes"', "GET /smuggled",
                      sends=shown(raw.split(b"\r\nHost")[0] + b", a request as body, another behind it"))


BODIES = [
    understood("SMUG-CL0-BODY-POISON", post(b"Content-Length: 0\r\n") + SMUGGLED, "POST /p content-length: 0", "GET /smuggled"),
    with_body("SMUG-GET-CL-BODY-DESYNC", b"GET"),
    with_body("SMUG-HEAD-CL-BODY", b"HEAD"),
    with_body("SMUG-OPTIONS-CL-BODY-DESYNC", b"OPTIONS"),
    with_body("SMUG-EXPECT-100-CL-DESYNC", b"POST", b"Expect: 100-continue\r\n"),
    understood("SMUG-GET-CL-PREFIX-DESYNC",
               b"GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" + SMUGGLED,
               'GET /x content-length: 5 "hello"', "GET /smuggled"),
    understood("SMUG-PIPELINE-SAFE", SMUGGLED + SMUGGLED, "GET /smuggled", "GET /smuggled"),
    Attack("SMUG-EXPECT-OTHER", "`Expect: 100-continue, x`",
           post(b"Content-Length: 5\r\nExpect: 100-continue, x\r\n", b"hello") + SMUGGLED, ("417, close; nothing forwarded",)),
]

UPGRADES = [
    understood("COMP-UPGRADE-POST",
               post(b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n", b"hi"),
               'POST /p content-length: 2 "hi"'),
    understood("COMP-UPGRADE-MISSING-CONN", get(b"Upgrade: websocket\r\n"), "GET /"),
    understood("COMP-UPGRADE-UNKNOWN", get(b"Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n"), "GET /"),
    Attack("COMP-UPGRADE-INVALID-VER", "a WebSocket of version 99, which the server refuses",
           get(b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 99\r\nSec-WebSocket-Key: x\r\n") + SMUGGLED,
           ("200, close; GET / connection: upgrade upgrade: websocket",)),
    understood("COMP-UPGRADE-HTTP10",
               b"GET / HTTP/1.0\r\nHost: a\r\nConnection: Upgrade, keep-alive\r\nUpgrade: websocket\r\n\r\n", "GET /"),
    understood("COMP-UPGRADE-H2C",
               get(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"), "GET /"),
    understood("COMP-CONNECTION-NOMINATES", get(b"Connection: X-Secret\r\nX-Secret: 1\r\nKeep-Alive: 1\r\n"), "GET /"),
    refused_get("COMP-CONNECTION-NOMINATES-HOST", b"Connection: Host\r\n"),
    refused_post("COMP-CONNECTION-NOMINATES-CL", b"Connection: Content-Length\r\nContent-Length: 5\r\n"),
    refused_get("COMP-CONNECTION-NOMINATES-AUTH", b"Connection: authorization\r\nAuthorization: x\r\n"),
]

EARLY = [
    Attack("SMUG-BODY-NEVER-ENDS", "`Content-Length: 10` and 5 bytes", post(b"Content-Length: 10\r\n", b"hello"),
           ("408, close; nothing forwarded", "408, close; cut off")),
    Attack("SMUG-CHUNKS-NEVER-END", shown(b"5\r\nhello\r\n0\r\n"), post(TE, b"5\r\nhello\r\n0\r\n"),
           ("408, close; nothing forwarded", "408, close; cut off")),
]


class Bench:
    """A daemon in front of a server that believes every byte."""

    def __init__(self, test):
        self.server = NaiveServer()
        test.addCleanup(self.server.close)
        self.daemon = test.start_daemon(self.server.address, workers=1, listeners=[
            {"name": "public", "timeouts": {"header": "1s", "body": "500ms"}}])

    def run(self, attack):
        self.server.requests.clear()
        self.server.cut_off = 0
        statuses = len(re.findall(r"\b[2-5]\d\d\b", attack.expected[0].split(";")[0]))
        ended = None
        received = b""
        with Stream.connect(self.daemon.address) as stream:
            stream.socket.settimeout(PATIENCE / 4)
            try:
                stream.send(attack.payload)
                while "close" in attack.expected[0] or len(statuses_of(received)) < statuses:
                    part = stream.socket.recv(1 << 16)
                    if not part:
                        ended = "close"
                        break
                    received += part
            except TimeoutError:
                pass
            except ConnectionError:
                ended = "reset"
            self._fence()
            if ended is None:
                stream.socket.setblocking(False)
                try:
                    while part := stream.socket.recv(1 << 16):
                        received += part
                    ended = "close"
                except BlockingIOError:
                    pass
                except ConnectionError:
                    ended = "reset"
            return ", ".join([*statuses_of(received), *([ended] if ended else [])]) + "; " + self.server.forwarded()

    def _fence(self):
        """What was forwarded before has reached the server when this is answered."""
        with Stream.connect(self.daemon.address) as stream:
            assert stream.exchange(target="/fence").status == 200


def statuses_of(received):
    """The statuses of the final responses."""
    return [found.decode() for found in re.findall(rb"HTTP/1\.1 ([2-5]\d\d) [^\r\n]*\r\n", received)]
