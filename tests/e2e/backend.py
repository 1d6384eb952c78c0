"""HTTP/1.1 servers that a test scripts, one thread per connection."""

import socket
import threading
import time

from tls_socket import TlsSocket
from stream import Closed, Stream


class Exchange:
    """A request as the backend received it, with the methods to respond."""

    def __init__(self, backend, stream, head, connection):
        self.backend = backend
        self.stream = stream
        self.head = head
        self.connection = connection  # number of the connection, from 1
        self.began = time.monotonic()

    @property
    def method(self):
        return self.head.method

    @property
    def target(self):
        return self.head.target

    @property
    def body(self):
        return self.head.body

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


class Backend:
    """Listens on its own port. `script(exchange)` answers each request. Exceptions because the connection
    has closed are ignored; all others are kept in `failures`."""

    def __init__(self, script=None, port=0, reads_body=True, tls=None, host="127.0.0.1"):
        self.script = script or (lambda exchange: exchange.answer(b"hello"))
        self.reads_body = reads_body
        self.tls = tls  # an ssl.SSLContext
        self.exchanges = []
        self.failures = []
        self.accepted = 0
        self._lock = threading.Lock()
        self._streams = set()
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((host, port))
        self._listener.listen(4096)
        self.port = self._listener.getsockname()[1]
        self.address = f"{host}:{self.port}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.accepted += 1
                stream = Stream(sock)
                self._streams.add(stream)
                number = self.accepted
            threading.Thread(target=self._serve, args=(stream, number), daemon=True).start()

    def _serve(self, stream, number):
        try:
            if self.tls:
                stream.socket = TlsSocket(stream.socket, self.tls, server=True)
            while True:
                exchange = Exchange(self, stream, stream.read_head(), number)
                if self.reads_body:
                    exchange.read_body()
                with self._lock:
                    self.exchanges.append(exchange)
                self.script(exchange)
        except (Closed, OSError):
            pass
        except Exception as failure:  # reported by the test that owns this backend
            self.failures.append(failure)
            raise
        finally:
            with self._lock:
                self._streams.discard(stream)
            stream.close()

    def connections(self):
        """Number of open connections."""
        with self._lock:
            return len(self._streams)

    def close(self):
        """Stops listening and closes all connections."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        self._thread.join()
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            try:
                stream.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def free_port():
    """A port that is not in use. Another process may take it before you do, so use it only for servers that
    must refuse connections or come back later."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]
