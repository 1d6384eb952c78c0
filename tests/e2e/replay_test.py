"""`evenkeel replay`: a trace in virtual time, as a table and as JSON."""

import gzip
import json
import os
import random
import shutil
import tempfile

import case
from process import command

KEYS = {"picker", "backends", "requests", "goodput_ratio", "ttft_seconds", "slowdown", "tpot_seconds", "e2e_seconds", "hit_ratio",
        "utilization_ratio", "imbalance", "shed", "unfinished"}


def write_trace(path, requests=400, per_second=8):
    """Conversations that share a system prompt and repeat their earlier turns."""
    chance = random.Random(5)
    conversations = [[] for _ in range(30)]
    at, block = 0.0, 10
    with gzip.open(path, "wt") as file:
        for _ in range(requests):
            at += chance.expovariate(per_second)
            turns = chance.choice(conversations)
            if not turns or len(turns) > 30:
                turns[:] = [1]
            for _ in range(chance.randint(1, 8)):
                turns.append(block)
                block += 1
            file.write(json.dumps({"timestamp": round(at * 1000, 3), "input_length": 512 * len(turns),
                                   "output_length": chance.randint(20, 200), "hash_ids": turns}) + "\n")


class Replay(case.Case):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.trace = os.path.join(self.folder, "trace.jsonl.gz")
        write_trace(self.trace)

    def rows(self, *arguments):
        done = command("replay", "--trace", self.trace, "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["rows"]

    def test_a_row_for_each_picker_in_the_order_asked_for(self):
        rows = self.rows("--backends", "4", "--picker", "round-robin,least-connections,expected-time")

        self.assertEqual([row["picker"] for row in rows], ["round-robin", "least-connections", "expected-time"])
        for row in rows:
            self.assertEqual(set(row), KEYS)
            self.assertEqual(row["requests"], 360)
            self.assertLessEqual(row["ttft_seconds"]["p50"], row["ttft_seconds"]["p99"])
        self.assertGreaterEqual(rows[2]["goodput_ratio"], rows[0]["goodput_ratio"])

    def test_the_same_command_gives_the_same_figures(self):
        self.assertEqual(self.rows("--seed", "3"), self.rows("--seed", "3"))

    def test_the_fewest_backends_for_a_goodput(self):
        (row,) = self.rows("--fewest-backends", "0.9", "--speed", "3")

        self.assertGreaterEqual(row["goodput_ratio"], 0.9)
        fewer = self.rows("--backends", str(row["backends"] - 1), "--speed", "3")[0]
        self.assertLess(fewer["goodput_ratio"], 0.9)

    def test_unequal_and_slowing_backends(self):
        (row,) = self.rows("--backends", "4", "--speeds", "1,.5", "--slowdown", "0:4@10", "--max-seconds", "30")

        self.assertLess(row["requests"], 300)

    def test_a_slowdown_of_a_backend_that_the_search_does_not_need(self):
        search = ["--fewest-backends", "0.5"]
        self.assertEqual(self.rows(*search, "--slowdown", "7:4@2"), self.rows(*search))

    def test_a_table_for_people(self):
        done = command("replay", "--trace", self.trace)

        self.assertEqual(done.returncode, 0, done.stderr)
        heading, row = done.stdout.splitlines()
        self.assertIn("goodput %", heading)
        self.assertTrue(row.startswith("expected-time"))

    def test_mistakes_on_the_command_line(self):
        for arguments in (["--picker", "best"], ["--preset", "gpu"], ["--slowdown", "now"], ["--slowdown", "9:2@1"], ["--slowdown", "-1:2@1"],
                          ["--slowdown", "+0:2@1"], ["--slowdown", "0:2@1x"], ["--slowdown", "0:@1"], ["--slowdown", "0"],
                          ["--slowdown", "0:inf@2"], ["--slowdown", "0:nan@2"], ["--slowdown", "0:1e4@2"], ["--slowdown", "0:2@nan"],
                          ["--slowdown", "1024:2@1", "--fewest-backends", "0.5"], ["--speed", "0"], ["--speed", "1e-300"],
                          ["--speed", "nan"], ["--speed", "inf"], ["--speeds", "1,1e-300"], ["--speeds", "1001"]):
            done = command("replay", "--trace", self.trace, *arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(arguments[0], done.stderr)

    def test_a_trace_that_cannot_be_read(self):
        done = command("replay", "--trace", os.path.join(self.folder, "none"))

        self.assertEqual(done.returncode, 1)
        self.assertIn("none: No such file", done.stderr)


if __name__ == "__main__":
    case.main()
