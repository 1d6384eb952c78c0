"""The requests of a session go to one backend."""

import hashlib
import http.cookiejar
import json
import ssl
import subprocess
import threading
import unittest
import urllib.request

import case
from certificates import Authority
from reloading import ReloadCase
from stream import PATIENCE, Stream, exchange

try:
    import numpy
    import tritonclient.http
except ImportError:
    tritonclient = None

SESSIONS = [f"session-{number}" for number in range(12)]


class AffinityCase(ReloadCase):
    def pinned(self, count=3, by=("header:x-session-id",), script=None, listeners=None, **pool):
        """A daemon with a pool that pins sessions; each backend responds with its number."""
        answer = script or (lambda request, number: request.answer(b"%d" % number))
        self.backends = [self.backend(lambda request, number=number: answer(request, number))
                         for number in range(count)]
        return self.running(*self.backends, listeners=listeners, pool={
            "picker": "round-robin", "affinity": {"by": list(by)}, **pool})

    def placed(self, daemon, sessions=SESSIONS):
        """The backend of one request of each session, each on its own connection."""
        return [int(exchange(daemon.address, fields=[("x-session-id", session)]).body) for session in sessions]

    def results(self, daemon):
        return {result: daemon.metric("evenkeel_affinity_requests_total", result=result)
                for result in ("hit", "miss", "move")}

    def sessions(self, daemon):
        return daemon.api("pools")[0]["sessions"]


class Sessions(AffinityCase):
    def test_their_requests_go_to_one_backend_over_any_worker(self):
        daemon = self.pinned()

        first = self.placed(daemon)
        for _ in range(5):
            self.assertEqual(self.placed(daemon), first)

        self.assertEqual(set(first), {0, 1, 2})
        self.assertEqual(self.sessions(daemon), len(SESSIONS))
        self.assertEqual(daemon.metric("evenkeel_affinity_sessions", pool="pool"), len(SESSIONS))
        self.assertEqual(self.results(daemon), {"hit": 5 * len(SESSIONS), "miss": len(SESSIONS), "move": 0})

    def test_other_requests_go_anywhere(self):
        daemon = self.pinned()
        with Stream.connect(daemon.address) as stream:
            self.assertEqual({stream.exchange().body for _ in range(9)}, {b"0", b"1", b"2"})
        self.assertEqual(self.sessions(daemon), 0)

    def test_a_tenants_requests_that_name_none_belong_to_its_session(self):
        keys = {name: f"sk-{name}-4711" for name in ("acme", "beta", "desk")}
        tenants = [{"name": name, "keys_sha256": [hashlib.sha256(key.encode()).hexdigest()]} for name, key in keys.items()]
        tenants[0]["session"] = "acme"
        self.backends = [self.backend(lambda request, number=number: request.answer(b"%d" % number)) for number in range(3)]
        daemon = self.running(*self.backends, pool={"picker": "round-robin", "affinity": {"by": ["header:x-session-id"]}},
                              tenants=tenants)

        def placed(name, *fields, count=9):
            fields = [("authorization", f"Bearer {keys[name]}"), *fields]
            return {exchange(daemon.address, fields=fields).body for _ in range(count)}

        self.assertEqual(len(placed("acme")), 1)
        self.assertEqual(placed("beta"), {b"0", b"1", b"2"})
        self.assertEqual(self.sessions(daemon), 1)
        self.assertEqual(placed("acme"), placed("desk", ("x-session-id", "acme")))  # by its name, too
        others = [placed("acme", ("x-session-id", session), count=1) for session in SESSIONS]
        self.assertGreater(len({each.pop() for each in others}), 1)
        self.assertEqual(self.sessions(daemon), 1 + len(SESSIONS))

    def test_a_pool_without_affinity_has_none(self):
        daemon = self.running(self.backend())
        self.assertIsNone(self.sessions(daemon))
        self.assertNotIn(b"evenkeel_affinity", daemon.ask_admin("/metrics").body)

    def test_the_first_source_that_a_request_has_counts(self):
        daemon = self.pinned(by=["header:X-Chat", "cookie:user"])

        def to(*fields):
            return exchange(daemon.address, fields=fields).body

        ann = to(("x-chat", "ann"))
        user = next(name for name in SESSIONS if to(("cookie", f"theme=dark; user={name}")) != ann)
        bob = to(("cookie", f"user={user}"))
        self.assertNotEqual(ann, bob)
        for _ in range(6):
            self.assertEqual(to(("X-CHAT", "ann"), ("cookie", f"user={user}")), ann)
            self.assertEqual(to(("cookie", f"x=y;user={user};z")), bob)
            to()

    def test_they_end_when_idle(self):
        daemon = self.pinned(affinity={"by": ["header:x-session-id"], "ttl": "1s"})
        self.placed(daemon)
        self.eventually(lambda: self.sessions(daemon) == 0, "that idle sessions are forgotten")

    def test_they_survive_reloads_and_lose_only_backends_that_are_removed(self):
        daemon = self.pinned()
        first = self.placed(daemon)

        self.pool["limits"] = {"max_in_flight": 50}
        self.pool["affinity"]["max_sessions"] = 5000
        self.reload()
        self.assertEqual(self.placed(daemon), first)

        removed = self.pool["backends"].pop(0)
        self.reload()
        after = self.placed(daemon)
        self.assertNotIn(0, after)
        for before, now in zip(first, after):
            if before != 0:
                self.assertEqual(now, before)
        self.assertEqual(self.placed(daemon), after)
        self.assertEqual(self.sessions(daemon), len(SESSIONS))
        self.assertNotIn(removed, self.states())

    def test_refused_requests_with_fresh_names_displace_none(self):
        def script(request, number):
            refused = request.head.field("x-session-id").startswith("fresh")
            request.answer(b"%d" % number, status=401 if refused else 200)

        daemon = self.pinned(script=script, affinity={"by": ["header:x-session-id"], "max_sessions": 140})
        first = self.placed(daemon)
        with Stream.connect(daemon.address) as stream:
            for number in range(1000):
                self.assertEqual(stream.exchange(fields=[("x-session-id", f"fresh-{number}")]).status, 401)

        self.assertEqual(self.placed(daemon), first)

    def test_a_backend_that_is_removed_releases_them(self):
        daemon = self.pinned()
        lost = self.placed(daemon).count(0)
        removed = self.pool["backends"].pop(0)
        self.reload()
        daemon.wait_line(rf"pool pool: {removed} is removed, its sessions are released: {lost}$")


