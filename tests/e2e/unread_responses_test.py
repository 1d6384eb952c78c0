"""What the responses on one HTTP/2 connection hold while its client does not read them (`limits.response_buffer`)."""

import random
import threading
import time

import case
from http2 import INITIAL_WINDOW_SIZE, MAX_WINDOW, Peer, Wire, headers, request_fields, window_update
from process import SANITIZED
from stream import PATIENCE, exchange

MEGABYTE = 1 << 20
STREAMS = range(1, 2 * 128, 2)  # as many as a connection may have
SIZE = 300_000  # of each body
READ = 40_000  # of each body, before the client stops: so much that its response may get a share of the budget


def body_of(stream):
    return random.Random(stream).randbytes(SIZE)


class UnreadResponses(case.Case):
    def setUp(self):
        self.stopped = threading.Event()  # the client reads no more
        self.addCleanup(self.stopped.set)
        self.going_on = 0  # responses that go on although the client reads no more
        self.lock = threading.Lock()

    def respond(self, request):
        if request.target == "/quick":
            return request.answer(b"quick")
        body = body_of(int(request.target[1:]))
        request.begin_chunks()
        request.chunk(body[:READ])
        self.stopped.wait(PATIENCE)
        with self.lock:
            self.going_on += 1
        request.chunk(body[READ:])
        request.end_chunks()

    def hold(self, backend, window, read=READ, limits=None, **pool):
        """Opens all streams, reads `read` bytes or more of each, and stops. Returns a function that says how much more memory the
        daemon uses now, and the connection. `window`: of each stream."""
        daemon = self.start_daemon(backend, workers=1, pool=pool, listeners=[
            {"name": "public", **({"limits": limits} if limits else {})}])
        self.daemon_ = daemon
        self.serve_another()
        wire = Wire.connect(daemon.address, receive_buffer=65536)
        self.addCleanup(wire.close)
        wire.open({INITIAL_WINDOW_SIZE: window})
        before = daemon.resident_bytes()
        wire.send(window_update(0, MAX_WINDOW - 65535),
                  *(headers(each, request_fields(path=f"/{each}")) for each in STREAMS))
        wire.until(lambda transcript: len(transcript.heads) == len(STREAMS)
                   and all(len(transcript.bodies[each]) >= read for each in STREAMS))
        self.stopped.set()
        self.settle()
        return lambda: daemon.resident_bytes() - before, wire

    def serve_another(self):
        with Peer.connect(self.daemon_.address) as peer:
            self.assertEqual(peer.exchange(path="/quick").body, b"quick")

    def settle(self):
        """Waits until the daemon reads no more: it sleeps, and its memory stays the same."""
        self.eventually(lambda: self.going_on == len(STREAMS), "all responses to go on")
        seen = []

        def settled():
            self.daemon_.wait_asleep()
            seen.append(self.daemon_.resident_bytes())
            return len(seen) >= 10 and len(set(seen[-10:])) == 1

        self.eventually(settled, "the daemon to hold what it holds")

    def read_all(self, wire):
        """Every stream goes on as soon as its client reads, and each byte arrives."""
        self.serve_another()
        if any(len(body) < SIZE for body in wire.transcript.bodies.values()):
            wire.send(*(window_update(each, SIZE) for each in STREAMS))
        transcript = wire.until(lambda transcript: len(transcript.ended) + len(transcript.resets) == len(STREAMS))
        self.assertEqual(transcript.resets, {})
        for each in STREAMS:
            self.assertEqual(bytes(transcript.bodies[each]), body_of(each), each)

    def check(self, backend, window, most, read=READ, **pool):
        held, wire = self.hold(backend, window, read, **pool)
        if not SANITIZED:
            self.assertLess(held(), most)
        self.read_all(wire)

    def test_windows_that_stop_opening_hold_the_budget_and_little_more(self):
        self.check(self.backend(self.respond), READ, 7 * MEGABYTE)

    def test_a_socket_that_is_no_longer_read_holds_the_budget_and_little_more(self):
        self.check(self.backend(self.respond), MAX_WINDOW - SIZE, 7 * MEGABYTE)

    def test_windows_that_never_open_hold_a_small_block_each(self):
        self.check(self.backend(self.respond), 0, 5 * MEGABYTE, read=0)

    def test_windows_that_stop_opening_over_http2(self):
        self.check(self.h2_backend(self.respond), READ, 6 * MEGABYTE, protocol="h2")

    def test_a_socket_that_is_no_longer_read_over_http2(self):
        self.check(self.h2_backend(self.respond), MAX_WINDOW - SIZE, 6 * MEGABYTE, protocol="h2")

    def test_responses_over_http2_that_come_fast_and_then_slowly_arrive_whole(self):
        """Their windows are widened, made small again after 5 s, and go on opening."""
        body = random.Random(0).randbytes(1_200_000)

        def respond(request):
            request.begin_chunks()
            at = 0
            for size, pause in ((int(request.target[1:]), 6), (1, 0.3), (30_000, 0.3), (40_000, 0.3), (700_000, 0)):
                request.chunk(body[at:at + size])
                at += size
                time.sleep(pause)
            request.end_chunks()

        daemon = self.start_daemon(self.h2_backend(respond), pool={"protocol": "h2"}, workers=1)
        bursts = (16_384, 17_000, 30_000, 49_152, 65_536, 100_000, 150_001)
        clients = [self.spawn(lambda burst=burst: exchange(daemon.address, target=f"/{burst}").body) for burst in bursts]
        for burst, client in zip(bursts, clients):
            self.assertEqual(client.join(), body[:burst + 770_001], burst)

    @case.unittest.skipIf(SANITIZED, "a sanitizer's memory is not ours")
    def test_the_file_sets_the_budget(self):
        held, wire = self.hold(self.backend(self.respond), READ, limits={"response_buffer": "0B"})
        with_none = held()
        self.read_all(wire)

        self.stopped.clear()
        self.going_on = 0
        held, wire = self.hold(self.backend(self.respond), READ, limits={"response_buffer": "64MiB"})
        self.eventually(lambda: held() > with_none + 4 * MEGABYTE, "the responses to hold more")
        self.read_all(wire)


if __name__ == "__main__":
    case.main()
