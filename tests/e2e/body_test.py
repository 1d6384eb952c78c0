"""What routes, pools and tenants change in the bodies of requests for text."""

import gzip
import hashlib
import json
import unittest

import case
from stream import exchange

try:
    import openai
except ImportError:
    openai = None

CHAT = "/v1/chat/completions"
JSON = ("content-type", "application/json")
KEY = "sk-acme"


def chat(**more):
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **more}).encode()


def answer(request):
    request.answer(json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}).encode(),
                   fields=[JSON])


class BodyCase(case.Case):
    def changing(self, route=None, pool=None, **config):
        self.server = self.backend(answer)
        return self.daemon({"pools": [{"name": "pool", "backends": [self.server.address], **({"body": pool} if pool else {})}],
                            "routes": [{"match": {"path": "/v1/**"}, "pool": "pool", **({"body": route} if route else {})},
                                       {"match": {"path": "/raw/**"}, "pool": "pool"}], **config})

    def ask(self, daemon, body, target=CHAT, fields=()):
        return exchange(daemon.address, "POST", target, [JSON, *fields], body)

    def sent(self, daemon, body, **kwargs):
        """The body that the server got."""
        reply = self.ask(daemon, body, **kwargs)
        self.assertEqual(reply.status, 200, reply.body)
        request = self.server.exchanges[-1]
        self.assertIn(request.head.length(), (None, len(request.head.body)))
        return request.head.body


class Changes(BodyCase):
    def test_defaults_are_added_and_all_other_bytes_stay(self):
        daemon = self.changing(route={"defaults": {"temperature": 0.2, "stop": ["\n"]}})
        body = b' {"model" : "m",\r\n "messages":[{"role":"user","content":"\\u00e4"}], "temperature" :1.50 } '
        self.assertEqual(self.sent(daemon, body), body.replace(b'{"model"', b'{"stop":["\\n"],"model"', 1))
        self.assertEqual(json.loads(self.sent(daemon, chat()))["temperature"], 0.2)

    def test_members_are_replaced_wherever_they_are(self):
        daemon = self.changing(pool={"set": {"chat_template_kwargs": {"enable_thinking": False}}})
        for size in (1, 300_000, 3_000_000):  # the member is in a later piece of the body, or behind what is inspected
            body = chat(filler="x" * size, chat_template_kwargs={"enable_thinking": True, "more": [1, {"a": "}"}]}, top_k=3)
            self.assertEqual(json.loads(self.sent(daemon, body)),
                             {**json.loads(body), "chat_template_kwargs": {"enable_thinking": False}})

    def test_the_route_comes_before_the_pool(self):
        daemon = self.changing(route={"defaults": {"seed": 1, "max_tokens": 90}},
                               pool={"defaults": {"seed": 2, "top_k": 5}, "max_tokens": 50})
        self.assertEqual(self.sent(daemon, chat()),
                         b'{"seed":1,"top_k":5,"max_tokens":50,' + chat()[1:])
        self.assertEqual(self.sent(daemon, chat(), target="/raw/v1/chat/completions"),
                         b'{"seed":2,"top_k":5,"max_tokens":50,' + chat()[1:])

    def test_each_api_has_its_name_for_the_most_tokens(self):
        daemon = self.changing(route={"max_tokens": 10})
        for target, body, name in ((CHAT, {"max_completion_tokens": 99}, "max_completion_tokens"),
                                   (CHAT, {}, "max_tokens"), ("/v1/completions", {"prompt": "a"}, "max_tokens"),
                                   ("/v1/responses", {"input": "a"}, "max_output_tokens"),
                                   ("/v1/messages", {"max_tokens": 11}, "max_tokens")):
            got = json.loads(self.sent(daemon, json.dumps({"model": "m", **body}).encode(), target=target))
            self.assertEqual(got, {"model": "m", **body, name: 10}, target)

    def test_other_requests_pass_unchanged(self):
        daemon = self.changing(route={"set": {"temperature": 1}, "max_tokens": 10})
        body = json.dumps({"model": "m", "input": "a", "max_tokens": 99}).encode()
        for target in ("/v1/embeddings", "/v1/rerank", "/v1/api/chat"):
            self.assertEqual(self.sent(daemon, body, target=target), body)
        self.assertEqual(self.sent(daemon, chat(max_tokens=99), target="/raw/v1/chat/completions"), chat(max_tokens=99))

    def test_a_compressed_body_cannot_be_changed(self):
        daemon = self.changing(route={"max_tokens": 10})
        refused = self.ask(daemon, gzip.compress(chat(max_tokens=99)), fields=[("content-encoding", "gzip")])
        self.assertEqual((refused.status, refused.field("x-evenkeel-reason")), (400, "bad_request"))
        self.assertEqual(self.server.exchanges, [])


