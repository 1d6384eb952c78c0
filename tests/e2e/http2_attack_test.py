"""What is done to HTTP/2 servers on purpose: each attack gets its answer, costs a bounded amount of
work and memory, reaches the backend a bounded number of times, and disturbs nobody else."""

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
STREAMS = 128  # what the daemon allows at once
BURST = 1100  # requests that a rapid reset may get through
RESETS = 100  # that the daemon sends on one connection in 10 s before it has had enough
SLOWEST = 1.0 if not SANITIZED else 10.0  # seconds, for the bystander


class Counting:
    """A script that counts; `/attack` is never answered, `/held` not even read, `/large` answered at
    length, the rest at once."""

    def __init__(self):
        self.count = 0
        self.gone = 0
        self.open = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, ask):
        if ask.target == "/bystander":
            return ask.answer(b"fine")
        with self._lock:
            self.count += 1
        if ask.target == "/attack":
            ask.wait_disconnected()
            with self._lock:
                self.gone += 1
        elif ask.target == "/held":
            self.open.wait(PATIENCE)
        elif ask.target == "/large":
            ask.begin_chunks()
            for _ in range(160):
                ask.chunk(b"x" * 65536)
            ask.end_chunks()
        else:
            ask.read_body()
            ask.answer(b"fine")


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
        """Another client, on a connection of its own, is served all the time, and nothing piles up."""
        daemon = self.daemon_
        stop = threading.Event()
        served = []
        before = daemon.resident_bytes()
        most = [before]

        def ask_and_ask():
            with Peer.connect(daemon.address) as peer:
                while not stop.is_set() or len(served) < 3:
                    began = time.monotonic()
                    answer = peer.exchange(path="/bystander")
                    assert (answer.status, answer.body) == (200, b"fine"), answer.status
                    served.append(time.monotonic() - began)
                    most[0] = max(most[0], daemon.resident_bytes())
                    stop.wait(0.01)
                assert not peer.violations, peer.violations

        bystander = self.spawn(ask_and_ask)
        try:
            yield
        finally:
            stop.set()
            bystander.join()
        self.assertLess(max(served), SLOWEST)
        if not SANITIZED:
            self.assertLess(most[0] - before, memory)

    def flood(self, wire, frames, drained=True, within=5):
        """Sends until the daemon has had enough, or there is no more; what it said."""
        reading = self.spawn(lambda: wire.until_closed(within)) if drained else None
        try:
            for each in frames:
                if wire.told.goaway is not None or wire.told.closed:
                    break
                wire.stream.send(each)
        except OSError:
            pass
        return reading.join() if drained else wire.until_closed(5)

    def check_ended(self, told, *codes):
        """The connection was ended; with one of these codes, if any is named."""
        self.assertIsNotNone(told.closed, f"the daemon bears it; {told}")
        if codes:
            self.assertIsNotNone(told.goaway, f"no GOAWAY; {told}")
            self.assertIn(http2.said(told.goaway), [http2.said(code) for code in codes], told)

    def check_calmed(self, told):
        """The connection was ended for what was done to it, whatever that is called."""
        self.check_ended(told)
        self.assertNotIn(told.goaway, (None, NO_ERROR), told)

    def streams(self, count):
        return range(1, 2 * count, 2)


