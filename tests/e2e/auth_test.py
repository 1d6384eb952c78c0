"""Only requests with an API key are served: keys from the file, live, for real clients."""

import hashlib
import json
import os
import time
import unittest

import case
from process import command
from reloading import ReloadCase
from stream import Stream, exchange

try:
    import openai
except ImportError:
    openai = None
try:
    import anthropic
except ImportError:
    anthropic = None
from grpc_servers import SERVICE, EchoServer, grpc

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
CHAT = "/v1/chat/completions"
PROMPTLY = 2  # seconds, in which a change of the file counts
TENANTS = [{"name": "acme"}, {"name": "small", "models": ["llama-*"]}]


def bearer(key):
    return [("authorization", f"Bearer {key}")]


def chat(model="llama-7b"):
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}]}).encode()


class KeyFileCase(ReloadCase):
    def setUp(self):
        self.file = os.path.join(self.folder(), "keys.txt")

    def key(self, *arguments):
        """`evenkeel key`; returns what it prints."""
        done = command("key", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def create(self, tenant="acme", *arguments):
        return self.key("create", "--file", self.file, "--tenant", tenant, *arguments).strip()

    def listed(self):
        return json.loads(self.key("list", "--file", self.file, "--json"))

    def revoke(self, key):
        self.key("revoke", "--file", self.file, hashlib.sha256(key.encode()).hexdigest()[:8])

    def guarded(self, *backends, pool=None, **config):
        return self.running(*backends, pool={**QUIET, **(pool or {})}, auth={"keys": {"file": self.file}},
                            **{"tenants": TENANTS, **config})

    def asked(self, backend):
        """The requests of clients: evenkeel itself asks for the models."""
        return [each for each in backend.exchanges if each.method == "POST"]

    def status(self, daemon, key=None, target=CHAT, body=chat(), fields=()):
        return exchange(daemon.address, "POST", target, [*(bearer(key) if key else []), *fields], body).status

    def soon(self, condition, what):
        """True within the time that a change may take."""
        began = time.monotonic()
        self.eventually(condition, what)
        self.assert_within(time.monotonic() - began, PROMPTLY, what)


class Keys(KeyFileCase):
    def test_a_request_needs_a_key_and_no_backend_gets_it(self):
        key = self.create()
        backend = self.backend()
        daemon = self.guarded(backend)

        for fields in (bearer(key), [("x-api-key", key)], [("Api-Key", key)], [*bearer("of-the-server"), ("x-api-key", key)]):
            self.assertEqual(self.status(daemon, fields=[*fields, ("x-kept", "yes")]), 200)
        missing = exchange(daemon.address, "POST", CHAT, body=chat())
        unknown = exchange(daemon.address, "POST", CHAT, bearer("ek_wrong"), chat())

        served = self.asked(backend)
        self.assertEqual(len(served), 4, "the others were refused")
        for request in served:
            self.assertNotIn(key, str(request.head.fields))
            self.assertEqual(request.head.field("x-kept"), "yes")
        self.assertEqual(served[3].head.field("authorization"), "Bearer of-the-server")
        for answer, text in ((missing, "no API key"), (unknown, "not known")):
            self.assertEqual(answer.status, 401)
            self.assertEqual(answer.field("x-evenkeel-reason"), "unauthorized")
            self.assertEqual(answer.field("www-authenticate"), "Bearer")
            error = json.loads(answer.body)["error"]
            self.assertEqual((error["type"], error["code"]), ("invalid_request_error", "invalid_api_key"))
            self.assertIn(text, error["message"])
            self.assertIn("authorization: Bearer", error["message"])
        self.eventually(lambda: daemon.metric("evenkeel_errors_total", reason="unauthorized") == 2, "the count of refusals")

    def test_the_body_of_a_refused_request_is_not_awaited(self):
        self.create()
        daemon = self.guarded(self.backend(), pool={"inspect": True, "engine": "vllm"})
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                        b"Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n")
            self.assertEqual(stream.read_response().status, 401)

    def test_routes_have_rules_of_their_own(self):
        key = self.create()
        daemon = self.guarded(self.backend(), routes=[
            {"match": {"path": "/health"}, "auth": "off", "pool": "pool"},
            {"match": {"path": "/open"}, "auth": "optional", "pool": "pool"},
            {"match": {"path": "/fixed"}, "respond": {"status": 200, "body": "ok"}},
            {"match": {"path": "/v1/**"}, "pool": "pool"}])
        expected = {"/health": (200, 200, 200), "/open": (200, 401, 200), "/fixed": (401, 401, 200),
                    CHAT: (401, 401, 200), "/nowhere": (401, 401, 404)}
        for target, statuses in expected.items():
            self.assertEqual(tuple(self.status(daemon, each, target) for each in (None, "ek_wrong", key)), statuses, target)

    def test_preflights_of_browsers_pass(self):
        self.create()
        daemon = self.guarded(self.backend())
        asks = [("origin", "https://a.example"), ("access-control-request-method", "POST")]
        self.assertEqual(exchange(daemon.address, "OPTIONS", CHAT, asks).status, 200)
        self.assertEqual(exchange(daemon.address, "OPTIONS", CHAT).status, 401)

    def test_an_open_route_reads_a_body_only_where_a_route_may_take_it_without_a_key(self):
        key = self.create()
        backend = self.backend()
        daemon = self.guarded(backend, routes=[
            {"match": {"model": "free-*"}, "auth": "optional", "pool": "pool"}, {"pool": "pool"}])
        self.assertEqual(self.status(daemon, None, body=chat("free-1b")), 200)
        self.assertEqual(self.status(daemon, None, body=chat("llama-7b")), 401)
        self.assertEqual(self.status(daemon, key, body=chat("llama-7b")), 200)
        self.assertEqual(len(self.asked(backend)), 2)

    def test_an_expired_key_is_refused_and_says_so(self):
        key = "ek_old"
        with open(self.file, "w", encoding="ascii") as file:
            file.write(f"sha256:{hashlib.sha256(key.encode()).hexdigest()} tenant=acme expires=2020-01-01T00:00:00Z\n")
        daemon = self.guarded(self.backend())
        answer = exchange(daemon.address, "POST", CHAT, bearer(key), chat())
        self.assertEqual(answer.status, 401)
        self.assertIn("expired", json.loads(answer.body)["error"]["message"])
        self.assertTrue(self.listed()[0]["expired"])

    def test_keys_of_the_configuration_count_too(self):
        own = "sk-own"
        tenants = [{"name": "acme", "keys_sha256": [hashlib.sha256(own.encode()).hexdigest()]}]
        daemon = self.running(self.backend(), pool=QUIET, auth={}, tenants=tenants)
        self.assertEqual(self.status(daemon, own), 200)
        self.assertEqual(self.status(daemon), 401)

    def test_a_proxy_that_names_the_tenant_is_a_credential(self):
        self.create()
        daemon = self.guarded(self.backend(), listeners=[{
            "name": "public", "address": "127.0.0.1:0", "trusted_proxies": ["127.0.0.1"], "tenant_header": "x-tenant"}])
        self.assertEqual(self.status(daemon, fields=[("x-tenant", "acme")]), 200)
        self.assertEqual(self.status(daemon, fields=[("x-tenant", "unknown")]), 401)

    def test_no_key_is_in_any_log_metric_or_document(self):
        key = self.create("acme", "--name", "alice")
        server = self.backend(lambda request: request.answer(
            b'{"model": "m", "usage": {"prompt_tokens": 7, "completion_tokens": 3}}',
            fields=[("content-type", "application/json")]))
        daemon = self.guarded(server, pool={"inspect": True, "engine": "vllm"})
        self.assertEqual(self.status(daemon, key), 200)
        self.assertEqual(self.status(daemon, key + "x"), 401)
        lines = daemon.wait_access(2)
        self.assertEqual([line.get("tenant") for line in sorted(lines, key=lambda line: line["status"])], ["acme", None])
        shown = [json.dumps(lines), daemon.ask_admin("/metrics").body.decode(), "\n".join(daemon.lines)]
        shown += [json.dumps(daemon.api(what)) for what in ("requests/recent", "tenants", "status", "backends")]
        shown.append(command("config", "print", "-c", str(daemon.config_path)).stdout)
        with open(self.file, encoding="ascii") as file:
            shown.append(file.read())
        for text in shown:
            self.assertNotIn(key, text)
            self.assertNotIn(key[3:], text)

    def test_the_access_log_can_have_the_id_of_the_key(self):
        key = self.create()
        path = os.path.join(self.folder(), "access.log")
        daemon = self.guarded(self.backend(), access_log={"path": path, "fields": ["status", "tenant", "key"]})
        self.assertEqual((self.status(daemon, key), self.status(daemon)), (200, 401))

        def lines():
            with open(path, encoding="ascii") as file:
                return sorted(file.read().splitlines())

        self.eventually(lambda: os.path.exists(path) and len(lines()) == 2, "two lines")
        self.assertEqual([json.loads(line) for line in lines()], [
            {"status": 200, "tenant": "acme", "key": self.listed()[0]["id"]}, {"status": 401}])


