"""One HTTP/1.1 connection, byte by byte, because a library would hide what we test."""

import socket
import struct
import time

from tls_socket import TlsSocket

PATIENCE = 20.0  # seconds that a single wait may take before a test fails


class Closed(Exception):
    """The peer closed the connection too early."""


class Message:
    """The head of a request or response as received, with its bytes, order and case."""

    def __init__(self, raw):
        self.raw = raw
        lines = raw.decode("latin-1").split("\r\n")
        self.first_line = lines[0]
        self.fields = []
        for line in lines[1:]:
            if line:
                name, _, value = line.partition(":")
                self.fields.append((name, value.strip(" \t")))
        self.trailers = []
        self.body = b""

    def all(self, name):
        return [value for key, value in self.fields if key.lower() == name.lower()]

    def field(self, name):
        values = self.all(name)
        return values[0] if values else None

    @property
    def status(self):
        return int(self.first_line.split(" ")[1])

    @property
    def reason(self):
        """The reason word of a response that evenkeel generated."""
        return self.field("x-evenkeel-reason")

    @property
    def method(self):
        return self.first_line.split(" ")[0]

    @property
    def target(self):
        return self.first_line.split(" ")[1]

    def chunked(self):
        return (self.field("transfer-encoding") or "").lower() == "chunked"

    def length(self):
        text = self.field("content-length")
        return None if text is None else int(text)


class Stream:
    """A connected socket with a buffer."""

    def __init__(self, sock):
        self.socket = sock
        self.socket.settimeout(PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    @classmethod
    def connect(cls, address, receive_buffer=None, tls=None, name=None, source=None):
        """`receive_buffer`: size of the kernel's receive buffer. `tls`: an `ssl.SSLContext`, which verifies the server as
        `name`, or as the address. `source`: the own address."""
        host, _, port = address.rpartition(":")
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source is not None:
            sock.bind((source, 0))
        sock.settimeout(PATIENCE)
        sock.connect((host, int(port)))
        return cls(sock if tls is None else TlsSocket(sock, tls, name=name))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes the connection with a RST, which the peer cannot mistake for a normal end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    # ---- reading ----

    def read_some(self):
        """Received bytes, as soon as there are any; b"" at the end."""
        if self.buffer:
            data, self.buffer = self.buffer, b""
            return data
        return self.socket.recv(65536)

    def _more(self):
        data = self.socket.recv(65536)
        if not data:
            raise Closed(f"ended after {self.buffer[:200]!r}")
        self.buffer += data

    def read_until(self, mark):
        while mark not in self.buffer:
            self._more()
        end = self.buffer.index(mark) + len(mark)
        data, self.buffer = self.buffer[:end], self.buffer[end:]
        return data

    def read_exactly(self, count):
        parts = []
        left = count
        while left > 0:
            if not self.buffer:
                self._more()
            part, self.buffer = self.buffer[:left], self.buffer[left:]
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def read_head(self):
        return Message(self.read_until(b"\r\n\r\n"))

    def read_chunk(self, message):
        """The payload of the next chunk; b"" after the last one, when the trailers are in the message."""
        size = int(self.read_until(b"\r\n").split(b";")[0], 16)
        if size > 0:
            payload = self.read_exactly(size)
            assert self.read_exactly(2) == b"\r\n", "a chunk must end in CRLF"
            return payload
        while True:
            line = self.read_until(b"\r\n")[:-2].decode("latin-1")
            if not line:
                return b""
            name, _, value = line.partition(":")
            message.trailers.append((name, value.strip()))

    def read_body(self, message, bodiless=False):
        """Reads the whole body by the framing in the head."""
        if bodiless:
            return message
        if message.chunked():
            parts = []
            while part := self.read_chunk(message):
                parts.append(part)
            message.body = b"".join(parts)
        elif message.length() is not None:
            message.body = self.read_exactly(message.length())
        else:
            parts = []
            while part := self.read_some():
                parts.append(part)
            message.body = b"".join(parts)
        return message

    def read_response(self, to="GET"):
        """Reads the final response; skips 1xx responses before it."""
        head = self.read_head()
        while head.status < 200 and head.status != 101:
            head = self.read_head()
        bodiless = to == "HEAD" or head.status in (101, 204, 304)
        return self.read_body(head, bodiless)

    def wait_closed(self, within=PATIENCE):
        """Reads until the connection closes; returns the (monotonic) time. `.ended` is "reset" or "end"."""
        self.socket.settimeout(within)
        try:
            while self.socket.recv(65536):
                pass
            self.ended = "end"
        except ConnectionError:
            self.ended = "reset"
        at = time.monotonic()
        self.socket.settimeout(PATIENCE)
        return at

    # ---- sending ----

    def ask(self, method="GET", target="/", fields=(), body=None, host="test"):
        """Sends a request; a body gets a Content-Length."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in fields]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        self.send(head + (body or b""))

    def exchange(self, method="GET", target="/", fields=(), body=None, host="test"):
        self.ask(method, target, fields, body, host)
        return self.read_response(to=method)


def exchange(address, *args, **kwargs):
    """One request on its own connection."""
    with Stream.connect(address) as stream:
        return stream.exchange(*args, **kwargs)
