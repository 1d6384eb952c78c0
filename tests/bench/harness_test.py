"""The arithmetic and the parsing behind the tables of bench/."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import ablations  # noqa: E402
from harness import campaigns, fleet, growth, h2load, headlines, kill, picking, picking_replay, picking_tables, picking_targets, scenarios, training, ways  # noqa: E402
from harness.contender import Contender, Site, Unavailable, evenkeel, haproxy, nghttpx, nginx  # noqa: E402
from harness.counting import read_callgrind, read_strace  # noqa: E402
from harness.figures import Figures, by_difference, judge  # noqa: E402
from harness.measures import Measure, Target  # noqa: E402
from harness.process import Children, Cores, available_cores, started_at, tree, wait_until  # noqa: E402
from harness.report import Report  # noqa: E402

STRACE = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.000600           1       600           sendto
 30.00    0.000300           1       300        20 recvfrom
 10.00    0.000100           1       100           epoll_wait
------ ----------- ----------- --------- --------- ----------------
100.00    0.001000           1      1000        20 total
"""

H2LOAD = """\
Main benchmark duration is over for thread #0. Stopping all clients.

finished in 1.50s, 140697.00 req/s, 44.07MB/s
requests: 1000 total, 1000 started, 990 done, 985 succeeded, 5 failed, 7 errored, 3 timeout
status codes: 980 2xx, 0 3xx, 2 4xx, 8 5xx
traffic: 44.07MB (46205961) total, 1.83MB (1920662) headers (space savings 93.55%), 54.92MB (57591300) data
"""


def figures(**contenders: list[float]) -> Figures:
    found = Figures()
    for name, values in contenders.items():
        for number, value in enumerate(values):
            found.add(name, "cpu", number, value)
    return found


class FiguresTest(unittest.TestCase):
    def test_ratios_are_taken_inside_a_round(self) -> None:
        drifting = figures(evenkeel=[10, 20, 40], haproxy=[20, 40, 80])
        self.assertEqual(drifting.ratio("evenkeel", "haproxy", "cpu"), 0.5)

    def test_a_round_that_a_peer_missed_is_left_out(self) -> None:
        found = figures(evenkeel=[10, 20], haproxy=[20])
        self.assertEqual(found.ratio("evenkeel", "haproxy", "cpu"), 0.5)

    def test_an_unmeasured_value_has_no_median(self) -> None:
        self.assertIsNone(figures().median("evenkeel", "cpu"))

    def test_a_target_beside_a_peer_judges_the_ratio(self) -> None:
        measure = Measure("cpu", "CPU", "us", target=Target(0.75, "haproxy"))
        verdict = judge(figures(evenkeel=[8], haproxy=[10]), "evenkeel", measure)
        assert verdict
        self.assertEqual((verdict.reached, verdict.met), (0.8, False))

    def test_an_absolute_target_judges_the_median(self) -> None:
        measure = Measure("cpu", "CPU", "us", target=Target(18000))
        verdict = judge(figures(evenkeel=[17000, 18000, 30000]), "evenkeel", measure)
        assert verdict
        self.assertEqual((verdict.reached, verdict.met), (18000, True))

    def test_a_target_not_measured_is_neither_met_nor_missed(self) -> None:
        verdict = judge(figures(), "evenkeel", Measure("cpu", "CPU", "us", target=Target(1)))
        assert verdict
        self.assertIsNone(verdict.met)

    def test_startup_and_shutdown_costs_cancel_out(self) -> None:
        self.assertEqual(by_difference(1_000_500, 1_001_500, 500, 1500), 1.0)


class CountersTest(unittest.TestCase):
    def test_strace_rows_are_summed_without_their_total(self) -> None:
        self.assertEqual(read_strace(STRACE), 1000)

    def test_callgrind_summary(self) -> None:
        self.assertEqual(read_callgrind("events: Ir\nsummary: 123456\n\n"), 123456)

    def test_callgrind_without_summary_is_an_error(self) -> None:
        with self.assertRaises(ValueError):
            read_callgrind("events: Ir\n")


