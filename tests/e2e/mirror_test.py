"""Mirrors: another pool gets copies of a route's requests, and the requests themselves notice nothing of it."""

import collections
import hashlib
import json
import signal
import threading
import time

import case
from ports import refusing_address
from process import command
from reloading import ReloadCase
from stream import PATIENCE, Stream, exchange

CHAT = "/v1/chat/completions"
JSON = [("content-type", "application/json")]
QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
MARK = "x-evenkeel-mirror"
MAX_IN_FLIGHT = 256
MAX_BODY = 1024 * 1024


def chat(text="Who is there?", model="m"):
    return json.dumps({"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": text}]}).encode()


def named(name):
    return lambda request: request.answer(name.encode())


class Mirrored(ReloadCase):
    def setUp(self):
        self.go = threading.Event()
        self.late = 0  # answers of those that hang
        self.addCleanup(self.go.set)

    def hang(self, request):
        """Answers when the test lets it."""
        self.go.wait(10 * PATIENCE)
        request.answer(b"late")
        self.late += 1

    def running_mirror(self, first, mirror, share=None, pool=None, mirror_pool=None, route=None, **config):
        """A daemon that answers from `first`, and copies to `mirror`: backends or addresses."""
        addresses = [each if isinstance(each, str) else each.address for each in (first, mirror)]
        self.config = {"listeners": [{"name": "public", "address": "127.0.0.1:0"}],
                       "admin": {"address": "127.0.0.1:0"}, "workers": 1,
                       "pools": [{"name": "stable", "backends": addresses[:1], **QUIET, **(pool or {})},
                                 {"name": "canary", "backends": addresses[1:], **QUIET, **(mirror_pool or {})}],
                       "routes": [{"name": "chat", "pool": "stable", **(route or {}),
                                   "mirror": {"pool": "canary", "share": share} if share else "canary"}],
                       **config}
        self.served = self.daemon(self.config)
        self.config["access_log"] = {"path": str(self.served.access_path)}
        return self.served

    def copies(self, daemon, result):
        return daemon.metric("evenkeel_mirrored_requests_total", pool="canary", result=result)

    def wait_copies(self, daemon, count, result="answered"):
        self.eventually(lambda: self.copies(daemon, result) == count, f"{count} copies that are {result}")

    def wait_exchanges(self, backend, count=1):
        self.eventually(lambda: len(backend.exchanges) >= count, f"{count} requests at the mirror")
        return backend.exchanges


