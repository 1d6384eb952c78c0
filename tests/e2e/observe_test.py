"""What models report in their responses: in metrics, in the access log, in the last requests, and not in the bytes."""

import json
import pathlib
import re
import subprocess
import threading

import case
from process import BINARY
from stream import Stream, exchange

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
CHAT = "/v1/chat/completions"
RECORDED = pathlib.Path(__file__).parent.parent / "inference" / "responses"
FINGERPRINT = "vllm-0.32.0-tp1-8a1b"


def chat(model="tiny", text="hello", **keys):
    return json.dumps({"messages": [{"role": "user", "content": text}], "model": model, **keys}).encode()


def event(**keys):
    head = {"id": "chatcmpl-9f", "object": "chat.completion.chunk", "created": 1763863000, "model": "tiny"}
    return b"data: " + json.dumps({**head, **keys}, separators=(",", ":")).encode() + b"\n\n"


def choice(delta, reason=None):
    return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]


def events_of(engine, words, include_usage):
    """The stream of an engine for these words: as vLLM 0.32 and SGLang write it."""
    usage = {"prompt_tokens": 9, "total_tokens": 9 + len(words), "completion_tokens": len(words),
             "prompt_tokens_details": {"cached_tokens": 8}}
    null = {"usage": None} if engine == "sglang" else {}
    stamp = {"system_fingerprint": FINGERPRINT} if engine == "vllm" else {}
    stream = [event(choices=choice({"role": "assistant", "content": ""}), **null)]
    stream += [event(choices=choice({"content": word}), **null) for word in words]
    stream.append(event(choices=choice({"content": ""}, "stop"), **null, **({} if include_usage else stamp)))
    if include_usage:
        stream.append(event(choices=[], usage=usage, **stamp))
    return [*stream, b"data: [DONE]\n\n"]


class Observe(case.Case):
    def model(self, engine="vllm", cut=None):
        """A server that streams two words, a chunk for each event or for each `cut` bytes."""

        def script(request):
            body = json.loads(request.body)
            asked = body.get("stream_options", {}).get("include_usage", False)
            self.asked.append(asked)
            events = events_of(engine, ["\"usage\":null ", "world"], asked)
            if cut is not None:
                stream = b"".join(events)
                events = [stream[at:at + cut] for at in range(0, len(stream), cut)]
            request.begin_chunks([("content-type", "text/event-stream; charset=utf-8")])
            for each in events:
                request.chunk(each)
            request.end_chunks()

        self.asked = []
        return self.backend(script)

    def serve(self, *backends, **pool):
        return self.start_daemon(*backends, workers=1, pool={"inspect": True, **QUIET, **pool})


