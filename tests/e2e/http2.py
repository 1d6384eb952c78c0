"""Both ends of HTTP/2. `Wire` sends any frames, including ones that a library would refuse to send. `Peer` follows the
protocol, shares its connection between many streams, and records every violation by the other side."""

import collections
import struct
import threading
import time

import hpack

from stream import PATIENCE, Closed, Message, Stream

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
KINDS = ("DATA", "HEADERS", "PRIORITY", "RST_STREAM", "SETTINGS", "PUSH_PROMISE", "PING", "GOAWAY",
         "WINDOW_UPDATE", "CONTINUATION")

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITISED = 0x20

(NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED, FRAME_SIZE_ERROR,
 REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CONNECT_ERROR, ENHANCE_YOUR_CALM, INADEQUATE_SECURITY,
 HTTP_1_1_REQUIRED) = range(14)
CODES = ("NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
         "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
         "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED")

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = range(1, 7)

MAX_WINDOW = 2**31 - 1

# Fields that no HTTP/2 message may contain (RFC 9113 8.2.2).
CONNECTION_SPECIFIC = {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}


def error_name(code):
    """The name of an error code."""
    return CODES[code] if code < len(CODES) else hex(code)


class Frame(collections.namedtuple("Frame", "kind flags stream payload")):
    __slots__ = ()

    def __str__(self):
        kind = KINDS[self.kind] if self.kind < len(KINDS) else f"type {self.kind}"
        detail = ""
        if self.kind == RST_STREAM and len(self.payload) == 4:
            detail = " " + error_name(self.code())
        elif self.kind == GOAWAY and len(self.payload) >= 8:
            detail = f" last={self.last_stream()} {error_name(self.code())} {self.payload[8:]!r}"
        elif self.kind in (SETTINGS, PING, WINDOW_UPDATE):
            detail = " " + self.payload.hex()
        return f"{kind} stream={self.stream} flags={self.flags:#x} length={len(self.payload)}{detail}"

    def code(self):
        return int.from_bytes(self.payload[-4:] if self.kind == RST_STREAM else self.payload[4:8], "big")

    def last_stream(self):
        return int.from_bytes(self.payload[:4], "big") & MAX_WINDOW

    def content(self):
        """The payload without padding and priority."""
        payload = self.payload
        if self.kind in (DATA, HEADERS) and self.flags & PADDED:
            payload = payload[1:len(payload) - payload[0]]
        if self.kind == HEADERS and self.flags & PRIORITISED:
            payload = payload[5:]
        return payload

    def settings(self):
        return {key: value for key, value in struct.iter_unpack("!HI", self.payload)}


# ---- building frames ----


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack("!HBBBI", len(payload) >> 8, len(payload) & 0xff, kind, flags, stream) + payload


def settings(values=None, ack=False):
    return frame(SETTINGS, ACK if ack else 0, 0,
                 b"".join(struct.pack("!HI", key, value) for key, value in (values or {}).items()))


def ping(payload=b"\0" * 8, ack=False):
    return frame(PING, ACK if ack else 0, 0, payload)


def rst_stream(stream, code=CANCEL):
    return frame(RST_STREAM, 0, stream, struct.pack("!I", code))


def goaway(last=0, code=NO_ERROR, words=b""):
    return frame(GOAWAY, 0, 0, struct.pack("!II", last, code) + words)


def window_update(stream, increment):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack("!I", increment))


def data(stream, payload=b"", end=False):
    return frame(DATA, END_STREAM if end else 0, stream, payload)


def headers(stream, fields, end=True, flags=END_HEADERS):
    """Encodes the fields as given, valid or not, and without the HPACK table, so that a lost block does no harm."""
    return frame(HEADERS, flags | (END_STREAM if end else 0), stream, literal(fields))


