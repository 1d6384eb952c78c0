"""Which requests go to another backend, how often, and what the client gets if that does not help."""

import json
import threading
import time

import case
from http2 import REFUSED_STREAM, Peer
from ports import refusing_address
from stream import Closed, Stream, exchange

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
CHAT = "/v1/chat/completions"
PICKERS = ["round-robin", "weighted", "least-connections", "least-latency", "queue-depth", "gpu",
           "consistent-hash", "prefix-affinity", "expected-time"]
# A prompt, by which expected-time places it.
PROMPT = b'{"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]}'


def answering(status, body=b'{"error": "no"}', fields=(), after=0.0):
    def script(request):
        time.sleep(after)
        request.answer(body, status=status, fields=fields)
    return script


def resetting(request):
    request.abort()


class Retry(case.Case):
    def pool(self, *scripts, engine="vllm", picker="round-robin", workers=1, **keys):
        """A daemon with as many backends: the one that is picked first follows the first script, and so on."""
        self.scripts = scripts
        self.served = []  # backends in the order of their first request
        lock = threading.Lock()

        def serve(request):
            with lock:
                if request.backend not in self.served:
                    self.served.append(request.backend)
                number = self.served.index(request.backend)
            scripts[number](request)

        return self.start_daemon(*[self.backend(serve) for _ in scripts], workers=workers,
                                 pool={"engine": engine, "picker": picker, **QUIET, **keys})

    def counts(self):
        """Requests by script."""
        counts = [len(each.exchanges) for each in self.served]
        return counts + [0] * (len(self.scripts) - len(counts))

    def post(self, daemon, body=b'{"stream": true}', fields=(), target=CHAT):
        return exchange(daemon.address, "POST", target, fields, body)

    def expect(self, daemon, status, counts, method="POST", body=b"{}", fields=()):
        answer = exchange(daemon.address, method, CHAT, fields, body if method == "POST" else None)
        self.assertEqual((answer.status, self.counts()), (status, counts))
        return answer

    # ---- what an engine's answers mean ----

    def test_a_generation_that_an_engine_refuses_is_answered_by_another_server(self):
        for status in (429, 503):
            with self.subTest(status):
                daemon = self.pool(answering(status), answering(200, b"fine"))
                self.expect(daemon, 200, [1, 1])
                line = daemon.wait_access(1)[0]
                self.assertEqual([(each["outcome"], each.get("status")) for each in line["attempts"]],
                                 [("overloaded", status), ("answered", None)])
                self.assertEqual(line["backend"], self.served[1].address)
                self.assertEqual(daemon.metric("evenkeel_retries_total", reason="overloaded"), 1)

    def test_a_refusal_may_come_late(self):
        daemon = self.pool(answering(503, after=0.3), answering(200))
        self.expect(daemon, 200, [1, 1])

    def test_an_early_failure_means_that_vllm_has_not_begun(self):
        for status in (500, 502):
            with self.subTest(status):
                self.expect(self.pool(answering(status), answering(200)), 200, [1, 1])

    def test_after_a_late_failure_vllm_may_have_begun(self):
        self.expect(self.pool(answering(500, after=0.3), answering(200)), 500, [1, 0])

    def test_llamacpp_answers_a_wrong_request_with_500(self):
        self.expect(self.pool(answering(500), answering(200), engine="llamacpp"), 500, [1, 0])

    def test_nothing_is_known_of_a_generic_server(self):
        for status in (429, 500, 502, 503, 504):
            with self.subTest(status):
                self.expect(self.pool(answering(status), answering(200), engine="generic"), status, [1, 0])

    def test_other_answers_are_the_clients(self):
        for status in (200, 400, 404, 422, 501):
            with self.subTest(status):
                self.expect(self.pool(answering(status), answering(200)), status, [1, 0])

    def test_a_reset_generation_may_have_begun(self):
        self.expect(self.pool(resetting, answering(200)), 502, [1, 0])

    # ---- idempotent requests ----

    def test_idempotent_requests_are_retried_whatever_the_engine(self):
        for script in (answering(502), answering(503), answering(504), resetting):
            with self.subTest(script):
                self.expect(self.pool(script, answering(200), engine="generic"), 200, [1, 1], method="GET")

    def test_a_500_to_an_idempotent_request_is_its_answer(self):
        self.expect(self.pool(answering(500), answering(200), engine="generic"), 500, [1, 0], method="GET")

    def test_an_idempotency_key_counts_where_the_file_says_so(self):
        key = [("Idempotency-Key", "7")]
        daemon = self.pool(resetting, answering(200), engine="generic", retry={"idempotency_key": True})
        self.expect(daemon, 200, [1, 1], fields=key)
        daemon = self.pool(resetting, answering(200), engine="generic")
        self.expect(daemon, 502, [1, 0], fields=key)

    def test_an_attempt_of_an_idempotent_request_has_its_own_timeout(self):
        daemon = self.pool(lambda request: request.wait_disconnected(), answering(200),
                           engine="generic", retry={"attempt_timeout": "100ms"})
        began = time.monotonic()
        self.expect(daemon, 200, [1, 1], method="GET")
        self.assert_within(time.monotonic() - began, 5)
        self.assertEqual(daemon.wait_access(1)[0]["attempts"][0]["outcome"], "first_byte_timeout")

    def test_without_a_budget_a_slow_attempt_goes_on(self):
        daemon = self.pool(answering(200, after=0.5), answering(200, after=0.5), engine="generic",
                           retry={"attempt_timeout": "50ms", "budget": "0%"})
        self.expect(daemon, 200, [1, 0], method="GET")
        self.assertEqual(daemon.metric("evenkeel_retry_budget_exhausted_total"), 1)

    def test_a_slow_upload_is_not_the_backends_time(self):
        daemon = self.pool(answering(200), answering(200), retry={"on": ["timeout"], "attempt_timeout": "200ms"})
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            time.sleep(0.7)
            stream.send(b"0\r\n\r\n")
            self.assertEqual(stream.read_response().status, 200)
        self.assertEqual(len(daemon.wait_access(1)[0]["attempts"]), 1)

    def test_after_a_slow_upload_an_attempt_has_its_whole_time(self):
        def hang(request):
            request.wait_disconnected()

        daemon = self.pool(hang, answering(200), retry={"on": ["timeout"], "attempt_timeout": "300ms"})
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            time.sleep(0.2)
            stream.send(b"0\r\n\r\n")
            uploaded = time.monotonic()
            self.assertEqual(stream.read_response().status, 200)
        self.assertGreater(time.monotonic() - uploaded, 0.25)
        self.assertEqual(self.counts(), [1, 1])

    def test_no_retry_waits_longer_than_the_first_byte_may_take(self):
        """One backend is full, the other one resets the request: the client is told so after `first_byte`."""
        stop = threading.Event()
        self.addCleanup(stop.set)
        first = threading.Event()

        def script(request):
            if first.is_set():
                time.sleep(0.2)
                return request.abort()
            first.set()
            request.begin_chunks()
            request.chunk(b"x")
            stop.wait(20)

        daemon = self.start_daemon(self.backend(script), self.backend(script), workers=1, pool={
            "timeouts": {"first_byte": "1s"}, **QUIET,
            "limits": {"max_in_flight": 1, "queue": {"size": 10, "timeout": "15s"}}})
        with Stream.connect(daemon.address) as stream:
            stream.ask("GET", "/")
            stream.read_head()
            began = time.monotonic()
            answer = exchange(daemon.address)
        self.assertEqual((answer.status, answer.reason), (502, "backend_closed"))
        self.assert_within(time.monotonic() - began, 8)

    # ---- by opt-in ----

    def test_only_what_fails_within_the_time_of_the_file_is_retried(self):
        retry = {"on": ["5xx"], "within": "1s"}
        daemon = self.pool(answering(500, after=1.2), answering(200), retry=retry)
        self.expect(daemon, 500, [1, 0])
        daemon = self.pool(answering(500), answering(200), retry={**retry, "within": "20s"})
        self.expect(daemon, 200, [1, 1])

    def test_the_file_extends_retries_to_generations(self):
        for on, script in (("5xx", answering(500, after=0.2)), ("gateway-error", answering(504)),
                           ("overload", answering(429)), ("reset", resetting)):
            with self.subTest(on):
                daemon = self.pool(script, answering(200), engine="generic", retry={"on": [on]})
                self.expect(daemon, 200, [1, 1])

    def test_a_route_has_rules_of_its_own(self):
        backends = [self.backend(resetting), self.backend(answering(200))]
        daemon = self.daemon({
            "workers": 1,
            "pools": [{"name": "pool", "picker": "round-robin", "backends": [each.address for each in backends]}],
            "routes": [{"match": {"path": "/again"}, "pool": "pool", "retry": {"on": ["reset"]}},
                       {"pool": "pool"}]})
        for _ in range(2):  # whichever is picked first
            self.assertEqual(self.post(daemon, target="/again").status, 200)
        self.assertEqual(len(backends[0].exchanges), 1)
        # The failure has put the first one into back-off, for 50 ms.
        self.eventually(lambda: self.post(daemon).status == 502, "an answer of the other route")

    def test_one_attempt_is_no_retry(self):
        self.expect(self.pool(answering(503), answering(200), retry={"attempts": 1}), 503, [1, 0])

    def test_attempts_are_counted(self):
        daemon = self.pool(answering(503), answering(503), answering(200), retry={"attempts": 2})
        self.expect(daemon, 503, [1, 1, 0])
        daemon = self.pool(answering(503), answering(503), answering(200), retry={"attempts": 3})
        self.expect(daemon, 200, [1, 1, 1])

    # ---- what the client gets in the end ----

    def test_without_another_backend_the_client_gets_the_answer(self):
        fields = [("X-Own", "yes"), ("Retry-After", "7"), ("Content-Type", "application/json")]
        daemon = self.pool(answering(503, b'{"own": "answer"}', fields))
        answer = self.expect(daemon, 503, [1])
        self.assertEqual(answer.body, b'{"own": "answer"}')
        self.assertEqual((answer.field("x-own"), answer.field("retry-after"), answer.reason),
                         ("yes", "7", None))

    def test_if_no_other_backend_can_be_connected_the_client_gets_the_first_answer(self):
        backend = self.backend(answering(503, b"the first answer", [("X-Own", "yes")]))
        daemon = self.start_daemon(backend, refusing_address(), workers=1,
                                   pool={"engine": "vllm", "picker": "round-robin", **QUIET})
        for _ in range(2):  # whichever is picked first
            answer = self.post(daemon)
            self.assertEqual((answer.status, answer.body, answer.field("x-own")),
                             (503, b"the first answer", "yes"))

    def test_when_all_refuse_the_client_gets_the_last_answer(self):
        daemon = self.pool(answering(503, b"one"), answering(429, b"two"))
        self.assertEqual(self.expect(daemon, 429, [1, 1]).body, b"two")

    def test_an_answer_that_is_no_short_error_goes_to_the_client(self):
        def long(request):
            request.begin_chunks(status=503)
            for _ in range(20):
                request.chunk(b"x" * 8000)
            request.end_chunks()

        def slow(request):
            request.begin_chunks(status=503)
            request.chunk(b"x" * 80000)
            time.sleep(0.3)
            request.chunk(b"x" * 80000)
            request.end_chunks()

        for script in (long, slow):
            with self.subTest(script.__name__):
                answer = self.expect(self.pool(script, answering(200)), 503, [1, 0])
                self.assertEqual(len(answer.body), 160000)

    def test_nothing_is_retried_once_the_response_has_begun(self):
        def breaking(request):
            request.begin_chunks([("Content-Type", "application/json")])
            request.chunk(b"{")
            request.abort()

        daemon = self.pool(breaking, answering(200), retry={"on": ["5xx", "reset", "timeout"]})
        with Stream.connect(daemon.address) as stream:
            stream.ask("POST", CHAT, body=b"{}")
            self.assertRaises((Closed, ConnectionError), stream.read_response)
        self.assertEqual(self.counts(), [1, 0])

    def test_a_gone_client_is_not_retried_for(self):
        daemon = self.pool(lambda request: request.wait_disconnected(), answering(200), retry={"on": ["reset"]})
        with Stream.connect(daemon.address) as stream:
            stream.ask("POST", CHAT, body=b"{}")
            self.eventually(lambda: self.counts() == [1, 0])
        self.assertEqual(daemon.wait_access(1)[0]["status"], 499)
        self.assertEqual(self.counts(), [1, 0])

    def test_the_link_of_a_refusal_is_used_again(self):
        daemon = self.pool(answering(503), answering(200))
        for _ in range(6):
            self.post(daemon)
        self.assertEqual({each.connection for each in self.served[0].exchanges}, {1})

    def test_over_http2_on_both_sides(self):
        def refuse(request):
            request.answer(b"busy", status=503)

        backends = [self.h2_backend(refuse), self.h2_backend(lambda request: request.answer(request.body))]
        daemon = self.start_daemon(*backends, workers=1,
                                   pool={"engine": "vllm", "protocol": "h2", "picker": "round-robin", **QUIET})
        body = bytes(range(256)) * 2000
        with Peer.connect(daemon.address) as client:
            for _ in range(2):  # whichever is picked first
                answer = client.exchange("POST", CHAT, body=body)
                self.assertEqual((answer.status, answer.body == body), (200, True))
        self.assertEqual(daemon.metric("evenkeel_retries_total", reason="overloaded"), 1)

    def test_a_refused_stream_goes_to_another_backend_whatever_the_rules(self):
        backends = [self.h2_backend(lambda request: request.abort(REFUSED_STREAM)),
                    self.h2_backend(lambda request: request.answer(request.body))]
        daemon = self.start_daemon(*backends, workers=1,
                                   pool={"protocol": "h2", "picker": "round-robin", "retry": {"attempts": 1}, **QUIET})
        for _ in range(2):  # whichever is picked first
            self.assertEqual(self.post(daemon, b"x" * 100_000).body, b"x" * 100_000)

    # ---- bodies ----

    def test_a_large_prompt_is_sent_again(self):
        prompt = bytes(i % 251 for i in range(1024 * 1024))
        for chunked in (False, True):
            with self.subTest(chunked=chunked):
                daemon = self.pool(answering(503), lambda request: request.answer(request.body))
                if chunked:
                    with Stream.connect(daemon.address) as stream:
                        stream.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
                        for i in range(0, len(prompt), 65536):
                            stream.send(b"%x\r\n%s\r\n" % (65536, prompt[i:i + 65536]))
                        stream.send(b"0\r\n\r\n")
                        answer = stream.read_response()
                else:
                    answer = self.post(daemon, prompt)
                self.assertEqual((answer.status, answer.body == prompt), (200, True))
                self.assertEqual([each.exchanges[0].body == prompt for each in self.served], [True, True])
                self.eventually(lambda: daemon.metric("evenkeel_replay_bytes") == 0, "the end of the copy")

    def test_a_large_prompt_survives_the_close_of_an_idle_connection(self):
        def script(request):
            if request.connection == 1 and request.body != b"{}":
                return request.stream.close()
            request.answer(b"%d" % len(request.body))

        daemon = self.pool(script)
        self.assertEqual(self.post(daemon, b"{}").status, 200)
        answer = self.post(daemon, b"x" * 500_000)
        self.assertEqual((answer.status, answer.body), (200, b"500000"))

    def test_a_body_beyond_the_limit_is_streamed_and_not_retried(self):
        daemon = self.pool(answering(503), answering(200), retry={"replay": "64KiB"})
        self.expect(daemon, 503, [1, 0], body=b"x" * 70_000)
        self.assertEqual(self.served[0].exchanges[0].body, b"x" * 70_000)
        self.assertEqual(daemon.metric("evenkeel_replay_overflows_total"), 1)

    def test_a_body_of_unknown_length_is_dropped_when_it_outgrows_the_limit(self):
        daemon = self.pool(answering(503), answering(200), retry={"replay": "64KiB"})
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(20):
                stream.send(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            stream.send(b"0\r\n\r\n")
            answer = stream.read_response()
        self.assertEqual((answer.status, self.counts()), (503, [1, 0]))
        self.assertEqual(len(self.served[0].exchanges[0].body), 20 * 4096)
        self.assertEqual(daemon.metric("evenkeel_replay_overflows_total"), 1)
        self.eventually(lambda: daemon.metric("evenkeel_replay_bytes") == 0, "the end of the copy")

    def test_a_refusal_during_the_upload_is_retried_with_the_whole_body(self):
        """The first backend refuses before it has read the body."""
        prompt = b"x" * 800_000
        early = self.backend(lambda request: request.answer(b"busy", status=503), reads_body=False)
        other = self.backend(lambda request: request.answer(b"%d" % len(request.body)))
        daemon = self.start_daemon(early, other, workers=1, pool={"engine": "vllm", "picker": "round-robin", **QUIET})
        for _ in range(2):  # whichever is picked first
            self.assertEqual(self.post(daemon, prompt).body, b"800000")

    # ---- storms ----

    def test_an_outage_is_not_amplified(self):
        """At most 1.2 requests reach the backends for each of the clients'."""
        requests = 300
        for script in (answering(503), answering(500)):
            daemon = self.pool(*[script] * 3, picker="least-connections")
            with Stream.connect(daemon.address) as stream:
                for _ in range(requests):
                    self.assertIn(stream.exchange("POST", CHAT, body=b"{}").status, (500, 503))
            self.assertLessEqual(sum(self.counts()), 1.2 * requests)
            self.assertGreater(daemon.metric("evenkeel_retry_budget_exhausted_total"), 0)

    def call(self, stream):
        """A gRPC call; returns its status."""
        answer = stream.exchange("POST", "/p.S/M", [("Content-Type", "application/grpc"), ("TE", "trailers")],
                                 b"\0\0\0\0\0")
        return answer.field("grpc-status")

    def test_an_outage_of_grpc_servers_is_not_amplified(self):
        """Their refusals are answers with the status 200."""
        requests = 300
        refusing = answering(200, b"", [("Content-Type", "application/grpc"), ("grpc-status", "14")])
        daemon = self.pool(*[refusing] * 3, picker="least-connections")
        with Stream.connect(daemon.address) as stream:
            self.assertEqual({self.call(stream) for _ in range(requests)}, {"14"})
        self.assertLessEqual(sum(self.counts()), 1.1 * requests)

    def test_a_grpc_server_that_refuses_is_parked_although_its_answers_are_replaced(self):
        fields = [("Content-Type", "application/grpc")]
        daemon = self.pool(answering(200, b"", [*fields, ("grpc-status", "14")]),
                           answering(200, b"", [*fields, ("grpc-status", "0")]), picker="least-connections")
        with Stream.connect(daemon.address) as stream:
            self.assertEqual({self.call(stream) for _ in range(30)}, {"0"})
        self.assertLessEqual(self.counts()[0], 3)
        self.assertIn("overloaded", daemon.backend(self.served[0].address)["reason"])

    def test_no_request_fails_where_one_of_three_answers_500_at_once(self):
        for picker in PICKERS:
            with self.subTest(picker):
                daemon = self.pool(answering(500), answering(200), answering(200), picker=picker, workers=2)

                def ask(stream):
                    began = time.monotonic()
                    status = stream.exchange("POST", CHAT, [("content-type", "application/json")], PROMPT).status
                    # A server that a busy machine has stopped for 100 ms may have begun to generate.
                    return "late" if status == 500 and time.monotonic() - began >= 0.1 else status

                def ask_often():
                    with Stream.connect(daemon.address) as stream:
                        return [ask(stream) for _ in range(500)]

                clients = [self.spawn(ask_often) for _ in range(4)]
                answers = [status for client in clients for status in client.join()]
                self.assertEqual(set(answers) - {"late"}, {200})
                self.assertGreater(answers.count(200), 1900)


class BrokenStream(case.Case):
    """A stream that breaks ends with an error event, and without the end of the message."""

    def broken(self, target, chunks=(b"data: x\n\n",), content_type="text/event-stream", engine="vllm", fields=(),
               end=resetting):
        def script(request):
            request.begin_chunks([("Content-Type", content_type), *fields])
            for chunk in chunks:
                request.chunk(chunk)
                time.sleep(0.02)
            end(request)

        daemon = self.start_daemon(self.backend(script), pool={"engine": engine, **QUIET})
        with Stream.connect(daemon.address) as stream:
            stream.ask("POST", target, body=b"{}")
            head = stream.read_head()
            pieces = []
            try:
                while piece := stream.read_chunk(head):
                    pieces.append(piece)
                ended = True
            except (Closed, ConnectionError):
                ended = False
        return daemon, b"".join(pieces), ended

    def test_openai(self):
        daemon, text, ended = self.broken(CHAT)
        self.assertFalse(ended, "the message has no end")
        event = text.removeprefix(b"data: x\n\n")
        self.assertTrue(event.startswith(b"data: ") and event.endswith(b"\n\n"), text)
        error = json.loads(event[6:])["error"]
        self.assertEqual((error["code"], error["type"]), ("backend_closed", "upstream_error"))
        line = daemon.wait_access(1)[0]
        self.assertEqual((line["reason"], line["aborted"]), ("backend_closed", True))

    def test_anthropic(self):
        _, text, ended = self.broken("/v1/messages")
        self.assertFalse(ended)
        kind, data = text.removeprefix(b"data: x\n\n").splitlines()[:2]
        self.assertEqual(kind, b"event: error")
        error = json.loads(data.removeprefix(b"data: "))
        self.assertEqual((error["type"], error["error"]["type"]), ("error", "api_error"))

    def test_half_an_event_is_ended_first(self):
        _, text, ended = self.broken(CHAT, [b"data: {\"half"])
        self.assertFalse(ended)
        self.assertTrue(text.startswith(b"data: {\"half\n\ndata: {\"error\""), text)

    def test_json_lines(self):
        _, text, ended = self.broken("/api/chat", [b'{"response": "a"}\n'], "application/x-ndjson", "ollama")
        self.assertFalse(ended)
        self.assertIn("error", json.loads(text.splitlines()[1]))

    def test_silence_is_a_break_too(self):
        daemon = self.start_daemon(self.backend(lambda request: (
            request.begin_chunks([("Content-Type", "text/event-stream")]), request.chunk(b"data: x\n\n"),
            request.wait_disconnected())), pool={"timeouts": {"idle": "200ms"}})
        with Stream.connect(daemon.address) as stream:
            stream.ask("POST", CHAT, body=b"{}")
            head = stream.read_head()
            stream.read_chunk(head)
            self.assertIn(b'"code":"idle_timeout"', stream.read_chunk(head))
            self.assertRaises((Closed, ConnectionError), lambda: stream.read_chunk(head))

    def test_other_bodies_are_cut(self):
        for content_type, fields in (("application/json", ()), ("text/event-stream", [("Content-Encoding", "gzip")])):
            with self.subTest(content_type):
                _, text, ended = self.broken(CHAT, [b"{"], content_type, fields=fields)
                self.assertEqual((text, ended), (b"{", False))

    def test_over_http2_the_stream_is_reset_behind_the_event(self):
        def script(request):
            request.begin_chunks([("Content-Type", "text/event-stream")])
            request.chunk(b"data: x\n\n")
            time.sleep(0.05)
            request.abort()

        daemon = self.start_daemon(self.backend(script))
        with Peer.connect(daemon.address) as client:
            stream = client.request("POST", CHAT, body=b"{}")
            self.eventually(lambda: stream.reset_code is not None, "a reset")
            self.assertIn(b'"code":"backend_closed"', b"".join(stream._pieces))

    def test_an_error_within_a_200_counts_as_a_failure(self):
        """vLLM ends such a stream cleanly."""
        last = b'data: {"error": {"message": "EngineCore died", "code": 500}}\n\n'
        for chunks in ([b"data: x\n\n", last, b"data: [DONE]\n\n"], [b"data: x\n\n" + last + b"data: [DONE]\n\n"]):
            with self.subTest(chunks=len(chunks)):
                daemon, text, ended = self.broken(CHAT, chunks, end=lambda request: request.end_chunks())
                self.assertEqual((text, ended), (b"".join(chunks), True), "nothing is changed")
                line = daemon.wait_access(1)[0]
                self.assertEqual((line["status"], line["reason"]), (200, "stream_error"))
                self.assertEqual(daemon.api("backends")[0]["errors_total"], 1)

    def test_an_error_in_a_line_counts_too(self):
        lines = [b'{"response": "a"}\n', b'{"error": "the model runner has stopped"}\n']
        for chunks in (lines, [b"".join(lines)]):
            with self.subTest(chunks=len(chunks)):
                daemon, text, ended = self.broken("/api/chat", chunks, "application/x-ndjson", "ollama",
                                                  end=lambda request: request.end_chunks())
                self.assertEqual((text, ended), (b"".join(lines), True), "nothing is changed")
                self.assertEqual(daemon.wait_access(1)[0]["reason"], "stream_error")

    def test_of_an_engine_that_is_not_detected_nothing_is_assumed(self):
        chunks = [b'data: {"error": {"message": "mine"}}\n\n', b"data: [DONE]\n\n"]
        daemon, _, _ = self.broken(CHAT, chunks, engine="auto", end=lambda request: request.end_chunks())
        self.assertIsNone(daemon.wait_access(1)[0]["reason"])

    def test_an_error_that_blames_the_request_does_not(self):
        chunks = [b'data: {"error": {"message": "bad", "code": 400}}\n\n', b"data: [DONE]\n\n"]
        daemon, _, _ = self.broken(CHAT, chunks, end=lambda request: request.end_chunks())
        self.assertIsNone(daemon.wait_access(1)[0]["reason"])


class Overload(case.Case):
    """What evenkeel says itself when it refuses."""

    def test_a_full_queue_says_when_to_come_back(self):
        """At 10 requests a second and 4 in the queue: about half a second."""
        def script(request):
            time.sleep(0.1)
            request.answer(b"ok")

        daemon = self.start_daemon(self.backend(script), pool={
            "limits": {"max_in_flight": 1, "queue": {"size": 4, "timeout": "30s"}}})
        stop = time.monotonic() + 4
        refused = []

        def ask():
            with Stream.connect(daemon.address) as stream:
                while time.monotonic() < stop:
                    answer = stream.exchange("POST", CHAT, body=b"{}")
                    if answer.status == 429:
                        refused.append(answer)
                        time.sleep(0.05)

        for client in [self.spawn(ask) for _ in range(8)]:
            client.join()
        self.assertGreater(len(refused), 5)
        last = refused[-1]
        self.assertEqual((last.reason, last.field("x-should-retry")), ("queue_full", "true"))
        self.assertGreater(int(last.field("retry-after-ms")), 200)
        self.assertLess(int(last.field("retry-after-ms")), 3000)
        self.assertEqual(int(last.field("retry-after")), -(-int(last.field("retry-after-ms")) // 1000))

    def test_without_a_backend_the_client_comes_back_after_two_health_checks(self):
        daemon = self.start_daemon(refusing_address(), pool={
            "engine": "vllm", "health": {"interval": "3s", "fall": 1, "rise": 2}})
        self.eventually(lambda: daemon.api("backends")[0]["state"] != "starting" or True)
        answer = exchange(daemon.address, "POST", CHAT, body=b"{}")
        self.assertEqual((answer.status, answer.reason), (503, "no_backend"))
        self.assertEqual((answer.field("retry-after"), answer.field("retry-after-ms"), answer.field("x-should-retry")),
                         ("6", "6000", "true"))


if __name__ == "__main__":
    case.main()