class Resets(Attacked):
    def test_a_rapid_reset_is_calmed(self):
        self.target()
        wire = self.wire()
        fields = request_fields(path="/attack")
        with self.undisturbed():
            told = self.flood(wire, (b"".join(headers(each, fields) + rst_stream(each)
                                              for each in range(first, first + 100, 2))
                                     for first in range(1, 40_000, 100)))
        self.check_ended(told, ENHANCE_YOUR_CALM)
        self.assertLessEqual(self.script.count, BURST)
        self.daemon_.wait_at_rest()

    def check_made_to_reset(self, provoke, fields=(), method="GET", end=True):
        """After each request comes something to which the answer is a reset. The daemon may take it for
        the end of the connection at once; it may not do it for ever."""
        self.target()
        wire = self.wire()
        head = request_fields(method, "/attack", fields)
        with self.undisturbed():
            told = self.flood(wire, (headers(each, head, end) + provoke(each) for each in self.streams(4000)))
        self.check_calmed(told)
        self.assertLessEqual(len(told.resets), RESETS + STREAMS)
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

    def test_made_you_reset_by_a_length_that_is_not_kept(self):
        self.check_made_to_reset(lambda each: data(each, b"abc", end=True),
                                 method="POST", fields=[("content-length", "5")], end=False)

    def test_made_you_reset_by_more_than_the_length(self):
        self.check_made_to_reset(lambda each: data(each, b"abcdefg"),
                                 method="POST", fields=[("content-length", "5")], end=False)

    def test_made_you_reset_by_bad_trailers(self):
        self.check_made_to_reset(lambda each: headers(each, [(":path", "/other")]),
                                 method="POST", end=False)

    def test_made_you_reset_by_trailers_that_end_nothing(self):
        self.check_made_to_reset(lambda each: headers(each, [("x-sum", "1")], end=False),
                                 method="POST", end=False)

    def test_made_you_reset_by_malformed_requests(self):
        self.target()
        wire = self.wire()
        with self.undisturbed():
            told = self.flood(wire, (headers(each, request_fields(fields=[("Upper", "1")]))
                                     for each in self.streams(4000)))
        self.check_calmed(told)
        self.assertLessEqual(len(told.resets), RESETS + STREAMS)
        self.assertEqual(self.script.count, 0)

    def test_streams_over_the_limit_are_refused_as_long_as_it_may_not_be_known(self):
        """Clients may ask before they have read our SETTINGS; what is too much they may ask again."""
        self.target()
        wire = Wire.connect(self.daemon_.address)
        self.addCleanup(wire.close)
        asked = [*self.streams(STREAMS + 50)]
        fields = request_fields("POST", "/attack", [("content-length", "3")])
        with self.undisturbed():
            wire.send(PREFACE, settings(), *(headers(each, fields, end=False) + data(each, b"abc", end=True)
                                             for each in asked))
            told = wire.until(lambda told: len(told.resets) == 50 or told.goaway is not None)
            self.assertIsNone(told.goaway, told)
            self.assertEqual(set(told.resets.values()), {REFUSED_STREAM})
            self.assertEqual(sorted(told.resets), asked[STREAMS:])
            wait_until(lambda: self.script.count == STREAMS, what="the requests at the backend")
            wire.send(settings(ack=True), *(rst_stream(each) for each in asked[:STREAMS]))
            wire.ask(asked[-1] + 2, path="/bystander")
            self.assertEqual(wire.answer_to(asked[-1] + 2).body, b"fine")
        self.daemon_.wait_at_rest()

    def test_streams_over_a_limit_that_is_known_are_never_dispatched(self):
        """Refused, or the end of one who does not keep to what was agreed."""
        self.target()
        wire = self.wire()
        self.assertEqual(wire.their_settings()[MAX_CONCURRENT_STREAMS], STREAMS)
        head = request_fields("POST", "/attack")
        with self.undisturbed():
            wire.send(*(headers(each, head, end=False) for each in self.streams(STREAMS)))
            wait_until(lambda: self.script.count == STREAMS, what="the requests at the backend")
            told = self.flood(wire, (headers(each, head, end=False)
                                     for each in range(2 * STREAMS + 1, 2 * STREAMS + 4000, 2)))
        self.check_calmed(told)
        self.assertEqual(self.script.count, STREAMS)
        self.daemon_.wait_at_rest()


