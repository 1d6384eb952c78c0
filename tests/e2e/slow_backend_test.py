"""What operators see of a server that is up, and much slower than the others of its pool."""

import json

import case
from process import command
from stream import exchange

WITHIN = 20  # seconds


class SlowBackend(case.Case):
    def pool(self, picker, *load, inspect=False, tokens=100):
        servers = self.simulators("--engine", "vllm", "--model", "m", count=3, speed=1)
        self.addresses = servers.addresses
        daemon = self.daemon({"pools": [{"name": "pool", "engine": "vllm", "backends": self.addresses,
                                         "picker": picker, "inspect": inspect}]})
        address = daemon.address if isinstance(daemon.address, str) else "%s:%d" % daemon.address
        self.spawn(lambda: command("load", f"http://{address}", "--model", "m", "--concurrency", "12",
                                   "--prompt-tokens", "200", "--output-tokens", str(tokens), "--duration", "30s", *load))
        self.eventually(lambda: min(each["picks_total"] for each in daemon.api("backends")) > 10)
        return daemon

    def slow_down(self, factor):
        state = {"fault": "slow" if factor > 1 else "none", "slow_factor": factor}
        answer = exchange(self.addresses[1], "PUT", "/sim/v1/state", body=json.dumps(state).encode())
        self.assertEqual(answer.status, 200, answer.body)

    def row(self, daemon):
        shown = command("ctl", "backends", "--admin", daemon.admin)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        return next(line for line in shown.stdout.splitlines() if self.addresses[1] in line)

    def check(self, daemon, part, reason):
        self.slow_down(10)
        self.eventually(lambda: daemon.backend(self.addresses[1])["slow"], "the slow server to be noticed", within=WITHIN)

        slow = daemon.backend(self.addresses[1])
        self.assertEqual(slow["state"], "up")
        self.assertEqual(slow["slow"]["part"], part, slow)
        self.assertGreater(slow["slow"]["ratio"], 2)
        self.assertRegex(slow["reason"], reason)
        self.assertRegex(self.row(daemon), reason)
        self.assertEqual(daemon.metric("evenkeel_backend_slow", backend=self.addresses[1], part=part), 1)
        self.assertEqual(daemon.metric("evenkeel_backend_slow"), 1, "no other is slow")
        return slow

    def logged(self, daemon, text):
        return [line for line in daemon.lines if text in line]

    def test_the_time_per_token_is_shown_where_no_body_is_inspected(self):
        daemon = self.pool("least-connections", "--stream")
        fast = daemon.backend(self.addresses[1])
        self.assertGreater(fast["latency"]["tpot_seconds"], 0.001)
        self.assertIsNone(fast["slow"])

        slow = self.check(daemon, "per_token", r"time per token [\d.]+x the pool's median")

        self.assertGreater(slow["latency"]["tpot_seconds"], 3 * fast["latency"]["tpot_seconds"])
        self.assertGreater(daemon.metric("evenkeel_backend_time_per_output_token_seconds_count",
                                         backend=self.addresses[1]), 0)
        self.assertEqual(len(self.logged(daemon, f"{self.addresses[1]} is slow: time per token")), 1)
        self.slow_down(1)
        self.eventually(lambda: daemon.backend(self.addresses[1])["slow"] is None, "it to be fast again", within=WITHIN)
        self.eventually(lambda: self.logged(daemon, f"{self.addresses[1]} is no longer slow"))
        self.assertEqual(len(self.logged(daemon, " is slow: ")), 1)

    def test_the_scheduler_says_why_it_gives_few_requests(self):
        daemon = self.pool("expected-time", "--stream", inspect=True)
        self.check(daemon, "per_token", r"time per token [\d.]+x the pool's median")
        self.eventually(lambda: "few requests: predicted" in (daemon.backend(self.addresses[1])["reason"] or ""),
                        "a reason for few requests", within=WITHIN)

    def test_the_whole_response_counts_where_none_is_streamed(self):
        daemon = self.pool("least-connections", tokens=20)  # a slow response takes 1.6 s
        self.check(daemon, "response", r"time per request [\d.]+x the pool's median")
        self.assertIsNone(daemon.backend(self.addresses[1])["latency"]["tpot_seconds"])


if __name__ == "__main__":
    case.main()
