"""An HTTP/1.1 server that believes every byte: it reads requests by RFC 9112 alone, answers each complete one with 200, and
records them. What is smuggled past evenkeel appears here as a request of its own."""

import selectors
import socket
import threading
import time

# Fields that say how a request is framed, or that it wants another protocol.
SHOWN = ("content-length", "transfer-encoding", "upgrade", "connection", "http2-settings", "keep-alive", "x-secret", "cookie",
         "x-smuggled")


class Received:
    """A complete request."""

    def __init__(self, line, fields, body, trailers):
        self.method, self.target, _ = line.split(" ", 2)
        self.fields = fields
        self.body = body
        self.trailers = trailers

    def __str__(self):
        """As `POST /p content-length: 5 "hello"`."""
        parts = [self.method, self.target]
        parts += [f"{name}: {value}" for name, value in self.fields if name in SHOWN]
        if self.body:
            body = self.body.decode("latin-1")
            parts.append('"' + (body if len(body) <= 20 else f"{len(body)} bytes") + '"')
        parts += [f"trailer {name}: {value}" for name, value in self.trailers]
        return " ".join(parts)


class NaiveServer:
    def __init__(self):
        self.lock = threading.Lock()
        self.requests = []
        self.cut_off = 0  # requests whose connection ended before they did
        self._bytes = {}
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._listener.setblocking(False)
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self):
        self._wake.send(b"x")
        self._thread.join()
        for sock in [*self._bytes, self._listener, self._wake, self._woken]:
            sock.close()
        self._selector.close()

    def unfinished(self):
        """The bytes of requests that are not complete, on open connections."""
        with self.lock:
            return b"".join(self._bytes.values())

    def forwarded(self):
        """What has reached the server, for the page."""
        until = time.monotonic() + 2
        while self.unfinished() and time.monotonic() < until:
            time.sleep(0.002)
        if self.unfinished():
            return "left unfinished"
        if self.requests:
            return ", ".join(map(str, self.requests))
        return "cut off" if self.cut_off else "nothing forwarded"

    def _run(self):
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    return
                if key.fileobj is self._listener:
                    sock, _ = self._listener.accept()
                    sock.setblocking(False)
                    self._bytes[sock] = b""
                    self._selector.register(sock, selectors.EVENT_READ)
                else:
                    self._read(key.fileobj)

    def _read(self, sock):
        try:
            received = sock.recv(1 << 18)
        except OSError:
            received = b""
        with self.lock:
            if not received:
                self._selector.unregister(sock)
                self.cut_off += bool(self._bytes.pop(sock))
                sock.close()
                return
            self._bytes[sock] += received
            while (request := self._take(sock)) is not None:
                if not request.target.startswith("/fence"):
                    self.requests.append(request)
                body = b"" if request.method == "HEAD" else b"ok"
                try:
                    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + body)
                except OSError:
                    return

    def _take(self, sock):
        """The next complete request of this connection, or None."""
        raw = self._bytes[sock]
        end = raw.find(b"\r\n\r\n")
        if end < 0:
            return None
        line, *lines = raw[:end].decode("latin-1").split("\r\n")
        fields = [(name.lower(), value.strip()) for name, _, value in (each.partition(":") for each in lines)]
        named = dict(fields)
        at, body, trailers = end + 4, b"", []
        if "content-length" in named:
            length = int(named["content-length"])
            if len(raw) - at < length:
                return None
            body = raw[at:at + length]
            at += length
        elif "transfer-encoding" in named:
            whole = self._chunks(raw, at)
            if whole is None:
                return None
            body, trailers, at = whole
        self._bytes[sock] = raw[at:]
        return Received(line, fields, body, trailers)

    @staticmethod
    def _chunks(raw, at):
        """(body, trailers, where the request ends), or None while it is incomplete."""
        body = b""
        while True:
            line = raw.find(b"\r\n", at)
            if line < 0:
                return None
            size = int(raw[at:line], 16)
            at = line + 2
            if size == 0:
                break
            if len(raw) - at < size + 2:
                return None
            body += raw[at:at + size]
            at += size + 2
        trailers = []
        while True:
            line = raw.find(b"\r\n", at)
            if line < 0:
                return None
            text, at = raw[at:line].decode("latin-1"), line + 2
            if not text:
                return body, trailers, at
            name, _, value = text.partition(":")
            trailers.append((name.lower(), value.strip()))
