"""Responses that a server must not send. Each is read through a client of HTTP/1.1 and one of HTTP/2: a response is refused with 502
before its head went out, or its client sees that it was cut off; the connection is never used again."""

import threading
import time

import http2
from hardening.attack import Attack, shown
from listening_server import ListeningServer
from stream import PATIENCE, Closed, Stream

TITLE = "Responses over HTTP/1.1"
NOTATION = """Outcome: the response that the client receives, alike over HTTP/1.1 and HTTP/2; `cut off`: the status arrives, but no end of
the body (no last chunk, or RST_STREAM). Then whether evenkeel used the connection to the server again, and whether it counted
a failure of the server."""

OK = b"HTTP/1.1 200 OK\r\n"


def bad(name, raw, end=False, method="GET", sends=None, **extra):
    """Refused before anything went out. `end`: the server then closes."""
    return Attack(name, sends or shown(raw), (raw, end, method), ("502; connection closed; failure counted",), **extra)


def cut(name, raw, end=False, sends=None):
    return Attack(name, sends or shown(raw), (raw, end, "GET"), ("200 cut off; connection closed; failure counted",))


def fine(name, raw, response, connection="closed", end=False, method="GET", sends=None):
    return Attack(name, sends or shown(raw), (raw, end, method),
                  (f"{response}; connection {connection}; no failure counted",))