class LiveKeys(KeyFileCase):
    def test_creation_and_revocation_count_within_two_seconds_under_load(self):
        steady = self.create()
        daemon = self.guarded(self.backend())
        going = [True]

        def load():
            statuses = set()
            while going[0]:
                statuses.add(self.status(daemon, steady))
            return statuses

        clients = [self.spawn(load) for _ in range(4)]
        key = self.create("acme", "--name", "second")
        self.soon(lambda: self.status(daemon, key) == 200, "the new key counts")
        self.revoke(key)
        self.soon(lambda: self.status(daemon, key) == 401, "the revoked key counts no longer")
        going[0] = False
        self.assertEqual([client.join() for client in clients], [{200}] * 4)
        self.assertEqual(daemon.metric("evenkeel_api_keys"), 1)

    def test_a_bad_file_keeps_the_last_good_keys(self):
        key = self.create()
        daemon = self.guarded(self.backend())
        good = "evenkeel_key_file_last_read_successful"
        self.assertEqual(daemon.metric(good), 1)
        with open(self.file, encoding="ascii") as file:
            text = file.read()
        for bad in (text + "sha256:12 tenant=acme\n", text.replace("tenant=acme", "tenant=acne"), None):
            if bad is None:
                os.remove(self.file)
            else:
                with open(self.file, "w", encoding="ascii") as file:
                    file.write(bad)
            self.eventually(lambda: daemon.metric(good) == 0, "the file is refused")
            self.assertEqual(self.status(daemon, key), 200)
            with open(self.file, "w", encoding="ascii") as file:
                file.write(text + "# good again\n")
            self.eventually(lambda: daemon.metric(good) == 1, "the file is good again")
        refusals = [line for line in daemon.lines if "the API keys stay as they are" in line]
        self.assertEqual(len(refusals), 3, "one line each")
        self.assertRegex(refusals[0], r"keys\.txt:2:8: ")
        self.assertIn("did you mean 'acme'?", refusals[1])

    def test_a_reload_refuses_a_bad_file_and_names_the_place(self):
        key = self.create()
        daemon = self.guarded(self.backend())
        with open(self.file, "a", encoding="ascii") as file:
            file.write("nonsense\n")
        status, told = self.post_reload()
        self.assertEqual(status, 422, told)
        checked = command("check", "-c", str(daemon.config_path), "--json")
        self.assertEqual(checked.returncode, 1)
        (problem,) = json.loads(checked.stdout)
        self.assertEqual((problem["file"], problem["line"], problem["column"]), (self.file, 2, 1))
        self.assertEqual(self.status(daemon, key), 200)

    def test_a_reload_turns_auth_on_and_off(self):
        key = self.create()
        daemon = self.guarded(self.backend())
        auth = self.config.pop("auth")
        tenants = self.config.pop("tenants")
        self.reload()
        self.assertEqual(self.status(daemon), 200)
        self.config.update(auth=auth, tenants=tenants)
        self.reload()
        self.assertEqual((self.status(daemon), self.status(daemon, key)), (401, 200))


