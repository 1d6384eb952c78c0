"""What real inference servers were seen to do when they are overloaded, abort or shut down, each as a scripted backend that
behaves so. The first line of a test names the servers."""

import json
import threading
import time

import case
from process import SANITIZED
from stream import Closed, Stream, exchange

CHAT = "/v1/chat/completions"
PROMPT = b'{"model": "m", "messages": [{"role": "user", "content": "hello"}]}'
STREAMED = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "hello"}]}'
SSE = [("content-type", "text/event-stream")]
JSON = [("content-type", "application/json")]
QUICK = {"interval": "100ms", "timeout": "200ms", "fall": 2, "rise": 1}


def token(number):
    return b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n' % number


class Findings(case.Case):
    def server(self, serve, **kwargs):
        """A backend that passes health checks and lists a model; `serve(request)` answers the rest."""
        def script(request):
            if request.target in ("/health", "/v2/health/ready"):
                return request.answer()
            if request.method == "GET" and request.target in ("/metrics", "/is_sleeping", "/v1/models"):
                return request.answer(b"{}", status=404)
            return serve(request)

        return self.backend(script, **kwargs)

    def fine(self, request):
        request.answer(b'{"choices":[]}', fields=JSON)

    def served(self, backend):
        """The requests of clients that it has received."""
        return [each for each in list(backend.exchanges) if each.method == "POST"]

    def chat(self, daemon, body=PROMPT):
        return exchange(daemon.address, "POST", CHAT, JSON, body)


class Shutdown(Findings):
    def close_listener(self, backend):
        """Refuses connections from now on; those that are open stay open."""
        backend._listener.shutdown(2)
        backend._listener.close()

    def test_an_engine_that_stopped_does_not_hold_its_stream_open(self):
        """vLLM and llama.cpp on SIGTERM: no new connections, the engine stops, and a stream that has begun says nothing more,
        neither a token nor an end. It ends 20 s after its last byte."""
        begun = threading.Event()

        def stall(request):
            request.begin_chunks(SSE)
            request.chunk(token(1))
            begun.set()
            request.stream.wait_closed(within=90)

        stalling = self.server(stall)
        daemon = self.start_daemon(stalling, pool={"engine": "vllm", "health": QUICK})
        with Stream.connect(daemon.address) as stream:
            stream.ask("POST", CHAT, JSON, STREAMED)
            head = stream.read_head()
            self.assertEqual(stream.read_chunk(head), token(1))
            self.assertTrue(begun.wait(10))

            self.close_listener(stalling)

            stream.socket.settimeout(60)
            stopped = time.monotonic()
            with self.assertRaises((Closed, ConnectionError)):
                while stream.read_chunk(head):  # an event that says so may precede the cut
                    pass
            self.assert_within(time.monotonic() - stopped, 25 if not SANITIZED else 60)
        self.assertEqual(daemon.wait_access(1)[0]["reason"], "idle_timeout")

    def test_a_stream_that_goes_on_after_its_server_closed_its_port_is_whole(self):
        """Triton and MLServer on SIGTERM: no new connections, and streams that have begun run to their end."""
        go = threading.Event()
        tokens = 25

        def finish(request):
            request.begin_chunks(SSE)
            request.chunk(token(0))
            go.wait(10)
            for number in range(1, tokens):
                request.chunk(token(number))
                time.sleep(0.1)  # between two tokens
            request.end_chunks()

        leaving = self.server(finish)
        daemon = self.start_daemon(leaving, pool={"engine": "vllm", "health": QUICK})
        with Stream.connect(daemon.address) as stream:
            stream.ask("POST", CHAT, JSON, STREAMED)
            head = stream.read_head()
            self.assertEqual(stream.read_chunk(head), token(0))
            self.close_listener(leaving)
            go.set()
            stream.read_body(head)
        self.assertEqual(head.body, b"".join(token(number) for number in range(1, tokens)))
        self.assertEqual(daemon.backend(leaving.address)["state"], "down", "it was noticed, and did not matter")

    def test_a_server_that_answers_500_at_once_while_it_is_healthy(self):
        """vLLM with --shutdown-timeout: for seconds `/health` answers 200 and every completion gets an instant 500, so the server
        looks idle. Clients see none of it."""
        def shutting_down(request):
            request.answer(b'{"error":{"message":"cannot schedule new futures after shutdown","type":"InternalServerError",'
                           b'"code":500}}', status=500, fields=JSON)

        def work(request):
            time.sleep(0.02)  # generation
            self.fine(request)

        leaving, *others = self.server(shutting_down), self.server(work), self.server(work)
        daemon = self.start_daemon(leaving, *others, pool={"engine": "vllm", "health": {"interval": "2s"}})

        def client():
            return [self.chat(daemon).status for _ in range(50)]

        statuses = [each for thread in [self.spawn(client) for _ in range(4)] for each in thread.join()]

        self.assertEqual(set(statuses), {200})
        self.assertLessEqual(len(self.served(leaving)), 10, "it gets no more requests than it takes to find out")

    def test_a_reset_of_a_request_in_flight_is_not_sent_to_the_next_server(self):
        """TorchServe on SIGTERM: requests in flight are reset. It may have begun, so only the file can say: send it again."""
        def reset(request):
            self.close_listener(request.backend)
            request.abort()

        for rules, status in (({}, 502), ({"retry": {"on": ["reset"]}}, 200)):
            with self.subTest(rules):
                leaving, other = self.server(reset), self.server(self.fine)
                daemon = self.start_daemon(leaving, other, workers=1, pool={"picker": "round-robin", **rules})
                statuses = [self.chat(daemon).status for _ in range(4)]
                self.assertEqual(sorted(statuses, reverse=True)[0], status)
                self.assertEqual(len(self.served(leaving)), 1)


