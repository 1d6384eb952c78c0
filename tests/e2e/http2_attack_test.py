"""Attacks on HTTP/2 servers: each gets the right response, costs a bounded amount of work and memory, reaches the backend a
bounded number of times, and does not disturb other clients."""

import contextlib
import signal
import struct
import threading
import time

import case
import http2
from http2 import (CANCEL, COMPRESSION_ERROR, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM,
                   FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS,
                   MAX_WINDOW, NO_ERROR, PREFACE, PRIORITY, PROTOCOL_ERROR, PUSH_PROMISE, REFUSED_STREAM, RST_STREAM,
                   SETTINGS, SETTINGS_TIMEOUT, STREAM_CLOSED, WINDOW_UPDATE, Peer, Wire, data, frame, goaway, headers,
                   literal, ping, request_fields, rst_stream, settings, window_update)
from process import SANITIZED, wait_until
from stream import PATIENCE, Closed, Stream

MEGABYTE = 1 << 20
MOST_MEMORY = 8 * MEGABYTE
STREAMS = 128  # the daemon's limit per connection
BURST = 1100  # requests of a rapid reset that may reach the backend
RESETS = 100  # that the daemon sends on one connection in 10 s before it closes it
MAX_DELAY = 1.0 if not SANITIZED else 10.0  # seconds, for another client


class Counting:
    """A script that counts requests. It never answers `/attack`, does not even read `/held`, sends a large response to `/large`,
    and answers all others at once."""

    def __init__(self):
        self.count = 0
        self.gone = 0
        self.open = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, request):
        if request.target == "/bystander":
            return request.answer(b"fine")
        with self._lock:
            self.count += 1
        if request.target == "/attack":
            request.wait_disconnected()
            with self._lock:
                self.gone += 1
        elif request.target == "/held":
            self.open.wait(PATIENCE)
        elif request.target == "/large":
            request.begin_chunks()
            for _ in range(160):
                request.chunk(b"x" * 65536)
            request.end_chunks()
        else:
            request.read_body()
            request.answer(b"fine")


class Attacked(case.Case):
    def target(self, listener=None, **config):
        self.script = Counting()
        self.addCleanup(self.script.open.set)
        self.daemon_ = self.start_daemon(self.backend(self.script, reads_body=False),
                                        listeners=[{"name": "public", **(listener or {})}], **config)
        return self.daemon_

    def wire(self, values=None, **kwargs):
        wire = Wire.connect(self.daemon_.address, **kwargs)
        self.addCleanup(wire.close)
        return wire.open(values)

    @contextlib.contextmanager
    def undisturbed(self, memory=MOST_MEMORY):
        """Another client on its own connection is served all the time, and memory does not grow."""
        daemon = self.daemon_
        stop = threading.Event()
        served = []
        before = daemon.resident_bytes()
        most = [before]

        def send_requests():
            with Peer.connect(daemon.address) as peer:
                while not stop.is_set() or len(served) < 3:
                    began = time.monotonic()
                    answer = peer.exchange(path="/bystander")
                    assert (answer.status, answer.body) == (200, b"fine"), answer.status
                    served.append(time.monotonic() - began)
                    most[0] = max(most[0], daemon.resident_bytes())
                    stop.wait(0.01)
                assert not peer.violations, peer.violations

        bystander = self.spawn(send_requests)
        try:
            yield
        finally:
            stop.set()
            bystander.join()
        self.assert_within(max(served), MAX_DELAY)
        if not SANITIZED:
            self.assertLess(most[0] - before, memory)

    def flood(self, wire, frames, drained=True, within=5):
        """Sends until the daemon closes or everything is sent; returns the transcript."""
        reading = self.spawn(lambda: wire.until_closed(within)) if drained else None
        try:
            for each in frames:
                if wire.transcript.goaway is not None or wire.transcript.closed:
                    break
                wire.stream.send(each)
        except OSError:
            pass
        return reading.join() if drained else wire.until_closed(5)

    def check_ended(self, transcript, *codes):
        """The connection was closed, with one of these codes if any are given."""
        self.assertIsNotNone(transcript.closed, f"the daemon bears it; {transcript}")
        if codes:
            self.assertIsNotNone(transcript.goaway, f"no GOAWAY; {transcript}")
            self.assertIn(http2.error_name(transcript.goaway), [http2.error_name(code) for code in codes], transcript)

    def check_calmed(self, transcript):
        """The connection was closed because of the attack, with any of the suitable codes."""
        self.check_ended(transcript)
        self.assertNotIn(transcript.goaway, (None, NO_ERROR), transcript)

    def streams(self, count):
        return range(1, 2 * count, 2)