class Floods(Attacked):
    """Frames that cost the sender nothing."""

    def check_flood(self, chunk, *codes, count=400, drained=True, opened=None, values=None):
        """`chunk`: many frames; they come `count` times."""
        self.target()
        wire = self.wire(values)
        if opened:
            wire.send(opened)
        with self.undisturbed():
            told = self.flood(wire, (chunk for _ in range(count)), drained)
        self.check_ended(told, *codes)
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
            told = self.flood(wire, (settings({INITIAL_WINDOW_SIZE: 1 + size % 2}) * 50 for size in range(800)))
        self.check_ended(told, ENHANCE_YOUR_CALM)

    def test_a_settings_frame_of_many_entries(self):
        many = frame(SETTINGS, 0, 0, struct.pack("!HI", INITIAL_WINDOW_SIZE, 65535) * 2000)
        self.check_flood(many, ENHANCE_YOUR_CALM, count=1)

    def test_priorities(self):
        self.check_flood(frame(PRIORITY, 0, 1, struct.pack("!IB", 3, 16)) * 200, ENHANCE_YOUR_CALM)

    def test_priorities_of_many_idle_streams(self):
        self.target()
        wire = self.wire()
        with self.undisturbed():
            told = self.flood(wire, (b"".join(frame(PRIORITY, 0, each, struct.pack("!IB", 0, 16))
                                              for each in range(first, first + 400, 2))
                                     for first in range(1, 100_000, 400)))
        self.check_ended(told, ENHANCE_YOUR_CALM)

    def test_frames_of_an_unknown_type(self):
        self.check_flood(frame(0xbe, 0, 0, b"grease") * 200, ENHANCE_YOUR_CALM)

    def test_updates_of_priorities(self):
        self.check_flood(frame(0x10, 0, 0, struct.pack("!I", 1) + b"u=1") * 200, ENHANCE_YOUR_CALM)

    def test_updates_of_the_connections_window_by_one(self):
        self.check_flood(window_update(0, 1) * 200, ENHANCE_YOUR_CALM)

    def test_updates_of_a_streams_window_by_one(self):
        self.check_flood(window_update(1, 1) * 200, ENHANCE_YOUR_CALM,
                         opened=headers(1, request_fields("POST", "/attack"), end=False))

    def test_empty_data(self):
        self.check_flood(data(1) * 200, ENHANCE_YOUR_CALM,
                         opened=headers(1, request_fields("POST", "/attack"), end=False))

    def test_data_of_nothing_but_padding(self):
        """It costs the sender what a body costs. It must fit the windows, as a body must."""
        self.target()
        wire = self.wire()
        with self.undisturbed():
            told = self.flood(wire, [headers(1, request_fields("POST", "/attack"), end=False),
                                     *(frame(DATA, http2.PADDED, 1, b"\xff" + b"\0" * 255) * 100 for _ in range(400))],
                              within=1)
        if told.closed is None:
            self.assertEqual(told.resets.get(1, FLOW_CONTROL_ERROR), FLOW_CONTROL_ERROR)
            wire.ask(3, path="/bystander")
            self.assertEqual(wire.answer_to(3).body, b"fine")

    def test_resets_of_streams_that_are_long_closed(self):
        self.check_flood(rst_stream(1) * 200, ENHANCE_YOUR_CALM, STREAM_CLOSED, PROTOCOL_ERROR,
                         opened=headers(1, request_fields("GET", "/attack")) + rst_stream(1))

    def test_continuations(self):
        self.target()
        wire = self.wire()
        with self.undisturbed():
            told = self.flood(wire, [headers(1, request_fields(path="/attack"), flags=0),
                                     *(frame(CONTINUATION, 0, 1, literal([("x", "y" * 100)])) for _ in range(20_000))])
        self.check_ended(told)
        self.assertEqual(self.script.count, 0)

    def test_empty_continuations(self):
        self.target()
        wire = self.wire()
        with self.undisturbed():
            told = self.flood(wire, [headers(1, request_fields(path="/attack"), flags=0),
                                     *(frame(CONTINUATION, 0, 1) * 100 for _ in range(1000))])
        self.check_ended(told)
        self.assertEqual(self.script.count, 0)

    def test_goaways(self):
        self.check_flood(goaway(0, NO_ERROR, b"x" * 100) * 100)


