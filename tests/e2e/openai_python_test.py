"""PyPI's `openai`: objects and events through evenkeel equal those without it."""

import json
import unittest

import case
from ports import refusing_address

try:
    import openai
except ImportError:
    openai = None


@unittest.skipIf(openai is None, "PyPI's openai is not installed (./dev setup)")
class OpenAi(case.Case):
    def client(self, address, **kwargs):
        client = openai.OpenAI(base_url=f"http://{address}/v1", api_key="sk-test",
                               **{"timeout": 20, "max_retries": 0, **kwargs})
        self.addCleanup(client.close)
        return client

    def both(self, ask):
        simulator = self.simulators("--model", "m").addresses[0]
        daemon = self.start_daemon(simulator, pool={"engine": "vllm"})
        return ask(self.client(simulator)), ask(self.client(daemon.address))

    def chat(self, client, **kwargs):
        return client.chat.completions.create(
            model="m", max_tokens=16, messages=[{"role": "user", "content": "Count to ten."}], **kwargs)

    def test_a_chat_completion_is_the_same(self):
        direct, relayed = self.both(self.chat)
        self.assertEqual(relayed.model_dump(), direct.model_dump())
        self.assertTrue(direct.choices[0].message.content)

    def test_a_streamed_chat_completion_has_the_same_events(self):
        def stream(client):
            return [event.model_dump() for event in
                    self.chat(client, stream=True, stream_options={"include_usage": True})]

        direct, relayed = self.both(stream)
        self.assertEqual(relayed, direct)
        self.assertGreater(len(direct), 16)
        self.assertIsNotNone(direct[-1]["usage"])

    def test_models_and_embeddings_are_the_same(self):
        def ask(client):
            return (client.models.list().model_dump(),
                    client.embeddings.create(model="m", input=["one", "two"]).model_dump())

        direct, relayed = self.both(ask)
        self.assertEqual(relayed, direct)

    def test_a_client_that_stops_reading_stops_the_generation(self):
        simulators = self.simulators("--model", "m", speed=1)
        daemon = self.start_daemon(simulators.addresses[0], pool={"engine": "vllm"})
        stream = self.client(daemon.address).chat.completions.create(
            model="m", max_tokens=2000, messages=[{"role": "user", "content": "Go on."}], stream=True)
        next(iter(stream))
        stream.close()
        daemon.wait_at_rest()
        self.assertEqual(daemon.wait_access(1)[0]["reason"], "client_gone")

    def test_our_errors_are_errors_of_the_sdk(self):
        daemon = self.start_daemon(refusing_address())
        with self.assertRaises(openai.InternalServerError) as raised:
            self.chat(self.client(daemon.address))
        error = raised.exception
        self.assertEqual((error.status_code, error.code, error.type),
                         (502, "connect_failed", "upstream_error"))
        self.assertEqual(error.response.headers["x-evenkeel-reason"], "connect_failed")
        self.assertIsNotNone(error.request_id, "x-request-id, as OpenAI's own")

    def test_the_sdk_retries_a_full_pool_after_the_time_in_the_response(self):
        backend = self.backend(lambda ask: ask.stream.wait_closed())
        daemon = self.start_daemon(backend, pool={
            "limits": {"max_in_flight": 1, "queue": {"size": 0}}})
        holder = self.client(daemon.address, timeout=60)
        holding = self.spawn(lambda: self.holds(holder))
        self.eventually(lambda: backend.exchanges, "a full pool")

        with self.assertRaises(openai.RateLimitError) as raised:
            self.chat(self.client(daemon.address, max_retries=1))
        self.assertEqual(raised.exception.code, "queue_full")
        # Two requests: the SDK honours x-should-retry and retry-after-ms.
        self.eventually(lambda: daemon.metric("evenkeel_errors_total", reason="queue_full") >= 2, "both are counted")
        self.assertEqual(daemon.metric("evenkeel_errors_total", reason="queue_full"), 2)
        backend.close()
        holding.join()

    def holds(self, client):
        with self.assertRaises(openai.APIError):
            self.chat(client)

    def test_a_server_that_dies_mid_stream_raises(self):
        def script(ask):
            ask.begin_chunks([("Content-Type", "text/event-stream")])
            ask.chunk(b"data: " + json.dumps({
                "id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}).encode()
                + b"\n\n")
            ask.stream.close()

        daemon = self.start_daemon(self.backend(script))
        with self.assertRaises(Exception) as raised:
            for _ in self.chat(self.client(daemon.address), stream=True):
                pass
        self.assertRegex(str(raised.exception), "(?i)incomplete|closed|read|connection")


if __name__ == "__main__":
    case.main()
