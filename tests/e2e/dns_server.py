"""A small DNS server whose answers a test scripts."""

import socket
import struct
import threading
import time

A, AAAA, SRV = 1, 28, 33
NO_ERROR, FORMAT_ERROR, SERVER_FAILURE, NAME_ERROR = range(4)


def read_question(query):
    """Name, type and bytes of the only question."""
    at, parts = 12, []
    while query[at]:
        parts.append(query[at + 1:at + 1 + query[at]].decode())
        at += 1 + query[at]
    return ".".join(parts).lower(), struct.unpack_from("!H", query, at + 1)[0], query[12:at + 5]


class NameServer:
    """Answers over UDP. `zone` maps a name to its answer and may change at any time."""

    def __init__(self):
        self.zone = {}
        self.asked = []  # (when, name, type)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._socket.getsockname()[1]
        self._closed = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def say(self, name, *addresses, ttl=1, **how):
        """Sets the answer for a name. `code`: an error code; `silent`: query types that get no answer; `failing`: query types
        that get SERVFAIL; `delay`: in seconds; `raw(query, question)`: returns the bytes of the answer; `services`: its SRV records,
        each (priority, weight, port, target)."""
        self.zone[name] = {"addresses": addresses, "ttl": ttl, **how}

    def questions(self, name, kind=A):
        return [when for when, asked, asked_kind in list(self.asked) if (asked, asked_kind) == (name, kind)]

    def close(self):
        self._closed = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def _serve(self):
        while True:
            query, client = self._socket.recvfrom(4096)
            if self._closed:
                return
            name, kind, question = read_question(query)
            self.asked.append((time.monotonic(), name, kind))
            said = self.zone.get(name, {"code": NAME_ERROR})
            if kind in said.get("silent", ()):
                continue
            answer = self._answer(query, kind, question, said)
            if delay := said.get("delay"):
                threading.Timer(delay, self._send, (answer, client)).start()
            else:
                self._send(answer, client)

    def _send(self, answer, client):
        try:
            self._socket.sendto(answer, client)
        except OSError:
            pass  # closed in the meantime

    def _answer(self, query, kind, question, said):
        if raw := said.get("raw"):
            return raw(query, question)
        code = SERVER_FAILURE if kind in said.get("failing", ()) else said.get("code", NO_ERROR)
        if code:
            records = []
        elif kind == SRV:
            records = said.get("services", ())
        else:
            records = [each for each in said.get("addresses", ()) if (AAAA if ":" in each else A) == kind]
        return answer(query, question, records, said.get("ttl", 1), code)


def answer(query, question, addresses=(), ttl=1, code=NO_ERROR, flags=0x8180):
    head = query[:2] + struct.pack("!HHHHH", flags | code, 1, len(addresses), 0, 0)
    return head + question + b"".join(record(each, ttl) for each in addresses)


def record(address, ttl):
    if isinstance(address, tuple):
        *numbers, target = address
        packed = struct.pack("!HHH", *numbers)
        packed += b"".join(bytes([len(part)]) + part.encode() for part in target.split(".")) + b"\0"
        return b"\xc0\x0c" + struct.pack("!HHIH", SRV, 1, ttl, len(packed)) + packed
    packed = socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)
    return b"\xc0\x0c" + struct.pack("!HHIH", AAAA if ":" in address else A, 1, ttl, len(packed)) + packed
