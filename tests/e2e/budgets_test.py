"""Budgets of pools: what all clients together may use of a pool, what takes over beyond it, and what is counted."""

import concurrent.futures
import json
import shutil
import threading
import unittest

import case
from ports import refusing_address
from process import command
from redis import Redis
from reloading import ReloadCase
from stream import exchange

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
CHAT = "/v1/chat/completions"
JSON = ("content-type", "application/json")
# A token of a prompt costs a millionth, one of an output two.
PRICES = {"prices": {"m": {"input": 1, "output": 2, "cached_input": 0.5}}}


def chat(**more):
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **more}).encode()


def usage(prompt, completion, **details):
    return json.dumps({"model": "m", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": {
        "prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": details}}).encode()


def answering(prompt=7, completion=3, **details):
    return lambda request: request.answer(usage(prompt, completion, **details), fields=[JSON])


class BudgetCase(ReloadCase):
    def spending(self, budget, script=None, pool=None, others=(), routes=None, **config):
        """A daemon whose first pool has a budget."""
        self.server = self.backend(script or answering())
        self.config = {"listeners": [{"name": "public", "address": "127.0.0.1:0"}], "admin": {"address": "127.0.0.1:0"},
                       "workers": 2, "usage": PRICES,
                       "pools": [{"name": "spender", "engine": "vllm", "backends": [self.server.address], "budget": budget,
                                  **QUIET, **(pool or {})}, *others],
                       "routes": routes or [{"match": {"path": "/**"}, "pool": "spender"}], **config}
        self.served = self.daemon(self.config)
        self.config["access_log"] = {"path": str(self.served.access_path)}
        return self.served

    def ask(self, body=None, target=CHAT, daemon=None):
        return exchange((daemon or self.served).address, "POST", target, [JSON], body or chat(max_tokens=4))

    def budget(self, daemon=None, pool="spender"):
        """What is used of each limit of the budget."""
        pools = {each["name"]: each for each in (daemon or self.served).api("pools")}
        return {each["limit"]: each["used"] for each in pools[pool]["budget"]}

    def wait_used(self, limit, amount, daemon=None, pool="spender"):
        self.eventually(lambda: self.budget(daemon, pool)[limit] == amount, f"{amount} of {limit}")


