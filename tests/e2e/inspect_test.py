"""Requests whose bodies are read: where they go, what is refused, and what backends get."""

import contextlib
import gzip
import json
import os
import threading
import time
import zlib

import case
import http2
from kserve_grpc_test import PATIENCE, Kserve, needs_client
from listening_server import ListeningServer
from ports import refusing_address
from simulated_triton_test import Answers
from stream import Closed, Stream, exchange

try:
    import numpy
    from tritonclient.utils import InferenceServerException
except ImportError:
    pass

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
CHAT = "/v1/chat/completions"


def chat(model="tiny", text="hello", **keys):
    """As the OpenAI SDK writes it: the messages, then the model."""
    return json.dumps({"messages": [{"role": "user", "content": text}], "model": model, **keys}).encode()


def zstd_frame(text):
    """A frame of zstd with the text as it is, in one block (RFC 8878)."""
    head = bytes([0xA0]) + len(text).to_bytes(4, "little")  # one segment, of this size
    return b"\x28\xb5\x2f\xfd" + head + (len(text) << 3 | 1).to_bytes(3, "little") + text


class Inspect(case.Case):
    def pools(self, routes=(), limits=None, workers=None, **pools):
        """A daemon with a pool for each keyword, whose one backend answers with the pool's name."""
        self.servers = {name: self.backend(lambda request, name=name: request.answer(name.encode()))
                        for name in pools}
        config = {"pools": [{"name": name, "backends": [self.servers[name].address], **QUIET, **keys}
                            for name, keys in pools.items()]}
        if routes:
            config["routes"] = list(routes)
        if limits:
            config["limits"] = limits
        if workers:
            config["workers"] = workers
        return self.daemon(config)

    def post(self, daemon, body, target=CHAT, fields=()):
        return exchange(daemon.address, "POST", target, fields, body)

    def pool_of(self, daemon, body, target=CHAT, fields=()):
        answer = self.post(daemon, body, target, fields)
        return answer.body.decode() if answer.status == 200 else answer.status

    def last(self, name):
        """The last request that the pool's backend got from a client: evenkeel itself asks for lists of models."""
        return [each for each in self.servers[name].exchanges if each.method == "POST"][-1]

    def received(self, name):
        return self.last(name).body


