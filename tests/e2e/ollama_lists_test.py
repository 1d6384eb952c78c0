"""Ollama's clients before several pools: lists are merged, and the rest goes by the model or to the first pool."""

import json
import threading
import time

import case
from ports import refusing_address
from stream import PATIENCE, exchange

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
BY_MODEL = [{"match": {"model": ["a:1", "both", "short"]}, "pool": "a"}, {"match": {"model": ["b:1", "both"]}, "pool": "b"}]


def entry(model, server):
    return {"name": model, "model": model, "digest": server * 64, "details": {"family": server}}


class OllamaLists(case.Case):
    def pools(self, routes=BY_MODEL, keys=(), **models):
        """A daemon with a pool for each keyword, whose server has these models, hangs, or is a vLLM; None: no server.

        `keys`: the pools whose server has a key of its own."""
        self.asked = []
        self.leave = threading.Event()

        def script(name):
            def serve(request):
                path = request.target.partition("?")[0]
                self.asked.append((name, request.method, path))
                if models[name] == "hangs":
                    return self.leave.wait(PATIENCE)
                if path in ("/api/tags", "/api/ps") and models[name] != "vllm":
                    entries = [entry(model, name) for model in models[name]]
                    return request.answer(json.dumps({"models": entries}).encode(), fields=[("content-type", "application/json")])
                if models[name] == "vllm":
                    return request.answer(b'{"detail":"Not Found"}', status=404)
                return request.answer(name.encode())
            return serve

        self.servers = {name: self.backend(script(name)) for name, its in models.items() if its is not None}

        def entry_of(name):
            address = self.servers[name].address if name in self.servers else refusing_address()
            if name not in keys:
                return address
            path = f"{self.folder()}/{name}.key"
            with open(path, "w", encoding="ascii") as file:
                file.write(f"key-of-{name}")
            return {"address": address, "api_key_file": path}

        return self.daemon({"routes": routes, "pools": [{"name": name, "backends": [entry_of(name)], **QUIET} for name in models]})

    def listed(self, daemon, target="/api/tags", **kwargs):
        answer = exchange(daemon.address, "GET", target, **kwargs)
        self.assertEqual((answer.status, answer.field("content-type")), (200, "application/json"))
        return [(each["model"], each["details"]["family"]) for each in json.loads(answer.body)["models"]]

    def test_are_merged_from_all_pools_by_what_their_routes_take(self):
        daemon = self.pools(a=["a:1", "both", "hidden", "short:latest"], b=["b:1", "both", "a:1"])
        for path in ("/api/tags", "/api/ps", "/api/tags?x=y"):
            self.assertEqual(self.listed(daemon, path, fields=[("accept-encoding", "gzip")]),
                             [("a:1", "a"), ("both", "a"), ("short:latest", "a"), ("b:1", "b")], path)
        self.assertEqual({(name, method) for name, method, path in self.asked if path != "/v1/models"}, {("a", "GET"), ("b", "GET")})
        answer = exchange(daemon.address, "HEAD", "/api/tags")
        self.assertEqual((answer.status, answer.body), (200, b""))
        lines = daemon.wait_access(4)
        self.assertEqual({(line["status"], line["method"]) for line in lines}, {(200, "GET"), (200, "HEAD")})
        for pool in "ab":
            self.assertEqual(daemon.metric("evenkeel_requests_in_flight", pool=pool), 0)

    def test_have_what_the_pools_with_a_list_say(self):
        daemon = self.pools([{"match": {"model": "x"}, "pool": "c"}, {"match": {"model": "y"}, "pool": "b"},
                             {"match": {"model": "z"}, "pool": "v"}, {"pool": "a"}], a=["a:1"], b=["y"], c=None, v="vllm")
        self.assertEqual(self.listed(daemon), [("a:1", "a"), ("y", "b")])

    def test_do_not_wait_for_a_server_that_hangs(self):
        daemon = self.pools(BY_MODEL + [{"match": {"model": "c:1"}, "pool": "c"}], a=["a:1"], b="hangs", c=["c:1"])
        self.addCleanup(self.leave.set)
        began = time.monotonic()
        self.assertEqual(self.listed(daemon), [("a:1", "a"), ("c:1", "c")])
        self.assertLess(time.monotonic() - began, 8)
        self.assertEqual([daemon.metric("evenkeel_requests_in_flight", pool=pool) for pool in "abc"], [0, 0, 0])

    def test_ask_no_server_with_the_key_of_one_that_hangs(self):
        daemon = self.pools(BY_MODEL + [{"match": {"model": "c:1"}, "pool": "c"}], keys="ab", a="hangs", b=["b:1"], c=["c:1"])
        self.addCleanup(self.leave.set)
        own = [("authorization", "Bearer mine"), ("x-api-key", "mine")]
        self.assertEqual(self.listed(daemon, "/api/tags?key=mine", fields=own), [("b:1", "b"), ("c:1", "c")])
        sent = {name: [(request.head.target, request.head.all("authorization"), request.head.all("x-api-key"))
                       for request in server.exchanges if request.head.target.startswith("/api/tags")]
                for name, server in self.servers.items() if name != "a"}
        self.assertEqual(sent, {"b": [("/api/tags", ["Bearer key-of-b"], [])],
                                "c": [("/api/tags?key=mine", ["Bearer mine"], ["mine"])]})

    def test_are_refused_as_by_the_last_pool_if_none_has_one(self):
        daemon = self.pools(a=None, b="vllm")
        answer = exchange(daemon.address, "GET", "/api/tags")
        self.assertEqual((answer.status, answer.body), (404, b'{"detail":"Not Found"}'))
        daemon = self.pools(a="vllm", b=None)
        answer = exchange(daemon.address, "GET", "/api/tags")
        self.assertEqual((answer.status, answer.field("x-evenkeel-reason")), (502, "connect_failed"))

    def test_of_one_pool_are_its_servers_own(self):
        daemon = self.pools([{"match": {"path": "/api/**"}, "pool": "a"}, {"match": {"path": "/v1/**"}, "pool": "b"}], a=["x"], b=["y"])
        self.assertEqual(self.listed(daemon), [("x", "a")])
        daemon = self.pools([{**route, "model_list": "forward"} for route in BY_MODEL], a=["x"], b=["y"])
        self.assertEqual(self.listed(daemon), [("x", "a")])

    def test_the_rest_of_the_api_goes_by_the_model_or_to_the_first_pool(self):
        daemon = self.pools(a=["a:1"], b=["b:1"])
        for method, path, body, pool in (("HEAD", "/", None, b""), ("GET", "/api/version", None, b"a"),
                                         ("POST", "/api/show", b'{"model": "b:1"}', b"b"), ("POST", "/api/show", b'{"name": "b:1"}', b"b"),
                                         ("POST", "/api/chat", b'{"model": "b:1", "messages": []}', b"b")):
            answer = exchange(daemon.address, method, path, body=body)
            self.assertEqual((answer.status, answer.body), (200, pool), path)
        answer = exchange(daemon.address, "POST", "/api/show", body=b'{"model": "b:2"}')
        self.assertEqual((answer.status, answer.field("x-evenkeel-reason")), (404, "model_not_found"))
        self.assertIn("b:2", json.loads(answer.body)["error"])
        self.assertIn("GET /api/tags lists the models", json.loads(answer.body)["error"])


if __name__ == "__main__":
    case.main()
