"""A reverse proxy in front of the admin listener, which may hold back or cut event streams, as some do."""

import socket
import threading

from stream import PATIENCE

EVENTS = b"content-type: text/event-stream"


class StreamProxy:
    """Passes requests without a body on. `mode`, for event streams: "pass", "cut" (after their head) or "hold" (back)."""

    def __init__(self, upstream, mode):
        self.mode = mode
        self.streams = 0  # that were asked for
        host, _, port = upstream.rpartition(":")
        self._upstream = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client:
            try:
                head = self._head(client)
                if head:
                    with socket.create_connection(self._upstream, PATIENCE) as upstream:
                        upstream.settimeout(None)
                        self._exchange(client, upstream, head)
            except OSError:
                pass

    @staticmethod
    def _head(connection):
        """The bytes up to the end of a head, and what came with them."""
        data = b""
        while b"\r\n\r\n" not in data:
            chunk = connection.recv(65536)
            if not chunk:
                return b""
            data += chunk
        return data

    def _exchange(self, client, upstream, head):
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        lines.insert(1, b"connection: close")
        upstream.sendall(b"\r\n".join(lines))
        answer = self._head(upstream)
        if EVENTS in answer.lower():
            self.streams += 1
            if self.mode == "cut":
                client.sendall(answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
                return
            if self.mode == "hold":
                threading.Thread(target=lambda: client.recv(1) or upstream.shutdown(socket.SHUT_RDWR), daemon=True).start()
                while upstream.recv(65536):
                    pass
                return
        client.sendall(answer)
        while chunk := upstream.recv(65536):
            client.sendall(chunk)
