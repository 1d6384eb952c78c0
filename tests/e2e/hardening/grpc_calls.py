"""How gRPC calls end. Frames on both sides, so that nothing is hidden by a library."""

import struct

import http2
from hardening.attack import Attack
from http2 import (ACK, CANCEL, ENHANCE_YOUR_CALM, HEADERS, INTERNAL_ERROR, PING, REFUSED_STREAM, RST_STREAM, SETTINGS, Wire, data,
                   error_name, goaway, headers, ping, rst_stream, settings)
from stream import Closed

TITLE = "gRPC calls"
NOTATION = """Outcome: `trailers-only` or the number of messages and `trailers`, then `grpc-status` (and `grpc-message`, where the case is
about it). Every response has the HTTP status 200 and `content-type: application/grpc`."""

MESSAGE = b"\0" + struct.pack("!I", 2) + b"hi"
OK = [(":status", "200"), ("content-type", "application/grpc")]


def head(stream, *fields, end=False):
    return headers(stream, [*OK, *fields], end)


def trailers(stream, status, *fields):
    return headers(stream, [("grpc-status", status), *fields])


def call(name, sends, answer, *expected, fields=(), after=None):
    """`answer(stream)`: the frames that the server sends. `after`: what the client sends once the response has begun."""
    return Attack(name, sends, (answer, fields, after), expected)


def http_status(status, code):
    return call(f"GRPC-HTTP-{status}", f"HTTP status {status} without `grpc-status`",
                lambda stream: headers(stream, [(":status", str(status)), ("content-type", "text/plain")], end=False)
                + data(stream, b"no", end=True), f"trailers-only {code}")


CALLS = [
    call("GRPC-OK", "a message and trailers", lambda stream: head(stream) + data(stream, MESSAGE) + trailers(stream, "0"),
         "1 message, trailers 0"),
    call("GRPC-TRAILERS-ONLY", "an error without a body", lambda stream: head(stream, ("grpc-status", "5"), end=True),
         "trailers-only 5"),
    call("GRPC-STATUS-IN-TRAILERS", "a message and an error", lambda stream: head(stream) + data(stream, MESSAGE)
         + trailers(stream, "9"), "1 message, trailers 9"),
    call("GRPC-EMPTY-BODY", "a head and trailers, no DATA", lambda stream: head(stream) + trailers(stream, "0"), "0 messages, trailers 0"),
    call("GRPC-NO-TRAILERS", "a message, no trailers", lambda stream: head(stream) + data(stream, MESSAGE, end=True),
         "1 message, trailers 2"),
    call("GRPC-RESET-INTERNAL", "RST_STREAM INTERNAL_ERROR after a message",
         lambda stream: head(stream) + data(stream, MESSAGE) + rst_stream(stream, INTERNAL_ERROR), "1 message, trailers 13"),
    call("GRPC-RESET-CANCEL", "RST_STREAM CANCEL after a message",
         lambda stream: head(stream) + data(stream, MESSAGE) + rst_stream(stream, CANCEL), "1 message, trailers 1"),
    call("GRPC-RESET-CALM", "RST_STREAM ENHANCE_YOUR_CALM", lambda stream: rst_stream(stream, ENHANCE_YOUR_CALM), "trailers-only 8"),
    call("GRPC-RESET-REFUSED", "RST_STREAM REFUSED_STREAM by the only server", lambda stream: rst_stream(stream, REFUSED_STREAM),
         "trailers-only 14"),
    call("GRPC-CONNECTION-LOST", "the connection ends after a message", lambda stream: (head(stream) + data(stream, MESSAGE), "close"),
         "1 message, trailers 14"),
    call("GRPC-GOAWAY", "GOAWAY and the end before a response, by the only server", lambda stream: (goaway(0), "close"),
         "trailers-only 14"),
    call("GRPC-DEADLINE", "nothing, for a call with `grpc-timeout: 200m`", lambda stream: b"", "trailers-only 4",
         fields=[("grpc-timeout", "200m")]),
    call("GRPC-DEADLINE-MIDDLE", "a message and then nothing, for `grpc-timeout: 300m`",
         lambda stream: head(stream) + data(stream, MESSAGE), "1 message, trailers 4", fields=[("grpc-timeout", "300m")]),
    call("GRPC-DEADLINE-CAP", "nothing, for `grpc-timeout: 99999999H` and `timeouts.grpc_deadline: 1s`", lambda stream: b"",
         "trailers-only 4", fields=[("grpc-timeout", "99999999H")]),
    call("GRPC-TIMEOUT-INVALID", "a call with `grpc-timeout: soon`", lambda stream: b"", "trailers-only 13",
         fields=[("grpc-timeout", "soon")]),
    call("GRPC-MESSAGE-ENCODED", "`grpc-message: %E2%82%AC 100%25`",
         lambda stream: head(stream, ("grpc-status", "3"), ("grpc-message", "%E2%82%AC 100%25"), end=True),
         "trailers-only 3 %E2%82%AC 100%25"),
    call("GRPC-NO-ROUTE", "a call that no route matches", lambda stream: b"", "trailers-only 12", fields=[("x-nowhere", "1")]),
    *[http_status(status, code) for status, code in ((400, 13), (401, 16), (403, 7), (404, 12), (429, 14), (502, 14), (503, 14),
                                                    (504, 14), (500, 2), (418, 2))],
    call("GRPC-TE", "a call without `te`: the server gets", lambda stream: head(stream, ("grpc-status", "0"), end=True),
         "trailers-only 0, te: trailers", fields=[("x-show", "te")]),
    call("GRPC-CANCEL", "RST_STREAM CANCEL from the client after a message: the server gets",
         lambda stream: head(stream) + data(stream, MESSAGE), "1 message, RST_STREAM CANCEL", after=rst_stream(1, CANCEL)),
    call("GRPC-HALF-CLOSE", "the client ends its side after the first message from the server, which then answers",
         lambda stream: (head(stream) + data(stream, MESSAGE), "end", trailers(stream, "0")), "1 message, trailers 0",
         after=data(1, b"", end=True)),
]