class Resets(Attacked):
    def test_a_rapid_reset_is_calmed(self):
        self.target()
        wire = self.wire()
        fields = request_fields(path="/attack")
        with self.undisturbed():
            transcript = self.flood(wire, (b"".join(headers(each, fields) + rst_stream(each)
                                              for each in range(first, first + 100, 2))
                                     for first in range(1, 40_000, 100)))
        self.check_ended(transcript, ENHANCE_YOUR_CALM)
        self.assertLessEqual(self.script.count, BURST)
        self.daemon_.wait_at_rest()

    def test_a_rapid_reset_of_answers_that_are_never_read(self):
        """An answer that waits for the socket is none that the client has given up."""
        self.target(routes=[{"match": {"path": path}, "pool": "pool"} for path in ("/large", "/bystander")])
        wire = self.wire({INITIAL_WINDOW_SIZE: MAX_WINDOW}, receive_buffer=4096)
        wire.send(window_update(0, MAX_WINDOW - 65_535), headers(1, request_fields(path="/large")))
        time.sleep(0.5)  # the answer fills the socket
        fields = request_fields("HEAD", "/none")

        def frames():
            for first in range(3, 12_003, 200):
                streams = range(first, first + 200, 2)
                yield b"".join(headers(each, fields) for each in streams)
                time.sleep(0.01)
                yield b"".join(rst_stream(each) for each in streams)

        with self.undisturbed():
            transcript = self.flood(wire, frames(), drained=False)
        self.check_ended(transcript)
        self.daemon_.wait_at_rest()

    def check_made_to_reset(self, provoke, fields=(), method="GET", end=True):
        """After each request the client provokes a reset. The daemon may close the connection at once, and must do so after a
        bounded number of resets."""
        self.target()
        wire = self.wire()
        head = request_fields(method, "/attack", fields)
        with self.undisturbed():
            transcript = self.flood(wire, (headers(each, head, end) + provoke(each) for each in self.streams(4000)))
        self.check_calmed(transcript)
        self.assertLessEqual(len(transcript.resets), RESETS + STREAMS)
        self.assertLessEqual(self.script.count, RESETS + STREAMS)
        self.daemon_.wait_at_rest()

    def test_made_you_reset_by_an_empty_window_update(self):
        self.check_made_to_reset(lambda each: window_update(each, 0))

    def test_made_you_reset_by_a_window_that_overflows(self):
        self.check_made_to_reset(lambda each: window_update(each, MAX_WINDOW))

    def test_made_you_reset_by_a_priority_of_the_wrong_length(self):
        self.check_made_to_reset(lambda each: frame(PRIORITY, 0, each, b"\0" * 4))

    def test_made_you_reset_by_a_stream_that_depends_on_itself(self):
        self.check_made_to_reset(lambda each: frame(PRIORITY, 0, each, struct.pack("!IB", each, 16)))

    def test_made_you_reset_by_headers_after_the_end(self):
        self.check_made_to_reset(lambda each: headers(each, [("x-more", "1")]))

    def test_made_you_reset_by_data_after_the_end(self):
        self.check_made_to_reset(lambda each: data(each, b"more", end=True))

    def test_made_you_reset_by_less_than_the_content_length(self):
        self.check_made_to_reset(lambda each: data(each, b"abc", end=True),
                                 method="POST", fields=[("content-length", "5")], end=False)

    def test_made_you_reset_by_more_than_the_content_length(self):
        self.check_made_to_reset(lambda each: data(each, b"abcdefg"),
                                 method="POST", fields=[("content-length", "5")], end=False)

    def test_made_you_reset_by_bad_trailers(self):
        self.check_made_to_reset(lambda each: headers(each, [(":path", "/other")]),
                                 method="POST", end=False)

    def test_made_you_reset_by_trailers_without_end_stream(self):
        self.check_made_to_reset(lambda each: headers(each, [("x-sum", "1")], end=False),
                                 method="POST", end=False)

    def test_made_you_reset_by_malformed_requests(self):
        self.target()
        wire = self.wire()
        with self.undisturbed():
            transcript = self.flood(wire, (headers(each, request_fields(fields=[("Upper", "1")]))
                                     for each in self.streams(4000)))
        self.check_calmed(transcript)
        self.assertLessEqual(len(transcript.resets), RESETS + STREAMS)
        self.assertEqual(self.script.count, 0)

    def test_streams_over_the_limit_are_refused_until_the_client_knows_it(self):
        """Clients may send requests before they have read our SETTINGS, and may repeat the refused ones."""
        self.target()
        wire = Wire.connect(self.daemon_.address)
        self.addCleanup(wire.close)
        asked = [*self.streams(STREAMS + 50)]
        fields = request_fields("POST", "/attack", [("content-length", "3")])
        with self.undisturbed():
            wire.send(PREFACE, settings(), *(headers(each, fields, end=False) + data(each, b"abc", end=True)
                                             for each in asked))
            transcript = wire.until(lambda transcript: len(transcript.resets) == 50 or transcript.goaway is not None)
            self.assertIsNone(transcript.goaway, transcript)
            self.assertEqual(set(transcript.resets.values()), {REFUSED_STREAM})
            self.assertEqual(sorted(transcript.resets), asked[STREAMS:])
            wait_until(lambda: self.script.count == STREAMS, what="the requests at the backend")
            wire.send(settings(ack=True), *(rst_stream(each) for each in asked[:STREAMS]))
            wire.ask(asked[-1] + 2, path="/bystander")
            self.assertEqual(wire.answer_to(asked[-1] + 2).body, b"fine")
        self.daemon_.wait_at_rest()

    def test_streams_over_a_known_limit_are_never_dispatched(self):
        """The stream is refused, or the connection is closed."""
        self.target()
        wire = self.wire()
        self.assertEqual(wire.their_settings()[MAX_CONCURRENT_STREAMS], STREAMS)
        head = request_fields("POST", "/attack")
        with self.undisturbed():
            wire.send(*(headers(each, head, end=False) for each in self.streams(STREAMS)))
            wait_until(lambda: self.script.count == STREAMS, what="the requests at the backend")
            transcript = self.flood(wire, (headers(each, head, end=False)
                                     for each in range(2 * STREAMS + 1, 2 * STREAMS + 4000, 2)))
        self.check_calmed(transcript)
        self.assertEqual(self.script.count, STREAMS)
        self.daemon_.wait_at_rest()


