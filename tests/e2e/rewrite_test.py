"""What routes match beyond host and path, and what they change: redirects, paths, header fields, CORS."""

import json
import shutil
import subprocess
import unittest

import case
import http2
from process import BINARY
from stream import Stream, exchange

CHAT = json.dumps({"model": "llama", "messages": [{"role": "user", "content": "hi"}]}).encode()
JSON = [("content-type", "application/json")]
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class RouteCase(case.Case):
    def setUp(self):
        self.seen = []  # (target, head) of clients' requests
        self.own = None  # the Host of evenkeel's own requests

    def note(self, request):
        if request.head.field("host") != self.own:
            self.seen.append((request.target, request.head))
        request.answer(b"{}", fields=[("content-type", "application/json"), ("x-engine", "secret"),
                                      ("access-control-allow-origin", "*")])

    def routed(self, *routes, pool=None, **config):
        backend = self.backend(self.note)
        self.own = backend.address
        return self.daemon({"pools": [{"name": "pool", "backends": [backend.address],
                                       "health": {"check": "off"}, **(pool or {})}],
                            "routes": [{"pool": "pool", **route} if not route.keys() & {"respond", "redirect"}
                                       else route for route in routes], **config})

    def target(self, daemon, target, **kwargs):
        """The target that the backend got, or the status."""
        self.seen.clear()
        answer = exchange(daemon.address, target=target, **kwargs)
        return self.seen[-1][0] if self.seen else answer.status


class Matches(RouteCase):
    def which(self, daemon, target="/", **kwargs):
        return exchange(daemon.address, target=target, **kwargs).body.decode() or None

    def answers(self, *matches, **config):
        routes = [{"match": match, "respond": {"body": str(number)}} for number, match in enumerate(matches)]
        return self.daemon({"routes": [*routes, {"respond": {"body": "rest"}}], **config})

    def test_by_query(self):
        daemon = self.answers({"query": {"tier": "gold"}}, {"query": {"tier": "*"}}, {"query": {"a b": "x*"}})
        for target, route in (("/?tier=gold", "0"), ("/?x=1&tier=gold", "0"), ("/?tier=g%6Fld", "0"),
                              ("/?tier=silver", "1"), ("/?tier", "1"), ("/?a+b=xyz", "2"), ("/?a%20b=xyz", "2"),
                              ("/?tiers=gold", "rest"), ("/tier=gold", "rest"), ("/", "rest")):
            self.assertEqual(self.which(daemon, target), route, target)

    def test_by_regular_expression(self):
        daemon = self.answers({"path_regex": "/v[12]/(chat|embed)/.*"}, {"path_regex": "^/x$"})
        for target, route in (("/v1/chat/a", "0"), ("/v2/embed/?q", "0"), ("/v3/chat/a", "rest"), ("/x", "1"),
                              ("/xy", "rest"), ("/a/v1/chat/a", "rest"), ("/v1/%63hat/a", "0")):
            self.assertEqual(self.which(daemon, target), route, target)

    def test_by_client_as_trusted_proxies_name_it(self):
        daemon = self.answers({"client": ["10.0.0.0/8"]}, {"client": ["127.0.0.1"]},
                              listeners=[{"name": "public", "trusted_proxies": ["127.0.0.1/32"]}])
        self.assertEqual(self.which(daemon, fields=[("x-forwarded-for", "10.1.2.3")]), "0")
        self.assertEqual(self.which(daemon, fields=[("x-forwarded-for", "11.1.2.3")]), "rest")
        self.assertEqual(self.which(daemon), "1")

    def test_a_client_that_is_no_trusted_proxy_cannot_name_itself(self):
        daemon = self.answers({"client": ["10.0.0.0/8"]})
        self.assertEqual(self.which(daemon, fields=[("x-forwarded-for", "10.1.2.3")]), "rest")

    def test_by_listener(self):
        daemon = self.answers({"listener": "inside"}, listeners=[{"name": "public"}, {"name": "inside"}])
        self.assertEqual(exchange(daemon.listening["public"]).body, b"rest")
        self.assertEqual(exchange(daemon.listening["inside"]).body, b"0")

    def test_not(self):
        daemon = self.answers({"path": "/v1/**", "not": [{"path": "/v1/admin/**"}, {"header": {"x-a": "1"},
                                                                                  "method": "GET"}]})
        for target, method, fields, route in (("/v1/a", "GET", [], "0"), ("/v1/admin/a", "GET", [], "rest"),
                                              ("/v1/a", "GET", [("x-a", "1")], "rest"),
                                              ("/v1/a", "POST", [("x-a", "1")], "0")):
            self.assertEqual(self.which(daemon, target, method=method, fields=fields), route)

    def test_an_explanation_names_the_condition_that_did_not_hold(self):
        daemon = self.daemon({"routes": [
            {"name": "gold", "match": {"query": {"tier": "gold"}}, "respond": {"body": "a"}},
            {"name": "inner", "match": {"client": ["10.0.0.0/8"]}, "respond": {"body": "b"}},
            {"name": "not-here", "match": {"not": {"path": "/x"}}, "respond": {"body": "c"}}]})
        answer = exchange(daemon.address, target="/x", fields=[("x-request-id", "lost")])
        self.assertEqual(answer.status, 404)
        shown = subprocess.run([BINARY, "ctl", "explain", "lost", "--admin", daemon.admin],
                               capture_output=True, text=True, check=False, timeout=20).stdout
        for words in ("gold (other query)", "inner (other client)", "not-here (meets its `not`)"):
            self.assertIn(words, shown)