class Bombs(Attacked):
    """Little on the wire, much in memory."""

    def bomb(self, stream, repeated, count):
        """One field that goes into the table, then as many references to it as fit into a frame."""
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
                    told = wire.until(lambda told: told.goaway is not None or len(
                        set(told.resets) | set(told.ended)) == 10)
                except (Closed, ConnectionError):
                    told = wire.told
                for stream in told.statuses:
                    self.assertEqual(told.statuses[stream], 431, told)
                wire.close()
        self.assertEqual(self.script.count, 0)

    def test_a_large_field_a_thousand_times(self):
        self.check_bomb((b"x-bomb", b"x" * 4000))

    def test_crumbs_of_cookies(self):
        self.check_bomb((b"cookie", b"a=b"))

    def test_fields_that_are_almost_empty(self):
        self.check_bomb((b"x", b""))

    def test_after_a_bomb_the_connection_serves_on(self):
        """The table is kept, though nobody wanted the fields; or the connection ends, and says so."""
        self.target()
        wire = self.wire()
        wire.send(self.bomb(1, (b"x-bomb", b"x" * 50), 200))
        wire.until(lambda told: 1 in told.resets or 1 in told.ended)
        self.assertIn(wire.told.statuses.get(1, 431), [431])
        block = literal(request_fields(path="/bystander")) + b"\xbe"
        wire.send(frame(HEADERS, END_HEADERS | END_STREAM, 3, block))
        self.assertEqual(wire.answer_to(3).body, b"fine")
        self.assertEqual(self.script.count, 0)

    def check_too_large(self, fields, listener=None):
        self.target(listener)
        wire = self.wire()
        block = literal(request_fields(path="/attack", fields=fields))
        parts = [block[at:at + 16384] for at in range(0, len(block), 16384)]
        wire.send(*(frame(CONTINUATION if at else HEADERS, (0 if at else END_STREAM)
                          | (END_HEADERS if at == len(parts) - 1 else 0), 1, part) for at, part in enumerate(parts)))
        wire.until(lambda told: 1 in told.resets or 1 in told.ended)
        if 1 in wire.told.statuses:
            self.assertEqual(wire.told.statuses[1], 431)
            self.assertEqual(wire.told.heads[1].reason, "header_too_large")
        wire.ask(3, path="/bystander")
        self.assertEqual(wire.answer_to(3).body, b"fine")
        self.assertEqual(self.script.count, 0)

    def test_a_field_that_is_too_large(self):
        self.check_too_large([("x-large", "x" * 40_000)])

    def test_a_list_that_is_much_too_large(self):
        self.check_too_large([("x-large", "x" * 30_000)] * 3)

    def test_a_field_that_is_too_large_to_be_decoded(self):
        """Nothing can follow it: the table would not be the same on both sides."""
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

    def test_a_list_that_is_larger_than_the_listener_allows(self):
        self.check_too_large([("x-large", "x" * 3000)], {"limits": {"header": "2KiB"}})

    def test_a_table_that_must_not_grow(self):
        """A table size update over what we allowed is an error of compression."""
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
    """Answers that nobody takes, requests that never end."""

    def test_windows_that_never_open(self):
        """A hundred large answers wait for a window: nothing is read from the backend for them, and
        after the time that a client has for taking something they are given up."""
        self.target({"timeouts": {"write": "1s"}})
        wire = self.wire({INITIAL_WINDOW_SIZE: 0})
        with self.undisturbed(memory=16 * MEGABYTE):
            wire.send(*(headers(each, request_fields(path="/large")) for each in self.streams(100)))
            told = wire.until(lambda told: len(told.resets) == 100 or told.goaway is not None)
        self.assertLessEqual(set(told.resets.values()), {CANCEL, http2.INTERNAL_ERROR, ENHANCE_YOUR_CALM})
        self.assertEqual(sum(map(len, told.bodies.values())), 0)
        self.daemon_.wait_at_rest()

    def test_windows_that_open_a_byte_at_a_time(self):
        """It moves, so it lives; it costs no more than another."""
        self.target()
        wire = self.wire({INITIAL_WINDOW_SIZE: 0})
        with self.undisturbed():
            wire.send(headers(1, request_fields(path="/large")))
            for _ in range(100):
                before = len(wire.told.bodies[1])
                wire.send(window_update(1, 1))
                wire.until(lambda told, before=before: len(told.bodies[1]) == before + 1)
            wire.send(rst_stream(1))
            self.daemon_.wait_at_rest()

    def test_answers_that_are_never_read(self):
        """The windows are open, but the client reads nothing from its socket."""
        self.target({"timeouts": {"write": "1s"}})
        wire = self.wire({INITIAL_WINDOW_SIZE: MAX_WINDOW}, receive_buffer=65536)
        with self.undisturbed(memory=24 * MEGABYTE):
            wire.send(window_update(0, MAX_WINDOW - 65535),
                      *(headers(each, request_fields(path="/large")) for each in self.streams(100)))
            wait_until(lambda: self.script.count == 100, what="the requests at the backend")
            wait_until(self.daemon_.at_rest, what="their end")
        self.assertIsNotNone(wire.until_closed(5).closed)

    def test_one_that_takes_nothing_does_not_hold_its_neighbours(self):
        """On the same connection: a stream whose window is shut, and many that are served."""
        self.target()
        wire = self.wire({INITIAL_WINDOW_SIZE: 1000})
        wire.ask(1, path="/large")
        wire.until(lambda told: len(told.bodies[1]) == 1000)
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
                for each in rest:  # each in time, all of them too late
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
                self.assertLess(time.monotonic() - began, closed_within)
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
            wire.until(lambda told: 1 in told.resets or 1 in told.ended)
            self.assertEqual(wire.told.statuses.get(1, 408), 408)
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
            told = wire.until_closed(15)
        self.check_ended(told, SETTINGS_TIMEOUT)
        self.assertGreater(time.monotonic() - began, 8)

    def test_a_connection_without_a_request(self):
        self.target({"timeouts": {"idle": "500ms"}})
        wire = self.wire()
        self.check_ended(wire.until_closed(5), NO_ERROR)

    def test_a_connection_that_has_had_its_last_request(self):
        self.target({"timeouts": {"idle": "500ms"}})
        wire = self.wire()
        wire.ask(1, path="/bystander")
        self.assertEqual(wire.answer_to(1).body, b"fine")
        self.check_ended(wire.until_closed(5), NO_ERROR)


