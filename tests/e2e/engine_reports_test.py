"""What engines say of themselves: restarts, sizes, hits of their prefix caches."""

import json

import case
from stream import exchange

PROMPT = "the same words at the beginning of each prompt " * 60


class EngineReports(case.Case):
    def pool(self, engine, **simulator):
        """A simulator and a daemon in front of it, which has polled it."""
        simulators = self.simulators("--engine", engine, "--model", "m", **simulator)
        health = {"interval": "100ms"}
        if engine == "generic":
            health["path"] = "/health"
        daemon = self.start_daemon(simulators.addresses[0], pool={"engine": engine, "health": health})
        return simulators, daemon

    def engine(self, daemon, simulators):
        return daemon.backend(simulators.addresses[0])["engine_state"]

    def metric(self, daemon, simulators, name, **labels):
        return daemon.metric(name, pool="pool", backend=simulators.addresses[0], **labels)

    def ask(self, daemon, prompt=PROMPT):
        body = json.dumps({"model": "m", "prompt": prompt, "max_tokens": 4}).encode()
        answer = exchange(daemon.address, "POST", "/v1/completions",
                          [("content-type", "application/json")], body)
        self.assertEqual(answer.status, 200, answer.body)

    def fault(self, simulators, fault):
        answer = exchange(simulators.control, "PUT", "/sim/v1/state",
                          body=json.dumps({"fault": fault}).encode())
        self.assertEqual(answer.status, 200, answer.body)

    def is_up(self, daemon, simulators):
        return daemon.backend(simulators.addresses[0])["state"] == "up"

    def test_the_size_of_the_cache_is_known(self):
        for engine, tokens in (("vllm", 25272 * 16), ("sglang", 25271 * 16),
                               ("tgi", 25271 * 16), ("llamacpp", None)):
            with self.subTest(engine=engine):
                simulators, daemon = self.pool(engine, speed=10)
                self.ask(daemon)  # llama.cpp is not polled while it is idle
                self.eventually(lambda: self.engine(daemon, simulators)["kv_cache_tokens"] == tokens)
                self.assertEqual(
                    self.metric(daemon, simulators, "evenkeel_backend_kv_cache_tokens"),
                    tokens or 0)

    def test_hits_of_the_prefix_cache_are_counted(self):
        for engine in ("vllm", "sglang"):
            with self.subTest(engine=engine):
                simulators, daemon = self.pool(engine, speed=10)
                name = "prefix_queried_tokens_total"
                self.eventually(lambda: self.engine(daemon, simulators)[name] == 0)
                for _ in range(2):
                    self.ask(daemon)
                report = json.loads(exchange(simulators.control, "GET", "/sim/v1/report").body)
                prefix = report["servers"][0]["prefix"]
                self.assertGreater(prefix["hit_tokens"], 0)
                self.eventually(
                    lambda: self.engine(daemon, simulators)[name] == prefix["query_tokens"])
                self.assertEqual(self.engine(daemon, simulators)["prefix_hit_tokens_total"],
                                 prefix["hit_tokens"])
                family = "evenkeel_backend_prefix_cache_tokens_total"
                self.assertEqual(self.metric(daemon, simulators, family, result="hit"),
                                 prefix["hit_tokens"])
                self.assertEqual(self.metric(daemon, simulators, family, result="miss"),
                                 prefix["query_tokens"] - prefix["hit_tokens"])

    def test_each_restart_is_counted_once(self):
        for engine in ("vllm", "sglang", "tgi", "llamacpp", "triton", "generic"):
            with self.subTest(engine=engine):
                simulators, daemon = self.pool(engine, speed=10)
                self.eventually(lambda: self.is_up(daemon, simulators))
                if engine not in ("triton", "generic"):
                    self.ask(daemon)
                for restarts in (1, 2):
                    self.fault(simulators, "die")
                    self.eventually(lambda: not self.is_up(daemon, simulators))
                    self.fault(simulators, "none")
                    self.eventually(lambda: self.is_up(daemon, simulators))
                    self.eventually(
                        lambda: self.engine(daemon, simulators)["restarts_total"] == restarts)
                self.assertEqual(
                    self.metric(daemon, simulators, "evenkeel_backend_engine_restarts_total"), 2)

    def test_a_server_that_only_refused_connections_has_not_restarted(self):
        simulators, daemon = self.pool("vllm", speed=10)
        self.eventually(lambda: self.engine(daemon, simulators)["kv_cache_tokens"] is not None)
        self.fault(simulators, "refuse")
        self.eventually(lambda: not self.is_up(daemon, simulators))
        self.fault(simulators, "none")
        self.eventually(lambda: self.is_up(daemon, simulators))
        self.eventually(lambda: daemon.backend(simulators.addresses[0])["polled"]["age_seconds"] < 0.5)
        self.assertEqual(self.engine(daemon, simulators)["restarts_total"], 0)

    def test_a_sleeping_engine_gets_no_requests_until_it_wakes(self):
        simulators = self.simulators("--model", "m", count=2, speed=10)
        sleeper, other = simulators.addresses
        for health in ({"interval": "100ms"}, {"check": "off"}):  # by its checks, or by its page
            with self.subTest(health=health):
                daemon = self.start_daemon(sleeper, other, pool={"engine": "vllm", "health": health})
                self.eventually(lambda: daemon.backend(sleeper)["state"] == "up")
                self.assertEqual(exchange(sleeper, "POST", "/sleep?level=1").status, 200)
                self.eventually(lambda: daemon.backend(sleeper)["state"] == "sleeping")
                self.assertIn("sleeps", daemon.backend(sleeper)["reason"])
                self.assertEqual(daemon.metric("evenkeel_backend_state", pool="pool",
                                               backend=sleeper, state="sleeping"), 1)
                before = daemon.backend(sleeper)["picks_total"]
                for _ in range(8):
                    self.ask(daemon)
                self.assertEqual(daemon.backend(sleeper)["picks_total"], before)

                self.assertEqual(exchange(sleeper, "POST", "/wake_up").status, 200)
                self.eventually(lambda: daemon.backend(sleeper)["state"] == "up")
                self.eventually(lambda: self.ask(daemon) or
                                daemon.backend(sleeper)["picks_total"] > before)
                self.assertEqual(daemon.backend(sleeper)["engine_state"]["restarts_total"], 0)