class Backends(AffinityCase):
    def test_one_that_dies_releases_its_sessions(self):
        simulators = [self.simulators() for _ in range(3)]
        daemon = self.running(*(each.addresses[0] for each in simulators), pool={
            "picker": "round-robin", "debug_headers": True, "affinity": {"by": ["header:x-session-id"]},
            "health": {"check": "http", "path": "/health", "interval": "100ms", "timeout": "1s"}})

        def placed():
            answers = [exchange(daemon.address, "GET", "/v1/models", [("x-session-id", session)]) for session in SESSIONS]
            self.assertEqual({answer.status for answer in answers}, {200})
            return [answer.field("x-evenkeel-backend") for answer in answers]

        self.eventually(lambda: set(self.states().values()) == {"up"}, "backends that are up")
        first = placed()
        dead = simulators[0].addresses[0]
        simulators[0].kill()
        daemon.wait_line(rf"pool pool: {dead} is down, its sessions are released: {first.count(dead)}$")

        after = placed()
        self.assertNotIn(dead, after)
        for before, now in zip(first, after):
            if before != dead:
                self.assertEqual(now, before)
        self.assertEqual(placed(), after)

    def test_one_that_is_drained_keeps_its_sessions(self):
        daemon = self.pinned()
        first = self.placed(daemon)
        drained = self.backends[0].address

        self.assertEqual(daemon.ask_admin(f"/api/v1/backends/{drained}/drain", method="POST").status, 200)
        self.eventually(lambda: self.states()[drained] == "draining", "the drain")

        self.assertEqual(self.placed(daemon), first)
        self.assertNotIn(0, self.placed(daemon, [f"new-{number}" for number in range(6)]))

    def test_a_full_one_is_waited_for(self):
        arrived, leave = threading.Event(), threading.Event()

        def script(request, number):
            if request.target == "/slow":
                arrived.set()
                leave.wait(PATIENCE)
            request.answer(b"%d" % number)

        daemon = self.pinned(script=script, limits={"max_in_flight": 1})
        session = [("x-session-id", "one")]
        pinned = exchange(daemon.address, fields=session).body
        slow = self.spawn(lambda: exchange(daemon.address, target="/slow", fields=session).body)
        self.assertTrue(arrived.wait(PATIENCE))

        second = self.spawn(lambda: exchange(daemon.address, fields=session).body)
        self.eventually(lambda: daemon.api("pools")[0]["waiting"] == 1, "the request that waits")
        others = [exchange(daemon.address).body for _ in range(4)]
        leave.set()

        self.assertNotIn(pinned, others)
        self.assertEqual((slow.join(), second.join()), (pinned, pinned))

    def test_one_that_refuses_a_request_loses_the_session(self):
        refusing = set()

        def script(request, number):
            if number in refusing:
                return request.answer(b"", status=503, phrase="Service Unavailable")
            return request.answer(b"%d" % number)

        daemon = self.pinned(script=script)
        first = self.placed(daemon, ["one"])[0]
        refusing.add(first)

        moved = self.placed(daemon, ["one"])[0]
        refusing.clear()

        self.assertNotEqual(moved, first)
        self.assertEqual(set(self.placed(daemon, ["one"] * 5)), {moved})
        self.assertEqual(self.results(daemon)["move"], 1)


