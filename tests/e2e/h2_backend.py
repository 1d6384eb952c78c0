"""HTTP/2 servers that a test scripts: `H2Backend` answers each request on a thread, as `Backend` does; `HostileServer`
sends arbitrary frames."""

import socket
import threading

from http2 import INTERNAL_ERROR, PREFACE, Peer, Wire
from listening_server import ListeningServer, ReceivedRequest
from stream import Closed


class H2Exchange(ReceivedRequest):
    """A request as the backend received it, with the methods to respond; like `backend.Exchange`."""

    def __init__(self, backend, stream, connection):
        super().__init__(backend, stream, stream.head, connection)
        self.peer = stream.peer

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
