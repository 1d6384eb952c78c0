"""Why `picker: expected-time` placed a request as it did: in metrics, and on the admin API."""

import json

import case
from process import command
from stream import Closed, Stream, exchange

EXPLAIN = ("x-evenkeel-explain", "1")
CHAT = "/v1/chat/completions"
POOL = {"picker": "expected-time", "engine": "vllm", "health": {"check": "off"}, "metrics": {"scrape": "off"}}
SHEDDING = {"name": "expected-time", "slo": {"ttft": "10ms"}, "shed": 1}


def chat(words, max_tokens=8, about="lorem ipsum", stream=True):
    return json.dumps({"model": "llama", "stream": stream, "max_tokens": max_tokens,
                       "messages": [{"role": "user", "content": f"{about} " * words}]}).encode()


def prompts(server):
    """What it got of clients: evenkeel itself asks for its list of models."""
    return [each for each in server.exchanges if each.method == "POST"]


class Watching(case.Case):
    def setUp(self):
        self.servers = self.simulators("--model", "llama", "--prompt-tokens-details", count=2, speed=1)
        self.daemon_ = self.start_daemon(*self.servers.addresses, pool=POOL, workers=1)

    def ask(self, *args, **kwargs):
        try:
            answer = exchange(self.daemon_.address, "POST", CHAT, (), chat(*args, **kwargs))
        except Closed as error:
            self.daemon_.wait_at_rest()
            self.fail(f"{error}; the access log: {self.daemon_.access_lines()[-1:]}")
        self.assertEqual(answer.status, 200, answer.body)

    def counted(self, name):
        return self.daemon_.metric(f"evenkeel_scheduler_{name}")

    def test_metrics_tell_what_was_placed_and_how_well_it_was_predicted(self):
        self.assertEqual(self.counted("placed_total"), 0)
        for number in range(5):
            self.ask(200 + number)
        self.assertEqual(self.counted("placed_total"), 5)
        self.assertEqual(self.counted("refused_total"), 0)
        self.assertEqual(self.counted("first_tokens_total"), 5)
        for name in ("predicted_first_token", "first_token", "first_token_error", "demand_prefill", "demand_decode"):
            self.assertGreater(self.counted(f"{name}_seconds_total"), 0, name)
        self.assertEqual(self.counted("index_bytes"), self.daemon_.api("pools")[0]["scheduler"]["index_bytes"])
        self.assertEqual(self.daemon_.api("pools")[0]["scheduler"]["placed_total"], 5)

    def confidence(self, backend):
        return next(labels for (name, labels), value in self.daemon_.metrics().items()
                    if name == "evenkeel_backend_confidence" and value == 1 and ("backend", backend) in labels)

    def test_the_confidence_in_a_backend_is_shown_and_rises(self):
        backend = self.servers.addresses[0]
        self.assertIn(("confidence", "cold"), self.confidence(backend))
        for number in range(300):
            self.ask(200, max_tokens=4, about=f"topic {number}")
            busiest = max(self.daemon_.api("backends"), key=lambda each: each["picks_total"])
            if busiest["forecast"]["confidence"] != "cold":
                break
        self.assertEqual(busiest["forecast"]["confidence"], "confirmed")
        self.assertGreaterEqual(busiest["forecast"]["wait_seconds"], 0)
        self.assertIn(("confidence", "confirmed"), self.confidence(busiest["id"]))
        self.assertIn("confirmed", command("ctl", "backends", "--admin", self.daemon_.admin).stdout)

    def test_requests_that_are_refused_are_counted(self):
        server = self.backend(lambda request: request.wait_disconnected())
        self.daemon_ = self.start_daemon(
            server, pool={**POOL, "picker": SHEDDING}, workers=1)
        stream = Stream.connect(self.daemon_.address)
        self.addCleanup(stream.close)
        stream.ask("POST", CHAT, (), chat(2000))
        self.eventually(lambda: prompts(server))
        answer = exchange(self.daemon_.address, "POST", CHAT, (), chat(2000))
        self.assertEqual(answer.status, 429)
        self.assertEqual(self.counted("refused_total"), 1)