class Malformed(Attacked):
    """Requests that must reach nobody."""

    def check_refused(self, cases, statuses=(400,)):
        self.target()
        wire = self.wire()
        stream = 1
        for name, block, more in cases:
            before = self.script.count
            with self.subTest(name):
                if wire.told.goaway is not None or stream > 150:
                    wire.close()  # they are counted, and not borne for ever
                    wire, stream = self.wire(), 1
                wire.stream.socket.settimeout(5)
                wire.send(block(stream), *(each(stream) for each in more))
                try:
                    wire.until(lambda told, stream=stream: stream in told.resets or stream in told.ended
                               or told.goaway is not None)
                except Closed:
                    pass
                if stream in wire.told.statuses:
                    self.assertIn(wire.told.statuses[stream], statuses)
                elif wire.told.goaway is None:
                    self.assertIn(wire.told.resets.get(stream), [PROTOCOL_ERROR, REFUSED_STREAM])
                    wire.ask(stream + 2, path="/bystander")
                    self.assertEqual(wire.answer_to(stream + 2).body, b"fine", "its neighbour")
                else:
                    self.assertIn(wire.told.goaway, [PROTOCOL_ERROR, COMPRESSION_ERROR])
                self.assertEqual(self.script.count, before, "it has reached the backend")
            stream += 4

    def check_fields(self, *cases, statuses=(400,)):
        """Each: further fields of a request that is well otherwise."""
        self.check_refused([(repr(each), lambda stream, each=each: headers(
            stream, request_fields(path="/attack", fields=each)), []) for each in cases], statuses)

    def check_heads(self, *cases, statuses=(400,)):
        """Each: all fields of a request."""
        self.check_refused([(repr(each), lambda stream, each=each: headers(stream, each), []) for each in cases],
                           statuses)

    def test_names_that_are_none(self):
        self.check_fields(*([(name, "1")] for name in (
            "Upper", "x y", "x:y", "", "x\r\ny", "x\ny", "x\0y", "x\x7f", "x\x80", "x\t", " x", "x(", "x,y", "x\"",
            "x: 1\r\nx-smuggled")))

    def test_values_that_would_be_more_than_one(self):
        self.check_fields(*([("x-value", value)] for value in (
            "a\r\nx-smuggled: 1", "a\nb", "a\rb", "a\0b", "\r\n\r\nGET /attack HTTP/1.1\r\nhost: a\r\n\r\n",
            "a\x01b", "a\x7fb")))

    def test_values_with_space_around_them(self):
        self.check_fields(*([("x-value", value)] for value in (" a", "a ", "\ta", "a\t")))

    def test_fields_of_connections(self):
        self.check_fields(*([field] for field in (
            ("connection", "close"), ("connection", "x-value"), ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"), ("transfer-encoding", "chunked"), ("transfer-encoding", "identity"),
            ("upgrade", "websocket"), ("te", "gzip"), ("te", "trailers, gzip"))))

    def test_pseudo_fields_that_are_wrong(self):
        method, scheme, authority, path = request_fields(path="/attack")
        self.check_heads(
            [scheme, authority, path], [method, authority, path], [method, scheme, authority],
            [method, method, scheme, authority, path], [method, scheme, authority, path, path],
            [method, scheme, authority, ("x", "1"), path], [method, scheme, authority, path, (":unknown", "1")],
            [method, scheme, authority, path, (":status", "200")], [method, scheme, authority, path, (":protocol", "x")],
            [method, scheme, authority, authority, path], [method, scheme, scheme, authority, path], [])

    def test_paths_that_are_none(self):
        self.check_heads(*(request_fields(path=path) for path in (
            "", "attack", "/attack HTTP/1.1\r\nx: y", "/a b", "/a#b", "/a\r\nb", "/a\0b", "/a\tb", "*", "/a\x7f",
            "http://other/attack", "/../../attack", "/a\x80")), statuses=(400, 404))

    def test_methods_that_are_none(self):
        self.check_heads(*(request_fields(method, path="/attack") for method in (
            "", "GE T", "GET /attack HTTP/1.1\r\nhost: a\r\n\r\n", "G\0T", "GET\r\n", "G(T", "GET\x80")))

    def test_methods_that_we_do_not_serve(self):
        self.check_heads(request_fields("TRACE", path="/attack"),
                         [(":method", "CONNECT"), (":authority", "other:443")],
                         statuses=(400, 403, 405, 501))

    def test_schemes_that_are_none(self):
        self.check_heads(*(request_fields(path="/attack", scheme=scheme) for scheme in (
            "", "gopher", "http://other/", "ht tp", "http\r\nx: y", "http\0")))

    def test_authorities_that_are_none(self):
        method, scheme, _, path = request_fields(path="/attack")
        self.check_heads(*(request_fields(path="/attack", authority=authority) for authority in (
            "", "user@test", "te st", "test/attack", "test\r\nx: y", "test\0", "test:port", "test?x")),
            [method, scheme, path])

    def test_a_host_that_is_not_the_authority(self):
        self.check_fields([("host", "other")], [("host", "test"), ("host", "test")])

    def test_lengths_that_are_none(self):
        self.check_refused([(repr(each), lambda stream, each=each: headers(stream, request_fields(
            "POST", "/attack", each), end=False), [lambda stream: data(stream, b"abc", end=True)])
            for each in ([("content-length", length)] for length in (
                "abc", "-3", "+3", "3,3", "3 3", "0x3", "", "18446744073709551616", "3.0"))])

    def test_two_lengths(self):
        self.check_refused([("two", lambda stream: headers(stream, request_fields(
            "POST", "/attack", [("content-length", "3"), ("content-length", "4")]), end=False),
            [lambda stream: data(stream, b"abc", end=True)])])

    def test_a_length_without_a_body(self):
        self.check_fields([("content-length", "5")])

    def check_never_complete(self, fields, *frames):
        """The head may have reached the backend, but no whole request."""
        backend = self.backend(lambda ask: ask.answer(b"complete"))
        daemon = self.start_daemon(backend, pool={"keep_alive": {"idle": "100ms"}})
        with Wire.connect(daemon.address).open() as wire:
            wire.send(headers(1, request_fields("POST", "/attack", fields), end=False), *frames)
            wire.until(lambda told: told.goaway is not None or 1 in told.resets or 1 in told.ended)
            self.assertIn(wire.told.statuses.get(1, 400), [400])
        daemon.wait_at_rest()
        wait_until(lambda: backend.connections() == 0, what="the end at the backend")
        self.assertEqual(backend.exchanges, [])

    def test_less_than_the_length(self):
        self.check_never_complete([("content-length", "5")], data(1, b"abc", end=True))

    def test_less_than_the_length_in_two_parts(self):
        self.check_never_complete([("content-length", "5")], data(1, b"abc"), data(1, b"", end=True))

    def test_more_than_the_length(self):
        self.check_never_complete([("content-length", "5")], data(1, b"abcdefg", end=True))

    def test_trailers_before_the_length_is_reached(self):
        self.check_never_complete([("content-length", "5")], data(1, b"abc"), headers(1, [("x-sum", "1")]))

    def test_trailers_with_pseudo_fields(self):
        self.check_never_complete([], data(1, b"abc"), headers(1, [(":path", "/other")]))

    def test_trailers_with_a_field_of_connections(self):
        self.check_never_complete([], data(1, b"abc"), headers(1, [("transfer-encoding", "chunked")]))

    def test_trailers_that_inject(self):
        self.check_never_complete([], data(1, b"abc"), headers(1, [("x", "a\r\n\r\nGET /attack HTTP/1.1")]))

    def test_a_body_that_is_cut(self):
        backend = self.backend(lambda ask: ask.answer(b"complete"))
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
    """Frames that break a rule of the protocol: the connection ends, with the right word."""

    def check(self, frames, *codes, opened=False):
        self.target()
        wire = self.wire()
        if opened:
            wire.ask(1, "POST", "/attack", end=False)
        wire.send(*frames)
        told = wire.until_closed(5)
        self.check_ended(told, *codes)

    def test_what_is_no_preface(self):
        self.target()
        with Stream.connect(self.daemon_.address) as stream:
            stream.send(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + settings())
            began = time.monotonic()
            stream.wait_closed(5)
            self.assertLess(time.monotonic() - began, 1)

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

    def test_a_connections_window_that_overflows(self):
        self.check([window_update(0, MAX_WINDOW)], FLOW_CONTROL_ERROR)

    def test_an_empty_update_of_the_connections_window(self):
        self.check([window_update(0, 0)], PROTOCOL_ERROR)

    def test_settings_that_let_a_streams_window_overflow(self):
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
        """The backend reads nothing, so the window stays shut."""
        self.target()
        wire = self.wire()
        wire.ask(1, "POST", "/held", end=False)
        with self.undisturbed():
            told = self.flood(wire, (data(1, b"x" * 16384) for _ in range(300)), within=1)
        self.assertEqual(told.resets.get(1, told.goaway), FLOW_CONTROL_ERROR, told)

    def test_padding_that_is_longer_than_its_frame(self):
        self.check([frame(DATA, http2.PADDED, 1, b"\xff" + b"x" * 10)], PROTOCOL_ERROR, opened=True)