class Streams(Findings):
    def test_an_error_inside_a_stream_that_ends_normally(self):
        """vLLM whose engine dies: status 200, an event with an error, then [DONE] and a clean end. The client gets it as it is;
        for the server it is a failure."""
        events = [token(1), b'data: {"error":{"message":"EngineCore encountered an issue","type":"InternalServerError",'
                  b'"param":null,"code":500}}\n\n', b"data: [DONE]\n\n"]

        def die(request):
            request.begin_chunks(SSE)
            for event in events:
                request.chunk(event)
            request.end_chunks()

        dying = self.server(die)
        daemon = self.start_daemon(dying, pool={"engine": "vllm"})

        answer = self.chat(daemon, STREAMED)

        self.assertEqual((answer.status, answer.body), (200, b"".join(events)))
        self.eventually(lambda: daemon.backend(dying.address)["errors_total"] == 1, "the failure to be counted")
        self.assertEqual(daemon.wait_access(1)[0]["reason"], "stream_error")

    def test_streams_end_as_the_server_ends_them(self):
        """Triton ends without [DONE], vLLM's last event has no choices, llama.cpp adds usage that was not requested, LitServe
        changes the id in each event."""
        events = [b'data: {"text_output":"a"}\n\n', b'data: {"id":"1","choices":[]}\n\n',
                  b'data: {"id":"2","choices":[],"usage":{"prompt_tokens":1},"timings":{"x":1}}\n\n']

        def serve(request):
            request.begin_chunks(SSE)
            for event in events:
                request.chunk(event)
            request.end_chunks()

        backend = self.server(serve)
        for engine in ("triton", "vllm", "llamacpp", "generic"):
            with self.subTest(engine):
                daemon = self.start_daemon(backend, pool={"engine": engine, "health": {"check": "off"}})
                answer = self.chat(daemon, STREAMED)
                self.assertEqual((answer.status, answer.body), (200, b"".join(events)))
                self.assertEqual(daemon.wait_access(1)[0]["reason"], None)
                self.assertEqual(daemon.backend(backend.address)["errors_total"], 0)

    def test_an_error_in_a_body_that_is_no_stream_passes(self):
        """Triton's `generate` on a decoupled model: status 200 and a JSON object with `error`."""
        body = b'{"error":"generate expects model to produce exactly 1 response, use generate stream for models that may"}'
        backend = self.server(lambda request: request.answer(body, fields=JSON))
        daemon = self.start_daemon(backend, pool={"engine": "triton", "health": {"check": "off"}})
        answer = exchange(daemon.address, "POST", "/v2/models/m/generate", JSON, b"{}")
        self.assertEqual((answer.status, answer.body), (200, body))
        self.assertEqual(daemon.backend(backend.address)["errors_total"], 0)