class Redirects(RouteCase):
    def location(self, daemon, target="/", **kwargs):
        answer = exchange(daemon.address, target=target, **kwargs)
        return answer.status, answer.field("location")

    def test_to_where_the_route_says(self):
        daemon = self.routed({"match": {"path": "/old/**"}, "redirect": {"to": "https://new.example.org/"}},
                             {"match": {"path": "/moved/**"}, "redirect": {"to": "/v2/**", "status": 301}},
                             {"match": {"path": "/top/**"}, "redirect": {"to": "/**", "status": 302}},
                             {"match": {"path": "/asked"}, "redirect": {"to": "/v2?a=b", "status": 303}},
                             {"redirect": {"to": "https://$host/**", "status": 307}})
        for target, wanted in (("/old/a?b=c", (308, "https://new.example.org/?b=c")),
                               ("/moved/a/b?c", (301, "/v2/a/b?c")), ("/moved", (301, "/v2")),
                               ("/top", (302, "/")), ("/top/x", (302, "/x")), ("/asked?q", (303, "/v2?a=b")),
                               ("/p/q?r=s", (307, "https://test/p/q?r=s")), ("/", (307, "https://test/"))):
            self.assertEqual(self.location(daemon, target), wanted, target)
        self.assertEqual(self.location(daemon, "/x", host="a.test:8080"), (307, "https://a.test/x"))
        self.assertEqual(self.seen, [])

    def test_leads_to_no_other_host(self):
        daemon = self.routed({"match": {"path": "/top/**"}, "redirect": {"to": "/**"}},
                             {"redirect": {"to": "https://$host/**"}})
        for target in ("/top//evil.test", "/top/%2F/evil.test", "/top/%5Cevil.test", "/top/.//evil.test"):
            status, location = self.location(daemon, target)
            self.assertEqual(status, 308, target)
            self.assertRegex(location, r"^/[^/\\]", target)
        self.assertEqual(self.location(daemon, "/top/a%0d%0ax:y")[1], "/a%0D%0Ax:y")
        self.assertEqual(exchange(daemon.address, host="evil.test/@x").status, 400)

    def test_over_http2_and_in_the_log(self):
        daemon = self.routed({"name": "old", "redirect": {"to": "https://new.test/**"}})
        with http2.Peer.connect(daemon.address) as peer:
            answer = peer.request(path="/a").read_response()
        self.assertEqual((answer.status, answer.field("location")), (308, "https://new.test/a"))
        line = daemon.wait_access(1)[0]
        self.assertEqual((line["route"], line["status"], line["pool"]), ("old", 308, None))

    @unittest.skipUnless(shutil.which("curl"), "no curl here")
    def test_curl_follows_one_and_sends_its_body_again(self):
        daemon = self.routed({"match": {"path": "/old/**"}, "redirect": {"to": "/v1/**"}}, {})
        ended = subprocess.run(["curl", "-sS", "-L", "--max-time", "20", "-H", "content-type: application/json",
                                "--data-binary", CHAT, f"http://{daemon.address}/old/chat/completions"],
                               capture_output=True, check=True)
        self.assertEqual(ended.stdout, b"{}")
        self.assertEqual([(target, head.body) for target, head in self.seen], [("/v1/chat/completions", CHAT)])


