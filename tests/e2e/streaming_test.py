"""Every token is relayed at once, in both directions at the same time, and nothing accumulates."""

import hashlib
import os
import statistics
import threading
import time

import case
from process import SANITIZED
from stream import Stream, exchange

TOKENS = 30
PACE = 0.05
MEGABYTE = 1024 * 1024


def tokens_with_their_time(ask):
    """A script that sends a chunk every 50 ms, each with the time at which it was sent."""
    ask.begin_chunks([("Content-Type", "text/event-stream")])
    for _ in range(TOKENS):
        time.sleep(PACE)  # the pace of the model, part of the scenario
        ask.chunk(b"data: %.6f\n\n" % time.monotonic())
    ask.end_chunks()


def relay_delays(address):
    """Seconds from the sending of each token to its arrival."""
    delays = []
    with Stream.connect(address) as stream:
        stream.ask("POST", "/v1/chat/completions", body=b"{}")
        head = stream.read_head()
        while payload := stream.read_chunk(head):
            arrived = time.monotonic()
            events = payload.decode().split("\n\n")
            assert events[1:] == [""], f"tokens were merged or split: {payload!r}"
            delays.append(arrived - float(events[0].removeprefix("data: ")))
    return delays


class Streaming(case.Case):
    def test_a_token_every_50_ms_arrives_alone_and_within_5_ms(self):
        backend = self.backend(tokens_with_their_time)
        daemon = self.start_daemon(backend)

        direct = self.spawn(lambda: relay_delays(backend.address))
        relayed = relay_delays(daemon.address)
        unrelayed = direct.join()

        self.assertEqual(len(relayed), TOKENS)
        ours = statistics.median(relayed) - statistics.median(unrelayed)
        self.assert_within(ours, 0.005 if not SANITIZED else 0.05)
        # No token waits for the next one, not even once.
        self.assert_within(max(relayed) - max(unrelayed), PACE if not SANITIZED else 10 * PACE)

    def test_the_head_of_an_answer_does_not_wait_for_its_first_token(self):
        go = threading.Event()

        def script(ask):
            ask.begin_chunks()
            go.wait(10)
            ask.chunk(b"late")
            ask.end_chunks()

        daemon = self.start_daemon(self.backend(script))
        with Stream.connect(daemon.address) as stream:
            stream.ask("POST", "/", body=b"{}")
            head = stream.read_head()
            self.assertEqual(head.status, 200)
            go.set()
            self.assertEqual(stream.read_body(head).body, b"late")

    def test_a_chunked_request_and_its_answer_stream_at_the_same_time(self):
        def echo_each_chunk(ask):
            ask.begin_chunks()
            while piece := ask.stream.read_chunk(ask.head):
                ask.chunk(piece)
            ask.end_chunks()

        backend = self.backend(echo_each_chunk, reads_body=False)
        daemon = self.start_daemon(backend)
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
            head = None
            for number in range(20):  # each echo is read before the next chunk is sent
                word = b"piece %d" % number
                stream.send(b"%x\r\n%s\r\n" % (len(word), word))
                head = head or stream.read_head()
                self.assertEqual(stream.read_chunk(head), word)
            stream.send(b"0\r\n\r\n")
            self.assertEqual(stream.read_chunk(head), b"")

    def test_a_request_with_a_length_and_its_answer_stream_at_the_same_time(self):
        def echo(ask):
            left = ask.head.length()
            ask.begin_chunks()
            while left > 0:
                piece = ask.stream.read_some()
                left -= len(piece)
                ask.chunk(piece)
            ask.end_chunks()

        daemon = self.start_daemon(self.backend(echo, reads_body=False))
        with Stream.connect(daemon.address) as stream:
            stream.send(b"PUT /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 200\r\n\r\n")
            head = None
            for number in range(20):
                word = b"piece %04d" % number
                stream.send(word)
                head = head or stream.read_head()
                self.assertEqual(stream.read_chunk(head), word)
            self.assertEqual(stream.read_chunk(head), b"")

    def check_50_megabytes(self, framing, frame, end, echo):
        """Up and down at the same time, through memory that does not grow."""
        daemon = self.start_daemon(self.backend(echo, reads_body=False),
                                  listeners=[{"name": "public", "limits": {"body": "1GiB"}}])
        block = os.urandom(MEGABYTE)
        count = 8 if SANITIZED else 50
        received = hashlib.sha256()
        total, least, most = 0, None, 0

        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST /echo HTTP/1.1\r\nHost: test\r\n" + framing(count * MEGABYTE))

            def upload():
                for _ in range(count):
                    stream.send(frame(block))
                stream.send(end)

            uploading = self.spawn(upload)
            head = stream.read_head()
            while total < count * MEGABYTE:
                piece = stream.read_chunk(head) if head.chunked() else stream.read_some()
                received.update(piece)
                megabytes = total // MEGABYTE
                total += len(piece)
                if total // MEGABYTE > megabytes:
                    most = max(most, daemon.resident_bytes())
                    least = least or most
            uploading.join()

        self.assertEqual(total, count * MEGABYTE)
        self.assertEqual(received.digest(), hashlib.sha256(block * count).digest())
        if not SANITIZED:
            self.assertLess(most - least, 2 * MEGABYTE)

    def test_50_megabytes_with_a_length_pass_both_ways_in_flat_memory(self):
        def echo(ask):
            left = ask.head.length()
            ask.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % left)
            while left > 0:
                piece = ask.stream.read_some()
                left -= len(piece)
                ask.send(piece)

        self.check_50_megabytes(lambda size: b"Content-Length: %d\r\n\r\n" % size,
                                frame=lambda block: block, end=b"", echo=echo)

    def test_50_megabytes_in_chunks_pass_both_ways_in_flat_memory(self):
        def echo(ask):
            ask.begin_chunks()
            while piece := ask.stream.read_chunk(ask.head):
                ask.chunk(piece)
            ask.end_chunks()

        self.check_50_megabytes(lambda size: b"Transfer-Encoding: chunked\r\n\r\n",
                                frame=lambda block: b"%x\r\n%s\r\n" % (len(block), block),
                                end=b"0\r\n\r\n", echo=echo)

    def test_a_client_that_reads_nothing_stops_its_backend_and_no_other(self):
        """Backpressure: data that the client does not read is not read from the backend either."""
        written = [0]
        stuck = threading.Event()

        def flood(ask):
            if ask.target == "/small":
                return ask.answer(b"small")
            ask.stream.socket.settimeout(1.0)
            ask.begin_chunks()
            try:
                while written[0] < 200 * MEGABYTE:
                    ask.chunk(b"x" * 65536)
                    written[0] += 65536
            except TimeoutError:
                stuck.set()
                raise

        backend = self.backend(flood)
        daemon = self.start_daemon(backend)
        before = daemon.resident_bytes()
        with Stream.connect(daemon.address, receive_buffer=65536) as stream:
            stream.ask("GET", "/flood")
            stream.read_head()
            self.assertTrue(stuck.wait(20), "the backend must be blocked")
            # The kernel's buffers of both connections, and our 64 KiB.
            self.assertLess(written[0], 30 * MEGABYTE)
            if not SANITIZED:
                self.assertLess(daemon.resident_bytes() - before, 2 * MEGABYTE)
            self.assertEqual(exchange(daemon.address, target="/small").body, b"small")


if __name__ == "__main__":
    case.main()
