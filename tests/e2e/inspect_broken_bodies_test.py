"""Bodies that break while they are read for what they ask of a model: each is one request's failure, not the daemon's."""

import time

import case
import http2
from ports import refusing_address
from stream import Stream

CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\n"
CHUNKED = CHAT + b"transfer-encoding: chunked\r\n\r\n"
INFER = b"POST /v2/models/m/infer HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
REPEATS = 5
QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
LIMITS = {"limits": {"body": "1KiB"}, "timeouts": {"body": "500ms"}}


class BrokenBodies(case.Case):
    def daemons(self):
        """Bodies are read for their pool, and for their route."""
        pool = {"name": "a", "backends": [refusing_address()], **QUIET}
        yield self.daemon({"pools": [{**pool, "inspect": True}], "listeners": [LIMITS]})
        yield self.daemon({"pools": [pool], "routes": [{"match": {"model": "m"}, "pool": "a"}], "listeners": [LIMITS]})

    def check_alive(self, daemon, errors):
        self.assertEqual(len(daemon.wait_access(errors)), errors)
        self.eventually(lambda: daemon.metric("evenkeel_replay_bytes") == 0, "nothing held")
        self.assertIsNone(daemon.process.poll())

    def check_answers(self, status, *parts):
        """Each part is a segment of its own."""
        for daemon in self.daemons():
            for _ in range(REPEATS):
                with Stream.connect(daemon.address) as stream:
                    stream.send(parts[0])
                    for part in parts[1:]:
                        time.sleep(0.05)  # most often it comes alone then; either way the answer is the same
                        stream.send(part)
                    self.assertEqual(stream.read_response("POST").status, status)
            self.check_alive(daemon, REPEATS)

    def test_a_size_of_a_chunk_that_is_none(self):
        self.check_answers(400, CHUNKED + b"zz\r\n")

    def test_a_later_one(self):
        self.check_answers(400, CHUNKED + b'5\r\n{"a":\r\n', b"zz\r\n")

    def test_in_a_body_of_kserve(self):
        self.check_answers(400, INFER + b"zz\r\n")

    def test_a_size_of_17_digits(self):
        self.check_answers(400, CHUNKED + b"1" * 17 + b"\r\n")

    def test_a_chunk_without_its_end(self):
        self.check_answers(400, CHUNKED + b"1\r\n{zz\r\n")

    def test_a_body_over_the_limit(self):
        self.check_answers(413, CHUNKED + b"800\r\n" + b" " * 0x800)

    def test_a_body_that_does_not_come(self):
        self.check_answers(408, CHAT + b'content-length: 50\r\n\r\n{"a":')

    def test_a_client_that_leaves_with_its_head(self):
        for daemon in self.daemons():
            for _ in range(10 * REPEATS):
                with Stream.connect(daemon.address) as stream:
                    stream.send(CHAT + b"content-length: 100\r\n\r\n{")
            self.check_alive(daemon, 10 * REPEATS)

    def test_over_http2(self):
        fields = http2.request_fields("POST", "/v1/chat/completions", [("content-type", "application/json")])
        begun, whole = http2.data(1, b'{"model"'), http2.data(1, b'{"model":1234}', end=True)
        for daemon in self.daemons():
            for length, body, answers in ((None, [begun, http2.rst_stream(1)], False),
                                          (None, [http2.data(1, b" " * 3000)], True),
                                          ("5", [whole], True),
                                          ("500", [whole], True),
                                          (None, [begun], True)):  # after timeouts.body
                with self.subTest(length=length, body=body), http2.Wire.connect(daemon.address).open() as wire:
                    sent = [*fields, ("content-length", length)] if length else fields
                    wire.send(http2.headers(1, sent, end=False), *body)
                    if answers:
                        wire.until(lambda transcript: 1 in transcript.heads or 1 in transcript.resets)
            self.check_alive(daemon, 5)


if __name__ == "__main__":
    case.main()