class Models(KeyFileCase):
    def test_a_limit_holds_for_the_tenant_and_for_the_key(self):
        wide, narrow = self.create("small"), self.create("small", "--models", "*-7b,qwen-*")
        backend = self.backend()
        daemon = self.guarded(backend)  # an engine whose bodies nothing else reads
        expected = {"llama-7b": (200, 200), "llama-70b": (200, 403), "qwen-7b": (403, 403)}
        for model, statuses in expected.items():
            self.assertEqual(tuple(self.status(daemon, key, body=chat(model)) for key in (wide, narrow)), statuses, model)
        answer = exchange(daemon.address, "POST", CHAT, bearer(wide), chat("qwen-7b"))
        self.assertEqual(answer.field("x-evenkeel-reason"), "model_not_allowed")
        error = json.loads(answer.body)["error"]
        self.assertEqual((error["type"], error["code"]), ("permission_error", "model_not_allowed"))

    def test_what_names_no_model_or_hides_it_is_refused(self):
        key = self.create("small")
        backend = self.backend()
        daemon = self.guarded(backend)
        late = b'{"messages": [{"role": "user", "content": "' + b"x" * 3_000_000 + b'"}], "model": "%s"}'
        for body, status in ((b'{"messages": []}', 403), (b'{"model": "llama-7b", "messages": [], "model": "qwen"}', 403),
                             (late % b"qwen", 403), (late % b"llama-7b", 200)):
            self.assertEqual(self.status(daemon, key, body=body, fields=[("content-type", "application/json")]), status,
                             body[:80])
        self.assertEqual(self.status(daemon, key, "/custom?model=llama-7b", b"qwen"), 403)
        self.assertEqual(len(self.asked(backend)), 1)

    def test_the_list_of_models_shows_what_the_caller_may_use(self):
        small, all_models = self.create("small"), self.create()
        simulator = self.simulators("--model", "llama-7b").addresses[0]
        other = self.simulators("--model", "qwen-7b").addresses[0]
        daemon = self.running(simulator, other, pool={"engine": "vllm"}, auth={"keys": {"file": self.file}}, tenants=TENANTS)

        def listed(key):
            answer = exchange(daemon.address, "GET", "/v1/models", bearer(key))
            return answer.status, [each["id"] for each in json.loads(answer.body).get("data", [])]

        self.eventually(lambda: listed(small) == (200, ["llama-7b"]), "the list of a limited tenant")
        self.assertEqual(listed(all_models)[0], 200)
        self.assertEqual(exchange(daemon.address, "GET", "/v1/models").status, 401)