class Explaining(case.Case):
    def start(self, *servers, pool=(), **config):
        self.daemon_ = self.start_daemon(*servers, pool={**POOL, **dict(pool)}, workers=1, **config)

    def trusting(self):
        return {"listeners": [{"address": "127.0.0.1:0", "trusted_proxies": ["127.0.0.0/8"]}]}

    def ask(self, name, *fields, words=300):
        return exchange(self.daemon_.address, "POST", CHAT, (("x-request-id", name), *fields), chat(words))

    def kept(self, name):
        answer = self.daemon_.ask_admin(f"/api/v1/decisions/{name}")
        return json.loads(answer.body)["attempts"] if answer.status == 200 else []

    def test_a_trusted_client_is_told_why(self):
        servers = self.simulators("--model", "llama", "--prompt-tokens-details", count=2, speed=5)
        self.start(*servers.addresses, **self.trusting())
        self.assertEqual(self.ask("first", EXPLAIN).status, 200)
        answer = self.ask("again", EXPLAIN)  # the same prompt: now it is cached
        told = answer.field("x-evenkeel-decision")
        self.daemon_.wait_at_rest()

        attempt, = self.kept("again")
        self.assertEqual(attempt["state"], "finished")
        self.assertEqual(attempt["pool"], "pool")
        self.assertIn(f'backend="{attempt["backend"]}"', told)
        self.assertIn("confidence=", told)
        chosen = attempt["candidates"][0]
        self.assertEqual(chosen["backend"], attempt["backend"])
        self.assertGreater(chosen["cached_tokens"], 100)
        self.assertEqual({each["backend"] for each in attempt["candidates"]}, set(servers.addresses))
        self.assertGreaterEqual(chosen["heard_age_seconds"], 0)
        self.assertIsNone(chosen["report_age_seconds"])  # its metrics are not polled
        self.assertEqual(attempt["predicted"]["cached_tokens"], chosen["cached_tokens"])
        self.assertGreater(attempt["outcome"]["cached_tokens"], 100)
        self.assertEqual(attempt["outcome"]["output_tokens"], 8)
        self.assertGreater(attempt["outcome"]["ttft_seconds"], 0)
        self.assertGreaterEqual(attempt["outcome"]["seconds"], attempt["outcome"]["ttft_seconds"])
        self.assertIsNone(attempt["shadow"])

    def test_others_are_told_only_by_pools_that_name_their_backends(self):
        server = self.simulators("--model", "llama").addresses[0]
        for pool, tells in (({}, False), ({"debug_headers": True}, True)):
            self.start(server, pool=pool)
            answer = self.ask("asked", EXPLAIN)
            self.assertEqual(answer.field("x-evenkeel-decision") is not None, tells, pool)
            self.assertEqual(bool(self.kept("asked")), tells, pool)
            self.assertIsNone(self.ask("silent").field("x-evenkeel-decision"))

    def test_one_request_in_sixteen_is_kept_unasked(self):
        self.start(self.simulators("--model", "llama").addresses[0])
        for number in range(32):
            self.ask(f"r{number}")
        self.assertEqual([number for number in range(32) if self.kept(f"r{number}")], [15, 31])

    def test_what_is_not_kept_is_an_error(self):
        self.start(self.simulators("--model", "llama").addresses[0])
        answer = self.daemon_.ask_admin("/api/v1/decisions/unknown")
        self.assertEqual(answer.status, 404)
        self.assertIn("no request with this id is remembered", json.loads(answer.body)["error"])
        self.assertEqual(self.daemon_.ask_admin("/api/v1/decisions/unknown", method="POST").status, 405)

    def test_an_id_may_be_encoded(self):
        self.start(self.simulators("--model", "llama").addresses[0], **self.trusting())
        self.ask("a-b.c_1", EXPLAIN)
        self.assertTrue(self.kept("a-b.c_1"))
        self.assertTrue(self.kept("%61%2db%2Ec%5F1"))

    def test_an_id_that_no_request_can_have_is_told(self):
        """A client's id with other characters is not kept: the request has a new one."""
        self.start(self.simulators("--model", "llama").addresses[0], **self.trusting())
        answer = self.ask("a/b c", EXPLAIN)
        own = answer.field("x-request-id")
        self.assertNotEqual(own, "a/b c")
        self.assertTrue(self.kept(own))
        refused = self.daemon_.ask_admin("/api/v1/decisions/a%2Fb%20c")
        self.assertEqual(refused.status, 404)
        self.assertIn("its answer's x-request-id", json.loads(refused.body)["error"])
        told = command("ctl", "explain", "a/b c", "--admin", f"http://{self.daemon_.admin}")
        self.assertEqual(told.returncode, 1)
        self.assertIn("its answer's x-request-id", told.stderr)

    def test_any_picker_tells_why(self):
        servers = [self.backend(), self.backend()]
        for picker in ("least-connections", "round-robin", "consistent-hash"):
            self.start(*servers, pool={"picker": picker}, **self.trusting())
            told = self.ask(picker, EXPLAIN).field("x-evenkeel-decision")
            attempt, = self.kept(picker)
            self.assertEqual((attempt["picker"], attempt["state"], attempt["considered"]), (picker, "picked", 2))
            self.assertIn(f'backend="{attempt["backend"]}", picker={picker}', told)
            self.assertEqual({each["backend"] for each in attempt["candidates"]}, {each.address for each in servers})
            self.assertEqual(attempt["candidates"][0]["cost"], 1 if picker == "least-connections" else None)
            shown = command("ctl", "explain", picker, "--admin", self.daemon_.admin).stdout
            self.assertIn(f"on {attempt['backend']}, by picker {picker}", shown)

    def test_every_second_request_is_kept_if_the_file_says_so(self):
        self.start(self.backend(), pool={"picker": {"name": "least-connections", "explain_one_in": 2}})
        for number in range(6):
            self.ask(f"r{number}")
        self.assertEqual(sum(bool(self.kept(f"r{number}")) for number in range(6)), 3)

    def test_what_failed_is_explained_too(self):
        daemon = self.daemon({"pools": [{"name": "pool", "backends": [self.backend().address]}],
                              "routes": [{"name": "chat", "match": {"path": "/v1/**"}, "pool": "pool"},
                                         {"name": "other", "match": {"host": "other.example"}, "pool": "pool"}]})
        answer = exchange(daemon.address, "GET", "/v2/models?api_key=secret", (("x-request-id", "lost"),))
        self.assertEqual(answer.status, 404)
        # A request is remembered once it has ended, which may be after its answer was read.
        self.eventually(lambda: daemon.ask_admin("/api/v1/decisions/lost").status == 200)
        explained = daemon.api("decisions/lost")
        self.assertEqual(explained["routes"], [{"route": "chat", "mismatch": "path"}, {"route": "other", "mismatch": "host"}])
        self.assertEqual(explained["ended"]["reason"], "no_route")
        shown = command("ctl", "explain", "lost", "--admin", daemon.admin).stdout
        for text in ("404 no_route", "GET /v2/models?api_key=*** of host", "none with its host has this path",
                     "chat (other path), other (other host)"):
            self.assertIn(text, shown)
        self.assertNotIn("secret", shown)

    def test_a_request_that_was_not_sent_is_explained(self):
        servers = [self.backend(), self.backend()]
        daemon = self.daemon({"pools": [{"name": "pool", "backends": [each.address for each in servers]}],
                              "routes": [{"name": "large", "match": {"model": ["large"]}, "pool": "pool"},
                                         {"name": "rest", "match": {"path": "/v1/**"}, "pool": "pool"}]})
        found = daemon.api("explain?path=/v1/chat/completions&model=small")
        self.assertEqual(found["route"], "rest")
        self.assertEqual(found["routes"], [{"route": "large", "mismatch": "body"}, {"route": "rest", "mismatch": None}])
        self.assertEqual(found["pools"][0]["pick"]["considered"], 2)
        self.assertEqual(json.loads(daemon.ask_admin("/api/v1/events").body), [])
        self.assertEqual(daemon.api("explain?path=/v1/x&model=large")["route"], "large")
        self.assertIsNone(daemon.api("explain?path=/other&model=small")["route"])
        self.assertEqual(daemon.ask_admin("/api/v1/explain?path=x").status, 422)

    def test_a_held_request_tells_what_held_it(self):
        server = self.backend(lambda request: request.wait_disconnected())
        self.start(server, **self.trusting())
        first = Stream.connect(self.daemon_.address)
        self.addCleanup(first.close)
        first.ask("POST", CHAT, (), chat(4000))
        self.eventually(lambda: prompts(server))
        second = Stream.connect(self.daemon_.address)
        self.addCleanup(second.close)
        second.ask("POST", CHAT, (("x-request-id", "held"), EXPLAIN), chat(200))
        self.eventually(lambda: self.kept("held"), "its record")
        self.assertEqual(self.kept("held")[0]["state"], "waits")
        first.close()
        self.eventually(lambda: len(prompts(server)) == 2, "the held request")
        held = self.kept("held")[0]
        self.assertEqual(held["state"], "placed")
        self.assertGreater(held["held"]["seconds"], 0)
        self.assertIn("order", held["held"]["by"])
        second.close()
        self.eventually(lambda: self.kept("held")[0]["state"] == "failed", "the end of its record")

    def busy(self, **config):
        """A server that computes a long prompt for ever."""
        server = self.backend(lambda request: request.wait_disconnected())
        self.start(server, **self.trusting(), **config)
        first = Stream.connect(self.daemon_.address)
        self.addCleanup(first.close)
        first.ask("POST", CHAT, (), chat(4000))
        self.eventually(lambda: prompts(server))

    def assert_told(self, answer, name, state):
        self.assertEqual(answer.status, 429, answer.body)
        self.assertEqual(answer.field("x-evenkeel-reason"), "queue_full")
        told = answer.field("x-evenkeel-decision")
        self.assertTrue(told.startswith(f"state={state}, waited="), told)
        self.assertEqual(self.kept(name)[0]["state"], state)
        return told

    def test_a_request_that_is_shed_tells_what_it_was_refused_for(self):
        self.busy(pool={"picker": SHEDDING})
        told = self.assert_told(self.ask("shed", EXPLAIN), "shed", "refused")
        self.assertIn("c1=", told)
        kept = self.kept("shed")[0]
        self.assertIsNone(kept["backend"])
        self.assertGreater(kept["prompt_seconds"] + kept["held"]["seconds"], kept["ttft_target_seconds"])
        self.assertEqual(len(kept["candidates"]), 1)
        self.assertIsNone(self.ask("silent").field("x-evenkeel-decision"))

    def test_so_does_one_that_the_queue_has_no_place_for(self):
        self.busy(pool={"limits": {"queue": {"size": 1}}})
        waiting = Stream.connect(self.daemon_.address)
        self.addCleanup(waiting.close)
        waiting.ask("POST", CHAT, (), chat(200))
        self.eventually(lambda: self.daemon_.api("pools")[0]["waiting"] == 1)
        self.assert_told(self.ask("full", EXPLAIN), "full", "left")
        self.assertIsNone(self.ask("silent").field("x-evenkeel-decision"))

    def test_an_error_does_not_tell_of_an_earlier_request_with_the_same_id(self):
        self.busy(pool={"picker": SHEDDING})
        self.assert_told(self.ask("again", EXPLAIN), "again", "refused")
        done = command("ctl", "drain", self.daemon_.api("backends")[0]["id"], "--admin", self.daemon_.admin)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = self.ask("again", EXPLAIN)
        self.assertEqual((answer.status, answer.field("x-evenkeel-reason")), (503, "no_backend"))
        self.assertIsNone(answer.field("x-evenkeel-decision"))

    def test_requests_that_share_an_id_are_told_apart(self):
        self.busy(pool={"limits": {"queue": {"size": 1, "timeout": "1s"}}})
        waiting = Stream.connect(self.daemon_.address)
        self.addCleanup(waiting.close)
        waiting.ask("POST", CHAT, (("x-request-id", "same"), EXPLAIN), chat(200))
        self.eventually(lambda: self.daemon_.api("pools")[0]["waiting"] == 1)
        refused = self.ask("same", EXPLAIN).field("x-evenkeel-decision")
        timed_out = waiting.read_response().field("x-evenkeel-decision")
        self.assertTrue(refused.startswith("state=left, waited=0.000"), refused)
        self.assertRegex(timed_out, "^state=left, waited=[1-9]")

        first, second = self.kept("same")
        self.assertEqual([first["request"], second["request"]], [1, 2])
        self.assertGreater(first["held"]["seconds"], 0.9)
        self.assertEqual(second["held"]["seconds"], 0)
        shown = command("ctl", "explain", "same", "--admin", self.daemon_.admin).stdout
        self.assertIn("request 1 of 2, pool pool, ", shown)
        self.assertIn("request 2 of 2, pool pool, ", shown)

    def test_a_fallback_does_not_tell_why_the_first_pool_refused(self):
        server = self.simulators("--model", "llama").addresses[0]
        busy = self.backend(lambda request: request.wait_disconnected())
        pool = {**POOL, "name": "pool", "backends": [busy.address], "fallback": "other",
                "limits": {"queue": {"size": 1, "timeout": "100ms"}}}
        self.daemon_ = self.daemon({"pools": [pool, {**POOL, "name": "other", "picker": "round-robin", "backends": [server]}],
                                    "routes": [{"match": {"path": "/**"}, "pool": "pool"}], "workers": 1, **self.trusting()})
        first = Stream.connect(self.daemon_.address)
        self.addCleanup(first.close)
        first.ask("POST", CHAT, (), chat(4000))
        self.eventually(lambda: prompts(busy))
        answer = self.ask("moved", EXPLAIN)
        self.assertEqual((answer.status, answer.field("x-evenkeel-fallback")), (200, "other"))
        self.assertRegex(answer.field("x-evenkeel-decision"), f'^backend="{server}", picker=round-robin, ')
        self.assertEqual(self.kept("moved")[0]["state"], "left")

    def test_ctl_explains_it(self):
        servers = self.simulators("--model", "llama", "--prompt-tokens-details", count=2, speed=5)
        self.start(*servers.addresses, pool={"picker": {"name": "expected-time", "shadow_picker": "round-robin"}}, **self.trusting())
        self.ask("first", EXPLAIN)
        self.daemon_.wait_at_rest()
        done = command("ctl", "explain", "first", "--admin", self.daemon_.admin)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^[-\d]+T[:.\d]+Z: 200 after ")
        self.assertRegex(done.stdout, f"\npool pool, .* ago: finished, on {self.kept('first')[0]['backend']}\n")
        for fact in ("request", "targets", "predicted", "came true", "shadow"):
            self.assertTrue(any(line.startswith(f"  {fact} ") for line in lines), done.stdout)
        self.assertEqual({line.split()[0] for line in lines[-2:]}, set(servers.addresses))

        told = json.loads(command("ctl", "explain", "first", "--json", "--admin", self.daemon_.admin).stdout)
        self.assertEqual(told["request_id"], "first")
        self.assertEqual(told["attempts"][0]["candidates"], self.kept("first")[0]["candidates"])
        for unknown in ("second", "../status", "%2e?"):
            done = command("ctl", "explain", unknown, "--admin", self.daemon_.admin)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("no request with this id is remembered" if unknown == "second" else "no request has this id", done.stderr)

    def test_each_attempt_is_told(self):
        def fail(request):
            request.answer(status=503)

        self.start(self.backend(fail), self.backend(fail), pool={"retry": {"attempts": 2}}, **self.trusting())
        self.ask("retried", EXPLAIN)
        backends = [each["backend"] for each in self.kept("retried")]
        self.assertEqual(len(set(backends)), 2, backends)
        self.assertEqual([each["request"] for each in self.kept("retried")], [1, 1])


if __name__ == "__main__":
    case.main()