class Routes(Inspect):
    def models(self):
        return self.pools([{"match": {"path": "/v1/**", "model": ["llama-*", "tiny"]}, "pool": "llama"},
                           {"match": {"path": "/v1/**", "model": "qwen/*"}, "pool": "qwen"},
                           {"match": {"path": "/v1/models"}, "pool": "llama"},
                           {"match": {"path": "/other/**"}, "pool": "qwen"}], llama={}, qwen={})

    def test_by_model(self):
        daemon = self.models()
        for model, pool in (("llama-8b", "llama"), ("tiny", "llama"), ("qwen/3", "qwen"), ("gpt", 404)):
            with self.subTest(model):
                self.assertEqual(self.pool_of(daemon, chat(model)), pool)
        self.assertEqual(self.pool_of(daemon, b'{"mod\\u0065l":"t\\u0069ny"}'), "llama")
        self.assertIn(("/v1/** llama-* tiny", "llama", 200),
                      [(line["route"], line["pool"], line["status"]) for line in daemon.wait_access(5)])
        self.assertEqual(daemon.metric("evenkeel_inspected_requests_total", result="complete"), 5)

    def test_the_backend_gets_every_byte(self):
        daemon = self.models()
        body = b' {"z": 0.30000000000000004, "model" : "tiny", "seed": 12345678901234567890123, "x": "\\ud83d"} '
        self.assertEqual(self.pool_of(daemon, body), "llama")
        self.assertEqual(self.received("llama"), body)
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
            for byte in body:
                stream.send(b"1\r\n" + bytes([byte]) + b"\r\n")
            stream.send(b"0\r\n\r\n")
            self.assertEqual(stream.read_response().status, 200)
        self.assertEqual(self.received("llama"), body)

    def test_requests_without_a_body_that_is_read_match_by_their_heads(self):
        daemon = self.models()
        for method, target, pool in (("GET", "/v1/files", "llama"), ("GET", CHAT, "llama"), ("OPTIONS", CHAT, "llama"),
                                     ("OPTIONS", "/v1/realtime?model=qwen/3", "llama"), ("HEAD", "/v1/x", ""),
                                     ("GET", "/v1/realtime?model=qwen%2F3", "qwen"), ("DELETE", "/v1/models/qwen/3", "qwen"),
                                     ("POST", "/v1/responses/resp_1/cancel", "llama")):
            answer = exchange(daemon.address, method, target)
            self.assertEqual((answer.status, answer.body.decode()), (200, pool), f"{method} {target}")
        self.assertEqual(exchange(daemon.address, "POST", "/v1/realtime/calls?model=qwen/3",
                                  [("content-type", "application/sdp")], b"v=0").body, b"qwen")
        self.assertEqual(self.pool_of(daemon, b"not JSON", "/other/x"), "qwen")

    def test_no_path_hides_a_body(self):
        daemon = self.models()
        for path in ("//v1/chat/completions", "/v1/./chat/completions", "/v1/chat/completion%73?x=y"):
            self.assertEqual(self.pool_of(daemon, chat("qwen/3"), path), "qwen", path)

    def test_servers_that_decode_a_path_see_no_other_model(self):
        daemon = self.pools([{"match": {"path": "/v1/**", "model": "big"}, "pool": "big"},
                             {"match": {"path": "/v1/**"}, "pool": "rest"}], big={}, rest={"model": "served"})
        for path in ("/v1/chat%2Fcompletions", "/v1/chat%2fcompletions"):
            self.assertEqual(self.pool_of(daemon, chat("big"), path), "big", path)
            self.assertEqual(self.pool_of(daemon, chat(), path), "rest", path)
            self.assertEqual(self.received("rest"), chat("served"))
        for kind in ("text/plain", "multipart/form-data; boundary=x"):
            self.assertEqual(self.pool_of(daemon, chat("big"), fields=[("content-type", kind)]), "big", kind)

    def test_a_form_that_names_the_model_of_the_pool_passes(self):
        daemon = self.pools([{"pool": "a"}], a={"model": "served"})
        kind = [("content-type", "multipart/form-data; boundary=x")]
        form = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\n%s\r\n--x--\r\n'
        for path in ("/v1/audio/transcriptions", "/v1/images/edits"):
            self.assertEqual(self.pool_of(daemon, form % b"served", path, kind), "a")
            self.assertEqual(self.received("a"), form % b"served")
            answer = exchange(daemon.address, "POST", path, kind, form % b"other")
            self.assertEqual(answer.status, 400)
            self.assertIn(b"must be replaced", answer.body)

    def test_a_form_that_servers_read_differently_names_no_model(self):
        daemon = self.pools([{"match": {"model": "tiny"}, "pool": "a"}, {"pool": "b"}], a={}, b={})
        path, kind = "/v1/audio/transcriptions", [("content-type", "multipart/form-data; boundary=x")]

        def form(*parts):
            return b"".join(b"--x\r\n%s\r\n\r\n%s\r\n" % part for part in parts) + b"--x--\r\n"

        plain = (b'Content-Disposition: form-data; name="model"', b"tiny")
        self.assertEqual(self.pool_of(daemon, form(plain), path, kind), "a")
        for other in (b'Content-Disposition: form-data; x="%s"; name="model"' % (b"y" * 600),
                      b'Content-Disposition: form-data; name="z"; name="model"',
                      b'Content-Disposition: form-data; name="mod\\el"',
                      b'Content-Disposition: form-data; name="model"\r\nContent-Disposition: form-data; name="z"'):
            self.assertEqual(self.pool_of(daemon, form(plain, (other, b"big")), path, kind), "b", other[:60])

    def test_ollama_s_keys_have_any_case(self):
        daemon = self.pools([{"match": {"path": "/**", "model": "big"}, "pool": "big"},
                             {"match": {"path": "/**"}, "pool": "rest"}], big={}, rest={"model": "served"})
        two = b'{"model": "%s", "Model": "%s"}'
        self.assertEqual(self.pool_of(daemon, two % (b"tiny", b"big"), "/api/chat"), "big")
        self.assertEqual(self.pool_of(daemon, two % (b"big", b"tiny"), "/api/generate"), "rest")
        self.assertEqual(self.received("rest"), two % (b"served", b"served"))
        self.assertEqual(self.pool_of(daemon, two % (b"big", b"tiny"), CHAT), "big")

    def test_compressed_bodies_are_read_and_passed_on(self):
        daemon = self.models()
        bodies = {"gzip": gzip.compress(chat("qwen/3")[:9]) + gzip.compress(chat("qwen/3")[9:]), "x-gzip": gzip.compress(chat("qwen/3")),
                  "deflate": zlib.compress(chat("qwen/3")),
                  "zstd": zstd_frame(chat("qwen/3")[:9]) + zstd_frame(chat("qwen/3")[9:])}
        for encoding, body in bodies.items():
            self.assertEqual(self.pool_of(daemon, body, fields=[("content-encoding", encoding)]), "qwen", encoding)
            self.assertEqual(self.received("qwen"), body)
        self.assertEqual(self.pool_of(daemon, bodies["zstd"], fields=[("x-body-compressed", "zstd")]), "qwen")
        for fields in ([("content-encoding", "br")], [("content-encoding", "zstd, gzip")]):
            self.assertEqual(self.pool_of(daemon, bodies["zstd"], fields=fields), 400)
        # Damaged data says what came before the damage: nothing here.
        self.assertEqual(self.pool_of(daemon, bodies["zstd"][:20], fields=[("content-encoding", "zstd")]), 400)

    def test_no_encoding_hides_a_plain_body(self):
        """vLLM and others take no notice of these fields."""
        daemon = self.pools([{"match": {"path": "/v1/**", "model": "big"}, "pool": "big"},
                             {"match": {"path": "/v1/**"}, "pool": "rest"}], big={}, rest={"model": "served"})
        for name in ("content-encoding", "x-body-compressed"):
            for value in ("zstd", "gzip", "deflate", "br", "foo", "gzip, zstd"):
                with self.subTest(name=name, value=value):
                    self.assertEqual(self.pool_of(daemon, chat("big"), fields=[(name, value)]), "big")
                    self.assertEqual(self.pool_of(daemon, chat(), fields=[(name, value)]), "rest")
                    self.assertEqual(self.received("rest"), chat("served"))
        both = [("content-encoding", "foo"), ("x-body-compressed", "zstd")]
        self.assertEqual(self.pool_of(daemon, zstd_frame(chat("big")), fields=both), "big")

    def test_bodies_that_cannot_be_decompressed_count_as_unread(self):
        daemon = self.pools(pool={"inspect": True})
        whole = gzip.compress(chat(text="x" * 1000))
        for encoding, body in (("gzip", whole), ("gzip", whole[:10] + b"\xff" + whole[11:]), ("gzip", whole[:-9]),
                               ("zstd", zstd_frame(chat())[:6])):
            self.assertEqual(self.pool_of(daemon, body, fields=[("content-encoding", encoding)]), "pool")
        for result, count in (("complete", 1), ("unread", 2), ("partial", 1)):
            self.assertEqual(daemon.metric("evenkeel_inspected_requests_total", result=result), count, result)

    def test_any_path_s_body_may_name_the_model(self):
        daemon = self.pools([{"match": {"model": "big"}, "pool": "big"}, {"match": {"model": "tiny"}, "pool": "tiny"}],
                            big={}, tiny={"model": "served"})
        for path in ("/v1/messages/count_tokens", "/tokenize", "/v1/moderations", "/v1/images/generations", "/classify",
                     "/pooling", "/invocations", "/v1/responses/compact", "/prefix/v1/chat/completions", "/next/year"):
            for kind in ("application/json", "application/vnd.api+json; charset=utf-8", "text/plain", None):
                fields = [("content-type", kind)] if kind else []
                body = chat("big")
                self.assertEqual(self.pool_of(daemon, body, path, fields), "big", path)
                self.assertEqual(self.received("big"), body)
                self.assertEqual(self.pool_of(daemon, chat(), path, fields), "tiny", path)
                self.assertEqual(self.received("tiny"), chat("served"), "the pool's name")
        self.assertEqual(self.pool_of(daemon, b'{"name": "big"}', "/api/show"), "big")

    def test_other_bodies_pass_through_a_pool_that_renames(self):
        daemon = self.pools(pool={"model": "served"})
        form = b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n' + b"x" * 2_000_000 + b"\r\n--b--\r\n"
        for body, kind in ((b"\0\1 file", "application/octet-stream"), (b"a=1&b=2", "application/x-www-form-urlencoded"),
                           (form, "multipart/form-data; boundary=b"), (b'{"a":1}\n{"a":2}\n', "application/x-ndjson"),
                           (b"[1]", "application/json")):
            self.assertEqual(self.pool_of(daemon, body, "/v1/files", [("content-type", kind)]), "pool", kind)
            self.assertEqual(self.received("pool"), body)
        self.assertEqual(self.pool_of(daemon, b"{,}", "/v1/x", [("content-type", "application/json")]), 400)

    def test_by_task_and_size(self):
        daemon = self.pools([{"match": {"task": "embedding"}, "pool": "embed"},
                             {"match": {"task": ["chat", "completion"], "prompt_tokens": {"min": 1000}},
                              "pool": "long"},
                             {"match": {"max_tokens": {"max": 16}}, "pool": "short"},
                             {"pool": "rest"}], embed={}, long={}, short={}, rest={})
        self.assertEqual(self.pool_of(daemon, b'{"input": "x", "model": "m"}', "/v1/embeddings"), "embed")
        self.assertEqual(self.pool_of(daemon, chat(text="word " * 1000)), "long")
        self.assertEqual(self.pool_of(daemon, chat(max_tokens=16)), "short")
        self.assertEqual(self.pool_of(daemon, chat(max_tokens="16")), "short")
        self.assertEqual(self.pool_of(daemon, chat(max_tokens=16.0)), "short")
        self.assertEqual(self.pool_of(daemon, b'{"messages": [], "max_tokens": 1.6e1}'), "short")
        self.assertEqual(self.pool_of(daemon, chat(max_completion_tokens=17)), "rest")
        self.assertEqual(self.pool_of(daemon, chat(max_tokens="17.0")), "rest")
        self.assertEqual(self.pool_of(daemon, chat()), "rest")

    def test_by_the_model_in_the_path(self):
        daemon = self.pools([{"match": {"model": "resnet*"}, "pool": "a"}, {"pool": "b"}], a={}, b={})
        body = b'{"inputs": []}'
        self.assertEqual(self.pool_of(daemon, body, "/v2/models/resnet50/infer"), "a")
        self.assertEqual(self.pool_of(daemon, body, "/v2/models/bert/versions/1/infer"), "b")

    def test_by_the_model_before_a_verb(self):
        daemon = self.pools([{"match": {"model": ["resnet", "org/name", "gemini-2"]}, "pool": "a"}, {"pool": "b"}],
                            a={"model": "served"}, b={})
        for name, pool in (("resnet", "a"), ("resnet/versions/3", "a"), ("resnet/labels/stable", "a"), ("org%2Fname", "a"),
                           ("gemini-2", "a"), ("other", "b"), ("other/versions/3", "b")):
            for place, verb in (("/v1/models/", ":predict"), ("/v1/models/", ":explain"), ("/v1beta/models/", ":generateContent"),
                                ("/v1beta/models/", ":streamGenerateContent?alt=sse")):
                for body in (b'{"instances": [1], "model": "else"}', b"[", b""):
                    path = place + name + verb
                    self.assertEqual(self.pool_of(daemon, body, path), pool, path)
                    self.assertEqual((self.last(pool).target, self.received(pool)), (path, body))
            self.assertEqual(exchange(daemon.address, "GET", f"/v1/models/{name}/metadata").body, pool.encode())
        self.assertEqual(self.pool_of(daemon, b"{}", "/v2/repository/models/resnet/load"), "a")
        self.assertEqual(self.pool_of(daemon, b"{}", "/v2/repository/models/bert/unload"), "b")

    def test_an_empty_body_is_none(self):
        daemon = self.pools([{"match": {"model": "tiny"}, "pool": "a"}, {"match": {"model": "big"}, "pool": "b"}], a={}, b={})
        for path, pool in (("/reset_prefix_cache", "a"), ("/x?model=big", "b"), ("/v1/models/big:explain", "b"), ("/v1/models/big", "b")):
            self.assertEqual(self.pool_of(daemon, b"", path), pool)
            with Stream.connect(daemon.address) as stream:
                stream.send(b"POST %s HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" % path.encode())
                self.assertEqual(stream.read_response().body, pool.encode(), path)
            with http2.Peer.connect(daemon.address) as peer:
                self.assertEqual(peer.exchange("POST", path, body=b"").body, pool.encode(), path)

    def test_encoded_names_in_the_path(self):
        """MLServer decodes all of a path before it looks for the model; Triton takes what stands between two slashes as it is.
        Neither serves a name with a slash, encoded or not, so that no path may hide a name that one of them serves."""
        daemon = self.pools([{"match": {"path": "/v2/**", "model": ["work", "a b", "org/*"]}, "pool": "a"},
                             {"match": {"path": "/v2/**"}, "pool": "b"}], a={}, b={})
        for name, pool in (("work", "a"), ("w%6frk", "a"), ("work%2Fversions%2F1", "a"), ("work%2fversions/1", "a"),
                           ("a%20b", "a"), ("a%2520b", "b"), ("org%2Fname", "a"), ("org/name", "b"), ("a%2Fb", "b")):
            path = f"/v2/models/{name}/infer"
            self.assertEqual(self.pool_of(daemon, b'{"inputs": []}', path), pool, name)
            self.assertEqual(self.last(pool).target, path)
        self.assertEqual(self.pool_of(daemon, b'{"inputs": []}', "/v2/models%2Fwork%2Finfer"), "a")