class Copies(Mirrored):
    def test_another_pool_gets_a_copy_and_its_answer_is_dropped(self):
        mirror = self.backend(named("canary"))
        daemon = self.running_mirror(self.backend(named("stable")), mirror)
        got = exchange(daemon.address, "GET", "/any?x=1", [("x-request-id", "id-7"), ("authorization", "Bearer k")])
        self.assertEqual((got.status, got.body), (200, b"stable"))
        self.assertIsNone(got.field(MARK))

        head = self.wait_exchanges(mirror)[0].head
        self.assertEqual((head.method, head.target), ("GET", "/any?x=1"))
        self.assertEqual((head.field("x-request-id"), head.field("authorization")), ("id-7", "Bearer k"))
        self.assertEqual((head.field(MARK), head.field("host")), ("true", "test"))
        self.wait_copies(daemon, 1)

    def test_the_request_itself_has_no_mark(self):
        first = self.backend(named("stable"))
        daemon = self.running_mirror(first, self.backend())
        exchange(daemon.address)
        self.assertIsNone(first.exchanges[0].head.field(MARK))
        self.wait_copies(daemon, 1)

    def test_no_counter_and_no_line_has_the_copy_as_a_request(self):
        daemon = self.running_mirror(self.backend(), self.backend(), route={"match": {"path": "/**"}})
        for _ in range(5):
            exchange(daemon.address)
        self.wait_copies(daemon, 5)
        self.eventually(lambda: daemon.metric("evenkeel_requests_total", pool="stable") == 5)
        self.assertEqual(daemon.metric("evenkeel_requests_total", pool="canary"), 0)
        self.assertEqual([line["pool"] for line in daemon.wait_access(5)], ["stable"] * 5)
        self.assertEqual(daemon.metric("evenkeel_mirrored_requests_in_flight"), 0)

    def test_bodies_obey_the_rules_of_the_tenant_at_both(self):
        first, mirror = self.backend(), self.backend()
        salt = "4c1d0f6f3b3f4f0c9d59c0a6e8a4d9b1"
        daemon = self.running_mirror(first, mirror, tenants=[
            {"name": "acme", "cache_salt": salt, "max_tokens": 9, "keys_sha256": [hashlib.sha256(b"key").hexdigest()]}])
        exchange(daemon.address, "POST", CHAT, [*JSON, ("authorization", "Bearer key")], b'{"model":"m","messages":[]}')
        self.wait_copies(daemon, 1)
        for backend in (first, mirror):
            sent = json.loads(self.wait_exchanges(backend)[0].body)
            self.assertEqual((sent["cache_salt"], sent["max_tokens"]), (salt, 9))

    def test_a_body_arrives_whole(self):
        first, mirror = self.backend(), self.backend()
        daemon = self.running_mirror(first, mirror)
        bodies = [b"", b"x", chat(), bytes(range(256)) * 1024, b"y" * MAX_BODY]
        for body in bodies:
            exchange(daemon.address, "POST", "/upload", body=body)
        self.wait_copies(daemon, len(bodies))
        self.assertEqual([each.body for each in first.exchanges], bodies)
        self.assertCountEqual([each.body for each in mirror.exchanges], bodies)  # they may overtake each other

    def test_a_body_that_comes_in_pieces_arrives_whole(self):
        first, mirror = self.backend(), self.backend()
        daemon = self.running_mirror(first, mirror)
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST /pieces HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n")
            self.eventually(first.connections, "the first piece at the first backend")
            self.assertEqual(mirror.exchanges, [])
            stream.send(b"5\r\n last\r\n0\r\n\r\n")
            self.assertEqual(stream.read_response().status, 200)
        self.assertEqual(self.wait_exchanges(mirror)[0].body, b"first last")
        self.wait_copies(daemon, 1)

    def test_an_inspected_body_gets_the_name_that_the_mirror_has_for_the_model(self):
        first, mirror = self.backend(), self.backend()
        daemon = self.running_mirror(first, mirror, pool={"inspect": True}, mirror_pool={"inspect": True, "model": "m-v2"})
        exchange(daemon.address, "POST", CHAT, JSON, chat())
        self.assertEqual(json.loads(first.exchanges[0].body)["model"], "m")
        self.assertEqual(json.loads(self.wait_exchanges(mirror)[0].body), {**json.loads(chat()), "model": "m-v2"})
        self.wait_copies(daemon, 1)

    def test_a_mirror_may_inspect_where_the_pool_does_not(self):
        first, mirror = self.backend(), self.backend()
        daemon = self.running_mirror(first, mirror, mirror_pool={"inspect": True, "model": "m-v2"})
        exchange(daemon.address, "POST", CHAT, JSON, chat())
        self.assertEqual(json.loads(self.wait_exchanges(mirror)[0].body)["model"], "m-v2")
        self.wait_copies(daemon, 1)
        # To the pool, malformed JSON is what it is; only the copy is refused.
        self.assertEqual(exchange(daemon.address, "POST", CHAT, JSON, b"{").status, 200)
        self.wait_copies(daemon, 1, "failed")
        self.assertEqual(len(mirror.exchanges), 1)

    def test_a_stream_is_read_to_its_end(self):
        def stream(request):
            request.begin_chunks([("content-type", "text/event-stream")])
            for number in range(20):
                request.chunk(b"data: %d\n\n" % number)
            request.end_chunks()

        first, mirror = self.backend(stream), self.backend(stream)
        daemon = self.running_mirror(first, mirror)
        got = exchange(daemon.address, "POST", "/sse", body=b"{}")
        self.assertEqual(got.body.count(b"data:"), 20)
        self.wait_copies(daemon, 1)

    def test_copies_have_the_path_and_the_fields_of_the_route(self):
        mirror = self.backend()
        daemon = self.running_mirror(self.backend(), mirror, route={
            "match": {"path": "/a/**"}, "rewrite": {"strip_prefix": "/a"}, "request_headers": {"set": {"x-team": "a"}}})
        exchange(daemon.address, target="/a/b")
        head = self.wait_exchanges(mirror)[0].head
        self.assertEqual((head.target, head.field("x-team")), ("/b", "a"))
        self.wait_copies(daemon, 1)

    def test_refused_requests_are_not_copied(self):
        mirror = self.backend()
        daemon = self.running_mirror(self.backend(), mirror, pool={"inspect": True}, route={"match": {"path": "/v1/**"}})
        self.assertEqual(exchange(daemon.address, "POST", CHAT, JSON, b"{").status, 400)
        self.assertEqual(exchange(daemon.address, target="/other").status, 404)
        exchange(daemon.address, target="/v1/last")
        self.wait_copies(daemon, 1)
        self.assertEqual([each.target for each in mirror.exchanges], ["/v1/last"])