class Scopes(KeyFileCase):
    """Which routes and methods a tenant may use."""

    def scoped(self, backend, **tenant):
        return self.guarded(
            backend, tenants=[{"name": "acme", **tenant}, {"name": "free"}], routes=[
                {"name": "small", "match": {"path": "/v1/**", "model": "llama-7b"}, "pool": "pool"},
                {"name": "large", "match": {"path": "/v1/**", "model": "llama-70b"}, "pool": "pool"},
                {"name": "about", "match": {"path": "/about"}, "respond": {"body": "evenkeel"}},
                {"name": "open", "match": {"path": "/open"}, "respond": {"body": "all"}, "auth": "off"},
                {"name": "others", "pool": "pool"}])

    def test_other_routes_get_403_also_where_the_body_chooses(self):
        backend = self.backend()
        key, free = self.create(), self.create("free")
        daemon = self.scoped(backend, routes=["small", "open"])
        self.assertEqual(self.status(daemon, key), 200)
        for target, body in ((CHAT, chat("llama-70b")), (CHAT, chat("another")), ("/about", b""), ("/metrics", b"")):
            got = exchange(daemon.address, "POST", target, bearer(key), body)
            self.assertEqual((got.status, got.field("x-evenkeel-reason")), (403, "tenant_not_allowed"), target)
            self.assertEqual(self.status(daemon, free, target, body), 200, target)
        self.assertEqual(self.status(daemon, key, "/open"), 200)
        self.eventually(lambda: daemon.metric("evenkeel_errors_total", reason="tenant_not_allowed") == 4, "the count of refusals")

    def test_other_methods_get_403(self):
        key = self.create()
        daemon = self.scoped(self.backend(), methods=["GET", "POST"])
        self.assertEqual(self.status(daemon, key), 200)
        got = exchange(daemon.address, "DELETE", "/v1/files/1", bearer(key))
        self.assertEqual((got.status, got.field("x-evenkeel-reason")), (403, "tenant_not_allowed"))
        self.assertIn(b"may not use the method DELETE", got.body)
        self.assertEqual(exchange(daemon.address, "GET", "/v1/files/1", bearer(key)).status, 200)

    def test_the_file_names_routes_that_are_there(self):
        self.create()
        daemon = self.scoped(self.backend(), routes=["small"])
        self.config["tenants"][0]["routes"] = ["smal"]
        self.assertIn("tenants[0].routes[0]: there is no route 'smal'; did you mean 'small'?", self.refused())
        del self.config["auth"], self.config["tenants"][0]["routes"]
        self.config["tenants"][0]["methods"] = ["GET"]
        self.assertIn("tenants[0].methods: nothing keeps the tenant from others without `auth`", self.refused())
        self.assertEqual(self.status(daemon), 401)