class Overload(Findings):
    def test_a_server_that_queues_in_silence_is_not_hurried(self):
        """vLLM and llama.cpp under overload: requests wait inside without a byte, while health checks pass."""
        go = threading.Event()

        def queue(request):
            go.wait(10)
            self.fine(request)

        backend = self.server(queue)
        daemon = self.start_daemon(backend, pool={"engine": "vllm", "health": QUICK})
        clients = [self.spawn(lambda: self.chat(daemon).status) for _ in range(12)]
        self.eventually(lambda: daemon.backend(backend.address)["in_flight"] == 12, "all of them at the server")
        self.eventually(lambda: sum(each.target == "/health" for each in list(backend.exchanges)) > 10, "some checks")
        go.set()
        self.assertEqual([client.join() for client in clients], [200] * 12)
        self.assertEqual(len(self.served(backend)), 12, "each request was sent once")

    def test_a_refusal_by_one_server_goes_to_the_next_and_is_no_failure(self):
        """Ray answers 503 `Request dropped due to backpressure`, TorchServe 503 when its queue is full."""
        for engine in ("ray", "torchserve", "vllm"):
            with self.subTest(engine):
                full = self.server(lambda request: request.answer(b"Request dropped due to backpressure", status=503))
                other = self.server(self.fine)
                daemon = self.start_daemon(full, other, workers=1, pool={
                    "engine": engine, "picker": "round-robin", "health": {"check": "off"}})
                self.assertEqual([self.chat(daemon).status for _ in range(6)], [200] * 6)
                self.assertLessEqual(len(self.served(full)), 2, "it is left alone for a while")
                self.assertNotEqual(daemon.backend(full.address)["state"], "ejected")

    def test_a_429_of_an_unknown_server_is_the_answer(self):
        """BentoML under overload: 429."""
        full = self.server(lambda request: request.answer(b"busy", status=429, fields=[("retry-after", "1")]))
        daemon = self.start_daemon(full)
        answer = self.chat(daemon)
        self.assertEqual((answer.status, answer.body, answer.field("retry-after")), (429, b"busy", "1"))
        self.assertNotEqual(daemon.backend(full.address)["state"], "ejected")

    def test_a_request_that_is_at_fault_for_a_500_ejects_no_server(self):
        """llama.cpp and Triton answer malformed JSON with 500."""
        errors = {"llamacpp": (b'{"error":{"code":500,"message":"[json.exception.parse_error.101] parse error at line 1, column 2: syntax error '
                 b'while parsing object key - invalid literal; last read: \'{n\'; expected string literal","type":"server_error"}}'),
                  "triton": b'{"error":"failed to parse the request JSON buffer: Missing a name for object member. at 1"}'}

        for engine, error in errors.items():
            def serve(request, error=error):
                try:
                    json.loads(request.body)
                except ValueError:
                    return request.answer(error, status=500, fields=JSON)
                return self.fine(request)

            for picker in ("least-connections", "consistent-hash", "round-robin"):
                with self.subTest(f"{engine} {picker}"):
                    self.check_malformed_json([self.server(serve) for _ in range(3)], engine, picker, error)

    def check_malformed_json(self, backends, engine, picker, error):
        daemon = self.start_daemon(*backends, pool={"engine": engine, "health": QUICK, "picker": picker})
        for _ in range(20):
            for _ in range(4):  # with consistent-hash all at the same server, while the others answer well
                answer = self.chat(daemon, b"{not json")
                self.assertEqual((answer.status, answer.body), (500, error))
            self.assertEqual([self.chat(daemon).status for _ in range(2)], [200] * 2)
        self.assertEqual(sum(len(self.served(each)) for each in backends), 120, "none was sent twice")
        self.assertEqual([(each["state"], each["reason"]) for each in daemon.api("backends")], [("up", None)] * 3)
        self.assertEqual(daemon.metric("evenkeel_backend_ejections_total"), 0)
        self.assertFalse(daemon.metric("evenkeel_backend_errors_total"))