class Bytes(Observe):
    def test_of_streams_are_those_that_the_client_asked_for(self):
        for engine in ("vllm", "sglang"):
            for cut in (None, 1, 7, 100, 100_000):
                with self.subTest(engine=engine, cut=cut):
                    daemon = self.serve(self.model(engine, cut), engine=engine)
                    answer = exchange(daemon.address, "POST", CHAT, (), chat(stream=True))
                    expected = b"".join(events_of(engine, ["\"usage\":null ", "world"], False))
                    self.assertEqual(answer.body, expected)
                    self.assertEqual(self.asked, [True], "evenkeel asks for usage")
                    asked = chat(stream=True, stream_options={"include_usage": True})
                    answer = exchange(daemon.address, "POST", CHAT, (), asked)
                    self.assertEqual(answer.body, b"".join(events_of(engine, ["\"usage\":null ", "world"], True)))
                    lines = daemon.wait_access(2)
                    self.assertEqual([line["prompt_tokens"] for line in lines], [9, 9])
                    daemon.finish()

    def test_of_streams_of_a_detected_engine_are_those_that_the_client_asked_for(self):
        for engine in ("vllm", "sglang"):
            with self.subTest(engine=engine):
                simulators = self.simulators("--engine", engine, "--model", "tiny", count=2)
                daemon = self.start_daemon(*simulators.addresses, workers=1, pool={
                    "inspect": True, "engine": "auto", "picker": "round-robin"})
                self.eventually(lambda: {daemon.backend(each)["engine"] for each in simulators.addresses} == {engine})
                for _ in range(4):
                    answer = exchange(daemon.address, "POST", CHAT, (), chat(stream=True, max_tokens=3))
                    self.assertNotIn(b"prompt_tokens", answer.body)
                    self.assertEqual(b'"usage":null' in answer.body, engine == "sglang", "as the engine writes it")
                asked = chat(stream=True, max_tokens=3, stream_options={"include_usage": True})
                self.assertIn(b"prompt_tokens", exchange(daemon.address, "POST", CHAT, (), asked).body)
                lines = daemon.wait_access(5)
                self.assertEqual([line["completion_tokens"] for line in lines], [3] * 5)
                self.assertTrue(all(line["prompt_tokens"] > 0 for line in lines))
                daemon.finish()

    def test_of_recorded_streams_stay_as_they_are(self):
        for file in sorted(RECORDED.glob("*/*.sse")):
            with self.subTest(file.name):
                recorded = file.read_bytes()

                def script(request, recorded=recorded):
                    request.begin_chunks([("content-type", "text/event-stream")])
                    for at in range(0, len(recorded), 333):
                        request.chunk(recorded[at:at + 333])
                    request.end_chunks()

                daemon = self.serve(self.backend(script), engine="llamacpp")
                self.assertEqual(exchange(daemon.address, "POST", CHAT, (), chat(stream=True)).body, recorded)
                daemon.finish()

    def test_of_an_event_that_a_server_does_not_end_reach_the_client(self):
        def script(request):
            request.begin_chunks([("content-type", "text/event-stream")])
            request.chunk(events_of("vllm", [], True)[0])
            request.chunk(b'data: {"choices":[{"finish_reason":"stop"}]}\n\ndata: {"usage"')
            request.abort()

        daemon = self.serve(self.backend(script), engine="vllm")
        with Stream.connect(daemon.address) as stream:
            body = chat(stream=True)
            stream.send(b"POST %s HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (CHAT.encode(), len(body)) + body)
            head = stream.read_head()
            seen = b""
            while piece := stream.read_chunk(head):
                seen += piece
                if b"backend_closed" in seen:
                    break
        self.assertIn(b'"stop"}]}\n\ndata: {"usage"', seen)


class Reports(Observe):
    def test_are_in_the_access_log(self):
        daemon = self.serve(self.model(), engine="vllm")
        exchange(daemon.address, "POST", CHAT, (), chat(stream=True, max_tokens=20, text="x" * 400))
        line = daemon.wait_access(1)[0]
        got = {name: line[name] for name in ("model", "task", "stream", "max_tokens", "prompt_tokens",
                                             "completion_tokens", "cached_tokens", "finish_reason")}
        self.assertEqual(got, {"model": "tiny", "task": "chat", "stream": True, "max_tokens": 20,
                               "prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 8,
                               "finish_reason": "stop"})
        self.assertGreaterEqual(line["prompt_bytes"], 400)
        self.assertTrue(0 < line["ttft_ms"] <= line["duration_ms"], line)

    def test_are_not_in_lines_of_other_requests(self):
        daemon = self.serve(self.model(), engine="vllm", inspect=False)
        exchange(daemon.address, "POST", CHAT, (), chat(stream=True))
        self.assertNotIn("model", daemon.wait_access(1)[0])
        self.assertEqual(self.asked, [False])

    def test_are_counted_by_model_and_backend(self):
        backend = self.model()
        daemon = self.serve(backend, engine="vllm", models=["tiny"])
        for model in ("tiny", "tiny", "other-name"):
            exchange(daemon.address, "POST", CHAT, (), chat(model, stream=True))
        daemon.wait_access(3)
        for direction, count in (("input", 9), ("output", 2), ("cached", 8)):
            tokens = {model: daemon.metric("evenkeel_tokens_total", pool="pool", model=model, direction=direction)
                      for model in ("tiny", "other-name")}
            self.assertEqual(tokens, {"tiny": 2 * count, "other-name": count})
            self.assertEqual(daemon.metric("evenkeel_backend_tokens_total", pool="pool", backend=backend.address,
                                           direction=direction), 3 * count)
        self.assertEqual(daemon.metric("evenkeel_time_to_first_token_seconds_count", pool="pool", model="tiny"), 2)

    def test_of_gaps_are_those_that_the_client_sees(self):
        released = threading.Event()

        def script(request):
            request.begin_chunks([("content-type", "text/event-stream")])
            events = events_of("vllm", ["a", "b"], True)
            request.chunk(events[0] + events[1])
            released.wait(10)
            for each in events[2:]:
                request.chunk(each)
            request.end_chunks()

        daemon = self.serve(self.backend(script), engine="vllm")
        with Stream.connect(daemon.address) as stream:
            body = chat(stream=True)
            stream.send(b"POST %s HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (CHAT.encode(), len(body)) + body)
            head = stream.read_head()
            first = b""
            while b'"a"' not in first:
                first += stream.read_chunk(head)
            self.eventually(lambda: daemon.metric("evenkeel_time_to_first_token_seconds_count", pool="pool",
                                                  model="tiny") == 1)
            released.set()
            while stream.read_chunk(head):
                pass
        line = daemon.wait_access(1)[0]
        self.assertGreater(line["max_gap_ms"], 0)
        self.assertEqual(line["tpot_ms"], line["max_gap_ms"], "two tokens have one gap")
        self.assertEqual(daemon.metric("evenkeel_inter_token_gap_seconds_count", pool="pool", model="tiny"), 1)
        self.assertEqual(daemon.metric("evenkeel_time_per_output_token_seconds_count", pool="pool", model="tiny"), 1)

    def test_are_among_the_last_requests(self):
        daemon = self.serve(self.model(), engine="vllm")
        for count, (name, model) in enumerate((("first", "tiny"), ("second", "a\u20ac\"b")), 1):
            exchange(daemon.address, "POST", CHAT, [("x-request-id", name)], chat(model, stream=True))
            daemon.wait_access(count)
        requests = daemon.api("requests/recent")
        self.assertEqual([(each["request_id"], each["model"]) for each in requests],
                         [("second", "a\u20ac\"b"), ("first", "tiny")])
        last = requests[-1]
        self.assertEqual((last["prompt_tokens"], last["completion_tokens"], last["cached_tokens"]), (9, 2, 8))
        self.assertEqual([each["outcome"] for each in last["attempts"]], ["answered"])
        self.assertLessEqual(last["ttft_seconds"], last["duration_seconds"])
        shown = subprocess.run([BINARY, "ctl", "requests", "--admin", daemon.admin], text=True,
                               capture_output=True, timeout=30, check=True).stdout
        self.assertIn("tiny", shown)
        self.assertIn("stop", shown)

    def test_teach_how_long_prompts_are(self):
        daemon = self.serve(self.model(), engine="vllm")
        for _ in range(30):
            exchange(daemon.address, "POST", CHAT, (), chat(stream=True, text="x" * 1000))
        daemon.wait_access(30)
        requests = daemon.api("requests/recent")
        self.assertGreater(requests[-1]["estimated_prompt_tokens"], 200)
        self.assertLess(requests[0]["estimated_prompt_tokens"], 60, "the engine counts 9")


class Simulated(Observe):
    def test_tokens_are_those_that_the_engine_counts(self):
        simulators = self.simulators("--engine", "vllm")
        daemon = self.serve(simulators.addresses[0], engine="vllm")
        model = json.loads(exchange(daemon.address, "GET", "/v1/models").body)["data"][0]["id"]
        for stream in (True, False):
            exchange(daemon.address, "POST", CHAT, (),
                     chat(model, stream=stream, max_tokens=12, ignore_eos=True, text="word " * 50))
        lines = [line for line in daemon.wait_access(3) if "model" in line]
        self.assertEqual([line["completion_tokens"] for line in lines], [12, 12])
        self.assertEqual(lines[0]["prompt_tokens"], lines[1]["prompt_tokens"])
        self.assertIsNone(lines[1]["ttft_ms"])
        page = exchange(simulators.addresses[0], "GET", "/metrics").body.decode()
        count = [float(line.split()[-1]) for line in page.splitlines()
                 if line.startswith("vllm:generation_tokens_total{")]
        self.assertEqual(count, [24])
        for engine in ("vllm", "sglang"):
            with self.subTest(engine):
                server = self.simulators("--engine", engine).addresses[0]
                observed = self.serve(server, engine=engine)
                body = chat(stream=True, max_tokens=5, ignore_eos=True)
                body = body.replace(b'"model": "tiny", ', b"")
                streams = [re.sub(rb'"chatcmpl-\w+"', b"the id", exchange(address, "POST", CHAT, (), body).body)
                           for address in (observed.address, server)]
                self.assertEqual(streams[0], streams[1])
                self.assertEqual(observed.wait_access(1)[0]["completion_tokens"], 5)
        self.assertEqual(daemon.metric("evenkeel_tokens_total", pool="pool", model=model, direction="output"), 24)


if __name__ == "__main__":
    case.main()