class Clients(KeyFileCase):
    def setUp(self):
        super().setUp()
        self.good, self.small = self.create(), self.create("small")

    def simulated(self):
        simulator = self.simulators("--model", "m").addresses[0]
        return self.running(simulator, pool={"engine": "vllm"}, auth={"keys": {"file": self.file}}, tenants=TENANTS)

    @unittest.skipIf(openai is None, "PyPI's openai is not installed (./dev setup)")
    def test_openai(self):
        daemon = self.simulated()

        def ask(key):
            client = openai.OpenAI(base_url=f"http://{daemon.address}/v1", api_key=key, max_retries=0, timeout=20)
            self.addCleanup(client.close)
            return client.chat.completions.create(model="m", max_tokens=4, messages=[{"role": "user", "content": "hi"}])

        self.assertTrue(ask(self.good).choices)
        with self.assertRaises(openai.AuthenticationError) as raised:
            ask("ek_wrong")
        self.assertEqual(raised.exception.code, "invalid_api_key")
        with self.assertRaises(openai.PermissionDeniedError) as raised:
            ask(self.small)
        self.assertEqual(raised.exception.code, "model_not_allowed")

    @unittest.skipIf(anthropic is None, "PyPI's anthropic is not installed (./dev setup)")
    def test_anthropic(self):
        server = self.backend(lambda request: request.answer(json.dumps({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
            "stop_sequence": None, "content": [{"type": "text", "text": "hi"}],
            "usage": {"input_tokens": 1, "output_tokens": 1}}).encode(), fields=[("content-type", "application/json")]))
        daemon = self.guarded(server)

        def ask(key):
            client = anthropic.Anthropic(base_url=f"http://{daemon.address}", api_key=key, max_retries=0, timeout=20)
            self.addCleanup(client.close)
            return client.messages.create(model="m", max_tokens=4, messages=[{"role": "user", "content": "hi"}])

        self.assertTrue(ask(self.good).content)
        with self.assertRaises(anthropic.AuthenticationError) as raised:
            ask("ek_wrong")
        self.assertEqual(raised.exception.body["error"]["type"], "authentication_error")
        with self.assertRaises(anthropic.PermissionDeniedError) as raised:
            ask(self.small)
        self.assertEqual(raised.exception.body["error"]["type"], "permission_error")

    @unittest.skipIf(grpc is None, "PyPI's grpcio is not installed (./dev setup)")
    def test_grpcio(self):
        server = EchoServer()
        self.addCleanup(server.stop)
        daemon = self.guarded(server.address, pool={"protocol": "h2"})
        channel = grpc.insecure_channel(daemon.address)
        self.addCleanup(channel.close)
        say = channel.unary_unary(f"/{SERVICE}/Say")

        def code(*metadata):
            with self.assertRaises(grpc.RpcError) as raised:
                say(b"hello", metadata=metadata, timeout=20)
            return raised.exception.code()

        self.assertEqual(say(b"hello", metadata=[("authorization", f"Bearer {self.good}")], timeout=20), b"hello")
        self.assertNotIn("authorization", [name for name, _ in server.calls[0].metadata])
        self.assertEqual(code(), grpc.StatusCode.UNAUTHENTICATED)
        self.assertEqual(code(("x-api-key", "ek_wrong")), grpc.StatusCode.UNAUTHENTICATED)
        self.assertEqual(code(("x-api-key", self.small)), grpc.StatusCode.PERMISSION_DENIED)