class Cookies(AffinityCase):
    def browser(self, context=None):
        handlers = [urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())]
        if context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        return urllib.request.build_opener(*handlers)

    def test_browsers_get_one_that_keeps_them_at_their_backend(self):
        daemon = self.pinned(by=["header:x-session-id", "cookie"])
        browsers = [self.browser() for _ in range(6)]

        def visit():
            answers = [browser.open(f"http://{daemon.address}/", timeout=PATIENCE) for browser in browsers]
            return [answer.read() for answer in answers], [answer.headers.get_all("set-cookie") for answer in answers]

        first, cookies = visit()
        for each in cookies:
            self.assertEqual(len(each), 1)
            self.assertRegex(each[0], r"^evenkeel-session=[0-9a-f]{32}; Path=/; HttpOnly; SameSite=Lax$")
        self.assertEqual(len({each[0] for each in cookies}), len(browsers))
        self.assertGreater(len(set(first)), 1)
        for _ in range(3):
            again, cookies = visit()
            self.assertEqual(again, first)
            self.assertEqual(set(cookies), {None})

    def test_a_request_with_a_session_gets_none(self):
        daemon = self.pinned(by=["header:x-session-id", "cookie"])
        answer = exchange(daemon.address, fields=[("x-session-id", "one")])
        self.assertIsNone(answer.field("set-cookie"))

    def test_a_named_one_is_only_read(self):
        daemon = self.pinned(by=["cookie:user"])
        self.assertIsNone(exchange(daemon.address).field("set-cookie"))

    def test_over_tls_it_is_secure(self):
        authority = Authority(self.folder())
        certificate = authority.issue("localhost", "127.0.0.1")
        daemon = self.pinned(by=["cookie"], listeners=[
            {"name": "public", "address": "127.0.0.1:0", "tls": {"certificates": [certificate.config()]}}])
        browser = self.browser(ssl.create_default_context(cafile=authority.cert))
        url = f"https://localhost:{daemon.address.rsplit(':', 1)[1]}/"

        answer = browser.open(url, timeout=PATIENCE)
        first = answer.read()

        self.assertTrue(answer.headers["set-cookie"].endswith("; SameSite=Lax; Secure"))
        self.assertEqual({browser.open(url, timeout=PATIENCE).read() for _ in range(5)}, {first})

    def test_curl_keeps_it_in_its_jar(self):
        daemon = self.pinned(by=["cookie"])
        jar = f"{self.folder()}/cookies"
        url = f"http://{daemon.address}/"
        bodies = [subprocess.run(["curl", "-sS", "-c", jar, "-b", jar, url], capture_output=True, check=True,
                                 timeout=PATIENCE).stdout for _ in range(6)]
        self.assertEqual(len(set(bodies)), 1)


