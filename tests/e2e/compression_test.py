"""Responses that are compressed on their way to clients."""

import gzip
import json
import shutil
import subprocess
import threading
import unittest
import zlib

import case
import http2
from stream import Closed, Stream, exchange

try:
    import openai
except ImportError:
    openai = None

DOCUMENT = json.dumps({"object": "list", "data": [{"index": i, "embedding": [i / 7, i / 11, i / 13]} for i in range(2000)]}).encode()
JSON = ("content-type", "application/json")
GZIP = ("accept-encoding", "gzip")


class Compression(case.Case):
    def compressing(self, script, pool=None, **config):
        self.server = self.backend(script)
        return self.daemon({"pools": [{"name": "pool", "backends": [self.server.address], "health": {"check": "off"},
                                       **(pool or {})}],
                            "routes": [{"pool": "pool", "compression": {}}], **config})

    def answering(self, *fields, body=DOCUMENT, **config):
        return self.compressing(lambda request: request.answer(body, fields=fields or [JSON]), **config)

    def curl(self, daemon, *arguments):
        ended = subprocess.run(["curl", "-sS", "--max-time", "20", "-D", "/dev/stderr", *arguments,
                                f"http://{daemon.address}/v1/x"], capture_output=True, check=True)
        return ended.stderr.decode().lower(), ended.stdout

    def test_a_document_is_compressed_for_clients_that_accept_it(self):
        daemon = self.answering(JSON, ("etag", '"abc"'), ("accept-ranges", "bytes"))
        answer = exchange(daemon.address, fields=[GZIP])
        self.assertEqual(gzip.decompress(answer.body), DOCUMENT)
        self.assertLess(len(answer.body), len(DOCUMENT) // 2)
        self.assertEqual(answer.field("content-encoding"), "gzip")
        self.assertEqual(answer.field("vary"), "accept-encoding")
        self.assertEqual(answer.field("etag"), 'W/"abc"')
        self.assertIsNone(answer.length())
        self.assertIsNone(answer.field("accept-ranges"))
        self.assertEqual(daemon.wait_access(1)[0]["bytes_out"], len(answer.body), "as written to the client")

    def test_others_get_it_as_it_is_and_caches_learn_of_it(self):
        daemon = self.answering()
        for accepted in ([], [("accept-encoding", "br")], [("accept-encoding", "gzip;q=0")],
                         [("accept-encoding", "gzip;q=0.5, identity")]):
            answer = exchange(daemon.address, fields=accepted)
            self.assertEqual((answer.body, answer.field("content-encoding"), answer.length()),
                             (DOCUMENT, None, len(DOCUMENT)), accepted)
            self.assertEqual(answer.field("vary"), "accept-encoding")
        head = exchange(daemon.address, method="HEAD", fields=[GZIP])
        self.assertEqual((head.field("content-encoding"), head.field("vary")), (None, "accept-encoding"))

    @unittest.skipUnless(shutil.which("curl"), "no curl here")
    def test_curl_reads_both_codings(self):
        daemon = self.answering()
        for coding in ("zstd", "gzip"):
            head, body = self.curl(daemon, "--compressed", "-H", f"accept-encoding: {coding}")
            self.assertIn(f"content-encoding: {coding}", head)
            self.assertEqual(body, DOCUMENT, coding)
        head, body = self.curl(daemon, "--compressed", "--http2-prior-knowledge")
        self.assertIn("content-encoding: ", head)
        self.assertEqual(body, DOCUMENT)

    @unittest.skipIf(openai is None, "PyPI's openai is not installed (./dev setup)")
    def test_the_openai_sdk_gets_what_the_engine_says(self):
        simulator = self.simulators("--model", "m").addresses[0]
        daemon = self.daemon({"pools": [{"name": "pool", "engine": "vllm", "inspect": True, "backends": [simulator]}],
                              "routes": [{"pool": "pool", "compression": {"min_size": "1B"}}]})

        def ask(address):
            with openai.OpenAI(base_url=f"http://{address}/v1", api_key="sk-test", max_retries=0, timeout=20) as client:
                raw = client.embeddings.with_raw_response.create(model="m", input=["one", "two"])
                chat = client.chat.completions.with_raw_response.create(
                    model="m", max_tokens=16, messages=[{"role": "user", "content": "Count."}])
                stream = client.chat.completions.create(
                    model="m", max_tokens=16, stream=True, messages=[{"role": "user", "content": "Count."}])
                return raw, chat, [event.choices[0].delta.content for event in stream if event.choices]

        direct, relayed = ask(simulator), ask(daemon.address)
        for own, other in zip(relayed[:2], direct[:2]):
            self.assertIn(own.headers["content-encoding"], ("gzip", "zstd"))
            self.assertEqual(own.parse().model_dump(), other.parse().model_dump())
        self.assertEqual(relayed[2], direct[2])
        line = daemon.wait_access(3)[1]
        self.assertEqual(line["completion_tokens"], 16, "answers are read before they are compressed")

    def test_over_http2(self):
        daemon = self.answering()
        with http2.Peer.connect(daemon.address) as peer:
            answer = peer.request(fields=[GZIP]).read_response()
        self.assertEqual(answer.field("content-encoding"), "gzip")
        self.assertEqual(gzip.decompress(answer.body), DOCUMENT)

    def test_event_streams_and_what_is_compressed_pass_as_they_are(self):
        compressed = gzip.compress(DOCUMENT)
        for fields, body in (([("content-type", "text/event-stream")], b"data: x\n\n" * 1000),
                             ([("content-type", "application/x-ndjson")], b"{}\n" * 1000),
                             ([("content-type", "image/png")], DOCUMENT),
                             ([JSON, ("content-encoding", "gzip")], compressed),
                             ([JSON, ("cache-control", "no-transform")], DOCUMENT),
                             ([JSON], b"{}")):
            answer = exchange(self.answering(*fields, body=body).address, fields=[GZIP])
            self.assertEqual((answer.body, answer.field("vary")), (body, None), fields)

    def test_what_trickles_is_not_held_back(self):
        go_on = threading.Semaphore(0)

        def script(request):
            request.begin_chunks([JSON])
            for piece in (b"[1", b",2", b",3]"):
                request.chunk(piece)
                self.assertTrue(go_on.acquire(timeout=20))
            request.end_chunks()

        daemon = self.compressing(script)
        text = b""
        data = zlib.decompressobj(31)
        with Stream.connect(daemon.address) as stream:
            stream.ask(fields=[GZIP])
            head = stream.read_head()
            self.assertEqual(head.field("content-encoding"), "gzip")
            for wanted in (b"[1", b"[1,2", b"[1,2,3]"):
                while text != wanted:
                    text += data.decompress(stream.read_chunk(head))
                go_on.release()
            while piece := stream.read_chunk(head):
                text += data.decompress(piece)
        self.assertTrue(data.eof)
        self.assertEqual(text, b"[1,2,3]")

    def test_large_answers_are_whole(self):
        large = DOCUMENT * 40
        daemon = self.answering(body=large)
        answers = [self.spawn(lambda: exchange(daemon.address, fields=[GZIP])) for _ in range(4)]
        for answer in answers:
            self.assertEqual(gzip.decompress(answer.join().body), large)

    def test_an_answer_that_breaks_off_is_not_made_whole(self):
        def broken(request):
            request.begin_chunks([JSON])
            request.chunk(DOCUMENT)
            request.abort()

        daemon = self.compressing(broken)
        with Stream.connect(daemon.address) as stream:
            stream.ask(fields=[GZIP])
            head = stream.read_head()
            with self.assertRaises((Closed, OSError)):
                while stream.read_chunk(head):
                    pass
        self.assertEqual(daemon.wait_access(1)[0]["reason"], "backend_closed")

    def test_a_client_that_leaves_frees_everything(self):
        daemon = self.answering(body=DOCUMENT * 40)
        with Stream.connect(daemon.address, receive_buffer=4096) as stream:
            stream.ask(fields=[GZIP])
            stream.read_head()
        daemon.wait_at_rest()

    def test_backends_need_not_be_asked_for_compressed_bytes(self):
        daemon = self.daemon({
            "pools": [{"name": "pool", "backends": [self.backend(self.echo).address], "health": {"check": "off"}}],
            "routes": [{"pool": "pool", "compression": {"codings": "gzip", "min_size": "1B"},
                        "request_headers": {"remove": "accept-encoding"}}]})
        answer = exchange(daemon.address, fields=[GZIP])
        self.assertEqual(gzip.decompress(answer.body), b"null")

    @staticmethod
    def echo(request):
        request.answer(json.dumps(request.head.field("accept-encoding")).encode(), fields=[JSON])

    def test_own_answers_of_the_route_are_compressed_too(self):
        daemon = self.daemon({"routes": [
            {"match": {"path": "/a"}, "respond": {"body": "a" * 5000}, "compression": {"codings": ["gzip"]}},
            {"match": {"path": "/b"}, "respond": {"body": "b" * 5000}}]})
        answer = exchange(daemon.address, target="/a", fields=[GZIP])
        self.assertEqual(gzip.decompress(answer.body), b"a" * 5000)
        self.assertEqual(exchange(daemon.address, target="/b", fields=[GZIP]).body, b"b" * 5000)


if __name__ == "__main__":
    case.main()