class LoadReports(case.Case):
    """ORCA: `endpoint-load-metrics`."""

    def ask(self, daemon, *fields, stream=False):
        body = json.dumps({"model": "m", "prompt": "hi", "max_tokens": 4, "stream": stream}).encode()
        answer = exchange(daemon.address, "POST", "/v1/completions",
                          [("content-type", "application/json"), *fields], body)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.field("endpoint-load-metrics")

    def test_responses_tell_the_load_where_nothing_is_polled(self):
        simulators = self.simulators("--model", "m", speed=10)
        daemon = self.start_daemon(simulators.addresses[0], pool={
            "engine": "vllm", "metrics": {"scrape": "off", "orca": True}})
        polled = lambda: daemon.backend(simulators.addresses[0])["polled"]
        self.ask(daemon, stream=True)
        self.assertIsNone(polled()["waiting"], "streams have no report")

        self.assertIsNone(self.ask(daemon), "the client did not ask")
        shown = polled()
        self.assertEqual(shown["waiting"], 0)
        self.assertIsNotNone(shown["kv_cache_ratio"])
        self.assertIsNone(shown["running"], "vLLM does not say")
        self.assert_within(shown["age_seconds"], 2)
        self.eventually(lambda: polled()["waiting"] is None)

        value = self.ask(daemon, ("endpoint-load-metrics-format", "JSON"))
        self.assertTrue(value.startswith('JSON {"named_metrics": {"kv_cache_usage_perc":'), value)
        self.assertEqual(polled()["waiting"], 0)

    def test_reports_are_between_client_and_server_by_default(self):
        asked = []

        def script(request):
            asked.append(request.head.field("endpoint-load-metrics-format"))
            request.answer(b"hello", fields=[("endpoint-load-metrics",
                                              "TEXT named_metrics.num_requests_waiting=3")])
        backend = self.backend(script)
        daemon = self.start_daemon(backend)
        for field in ((), (("endpoint-load-metrics-format", "text"),)):
            answer = exchange(daemon.address, "GET", "/", list(field))
            self.assertEqual(answer.field("endpoint-load-metrics"),
                             "TEXT named_metrics.num_requests_waiting=3")
        self.assertEqual(asked, [None, "text"])
        self.assertIsNone(daemon.backend(backend.address)["polled"]["waiting"])


if __name__ == "__main__":
    case.main()