class H2loadTest(unittest.TestCase):
    def test_unsuccessful_responses_are_an_error(self) -> None:
        self.assertEqual(
            h2load.read_totals(H2LOAD),
            {"requests": 990, "errors": {"failed": 5}},
        )

    def test_missing_totals_mean_an_incomplete_run(self) -> None:
        self.assertIsNone(h2load.read_totals("starting benchmark...\n"))

    def test_quantiles_of_the_times_in_its_log(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            times = Path(folder) / "times"
            times.write_text("".join(f"1795270458044297\t200\t{n}\n" for n in range(1, 1000)))
            found = h2load.quantiles(times)
        self.assertEqual((found["p50"], found["p99"], found["max"]), (500, 990, 999))


class CoresTest(unittest.TestCase):
    def test_two_cores_leave_one_to_the_proxy(self) -> None:
        self.assertEqual(Cores.choose([0, 1]), Cores(proxy=0, origin=1, load=1))

    def test_more_cores_part_the_ends(self) -> None:
        self.assertEqual(Cores.choose([2, 3, 6, 7]), Cores(proxy=2, origin=3, load=6))


class ChildrenTest(unittest.TestCase):
    def test_grandchildren_that_ignore_their_end_are_killed(self) -> None:
        script = "trap '' TERM; sh -c \"trap '' TERM; echo up; sleep 60\" & wait; sleep 60"
        with Children() as children:
            child = children.start(
                ["sh", "-c", script], available_cores()[0], stdout=subprocess.PIPE
            )
            assert child.stdout
            child.stdout.readline()
            family = tree(child.pid)
            children.stop(child, patience=0.1)
        self.assertGreaterEqual(len(family), 2)
        wait_until("all gone", 5, lambda: all(started_at(pid) is None for pid in family))


class ReportTest(unittest.TestCase):
    def report(self, **contenders: list[float]) -> Report:
        return Report(
            name="proxy",
            title="A title",
            settings={"rounds": 1, "seconds": 1.0},
            contenders=["evenkeel", "haproxy", "envoy"],
            versions={},
            absent={"envoy": "no wheel"},
            measures=[Measure("cpu", "CPU", "us", 1, Target(0.75, "haproxy"))],
            figures=figures(**contenders),
            busy=Figures(),
            errors={},
        )

    def test_the_table_sets_the_target_beside_what_was_reached(self) -> None:
        text = self.report(evenkeel=[7], haproxy=[10]).as_markdown()
        self.assertIn("| CPU (us) | 7.0 | 10.0 | - | 0.70 |", text)
        self.assertIn("| CPU | <= 0.75x haproxy | 0.70 | met |", text)

    def test_unavailable_contenders_are_listed_with_their_reason(self) -> None:
        self.assertIn("- envoy: no wheel", self.report(evenkeel=[7]).as_markdown())

    def test_ratios_to_each_peer_are_in_the_json(self) -> None:
        found = self.report(evenkeel=[7], haproxy=[10]).as_dict()
        self.assertEqual(found["ratios"]["evenkeel"]["haproxy"]["cpu"], 0.7)


class ContendersTest(unittest.TestCase):
    def test_http2_to_backends_is_in_the_files_of_those_that_speak_it(self) -> None:
        for contender, word in (
            (evenkeel(Path(__file__).parent), "protocol: h2"),
            (haproxy(), "proto h2"),
            (nghttpx(), "proto=h2"),
        ):
            with self.subTest(contender.name):
                self.assertIn(word, self.setting(contender, ways.H2_TO_H2))
                self.assertNotIn("protocol: h2", self.setting(contender, ways.H2_TO_H1))
        self.assertNotIn(ways.H2_TO_H2, nginx().ways)

    def setting(self, contender: Contender, way: ways.Way) -> str:
        """The command line and the files that a contender is started with."""
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch("harness.contender.found", lambda name: name),
            mock.patch.object(Path, "exists", lambda path: True),
        ):
            site = Site(way, 1, 2, ["127.0.0.1:3"], Path(folder))
            command = contender.command(site, False)
            files = [path.read_text() for path in Path(folder).iterdir()]
        return "\n".join([*command.argv, *files])

    def test_contenders_with_logging_have_their_own_name(self) -> None:
        contenders: list[Contender] = [
            haproxy(),
            haproxy(logging=True),
            nginx(),
            nginx(logging=True),
        ]
        self.assertEqual(len({contender.name for contender in contenders}), 4)