class Floods(Attacked):
    """Frames that cost the sender nothing."""

    def check_flood(self, chunk, *codes, count=400, drained=True, opened=None, values=None):
        """Sends `chunk`, which is many frames, `count` times."""
        self.target()
        wire = self.wire(values)
        if opened:
            wire.send(opened)
        with self.undisturbed():
            transcript = self.flood(wire, (chunk for _ in range(count)), drained)
        self.check_ended(transcript, *codes)
        self.assertLessEqual(self.script.count, 1)
        self.daemon_.wait_at_rest()

    def test_pings(self):
        self.check_flood(ping() * 100, ENHANCE_YOUR_CALM)

    def test_pings_with_unread_acknowledgements(self):
        self.check_flood(ping() * 1000, count=4000, drained=False)

    def test_settings(self):
        self.check_flood(settings({INITIAL_WINDOW_SIZE: 70_000}) * 100, ENHANCE_YOUR_CALM)

    def test_settings_with_unread_acknowledgements(self):
        self.check_flood(settings({}) * 1000, count=4000, drained=False)

    def test_settings_that_change_the_windows_of_many_streams(self):
        opened = b"".join(headers(each, request_fields("POST", "/attack"), end=False) for each in self.streams(100))
        self.target()
        wire = self.wire()
        wire.send(opened)
        with self.undisturbed():
            transcript = self.flood(wire, (settings({INITIAL_WINDOW_SIZE: 1 + size % 2}) * 50 for size in range(800)))
        self.check_ended(transcript, ENHANCE_YOUR_CALM)

    def test_a_settings_frame_of_many_entries(self):
        many = frame(SETTINGS, 0, 0, struct.pack("!HI", INITIAL_WINDOW_SIZE, 65535) * 2000)
        self.check_flood(many, ENHANCE_YOUR_CALM, count=1)

    def test_priorities(self):
        self.check_flood(frame(PRIORITY, 0, 1, struct.pack("!IB", 3, 16)) * 200, ENHANCE_YOUR_CALM)

    def test_priorities_of_many_idle_streams(self):
        self.target()
        wire = self.wire()
        with self.undisturbed():
            transcript = self.flood(wire, (b"".join(frame(PRIORITY, 0, each, struct.pack("!IB", 0, 16))
                                              for each in range(first, first + 400, 2))
                                     for first in range(1, 100_000, 400)))
        self.check_ended(transcript, ENHANCE_YOUR_CALM)

    def test_frames_of_an_unknown_type(self):
        self.check_flood(frame(0xbe, 0, 0, b"grease") * 200, ENHANCE_YOUR_CALM)

    def test_priority_updates(self):
        self.check_flood(frame(0x10, 0, 0, struct.pack("!I", 1) + b"u=1") * 200, ENHANCE_YOUR_CALM)

    def test_connection_window_updates_by_one(self):
        self.check_flood(window_update(0, 1) * 200, ENHANCE_YOUR_CALM)

    def test_stream_window_updates_by_one(self):
        self.check_flood(window_update(1, 1) * 200, ENHANCE_YOUR_CALM,
                         opened=headers(1, request_fields("POST", "/attack"), end=False))

    def test_empty_data(self):
        self.check_flood(data(1) * 200, ENHANCE_YOUR_CALM,
                         opened=headers(1, request_fields("POST", "/attack"), end=False))

    def test_data_with_only_padding(self):
        """It costs the sender as much as a body, and is limited by the windows as a body is."""
        self.target()
        wire = self.wire()
        with self.undisturbed():
            transcript = self.flood(wire, [headers(1, request_fields("POST", "/attack"), end=False),
                                     *(frame(DATA, http2.PADDED, 1, b"\xff" + b"\0" * 255) * 100 for _ in range(400))],
                              within=1)
        if transcript.closed is None:
            self.assertEqual(transcript.resets.get(1, FLOW_CONTROL_ERROR), FLOW_CONTROL_ERROR)
            wire.ask(3, path="/bystander")
            self.assertEqual(wire.answer_to(3).body, b"fine")

    def test_resets_of_closed_streams(self):
        self.check_flood(rst_stream(1) * 200, ENHANCE_YOUR_CALM, STREAM_CLOSED, PROTOCOL_ERROR,
                         opened=headers(1, request_fields("GET", "/attack")) + rst_stream(1))

    def test_continuations(self):
        self.target()
        wire = self.wire()
        with self.undisturbed():
            transcript = self.flood(wire, [headers(1, request_fields(path="/attack"), flags=0),
                                     *(frame(CONTINUATION, 0, 1, literal([("x", "y" * 100)])) for _ in range(20_000))])
        self.check_ended(transcript)
        self.assertEqual(self.script.count, 0)

    def test_empty_continuations(self):
        self.target()
        wire = self.wire()
        with self.undisturbed():
            transcript = self.flood(wire, [headers(1, request_fields(path="/attack"), flags=0),
                                     *(frame(CONTINUATION, 0, 1) * 100 for _ in range(1000))])
        self.check_ended(transcript)
        self.assertEqual(self.script.count, 0)

    def test_goaways(self):
        self.check_flood(goaway(0, NO_ERROR, b"x" * 100) * 100)


class Bombs(Attacked):
    """Small on the wire, large in memory."""

    def bomb(self, stream, repeated, count):
        """One field that enters the HPACK table, then as many references to it as fit into a frame."""
        name, value = repeated
        block = literal(request_fields(path="/attack"))
        block += b"\x40" + http2.integer(len(name), 7) + name + http2.integer(len(value), 7) + value
        block += b"\xbe" * count  # the newest entry
        return frame(HEADERS, END_HEADERS | END_STREAM, stream, block)

    def check_bomb(self, repeated, count=11_000):
        self.target()
        with self.undisturbed():
            for _ in range(5):
                wire = self.wire()
                try:
                    wire.send(*(self.bomb(each, repeated, count) for each in self.streams(10)))
                    transcript = wire.until(lambda transcript: transcript.goaway is not None or len(
                        set(transcript.resets) | set(transcript.ended)) == 10)
                except (Closed, ConnectionError):
                    transcript = wire.transcript
                for stream in transcript.statuses:
                    self.assertEqual(transcript.statuses[stream], 431, transcript)
                wire.close()
        self.assertEqual(self.script.count, 0)

    def test_a_large_field_a_thousand_times(self):
        self.check_bomb((b"x-bomb", b"x" * 4000))

    def test_split_cookies(self):
        self.check_bomb((b"cookie", b"a=b"))

    def test_almost_empty_fields(self):
        self.check_bomb((b"x", b""))

    def test_the_connection_remains_usable_after_a_bomb(self):
        """The HPACK table stays in sync although the fields are dropped, even the one that entered the table last."""
        self.target()
        wire = self.wire()
        late = literal(request_fields(path="/attack")) + literal([("x-many", "y")]) * 300
        late += b"\x40" + http2.integer(5, 7) + b"x-new" + http2.integer(1, 7) + b"1"
        wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, late))
        self.assertEqual(wire.answer_to(1).status, 431)
        block = literal(request_fields(path="/bystander")) + b"\xbe"
        wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 3, block))
        self.assertEqual(wire.answer_to(3).body, b"fine")
        self.assertEqual(self.script.count, 0)

    def test_heads_far_beyond_the_limits_are_calmed(self):
        """A few bytes stand for many fields, so only some such requests are answered."""
        self.target()
        wire = self.wire()
        with self.undisturbed():
            transcript = self.flood(wire, (self.bomb(each, (b"x-bomb", b"x" * 4000), 1000) for each in self.streams(4000)))
        self.check_ended(transcript, ENHANCE_YOUR_CALM)
        self.assertLessEqual(set(transcript.statuses.values()), {431})
        self.assertLessEqual(len(transcript.statuses), 2 * RESETS)
        self.assertEqual(self.script.count, 0)

    def check_too_large(self, fields, listener=None):
        self.target(listener)
        wire = self.wire()
        block = literal(request_fields(path="/attack", fields=fields))
        parts = [block[at:at + 16384] for at in range(0, len(block), 16384)]
        wire.send(*(frame(CONTINUATION if at else HEADERS, (0 if at else END_STREAM)
                          | (END_HEADERS if at == len(parts) - 1 else 0), 1, part) for at, part in enumerate(parts)))
        answer = wire.answer_to(1)
        self.assertEqual((answer.status, answer.reason), (431, "header_too_large"))
        wire.ask(3, path="/bystander")
        self.assertEqual(wire.answer_to(3).body, b"fine")
        self.assertEqual(self.script.count, 0)

    def test_an_oversized_field(self):
        self.check_too_large([("x-large", "x" * 40_000)])

    def test_a_much_too_large_header_list(self):
        self.check_too_large([("x-large", "x" * 30_000)] * 3)

    def test_an_oversized_field_to_decode(self):
        """The connection must close, because the HPACK tables of both sides would differ."""
        self.target()
        wire = self.wire()
        block = literal(request_fields(path="/attack", fields=[("x-large", "x" * 100_000)]))
        parts = [block[at:at + 16384] for at in range(0, len(block), 16384)]
        wire.send(*(frame(CONTINUATION if at else HEADERS, (0 if at else END_STREAM)
                          | (END_HEADERS if at == len(parts) - 1 else 0), 1, part) for at, part in enumerate(parts)))
        self.check_ended(wire.until_closed(5), COMPRESSION_ERROR, ENHANCE_YOUR_CALM)
        self.assertEqual(self.script.count, 0)

    def test_too_many_fields(self):
        self.check_too_large([("x-many", "y")] * 110)

    def test_far_too_many_fields(self):
        self.check_too_large([("x-many", "y")] * 1000)

    def test_a_header_list_over_the_listeners_limit(self):
        self.check_too_large([("x-large", "x" * 3000)], {"limits": {"header": "2KiB"}})

    def test_a_table_that_must_not_grow(self):
        """A table size update over the announced limit is a COMPRESSION_ERROR."""
        self.target()
        wire = self.wire()
        wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 1,
                        http2.integer(1 << 20, 5, 0x20) + literal(request_fields(path="/attack"))))
        self.check_ended(wire.until_closed(5), COMPRESSION_ERROR)
        self.assertEqual(self.script.count, 0)

    def test_an_index_that_does_not_exist(self):
        self.target()
        wire = self.wire()
        wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, literal(request_fields(path="/attack")) + b"\xff\x80\x01"))
        self.check_ended(wire.until_closed(5), COMPRESSION_ERROR)
        self.assertEqual(self.script.count, 0)


