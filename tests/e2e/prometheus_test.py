"""Debian's Prometheus scrapes the daemon for a minute under load: what its queries say is what the
clients counted."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import case
from certificates import Authority
from ports import free_port
from process import BINARY
from stream import PATIENCE

DOCKER = pathlib.Path(__file__).resolve().parents[2] / "docker"
MINUTE = 60
RATE = 40  # requests per second

CONFIG = """
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: evenkeel
    static_configs: [{targets: ["%s"]}]
"""


class Prometheus:
    def __init__(self, test, target):
        folder = pathlib.Path(test.folder())
        (folder / "prometheus.yml").write_text(CONFIG % target)
        self.address = f"127.0.0.1:{free_port()}"
        self._log = open(folder / "log", "w", encoding="utf-8")
        test.addCleanup(self._log.close)
        self._process = subprocess.Popen(
            ["prometheus", f"--config.file={folder / 'prometheus.yml'}",
             f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={self.address}"],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        test.addCleanup(self._end)

    def _end(self):
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def query(self, expression, at=None):
        """Its only value; None: there is none (yet)."""
        asked = urllib.parse.urlencode({"query": expression, **({"time": at} if at else {})})
        try:
            with urllib.request.urlopen(f"http://{self.address}/api/v1/query?{asked}",
                                        timeout=PATIENCE) as answer:
                found = json.load(answer)["data"]["result"]
        except (urllib.error.URLError, ConnectionError):
            return None
        assert len(found) <= 1, (expression, found)
        return float(found[0]["value"][1]) if found else None


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

    def test_the_configuration_beside_the_container_is_sound(self):
        judged = subprocess.run(["promtool", "check", "config", DOCKER / "prometheus.yml"], capture_output=True,
                                text=True, check=False, timeout=60)
        self.assertEqual(judged.returncode, 0, judged.stdout + judged.stderr)


class Alerts(case.Case):
    def test_the_series_that_they_name_exist_from_the_start(self):
        authority = Authority(self.folder())
        tls = {"certificates": [authority.issue("localhost").config()]}
        daemon = self.daemon({"pools": [{"name": "pool", "engine": "vllm", "backends": [self.backend().address]}],
                              "listeners": [{"name": "public"}, {"name": "tls", "tls": tls}],
                              "limits": {"memory": "1GiB"}})
        series = {(name, pair) for name, labels in daemon.metrics() for pair in {("", ""), *labels}}

        text = (DOCKER / "alerts.yml").read_text()
        named = re.findall(r"\b((?:evenkeel|process)_\w+)(?:\{([^}]*)\})?", text)
        self.assertGreater(len(named), 20)
        wanted = {(name, ("", "")) for name, _ in named}
        for name, matchers in named:
            for label, values in re.findall(r'(\w+)!?=~?"([^"]*)"', matchers):
                wanted.update((name, (label, value)) for value in values.split("|") if label != "job")
        self.assertEqual(wanted - series, set())


if __name__ == "__main__":
    case.main()