class Connections(Findings):
    def test_connections_that_close_after_exactly_100_requests(self):
        """llama.cpp: `Keep-Alive: timeout=5, max=100`, and `Connection: close` with the last response. A server that does not say
        so, and closes behind its 100th response, is the harder case."""
        for announced in (True, False):
            with self.subTest(announced=announced):
                counts = {}

                def serve(request):
                    number = counts[request.connection] = counts.get(request.connection, 0) + 1
                    last = number == 100
                    request.answer(b"{}", fields=[("keep-alive", "timeout=5, max=100")] +
                                   ([("connection", "close")] if last and announced else []))
                    if last:
                        request.stream.close()

                backend = self.server(serve)
                daemon = self.start_daemon(backend, workers=1, pool={"engine": "llamacpp", "health": {"check": "off"}})

                def client():
                    with Stream.connect(daemon.address) as stream:
                        return [stream.exchange("POST", CHAT, JSON, PROMPT).status for _ in range(350)]

                statuses = [each for thread in [self.spawn(client) for _ in range(3)] for each in thread.join()]
                self.assertEqual(statuses, [200] * 1050)
                self.assertEqual(max(counts.values()), 100)

    def test_the_second_answer_to_one_request_reaches_no_client(self):
        """llama.cpp answers a header of 64 KiB with two 400s and keeps the connection."""
        def serve(request):
            if request.target != "/twice":
                return self.fine(request)
            request.answer(b"first", status=400)
            request.answer(b"second", status=400)

        backend = self.server(serve)
        daemon = self.start_daemon(backend, workers=1)
        for _ in range(20):
            first = exchange(daemon.address, "POST", "/twice", JSON, PROMPT)
            self.assertEqual((first.status, first.body), (400, b"first"))
            answer = self.chat(daemon)
            self.assertEqual((answer.status, answer.body), (200, b'{"choices":[]}'))
        twice = {each.connection for each in self.served(backend) if each.target == "/twice"}
        self.assertEqual(len(twice), 20, "a connection with an answer too many is not used again")

    def test_a_close_without_an_answer_to_a_large_header(self):
        """Triton closes without an answer when a header line has 8 KiB. The request is not passed from server to server."""
        def serve(request):
            if len(request.head.raw) > 8192:
                return request.stream.close()
            return self.fine(request)

        backends = [self.server(serve) for _ in range(4)]
        daemon = self.start_daemon(*backends, pool={"engine": "triton", "health": {"check": "off"}}, workers=1)
        for _ in range(8):
            self.assertEqual(self.chat(daemon).status, 200)  # warm connections
        answer = exchange(daemon.address, "POST", CHAT, [*JSON, ("x-large", "x" * 9000)], PROMPT)
        self.assertEqual((answer.status, answer.reason), (502, "backend_closed"))
        seen = [each for backend in backends for each in self.served(backend) if len(each.head.raw) > 8192]
        self.assertLessEqual(len(seen), 2)
        self.assertEqual([self.chat(daemon).status for _ in range(8)], [200] * 8)

    def test_requests_are_never_pipelined(self):
        """Triton, llama.cpp and TorchServe answer only one of two requests that arrive together."""
        early = []

        def serve(request):
            time.sleep(0.01)
            request.stream.socket.setblocking(False)
            try:
                early.append(request.stream.buffer or request.stream.socket.recv(1))
            except BlockingIOError:
                pass
            request.stream.socket.settimeout(20)
            request.answer(request.target.encode())

        backend = self.server(serve)
        daemon = self.start_daemon(backend, workers=1)
        with Stream.connect(daemon.address) as stream:
            stream.send(b"".join(b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" % each for each in range(8)))
            self.assertEqual([stream.read_response().body for _ in range(8)], [b"/%d" % each for each in range(8)])
        self.assertEqual(early, [])

    def test_an_empty_reason_phrase(self):
        """TorchServe: `HTTP/1.1 200 ` and nothing behind the space."""
        for line in (b"HTTP/1.1 200 \r\n", b"HTTP/1.1 200\r\n"):
            with self.subTest(line):
                backend = self.server(lambda request, line=line: request.send(line + b"Content-Length: 2\r\n\r\nok"))
                daemon = self.start_daemon(backend)
                answer = self.chat(daemon)
                self.assertEqual((answer.status, answer.body), (200, b"ok"))

    def test_what_servers_read_differently_reaches_none(self):
        """Content-Length with Transfer-Encoding: Triton and llama.cpp answer 400, TorchServe and MLServer read it. Folded lines:
        Triton closes, llama.cpp 400, others read them. Content-Length twice: Triton 500."""
        backend = self.server(self.fine)
        daemon = self.start_daemon(backend)
        for fields in (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                       b"X-Folded: a\r\n b\r\nContent-Length: 0\r\n\r\n",
                       b"Content-Length: 0\r\nContent-Length: 1\r\n\r\n"):
            with self.subTest(fields), Stream.connect(daemon.address) as stream:
                stream.send(b"POST /v1/x HTTP/1.1\r\nHost: a\r\n" + fields)
                self.assertEqual(stream.read_response().status, 400)
        self.assertEqual(self.served(backend), [])


class Aborts(Findings):
    def test_a_client_that_leaves_frees_the_engine_at_once(self):
        """vLLM, llama.cpp, Triton and Ray stop generating when the connection closes, and only then. That is all there is to go
        by: vLLM does not count aborts."""
        left = []
        begun = threading.Event()

        def stream_on(request):
            request.begin_chunks(SSE)
            request.chunk(token(1))
            begun.set()
            left.append(request.wait_disconnected())

        backend = self.server(stream_on)
        daemon = self.start_daemon(backend, pool={"engine": "vllm", "health": QUICK})
        stream = Stream.connect(daemon.address)
        stream.ask("POST", CHAT, JSON, STREAMED)
        self.assertTrue(begun.wait(10))
        began = time.monotonic()
        stream.close()
        self.eventually(lambda: left, "the close at the server")
        self.assert_within(left[0] - began, 0.5 if not SANITIZED else 5)
        daemon.wait_at_rest()


if __name__ == "__main__":
    case.main()