class Shares(Mirrored):
    def test_the_share_is_that_of_conversations_and_stays(self):
        mirror = self.backend()
        daemon = self.running_mirror(self.backend(), mirror, share="10%", workers=2)
        sessions = [f"user-{number}" for number in range(2000)]

        def ask_all():
            before = len(mirror.exchanges)
            for first in range(0, len(sessions), 100):
                with Stream.connect(daemon.address) as stream:
                    for session in sessions[first:first + 100]:
                        stream.exchange(fields=[("x-session-id", session)])
            self.eventually(lambda: daemon.metric("evenkeel_mirrored_requests_in_flight") == 0)
            return collections.Counter(each.head.field("x-session-id") for each in mirror.exchanges[before:])

        copied = ask_all()
        self.assertAlmostEqual(len(copied) / len(sessions), 0.1, delta=0.03)
        self.assertEqual(set(copied.values()), {1})
        self.assertEqual(ask_all(), copied)
        self.assertEqual(sum(copied.values()) * 2, self.copies(daemon, "answered"))

    def test_a_share_of_nothing_copies_nothing(self):
        mirror = self.backend()
        daemon = self.running_mirror(self.backend(), mirror, share="0%")
        for _ in range(50):
            exchange(daemon.address)
        daemon.wait_at_rest()
        self.assertEqual(mirror.exchanges, [])