class Bodies(AffinityCase):
    def post(self, daemon, target="/v1/chat/completions", **body):
        return exchange(daemon.address, "POST", target, body=json.dumps({"model": "tiny", **body}).encode())

    def test_a_session_that_the_body_names(self):
        daemon = self.pinned(by=["header:x-session-id", "session_id"])
        messages = [{"role": "user", "content": "hello"}]

        for key in ("session_id", "prompt_cache_key"):
            first = [self.post(daemon, messages=messages, **{key: session}).body for session in SESSIONS]
            for _ in range(3):
                self.assertEqual([self.post(daemon, messages=messages, **{key: session}).body
                                  for session in SESSIONS], first)
        self.assertEqual({self.post(daemon, messages=messages).body for _ in range(6)}, {b"0", b"1", b"2"})
        self.assertEqual(self.sessions(daemon), len(SESSIONS))

    def infer(self, daemon, sequence, model="resnet"):
        return self.post(daemon, f"/v2/models/{model}/infer", inputs=[], parameters={"sequence_id": sequence})

    def test_a_sequence_never_splits(self):
        failing = set()

        def script(request, number):
            if number in failing:
                return request.answer(b"", status=503, phrase="Service Unavailable")
            return request.answer(b"%d" % number)

        daemon = self.pinned(by=["sequence_id"], script=script, outlier={"consecutive": 0})
        first = [int(self.infer(daemon, sequence).body) for sequence in range(1, 7)]
        self.assertEqual(set(first), {0, 1, 2})
        for _ in range(3):
            self.assertEqual([int(self.infer(daemon, sequence).body) for sequence in range(1, 7)], first)

        failing.add(first[0])
        answer = self.infer(daemon, 1)
        self.assertEqual(answer.status, 503)
        self.assertEqual(len(daemon.wait_access(25)[-1]["attempts"]), 1)
        failing.clear()
        self.assertEqual(int(self.infer(daemon, 1).body), first[0])

    def test_sequences_of_two_models_are_different_ones(self):
        daemon = self.pinned(by=["sequence_id"])
        self.infer(daemon, 1, "one")
        self.infer(daemon, 1, "other")
        self.assertEqual(self.sessions(daemon), 2)

    def test_a_session_of_any_route_with_a_split(self):
        daemon = self.pinned(by=["session_id"])
        self.config["routes"] = [{"split": {"pool": 1, "other": 1}}]
        self.config["pools"].append({"name": "other", "backends": [self.backend().address]})
        self.reload()
        for session in SESSIONS:
            answers = {self.post(daemon, session_id=session).body for _ in range(3)}
            self.assertEqual(len(answers), 1, session)


@unittest.skipIf(tritonclient is None, "PyPI's tritonclient is not installed (./dev setup)")
class Sequences(AffinityCase):
    MODEL = "counter"

    def triton(self, **pool):
        self.simulators_ = self.simulators("--engine", "triton", "--model", self.MODEL, count=3)
        return self.running(*self.simulators_.addresses, pool={
            "engine": "triton", "picker": "round-robin", "affinity": {"by": ["sequence_id"]}, **pool})

    def infer(self, client, tensor, sequences):
        """Three requests of each sequence, one after the other."""
        for step in range(3):
            for sequence in sequences:
                client.infer(self.MODEL, [tensor], request_id=str(sequence), sequence_id=sequence,
                             sequence_start=step == 0, sequence_end=step == 2)

    def check(self, daemon, count):
        lines = daemon.wait_access(3 * count)
        backends = [line["backend"] for line in lines if line["method"] == "POST"]
        self.assertEqual(len(backends), 3 * count)
        for sequence in range(count):
            self.assertEqual(len(set(backends[sequence::count])), 1, f"sequence {sequence}")
        self.assertEqual(set(backends), set(self.simulators_.addresses))
        self.assertEqual(self.sessions(daemon), count)

    def test_tritonclient_over_http(self):
        daemon = self.triton()
        values = numpy.ones((1, 4), numpy.float32)
        tensor = tritonclient.http.InferInput("INPUT0", list(values.shape), "FP32")
        tensor.set_data_from_numpy(values, binary_data=False)  # the simulator reads JSON only
        with tritonclient.http.InferenceServerClient(daemon.address) as client:
            self.infer(client, tensor, range(1, 11))
        self.check(daemon, 10)


if __name__ == "__main__":
    case.main()