def integer(value, bits, first=0):
    """An HPACK integer (RFC 7541 5.1)."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out = bytearray([first | most])
    value -= most
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def literal(fields):
    out = bytearray()
    for name, value in fields:
        name, value = _bytes(name), _bytes(value)
        out += b"\0" + integer(len(name), 7) + name + integer(len(value), 7) + value
    return bytes(out)


def _bytes(text):
    return text if isinstance(text, bytes) else text.encode("latin-1")


def request_fields(method="GET", path="/", fields=(), authority="test", scheme="http"):
    return [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path), *fields]


class Head(Message):
    """The fields of a header section; `method`, `target` and `status` are its pseudo fields."""

    def __init__(self, fields):  # pylint: disable=super-init-not-called
        self.pseudo = {name: value for name, value in fields if name.startswith(":")}
        self.fields = [field for field in fields if not field[0].startswith(":")]
        self.never_indexed = [field[0] for field in fields if isinstance(field, hpack.NeverIndexedHeaderTuple)]
        self.first_line = ""
        self.trailers = []
        self.body = b""

    @property
    def status(self):
        return int(self.pseudo[":status"])

    @property
    def method(self):
        return self.pseudo[":method"]

    @property
    def target(self):
        return self.pseudo[":path"]


# ---- frames without rules ----


class Transcript:
    """What the other side has sent so far."""

    def __init__(self):
        self.frames = []
        self.goaway = None  # code of the last one
        self.goaway_frame = None
        self.resets = {}  # stream: code
        self.statuses = {}  # stream: status of the final response
        self.heads = {}
        self.ended = set()  # streams that ended normally
        self.bodies = collections.defaultdict(bytearray)
        self.closed = None  # "end" or "reset"
        self.counts = collections.Counter()
        self.credit = 65535  # bytes of all streams that may be sent in total

    def __str__(self):
        shown = [str(each) for each in self.frames[:20]]
        if len(self.frames) > 40:
            shown.append(f"... {len(self.frames) - 40} more ...")
        shown += [str(each) for each in self.frames[20:][-20:]]
        return f"closed: {self.closed}; received:\n  " + "\n  ".join(shown)


class Wire:
    """Sends any frames and records what it receives."""

    def __init__(self, stream):
        self.stream = stream
        self.transcript = Transcript()
        self._decoder = hpack.Decoder(max_header_list_size=1 << 24)
        self._rest = b""
        self._frames = collections.deque()
        self._block = None
        self.sections = collections.defaultdict(list)  # stream: its header sections, with trailers and interim responses

    @classmethod
    def connect(cls, address, tls=None, receive_buffer=None):
        return cls(Stream.connect(address, receive_buffer=receive_buffer, tls=tls))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.stream.close()

    def send(self, *frames):
        self.stream.send(b"".join(frames))

    def read(self):
        """Reads the next frame."""
        while not self._frames:
            received = self.stream.socket.recv(1 << 18)
            if not received:
                raise Closed(f"the connection has ended; {self.transcript}")
            self.feed(received)
        return self._frames.popleft()

    def feed(self, received):
        received = self._rest + received if self._rest else received
        at, size = 0, len(received)
        while size - at >= 9:
            high, low, kind, flags, stream = struct.unpack_from("!HBBBI", received, at)
            length = high << 8 | low
            if size - at - 9 < length:
                break
            self._frames.append(Frame(kind, flags, stream & MAX_WINDOW, received[at + 9:at + 9 + length]))
            at += 9 + length
        self._rest = received[at:]

    def decode(self, received):
        """The header list that this frame completes, or None."""
        if received.kind == HEADERS:
            self._block = received.content()
        elif received.kind == CONTINUATION:
            self._block += received.payload
        else:
            return None
        if not received.flags & END_HEADERS:
            return None
        # Of the decoder's own types: those that came as never indexed are `hpack.NeverIndexedHeaderTuple`.
        return [type(field)(field[0].decode("latin-1"), field[1].decode("latin-1"))
                for field in self._decoder.decode(self._block, raw=True)]

    def take(self):
        """Reads the next frame and records it in `transcript`."""
        received = self.read()
        transcript = self.transcript
        transcript.counts[received.kind] += 1
        if len(transcript.frames) < 5000:
            transcript.frames.append(received)
        if received.kind == WINDOW_UPDATE and received.stream == 0:
            transcript.credit += int.from_bytes(received.payload, "big") & MAX_WINDOW
        if received.kind == GOAWAY:
            transcript.goaway, transcript.goaway_frame = received.code(), received
        elif received.kind == RST_STREAM:
            transcript.resets[received.stream] = received.code()
        elif received.kind == DATA:
            transcript.bodies[received.stream] += received.content()
        fields = self.decode(received)
        if fields is not None:
            self.sections[received.stream].append(fields)
        if fields and dict(fields).get(":status", "1")[0] != "1":
            transcript.heads[received.stream] = Head(fields)
            transcript.statuses[received.stream] = transcript.heads[received.stream].status
        if received.kind in (DATA, HEADERS) and received.flags & END_STREAM:
            transcript.ended.add(received.stream)
        return received

    def until(self, condition):
        """Reads frames until `condition(transcript)` is true."""
        while not condition(self.transcript):
            self.take()
        return self.transcript

    def until_closed(self, within=PATIENCE):
        """Reads frames until the connection closes, or until the time is over."""
        self.stream.socket.settimeout(within)
        try:
            while True:
                self.take()
        except Closed:
            self.transcript.closed = "end"
        except ConnectionError:
            self.transcript.closed = "reset"
        except TimeoutError:
            pass
        return self.transcript

    # ---- the start of a client connection ----

    def open(self, values=None):
        """Sends the preface and exchanges SETTINGS with acknowledgements."""
        self.send(PREFACE, settings(values))
        self.settle()
        return self

    def settle(self):
        self.until(lambda transcript: any(each.kind == SETTINGS and not each.flags & ACK for each in transcript.frames))
        self.send(settings(ack=True))
        self.until(lambda transcript: any(each.kind == SETTINGS and each.flags & ACK for each in transcript.frames))

    def their_settings(self):
        return next(each.settings() for each in self.transcript.frames
                    if each.kind == SETTINGS and not each.flags & ACK)

    def ask(self, stream, method="GET", path="/", fields=(), end=True, **kwargs):
        self.send(headers(stream, request_fields(method, path, fields, **kwargs), end))

    def answer_to(self, stream):
        """The final response head of this stream, when the response is complete."""
        self.until(lambda transcript: stream in transcript.ended or stream in transcript.resets)
        assert stream not in self.transcript.resets, f"{error_name(self.transcript.resets[stream])}; {self.transcript}"
        head = self.transcript.heads[stream]
        head.body = bytes(self.transcript.bodies[stream])
        return head


# ---- protocol rules ----


class Reset(Closed):
    """The other side ended this stream with RST_STREAM."""

    def __init__(self, code):
        super().__init__(f"RST_STREAM {error_name(code)}")
        self.code = code


class PeerStream:
    """One exchange on a connection, from either side."""

    def __init__(self, peer, number, window):
        self.peer = peer
        self.number = number
        self.head = None
        self.interim = []  # heads of 1xx responses
        self.reset_code = None  # sent by the other side
        self.gone_at = None  # when the other side reset it or closed
        self.ended = False  # by the other side, normally
        self.strict = peer._acknowledged  # the other side knew our settings when this stream began
        self.received = 0
        self._pieces = collections.deque()
        self._unreturned = 0  # consumed, but not yet returned by a WINDOW_UPDATE
        self._window = window  # what the other side may still send
        self._credit = peer.their(INITIAL_WINDOW_SIZE, 65535)  # what we may still send
        self._finished = False  # by our side

    # ---- sending ----

    def send_head(self, fields, end=False):
        self.peer.send_fields(self, fields, end)

    def send(self, payload, end=False):
        """Sends as fast as the other side's windows allow."""
        self.peer.send_data(self, payload, end)

    def end(self, trailers=()):
        if trailers:
            self.peer.send_fields(self, trailers, True)
        else:
            self.peer.send_data(self, b"", True)

    def reset(self, code=CANCEL):
        self.peer.reset_stream(self, code)

    # ---- reading ----

    def read_head(self):
        self.peer.wait(self, lambda: self.head is not None or self.ended)
        return self.head

    def read_piece(self):
        """The next piece of the body; b"" at the normal end."""
        return self.peer.read_piece(self)

    def pieces(self):
        while piece := self.read_piece():
            yield piece

    def read_body(self):
        self.head.body = b"".join(self.pieces())
        return self.head.body

    def read_response(self):
        self.read_head()
        self.read_body()
        return self.head

    def wait_disconnected(self, within=PATIENCE):
        """Waits until the other side resets the stream or closes; returns the time."""
        self.peer.wait(None, lambda: self.gone_at is not None, within)
        return self.gone_at