class GrowthTest(unittest.TestCase):
    def grown(self, ours: dict[str, list[float]]) -> growth.Growth:
        found = growth.Growth(None, Path("build"), 2, 1.0, 80)  # type: ignore[arg-type]
        for key, values in ours.items():
            for number, value in enumerate(values):
                found.figures.add("evenkeel", key, number, value)
        return found

    def test_the_ratio_is_taken_to_the_base_of_the_same_case_and_round(self) -> None:
        found = self.grown(
            {
                "backends_100/base": [10, 20],
                "backends_100/backends_100": [11, 22],
                "backends_1000/base": [100, 100],
            }
        )
        self.assertAlmostEqual(found.ratio("evenkeel", growth.CASES[0]) or 0, 1.1)
        self.assertIsNone(found.ratio("evenkeel", growth.CASES[1]))

    def test_a_table_says_which_targets_were_met(self) -> None:
        found = self.grown(
            {
                "backends_100/base": [10],
                "backends_100/backends_100": [13],
                "workers_2/base": [10],
                "workers_2/workers_2": [10.5],
            }
        )
        verdicts = {row[0]: row[-1] for row in found.rows()}
        self.assertIn("missed", verdicts["100 backends"])
        self.assertIn("1.90 times", verdicts["two workers"])
        self.assertIn("met", verdicts["two workers"])
        self.assertEqual(verdicts["10 000 backends"], "not measured")


class TrainingTest(unittest.TestCase):
    """The loads of a profile-guided build, with tiny numbers and a program in evenkeel's place."""

    def test_every_way_and_kind_of_request_is_trained(self) -> None:
        courses = training.all_courses(Path("build"))
        self.assertEqual({way for _, way, _ in courses}, set(ways.ALL_WAYS))
        names = {contender.name for contender, _, _ in courses}
        self.assertEqual(names, {"evenkeel", "evenkeel-inspect", "evenkeel-expected-time"})
        flags = [" ".join(load.flags) for _, _, loads in courses for load in loads]
        for what in ("--mode sse", "--body-bytes 220000", "connection: close", "--connections 1 ", "--connections 64 "):
            self.assertTrue(any(what in each for each in flags), what)

    def test_an_unanswered_request_fails_the_training(self) -> None:
        running = mock.Mock()
        running.site.way = ways.HTTP1
        load = training.Load(("--connections", "1"), 10)
        ends = mock.Mock()
        ends.send_requests.return_value = {"requests": 9, "errors": {}}
        with self.assertRaises(Unavailable):
            training.apply(ends, running, load)
        ends.send_requests.return_value = {"requests": 10, "errors": {"status": 1}}
        with self.assertRaises(Unavailable):
            training.apply(ends, running, load)
        ends.send_requests.return_value = {"requests": 10, "errors": {"status": 0}}
        training.apply(ends, running, load)

    def test_a_program_that_does_not_end_well_has_written_no_profile(self) -> None:
        for end, fails in (("exit 0", False), ("exit 3", True)):
            process = subprocess.Popen(["sh", "-c", f"trap '{end}' TERM; echo; while :; do sleep 0.05; done"], stdout=subprocess.PIPE)
            assert process.stdout
            process.stdout.readline()
            running = mock.Mock(process=process)
            with process:
                if fails:
                    self.assertRaises(Unavailable, training.end, running)
                else:
                    training.end(running)

    def test_the_build_is_a_contender_where_it_exists(self) -> None:
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(campaigns.profile_guided(Path(root)), [])
            binary = Path(root) / "build" / "release-pgo" / "evenkeel"
            binary.parent.mkdir(parents=True)
            binary.touch()
            self.assertEqual([each.name for each in campaigns.profile_guided(Path(root))], ["evenkeel-pgo"])


