"""Our pickers beside the rules of other routers in virtual time: nine scenarios, capacity, overload, and what each part of
expected-time is worth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from ablations import ABLATIONS  # noqa: E402

from . import picking_tables, picking_targets
from .picking_targets import OURS
from .report import machine, wrapped
from .rounds import say
from .scenarios import LARGE, SCENARIOS, SEEDS, Scenario, trace_file

PROGRAM = "bench_picking_replay"
PICKERS = (
    OURS,
    "least-connections",
    "queue-depth",
    "prefix-affinity",
    "consistent-hash",
    "weighted",
    "least-latency",
    "gpu",
    "round-robin",
)
RIVALS = (
    "llmd-sticky",
    "dynamo-tuned",
    "llmd-predicted",
    "greedy-ttft",
    "prequal-rs",
    "dynamo-queue",
    "dynamo",
    "gaie",
    "llmd-blend",
    "sglang",
    "p2c",
)
DRAWS = 4  # of the random choices, for each seed of the requests

CAPACITY_GOODPUT = 0.95
SLOWEST, FASTEST, SPEED_STEP = 0.2, 3.2, 0.01
CAPACITY_SECONDS = "400"
FLEETS = {"large KV": LARGE, "small KV": ()}
NO_CAPACITY = ("weighted", "queue-depth", "gpu")  # they are others under another name here

OVERLOAD = Scenario(
    "overload", "overload 2.8x", "conversation", (*LARGE, "--speed", "2.8", "--max-seconds", "300")
)
OVERLOADED = {
    "expected-time, --shed 1": (OURS, ("--shed", "1")),
    "expected-time, --shed 2": (OURS, ("--shed", "2")),
    "expected-time, --shed 4": (OURS, ("--shed", "4")),
    OURS: (OURS, ()),
    "llmd-sticky": ("llmd-sticky", ()),
    "dynamo-tuned": ("dynamo-tuned", ()),
    "prequal-rs": ("prequal-rs", ()),
    "least-connections": ("least-connections", ()),
}

Row = dict[str, Any]


@dataclass(frozen=True)
class Contender:
    """A rule, and the program that runs it."""

    name: str
    rule: str
    program: str = PROGRAM


def contenders() -> list[Contender]:
    without = [Contender(f"without {part}", OURS, f"bench_replay_without_{part}") for part in ABLATIONS]
    return [*(Contender(name, name) for name in (*PICKERS, *RIVALS)), *without]


def mean_of(rows: Sequence[Row]) -> Row:
    """Of the figures; and the range of the goodput."""
    figures = {
        key: round(sum(row[key] for row in rows) / len(rows), 6)
        for key, value in rows[0].items()
        if isinstance(value, int | float)
    }
    goodput = [row["goodput_ratio"] for row in rows]
    return figures | {"goodput_low": min(goodput), "goodput_high": max(goodput)}


@dataclass
class Bench:
    build: Path
    traces: Path
    work: Path
    only: list[str]
    path: Path  # of the results file
    found: dict[str, Any] = field(default_factory=dict)  # the contents of the results file

    def run(self) -> None:
        self.found.setdefault("rows", {})
        self.found.setdefault("capacity", {})
        self.found.setdefault("overload", {})
        chosen = [each for each in contenders() if not self.only or each.name in self.only]
        with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
            say(f"{len(chosen)} rules, {len(SCENARIOS)} scenarios")
            for each, rows in zip(chosen, pool.map(self.scenarios_of, chosen), strict=True):
                self.found["rows"][each.name] = rows
                self.save()
            say("capacity")
            searched = [
                each for each in chosen if each.program == PROGRAM and each.name not in NO_CAPACITY
            ]
            for each, speeds in zip(searched, pool.map(self.capacity_of, searched), strict=True):
                self.found["capacity"][each.name] = speeds
                self.save()
            say("overload")
            overloaded = [name for name, (rule, _) in OVERLOADED.items() if not self.only or rule in self.only]
            for name, row in zip(overloaded, pool.map(self.overload_of, overloaded), strict=True):
                self.found["overload"][name] = row
                self.save()

    def save(self, **more: Any) -> None:
        """What is known so far, so that a run that is cut off loses little."""
        contents = {"name": "picking-replay", "machine": machine(), "settings": settings()}
        contents |= {key: self.found[key] for key in ("rows", "capacity", "overload")} | more
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(contents, indent=1) + "\n")

    def scenarios_of(self, contender: Contender) -> dict[str, Row]:
        return {each.name: self.measure(contender, each, ()) for each in SCENARIOS}

    def capacity_of(self, contender: Contender) -> dict[str, float]:
        return {name: self.capacity(contender, options) for name, options in FLEETS.items()}

    def capacity(self, contender: Contender, fleet: tuple[str, ...]) -> float:
        """The highest speed of the conversations with enough goodput, by halving: it takes goodput to fall with speed."""
        low, high = SLOWEST, FASTEST
        while high - low > SPEED_STEP:
            speed = (low + high) / 2
            options = (*fleet, "--speed", f"{speed:.4f}", "--max-seconds", CAPACITY_SECONDS)
            row = self.measure(contender, Scenario("", "", "conversation", options), ())
            if row["goodput_ratio"] >= CAPACITY_GOODPUT:
                low = speed
            else:
                high = speed
        return round((low + high) / 2, 2)

    def overload_of(self, name: str) -> Row:
        rule, options = OVERLOADED[name]
        return self.measure(Contender(rule, rule), OVERLOAD, options)

    def measure(self, contender: Contender, scenario: Scenario, more: Iterable[str]) -> Row:
        rows = []
        for seed in SEEDS:
            trace = trace_file(scenario.source, seed, self.traces, self.work)
            for draw in range(DRAWS):
                rows.append(self.replay(contender, trace, [*scenario.options, *more], seed + 1000 * draw))
        return mean_of(rows)

    def replay(self, contender: Contender, trace: Path, options: list[str], seed: int) -> Row:
        command = ["nice", "-n", "10", str(self.build / contender.program), "--trace", str(trace)]
        command += [*options, "--seed", str(seed), "--rule", contender.rule]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {ended.stderr}")
        row: Row = json.loads(ended.stdout)
        return row

    def missing(self) -> list[str]:
        programs = {each.program for each in contenders() if not self.only or each.name in self.only}
        return sorted(name for name in programs if not (self.build / name).exists())


def settings() -> dict[str, Any]:
    return {"backends": 8, "request_seeds": SEEDS, "draws_of_each": DRAWS}


def main(build: Path, traces: Path | None, work: Path, results: Path, only: list[str]) -> int:
    if traces is None or not traces.is_dir():
        say("picking-replay needs --traces DIR: bench/README.md names the files")
        return 1
    unknown = set(only) - {each.name for each in contenders()}
    if unknown:
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}")
    path = results / "picking-replay.json"
    found = json.loads(path.read_text()) if only and path.exists() else {}
    bench = Bench(build, traces, work, only, path, found)
    if bench.missing():
        say(f"{', '.join(bench.missing())} not found in {build}: build {PROGRAM} and bench_ablations")
        return 1
    for source in {each.source for each in SCENARIOS}:
        for seed in SEEDS:
            trace_file(source, seed, traces, work)
    bench.run()
    targets = picking_targets.targets(bench.found)
    bench.save(targets=[target.as_dict() for target in targets])
    text = picking_tables.as_markdown(bench.found, targets)
    (results / "picking-replay.md").write_text(wrapped(text))
    print(text)
    return 1 if any(not target.met for target in targets) else 0