class Refusals(Inspect):
    def by_model(self):
        return self.pools([{"match": {"path": "/v1/chat/**", "method": "POST", "model": "tiny"}, "pool": "a"},
                           {"match": {"path": "/**", "method": ["POST", "GET"], "model": ["big", "org/*"]}, "pool": "b"},
                           {"match": {"host": "other", "path": "/v2/**"}, "pool": "b"}], a={"models": ["tiny"]}, b={"models": ["big"]})

    def refused(self, daemon, answer, status, reason):
        self.assertEqual((answer.status, answer.field("x-evenkeel-reason")), (status, reason))
        self.eventually(lambda: any(line["request_id"] == answer.field("x-request-id") and line["reason"] == reason
                                    for line in daemon.access_lines()))
        return answer.body.decode()

    def test_a_request_that_names_no_model_is_told_so_in_its_dialect(self):
        daemon = self.by_model()
        text = "the request names no model"
        for body in (b"{}", b'{"model": ""}', b'{"model": null}', b"[1]", b'{"messages": []}'):
            error = json.loads(self.refused(daemon, self.post(daemon, body), 400, "bad_request"))["error"]
            self.assertEqual(error["type"], "invalid_request_error", body)
            self.assertIn(error["message"], (text, "the `model` of the request is no string"))
        for body in (b'{"model": 5}', b'{"model": ["big"]}', b'{"model": {"a": 1}}', b'{"model": true}'):
            told = self.refused(daemon, self.post(daemon, body), 400, "bad_request")
            self.assertEqual(json.loads(told)["error"]["message"], "the `model` of the request is no string", body)
        told = json.loads(self.refused(daemon, self.post(daemon, b"{}", "/v1/messages"), 400, "bad_request"))
        self.assertEqual(told, {"type": "error", "error": {"type": "invalid_request_error", "message": text}})
        for path in ("/api/chat", "/api/show", "/x/api/generate"):
            told = self.refused(daemon, self.post(daemon, b"{}", path), 400, "bad_request")
            self.assertEqual(json.loads(told), {"error": text}, path)
        told = self.refused(daemon, self.post(daemon, b"{}", "/tokenize"), 400, "bad_request")
        self.assertEqual(told, text + "\n")
        self.assertEqual([each.method for server in self.servers.values() for each in server.exchanges if each.method == "POST"], [])

    def test_a_body_that_is_empty_or_no_json_names_no_model(self):
        daemon = self.by_model()
        for body in (b"", b"{", b"nonsense"):
            self.refused(daemon, self.post(daemon, body, fields=[("content-type", "application/json")]), 400, "bad_request")
        with http2.Peer.connect(daemon.address) as peer:
            for body in (b"", b"{}"):
                answer = peer.exchange("POST", CHAT, body=body)
                self.assertEqual(json.loads(answer.body)["error"]["message"] if body else answer.status,
                                 "the request names no model" if body else 400)

    def test_another_method_is_told_those_that_routes_take(self):
        daemon = self.by_model()
        for method in ("PUT", "HEAD", "OPTIONS"):
            answer = exchange(daemon.address, method, CHAT)
            self.refused(daemon, answer, 405, "method_not_allowed")
            self.assertEqual(answer.field("allow"), "POST, GET", method)
        answer = exchange(daemon.address, "DELETE", "/v1/models/big")
        told = json.loads(self.refused(daemon, answer, 405, "method_not_allowed"))["error"]
        self.assertIn("DELETE /v1/models/big", told["message"])
        self.assertEqual((answer.field("allow"), told["type"]), ("POST, GET", "invalid_request_error"))
        with http2.Peer.connect(daemon.address) as peer:
            answer = peer.exchange("PUT", "/api/x", body=b"{}")
            self.assertEqual((answer.status, answer.field("allow")), (405, "POST, GET"))

    def test_a_page_of_any_origin_can_read_why(self):
        daemon = self.by_model()
        page = [("origin", "https://chat.example")]
        for answer in (self.post(daemon, b"{}", fields=page), exchange(daemon.address, "DELETE", "/x", page),
                       exchange(daemon.address, "GET", "/v1/models/none", page), exchange(daemon.address, "GET", "/v1/models", page)):
            self.assertEqual((answer.field("access-control-allow-origin"), answer.field("access-control-expose-headers")), ("*", "*"))
        self.assertIsNone(self.post(daemon, b"{}").field("access-control-allow-origin"))

    def test_another_path_or_host_is_told_what_was_looked_at(self):
        daemon = self.pools([{"match": {"host": "a", "path": "/v1/**", "model": "tiny"}, "pool": "a"}], a={})
        for target, host, reason in (("/v2/x?key=secret", "a", "none with its host has this path"), ("/v1/x", "b", "none has this host")):
            told = self.refused(daemon, exchange(daemon.address, "GET", target, host=host), 404, "no_route")
            self.assertIn(f"no route for GET {target.partition('?')[0]} of host {host}: {reason}", told)
            self.assertNotIn("secret", told)

    def test_malformed_json_is_refused_in_the_client_s_dialect(self):
        daemon = self.pools(pool={"inspect": True})
        answer = self.post(daemon, b'{"model": "tiny", "messages": [}')
        self.assertEqual(answer.status, 400)
        error = json.loads(answer.body)["error"]
        self.assertEqual(error["type"], "invalid_request_error")
        self.assertIn("byte 31", error["message"])
        self.assertEqual(answer.field("x-evenkeel-reason"), "bad_request")

        answer = self.post(daemon, b'{"model": "tiny"', "/v1/messages")
        self.assertEqual((answer.status, json.loads(answer.body)["type"]), (400, "error"))
        self.assertEqual(self.servers["pool"].exchanges, [])
        self.assertEqual(daemon.metric("evenkeel_inspected_requests_total", result="malformed"), 2)

    def test_a_body_names_few_models(self):
        daemon = self.pools(pool={"model": "served"})
        many = b'{"model":"a",' * 1 + b'"model":"",' * 100_000 + b'"n":1}'
        answer = self.post(daemon, many)
        self.assertEqual(answer.status, 400)
        self.assertIn("too often", json.loads(answer.body)["error"]["message"])

    def test_bodies_of_other_types_are_not_read(self):
        daemon = self.pools(pool={"inspect": True})
        for path, kind in (("/generate", "text/plain"), ("/score", "text/csv"), ("/embed", "application/msgpack")):
            self.assertEqual(self.pool_of(daemon, b"a,b", path, [("content-type", kind)]), "pool", path)
        self.assertEqual(daemon.metric("evenkeel_inspected_requests_total", result="unread"), 3)

    def test_a_pool_that_is_not_inspected_gets_what_comes(self):
        daemon = self.pools(pool={})
        self.assertEqual(self.pool_of(daemon, b"{"), "pool")
        self.assertEqual(daemon.metric("evenkeel_inspected_requests_total", result="malformed"), 0)

    def test_a_client_that_leaves_within_its_body_is_logged(self):
        daemon = self.pools(pool={"inspect": True})
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{")
            self.eventually(lambda: daemon.metric("evenkeel_requests_in_flight", pool="pool") == 1)
        line = daemon.wait_access(1)[0]
        self.assertEqual((line["status"], line["pool"]), (499, "pool"))
        self.assertEqual(daemon.metric("evenkeel_requests_in_flight", pool="pool"), 0)
        self.assertEqual(daemon.metric("evenkeel_replay_bytes"), 0)


def image_form(model, size):
    """An audio form with the model behind the file."""
    part = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    file = b"\r\n--\r" * (size // 5)
    return part % (b'file"; filename="a.wav', file) + part % (b"model", model.encode()) + b"--x--\r\n"


class LongBodies(Inspect):
    def two_models(self, **kwargs):
        return self.pools([{"match": {"model": "late"}, "pool": "a"}, {"match": {"model": "tiny"}, "pool": "b"}], a={}, b={}, **kwargs)

    def test_are_read_on_for_the_name_of_the_model(self):
        daemon = self.two_models()
        text = "x" * 12_000_000
        for model, pool in (("late", "a"), ("tiny", "b"), ("else", 404)):
            self.assertEqual(self.pool_of(daemon, chat(model, text)), pool)
        self.assertEqual(self.received("a"), chat("late", text))
        self.assertEqual(self.received("b"), chat("tiny", text))
        self.assertEqual(daemon.metric("evenkeel_replay_bytes"), 0)

    def test_in_forms_and_compressed_are_read_on_too(self):
        daemon = self.two_models()
        audio = [("content-type", "multipart/form-data; boundary=x")]
        form = image_form("tiny", 5_000_000)
        self.assertEqual(self.pool_of(daemon, form, "/v1/audio/transcriptions", audio), "b")
        self.assertEqual(self.received("b"), form)
        for noise in (0, 1):  # text that is compressed little, and much
            text = os.urandom(2_500_000).hex() if noise else "".join(f"{number:x} word" for number in range(300_000))
            packed = gzip.compress(chat("late", text), 1)
            self.assertEqual(self.pool_of(daemon, packed, fields=[("content-encoding", "gzip")]), "a")
            self.assertEqual(self.received("a"), packed)

    def test_of_unknown_length_are_read_on_too(self):
        daemon = self.two_models()
        body = chat("tiny", "x" * 5_000_000)
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
            for at in range(0, len(body), 300_000):
                piece = body[at:at + 300_000]
                stream.send(b"%x\r\n%s\r\n" % (len(piece), piece))
            stream.send(b"0\r\n\r\n")
            self.assertEqual(stream.read_response().body, b"b")
        self.assertEqual(self.received("b"), body)
        with http2.Peer.connect(daemon.address) as peer:
            self.assertEqual(peer.exchange("POST", CHAT, body=body).body, b"b")
        self.assertEqual(self.received("b"), body)

    def test_are_not_held_where_what_follows_does_not_matter(self):
        daemon = self.pools([{"match": {"model": "late"}, "pool": "a"}, {"match": {"model": "tiny"}, "pool": "a"}],
                            {"held_bodies": "4MiB"}, a={})
        body = chat("late", "x" * 12_000_000)
        self.assertEqual(self.pool_of(daemon, body), "a")
        self.assertEqual(self.received("a"), body)

    def test_that_are_too_long_to_be_held_get_the_key_that_limits_them(self):
        daemon = self.two_models(limits={"held_bodies": "16MiB"})
        answer = self.post(daemon, chat("late", "x" * 12_000_000))
        self.assertEqual((answer.status, answer.reason), (413, "body_too_large"))
        self.assertIn(b"limits.held_bodies", answer.body)
        early = b'{"model": "late", "prompt": "' + b"x" * 12_000_000 + b'"}'
        self.assertEqual(self.pool_of(daemon, early, "/v1/completions"), "a")

    def test_share_the_memory_for_them(self):
        """64 MiB each, four at a time: more than a worker may hold at once."""
        self.servers = {name: self.backend(lambda request, name=name: request.answer(name.encode())) for name in "ab"}
        daemon = self.daemon({
            "listeners": [{"name": "public", "limits": {"body": "100MiB"}}], "workers": 1,
            "pools": [{"name": name, "backends": [self.servers[name].address], **QUIET} for name in "ab"],
            "routes": [{"match": {"model": "late"}, "pool": "a"}, {"match": {"model": "tiny"}, "pool": "b"}]})
        body = chat("late", "x" * 64 * 1024 * 1024)
        posts = [self.spawn(lambda: self.pool_of(daemon, body)) for _ in range(4)]
        self.assertEqual([post.join() for post in posts], ["a"] * 4)

    def test_that_come_slowly_make_room_for_those_of_others(self):
        daemon = self.two_models(limits={"held_bodies": "8MiB"}, workers=1)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 400000\r\n\r\n"
        slow = [self.enterContext(Stream.connect(daemon.address)) for _ in range(40)]
        for stream in slow:
            stream.send(head + b'{"messages": "' + b"x" * 250_000)
        self.eventually(lambda: daemon.api("status")["requests_in_flight"] == len(slow), "slow uploads")
        text = "x" * 300_000
        with Stream.connect(daemon.address, source="127.0.0.9") as stream:
            began = time.monotonic()
            body = chat("late", text)
            stream.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            self.assertEqual(stream.read_response().body, b"a")
            self.assertLess(time.monotonic() - began, 5)
        ended = slow[0].read_response()
        self.assertEqual((ended.status, ended.reason), (408, "body_timeout"))
        self.assertIn(b"limits.held_bodies", ended.body)

    def test_that_come_again_and_again_leave_room_for_one_that_waits(self):
        daemon = self.two_models(limits={"held_bodies": "40MiB"}, workers=1)
        body = chat("late", "x" * 500_000)
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body)
        stop = threading.Event()

        def come_back():
            while not stop.is_set():
                with contextlib.suppress(Closed, OSError), Stream.connect(daemon.address, source="127.0.0.2") as stream:
                    stream.send(head + body[:250_000])
                    stop.wait(0.5)
                    stream.send(body[250_000:])
                    stream.read_response()

        greedy = [self.spawn(come_back) for _ in range(60)]
        self.addCleanup(stop.set)
        self.eventually(lambda: daemon.metric("evenkeel_replay_bytes") > 4_000_000, "uploads of one client")
        began = time.monotonic()
        self.assertEqual(self.pool_of(daemon, chat("late", "x" * 12_000_000)), "a")
        self.assert_within(time.monotonic() - began, 10)
        stop.set()
        for each in greedy:
            each.join()

    def test_are_placed_on_what_came_first_and_passed_on(self):
        daemon = self.pools([{"match": {"model": "late"}, "pool": "a"}, {"pool": "b"}],
                            {"inspected_body": "4KiB"}, a={}, b={})
        text = "x" * 1_000_000
        early = b'{"model": "late", "prompt": "' + text.encode() + b'"}'
        self.assertEqual(self.pool_of(daemon, early, "/v1/completions"), "a")
        self.assertEqual(self.received("a"), early)
        self.assertEqual(daemon.metric("evenkeel_inspected_requests_total", result="partial"), 1)

    def test_reach_the_backend_before_they_end(self):
        def script(request):
            arrived.append(0)
            while arrived[0] < 20_000:
                arrived[0] += len(request.stream.read_some())
            request.answer(b"done")

        arrived = []
        server = self.backend(script, reads_body=False)
        daemon = self.daemon({"pools": [{"name": "pool", "backends": [server.address], "inspect": True, **QUIET}],
                              "limits": {"inspected_body": "4KiB"}})
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 20000\r\n\r\n" +
                        b'{"prompt": "' + b"y" * 10_000)
            self.eventually(lambda: arrived and arrived[0] >= 10_000, "the first bytes at the backend")
            stream.send(b"y" * (20_000 - 10_000 - 12 - 2) + b'"}')
            self.assertEqual(stream.read_response().body, b"done")

    def waiting_for_zstd(self, daemon, begin, count):
        """Connections whose bodies in zstd have only begun."""
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-encoding: zstd\r\ncontent-length: 1000\r\n\r\n"
        for _ in range(count):
            stream = self.enterContext(Stream.connect(daemon.address))
            stream.send(head + begin)
        self.eventually(lambda: daemon.api("status")["requests_in_flight"] == count, "requests in flight")

    def test_that_only_begin_take_no_memory_from_others(self):
        daemon = self.daemon_for_zstd()
        self.waiting_for_zstd(daemon, b"\x28\xb5\x2f\xfd", 300)
        self.assertEqual(self.pool_of(daemon, zstd_frame(chat("big")), fields=[("content-encoding", "zstd")]), "big")

    def test_that_find_no_memory_for_their_windows_are_refused_where_they_decide(self):
        daemon = self.daemon_for_zstd()
        # Windows of 8 MiB with nothing in them: 256 KiB each, of which one client gets half of what there is.
        self.waiting_for_zstd(daemon, b"\x28\xb5\x2f\xfd\x00\x68", 128)
        zstd = [("content-encoding", "zstd")]
        self.assertEqual(self.pool_of(daemon, zstd_frame(chat("big")), fields=zstd), 503)
        self.assertEqual(self.pool_of(daemon, zstd_frame(chat("big")), "/v1/completions", fields=zstd), "rest")
        self.assertEqual(self.pool_of(daemon, chat("big")), "big")

    def daemon_for_zstd(self):
        self.servers = {name: self.backend(lambda request, name=name: request.answer(name.encode()))
                        for name in ("big", "rest")}
        return self.daemon({
            "workers": 1,
            "pools": [{"name": name, "backends": [server.address], "inspect": True, **QUIET}
                      for name, server in self.servers.items()],
            "routes": [{"match": {"path": "/v1/chat/**", "model": "big"}, "pool": "big"}, {"pool": "rest"}]})

    def test_that_find_no_memory_are_refused_where_they_decide(self):
        daemon = self.pools([{"match": {"model": "late"}, "pool": "a"}, {"match": {"path": "/v1/chat/**"}, "pool": "b"},
                             {"match": {"path": "/v1/completions"}, "pool": "c"}],
                            {"held_bodies": "0B"}, a={}, b={}, c={"model": "served"})
        answer = self.post(daemon, chat("late", "x" * 300_000))
        self.assertEqual((answer.status, answer.field("x-evenkeel-reason")), (503, "out_of_memory"))
        self.assertIsNotNone(answer.field("retry-after"))
        for name in "ab":
            self.assertEqual([each.method for each in self.servers[name].exchanges if each.method == "POST"], [])
        self.assertEqual(daemon.metric("evenkeel_replay_bytes"), 0)
        self.assertEqual(self.pool_of(daemon, chat("late")), "a", "a body that needs no copy")

    def test_that_find_no_memory_pass_where_nothing_depends_on_them(self):
        daemon = self.pools(limits={"held_bodies": "0B"}, pool={"inspect": True})
        body = chat("late", "x" * 300_000)
        self.assertEqual(self.pool_of(daemon, body), "pool")
        self.assertEqual(self.received("pool"), body)