class Peer:
    """One end of a connection. `serve(stream)` is called for each request, on its own thread."""

    def __init__(self, stream, serve=None, values=None, connection_window=1 << 24, violations=None):
        self.wire = Wire(stream)
        self.serve = serve
        self.violations = [] if violations is None else violations
        self.goaway = None  # (last stream, code)
        self.goaways = []
        self.pings = 0
        self.closed_at = None
        self.streams = {}
        self.refused = set()  # streams that we reset: further frames for them are not violations
        self.values = {INITIAL_WINDOW_SIZE: 1 << 20, **(values or {})}
        self.trace = collections.deque(maxlen=300)
        self._theirs = {}
        self._theirs_known = False
        self._encoder = hpack.Encoder()
        self._changed = threading.Condition()
        self._sending = threading.RLock()
        self._next = 1
        self._highest = 0
        self._credit = 65535
        self._window = 65535
        self._connection_window = connection_window
        self._unreturned = 0
        self._acknowledged = False  # of our settings
        self._continuing = None
        self._block_end = False
        self._acks = collections.deque()
        first = [] if serve else [PREFACE]
        first.append(settings(self.values))
        if connection_window > self._window:
            first.append(window_update(0, connection_window - self._window))
            self._window = connection_window
        if serve:
            preface = stream.read_exactly(len(PREFACE))
            assert preface == PREFACE, f"no preface: {preface!r}"
            self.wire.feed(stream.buffer)
            stream.buffer = b""
        self._send(*first)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @classmethod
    def connect(cls, address, tls=None, receive_buffer=None, **kwargs):
        return cls(Stream.connect(address, tls=tls, receive_buffer=receive_buffer), **kwargs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def their(self, key, default):
        return self._theirs.get(key, default)

    # ---- sending ----

    def _send(self, *frames):
        with self._sending:
            self.wire.send(*frames)
        self._acknowledge()

    def _acknowledge(self):
        """Sends pending acknowledgements. The reader never waits for a blocked writer; the writer calls this again when it has
        finished."""
        while self._acks and self._sending.acquire(blocking=False):
            try:
                if self._acks:
                    self.wire.send(self._acks.popleft())
            finally:
                self._sending.release()

    def send(self, *frames):
        """Sends any frames."""
        self._send(*frames)

    def send_fields(self, stream, fields, end):
        """`fields`: (name, value), or (name, value, True) for one that must never be indexed."""
        # Blocks must be sent in the order in which they were encoded.
        with self._sending:
            block = self._encoder.encode([(_bytes(name), _bytes(value), *secret) for name, value, *secret in fields])
            most = self.their(MAX_FRAME_SIZE, 16384)
            flags = END_STREAM if end else 0
            parts = [block[at:at + most] for at in range(0, len(block), most)] or [b""]
            last = len(parts) - 1
            if end:
                self._finish(stream)
            self._send(*(frame(CONTINUATION if at else HEADERS, (0 if at else flags)
                               | (END_HEADERS if at == last else 0), stream.number, part)
                         for at, part in enumerate(parts)))

    def send_data(self, stream, payload, end):
        view = memoryview(payload)
        most = self.their(MAX_FRAME_SIZE, 16384)
        while view:
            with self._changed:
                self._wait(stream, lambda: self._credit > 0 and stream._credit > 0, sending=True)
                size = min(len(view), self._credit, stream._credit, 1 << 18)
                self._credit -= size
                stream._credit -= size
            batch = []
            for at in range(0, size, most):
                part = view[at:min(size, at + most)]
                last = end and at + most >= size and size == len(view)
                batch += [struct.pack("!HBBBI", len(part) >> 8, len(part) & 0xff, DATA,
                                      END_STREAM if last else 0, stream.number), part]
            view = view[size:]
            if end and not view:
                self._finish(stream)
            self._send(*batch)
            if end and not view:
                return
        if end:
            self._finish(stream)
            self._send(data(stream.number, b"", True))

    def reset_stream(self, stream, code):
        with self._changed:
            self.refused.add(stream.number)
            self.streams.pop(stream.number, None)
        self._send(rst_stream(stream.number, code))

    def _finish(self, stream):
        """Called before the last frame is sent, because the other side may react at once."""
        with self._changed:
            stream._finished = True
            if stream.ended:
                self.streams.pop(stream.number, None)

    def open_stream(self, fields, end=True):
        """Starts a request."""
        self.wait_settled()
        with self._sending:
            with self._changed:
                stream = PeerStream(self, self._next, self.values[INITIAL_WINDOW_SIZE])
                self._next += 2
                self.streams[stream.number] = stream
            stream.send_head(fields, end)
        return stream

    def request(self, method="GET", path="/", fields=(), body=None, end=True, authority="test", scheme="http"):
        stream = self.open_stream(request_fields(method, path, fields, authority, scheme),
                                  end and body is None)
        if body is not None:
            try:
                stream.send(body, end)
            except Reset as reset:
                if reset.code != NO_ERROR:  # NO_ERROR: the response is complete, the rest of the body is not needed
                    raise
        return stream

    def exchange(self, *args, **kwargs):
        return self.request(*args, **kwargs).read_response()

    # ---- waiting ----

    def wait_settled(self):
        with self._changed:
            self._wait(None, lambda: self._theirs_known)

    def wait(self, stream, condition, within=PATIENCE):
        with self._changed:
            self._wait(stream, condition, within=within)

    def _wait(self, stream, condition, sending=False, within=PATIENCE):
        until = time.monotonic() + within
        while sending or not condition():
            if stream is not None and stream.reset_code is not None:
                raise Reset(stream.reset_code)
            if sending and condition():
                return
            if self.closed_at is not None:
                raise Closed(f"the connection has ended; {self.transcript_text()}")
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"nothing came; {self.transcript_text()}")
            self._changed.wait(left)

    def read_piece(self, stream):
        with self._changed:
            self._wait(stream, lambda: stream._pieces or stream.ended)
            if not stream._pieces:
                return b""
            piece = b"".join(stream._pieces)
            stream._pieces.clear()
            if stream.ended:
                return piece
            stream._unreturned += len(piece)
            transcript = stream._unreturned
            if transcript * 2 < self.values[INITIAL_WINDOW_SIZE]:
                return piece
            stream._unreturned = 0
            stream._window += transcript
        self._send(window_update(stream.number, transcript))
        return piece

    def transcript_text(self):
        return "the last frames received:\n  " + "\n  ".join(str(each) for each in list(self.trace)[-40:])

    # ---- receiving ----

    def _read(self):
        try:
            while True:
                received = self.wire.read()
                self.trace.append(received if received.kind != DATA or len(received.payload) < 100
                                  else received._replace(payload=received.payload[:0]))
                with self._changed:
                    self._receive(received)
                    self._changed.notify_all()
                self._acknowledge()
        except (Closed, OSError):
            pass
        except Exception as failure:  # reported by the test that owns this peer
            self.violations.append(failure)
            raise
        finally:
            with self._changed:
                self.closed_at = time.monotonic()
                for stream in self.streams.values():
                    stream.gone_at = stream.gone_at or self.closed_at
                self._changed.notify_all()
            if self.serve:
                self.wire.close()

    def _broken(self, what, received=None):
        self.violations.append(f"{what}: {received}")

    def _receive(self, received):
        kind, number = received.kind, received.stream
        if len(received.payload) > self.values.get(MAX_FRAME_SIZE, 16384):
            self._broken("a frame too large", received)
        if self._continuing is not None and (kind != CONTINUATION or number != self._continuing):
            self._broken("a header block interrupted", received)
        if kind == DATA:
            self._receive_data(received)
        elif kind in (HEADERS, CONTINUATION):
            if kind == HEADERS:
                self._block_end = bool(received.flags & END_STREAM)
            fields = self.wire.decode(received)
            self._continuing = None if received.flags & END_HEADERS else number
            if fields is not None:
                self._receive_fields(number, fields, self._block_end, received)
        elif kind == RST_STREAM:
            stream = self.streams.pop(number, None)
            if number == 0 or number > max(self._highest, self._next):
                self._broken("a reset of an idle stream", received)
            if stream is not None:
                stream.reset_code = received.code()
                stream.gone_at = time.monotonic()
        elif kind == SETTINGS and received.flags & ACK:
            self._acknowledged = True
        elif kind == SETTINGS:
            self._receive_settings(received.settings())
        elif kind == PING and not received.flags & ACK:
            self.pings += 1
            self._acks.append(ping(received.payload, ack=True))
        elif kind == GOAWAY:
            self.goaway = (received.last_stream(), received.code())
            self.goaways.append(self.goaway)
        elif kind == WINDOW_UPDATE:
            increment = int.from_bytes(received.payload, "big") & MAX_WINDOW
            if increment == 0:
                self._broken("an empty window update", received)
            if number == 0:
                self._credit += increment
            elif number in self.streams:
                self.streams[number]._credit += increment
        elif kind == PUSH_PROMISE:
            self._broken("a push", received)

    def _receive_settings(self, values):
        change = values.get(INITIAL_WINDOW_SIZE, self.their(INITIAL_WINDOW_SIZE, 65535))
        change -= self.their(INITIAL_WINDOW_SIZE, 65535)
        for stream in self.streams.values():
            stream._credit += change
        self._theirs.update(values)
        self._theirs_known = True
        self._acks.append(settings(ack=True))

    def _receive_data(self, received):
        size = len(received.payload)
        self._window -= size
        self._unreturned += size
        if self._window < 0:
            self._broken("more than the connection's window", received)
        if self._unreturned * 2 >= self._connection_window:
            self._window += self._unreturned
            self._acks.append(window_update(0, self._unreturned))
            self._unreturned = 0
        stream = self.streams.get(received.stream)
        if stream is None:
            if received.stream not in self.refused:
                self._broken("DATA on a stream that is not open", received)
            return
        if stream.ended or stream.head is None:
            self._broken("DATA outside of a body", received)
        stream._window -= size
        if stream._window < 0 and stream.strict:
            self._broken("more than the stream's window", received)
        content = received.content()
        stream.received += len(content)
        if content:
            stream._pieces.append(content)
        if received.flags & END_STREAM:
            self._end(stream)

    def _receive_fields(self, number, fields, end, received):
        self._check_fields(fields, received)
        stream = self.streams.get(number)
        if stream is None and self.serve and number not in self.refused:
            if number % 2 == 0 or number <= self._highest:
                return self._broken("a stream that cannot be new", received)
            self._highest = number
            most = self.values.get(MAX_CONCURRENT_STREAMS)
            if most is not None and len(self.streams) >= most and self._acknowledged:
                self._broken("a stream too many", received)
            stream = PeerStream(self, number, self.values[INITIAL_WINDOW_SIZE])
            self.streams[number] = stream
        if stream is None:
            if number not in self.refused:
                self._broken("HEADERS on a stream that is not open", received)
            return
        if stream.head is None:
            head = Head(fields)
            if not self.serve and head.status < 200:
                return stream.interim.append(head)
            stream.head = head
            if self.serve:
                threading.Thread(target=self.serve, args=(stream,), daemon=True).start()
        else:
            if not end:
                self._broken("trailers that end nothing", received)
            stream.head.trailers = fields
        if end:
            self._end(stream)

    def _end(self, stream):
        length = stream.head.length()
        if length is not None and length != stream.received and not self._bodiless(stream):
            self._broken(f"{stream.received} bytes where {length} were announced")
        stream.ended = True
        if stream._finished:
            self.streams.pop(stream.number, None)

    def _bodiless(self, stream):
        return not self.serve and stream.received == 0  # a response to HEAD, or 304

    def _check_fields(self, fields, received):
        regular = False
        for name, value in fields:
            if name.startswith(":"):
                if regular:
                    self._broken(f"{name} after other fields", received)
            else:
                regular = True
            if name != name.lower() or name in CONNECTION_SPECIFIC or (name == "te" and value != "trailers"):
                self._broken(f"the field {name}: {value}", received)
            if value != value.strip(" \t") or any(each in value for each in "\r\n\0"):
                self._broken(f"the value {value!r} of {name}", received)

    # ---- closing ----

    def cut(self):
        """Closes the connection without GOAWAY."""
        self.wire.stream.socket.shutdown(2)

    def close(self):
        try:
            self._send(goaway())
            self.cut()
        except OSError:
            pass
        if threading.current_thread() is not self._thread:
            self._thread.join(PATIENCE)
        self.wire.close()