HEADS = [
    bad("RESP-CL-TE", OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
    bad("RESP-DUPLICATE-CL", OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi"),
    bad("RESP-CL-LIST", OK + b"Content-Length: 2, 2\r\n\r\nhi"),
    bad("RESP-CL-NEGATIVE", OK + b"Content-Length: -2\r\n\r\nhi"),
    bad("RESP-OBS-FOLD", OK + b"X: a\r\n b\r\nContent-Length: 2\r\n\r\nhi"),
    bad("RESP-NUL", OK + b"X: a\0b\r\nContent-Length: 2\r\n\r\nhi"),
    bad("RESP-BARE-CR", OK + b"X: a\rb\r\nContent-Length: 2\r\n\r\nhi"),
    bad("RESP-BARE-LF", b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"),
    bad("RESP-SP-BEFORE-COLON", OK + b"Content-Length : 2\r\n\r\nhi"),
    bad("RESP-STATUS-99", b"HTTP/1.1 99 Low\r\nContent-Length: 2\r\n\r\nhi"),
    bad("RESP-STATUS-1000", b"HTTP/1.1 1000 High\r\nContent-Length: 2\r\n\r\nhi"),
    bad("RESP-STATUS-2OO", b"HTTP/1.1 2OO OK\r\nContent-Length: 2\r\n\r\nhi"),
    bad("RESP-MISSING-CRLF", OK + b"Content-Length: 2\r\nX: y", end=True),
    bad("RESP-HEADER-70K", OK + b"X: " + b"a" * 70000 + b"\r\nContent-Length: 2\r\n\r\nhi"),
    bad("RESP-5000-FIELDS", OK + b"X: a\r\n" * 5000 + b"Content-Length: 2\r\n\r\nhi", sends="5000 fields"),
    bad("RESP-UNSOLICITED-101", b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
    bad("RESP-1XX-ENDLESS", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 5000, sends="5000 times 103"),
    bad("RESP-HTTP2-VERSION", b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
    bad("RESP-HTTP09", b"hello\r\n", end=True),
    bad("RESP-TE-GZIP", OK + b"Transfer-Encoding: gzip\r\n\r\nhi"),
    bad("RESP-TE-IN-HTTP10", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
    bad("RESP-NOTHING", b"", end=True, sends="(closes the connection)"),
]

BODIES = [
    cut("RESP-TRUNCATED-CL", OK + b"Content-Length: 20000\r\n\r\n" + b"x" * 10000, end=True),
    cut("RESP-TRUNCATED-CHUNK", OK + b"Transfer-Encoding: chunked\r\n\r\n4e20\r\n" + b"x" * 10000, end=True),
    cut("RESP-MISSING-LAST-CHUNK", OK + b"Transfer-Encoding: chunked\r\n\r\n2710\r\n" + b"x" * 10000 + b"\r\n", end=True),
    Attack("RESP-BAD-CHUNK-SIZE", "a chunk, then one of size `0x5`",
           ((OK + b"Transfer-Encoding: chunked\r\n\r\n2710\r\n" + b"x" * 10000 + b"\r\n", b"0x5\r\nhello\r\n0\r\n\r\n"), False, "GET"),
           ("200 cut off; connection closed; failure counted", "502; connection closed; failure counted")),
]

COMPLETE = [
    fine("RESP-EXTRA-BYTES", OK + b"Content-Length: 2\r\n\r\nhi" + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", "200 hi"),
    fine("RESP-BEFORE-REQUEST", (OK + b"Content-Length: 2\r\n\r\nhi", OK + b"Content-Length: 4\r\n\r\nevil"), "200 hi",
         sends="a second response 10 ms later, before the next request"),
    fine("RESP-HEAD-WITH-BODY", OK + b"Content-Length: 4\r\n\r\nevil", "200", method="HEAD"),
    fine("RESP-204-WITH-BODY", b"HTTP/1.1 204 No Content\r\n\r\nevil", "204"),
    fine("RESP-304-WITH-BODY", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nevil", "304"),
    fine("RESP-HTTP10-KEEP-ALIVE-NO-CL", b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nhi", "200 hi", end=True),
    fine("RESP-UNTIL-CLOSE", OK + b"\r\nhi", "200 hi", end=True),
    fine("RESP-PLAIN", OK + b"Content-Length: 2\r\n\r\nhi", "200 hi", connection="reused"),
]


class Server(ListeningServer):
    """Sends fixed bytes as the response to each request for /attack, and a small response to any other."""

    def __init__(self):
        self.payload = (b"", False, "GET")
        self.last = 0  # number of the connection with the last request
        self.sent = threading.Event()  # the whole response
        super().__init__()

    def ended(self, stream):
        stream.close()

    def serve(self, stream, number):
        while True:
            head = stream.read_head()
            self.last = number
            if head.target != "/attack":
                stream.send(OK + b"Content-Length: 4\r\n\r\nfine")
                continue
            raw, end, _ = self.payload
            try:
                for number_of_part, part in enumerate(raw if isinstance(raw, tuple) else (raw,)):
                    if number_of_part > 0:
                        time.sleep(0.01)  # so that they usually arrive apart
                    stream.send(part)
            finally:
                self.sent.set()
            if end:
                return


class Bench:
    def __init__(self, test):
        self.server = Server()
        test.addCleanup(self.server.close)
        self.daemon = test.start_daemon(self.server.address, workers=1, pool={"keep_alive": {"idle": "60s"}})

    def run(self, attack):
        self.server.payload = attack.payload
        got = {name: self._once(ask, attack.payload[2]) for name, ask in (
            ("HTTP/1.1", self._over_http1), ("HTTP/2", self._over_http2))}
        if len(set(got.values())) == 1 or all(each in attack.expected for each in got.values()):
            return got["HTTP/1.1"]
        return "; ".join(f"{name}: {each}" for name, each in got.items())

    def _once(self, ask, method):
        failures = self._failures()
        self.server.sent.clear()
        response = ask(method)
        attacked = self.server.last
        assert self.server.sent.wait(PATIENCE)  # also what comes behind the response
        with Stream.connect(self.daemon.address) as stream:
            fence = stream.exchange(target="/fence")
            assert (fence.status, fence.body) == (200, b"fine"), (fence.status, fence.body)
        reused = self.server.last == attacked
        counted = self._failures() - failures
        return (f"{response}; connection {'reused' if reused else 'closed'}; "
                + ("failure counted" if counted == 1 else "no failure counted" if counted == 0 else f"{counted} failures"))

    def _failures(self):
        return int(self.daemon.api("backends")[0]["errors_total"])

    def _over_http1(self, method):
        with Stream.connect(self.daemon.address) as stream:
            head = None
            try:
                stream.ask(method, "/attack")
                head = stream.read_head()
                while head.status < 200:
                    head = stream.read_head()
                stream.read_body(head, bodiless=method == "HEAD" or head.status in (204, 304))
            except (Closed, ConnectionError):
                return f"{head.status} cut off" if head else "no response"
            return self._complete(head)

    def _over_http2(self, method):
        with http2.Wire.connect(self.daemon.address).open() as wire:
            wire.ask(1, method, "/attack")
            transcript = wire.until(lambda transcript: 1 in transcript.ended or 1 in transcript.resets)
            status = transcript.statuses.get(1)
            if 1 in transcript.resets:
                return f"{status} cut off" if status else "no response"
            transcript.heads[1].body = bytes(transcript.bodies[1])
            return self._complete(transcript.heads[1])

    @staticmethod
    def _complete(head):
        if head.status >= 400 or not head.body:
            return str(head.status)
        return f"{head.status} {head.body.decode('latin-1')[:20]}"