class Independence(Mirrored):
    def ask(self, daemon, count=20):
        """The longest time of some requests."""
        longest = 0
        for _ in range(count):
            began = time.monotonic()
            self.assertEqual(exchange(daemon.address, "POST", body=b"text").body, b"stable")
            longest = max(longest, time.monotonic() - began)
        return longest

    def test_a_dead_mirror_does_not_matter(self):
        daemon = self.running_mirror(self.backend(named("stable")), refusing_address())
        self.assert_within(self.ask(daemon), 1)
        self.wait_copies(daemon, 20, "failed")

    def test_a_mirror_that_accepts_nothing_does_not_matter(self):
        daemon = self.running_mirror(self.backend(named("stable")), self.unresponsive_server(),
                                     mirror_pool={"timeouts": {"connect": "300ms"}})
        self.assert_within(self.ask(daemon), 1)
        self.wait_copies(daemon, 20, "failed")

    def test_a_hanging_mirror_does_not_matter_and_copies_are_bounded(self):
        mirror = self.backend(self.hang)
        daemon = self.running_mirror(self.backend(named("stable")), mirror)
        more = 20
        self.assert_within(self.ask(daemon, MAX_IN_FLIGHT + more), 1)
        self.wait_copies(daemon, more, "too_many")
        self.eventually(lambda: daemon.metric("evenkeel_mirrored_requests_in_flight") == MAX_IN_FLIGHT)
        self.go.set()
        self.wait_copies(daemon, MAX_IN_FLIGHT)
        self.ask(daemon, 1)
        self.wait_copies(daemon, MAX_IN_FLIGHT + 1)

    def test_a_full_mirror_does_not_matter(self):
        mirror = self.backend(self.hang)
        daemon = self.running_mirror(self.backend(named("stable")), mirror,
                                     mirror_pool={"limits": {"max_in_flight": 1, "queue": {"size": 1}}})
        self.assert_within(self.ask(daemon), 1)
        self.wait_copies(daemon, 18, "failed")
        self.go.set()
        self.wait_copies(daemon, 2)

    def test_an_answer_that_breaks_off_or_is_an_error_counts_as_failed(self):
        def script(request):
            if request.target == "/error":
                return request.answer(b"no", status=500)
            request.begin_chunks()
            request.chunk(b"a part")
            return request.abort()

        daemon = self.running_mirror(self.backend(), self.backend(script))
        for target in ("/error", "/broken"):
            self.assertEqual(exchange(daemon.address, target=target).status, 200)
        self.wait_copies(daemon, 2, "failed")

    def test_the_mirror_is_asked_although_the_pool_fails(self):
        mirror = self.backend()
        daemon = self.running_mirror(refusing_address(), mirror)
        self.assertGreaterEqual(exchange(daemon.address).status, 500)
        self.wait_copies(daemon, 1)

    def test_a_client_that_leaves_does_not_end_the_copy(self):
        mirror = self.backend()
        first = self.backend(self.hang)
        daemon = self.running_mirror(first, mirror)
        with Stream.connect(daemon.address) as stream:
            stream.ask("POST", body=b"text")
            self.wait_exchanges(first)
        self.wait_copies(daemon, 1)
        self.assertEqual(mirror.exchanges[0].body, b"text")
        self.go.set()

    def test_a_client_that_leaves_within_its_body_has_no_copy(self):
        mirror = self.backend()
        first = self.backend(reads_body=False)
        daemon = self.running_mirror(first, mirror)
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 10\r\n\r\nhalf")
            self.wait_exchanges(first)
        self.wait_copies(daemon, 1, "body_not_held")
        self.assertEqual(mirror.exchanges, [])

    def test_long_bodies_and_tunnels_are_not_copied(self):
        mirror = self.backend()
        daemon = self.running_mirror(self.backend(named("stable")), mirror)
        body = b"x" * (MAX_BODY + 1)
        self.assertEqual(exchange(daemon.address, "POST", body=body).body, b"stable")
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST / HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
                        % (len(body), body))
            self.assertEqual(stream.read_response().body, b"stable")
        self.wait_copies(daemon, 2, "body_not_held")
        exchange(daemon.address, fields=[("connection", "upgrade"), ("upgrade", "websocket"),
                                         ("sec-websocket-version", "13"), ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")])
        self.wait_copies(daemon, 3, "body_not_held")
        self.assertEqual(mirror.exchanges, [])

    def test_a_retry_does_not_repeat_the_body_of_the_copy(self):
        bodies = []

        def script(request):
            bodies.append(request.body)
            request.answer(b"stable", status=200 if len(bodies) > 1 else 503)

        mirror = self.backend()
        daemon = self.running_mirror(self.backend(script), mirror, pool={
            "backends": [self.backend(script).address, self.backend(script).address], "retry": {"on": ["5xx"]}})
        self.assertEqual(exchange(daemon.address, "POST", body=b"text").body, b"stable")
        self.wait_copies(daemon, 1)
        self.assertEqual(bodies, [b"text"] * 2)
        self.assertEqual([each.body for each in mirror.exchanges], [b"text"])


class Changes(Mirrored):
    def test_a_reload_lets_copies_end_and_takes_the_mirror_away(self):
        mirror = self.backend(self.hang)
        daemon = self.running_mirror(self.backend(named("stable")), mirror)
        exchange(daemon.address)
        self.wait_exchanges(mirror)
        del self.config["routes"][0]["mirror"]
        self.config["pools"].pop()
        self.reload()
        for _ in range(5):
            self.assertEqual(exchange(daemon.address).body, b"stable")
        self.assertEqual(mirror.connections(), 1)
        self.go.set()
        self.eventually(lambda: not mirror.connections(), "the end of the copy and of its link")
        self.assertEqual(self.late, 1)

    def test_a_drain_does_not_wait_for_copies(self):
        mirror = self.backend(self.hang)
        daemon = self.running_mirror(self.backend(named("stable")), mirror, shutdown={"drain": "60s"})
        exchange(daemon.address)
        self.wait_exchanges(mirror)
        began = time.monotonic()
        daemon.signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_exit(), 0)
        self.assert_within(time.monotonic() - began, 5)
        self.go.set()


class Files(Mirrored):
    def check(self, mirror, **route):
        path = f"{self.folder()}/evenkeel.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"pools": [{"name": "stable", "backends": ["127.0.0.1:1"]},
                                 {"name": "canary", "backends": ["127.0.0.1:2"]}],
                       "routes": [{"mirror": mirror, **(route or {"pool": "stable"})}]}, file, indent=1)
        told = command("check", "-c", path)
        return told.returncode, told.stdout + told.stderr

    def test_check_takes_the_pool_as_used(self):
        for mirror in ("canary", {"pool": "canary", "share": "0.5%"}):
            code, text = self.check(mirror)
            self.assertEqual(code, 0, text)
            self.assertNotIn("no route leads", text)

    def test_check_names_a_pool_that_is_unknown(self):
        code, text = self.check("canari")
        self.assertNotEqual(code, 0)
        self.assertIn("routes[0].mirror: there is no pool 'canari'", text)
        self.assertIn("did you mean 'canary'?", text)

    def test_check_refuses_a_mirror_of_no_pool(self):
        code, text = self.check("canary", respond={"status": 200})
        self.assertNotEqual(code, 0)
        self.assertIn("no pool gets the requests of a route with 'respond'", text)


if __name__ == "__main__":
    case.main()
