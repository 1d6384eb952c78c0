"""Shared by the scripted servers: a listener with a thread per connection, and what every received request has."""

import socket
import threading
import time

from stream import Closed, Stream
from tls_socket import TlsSocket


class ReceivedRequest:
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


class ListeningServer:
    """Listens on its own port; one thread per connection runs `self.serve(stream, number)`. Exceptions because the connection
    has closed are ignored; all others are kept in `failures`. `tls`: an ssl.SSLContext."""

    def __init__(self, tls=None, port=0, host="127.0.0.1"):
        self.accepted = 0
        self.failures = []
        self._tls = tls
        self._lock = threading.Lock()
        self._listener = socket.create_server((host, port), backlog=4096)
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
            stream = Stream(sock)
            with self._lock:
                self.accepted += 1
                number = self.accepted
                self.opened(stream)
            threading.Thread(target=self._run, args=(stream, number), daemon=True).start()

    def opened(self, stream):
        """A connection was accepted; its handshake, if any, has not begun. Holds `_lock`."""

    def ended(self, stream):
        """`serve` has returned or raised."""

    def _run(self, stream, number):
        try:
            if self._tls:
                stream.socket = TlsSocket(stream.socket, self._tls, server=True)
            self.serve(stream, number)
        except (Closed, OSError):
            pass
        except Exception as failure:  # reported by the test that owns this server
            self.failures.append(failure)
            raise
        finally:
            self.ended(stream)

    def close(self):
        """Stops listening."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        self._thread.join()