class Rewriting(Inspect):
    def test_replaces_the_model_and_nothing_else(self):
        daemon = self.pools(pool={"model": 'served "name"'})
        body = b'{ "messages": [{"role": "user", "content": "\\"model\\": \\"tiny\\""}],\n "model" : "tiny" , "n": 1e0}'
        self.assertEqual(self.pool_of(daemon, body), "pool")
        self.assertEqual(self.received("pool"), body.replace(b': "tiny" ,', b': "served \\"name\\"" ,'))
        self.assertEqual(self.pool_of(daemon, b'{"model": 1, "model": "b"}'), "pool")
        self.assertEqual(json.loads(self.received("pool"))["model"], 'served "name"')
        self.assertEqual(self.pool_of(daemon, b'{"prompt": "x"}'), "pool")
        self.assertEqual(self.received("pool"), b'{"prompt": "x"}')

    def test_of_long_bodies_in_pieces(self):
        daemon = self.pools(pool={"model": "served"})
        body = chat("tiny", "x" * 500_000)
        self.assertEqual(self.pool_of(daemon, body), "pool")
        self.assertEqual(self.received("pool"), body.replace(b'"tiny"', b'"served"'))

    def test_of_bodies_longer_than_are_inspected(self):
        daemon = self.pools(limits={"inspected_body": "4KiB"}, pool={"model": "served"})
        body = chat("tiny", "x" * 3_000_000)
        self.assertEqual(self.pool_of(daemon, body), "pool")
        self.assertEqual(self.received("pool"), body.replace(b'"tiny"', b'"served"'))

    def test_is_refused_where_the_name_cannot_be_found(self):
        daemon = self.pools(limits={"held_bodies": "4MiB"}, pool={"model": "served"})
        answer = self.post(daemon, chat("tiny", "x" * 3_000_000))
        self.assertEqual((answer.status, answer.field("x-evenkeel-reason")), (413, "body_too_large"))
        self.assertIn("held_bodies", json.loads(answer.body)["error"]["message"])
        answer = self.post(daemon, gzip.compress(chat()), fields=[("content-encoding", "gzip")])
        self.assertEqual(answer.status, 400)

    def test_of_a_fallback_starts_from_the_client_s_bytes(self):
        fallback = self.backend(lambda request: request.answer(b"fallback"))
        daemon = self.daemon({
            "pools": [{"name": "first", "backends": [refusing_address()], "model": "a-name",
                       "fallback": "second", **QUIET},
                      {"name": "second", "backends": [fallback.address], "model": "b", **QUIET}],
            "routes": [{"match": {"model": "tiny"}, "pool": "first"}]})
        self.assertEqual(self.post(daemon, chat()).body, b"fallback")
        self.assertEqual(fallback.exchanges[-1].body, chat("b"))

    def test_of_a_fallback_of_a_pool_that_is_not_inspected(self):
        fallback = self.backend(lambda request: request.answer(b"fallback"))
        daemon = self.daemon({
            "pools": [{"name": "first", "backends": [refusing_address()], "fallback": "second", **QUIET},
                      {"name": "second", "backends": [fallback.address], "model": "b", **QUIET}],
            "routes": [{"pool": "first"}]})
        self.assertEqual(self.post(daemon, chat()).body, b"fallback")
        self.assertEqual(fallback.exchanges[-1].body, chat("b"))

    def test_no_fallback_gets_the_rest_of_a_body(self):
        """The first server reads half of an upload, ends its idle connection, and is gone."""
        def script(request):
            if request.method == "GET":
                return request.answer(b"warm")
            ListeningServer.close(first)
            taken = 0
            while taken < 2_000_000:
                taken += len(request.stream.read_some())
            request.abort()

        body = b'{"model": "tiny", "prompt": "' + b"y" * 6_000_000 + b'"}'
        for keys in ({"model": "served"}, {"inspect": True}, {}):
            with self.subTest(keys):
                first = self.backend(script, reads_body=False)
                second = self.backend(lambda request: request.answer(b"fallback"))
                daemon = self.daemon({
                    "pools": [{"name": "first", "backends": [first.address], "fallback": "second", **QUIET, **keys},
                              {"name": "second", "backends": [second.address], **QUIET}],
                    "routes": [{"pool": "first", "retry": {"replay": "8MiB"}}], "workers": 1})
                self.assertEqual(exchange(daemon.address, "GET", "/warm").body, b"warm")
                answer = self.post(daemon, body, "/v1/completions")
                if answer.status == 200:
                    self.assertEqual(second.exchanges[-1].body, body)
                else:
                    self.assertEqual((answer.status, second.exchanges), (502, []))

    def test_is_repeated_for_another_server(self):
        def script(request):
            served.append(request.body)
            request.answer(b"busy" if len(served) == 1 else b"fine", status=503 if len(served) == 1 else 200)

        served = []
        daemon = self.start_daemon(self.backend(script), self.backend(script), workers=1,
                                   pool={"engine": "vllm", "model": "served", **QUIET})
        answer = self.post(daemon, chat())
        self.assertEqual((answer.status, answer.body), (200, b"fine"))
        self.assertEqual(served, [chat("served")] * 2)


    def test_leaves_what_names_its_model_in_the_path(self):
        daemon = self.pools(limits={"inspected_body": "4KiB"}, pool={"model": "served"})
        body = b'{"inputs": [{"name": "x", "data": [' + b"1," * 10_000 + b"1]}]}"
        self.assertEqual(self.pool_of(daemon, body, "/v2/models/m/infer"), "pool")
        self.assertEqual(self.received("pool"), body)


