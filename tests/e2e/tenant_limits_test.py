"""Limits of tenants: they hold while requests run at the same time, and clients' libraries understand the refusals."""

import concurrent.futures
import hashlib
import json
import threading
import unittest

import case
from http2 import Peer
from process import command
from reloading import ReloadCase
from stream import Stream, exchange

try:
    import anthropic
    import openai
except ImportError:
    anthropic = openai = None

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
CHAT = "/v1/chat/completions"
KEY, OTHER_KEY = "sk-acme-4711", "sk-beta-0815"
JSON = ("content-type", "application/json")


def tenant(name, key, **limits):
    return {"name": name, "keys_sha256": [hashlib.sha256(key.encode()).hexdigest()], "limits": limits}


def bearer(key):
    return [("authorization", f"Bearer {key}")]


def chat(**more):
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **more}).encode()


def usage(prompt, completion):
    return json.dumps({"model": "m", "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}).encode()


class TenantLimits(ReloadCase):
    def limited(self, *tenants, script=None, **config):
        self.server = self.backend(script or (lambda request: request.answer(usage(7, 3), fields=[JSON])))
        return self.running(self.server, pool={"engine": "vllm", **QUIET}, tenants=list(tenants), **config)

    def ask(self, key=KEY, body=None, target=CHAT):
        return exchange(self.served.address, "POST", target, [JSON, *bearer(key)], chat() if body is None else body)

    def test_requests_beyond_a_rate_get_429_and_when_to_try_again(self):
        self.limited(tenant("acme", KEY, requests="2/hour"), tenant("beta", OTHER_KEY))
        for remaining in (1, 0):
            answer = self.ask()
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.field("x-ratelimit-limit-requests"), "2")
            self.assertEqual(answer.field("x-ratelimit-remaining-requests"), str(remaining))
            self.assertRegex(answer.field("x-ratelimit-reset-requests"), r"^(1h0m0s|59m59(\.\d+)?s|29m59(\.\d+)?s|30m0s)$")
        refused = self.ask()
        self.assertEqual((refused.status, refused.field("x-evenkeel-reason")), (429, "rate_limited"))
        error = json.loads(refused.body)["error"]
        self.assertEqual((error["type"], error["code"]), ("requests", "rate_limit_exceeded"))
        self.assertIn("the limit of 2 requests per hour is reached", error["message"])
        self.assertIn(int(refused.field("retry-after")), range(1700, 1801))
        self.assertEqual(refused.field("x-ratelimit-remaining-requests"), "0")
        self.assertEqual(refused.field("x-should-retry"), "true")
        other = self.ask(OTHER_KEY)
        self.assertEqual((other.status, other.field("x-ratelimit-limit-requests")), (200, None))
        self.assertEqual(len(self.server.exchanges), 3)
        self.eventually(lambda: self.served.metric("evenkeel_errors_total", reason="rate_limited") == 1, "the count of refusals")

    def test_tokens_are_reserved_and_then_settled_with_the_usage(self):
        self.limited(tenant("acme", KEY, tokens="60/day"))
        for used in range(10, 60, 10):
            self.assertEqual(self.ask(body=chat(max_tokens=4)).status, 200, used)
            self.served.wait_at_rest()  # then it is settled
        # 10 are left: less than the prompt.
        refused = self.ask(body=chat(messages=[{"role": "user", "content": "x" * 400}]))
        self.assertEqual((refused.status, refused.field("x-evenkeel-reason")), (429, "quota_exceeded"))
        self.assertEqual(json.loads(refused.body)["error"]["type"], "insufficient_quota")
        self.assertEqual(refused.field("x-should-retry"), "false")
        self.assertEqual(refused.field("x-ratelimit-remaining-tokens"), "10")
        self.assertEqual(self.ask(body=chat(max_tokens=4)).status, 200)
        self.served.wait_at_rest()
        self.assertEqual(self.ask(body=chat(max_tokens=4)).status, 429)
        self.assertEqual(len(self.server.exchanges), 6)

    def test_a_request_that_never_fits_is_told_so(self):
        self.limited(tenant("acme", KEY, output_tokens="100/min"))
        refused = self.ask(body=chat(max_tokens=500))
        self.assertEqual((refused.status, refused.field("retry-after"), refused.field("x-should-retry")),
                         (429, None, "false"))
        self.assertIn("smaller max_tokens", json.loads(refused.body)["error"]["message"])

    def test_requests_at_the_same_time_do_not_pass_a_limit_together(self):
        entered, leave = threading.Semaphore(0), threading.Event()
        self.addCleanup(leave.set)

        def script(request):
            entered.release()
            leave.wait(20)
            request.answer(usage(10, 10), fields=[JSON])

        self.limited(tenant("acme", KEY, tokens="205/day"), script=script)
        with concurrent.futures.ThreadPoolExecutor(60) as clients:
            asked = [clients.submit(self.ask, body=chat(max_tokens=19)) for _ in range(60)]
            done = concurrent.futures.as_completed(asked, 20)
            refused = [next(done).result().status for _ in range(50)]
            for _ in range(10):
                self.assertTrue(entered.acquire(timeout=20))
            leave.set()
            served = [each.result().status for each in done]
        self.assertEqual((set(refused), set(served)), ({429}, {200}))
        self.assertEqual(len(self.server.exchanges), 10)

    def test_a_request_counts_as_one_at_a_time_until_its_client_has_left(self):
        entered = threading.Semaphore(0)

        def script(request):
            request.begin_chunks([("content-type", "text/event-stream")])
            request.chunk(b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n')
            entered.release()
            request.wait_disconnected()

        self.limited(tenant("acme", KEY, concurrent=1, output_tokens="1000/day"), script=script)
        with Stream.connect(self.served.address) as stream:
            stream.ask("POST", CHAT, [JSON, *bearer(KEY)], chat(stream=True, max_tokens=900))
            self.assertEqual(stream.read_head().status, 200)
            self.assertTrue(entered.acquire(timeout=20))
            refused = self.ask()
            self.assertIn("1 request at a time", json.loads(refused.body)["error"]["message"])
        self.served.wait_at_rest()
        with Stream.connect(self.served.address) as stream:
            stream.ask("POST", CHAT, [JSON, *bearer(KEY)], chat(stream=True, max_tokens=900))
            head = stream.read_head()
        # The first one had one event of output.
        self.assertEqual((head.status, head.field("x-ratelimit-remaining-tokens")), (200, "99"))

    def test_an_answer_without_usage_is_estimated(self):
        answer = b'{"choices": [{"message": {"content": "%s"}}]}' % (b"x" * 400)
        self.limited(tenant("acme", KEY, output_tokens="1000/day"),
                     script=lambda request: request.answer(answer, fields=[JSON]))
        self.assertEqual(self.ask(body=chat(max_tokens=500)).status, 200)
        self.served.wait_at_rest()
        left = int(self.ask(body=chat(max_tokens=1)).field("x-ratelimit-remaining-tokens"))
        self.assertIn(left, range(880, 895))

    def test_a_compressed_answer_uses_as_much_as_one_that_is_not(self):
        answer = b'{"choices": [{"message": {"content": "%s"}}]}' % (b"x" * 4000)
        self.limited(tenant("acme", KEY, output_tokens="100k/day"), routes=[{"pool": "pool", "compression": {}}],
                     script=lambda request: request.answer(answer, fields=[JSON]))
        left = []
        for fields in ([], [("accept-encoding", "gzip")], []):
            got = exchange(self.served.address, "POST", CHAT, [JSON, *bearer(KEY), *fields], chat(max_tokens=1))
            self.assertEqual(got.field("content-encoding"), "gzip" if fields else None)
            left.append(int(got.field("x-ratelimit-remaining-output-tokens") or got.field("x-ratelimit-remaining-tokens")))
            self.served.wait_at_rest()
        self.assertEqual(left[0] - left[1], left[1] - left[2])
        self.assertGreater(left[0] - left[1], 900)

    def test_a_request_that_fails_uses_no_tokens(self):
        self.limited(tenant("acme", KEY, tokens="1000/day", requests="3/day"),
                     script=lambda request: request.answer(b"{}", status=500, fields=[JSON]))
        for requests in (2, 1):
            answer = self.ask(body=chat(max_tokens=900))
            self.assertEqual((answer.status, answer.field("x-ratelimit-remaining-requests")), (500, str(requests)))
            self.served.wait_at_rest()
        self.assertGreaterEqual(int(self.ask(body=chat(max_tokens=10)).field("x-ratelimit-remaining-tokens")), 950)

    def test_beyond_a_soft_limit_requests_are_of_priority_batch(self):
        self.limited(tenant("acme", KEY, requests="1/day", over="batch"))
        for _ in range(3):
            self.assertEqual(self.ask().status, 200)
        lines = sorted(self.served.wait_access(3), key=lambda line: line["time"])
        self.assertEqual([line.get("priority") for line in lines], [None, "batch", "batch"])

    def test_a_reload_keeps_what_is_used(self):
        daemon = self.limited(tenant("acme", KEY, requests="3/day"))
        for _ in range(2):
            self.assertEqual(self.ask().status, 200)
        self.config["tenants"] = [tenant("beta", OTHER_KEY), tenant("acme", KEY, requests="2/day")]
        self.reload()
        self.assertEqual(self.ask().status, 429)
        self.config["tenants"] = [tenant("acme", KEY, requests="3/day")]
        self.reload()
        self.assertEqual(self.ask().status, 200)
        self.assertEqual(self.ask().status, 429)
        self.eventually(lambda: daemon.metric("evenkeel_errors_total", reason="quota_exceeded") == 2, "the count of refusals")

    def test_costs_are_reserved_and_then_settled_by_the_prices(self):
        prices = {"m": {"input": 1000, "output": 10_000}, "other": {"output": 1}}
        self.limited(tenant("acme", KEY, cost="0.15/month"), usage={"prices": prices})
        for left in ("0.113", "0.076", "0.039"):
            answer = self.ask(body=chat(max_tokens=3))
            self.assertEqual(answer.status, 200)
            self.assertEqual(answer.field("x-ratelimit-limit-cost"), "0.15")
            self.served.wait_at_rest()  # then it is settled: 7 * 0.001 + 3 * 0.01
            (cost,) = self.served.api("tenants")[0]["limits"]
            self.assertEqual((cost["limit"], cost["unit"], cost["amount"]), ("a cost of 0.15 per month", "cost", 0.15))
            self.assertAlmostEqual(cost["used"], 0.15 - float(left), places=7)
        refused = self.ask(body=chat(max_tokens=9))
        self.assertEqual((refused.status, refused.field("x-evenkeel-reason")), (429, "quota_exceeded"))
        error = json.loads(refused.body)["error"]
        self.assertEqual((error["type"], error["code"]), ("insufficient_quota", "insufficient_quota"))
        self.assertRegex(error["message"], "the limit of a cost of 0.15 per month is reached: "
                                           r"this request may cost 0.09\d, 0.039 are left")
        self.assertEqual((refused.field("x-ratelimit-remaining-cost"), refused.field("x-should-retry")), ("0.039", "false"))
        self.assertEqual(self.ask(body=chat(model="free", max_tokens=10_000)).status, 200)
        labels = {"tenant": "acme", "unit": "cost", "period": "month"}
        self.assertEqual(self.served.metric("evenkeel_tenant_limit", **labels), 0.15)
        self.assertAlmostEqual(self.served.metric("evenkeel_tenant_limit_used", **labels), 0.111)
        shown = command("ctl", "tenants", "--admin", f"http://{self.served.admin}").stdout
        self.assertIn("74% of a cost of 0.15 per month", shown)

    def test_costs_of_requests_at_the_same_time_do_not_pass_a_limit_together(self):
        entered, leave = threading.Semaphore(0), threading.Event()
        self.addCleanup(leave.set)

        def script(request):
            entered.release()
            leave.wait(20)
            request.answer(usage(10, 10), fields=[JSON])

        self.limited(rate_limits=[{"by": "address", "cost": "205/day"}], script=script,
                     usage={"prices": {"*": {"input": 0, "output": 1_000_000 / 10}}})
        with concurrent.futures.ThreadPoolExecutor(40) as clients:
            asked = [clients.submit(self.ask, body=chat(max_tokens=200)) for _ in range(40)]
            done = concurrent.futures.as_completed(asked, 20)
            refused = [next(done).result().status for _ in range(30)]
            for _ in range(10):
                self.assertTrue(entered.acquire(timeout=20))
            leave.set()
            served = [each.result().status for each in done]
        self.assertEqual((set(refused), set(served)), ({429}, {200}))

    def test_each_address_and_model_has_limits_of_its_own(self):
        self.limited(rate_limits=[{"by": ["address", "model"], "models": ["m*"], "requests": "1/day"}])

        def ask(model, source):
            with Stream.connect(self.served.address, source=source) as stream:
                return stream.exchange("POST", CHAT, [JSON], chat(model=model)).status

        asked = [("m", "127.0.0.1"), ("m", "127.0.0.1"), ("m2", "127.0.0.1"), ("m", "127.0.0.2"), ("m", "127.0.0.2"),
                 ("other", "127.0.0.1"), ("other", "127.0.0.1")]
        self.assertEqual([ask(*each) for each in asked], [200, 429, 200, 200, 429, 200, 200])

    def test_limits_of_routes_hold_for_their_requests_alone_also_where_the_body_chooses(self):
        routes = [{"name": "small", "match": {"path": "/v1/**", "model": "small"}, "pool": "pool"},
                  {"name": "large", "match": {"path": "/v1/**"}, "pool": "pool"}]
        self.limited(rate_limits=[{"by": "address", "routes": "small", "requests": "2/day"},
                                  {"by": "address", "requests": "6/day"}], routes=routes)
        asked = ["small", "small", "small", "m", "m", "m", "m"]
        answers = [self.ask(body=chat(model=model)) for model in asked]
        self.assertEqual([answer.status for answer in answers], [200, 200, 429, 200, 200, 200, 429])
        self.assertEqual([answer.field("x-evenkeel-reason") for answer in answers if answer.status == 429], ["quota_exceeded"] * 2)
        self.config["rate_limits"][0]["routes"] = ["smal"]
        self.assertIn("rate_limits[0].routes[0]: there is no route 'smal'; did you mean 'small'?", self.refused())

    def test_answers_tell_of_the_limit_with_least_left_also_of_a_route(self):
        routes = [{"name": "chat", "match": {"path": "/v1/**"}, "pool": "pool"}]
        self.limited(tenant("acme", KEY, requests="9/day"), routes=routes,
                     rate_limits=[{"by": "tenant", "routes": "chat", "requests": "2/day"}])
        for remaining, status in (("1", 200), ("0", 200), ("0", 429)):
            answer = self.ask()
            self.assertEqual((answer.status, answer.field("x-ratelimit-remaining-requests")), (status, remaining))
            self.assertEqual(answer.field("x-ratelimit-limit-requests"), "2")

    def test_each_key_has_limits_of_its_own(self):
        two_keys = {"name": "acme", "keys_sha256": [hashlib.sha256(key.encode()).hexdigest() for key in (KEY, OTHER_KEY)]}
        self.limited(two_keys, rate_limits=[{"by": "key", "requests": "1/day"}])
        self.assertEqual([self.ask(key).status for key in (KEY, KEY, OTHER_KEY, OTHER_KEY, "sk-unknown", "sk-unknown")],
                         [200, 429, 200, 429, 200, 200])

    def test_a_limit_that_limits_nothing_is_refused(self):
        self.limited(tenant("acme", KEY))
        for rule, told in (({"by": "address"}, "limits nothing"), ({"by": "adress", "concurrent": 1}, "did you mean 'address'"),
                           ({"by": [], "concurrent": 1}, "at least one"),
                           ({"by": "address", "requests": ["1/s"] * 33}, "at most 32")):
            self.config["rate_limits"] = [rule]
            self.assertIn(told, self.refused(), rule)

    def test_a_wrong_rate_is_refused_with_the_right_spelling(self):
        self.limited(tenant("acme", KEY))
        for rate, told in (("600/m", "600/min"), ("600/minute", "600/min"), ("5m/day", "5M/day"), ("600", "600/min"),
                           ("0/s", "1 to 1000G"), ("600 / min", "600/min")):
            self.config["tenants"] = [tenant("acme", KEY, requests=rate)]
            self.assertIn(told, self.refused(), rate)

    def test_grpc_calls_get_resource_exhausted(self):
        self.limited(tenant("acme", KEY, requests="1/day"),
                     script=lambda request: request.answer(b"{}", fields=[JSON]))
        self.assertEqual(self.ask().status, 200)
        with Peer.connect(self.served.address) as peer:
            answer = peer.exchange("POST", "/inference.GRPCInferenceService/ModelInfer",
                                   [("content-type", "application/grpc"), ("te", "trailers"), *bearer(KEY)], b"\0\0\0\0\0")
        self.assertEqual((answer.status, answer.field("grpc-status")), (200, "8"))

    def test_what_is_used_is_shown_beside_the_limits_and_outlives_the_process(self):
        self.limited(tenant("acme", KEY, tokens="40/day", concurrent=2), state_file=self.folder() + "/state")
        for _ in range(2):
            self.assertEqual(self.ask(body=chat(max_tokens=4)).status, 200)
        self.served.wait_at_rest()
        (acme, _) = self.served.api("tenants")
        self.assertEqual([(each["limit"], each["used"]) for each in acme["limits"]],
                         [("2 requests at a time", 0), ("40 tokens per day", 20)])
        self.served.stop()
        self.served = self.daemon(self.config)
        (acme, _) = self.served.api("tenants")
        self.assertEqual(acme["limits"][1]["used"], 20)
        self.assertEqual(self.ask(body=chat(max_tokens=30)).status, 429)

    @unittest.skipIf(openai is None, "PyPI's openai and anthropic are not installed (./dev setup)")
    def test_libraries_raise_their_own_exceptions(self):
        daemon = self.limited(tenant("acme", KEY, requests="1/day"))
        self.assertEqual(self.ask().status, 200)
        client = openai.OpenAI(base_url=f"http://{daemon.address}/v1", api_key=KEY, timeout=20)
        self.addCleanup(client.close)
        with self.assertRaises(openai.RateLimitError) as raised:
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        self.assertEqual((raised.exception.code, raised.exception.type), ("insufficient_quota", "insufficient_quota"))
        client = anthropic.Anthropic(base_url=f"http://{daemon.address}", api_key=KEY, timeout=20)
        self.addCleanup(client.close)
        with self.assertRaises(anthropic.RateLimitError) as raised:
            client.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": "hi"}])
        self.assertEqual(raised.exception.body["error"]["type"], "rate_limit_error")
        self.assertEqual(raised.exception.response.headers["anthropic-ratelimit-requests-remaining"], "0")
        self.assertRegex(raised.exception.response.headers["anthropic-ratelimit-requests-reset"], r"^\d{4}-\d\d-\d\dT00:00:00Z$")
        # Refused for good, so neither library has asked again.
        self.eventually(lambda: daemon.metric("evenkeel_errors_total", reason="quota_exceeded") == 2, "the count of refusals")


if __name__ == "__main__":
    case.main()