class Bench:
    """A server that sends the frames of the current case in answer to each call."""

    def __init__(self, test):
        self._test = test
        self._answer = None
        self._seen = {}
        server = test.hostile(self._play)
        self.daemon = test.start_daemon(server.address, workers=1, pool={"protocol": "h2", "timeouts": {"grpc_deadline": "1s"}}, routes=[
            {"match": {"path": "/test.Service/*"}, "pool": "pool"}])

    def _play(self, wire, _):
        wire.send(settings())
        answered = set()
        while True:
            received = wire.read()
            fields = wire.decode(received)
            if received.kind == SETTINGS and not received.flags & ACK:
                wire.send(settings(ack=True))
            elif received.kind == PING and not received.flags & ACK:
                wire.send(ping(received.payload, ack=True))
            elif received.kind == RST_STREAM:
                self._seen["reset"] = error_name(received.code())
            if received.kind == HEADERS and received.stream not in answered:
                answered.add(received.stream)
                self._seen["te"] = dict(fields).get("te")
                parts = self._answer(received.stream)
                if isinstance(parts, bytes):
                    parts = (parts,)
                wire.send(parts[0])
                if parts[1:] == ("close",):
                    return
                last = parts[2] if parts[1:2] == ("end",) else None
            elif received.flags & http2.END_STREAM and received.kind == http2.DATA and last:
                wire.send(last)

    def run(self, attack):
        self._answer, fields, after = attack.payload
        self._seen.clear()
        nowhere = ("x-nowhere", "1") in fields
        asked = [(":method", "POST"), (":scheme", "http"), (":path", "/nowhere/Method" if nowhere else "/test.Service/Method"),
                 (":authority", "test"), ("content-type", "application/grpc"), *([] if ("x-show", "te") in fields else [("te", "trailers")]),
                 *fields]
        with Wire.connect(self.daemon.address).open() as wire:
            try:
                wire.send(headers(1, asked, end=False), data(1, MESSAGE, end=after is None))
                if after is not None:
                    wire.until(lambda each: each.bodies[1])
                    wire.send(after)
                if after is not None and after[3] == RST_STREAM:
                    self._test.eventually(lambda: "reset" in self._seen, "the reset at the server")
                    return f"{self._messages(wire)}, RST_STREAM {self._seen['reset']}"
                wire.until(lambda each: 1 in each.ended or 1 in each.resets)
            except Closed:
                return "connection ended"
            return self._outcome(wire)

    @staticmethod
    def _messages(wire):
        count = len(wire.transcript.bodies[1]) // len(MESSAGE)
        return f"{count} message" + "s" * (count != 1)

    def _outcome(self, wire):
        transcript = wire.transcript
        if 1 in transcript.resets:
            return f"{self._messages(wire)}, RST_STREAM {error_name(transcript.resets[1])}"
        sections = wire.sections[1]
        last = dict(sections[-1])
        assert dict(sections[0])[":status"] == "200", sections
        if len(sections) == 1:
            assert last["content-type"].startswith("application/grpc"), last
            parts = ["trailers-only"]
        else:
            parts = [f"{self._messages(wire)}, trailers"]
        parts.append(last.get("grpc-status", "no status"))
        if "%" in last.get("grpc-message", ""):
            parts.append(last["grpc-message"])
        shown = " ".join(parts)
        return f"{shown}, te: {self._seen['te']}" if self._seen.get("te") and parts[-1] == "0" and "only" in shown else shown