class Goaways(Attacked):
    def test_requests_before_a_client_goaway_are_answered(self):
        go = threading.Event()

        def script(ask):
            go.wait(PATIENCE)
            ask.answer(b"still here")

        daemon = self.start_daemon(self.backend(script))
        with Wire.connect(daemon.address).open() as wire:
            wire.ask(1)
            wire.send(goaway(0, NO_ERROR), ping(b"still me"))
            wire.until(lambda told: told.counts[http2.PING])
            go.set()
            self.assertEqual(wire.answer_to(1).body, b"still here")

    def test_the_daemon_leaves_in_two_steps_and_answers_what_it_took(self):
        go = threading.Event()

        def script(ask):
            if ask.target == "/slow":
                go.wait(PATIENCE)
            ask.answer(b"still here")

        backend = self.backend(script)
        daemon = self.start_daemon(backend)
        with Wire.connect(daemon.address).open() as wire:
            wire.ask(1, path="/slow")
            wait_until(lambda: backend.exchanges, what="the request at the backend")
            daemon.signal(signal.SIGTERM)
            wire.until(lambda told: told.goaway is not None)
            self.assertEqual((wire.told.goaway, wire.told.goaway_frame.last_stream()), (NO_ERROR, MAX_WINDOW))
            wire.send(headers(3, request_fields(path="/crossing")))  # it was on its way
            # A ping of the daemon's tells it that the first step has arrived.
            while wire.told.counts[GOAWAY] < 2:
                received = wire.take()
                if received.kind == http2.PING and not received.flags & http2.ACK:
                    wire.send(ping(received.payload, ack=True))
            self.assertEqual(wire.told.goaway_frame.last_stream(), 3)
            wire.send(headers(5, request_fields(path="/late")), ping(b"is there"))
            wire.until(lambda told: any(each.kind == http2.PING and each.flags & http2.ACK for each in told.frames))
            go.set()
            self.assertEqual(wire.answer_to(1).body, b"still here")
            self.assertEqual(wire.answer_to(3).body, b"still here")
            told = wire.until_closed()
            self.assertNotIn(5, told.statuses)
        self.assertEqual(daemon.wait_exit(), 0)
        self.assertNotIn("/late", [each.target for each in backend.exchanges])

    def test_frames_after_a_goaway_for_abuse_change_nothing(self):
        self.target()
        wire = self.wire()
        wire.send(data(9, b"idle"))
        wire.until(lambda told: told.goaway is not None)
        with contextlib.suppress(OSError):
            wire.send(*(headers(each, request_fields(path="/attack")) for each in self.streams(100)))
        self.assertIsNotNone(wire.until_closed(5).closed)
        self.assertEqual(self.script.count, 0)