class Usage(Inspect):
    def test_is_asked_for_without_compression(self):
        daemon = self.pools(pool={"engine": "vllm", "inspect": True})
        fields = [("Accept-Encoding", "gzip, br")]
        self.assertEqual(self.pool_of(daemon, chat(stream=True), fields=fields), "pool")
        self.assertIsNone(self.servers["pool"].exchanges[-1].head.field("accept-encoding"))
        self.assertEqual(self.pool_of(daemon, chat(), fields=fields), "pool")
        self.assertEqual(self.servers["pool"].exchanges[-1].head.field("accept-encoding"), "gzip, br")

    def test_is_asked_for_in_streams_of_engines_that_give_it(self):
        daemon = self.pools(pool={"engine": "vllm", "inspect": True})
        self.assertEqual(self.pool_of(daemon, chat(stream=True)), "pool")
        self.assertEqual(self.received("pool"),
                         b'{"stream_options":{"include_usage":true},' + chat(stream=True)[1:])
        for body in (chat(), chat(stream=False), chat(stream=True, stream_options={"include_usage": False})):
            self.assertEqual(self.pool_of(daemon, body), "pool")
            self.assertEqual(self.received("pool"), body)

    def test_is_asked_only_of_detected_engines_that_give_it(self):
        """vLLM refuses the request; the other backend, of which nothing is known, gets it as the client sent it."""
        seen = []

        def server(owner):
            def script(request):
                if request.target == "/v1/models" and owner:
                    return request.answer(json.dumps({"object": "list", "data": [{"id": "a", "owned_by": owner}]}).encode())
                if request.method != "POST" or request.target != "/v1/chat/completions":
                    return request.answer(b"", status=404)
                seen.append((owner, request.body))
                return request.answer(b"{}", status=503 if owner else 200)
            return script

        vllm, other = self.backend(server("vllm")), self.backend(server(None))
        daemon = self.start_daemon(vllm, other, workers=1, pool={
            "engine": "auto", "inspect": True, "picker": "round-robin", "health": {"check": "tcp", "interval": "100ms"}})
        self.eventually(lambda: daemon.backend(vllm.address)["engine"] == "vllm", "detection")
        self.eventually(lambda: daemon.backend(other.address)["state"] == "up", "the other backend")
        body = chat(stream=True)
        asking = b'{"stream_options":{"include_usage":true},' + body[1:]
        for _ in range(8):
            self.assertEqual(exchange(daemon.address, "POST", CHAT, (), body).status, 200)
            if ("vllm", asking) in seen:
                break
        self.assertIn(("vllm", asking), seen)
        self.assertEqual({each for each in seen if each[0] == "vllm"}, {("vllm", asking)})
        self.assertEqual({each for each in seen if each[0] is None}, {(None, body)})
        self.assertEqual(seen[-1], (None, body), "the retry")

    def test_is_not_asked_of_others_or_if_it_is_off(self):
        for keys in ({"engine": "generic", "inspect": True}, {"engine": "vllm"},
                     {"engine": "vllm", "inspect": True, "stream_usage": "off"}):
            daemon = self.pools(pool=keys)
            self.assertEqual(self.pool_of(daemon, chat(stream=True)), "pool")
            self.assertEqual(self.received("pool"), chat(stream=True))


