"""HTTP/1.1 servers that a test scripts, one thread per connection."""

import socket

from listening_server import ListeningServer, ReceivedRequest
from stream import Closed


class Exchange(ReceivedRequest):
    """A request as the backend received it, with the methods to respond."""

    def read_body(self):
        has_body = self.head.chunked() or self.head.length() is not None
        self.stream.read_body(self.head, bodiless=not has_body)
        return self.head.body

    def pieces(self):
        """Yields pieces of the body as they arrive."""
        if self.head.chunked():
            while piece := self.stream.read_chunk(self.head):
                yield piece
        left = self.head.length() or 0
        while left > 0:
            piece = self.stream.read_some()
            if not piece:
                raise Closed(f"{left} bytes of the body are missing")
            left -= len(piece)
            yield piece

    def abort(self):
        """Resets the connection."""
        self.stream.reset()

    def wait_disconnected(self):
        """Waits until the peer closes the connection; returns the time."""
        return self.stream.wait_closed()

    def send(self, data):
        self.stream.send(data)

    def answer(self, body=b"", status=200, fields=(), phrase="OK"):
        lines = [f"HTTP/1.1 {status} {phrase}"]
        lines += [f"{name}: {value}" for name, value in fields]
        lines.append(f"Content-Length: {len(body)}")
        sent = b"" if self.method == "HEAD" else body
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + sent)

    def begin_chunks(self, fields=(), status=200):
        lines = [f"HTTP/1.1 {status} OK"]
        lines += [f"{name}: {value}" for name, value in fields]
        lines.append("Transfer-Encoding: chunked")
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def chunk(self, payload):
        self.send(b"%x\r\n%s\r\n" % (len(payload), payload))

    def end_chunks(self, trailers=()):
        lines = "".join(f"{name}: {value}\r\n" for name, value in trailers)
        self.send(b"0\r\n" + lines.encode("latin-1") + b"\r\n")


class Backend(ListeningServer):
    """`script(exchange)` answers each request."""

    def __init__(self, script=None, reads_body=True, **kwargs):
        self.script = script or (lambda exchange: exchange.answer(b"hello"))
        self.reads_body = reads_body
        self.exchanges = []
        self._streams = set()
        super().__init__(**kwargs)

    def opened(self, stream):
        self._streams.add(stream)

    def serve(self, stream, number):
        while True:
            exchange = Exchange(self, stream, stream.read_head(), number)
            if self.reads_body:
                exchange.read_body()
            with self._lock:
                self.exchanges.append(exchange)
            self.script(exchange)

    def ended(self, stream):
        with self._lock:
            self._streams.discard(stream)
        stream.close()

    def connections(self):
        """Number of open connections."""
        with self._lock:
            return len(self._streams)

    def close(self):
        """Stops listening and closes all connections."""
        super().close()
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            try:
                stream.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