class Held(Attacked):
    """Responses that the client does not read, requests that never end."""

    def test_windows_that_never_open(self):
        """A hundred large responses wait for a window: the daemon reads nothing from the backend for them, and resets them after
        the write timeout."""
        self.target({"timeouts": {"write": "1s"}})
        wire = self.wire({INITIAL_WINDOW_SIZE: 0})
        with self.undisturbed(memory=16 * MEGABYTE):
            wire.send(*(headers(each, request_fields(path="/large")) for each in self.streams(100)))
            transcript = wire.until(lambda transcript: len(transcript.resets) == 100 or transcript.goaway is not None)
        self.assertLessEqual(set(transcript.resets.values()), {CANCEL, http2.INTERNAL_ERROR, ENHANCE_YOUR_CALM})
        self.assertEqual(sum(map(len, transcript.bodies.values())), 0)
        self.daemon_.wait_at_rest()

    def test_a_window_that_stays_closed_after_the_first_bytes(self):
        """The time counts from the last byte that was taken: it is hardly longer than for a window that never opened."""
        self.target({"timeouts": {"write": "1s"}})
        wire = self.wire({INITIAL_WINDOW_SIZE: 0})
        wire.send(*(headers(each, request_fields(path="/large")) for each in (1, 3)), window_update(1, 20_000))
        wire.until(lambda transcript: 3 in transcript.resets)
        began = time.monotonic()
        wire.until(lambda transcript: 1 in transcript.resets)
        self.assertLess(time.monotonic() - began, 0.5)
        self.assertEqual(len(wire.transcript.bodies[1]), 20_000)
        self.daemon_.wait_at_rest()

    def test_closed_windows_beside_one_that_keeps_the_socket_busy(self):
        self.target({"timeouts": {"write": "1s"}})
        wire = self.wire({INITIAL_WINDOW_SIZE: 0}, receive_buffer=4096)
        wire.send(window_update(0, MAX_WINDOW - 65_535), *(headers(each, request_fields(path="/large")) for each in (1, 3, 5)),
                  window_update(1, MAX_WINDOW))
        began = time.monotonic()

        def ended(transcript):
            time.sleep(0.02)  # 16 KiB at a time: the socket is busy for longer than the timeout
            return {3, 5} <= set(transcript.resets) or 1 in transcript.ended or time.monotonic() - began > 10

        wire.until(ended)
        self.assertLessEqual({3, 5}, set(wire.transcript.resets))
        self.assertNotIn(1, wire.transcript.resets)
        self.assert_within(time.monotonic() - began, 4)

    def test_windows_that_open_a_little_now_and_then(self):
        """Little, but more often than the timeout: served, as long as it is enough in each timeout."""
        self.target({"timeouts": {"write": "1s"}})
        wire = self.wire({INITIAL_WINDOW_SIZE: 0})
        wire.send(headers(1, request_fields(path="/large")))
        for _ in range(8):
            time.sleep(0.35)
            wire.send(window_update(1, 600))
        wire.until(lambda transcript: transcript.resets or len(transcript.bodies[1]) == 4800)
        self.assertEqual(wire.transcript.resets, {})
        began = time.monotonic()
        for _ in range(8):
            time.sleep(0.35)
            wire.send(window_update(1, 100))
            if time.monotonic() - began > 1.5:
                break
        wire.until(lambda transcript: transcript.resets)
        self.assert_within(time.monotonic() - began, 2.5)

    def test_uploads_that_go_on_after_their_answers(self):
        """On all streams at once: what they send is discarded as it comes, and ends with `timeouts.linger`."""
        self.target({"limits": {"body": "1KiB"}, "timeouts": {"linger": "1s"}})
        wire = self.wire()
        head = request_fields("POST", "/attack", [("content-length", "100000000")])
        with self.undisturbed():
            wire.send(*(headers(each, head, end=False) for each in self.streams(STREAMS)))
            for sent in range(0, 8 * 4000, 4000):  # of each stream, and as much as the connection's window is open for
                wire.until(lambda transcript, sent=sent: transcript.credit >= STREAMS * (sent + 4000))
                wire.send(*(data(each, b"x" * 4000) for each in self.streams(STREAMS)))
            began = time.monotonic()
            transcript = wire.until(lambda transcript: len(transcript.resets) == STREAMS)
        self.assert_within(time.monotonic() - began, 3)
        self.assertEqual(set(transcript.statuses.values()), {413})
        self.assertEqual(set(transcript.resets.values()), {NO_ERROR})
        self.assertIsNone(transcript.goaway)
        self.assertEqual(self.script.count, 0)
        self.daemon_.wait_at_rest()

    def test_windows_that_open_a_byte_at_a_time(self):
        """There is progress, so the stream lives; it costs no more than another."""
        self.target()
        wire = self.wire({INITIAL_WINDOW_SIZE: 0})
        with self.undisturbed():
            wire.send(headers(1, request_fields(path="/large")))
            for _ in range(100):
                before = len(wire.transcript.bodies[1])
                wire.send(window_update(1, 1))
                wire.until(lambda transcript, before=before: len(transcript.bodies[1]) == before + 1)
            wire.send(rst_stream(1))
            self.daemon_.wait_at_rest()

    def test_responses_that_are_never_read(self):
        """The windows are open, but the client does not read from its socket."""
        self.target({"timeouts": {"write": "1s"}})
        wire = self.wire({INITIAL_WINDOW_SIZE: MAX_WINDOW}, receive_buffer=65536)
        with self.undisturbed(memory=24 * MEGABYTE):
            wire.send(window_update(0, MAX_WINDOW - 65535),
                      *(headers(each, request_fields(path="/large")) for each in self.streams(100)))
            wait_until(lambda: self.script.count == 100, what="the requests at the backend")
            wait_until(self.daemon_.at_rest, what="their end")
        self.assertIsNotNone(wire.until_closed(5).closed)

    def test_a_blocked_stream_does_not_block_others(self):
        """On the same connection: a stream with a closed window, and many that are served."""
        self.target()
        wire = self.wire({INITIAL_WINDOW_SIZE: 1000})
        wire.ask(1, path="/large")
        wire.until(lambda transcript: len(transcript.bodies[1]) == 1000)
        for each in range(3, 103, 2):
            wire.ask(each, path="/bystander")
            self.assertEqual(wire.answer_to(each).body, b"fine")
        wire.send(rst_stream(1))

    def check_slow(self, first, *rest, closed_within=3.0):
        self.target({"timeouts": {"header": "500ms"}})
        with self.undisturbed():
            with Stream.connect(self.daemon_.address) as stream:
                stream.send(first)
                began = time.monotonic()
                for each in rest:  # each within the timeout, the sum of them over it
                    try:
                        stream.send(each)
                        stream.socket.settimeout(0.1)
                        while stream.socket.recv(65536):
                            pass
                        break
                    except TimeoutError:
                        pass
                    except ConnectionError:
                        break
                stream.wait_closed(5)
                self.assert_within(time.monotonic() - began, closed_within)
        self.assertEqual(self.script.count, 0)

    def test_half_a_preface(self):
        self.check_slow(PREFACE[:10])

    def test_a_preface_byte_by_byte(self):
        self.check_slow(PREFACE[:1], *(PREFACE[at:at + 1] for at in range(1, 24)))

    def test_a_preface_and_half_a_settings_frame(self):
        self.check_slow(PREFACE + settings()[:5])

    def test_headers_that_never_end(self):
        self.check_slow(PREFACE + settings() + settings(ack=True)
                        + headers(1, request_fields(path="/attack"), flags=0))

    def test_headers_byte_by_byte(self):
        whole = headers(1, request_fields(path="/attack", fields=[("x", "y" * 50)]))
        self.check_slow(PREFACE + settings() + settings(ack=True), *(whole[at:at + 1] for at in range(len(whole))),
                        closed_within=4.0)

    def test_a_body_that_stalls(self):
        self.target({"timeouts": {"body": "500ms"}})
        wire = self.wire()
        with self.undisturbed():
            wire.send(headers(1, request_fields("POST", "/attack", [("content-length", "10")]), end=False),
                      data(1, b"half"))
            wire.until(lambda transcript: 1 in transcript.resets or 1 in transcript.ended)
            self.assertEqual(wire.transcript.statuses.get(1, 408), 408)
            wire.ask(3, path="/bystander")
            self.assertEqual(wire.answer_to(3).body, b"fine")
        wait_until(lambda: self.script.gone == 1, what="the end at the backend")

    def test_settings_that_are_never_acknowledged(self):
        self.target()
        wire = Wire.connect(self.daemon_.address)
        self.addCleanup(wire.close)
        wire.send(PREFACE, settings())
        with self.undisturbed():
            began = time.monotonic()
            transcript = wire.until_closed(15)
        self.check_ended(transcript, SETTINGS_TIMEOUT)
        self.assertGreater(time.monotonic() - began, 8)

    def test_a_connection_without_a_request(self):
        self.target({"timeouts": {"idle": "500ms"}})
        wire = self.wire()
        self.check_ended(wire.until_closed(5), NO_ERROR)

    def test_a_connection_after_its_last_request(self):
        self.target({"timeouts": {"idle": "500ms"}})
        wire = self.wire()
        wire.ask(1, path="/bystander")
        self.assertEqual(wire.answer_to(1).body, b"fine")
        self.check_ended(wire.until_closed(5), NO_ERROR)


