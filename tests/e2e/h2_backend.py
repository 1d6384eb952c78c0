"""HTTP/2 servers that a test scripts: `H2Backend` answers each request on a thread, as `Backend` does; `HostileServer`
sends arbitrary frames."""

import socket
import threading
import time

from http2 import INTERNAL_ERROR, PREFACE, Peer, Wire
from tls_socket import TlsSocket
from stream import PATIENCE, Closed, Stream


class H2Exchange:
    """A request as the backend received it, with the methods to respond; like `backend.Exchange`."""

    def __init__(self, backend, stream, connection):
        self.backend = backend
        self.stream = stream
        self.peer = stream.peer
        self.head = stream.head
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
        return self.stream.read_body()

    def pieces(self):
        return self.stream.pieces()

    def send_head(self, fields=(), status=200, end=False):
        self.stream.send_head([(":status", str(status)),
                               *((name.lower(), value) for name, value in fields)], end)

    def answer(self, body=b"", status=200, fields=()):
        sent = b"" if self.method == "HEAD" else body
        self.send_head([*fields, ("content-length", str(len(body)))], status, end=not sent)
        if sent:
            self.stream.send(sent, end=True)

    def begin_chunks(self, fields=(), status=200):
        self.send_head(fields, status)

    def chunk(self, payload):
        self.stream.send(payload)

    def end_chunks(self, trailers=()):
        self.stream.end([(name.lower(), value) for name, value in trailers])

    def abort(self, code=INTERNAL_ERROR):
        self.stream.reset(code)

    def wait_disconnected(self):
        """Waits until the peer resets the stream or closes; returns the time."""
        return self.stream.wait_disconnected()


class ListeningServer:
    """Listens on its own port; one thread per connection runs `self.serve(socket, number)`."""

    def __init__(self, tls=None, port=0):
        self.accepted = 0
        self.failures = []
        self._tls = tls
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        self.port = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
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
                number = self.accepted
            threading.Thread(target=self._run, args=(sock, number), daemon=True).start()

    def _run(self, sock, number):
        try:
            sock.settimeout(PATIENCE)
            self.serve(Stream(TlsSocket(sock, self._tls, server=True) if self._tls else sock), number)
        except (Closed, OSError):
            pass
        except Exception as failure:  # reported by the test that owns this backend
            self.failures.append(failure)
            raise

    def close(self):
        """Stops listening and closes all connections."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        self._thread.join()


class H2Backend(ListeningServer):
    """`script(exchange)` answers each request on its own thread. Exceptions because the stream or the connection has closed
    are ignored; all others are kept in `failures`, as are the daemon's protocol violations. `values`: our SETTINGS."""

    def __init__(self, script=None, reads_body=True, values=None, **kwargs):
        self.script = script or (lambda exchange: exchange.answer(b"hello"))
        self.reads_body = reads_body
        self.values = values
        self.exchanges = []
        self.peers = []
        super().__init__(**kwargs)

    def serve(self, stream, number):
        ready = threading.Event()

        def answer(asked):
            ready.wait()
            self._answer(asked, number)

        peer = Peer(stream, serve=answer, values=self.values, violations=self.failures)
        self.peers.append(peer)
        ready.set()

    def _answer(self, asked, number):
        try:
            exchange = H2Exchange(self, asked, number)
            if self.reads_body:
                exchange.read_body()
            with self._lock:
                self.exchanges.append(exchange)
            self.script(exchange)
        except (Closed, OSError):
            pass
        except Exception as failure:
            self.failures.append(failure)
            raise

    def connections(self):
        """Number of open connections."""
        return sum(peer.closed_at is None for peer in self.peers)

    def close(self):
        super().close()
        for peer in self.peers:
            peer.close()


class HostileServer(ListeningServer):
    """`play(wire, number)` handles each connection after the client's preface, and may break any rule."""

    def __init__(self, play, **kwargs):
        self._play = play
        self.wires = []
        super().__init__(**kwargs)

    def serve(self, stream, number):
        preface = stream.read_exactly(len(PREFACE))
        assert preface == PREFACE, preface
        wire = Wire(stream)
        wire.feed(stream.buffer)
        stream.buffer = b""
        self.wires.append(wire)
        try:
            self._play(wire, number)
        finally:
            wire.close()

    def close(self):
        super().close()
        for wire in self.wires:
            try:
                wire.stream.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