class Legitimate(Attacked):
    """What honest clients do all day, and what must not be taken for an attack."""

    def finish(self, peer):
        self.assertEqual(peer.exchange(path="/bystander").body, b"fine")
        self.assertIsNone(peer.goaway)
        self.assertEqual(peer.violations, [])

    def test_calls_that_are_cancelled_after_their_first_answer_fifty_a_second(self):
        def script(ask):
            ask.begin_chunks()
            ask.chunk(b"first")
            ask.wait_disconnected()

        counting = Counting()
        daemon = self.start_daemon(self.backend(lambda ask: script(ask) if ask.target == "/call" else counting(ask)))
        with Peer.connect(daemon.address) as peer:
            began = time.monotonic()
            for number in range(250):
                call = peer.request("POST", "/call", body=b"{}")
                self.assertEqual(call.read_head().status, 200)
                call.reset(CANCEL)
                time.sleep(max(0.0, began + number / 50 - time.monotonic()))  # the pace that is asked about
            self.finish(peer)

    def test_pings_that_measure_the_bandwidth(self):
        """gRPC sends some at once when much arrives, then now and then."""
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
        """Each a DATA frame, and for each that arrives two window updates, as eager clients send them."""
        def echo(ask):
            if ask.target == "/bystander":
                return ask.answer(b"fine")
            ask.begin_chunks()
            for piece in ask.pieces():
                ask.chunk(piece)
            ask.end_chunks()

        daemon = self.start_daemon(self.h2_backend(echo, reads_body=False), pool={"protocol": "h2"})
        message = b"\0\0\0\0\x0f" + b"m" * 15
        with Wire.connect(daemon.address).open() as wire:
            wire.ask(1, "POST", "/echo", end=False)
            received = 0
            for _ in range(3000):
                wire.send(data(1, message))
                while len(wire.told.bodies[1]) == received:
                    got = wire.take()
                    self.assertNotIn(got.kind, (GOAWAY, RST_STREAM), wire.told)
                    if got.kind == DATA and got.payload:
                        wire.send(window_update(0, len(got.payload)), window_update(1, len(got.payload)))
                received = len(wire.told.bodies[1])
            wire.send(data(1, b"", end=True))
            self.assertEqual(wire.answer_to(1).body, message * 3000)
            self.assertIsNone(wire.told.goaway)

    def test_a_window_update_for_every_4_kilobytes_of_large_answers(self):
        """As Go's client does whose user reads in small steps, for the connection and for the stream."""
        self.target()
        with Wire.connect(self.daemon_.address).open() as wire:
            for stream in self.streams(4):
                wire.ask(stream, path="/large")
                untold = 0
                while stream not in wire.told.ended:
                    got = wire.take()
                    self.assertNotIn(got.kind, (GOAWAY, RST_STREAM), wire.told)
                    untold += len(got.payload) if got.kind == DATA else 0
                    updates, untold = untold // 4096, untold % 4096
                    if updates:
                        wire.send((window_update(0, 4096) + window_update(stream, 4096)) * updates)
                self.assertEqual(len(wire.told.bodies.pop(stream)), 160 * 65536)

    def test_padding_is_paid_back(self):
        """A padded upload moves on, though most of it is no body."""
        self.target()
        with Wire.connect(self.daemon_.address).open() as wire:
            wire.ask(1, "POST", "/echo", end=False)
            windows = {0: 65535, 1: wire.their_settings().get(INITIAL_WINDOW_SIZE, 65535)}
            # What came with the first SETTINGS.
            windows[0] += sum(int.from_bytes(each.payload, "big") for each in wire.told.frames
                              if each.kind == WINDOW_UPDATE and each.stream == 0)
            for _ in range(3000):
                while min(windows.values()) < 256:
                    got = wire.take()
                    self.assertNotIn(got.kind, (GOAWAY, RST_STREAM), wire.told)
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

    def test_requests_refused_by_us_do_not_count_against_their_client(self):
        """Hundreds of answers before the end of the request: the rest of each is not wanted."""
        daemon = self.start_daemon(self.backend(), routes=[{"match": {"path": "/bystander"}, "pool": "pool"}])
        with Peer.connect(daemon.address) as peer:
            for _ in range(300):
                self.assertEqual(peer.request("POST", "/nowhere", body=b"x" * 2000).read_response().status, 404)
            self.assertEqual(peer.exchange(path="/bystander").body, b"hello")
            self.assertIsNone(peer.goaway)


if __name__ == "__main__":
    case.main()