class Verb(KeyFileCase):
    def test_a_key_is_printed_once_and_only_its_hash_is_kept(self):
        key = self.create("acme", "--name", "alice", "--models", "llama-*,qwen", "--expires", "2099-01-31T00:00:00Z")
        self.assertRegex(key, r"^ek_[A-Za-z0-9_-]{43}$")
        digest = hashlib.sha256(key.encode()).hexdigest()
        with open(self.file, encoding="ascii") as file:
            self.assertEqual(file.read(), f"sha256:{digest} tenant=acme name=alice models=llama-*,qwen "
                                          "expires=2099-01-31T00:00:00Z\n")
        self.assertEqual(os.stat(self.file).st_mode & 0o777, 0o600)
        self.assertEqual(self.listed(), [{"id": digest[:8], "tenant": "acme", "name": "alice", "models": ["llama-*", "qwen"],
                                          "expires": "2099-01-31T00:00:00Z", "expired": False}])
        self.assertRegex(self.key("list", "--file", self.file), digest[:8] + r" +acme +alice +llama-\*,qwen +2099-\S+ +valid")

    def test_comments_and_the_mode_of_the_file_stay(self):
        with open(self.file, "w", encoding="ascii") as file:
            file.write("# ours\n")
        os.chmod(self.file, 0o640)
        first, second = self.create(), self.create()
        self.revoke(first)
        with open(self.file, encoding="ascii") as file:
            comment, line = file.read().splitlines()
        self.assertEqual(comment, "# ours")
        self.assertIn(hashlib.sha256(second.encode()).hexdigest(), line)
        self.assertEqual(os.stat(self.file).st_mode & 0o777, 0o640)

    def test_keys_that_are_made_at_once_are_all_kept(self):
        made = [self.spawn(self.create) for _ in range(6)]
        ids = sorted(hashlib.sha256(each.join().encode()).hexdigest()[:8] for each in made)
        self.assertEqual(sorted(each["id"] for each in self.listed()), ids)

    def test_mistakes_are_errors(self):
        self.create()
        for arguments, status, pattern in (
                (["revoke", "--file", self.file, "00000000"], 1, "no key has the id"),
                (["revoke", "--file", self.file, "12"], 1, "not the id of a key"),
                (["revoke", "--file", self.file + "x", "00000000"], 1, "No such file"),
                (["list", "--file", self.file + "x"], 1, "No such file"),
                (["create", "--file", self.file + "/x", "--tenant", "acme"], 1, "Not a directory"),
                (["create", "--file", self.file], 2, "--tenant"),
                (["create", "--file", self.file, "--tenant", "acme", "--name", "a b"], 2, "blank"),
                (["create", "--file", self.file, "--tenant", "acme", "--expires", "2020-01-01T00:00:00Z"], 2, "is over"),
                (["create", "--file", self.file, "--tenant", "acme", "--expires", "soon"], 2, "not a date"),
                ([], 2, "create, list, revoke")):
            done = command("key", *arguments)
            self.assertEqual(done.returncode, status, (arguments, done.stderr))
            self.assertRegex(done.stderr, pattern)
        self.assertEqual(len(self.listed()), 1)

    def test_an_id_of_several_keys_is_an_error(self):
        with open(self.file, "w", encoding="ascii") as file:
            for end in "ab":
                file.write("sha256:" + "1" * 63 + end + " tenant=acme\n")
        done = command("key", "revoke", "--file", self.file, "11111111")
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 keys", done.stderr)
        self.key("revoke", "--file", self.file, "1" * 63 + "b")
        self.assertEqual(len(self.listed()), 1)


if __name__ == "__main__":
    case.main()