class Paths(RouteCase):
    def test_strip_prefix(self):
        daemon = self.routed({"match": {"path": "/team-a/**"}, "rewrite": {"strip_prefix": "/team-a"}}, {})
        for target, wanted in (("/team-a/v1/models?x=1", "/v1/models?x=1"), ("/team-a", "/"), ("/team-a/", "/"),
                               ("/team-ab/v1", "/team-ab/v1"), ("/%74eam-a/v1", "/v1"), ("//team-a//v1", "/v1"),
                               ("/x/../team-a/v1", "/v1"), ("/team-a/a%20b", "/a%20b")):
            self.assertEqual(self.target(daemon, target), wanted, target)

    def test_prefix(self):
        daemon = self.routed({"match": {"path": "/v1/**"}, "rewrite": {"prefix": "/openai/v2"}},
                             {"match": {"path": "/*/x/**"}, "rewrite": {"prefix": "/y"}})
        self.assertEqual(self.target(daemon, "/v1/models?a"), "/openai/v2/models?a")
        self.assertEqual(self.target(daemon, "/v1"), "/openai/v2")
        self.assertEqual(self.target(daemon, "/any/x/z"), "/y/z")

    def test_regular_expression(self):
        daemon = self.routed({"match": {"path": "/x/**"}, "rewrite": {"regex": "^/x/([^/]+)/(.*)$",
                                                                      "to": "/v1/\\2?team=\\1"}})
        self.assertEqual(self.target(daemon, "/x/blue/models?a=b"), "/v1/models?team=blue&a=b")
        self.assertEqual(self.target(daemon, "/x/blue"), "/x/blue")

    def test_no_path_leaves_what_it_was_given(self):
        daemon = self.routed({"match": {"path": "/t/**"}, "rewrite": {"prefix": "/tenants/t"}})
        for target in ("/t/..%2fother", "/t/%2e%2e%2Fother", "/t/a/..%5C..%5Cother", "/t/..\\other", "/t/.%2F"):
            self.assertEqual(self.target(daemon, target), 400, target)
        self.assertEqual(self.target(daemon, "/t/../other"), 404)
        self.assertEqual(self.target(daemon, "/t/a..b%2Fc"), "/tenants/t/a..b%2Fc")

    def test_the_log_has_the_clients_path(self):
        daemon = self.routed({"match": {"path": "/t/**"}, "rewrite": {"strip_prefix": "/t"}})
        self.target(daemon, "/t/a?b")
        self.assertEqual(daemon.wait_access(1)[0]["path"], "/t/a?b")

    def test_a_rewritten_chat_is_inspected_as_one(self):
        daemon = self.routed({"match": {"path": "/team-a/**"}, "rewrite": {"strip_prefix": "/team-a"}},
                             {"match": {"path": "/say"}, "rewrite": {"regex": "^/say$", "to": "/v1/chat/completions"}},
                             {"match": {"path": "/m/**", "model": "llama"}, "rewrite": {"strip_prefix": "/m"}},
                             pool={"engine": "vllm", "inspect": True})
        for number, target in enumerate(("/team-a/v1/chat/completions", "/say", "/m/v1/chat/completions")):
            self.assertEqual(self.target(daemon, target, method="POST", body=CHAT, fields=JSON),
                             "/v1/chat/completions", target)
            line = daemon.wait_access(number + 1)[number]
            self.assertEqual((line["model"], line["task"], line["path"]), ("llama", "chat", target))

    def test_retries_send_the_same_path_again(self):
        answers = []

        def script(request):
            answers.append(request.target)
            request.answer(b"", status=503 if len(answers) == 1 else 200)

        backends = [self.backend(script), self.backend(script)]
        daemon = self.daemon({"pools": [{"name": "pool", "backends": [each.address for each in backends],
                                         "health": {"check": "off"}, "retry": {"on": ["overload"]}}],
                              "routes": [{"match": {"path": "/t/**"}, "rewrite": {"strip_prefix": "/t"},
                                          "pool": "pool"}]})
        self.assertEqual(exchange(daemon.address, target="/t/t/a").status, 200)
        self.assertEqual(answers, ["/t/a", "/t/a"])

    def test_a_fallback_gets_it_once(self):
        backend = self.backend(self.note)
        daemon = self.daemon({"pools": [
            {"name": "down", "backends": ["127.0.0.1:1"], "fallback": "up", "health": {"check": "off"}},
            {"name": "up", "backends": [backend.address], "health": {"check": "off"}}],
            "routes": [{"match": {"path": "/t/**"}, "rewrite": {"strip_prefix": "/t"},
                        "request_headers": {"add": {"x-hop": "a"}}, "pool": "down"}]})
        self.assertEqual(self.target(daemon, "/t/t/a"), "/t/a")
        self.assertEqual(self.seen[-1][1].all("x-hop"), ["a"])

    def test_a_websocket_opens_through_one(self):
        def script(request):
            self.seen.append((request.target, request.head))
            request.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                         b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
            request.send(request.stream.read_exactly(4))

        backend = self.backend(script)
        daemon = self.daemon({"pools": [{"name": "pool", "backends": [backend.address], "health": {"check": "off"}}],
                              "routes": [{"match": {"path": "/t/**"}, "rewrite": {"strip_prefix": "/t"},
                                          "response_headers": {"set": {"x-route": "$route"}}, "name": "socket",
                                          "pool": "pool"}]})
        with Stream.connect(daemon.address) as stream:
            stream.send(f"GET /t/socket HTTP/1.1\r\nHost: test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                        f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
            head = stream.read_head()
            self.assertEqual((head.status, head.field("x-route")), (101, "socket"))
            stream.send(b"ping")
            self.assertEqual(stream.read_exactly(4), b"ping")
        self.assertEqual(self.seen[0][0], "/socket")


class Fields(RouteCase):
    def test_of_requests(self):
        daemon = self.routed({"name": "a", "match": {"path": "/a"}, "request_headers": {
            "set": {"x-team": "blue", "x-who": "$client via $listener as $request_id", "x-none": "$tenant"},
            "add": {"x-tag": "two"}, "remove": ["cookie"]}}, {})
        sent = [("X-Team", "red"), ("x-team", "green"), ("x-tag", "one"), ("Cookie", "a=b"), ("x-none", "forged"),
                ("x-request-id", "r-1")]
        self.target(daemon, "/a", fields=sent)
        head = self.seen[-1][1]
        self.assertEqual(head.all("x-team"), ["blue"])
        self.assertEqual(head.all("x-tag"), ["one", "two"])
        self.assertEqual(head.field("x-who"), "127.0.0.1 via public as r-1")
        self.assertEqual((head.field("cookie"), head.field("x-none")), (None, None))

        self.target(daemon, "/b", fields=sent)
        self.assertEqual(self.seen[-1][1].all("x-team"), ["red", "green"])

    def test_what_clients_choose_adds_no_field(self):
        daemon = self.routed({"match": {"model": "*"}, "request_headers": {"set": {"x-model": "$model"}}})
        body = json.dumps({"model": "a\r\nx-evil: 1", "messages": []}).encode()
        self.target(daemon, "/v1/chat/completions", method="POST", body=body, fields=JSON)
        head = self.seen[-1][1]
        self.assertEqual((head.field("x-model"), head.field("x-evil")), ("a??x-evil: 1", None))

    def test_of_backends_answers_and_of_our_own(self):
        edits = {"set": {"strict-transport-security": "max-age=31536000"}, "remove": ["x-engine"]}
        daemon = self.routed({"match": {"path": "/a"}, "response_headers": edits},
                             {"match": {"path": "/b"}, "respond": {"body": "b"}, "response_headers": edits},
                             {"match": {"path": "/c"}, "pool": "down", "response_headers": edits},
                             {"match": {"path": "/d"}, "redirect": {"to": "/x"}, "response_headers": edits}, {},
                             pools=[{"name": "down", "backends": ["127.0.0.1:1"], "health": {"check": "off"}},
                                    {"name": "pool", "backends": [self.backend(self.note).address],
                                     "health": {"check": "off"}}])
        for target, status in (("/a", 200), ("/b", 200), ("/c", 503), ("/d", 308)):
            with http2.Peer.connect(daemon.address) as peer:
                second = peer.request(path=target).read_response()
            for answer in (exchange(daemon.address, target=target), second):
                self.assertIn(answer.status, (status, 502), target)
                self.assertEqual(answer.all("strict-transport-security"), ["max-age=31536000"], target)
                self.assertIsNone(answer.field("x-engine"), target)
        self.assertEqual(exchange(daemon.address, target="/e").field("x-engine"), "secret")


class Pages(RouteCase):
    ORIGIN = "https://chat.example.org"

    def ask(self, daemon, target="/", origin=ORIGIN, **kwargs):
        return exchange(daemon.address, target=target, fields=[("Origin", origin)], **kwargs)

    def preflight(self, daemon, target="/", origin=ORIGIN, method="POST"):
        return exchange(daemon.address, method="OPTIONS", target=target, fields=[
            ("Origin", origin), ("Access-Control-Request-Method", method),
            ("Access-Control-Request-Headers", "authorization,content-type")])

    def test_a_preflight_is_answered_without_the_backend(self):
        daemon = self.routed({"match": {"method": "POST"}, "cors": {"origins": [self.ORIGIN], "max_age": "5m"}})
        answer = self.preflight(daemon)
        self.assertEqual((answer.status, answer.body), (204, b""))
        self.assertEqual(answer.field("access-control-allow-origin"), self.ORIGIN)
        self.assertEqual(answer.field("access-control-allow-methods"), "POST")
        self.assertEqual(answer.field("access-control-allow-headers"), "authorization,content-type")
        self.assertEqual(answer.field("access-control-max-age"), "300")
        self.assertIn("origin", answer.all("vary"))
        self.assertEqual(self.preflight(daemon, method="PUT").status, 405)
        self.assertEqual(self.seen, [])
        with http2.Peer.connect(daemon.address) as peer:
            second = peer.request(method="OPTIONS", fields=[("origin", self.ORIGIN),
                                                            ("access-control-request-method", "POST")]).read_response()
        self.assertEqual((second.status, second.field("access-control-allow-origin")), (204, self.ORIGIN))

    def test_only_origins_that_the_file_names(self):
        daemon = self.routed({"cors": {"origins": ["https://*.example.org", "http://localhost:3000"]}})
        for origin, allowed in ((self.ORIGIN, True), ("https://a.b.example.org", True), ("http://localhost:3000", True),
                                ("https://example.org", False), ("https://evilexample.org", False),
                                ("https://evil.test/.example.org", False), ("http://chat.example.org", False),
                                ("null", False)):
            for answer in (self.ask(daemon, origin=origin), self.preflight(daemon, origin=origin)):
                wanted = origin if allowed else None
                self.assertEqual(answer.field("access-control-allow-origin"), wanted, origin)
                self.assertIn("origin", answer.all("vary"))

    def test_credentials_and_lists(self):
        daemon = self.routed({"cors": {"origins": self.ORIGIN, "credentials": True, "methods": ["GET", "POST"],
                                       "headers": ["x-a", "content-type"], "max_age": "0s"}})
        answer = self.preflight(daemon)
        self.assertEqual(answer.field("access-control-allow-credentials"), "true")
        self.assertEqual(answer.field("access-control-allow-methods"), "GET, POST")
        self.assertEqual(answer.field("access-control-allow-headers"), "x-a, content-type")
        self.assertIsNone(answer.field("access-control-max-age"))

    def test_pages_read_our_own_errors(self):
        daemon = self.routed({"match": {"path": "/c"}, "cors": {"origins": [self.ORIGIN]}},
                             pool={"backends": ["127.0.0.1:1"]})
        answer = self.ask(daemon, "/c")
        self.assertIn(answer.status, (502, 503))
        self.assertEqual(answer.all("access-control-allow-origin"), [self.ORIGIN])

    def test_without_cors_preflights_and_answers_are_the_backends(self):
        daemon = self.routed({})
        self.assertEqual(self.preflight(daemon).status, 200)
        self.assertEqual(self.ask(daemon).all("access-control-allow-origin"), ["*"])
        self.assertEqual(len(self.seen), 2)


if __name__ == "__main__":
    case.main()