class Tenants(BodyCase):
    def test_a_request_for_more_tokens_than_the_tenant_may_is_refused(self):
        daemon = self.changing(pool={"defaults": {"max_tokens": 700}}, tenants=[
            {"name": "acme", "max_tokens": 500, "keys_sha256": [hashlib.sha256(KEY.encode()).hexdigest()]}])
        key = [("authorization", f"Bearer {KEY}")]
        refused = self.ask(daemon, chat(max_tokens=501), fields=key)
        error = json.loads(refused.body)["error"]
        self.assertEqual((refused.status, error["type"]), (400, "invalid_request_error"))
        self.assertIn("max_tokens is too large: 501, and at most 500 are allowed", error["message"])
        self.assertEqual(self.server.exchanges, [])
        self.assertEqual(json.loads(self.sent(daemon, chat(), fields=key))["max_tokens"], 500)
        self.assertEqual(self.sent(daemon, chat(max_tokens=500), fields=key), chat(max_tokens=500))
        self.assertEqual(json.loads(self.sent(daemon, chat()))["max_tokens"], 700, "others are not limited")

    def test_cached_prefixes_have_the_salt_of_the_tenant_whatever_the_client_names(self):
        salts = {"acme": "4c1d0f6f3b3f4f0c9d59c0a6e8a4d9b1", "beta": "b-0123456789abcdef"}
        daemon = self.changing(pool={"set": {"cache_salt": "of-the-pool"}}, tenants=[
            {"name": name, "cache_salt": salt, "keys_sha256": [hashlib.sha256(name.encode()).hexdigest()]}
            for name, salt in salts.items()])
        for name, salt in salts.items():
            key = [("authorization", f"Bearer {name}")]
            for target, body in ((CHAT, {"messages": []}), (CHAT, {"messages": [], "cache_salt": "guessed"}),
                                 (CHAT, {"messages": [{"role": "user", "content": "x" * (2 << 20)}]}),
                                 ("/v1/completions", {"prompt": "a", "cache_salt": None}), ("/v1/responses", {"input": "a"})):
                got = json.loads(self.sent(daemon, json.dumps({"model": "m", **body}).encode(), target=target, fields=key))
                self.assertEqual(got, {"model": "m", **body, "cache_salt": salt}, target)
            twice = b'{"model":"m","messages":[],"cache_salt":"a","cache\\u005fsalt":"b"}'
            self.assertEqual(self.sent(daemon, twice, fields=key).count(json.dumps(salt).encode()), 2)
        shown = daemon.ask_admin("/api/v1/config").body.decode()
        for salt in salts.values():
            self.assertNotIn(salt, shown)

    def test_requests_of_no_tenant_keep_their_salt(self):
        daemon = self.changing(tenants=[{"name": "acme", "cache_salt": "4c1d0f6f3b3f4f0c9d59c0a6e8a4d9b1",
                                         "keys_sha256": [hashlib.sha256(KEY.encode()).hexdigest()]}])
        self.assertEqual(self.sent(daemon, chat(cache_salt="own")), chat(cache_salt="own"))
        self.assertEqual(self.sent(daemon, chat()), chat())

    def test_a_compressed_body_that_can_get_no_salt_is_refused(self):
        daemon = self.changing(tenants=[{"name": "acme", "cache_salt": "4c1d0f6f3b3f4f0c9d59c0a6e8a4d9b1",
                                         "keys_sha256": [hashlib.sha256(KEY.encode()).hexdigest()]}])
        refused = self.ask(daemon, gzip.compress(chat()),
                           fields=[("content-encoding", "gzip"), ("authorization", f"Bearer {KEY}")])
        self.assertEqual((refused.status, refused.field("x-evenkeel-reason")), (400, "bad_request"))
        self.assertEqual(self.server.exchanges, [])

    @unittest.skipIf(openai is None, "PyPI's openai is not installed (./dev setup)")
    def test_openai_s_client_understands_the_refusal(self):
        daemon = self.changing(tenants=[
            {"name": "acme", "max_tokens": 500, "keys_sha256": [hashlib.sha256(KEY.encode()).hexdigest()]}])
        client = openai.OpenAI(base_url=f"http://{daemon.address}/v1", api_key=KEY, timeout=20, max_retries=0)
        self.addCleanup(client.close)
        with self.assertRaises(openai.BadRequestError):
            client.chat.completions.create(model="m", messages=[], max_completion_tokens=501)
        self.assertEqual(client.chat.completions.create(model="m", messages=[], max_completion_tokens=500).model, "m")


if __name__ == "__main__":
    case.main()