class Malformed(Attacked):
    """Requests that must not reach a backend."""

    def check_refused(self, cases, statuses=(400,)):
        self.target()
        wire = self.wire()
        stream = 1
        for name, block, more in cases:
            before = self.script.count
            with self.subTest(name):
                if wire.transcript.goaway is not None or stream > 150:
                    wire.close()  # malformed requests are counted, and too many close the connection
                    wire, stream = self.wire(), 1
                wire.stream.socket.settimeout(5)
                wire.send(block(stream), *(each(stream) for each in more))
                try:
                    wire.until(lambda transcript, stream=stream: stream in transcript.resets or stream in transcript.ended
                               or transcript.goaway is not None)
                except Closed:
                    pass
                if stream in wire.transcript.statuses:
                    self.assertIn(wire.transcript.statuses[stream], statuses)
                elif wire.transcript.goaway is None:
                    self.assertIn(wire.transcript.resets.get(stream), [PROTOCOL_ERROR, REFUSED_STREAM])
                    wire.ask(stream + 2, path="/bystander")
                    self.assertEqual(wire.answer_to(stream + 2).body, b"fine", "its neighbour")
                else:
                    self.assertIn(wire.transcript.goaway, [PROTOCOL_ERROR, COMPRESSION_ERROR])
                self.assertEqual(self.script.count, before, "it has reached the backend")
            stream += 4

    def check_fields(self, *cases, statuses=(400,)):
        """Each case: additional fields of an otherwise valid request."""
        self.check_refused([(repr(each), lambda stream, each=each: headers(
            stream, request_fields(path="/attack", fields=each)), []) for each in cases], statuses)

    def check_heads(self, *cases, statuses=(400,)):
        """Each case: all fields of a request."""
        self.check_refused([(repr(each), lambda stream, each=each: headers(stream, each), []) for each in cases],
                           statuses)

    def test_invalid_names(self):
        self.check_fields(*([(name, "1")] for name in (
            "Upper", "x y", "x:y", "", "x\r\ny", "x\ny", "x\0y", "x\x7f", "x\x80", "x\t", " x", "x(", "x,y", "x\"",
            "x: 1\r\nx-smuggled")))

    def test_values_with_line_breaks(self):
        self.check_fields(*([("x-value", value)] for value in (
            "a\r\nx-smuggled: 1", "a\nb", "a\rb", "a\0b", "\r\n\r\nGET /attack HTTP/1.1\r\nhost: a\r\n\r\n",
            "a\x01b", "a\x7fb")))

    def test_values_with_surrounding_space(self):
        self.check_fields(*([("x-value", value)] for value in (" a", "a ", "\ta", "a\t")))

    def test_connection_fields(self):
        self.check_fields(*([field] for field in (
            ("connection", "close"), ("connection", "x-value"), ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"), ("transfer-encoding", "chunked"), ("transfer-encoding", "identity"),
            ("upgrade", "websocket"), ("te", "gzip"), ("te", "trailers, gzip"))))

    def test_invalid_pseudo_fields(self):
        method, scheme, authority, path = request_fields(path="/attack")
        self.check_heads(
            [scheme, authority, path], [method, authority, path], [method, scheme, authority],
            [method, method, scheme, authority, path], [method, scheme, authority, path, path],
            [method, scheme, authority, ("x", "1"), path], [method, scheme, authority, path, (":unknown", "1")],
            [method, scheme, authority, path, (":status", "200")], [method, scheme, authority, path, (":protocol", "x")],
            [method, scheme, authority, authority, path], [method, scheme, scheme, authority, path], [])

    def test_invalid_paths(self):
        self.check_heads(*(request_fields(path=path) for path in (
            "", "attack", "/attack HTTP/1.1\r\nx: y", "/a b", "/a#b", "/a\r\nb", "/a\0b", "/a\tb", "*", "/a\x7f",
            "http://other/attack", "/../../attack", "/a\x80")), statuses=(400, 404))

    def test_invalid_methods(self):
        self.check_heads(*(request_fields(method, path="/attack") for method in (
            "", "GE T", "GET /attack HTTP/1.1\r\nhost: a\r\n\r\n", "G\0T", "GET\r\n", "G(T", "GET\x80")))

    def test_unsupported_methods(self):
        self.check_heads(request_fields("TRACE", path="/attack"),
                         [(":method", "CONNECT"), (":authority", "other:443")],
                         statuses=(400, 403, 405, 501))

    def test_invalid_schemes(self):
        self.check_heads(*(request_fields(path="/attack", scheme=scheme) for scheme in (
            "", "gopher", "http://other/", "ht tp", "http\r\nx: y", "http\0")))

    def test_invalid_authorities(self):
        method, scheme, _, path = request_fields(path="/attack")
        self.check_heads(*(request_fields(path="/attack", authority=authority) for authority in (
            "", "user@test", "te st", "test/attack", "test\r\nx: y", "test\0", "test:port", "test?x")),
            [method, scheme, path])

    def test_a_host_different_from_the_authority(self):
        self.check_fields([("host", "other")], [("host", "test"), ("host", "test")])

    def test_invalid_content_lengths(self):
        self.check_refused([(repr(each), lambda stream, each=each: headers(stream, request_fields(
            "POST", "/attack", each), end=False), [lambda stream: data(stream, b"abc", end=True)])
            for each in ([("content-length", length)] for length in (
                "abc", "-3", "+3", "3,3", "3 3", "0x3", "", "18446744073709551616", "3.0"))])

    def test_two_content_lengths(self):
        self.check_refused([("two", lambda stream: headers(stream, request_fields(
            "POST", "/attack", [("content-length", "3"), ("content-length", "4")]), end=False),
            [lambda stream: data(stream, b"abc", end=True)])])

    def test_a_content_length_without_a_body(self):
        self.check_fields([("content-length", "5")])

    def check_never_complete(self, fields, *frames):
        """The head may have reached the backend, but no complete request."""
        backend = self.backend(lambda request: request.answer(b"complete"))
        daemon = self.start_daemon(backend, pool={"keep_alive": {"idle": "100ms"}})
        with Wire.connect(daemon.address).open() as wire:
            wire.send(headers(1, request_fields("POST", "/attack", fields), end=False), *frames)
            wire.until(lambda transcript: transcript.goaway is not None or 1 in transcript.resets or 1 in transcript.ended)
            self.assertIn(wire.transcript.statuses.get(1, 400), [400])
        daemon.wait_at_rest()
        wait_until(lambda: backend.connections() == 0, what="the end at the backend")
        self.assertEqual(backend.exchanges, [])

    def test_less_than_the_content_length(self):
        self.check_never_complete([("content-length", "5")], data(1, b"abc", end=True))

    def test_less_than_the_content_length_in_two_parts(self):
        self.check_never_complete([("content-length", "5")], data(1, b"abc"), data(1, b"", end=True))

    def test_more_than_the_content_length(self):
        self.check_never_complete([("content-length", "5")], data(1, b"abcdefg", end=True))

    def test_trailers_before_the_content_length_is_reached(self):
        self.check_never_complete([("content-length", "5")], data(1, b"abc"), headers(1, [("x-sum", "1")]))

    def test_trailers_with_pseudo_fields(self):
        self.check_never_complete([], data(1, b"abc"), headers(1, [(":path", "/other")]))

    def test_trailers_with_a_connection_field(self):
        self.check_never_complete([], data(1, b"abc"), headers(1, [("transfer-encoding", "chunked")]))

    def test_trailers_with_line_breaks(self):
        self.check_never_complete([], data(1, b"abc"), headers(1, [("x", "a\r\n\r\nGET /attack HTTP/1.1")]))

    def test_a_body_that_is_cut_off(self):
        backend = self.backend(lambda request: request.answer(b"complete"))
        daemon = self.start_daemon(backend)
        with Wire.connect(daemon.address).open() as wire:
            wire.send(headers(1, request_fields("POST", "/attack"), end=False), data(1, b"abc"))
            wait_until(backend.connections, what="the request at the backend")
            wire.send(rst_stream(1))
            self.assertEqual(daemon.wait_access(1)[0]["reason"], "client_gone")
        daemon.wait_at_rest()
        wait_until(lambda: backend.connections() == 0, what="the end at the backend")
        self.assertEqual(backend.exchanges, [])


