"""Pools that are the service of a provider: what it gets of requests, when requests go there, and what clients see of it."""

import json
import threading
import unittest

import case
from backend import Backend
from certificates import Authority, serving
from stream import Stream, exchange

try:
    import openai
except ImportError:
    openai = None

CHAT = "/v1/chat/completions"
JSON = ("content-type", "application/json")
SERVED = "provider-small"
DATED = "provider-small-2026-08-06"  # providers answer with the version that they took


def chat(**more):
    return json.dumps({"model": "small", "messages": [{"role": "user", "content": "hi"}], **more}).encode()


def document(text, model):
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}


def events(model):
    for text in ("Hello", " \"model\":\"", SERVED):
        yield {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model,
               "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    yield {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model,
           "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def provider(request):
    """A provider with an API like OpenAI's."""
    asked = json.loads(request.head.body)
    if asked["model"] != SERVED:
        return request.answer(b'{"error": {"message": "no such model"}}', status=404, fields=[JSON])
    if request.head.target == "/v1/responses":
        return request.answer(json.dumps({"id": "resp_1", "object": "response", "model": DATED, "output": []}).encode(),
                              fields=[JSON])
    if not asked.get("stream"):
        return request.answer(json.dumps(document("hosted", DATED), indent=1).encode(), fields=[JSON])
    request.begin_chunks([("content-type", "text/event-stream")])
    for event in events(DATED):
        request.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
    request.chunk(b"data: [DONE]\n\n")
    return request.end_chunks()


def own(request):
    request.answer(json.dumps(document("own", "small")).encode(), fields=[JSON])


class HostedCase(case.Case):
    def setUp(self):
        self.authority = Authority(self.folder())
        self.provider = self.backend(provider, tls=serving(self.authority.issue("localhost")))
        self.key = f"{self.folder()}/key"
        with open(self.key, "w", encoding="ascii") as file:
            file.write("sk-provider\n")

    def hosted(self, header=None, **more):
        backend = {"address": f"https://localhost:{self.provider.port}", "api_key_file": self.key}
        if header:
            backend["api_key_header"] = header
        return {"name": "hosted", "hosted": True, "backends": [backend], "tls": {"ca": self.authority.cert},
                "model_names": {"small": SERVED}, **more}

    def falling_back(self, address, when=None, pool=None, **config):
        """A daemon with a pool of this server, which falls back to the provider."""
        fallback = {"pool": "hosted", "when": when} if when else "hosted"
        return self.daemon({"pools": [{"name": "own", "backends": [address], "fallback": fallback, **(pool or {})},
                                      self.hosted()],
                            "routes": [{"match": {"path": "/v1/**"}, "pool": "own"}], **config})

    def ask(self, daemon, body=None, fields=(), target=CHAT):
        return exchange(daemon.address, "POST", target, [JSON, *fields], body or chat())


class WhatTheProviderGets(HostedCase):
    def test_its_own_key_host_and_model_and_nothing_of_the_client(self):
        daemon = self.daemon({"pools": [self.hosted()], "tracing": {"otlp": "http://127.0.0.1:1/v1/traces"}, "listeners": [
            {"name": "public", "trusted_proxies": ["127.0.0.0/8"], "tenant_header": "x-team"}]})
        answer = self.ask(daemon, fields=[
            ("authorization", "Bearer sk-client"), ("x-api-key", "sk-client"), ("cookie", "who=me"), ("x-team", "acme"),
            ("x-forwarded-for", "10.1.2.3"), ("x-real-ip", "10.1.2.3"), ("baggage", "user=me"), ("openai-beta", "a=1"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")])
        self.assertEqual(answer.status, 200)
        (request,) = self.provider.exchanges
        sent = {name.lower(): value for name, value in request.head.fields}
        self.assertEqual(sent.pop("host"), f"localhost:{self.provider.port}")
        self.assertEqual(sent.pop("authorization"), "Bearer sk-provider")
        self.assertEqual(sorted(sent), ["content-length", "content-type", "openai-beta", "x-request-id"])
        self.assertEqual(request.head.body, chat().replace(b'"small"', b'"provider-small"'))

    def test_its_key_in_the_field_that_it_wants(self):
        daemon = self.daemon({"pools": [self.hosted(header="Api-Key")]})
        self.assertEqual(self.ask(daemon, fields=[("api-key", "sk-client"), ("authorization", "Bearer x")]).status, 200)
        (request,) = self.provider.exchanges
        self.assertEqual(request.head.all("api-key"), ["sk-provider"])
        self.assertIsNone(request.head.field("authorization"))

    def test_no_request_of_evenkeel_itself(self):
        daemon = self.daemon({"pools": [self.hosted()]})
        listed = json.loads(exchange(daemon.address, target="/v1/models").body)
        self.assertEqual([each["id"] for each in listed["data"]], ["small"])
        self.assertEqual(self.ask(daemon).status, 200)
        self.assertEqual([request.head.target for request in self.provider.exchanges], [CHAT])

    def test_a_model_that_is_not_renamed_stays(self):
        daemon = self.daemon({"pools": [self.hosted()]})
        self.assertEqual(self.ask(daemon, body=chat(model="other")).status, 404)
        self.assertEqual(json.loads(self.provider.exchanges[0].head.body)["model"], "other")


class WhatClientsSee(HostedCase):
    def test_their_own_name_of_the_model_in_documents_and_events(self):
        daemon = self.daemon({"pools": [self.hosted()]})
        whole = self.ask(daemon)
        self.assertEqual(whole.body, json.dumps(document("hosted", "small"), indent=1).encode())
        stream = self.ask(daemon, body=chat(stream=True))
        expected = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events("small"))
        self.assertEqual(stream.body, expected + b"data: [DONE]\n\n")
        response = self.ask(daemon, body=json.dumps({"model": "small", "input": "hi"}).encode(), target="/v1/responses")
        self.assertEqual(json.loads(response.body)["model"], "small")

    def test_the_name_of_the_pool_s_only_model_too(self):
        daemon = self.daemon({"pools": [self.hosted(model_names={}, model=SERVED)]})
        self.assertEqual(json.loads(self.ask(daemon, body=chat(model="any")).body)["model"], "any")

    def test_usage_of_streams_is_asked_for_where_the_pool_says_so(self):
        daemon = self.daemon({"pools": [self.hosted(stream_usage="on")]})
        self.assertEqual(self.ask(daemon, body=chat(stream=True)).status, 200)
        self.assertEqual(json.loads(self.provider.exchanges[0].head.body)["stream_options"], {"include_usage": True})


class Fallback(HostedCase):
    def source(self, answer):
        return json.loads(answer.body)["choices"][0]["message"]["content"]

    def test_while_the_own_pool_is_down_and_until_it_is_back(self):
        server = self.backend(own)
        daemon = self.falling_back(server.address, when=["down"], pool={"health": {"check": "tcp", "interval": "100ms"}})
        self.assertEqual(self.source(self.ask(daemon)), "own")
        server.close()
        answer = self.ask(daemon)
        self.assertEqual((self.source(answer), answer.field("x-evenkeel-fallback")), ("hosted", "hosted"))
        self.assertEqual(json.loads(answer.body)["model"], "small")
        again = Backend(own, port=server.port)
        self.addCleanup(again.close)
        self.eventually(lambda: self.source(self.ask(daemon)) == "own", "the own pool")
        self.assertEqual(daemon.wait_access(1)[0]["pool"], "own")

    def test_when_decides_what_goes_there(self):
        for when, busy_status, down_status in ((["down"], 429, 200), (["saturated"], 200, 502), (None, 200, 200)):
            with self.subTest(when=when):
                held = threading.Event()
                server = self.backend(lambda request, held=held: (held.wait(20), own(request)))
                daemon = self.falling_back(server.address, when=when,
                                           pool={"limits": {"max_in_flight": 1, "queue": {"size": 0}}})
                with Stream.connect(daemon.address) as first:
                    first.ask("POST", CHAT, [JSON], chat())
                    self.eventually(lambda server=server: server.exchanges, "the first request")
                    self.assertEqual(self.ask(daemon).status, busy_status)
                    held.set()
                    self.assertEqual(first.read_response("POST").status, 200)
                server.close()
                self.assertIn(self.ask(daemon).status, (down_status, 503 if down_status == 502 else down_status))
                daemon.finish()

    @unittest.skipIf(openai is None, "PyPI's openai is not installed (./dev setup)")
    def test_openai_s_client_does_not_notice(self):
        server = self.backend(own)
        daemon = self.falling_back(server.address)
        client = openai.OpenAI(base_url=f"http://{daemon.address}/v1", api_key="sk-client", timeout=20, max_retries=0)
        self.addCleanup(client.close)

        def ask(**kwargs):
            return client.chat.completions.create(model="small", messages=[{"role": "user", "content": "hi"}], **kwargs)

        self.assertEqual(ask().choices[0].message.content, "own")
        server.close()
        whole = ask()
        self.assertEqual((whole.model, whole.choices[0].message.content), ("small", "hosted"))
        streamed = list(ask(stream=True))
        self.assertEqual({each.model for each in streamed}, {"small"})
        self.assertEqual("".join(each.choices[0].delta.content or "" for each in streamed), f"Hello \"model\":\"{SERVED}")
        self.assertNotIn("sk-client", str([request.head.fields for request in self.provider.exchanges]))


if __name__ == "__main__":
    case.main()