class Budgets(BudgetCase):
    def test_a_pool_beyond_its_budget_refuses(self):
        self.spending({"tokens": "24/day"})
        for used in (10, 20):
            self.assertEqual(self.ask().status, 200)
            self.wait_used("24 tokens per day", used)
        refused = self.ask()
        self.assertEqual((refused.status, refused.field("x-evenkeel-reason")), (503, "over_budget"))
        self.assertEqual((refused.field("retry-after"), refused.field("x-should-retry")), (None, "false"))
        error = json.loads(refused.body)["error"]
        self.assertEqual((error["message"], error["type"], error["code"]),
                         ("spender: its budget is used up", "service_unavailable", "over_budget"))
        self.assertEqual(len(self.server.exchanges), 2)
        self.eventually(lambda: self.served.metric("evenkeel_errors_total", reason="over_budget") == 1, "the count")

    def test_a_short_period_says_when_it_ends(self):
        self.spending({"tokens": "15/min"})
        self.assertEqual(self.ask().status, 200)
        self.wait_used_about(10)
        refused = self.ask(chat(max_tokens=14))
        self.assertEqual((refused.status, refused.field("x-should-retry")), (503, "true"))
        self.assertIn(int(refused.field("retry-after")), range(1, 61))

    def wait_used_about(self, amount):
        self.served.wait_at_rest()
        self.assertLessEqual(self.budget()["15 tokens per minute"], amount)

    def test_costs_are_settled_with_what_the_engine_counts_and_finds_in_its_cache(self):
        self.spending({"cost": "1/month", "tokens": ["1M/month", "1M/day"]}, script=answering(1000, 100, cached_tokens=400))
        self.assertEqual(self.ask().status, 200)
        self.wait_used("a cost of 1 per month", 0.001)  # 600 * 1 + 400 * 0.5 + 100 * 2 millionths
        self.assertEqual(self.budget()["1000000 tokens per month"], 1100)
        labels = {"pool": "spender", "unit": "cost", "period": "month"}
        self.assertEqual(self.served.metric("evenkeel_pool_budget", **labels), 1)
        self.assertEqual(self.served.metric("evenkeel_pool_budget_used", **labels), 0.001)
        self.assertEqual(self.served.metric("evenkeel_pool_budget_used", pool="spender", unit="tokens", period="day"), 1100)

    def test_models_without_a_price_cost_nothing_however_much_is_used(self):
        self.spending({"cost": "0.0001/month"}, script=answering(1000, 100))
        self.assertEqual(self.ask().status, 200)
        self.wait_used("a cost of 0.0001 per month", 0.0012)
        self.assertEqual(self.ask().status, 503)
        for _ in range(3):
            self.assertEqual(self.ask(chat(model="free", max_tokens=4)).status, 200)
        self.served.wait_at_rest()
        self.assertEqual(self.budget(), {"a cost of 0.0001 per month": 0.0012})

    def test_models_are_priced_by_the_names_that_backends_get(self):
        self.spending({"cost": "1/month"}, pool={"model_names": {"alias": "m"}}, script=answering(100, 50))
        self.assertEqual(self.ask(chat(model="alias")).status, 200)
        self.wait_used("a cost of 1 per month", 0.0002)

    def test_requests_at_the_same_time_do_not_pass_it_together(self):
        entered, leave = threading.Semaphore(0), threading.Event()
        self.addCleanup(leave.set)

        def script(request):
            entered.release()
            leave.wait(20)
            request.answer(usage(10, 10), fields=[JSON])

        self.spending({"tokens": "205/day"}, script=script)
        with concurrent.futures.ThreadPoolExecutor(60) as clients:
            asked = [clients.submit(self.ask, chat(max_tokens=19)) for _ in range(60)]
            done = concurrent.futures.as_completed(asked, 20)
            refused = [next(done).result().status for _ in range(50)]
            for _ in range(10):
                self.assertTrue(entered.acquire(timeout=20))
            leave.set()
            served = [each.result().status for each in done]
        self.assertEqual((set(refused), set(served)), ({503}, {200}))
        self.assertEqual(len(self.server.exchanges), 10)
        self.wait_used("205 tokens per day", 200)

    def test_it_is_passed_by_no_more_than_what_requests_in_flight_generate_beyond_their_estimates(self):
        self.spending({"tokens": "2000/day"}, script=answering(20, 180))
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            statuses = list(clients.map(lambda _: self.ask(chat(max_tokens=80)).status, range(100)))
        self.served.wait_at_rest()
        (used,) = self.budget().values()
        self.assertEqual(used, 200 * statuses.count(200))
        self.assertLessEqual(used, 2000 + 8 * 200)
        self.assertGreaterEqual(used, 1900)
        self.assertEqual(set(statuses), {200, 503})

    def test_streams_are_counted_by_the_usage_that_evenkeel_asks_for(self):
        def script(request):
            request.begin_chunks([("content-type", "text/event-stream")])
            request.chunk(b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n')
            if b'"include_usage":true' in request.head.body:
                request.chunk(b'data: {"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 20}}\n\n')
            request.chunk(b"data: [DONE]\n\n")
            request.end_chunks()

        self.spending({"tokens": "1000/day"}, script=script, pool={"engine": "generic", "stream_usage": "on"})
        answer = self.ask(chat(stream=True, max_tokens=100))
        self.assertEqual(answer.status, 200)
        self.assertNotIn(b"usage", answer.body)
        self.wait_used("1000 tokens per day", 50)

    def test_compressed_answers_are_not_asked_for(self):
        self.spending({"tokens": "1000/day"})
        exchange(self.served.address, "POST", CHAT, [JSON, ("accept-encoding", "gzip")], chat())
        self.assertIsNone(self.server.exchanges[0].head.field("accept-encoding"))

    def test_lists_of_models_cost_nothing(self):
        self.spending({"tokens": "5/day"}, script=lambda request: request.answer(b'{"data": []}' * 100, fields=[JSON]),
                      routes=[{"match": {"path": "/**"}, "pool": "spender", "model_list": "forward"}])
        for _ in range(3):
            self.assertEqual(exchange(self.served.address, target="/v1/models").status, 200)
        self.served.wait_at_rest()
        self.assertEqual(self.budget(), {"5 tokens per day": 0})

    def test_answers_that_are_kept_cost_nothing(self):
        self.spending({"tokens": "15/day"}, pool={"cache": {}})
        for kept in ("miss", "hit", "hit"):
            answer = self.ask(chat(max_tokens=4, temperature=0))
            self.assertEqual((answer.status, answer.field("x-evenkeel-cache")), (200, kept))
            self.wait_used("15 tokens per day", 10)
        self.assertEqual(self.ask(chat(max_tokens=4, temperature=1)).status, 200)
        self.wait_used("15 tokens per day", 20)
        self.assertEqual(self.ask(chat(max_tokens=4, temperature=1)).status, 503)
        self.assertEqual(self.ask(chat(max_tokens=4, temperature=0)).field("x-evenkeel-cache"), "hit")

    def test_requests_that_fail_cost_nothing(self):
        self.spending({"tokens": "100/day"}, script=lambda request: request.answer(b"{}", status=400, fields=[JSON]))
        for _ in range(3):
            self.assertEqual(self.ask(chat(max_tokens=90)).status, 400)
            self.wait_used("100 tokens per day", 0)

    def test_a_reload_keeps_what_is_used_and_a_restart_with_a_state_file_too(self):
        self.spending({"tokens": "40/day", "cost": "1/month"}, state_file=self.folder() + "/state")
        self.assertEqual(self.ask().status, 200)
        self.wait_used("40 tokens per day", 10)
        self.config["pools"][0]["budget"] = {"tokens": "30/day", "cost": "2/month"}
        self.reload()
        used = {"30 tokens per day": 10, "a cost of 2 per month": 0.000013}
        self.assertEqual(self.budget(), used)
        self.served.stop()
        self.served = self.daemon(self.config)
        self.assertEqual(self.budget(), used)
        self.assertEqual(self.ask(chat(max_tokens=28)).status, 503)
        self.assertEqual(self.ask(chat(max_tokens=10)).status, 200)

    def test_a_price_that_was_a_million_times_too_high_is_corrected_for_later_requests(self):
        entered, leave = threading.Semaphore(0), threading.Event()
        self.addCleanup(leave.set)

        def script(request):
            entered.release()
            leave.wait(20)
            request.answer(usage(7, 3), fields=[JSON])

        self.spending({"cost": "10M/month"}, script=script,
                      usage={"prices": {"m": {"input": 100_000, "output": 100_000}}})
        first = self.spawn(self.ask)
        self.assertTrue(entered.acquire(timeout=20))
        self.config["usage"] = {"prices": {"m": {"input": 0.1, "output": 0.1}}}
        self.reload()
        second = self.spawn(self.ask)
        self.assertTrue(entered.acquire(timeout=20))
        leave.set()
        self.assertEqual((first.join().status, second.join().status), (200, 200))
        self.wait_used("a cost of 10000000 per month", 1.000001)

    def test_ctl_shows_it(self):
        self.spending({"tokens": "40/day"})
        self.assertEqual(self.ask().status, 200)
        self.wait_used("40 tokens per day", 10)
        shown = command("ctl", "status", "--admin", f"http://{self.served.admin}").stdout
        self.assertIn("BUDGET USED", shown)
        self.assertIn("25% of 40 tokens per day", shown)


class Fallbacks(BudgetCase):
    def setUp(self):
        self.hosted = self.backend(answering())

    def pools_logged(self, count):
        return sorted(line["pool"] for line in self.served.wait_access(count))

    def other(self, name="hosted", **more):
        return {"name": name, "engine": "vllm", "backends": [self.hosted.address], **QUIET, **more}

    def test_another_pool_takes_what_is_beyond_the_budget(self):
        self.spending({"tokens": "15/day"}, pool={"fallback": "hosted"}, others=[self.other()])
        self.assertIsNone(self.ask().field("x-evenkeel-fallback"))
        self.wait_used("15 tokens per day", 10)
        for _ in range(3):
            answer = self.ask(chat(max_tokens=9))
            self.assertEqual((answer.status, answer.field("x-evenkeel-fallback")), (200, "hosted"))
        self.assertEqual((len(self.server.exchanges), len(self.hosted.exchanges)), (1, 3))
        self.assertEqual(self.hosted.exchanges[0].head.body, chat(max_tokens=9))
        self.assertEqual(self.pools_logged(4), ["hosted"] * 3 + ["spender"])

    def test_another_pool_takes_it_only_where_the_file_says_so(self):
        self.spending({"tokens": "1/day"}, pool={"fallback": {"pool": "hosted", "when": ["down", "saturated"]}},
                      others=[self.other()])
        self.assertEqual(self.ask().field("x-evenkeel-reason"), "over_budget")
        self.config["pools"][0]["fallback"] = {"pool": "hosted", "when": "over_budget"}
        self.reload()
        self.assertEqual(self.ask().status, 200)

    def test_the_first_pools_error_stands_where_the_other_pool_has_no_budget_left(self):
        self.spending({"tokens": "1M/day"}, pool={"backends": [refusing_address()], "fallback": "hosted"},
                      others=[self.other(budget={"tokens": "15/day"})])
        answer = self.ask()
        self.assertEqual((answer.status, answer.field("x-evenkeel-fallback")), (200, "hosted"))
        self.wait_used("15 tokens per day", 10, pool="hosted")
        refused = self.ask(chat(max_tokens=9))
        self.assertNotEqual(refused.field("x-evenkeel-reason"), "over_budget")
        self.assertIn(refused.field("x-evenkeel-reason"), ("connect_failed", "no_backend"))
        self.assertEqual(self.pools_logged(2), ["hosted", "spender"])
        self.assertEqual(self.budget(), {"1000000 tokens per day": 0})

    def test_each_pool_of_a_chain_spends_its_own(self):
        last = self.backend(answering())
        self.spending({"tokens": "15/day"}, pool={"fallback": "hosted"},
                      others=[self.other(budget={"tokens": "15/day"}, fallback="last"),
                              {"name": "last", "backends": [last.address], **QUIET, "budget": {"tokens": "15/day"}}])
        pools = []
        for _ in range(3):
            answer = self.ask(chat(max_tokens=9))
            pools.append(answer.field("x-evenkeel-fallback"))
            self.served.wait_at_rest()
        self.assertEqual(pools, [None, "hosted", "last"])
        refused = self.ask(chat(max_tokens=9))
        self.assertEqual((refused.status, refused.field("x-evenkeel-reason")), (503, "over_budget"))
        self.assertIn("spender: its budget", json.loads(refused.body)["error"]["message"])


class Mirrors(BudgetCase):
    def test_copies_count_and_are_dropped_beyond_the_budget(self):
        first = self.backend(answering())
        self.spending({"tokens": "24/day"}, others=[{"name": "stable", "backends": [first.address], **QUIET}],
                      routes=[{"match": {"path": "/**"}, "pool": "stable", "mirror": "spender"}])
        for number in range(1, 6):
            self.assertEqual(self.ask().status, 200)
            self.wait_used("24 tokens per day", min(number, 2) * 10)
        self.eventually(lambda: self.served.metric("evenkeel_mirrored_requests_total", result="too_many") == 3, "the count")
        self.assertEqual((len(first.exchanges), len(self.server.exchanges)), (5, 2))


@unittest.skipIf(shutil.which("redis-server") is None, "redis-server is not installed (./dev setup)")
class SharedBudgets(BudgetCase):
    def test_they_hold_for_all_replicas(self):
        redis = Redis(self)
        shared = {"redis": redis.url, "replicas": 3, "timeout": "1s"}
        replicas = [self.spending({"tokens": "500/day", "cost": "1/month"}, shared_state=shared)]
        replicas += [self.daemon({key: value for key, value in self.config.items() if key != "access_log"}) for _ in range(2)]

        def connections():
            clients = redis.command("CLIENT", "LIST")
            return clients.count("cmd=script|load") + clients.count("cmd=evalsha")

        self.eventually(lambda: connections() >= 6, "connections of all workers")
        with concurrent.futures.ThreadPoolExecutor(16) as clients:
            statuses = list(clients.map(lambda number: self.ask(chat(max_tokens=9), daemon=replicas[number % 3]).status,
                                        range(120)))
        self.assertEqual(set(statuses), {200, 503})
        self.assertGreaterEqual(statuses.count(200), 49)
        self.assertLessEqual(statuses.count(200), 50)
        refused = self.eventually(lambda: (answer := self.ask(chat(max_tokens=9), daemon=replicas[1])).status == 503 and answer,
                                  "the budget's end")
        self.assertEqual(refused.field("x-evenkeel-reason"), "over_budget")


if __name__ == "__main__":
    case.main()