class Framing(Attacked):
    """Frames that violate the protocol: the connection closes with the right error code."""

    def check(self, frames, *codes, opened=False):
        self.target()
        wire = self.wire()
        if opened:
            wire.ask(1, "POST", "/attack", end=False)
        wire.send(*frames)
        transcript = wire.until_closed(5)
        self.check_ended(transcript, *codes)

    def test_an_invalid_preface(self):
        self.target()
        with Stream.connect(self.daemon_.address) as stream:
            stream.send(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + settings())
            began = time.monotonic()
            stream.wait_closed(5)
            self.assert_within(time.monotonic() - began, 1)

    def test_another_frame_before_the_settings(self):
        self.target()
        wire = Wire.connect(self.daemon_.address)
        self.addCleanup(wire.close)
        wire.send(PREFACE, ping())
        self.check_ended(wire.until_closed(5), PROTOCOL_ERROR)

    def test_settings_of_a_wrong_length(self):
        self.check([frame(SETTINGS, 0, 0, b"\0" * 5)], FRAME_SIZE_ERROR)

    def test_settings_of_a_stream(self):
        self.check([frame(SETTINGS, 0, 1)], PROTOCOL_ERROR)

    def test_a_window_that_is_too_large(self):
        self.check([settings({INITIAL_WINDOW_SIZE: 1 << 31})], FLOW_CONTROL_ERROR)

    def test_a_frame_size_that_is_too_small(self):
        self.check([settings({http2.MAX_FRAME_SIZE: 100})], PROTOCOL_ERROR)

    def test_a_ping_of_a_wrong_length(self):
        self.check([ping(b"\0" * 7)], FRAME_SIZE_ERROR)

    def test_a_ping_of_a_stream(self):
        self.check([frame(http2.PING, 0, 1, b"\0" * 8)], PROTOCOL_ERROR)

    def test_data_of_an_idle_stream(self):
        self.check([data(5, b"abc")], PROTOCOL_ERROR)

    def test_a_reset_of_an_idle_stream(self):
        self.check([rst_stream(5)], PROTOCOL_ERROR)

    def test_an_even_stream(self):
        self.check([headers(2, request_fields())], PROTOCOL_ERROR)

    def test_a_lower_stream(self):
        self.check([headers(5, request_fields()), headers(3, request_fields())], PROTOCOL_ERROR)

    def test_a_frame_that_is_too_large(self):
        self.check([data(1, b"x" * 16385)], FRAME_SIZE_ERROR, opened=True)

    def test_a_connection_window_that_overflows(self):
        self.check([window_update(0, MAX_WINDOW)], FLOW_CONTROL_ERROR)

    def test_an_empty_connection_window_update(self):
        self.check([window_update(0, 0)], PROTOCOL_ERROR)

    def test_settings_that_overflow_a_stream_window(self):
        self.check([window_update(1, MAX_WINDOW - 65535), settings({INITIAL_WINDOW_SIZE: 70_000})],
                   FLOW_CONTROL_ERROR, opened=True)

    def test_a_continuation_of_nothing(self):
        self.check([frame(CONTINUATION, END_HEADERS, 1)], PROTOCOL_ERROR)

    def test_a_block_that_is_interrupted(self):
        self.check([headers(3, request_fields(), flags=0), ping()], PROTOCOL_ERROR)

    def test_a_block_continued_on_another_stream(self):
        self.check([headers(3, request_fields(), flags=0), frame(CONTINUATION, END_HEADERS, 5)], PROTOCOL_ERROR)

    def test_a_push_from_a_client(self):
        self.check([frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack("!I", 2) + literal(request_fields()))],
                   PROTOCOL_ERROR, opened=True)

    def test_more_data_than_the_windows(self):
        """The backend reads nothing, so the window stays closed."""
        self.target()
        wire = self.wire()
        wire.ask(1, "POST", "/held", end=False)
        with self.undisturbed():
            transcript = self.flood(wire, (data(1, b"x" * 16384) for _ in range(300)), within=1)
        self.assertEqual(transcript.resets.get(1, transcript.goaway), FLOW_CONTROL_ERROR, transcript)

    def test_padding_that_is_longer_than_its_frame(self):
        self.check([frame(DATA, http2.PADDED, 1, b"\xff" + b"x" * 10)], PROTOCOL_ERROR, opened=True)