class FleetTest(unittest.TestCase):
    def bench(self) -> fleet.Bench:
        return fleet.Bench(Path("build"), 1, 10.0, ["round-robin", "gpu"], [[0, 1]])

    def test_a_ratio_over_its_limit_is_missed_and_one_without_limit_is_not_judged(self) -> None:
        bench = self.bench()
        for row, blind, seeing in (
            ("busy_ttft_p99", 2.0, 1.5),
            ("busy_e2e_p99", 10.0, 6.9),
            ("full_utilization", 50.0, 57.6),
            ("busy_ttft_p50", 1.0, 5.0),
        ):
            bench.figures.add("round-robin", row, 0, blind)
            bench.figures.add("gpu", row, 0, seeing)

        self.assertEqual(bench.missed(), ["gpu: busy: first token p99, s"])
        self.assertIn("Missed: gpu: busy: first token p99, s.", bench.as_markdown())
        self.assertEqual(len(bench.as_dict()["targets"]), 3)

    def test_an_unknown_picker_is_refused(self) -> None:
        with self.assertRaises(SystemExit):
            fleet.Bench(Path("build"), 1, 10.0, ["fastest"], [[0, 1]]).pickers()

    def test_tokens_are_counted_while_requests_are_sent_and_the_fleet_is_full(self) -> None:
        watch = fleet._Watch([])
        watch._samples = [(1.0, 0.5, 100), (4.0, 1.0, 400), (8.0, 1.0, 1200), (12.0, 0.2, 1300)]

        self.assertEqual(watch.tokens_per_second(10.0), 200)
        self.assertEqual(watch.busy(10.0), 1.0)
        self.assertEqual(watch.tokens_per_second(1.0), 0)


class KillTest(unittest.TestCase):
    def test_lost_requests_are_in_the_table_and_in_the_verdict(self) -> None:
        bench = kill.Bench(Path("build"), Path("home"), 1, [], Cores(0, 1, 1))
        bench.names = ["evenkeel retrying", "envoy"]
        bench.absent = {"envoy": "no wheel"}
        times = {"p50": 0.2, "p99": 0.4, "max": 0.5}
        report = {"requests": {"succeeded": 998, "failed": 2}, "e2e_seconds": times}

        bench._note("evenkeel retrying", 0, report)

        self.assertEqual(bench.lost(), 2)
        self.assertIn("| evenkeel retrying | 1,000 | 2 | 0.20 | 200 | 400 | 500 |", bench.as_markdown())
        self.assertIn("- not measured: envoy: no wheel", bench.as_markdown())
        self.assertEqual(bench.as_dict()["targets"][0]["met"], False)
        self.assertEqual(bench.missed(), "evenkeel retrying lost 2 requests")

    def test_a_run_without_evenkeel_misses_the_target(self) -> None:
        bench = kill.Bench(Path("build"), Path("home"), 1, [], Cores(0, 1, 1))
        self.assertEqual(bench.missed(), "evenkeel retrying was not measured: it was not chosen")
        bench.absent = {"evenkeel retrying": "does not start"}
        self.assertEqual(bench.missed(), "evenkeel retrying was not measured: does not start")
        self.assertIsNone(bench.as_dict()["targets"][0]["met"])
        self.assertIsNone(bench.as_dict()["targets"][0]["reached"])

    def test_a_run_without_lost_requests_meets_the_target(self) -> None:
        bench = kill.Bench(Path("build"), Path("home"), 1, [], Cores(0, 1, 1))
        times = {"p50": 0.2, "p99": 0.4, "max": 0.5}
        bench._note("evenkeel retrying", 0, {"requests": {"succeeded": 9, "failed": 0}, "e2e_seconds": times})
        self.assertEqual(bench.missed(), "")
        self.assertEqual(bench.as_dict()["targets"][0]["met"], True)