@needs_client
class OverGrpc(Kserve):
    def item(self):
        return self.tensor("INPUT0", numpy.ones((1, 4), numpy.float32), "FP32")

    def test_calls_and_streams_go_by_the_model_of_their_first_message(self):
        names = ("small", "large")
        simulated = {name: self.simulators("--engine", "triton", "--model", name) for name in names}
        daemon = self.daemon({
            "pools": [{"name": name, "engine": "triton", "protocol": "h2",
                       "backends": list(simulated[name].addresses)} for name in names],
            "routes": [{"match": {"grpc": "inference.GRPCInferenceService", "model": name}, "pool": name}
                       for name in names]})
        client = self.through(daemon)
        for number, name in enumerate(names * 3):
            result = client.infer(name, [self.item()], request_id=str(number), client_timeout=PATIENCE)
            self.assertEqual(result.get_response().id, str(number))
        self.assertEqual([line["pool"] for line in daemon.wait_access(6)], list(names * 3))

        # The client waits for each answer before it sends the next message.
        answers = Answers(client)
        for number in range(3):
            client.async_stream_infer("large", [self.item()], request_id=str(number))
            self.assertEqual(answers.response().get_response().id, str(number))
        client.stop_stream()
        line = daemon.wait_access(7)[-1]
        self.assertEqual((line["pool"], line["grpc_status"]), ("large", 0))

        with self.assertRaises(InferenceServerException) as raised:
            client.infer("none", [self.item()], client_timeout=PATIENCE)
        self.assertIn("NOT_FOUND", raised.exception.status())


if __name__ == "__main__":
    case.main()
