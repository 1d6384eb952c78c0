"""Debian's Prometheus scrapes the daemon for a minute under load: what its queries say is what the
clients counted."""

import json
import os
import shutil
import subprocess
import time
import unittest

import case
from process import BINARY
from prometheus import Prometheus
from stream import PATIENCE

MINUTE = 60
RATE = 40  # requests per second


@unittest.skipUnless(shutil.which("prometheus"), "no prometheus here")
class Scraped(case.Case):
    def test_a_minute_of_scrapes_says_what_the_clients_counted(self):
        simulators = self.simulators("--engine", "vllm", "--model", "m", count=3)
        daemon = self.start_daemon(*simulators.addresses, pool={"engine": "vllm"})
        prometheus = Prometheus(self, daemon.admin)
        self.eventually(lambda: prometheus.query("up") == 1, "the first scrape")

        load = subprocess.Popen(
            [BINARY, "load", f"http://{daemon.address}", "--rate", str(RATE), "--duration",
             f"{MINUTE + 4}s", "--model", "m", "--prompt-tokens", "20", "--output-tokens", "8", "--json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=os.environ)
        self.addCleanup(load.wait)
        self.addCleanup(load.kill)
        self.eventually(lambda: (prometheus.query("sum(evenkeel_requests_total{code='200'})") or 0) > 2 * RATE)
        began = time.time()
        self.eventually(lambda: time.time() - began >= MINUTE, "the end of the minute",
                        within=MINUTE + PATIENCE)
        middle = time.time()
        report, _ = load.communicate(timeout=PATIENCE * 3)
        self.assertEqual(load.returncode, 0, report)
        report = json.loads(report)
        succeeded = report["requests"]["succeeded"]
        self.assertEqual(report["requests"], {"started": succeeded, "succeeded": succeeded, "failed": 0,
                                              "abandoned": 0})

        def over_the_minute(expression):
            return prometheus.query(expression % f"[{MINUTE}s]", at=middle)

        self.assertEqual(over_the_minute("min_over_time(up%s)"), 1)
        self.assertGreaterEqual(over_the_minute("count_over_time(up%s)"), MINUTE * 0.9)
        counted = report["requests_per_second"]
        for expression in (
                "sum(rate(evenkeel_requests_total{pool='pool', code='200'}%s))",
                "sum(rate(evenkeel_request_duration_seconds_count{pool='pool'}%s))",
                "sum(rate(evenkeel_backend_picks_total%s))",
                "sum(rate(evenkeel_backend_latency_seconds_count%s))"):
            self.assertAlmostEqual(over_the_minute(expression) / counted, 1, delta=0.01,
                                   msg=expression)
        self.assertEqual(over_the_minute("sum(rate(evenkeel_errors_total%s))"), 0)
        # And what is left when it is over is exact.
        self.eventually(lambda: prometheus.query(
            "sum(evenkeel_requests_total{pool='pool'})") == succeeded, "the last scrape")
        self.assertGreater(over_the_minute(
            "sum(rate(evenkeel_backend_health_checks_total{result='passed'}%s))"), 1)
        self.assertLess(prometheus.query("max(max_over_time(evenkeel_backend_polled_age_seconds[30s]))"),
                        2, "seconds, of what is polled four times in each")


if __name__ == "__main__":
    case.main()
