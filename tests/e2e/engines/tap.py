"""A relay that records what goes through it: between client and daemon, and between daemon and server, so that bodies can be
compared byte for byte."""

import contextlib
import socket
import threading
import time
import zlib

import hpack

import http2
from stream import Closed, Stream


class Exchange:
    """A request and its response as they went over the wire. Bodies are without HTTP's own framing."""

    def __init__(self, began, method, target):
        self.began = began
        self.method = method
        self.target = target
        self.fields = {}  # of the request, names in lower case
        self.sent = b""  # the body of the request
        self.status = None
        self.answered = {}  # fields of the response
        self.received = b""  # the body of the response

    def __repr__(self):
        return f"{self.method} {self.target} {self.status}"

    def readable(self):
        """The body of the response, decompressed."""
        if self.answered.get("content-encoding") in ("gzip", "deflate"):
            return zlib.decompress(self.received, 47)
        return self.received


class Line:
    """One recorded connection: the bytes of both directions, and when each piece came from the client."""

    def __init__(self):
        self.up = bytearray()
        self.down = bytearray()
        self.arrivals = []  # (position in `up`, time)

    def when(self, position):
        return next((at for begin, at in reversed(self.arrivals) if begin <= position), 0.0)


class Tap:
    """Relays connections to an address. Ends with `close`."""

    def __init__(self, target, host="127.0.0.1"):
        self.target = target
        self.lines = []
        self._open = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server((host, 0))
        self.address = "%s:%d" % self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client):
        host, _, port = self.target.rpartition(":")
        try:
            server = socket.create_connection((host, int(port)))
        except OSError:
            client.close()  # the server does not listen
            return
        line = Line()
        with self._lock:
            self.lines.append(line)
            self._open |= {client, server}
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=self._pump, args=(server, client, line.down, None), daemon=True)
        back.start()
        self._pump(client, server, line.up, line.arrivals)
        back.join()
        for each in (client, server):
            each.close()
        with self._lock:
            self._open -= {client, server}

    @staticmethod
    def _pump(source, sink, kept, arrivals):
        try:
            while piece := source.recv(65536):
                if arrivals is not None:
                    arrivals.append((len(kept), time.monotonic()))
                kept += piece
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for each in (source, sink):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def exchanges(self, method="POST"):
        """All complete ones with this method, in the order in which they began."""
        found = []
        for line in list(self.lines):
            up, down = bytes(line.up), bytes(line.down)
            found += http2_exchanges(line, up, down) if up.startswith(http2.PREFACE) else http1_exchanges(line, up, down)
        return sorted((each for each in found if each.method == method), key=lambda each: each.began)


class Recording:
    """Recorded bytes, with a socket's methods."""

    def __init__(self, recorded):
        self.recorded = recorded
        self.position = 0

    def recv(self, size):
        piece = self.recorded[self.position:self.position + size]
        self.position += len(piece)
        return piece

    def settimeout(self, _):
        pass

    def setsockopt(self, *_):
        pass


def lower(fields):
    return {name.lower(): value for name, value in fields}


DONE = b"data: [DONE]\n\n\r\n"  # OpenAI's clients close the connection here, whether or not the last chunk has come


def http1_exchanges(line, up, down):
    found = []
    down += b"0\r\n\r\n" if down.endswith(DONE) else b""
    requests, responses = Recording(up), Recording(down)
    asked, answered = Stream(requests), Stream(responses)
    with contextlib.suppress(Closed):
        while requests.position < len(up) or asked.buffer:
            began = line.when(requests.position - len(asked.buffer))
            head = asked.read_head()
            each = Exchange(began, head.method, head.target)
            each.fields = lower(head.fields)
            asked.read_body(head, bodiless=not head.chunked() and head.length() is None)
            each.sent = head.body
            response = answered.read_response(to=head.method)
            each.status, each.answered, each.received = response.status, lower(response.fields), response.body
            found.append(each)
    return found


def http2_exchanges(line, up, down):
    streams = {}
    for position, frame, fields in frames_of(up, len(http2.PREFACE)):
        if fields is not None and frame.stream not in streams:
            streams[frame.stream] = Exchange(line.when(position), fields.get(":method"), fields.get(":path"))
            streams[frame.stream].fields = fields
        elif frame.kind == http2.DATA:
            streams[frame.stream].sent += frame.content()
    for _, frame, fields in frames_of(down, 0):
        each = streams.get(frame.stream)
        if fields is not None:
            each.status = each.status or int(fields[":status"])
            each.answered.update(fields)  # trailers as well
        elif frame.kind == http2.DATA:
            each.received += frame.content()
    return [each for each in streams.values() if each.status]


def frames_of(recorded, position):
    """(position, frame, fields) of each whole frame; fields where a header block ends, else None."""
    decoder, block = hpack.Decoder(), b""
    while position + 9 <= len(recorded):
        size = int.from_bytes(recorded[position:position + 3], "big")
        if position + 9 + size > len(recorded):
            return
        frame = http2.Frame(recorded[position + 3], recorded[position + 4],
                            int.from_bytes(recorded[position + 5:position + 9], "big") & http2.MAX_WINDOW,
                            recorded[position + 9:position + 9 + size])
        fields = None
        if frame.kind in (http2.HEADERS, http2.CONTINUATION):
            block += frame.content()
            if frame.flags & http2.END_HEADERS:
                fields, block = dict(decoder.decode(block)), b""
        yield position, frame, fields
        position += 9 + size
