"""TLS on a connected socket; one thread may read while another writes."""

import select
import ssl
import threading
import time


class TlsSocket:
    """Has the interface of a socket. An OpenSSL connection allows one thread at a time, so each call into it holds a lock, and
    waiting happens outside the lock."""

    def __init__(self, sock, context, server=False, name=None):
        timeout = sock.gettimeout()
        self._socket = context.wrap_socket(sock, server_side=server, suppress_ragged_eofs=False,
                                           server_hostname=None if server else name or sock.getpeername()[0])
        self._socket.setblocking(False)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._sending = threading.Lock()

    @property
    def alpn(self):
        return self._socket.selected_alpn_protocol()

    def _wait(self, event, until):
        poll = select.poll()
        descriptor = self._socket.fileno()
        if descriptor < 0:
            raise ConnectionAbortedError("closed meanwhile")
        poll.register(descriptor, event)
        left = None if until is None else max(0.0, until - time.monotonic())
        if not poll.poll(None if left is None else left * 1000):
            raise TimeoutError("timed out")

    def _until(self):
        return None if self._timeout is None else time.monotonic() + self._timeout

    def recv(self, size):
        """b"" only after close_notify; a connection that was cut off raises."""
        until = self._until()
        while True:
            try:
                with self._lock:
                    return self._socket.recv(size)
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN, until)
            except ssl.SSLWantWriteError:
                self._wait(select.POLLOUT, until)
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLEOFError as cut:
                raise ConnectionAbortedError("ended without close_notify") from cut

    def sendall(self, data):
        until = self._until()
        view = memoryview(data)
        with self._sending:
            while view:
                try:
                    with self._lock:
                        sent = self._socket.send(view[:65536])
                    view = view[sent:]
                except ssl.SSLWantWriteError:
                    self._wait(select.POLLOUT, until)
                except ssl.SSLWantReadError:
                    self._wait(select.POLLIN, until)
                except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as cut:
                    raise ConnectionAbortedError("the peer has ended it") from cut

    def settimeout(self, timeout):
        self._timeout = timeout

    def setsockopt(self, *arguments):
        self._socket.setsockopt(*arguments)

    def fileno(self):
        return self._socket.fileno()

    def getsockname(self):
        return self._socket.getsockname()

    def shutdown(self, how):
        self._socket.shutdown(how)

    def close(self):
        self._socket.close()