class Goaways(Attacked):
    def test_requests_before_a_client_goaway_are_answered(self):
        go = threading.Event()

        def script(request):
            go.wait(PATIENCE)
            request.answer(b"still here")

        daemon = self.start_daemon(self.backend(script))
        with Wire.connect(daemon.address).open() as wire:
            wire.ask(1)
            wire.send(goaway(0, NO_ERROR), ping(b"still me"))
            wire.until(lambda transcript: transcript.counts[http2.PING])
            go.set()
            self.assertEqual(wire.answer_to(1).body, b"still here")

    def test_a_drain_closes_in_two_steps_and_answers_accepted_requests(self):
        go = threading.Event()

        def script(request):
            if request.target == "/slow":
                go.wait(PATIENCE)
            request.answer(b"still here")

        backend = self.backend(script)
        daemon = self.start_daemon(backend)
        with Wire.connect(daemon.address).open() as wire:
            wire.ask(1, path="/slow")
            wait_until(lambda: backend.exchanges, what="the request at the backend")
            daemon.signal(signal.SIGTERM)
            wire.until(lambda transcript: transcript.goaway is not None)
            self.assertEqual((wire.transcript.goaway, wire.transcript.goaway_frame.last_stream()), (NO_ERROR, MAX_WINDOW))
            wire.send(headers(3, request_fields(path="/crossing")))  # it was already on its way
            # With a PING the daemon learns that the first GOAWAY has arrived.
            while wire.transcript.counts[GOAWAY] < 2:
                received = wire.take()
                if received.kind == http2.PING and not received.flags & http2.ACK:
                    wire.send(ping(received.payload, ack=True))
            self.assertEqual(wire.transcript.goaway_frame.last_stream(), 3)
            wire.send(headers(5, request_fields(path="/late")), ping(b"is there"))
            wire.until(lambda transcript: any(each.kind == http2.PING and each.flags & http2.ACK for each in transcript.frames))
            go.set()
            self.assertEqual(wire.answer_to(1).body, b"still here")
            self.assertEqual(wire.answer_to(3).body, b"still here")
            transcript = wire.until_closed()
            self.assertNotIn(5, transcript.statuses)
        self.assertEqual(daemon.wait_exit(), 0)
        self.assertNotIn("/late", [each.target for each in backend.exchanges])

    def test_frames_after_a_goaway_for_abuse_change_nothing(self):
        self.target()
        wire = self.wire()
        wire.send(data(9, b"idle"))
        wire.until(lambda transcript: transcript.goaway is not None)
        with contextlib.suppress(OSError):
            wire.send(*(headers(each, request_fields(path="/attack")) for each in self.streams(100)))
        self.assertIsNotNone(wire.until_closed(5).closed)
        self.assertEqual(self.script.count, 0)


