"""The load generator against simulated servers: its report as JSON, its exit code."""

import gzip
import json
import pathlib
import signal
import urllib.request

import case
from process import Process, command


def running(url):
    with urllib.request.urlopen(url + "/sim/v1/report", timeout=10) as answer:
        return json.loads(answer.read())["running"]


class Load(case.Case):
    def simulator(self, *arguments):
        """The base URL of a simulator at 20 times real time."""
        sim = Process(["sim", "--listen", "127.0.0.1:0", "--speed", "20", "--prompt-tokens-details",
                       *arguments])
        self.addCleanup(sim.kill)
        sim.wait_line(r"^ready$")
        return "http://" + sim.wait_line(r"listening name=sim-0 address=(\S+)")[1]

    def load(self, *arguments, code=0):
        ended = command("load", *arguments, "--json")
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return json.loads(ended.stdout)

    def test_closed_loop_streams(self):
        url = self.simulator()

        report = self.load(url, "--concurrency", "4", "--requests", "40", "--stream",
                           "--prompt-tokens", "10..50", "--output-tokens", "8")

        self.assertEqual(report["requests"],
                         {"started": 40, "succeeded": 40, "failed": 0, "abandoned": 0})
        self.assertEqual(report["tokens"]["output"], 40 * 8)
        self.assertEqual(report["connections"], {"opened": 4, "reused": 36})
        self.assertEqual(report["ttft_seconds"]["count"], 40)
        self.assertEqual(report["gap_seconds"]["count"], 40 * 7)
        self.assertIsNone(report["late_starts"])
        self.assertLessEqual(report["ttft_seconds"]["p50"], report["e2e_seconds"]["p50"])

    def test_open_loop_at_a_rate(self):
        url = self.simulator()

        report = self.load(url, "--rate", "50", "--poisson", "--duration", "1s",
                           "--output-tokens", "4")

        self.assertEqual(report["loop"], "poisson")
        self.assertEqual(report["requests"]["failed"], 0)
        self.assertGreater(report["requests"]["succeeded"], 20)
        self.assertEqual(report["late_seconds"]["count"], report["requests"]["started"])
        self.assertIsNone(report["ttft_seconds"])
        self.assertEqual(report["tokens"]["output"], 4 * report["requests"]["succeeded"])

    def test_a_trace_shares_its_prefixes(self):
        url = self.simulator()
        trace = pathlib.Path(self.folder()) / "trace.jsonl.gz"
        rows = [{"timestamp": 200 * i, "input_length": 2048 + i, "output_length": 4,
                 "hash_ids": [0, 1, 2, 3, 100 + i]} for i in range(10)]
        trace.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))

        report = self.load(url, "--trace", str(trace), "--trace-speed", "2", "--stream")

        self.assertEqual(report["loop"], "trace")
        self.assertEqual(report["requests"]["succeeded"], 10)
        self.assertEqual(report["tokens"]["prompt"], sum(row["input_length"] for row in rows))
        self.assertGreater(report["tokens"]["cached"], 9 * 1900, "nine requests hit the first one's blocks")

    def test_says_how_many_met_their_targets_and_logs_each(self):
        url = self.simulator()
        log = pathlib.Path(self.folder()) / "requests.jsonl"
        arguments = (url, "--rate", "40", "--requests", "12", "--stream", "--output-tokens", "4", "--ttft-slo")

        report = self.load(*arguments, "100s", "--tpot-slo", "100s", "--log", str(log))

        self.assertEqual(report["goodput_ratio"], 1)
        requests = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual(sorted(each["index"] for each in requests), list(range(12)))
        for each in requests:
            self.assertEqual((each["output_tokens"], each["error"]), (4, None))
            self.assertGreater(each["e2e_seconds"], each["ttft_seconds"])
            self.assertIsNotNone(each["tpot_seconds"])
        self.assertEqual(self.load(*arguments, "1us")["goodput_ratio"], 0)
        text = command("load", *arguments, "1us")
        self.assertIn("0.0 % of the requests met their targets", text.stdout)
        self.assertIn("--log: cannot write", command("load", url, "--log", "/no/such/folder/log").stderr)

    def test_reports_failures_by_kind(self):
        url = self.simulator()
        refused = self.load(url, "--requests", "3", "--model", "no-such-model", code=1)
        unreachable = self.load("http://127.0.0.1:1", "--requests", "3", code=1)

        self.assertEqual(refused["errors"]["status_404"]["count"], 3)
        self.assertIn("no-such-model", refused["errors"]["status_404"]["example"])
        self.assertEqual(unreachable["errors"]["connect"]["count"], 3)

    def test_reports_the_share_of_each_backend(self):
        first, second = self.simulator(), self.simulator()
        daemon = self.start_daemon(first, second, pool={"picker": "round-robin", "debug_headers": True})

        report = self.load(f"http://{daemon.address}", "--requests", "20", "--concurrency", "2",
                           "--stream", "--output-tokens", "2")

        self.assertEqual(sorted(report["backends"]), sorted([first[7:], second[7:]]))
        for share in report["backends"].values():
            self.assertAlmostEqual(share["answered"], 10, delta=2)

    def test_an_interrupt_ends_it_with_a_report(self):
        url = self.simulator()
        load = Process(["load", url, "--concurrency", "2", "--duration", "60s", "--output-tokens",
                        "100000", "--stream", "--json"])
        self.addCleanup(load.kill)
        self.eventually(lambda: running(url) == 2, "two running requests")

        load.signal(signal.SIGINT)

        self.assertEqual(load.wait_exit(), 0)
        report = json.loads(load.stdout[0])
        self.assertEqual(report["requests"]["abandoned"], 2)


if __name__ == "__main__":
    case.main()