class PickingReplayTest(unittest.TestCase):
    def found(self) -> dict[str, Any]:
        """Every rule is half as good as expected-time, and has twice its times."""
        good = {"goodput_ratio": 0.903, "ttft_p50": 1.0, "ttft_p90": 1.0, "ttft_p99": 1.0, "slowdown_p99": 2.0}
        good |= {"e2e_p50": 1.0, "e2e_p99": 1.0, "tpot_p50": 1.0, "tpot_p99": 1.0, "hit_ratio": 0.5}
        good |= {"shed": 5, "requests": 100}
        worse = {key: 2 * figure for key, figure in good.items()} | {"goodput_ratio": 0.803, "hit_ratio": 0.55}
        names = (*picking_replay.PICKERS, *picking_replay.RIVALS)
        each = {scenario.name: worse for scenario in scenarios.SCENARIOS}
        ours = {scenario.name: good for scenario in scenarios.SCENARIOS}
        return {
            "rows": {name: each for name in names} | {"expected-time": ours, "without ties": ours},
            "capacity": {name: {"large KV": 1.0, "small KV": 1.0} for name in names}
            | {"expected-time": {"large KV": 2.2, "small KV": 1.5}},
            "overload": {name: good for name in picking_replay.OVERLOADED},
        }

    def test_ratios_are_geometric_means_over_the_scenarios(self) -> None:
        found = self.found()
        first = scenarios.SCENARIOS[0].name
        found["rows"]["p2c"] = found["rows"]["p2c"] | {first: found["rows"]["p2c"][first] | {"ttft_p50": 2.0 * 2**9}}
        self.assertAlmostEqual(picking_targets.ratio(found, "p2c", "violations"), 2.0)
        self.assertAlmostEqual(picking_targets.ratio(found, "p2c", "ttft_p50"), 4.0)

    def test_targets_are_judged_by_ratios_of_ours_to_theirs(self) -> None:
        judged = {(each.what, each.over): each for each in picking_targets.targets(self.found())}
        self.assertTrue(judged["violations", "llmd-sticky"].met)  # 0.5 <= 0.6
        self.assertFalse(judged["violations", "p2c"].met)  # 0.5 > 0.25
        self.assertTrue(judged["capacity", "p2c"].met)  # 2.2 >= 2.0
        self.assertFalse(judged["capacity", "round-robin"].met)  # 2.2 < 2.3
        self.assertFalse(judged["hits, azure-code-7x", "least-connections"].met)  # 0.5 / 0.55 < 0.93
        self.assertTrue(judged["overload refused", ""].met)  # 5 of 100

    def test_the_page_says_by_how_much_a_target_is_missed(self) -> None:
        found = self.found()
        text = picking_tables.as_markdown(found, picking_targets.targets(found))
        self.assertIn("| power of two choices | SLO violations | <= 0.250 | 0.500 | **missed by 100.0 %** |", text)
        self.assertIn("| llm-d sticky (token-aware) | SLO violations | <= 0.600 | 0.500 | met by 16.7 % |", text)
        self.assertIn("| ties (always the least cost) | 1.00 |", text)

    def test_capacity_is_found_by_halving(self) -> None:
        bench = picking_replay.Bench(Path("build"), Path("traces"), Path("work"), [], Path("results.json"))

        def measure(contender: object, scenario: scenarios.Scenario, more: object) -> dict[str, float]:
            speed = float(scenario.options[scenario.options.index("--speed") + 1])
            return {"goodput_ratio": 1.0 if speed <= 1.234 else 0.9}

        with mock.patch.object(bench, "measure", measure):
            found = bench.capacity(picking_replay.contenders()[0], ())
        self.assertAlmostEqual(found, 1.234, delta=0.01)

    def test_requests_with_one_stamp_are_spread_up_to_the_next_stamp(self) -> None:
        rows = [
            {"timestamp": stamp, "input_length": 100, "output_length": 2, "hash_ids": [1]}
            for stamp in (0, 0, 0, 3000, 9000)
        ]
        with tempfile.TemporaryDirectory() as folder:
            with gzip.open(Path(folder) / "trace.jsonl.gz", "wt") as out:
                out.writelines(json.dumps(row) + "\n" for row in rows)
            made = scenarios.mooncake("trace.jsonl.gz")(Path(folder), 1)
        times = [request.at_ms for request in made]
        self.assertEqual(times, sorted(times))
        self.assertTrue(all(0 <= time < 3000 for time in times[:3]))
        self.assertEqual([3000 <= times[3] < 9000, 9000 <= times[4] < 12000], [True, True])

    def test_tool_calls_share_prefixes_and_fill_their_blocks(self) -> None:
        made = scenarios.ToolCalls(1).requests()
        self.assertAlmostEqual(len(made) / scenarios.ToolCalls.SECONDS, scenarios.ToolCalls.RATE, delta=1)
        for request in made:
            self.assertEqual(len(request.blocks), scenarios.blocks_of(request.prompt_tokens))
        hot = [request for request in made if request.blocks[:2] == [10, 11]]
        self.assertAlmostEqual(len(hot) / len(made), 0.38, delta=0.03)

    def test_every_ablation_changes_the_scheduler_that_is_in_the_source(self) -> None:
        root = Path(__file__).resolve().parents[2]
        source = (root / "src/scheduler/scheduling_pass.cc").read_text()
        for name in ablations.ABLATIONS:
            with self.subTest(name):
                self.assertNotEqual(ablations.without(name, source), source)
                self.assertIn(name, picking_tables.PARTS)
        with self.assertRaises(ValueError):
            ablations.without("ties", "no such line")