class Legitimate(Attacked):
    """Normal client behaviour that must not count as an attack."""

    def finish(self, peer):
        self.assertEqual(peer.exchange(path="/bystander").body, b"fine")
        self.assertIsNone(peer.goaway)
        self.assertEqual(peer.violations, [])

    def test_fifty_calls_a_second_cancelled_after_their_first_message(self):
        def script(request):
            request.begin_chunks()
            request.chunk(b"first")
            request.wait_disconnected()

        counting = Counting()
        daemon = self.start_daemon(self.backend(lambda request: script(request) if request.target == "/call" else counting(request)))
        with Peer.connect(daemon.address) as peer:
            began = time.monotonic()
            for number in range(250):
                call = peer.request("POST", "/call", body=b"{}")
                self.assertEqual(call.read_head().status, 200)
                call.reset(CANCEL)
                time.sleep(max(0.0, began + number / 50 - time.monotonic()))  # fifty a second
            self.finish(peer)

    def test_pings_that_measure_the_bandwidth(self):
        """gRPC sends several at once when much data arrives, then occasional ones."""
        daemon = self.target()
        with Peer.connect(daemon.address) as peer:
            peer.send(ping(b"measured") * 90)
            self.assertEqual(peer.exchange(path="/bystander").body, b"fine")
            began = time.monotonic()
            for number in range(24):
                peer.send(ping(b"measured"))
                time.sleep(max(0.0, began + number / 8 - time.monotonic()))
            self.finish(peer)

    def test_many_small_messages_both_ways(self):
        """Each message is a DATA frame, and the client sends two window updates for each one that it receives."""
        def echo(request):
            if request.target == "/bystander":
                return request.answer(b"fine")
            request.begin_chunks()
            for piece in request.pieces():
                request.chunk(piece)
            request.end_chunks()

        daemon = self.start_daemon(self.h2_backend(echo, reads_body=False), pool={"protocol": "h2"})
        message = b"\0\0\0\0\x0f" + b"m" * 15
        with Wire.connect(daemon.address).open() as wire:
            wire.ask(1, "POST", "/echo", end=False)
            received = 0
            for _ in range(3000):
                wire.send(data(1, message))
                while len(wire.transcript.bodies[1]) == received:
                    got = wire.take()
                    self.assertNotIn(got.kind, (GOAWAY, RST_STREAM), wire.transcript)
                    if got.kind == DATA and got.payload:
                        wire.send(window_update(0, len(got.payload)), window_update(1, len(got.payload)))
                received = len(wire.transcript.bodies[1])
            wire.send(data(1, b"", end=True))
            self.assertEqual(wire.answer_to(1).body, message * 3000)
            self.assertIsNone(wire.transcript.goaway)

    def test_a_window_update_for_every_4_kilobytes_of_large_responses(self):
        """As Go's client does when its user reads in small steps, for the connection and for the stream."""
        self.target()
        with Wire.connect(self.daemon_.address).open() as wire:
            for stream in self.streams(4):
                wire.ask(stream, path="/large")
                untold = 0
                while stream not in wire.transcript.ended:
                    got = wire.take()
                    self.assertNotIn(got.kind, (GOAWAY, RST_STREAM), wire.transcript)
                    untold += len(got.payload) if got.kind == DATA else 0
                    updates, untold = untold // 4096, untold % 4096
                    if updates:
                        wire.send((window_update(0, 4096) + window_update(stream, 4096)) * updates)
                self.assertEqual(len(wire.transcript.bodies.pop(stream)), 160 * 65536)

    def test_padding_is_returned_to_the_windows(self):
        """A padded upload makes progress, although most of it is padding."""
        self.target()
        with Wire.connect(self.daemon_.address).open() as wire:
            wire.ask(1, "POST", "/echo", end=False)
            windows = {0: 65535, 1: wire.their_settings().get(INITIAL_WINDOW_SIZE, 65535)}
            # The windows after the first SETTINGS.
            windows[0] += sum(int.from_bytes(each.payload, "big") for each in wire.transcript.frames
                              if each.kind == WINDOW_UPDATE and each.stream == 0)
            for _ in range(3000):
                while min(windows.values()) < 256:
                    got = wire.take()
                    self.assertNotIn(got.kind, (GOAWAY, RST_STREAM), wire.transcript)
                    if got.kind == WINDOW_UPDATE:
                        windows[got.stream] += int.from_bytes(got.payload, "big")
                windows = {each: left - 256 for each, left in windows.items()}
                wire.send(frame(DATA, http2.PADDED, 1, b"\xf0" + b"x" * 15 + b"\0" * 240))
            wire.send(data(1, end=True))
            self.assertEqual(wire.answer_to(1).body, b"fine")

    def test_thousands_of_calls_that_end_with_an_empty_frame(self):
        daemon = self.target()
        with Peer.connect(daemon.address) as peer:
            for first in range(0, 3000, 100):
                calls = []
                for _ in range(100):
                    call = peer.request("POST", "/call", body=b"message", end=False)
                    call.end()
                    calls.append(call)
                for call in calls:
                    self.assertEqual(call.read_response().status, 200, first)
            self.finish(peer)

    def test_early_responses_do_not_count_against_the_client(self):
        """Hundreds of responses before the end of the request, each followed by a reset of the rest."""
        daemon = self.start_daemon(self.backend(), routes=[{"match": {"path": "/bystander"}, "pool": "pool"}])
        with Peer.connect(daemon.address) as peer:
            for _ in range(300):
                self.assertEqual(peer.request("POST", "/nowhere", body=b"x" * 2000).read_response().status, 404)
            self.assertEqual(peer.exchange(path="/bystander").body, b"hello")
            self.assertIsNone(peer.goaway)


if __name__ == "__main__":
    case.main()