class PickingTest(unittest.TestCase):
    """The definitions of docs/simulator.md, of what `evenkeel load --log` wrote."""

    def line(self, index: int, ttft: float, tpot: float | None = 0.01, **more: Any) -> dict[str, Any]:
        return {"index": index, "ttft_seconds": ttft, "tpot_seconds": tpot, "e2e_seconds": 2 * ttft, "prompt_tokens": 1000,
                "cached_tokens": 250, "error": None, **more}

    def test_good_requests_meet_both_targets_at_the_speed_of_the_engines(self) -> None:
        limit = picking.TTFT_SLO / picking.FASTER_THAN_LIFE
        slow = picking.TPOT_SLO / picking.FASTER_THAN_LIFE + 0.001
        lines = [self.line(0, 9), self.line(1, limit), self.line(2, limit + 0.01), self.line(3, 0.1, slow),
                 self.line(4, 0.1, None), self.line(5, 0.1, error="truncated")]
        found = picking.figures_of(lines, started=10)  # the first is warm-up, four never ended

        self.assertAlmostEqual(found["goodput"], 100 * 2 / 9)
        self.assertAlmostEqual(found["ttft_p50"], 0.4)
        self.assertAlmostEqual(found["hits"], 25)

    def test_a_long_prompt_may_take_three_unloaded_prefills(self) -> None:
        unloaded = picking.unloaded_prefill(100_000)
        self.assertAlmostEqual(unloaded, 13 * 0.016 + 100_000 * 45e-6 + 1.3e-9 * 100_000**2 / 2, places=6)
        ttft = 2.9 * unloaded / picking.FASTER_THAN_LIFE
        found = picking.figures_of([self.line(0, ttft, prompt_tokens=100_000)], started=1)

        self.assertEqual(found["goodput"], 100)
        self.assertAlmostEqual(found["slowdown_p99"], 2.9)

    def test_what_hardly_differs_shares_a_place(self) -> None:
        self.assertEqual(picking.order({"a": 80.0, "b": 90.0, "c": 79.8}), "b > a = c")


class HeadlinesTest(unittest.TestCase):
    def test_the_blast_is_judged_by_its_worst_phase(self) -> None:
        output = """\
  22 s      7 started    365 tok/s  first token p50  73.9 ms p99   9.99 s  6 + 0 servers

                 req/s  answered    failed      TTFT p50      TTFT p99
before             7.5        29         0        109 ms        218 ms
the blast         60.0       719         0        247 ms        1.18 s
after              7.5        27         0        124 ms        290 ms

2 of 2 standby servers entered service, 2 returned to standby; p99 TTFT under 3.00 s without a failed request: met
"""
        self.assertEqual(headlines.worst_first_token(output), 1.18)

    def test_ratios_are_taken_within_a_round(self) -> None:
        rounds = {"least-latency": [2, 3, 40], "round-robin": [1, 2, 10]}
        fleet_results = {"figures": {name: {"tokens": {"rounds": values}} for name, values in rounds.items()}}
        self.assertEqual(headlines.ratio_of(fleet_results, "least-latency", "tokens"), 2)


if __name__ == "__main__":
    unittest.main()
