"""An unequal fleet of simulated GPUs under each picker, over real sockets and in real time: what load-aware pickers gain
over round robin."""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .figures import Figures
from .process import Children, Cores, core_pairs
from .report import machine, markdown_table, wrapped
from .rounds import say

SPEEDS = (1.0, 1.7, 3.0)
# Few tokens per second, and prompts that cost more than outputs: so the results depend on the picker and not on the cores
# that simulators, clients and balancer share.
SLOWER_THAN_LIFE = 0.25
MEAN_ANSWER_TOKENS = 20
LOAD = ["--stream", "--prompt-tokens", "128..1024", "--output-tokens", "8..32"]
LOADS_PER_ROUND = 1000
CAPACITY_CLIENTS, CAPACITY_SECONDS = 24, 8.0  # for the capacity of one server without a balancer
SAMPLE_SECONDS = 0.25
START_PATIENCE_SECONDS = 15.0
YARDSTICK = "round-robin"
END_OF_LOAD_SECONDS = 300.0


@dataclass(frozen=True)
class Picker:
    name: str
    pool: dict[str, Any]
    judged: bool = True  # whether the targets are its own


PICKERS = (
    Picker(YARDSTICK, {"picker": "round-robin"}, judged=False),
    Picker("least-connections", {"picker": "least-connections"}, judged=False),
    Picker("weighted observed", {"picker": {"name": "weighted", "weights": "observed"}}),
    Picker("least-latency", {"picker": "least-latency"}),
    Picker("queue-depth", {"picker": "queue-depth"}),
    Picker("gpu", {"picker": "gpu"}),
)


@dataclass(frozen=True)
class Pressure:
    """A load: an open loop at a share of the fleet's capacity, or a closed loop of so many clients."""

    key: str
    title: str
    share: float = 0.0
    clients: int = 0

    def flags(self, capacity: float) -> list[str]:
        """`capacity` in tokens per second."""
        if self.clients:
            return ["--concurrency", str(self.clients)]
        rate = self.share * capacity / MEAN_ANSWER_TOKENS
        return ["--rate", f"{rate:.2f}", "--poisson"]


PRESSURES = (
    Pressure("calm", "half of the capacity of the fleet, Poisson arrivals", share=0.5),
    Pressure("busy", "three quarters of it, Poisson arrivals", share=0.75),
    Pressure("full", "a closed loop of 64 clients", clients=64),
)


@dataclass(frozen=True)
class Row:
    key: str
    title: str
    decimals: int = 2
    at_most: float | None = None  # over round robin's
    at_least: float | None = None

    def met(self, ratio: float) -> bool:
        return (self.at_most is None or ratio <= self.at_most) and (
            self.at_least is None or ratio >= self.at_least
        )

    def target(self) -> str:
        return f"<= {self.at_most:.2f}" if self.at_most is not None else f">= {self.at_least:.2f}"


ROWS = (
    Row("calm_ttft_p99", "calm: first token p99, s", at_most=1.05),
    Row("calm_e2e_p99", "calm: whole response p99, s", at_most=1.05),
    Row("busy_ttft_p50", "busy: first token p50, s"),
    Row("busy_ttft_p99", "busy: first token p99, s", at_most=0.7),
    Row("busy_e2e_p99", "busy: whole response p99, s", at_most=0.7),
    Row("full_ttft_p99", "full: first token p99, s", at_most=0.7),
    Row("full_e2e_p99", "full: whole response p99, s", at_most=0.7),
    Row("full_tokens", "full: tokens per second", decimals=0),
    Row("full_utilization", "full: utilization of the fleet, %", decimals=0, at_least=1.15),
    Row("full_busy", "full: busy time of the GPUs, %", decimals=0),
)


@dataclass
class Simulator:
    address: str
    control: str
    speed: float

    def report(self) -> tuple[float, int]:
        """Utilization over about the last second, 0..1; tokens generated so far."""
        with urllib.request.urlopen(f"http://{self.control}/sim/v1/report", timeout=5) as answer:
            server = json.load(answer)["servers"][0]
        return float(server["gpu_utilization_ratio"]), int(server["tokens"]["generated"])


@dataclass
class Round:
    """Each picker once, in front of a fleet of the round's own."""

    number: int
    cores: Cores
    children: Children
    home: Path
    fleet: list[Simulator] = field(default_factory=list)
    capacity: float = 0.0  # tokens per second of the whole fleet
    loads: int = 0  # so far: each has prompts of its own, which no server has in its prefix cache

    def seed(self) -> int:
        self.loads += 1
        return LOADS_PER_ROUND * self.number + self.loads


@dataclass
class Bench:
    build: Path
    rounds: int
    seconds: float
    only: list[str]
    pairs: list[list[int]] = field(default_factory=core_pairs)  # of cores; a round needs one
    capacities: dict[int, float] = field(default_factory=dict)  # by round
    figures: Figures = field(default_factory=Figures)
    failures: dict[str, int] = field(default_factory=dict)
    shares: dict[str, dict[str, dict[int, list[float]]]] = field(default_factory=dict)

    def pickers(self) -> list[Picker]:
        known = [picker.name for picker in PICKERS]
        if unknown := [name for name in self.only if name not in known]:
            raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        return [picker for picker in PICKERS if not self.only or picker.name in self.only]

    def run(self) -> None:
        free: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        for pair in self.pairs:
            free.put(pair)
        with ThreadPoolExecutor(self.at_once()) as lanes:
            runs = [lanes.submit(self._run_on_free, free, number) for number in range(self.rounds)]
        for run in runs:
            run.result()

    def _run_on_free(self, free: queue.SimpleQueue[list[int]], number: int) -> None:
        pair = free.get()
        try:
            self._run_round(number, Cores.choose(pair))
        finally:
            free.put(pair)

    def at_once(self) -> int:
        return min(self.rounds, len(self.pairs))

    def _run_round(self, number: int, cores: Cores) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as home,
            Children() as children,
        ):
            this = Round(number, cores, children, Path(home))
            this.fleet = [self._simulator(this, speed) for speed in SPEEDS]
            this.capacity = sum(self._capacity_of(this, server) for server in this.fleet)
            self.capacities[number] = this.capacity
            pickers = self.pickers()
            first = number % len(pickers)  # rotates, so that none is always first
            for picker in pickers[first:] + pickers[:first]:
                say(f"round {number + 1}/{self.rounds}: {picker.name}")
                self._measure(this, picker)

    def _simulator(self, this: Round, speed: float) -> Simulator:
        argv = [str(self.build / "evenkeel"), "sim", "--listen", "127.0.0.1:0", "--model", "m"]
        argv += ["--preset", "llama-3-8b-a100", "--speed", str(speed * SLOWER_THAN_LIFE)]
        found = listening(this.children.start(argv, this.cores.origin, stderr=subprocess.PIPE))
        address = next(value for name, value in found.items() if name.startswith("sim-0"))
        control = next(value for name, value in found.items() if "control" in name)
        return Simulator(address, control, speed)

    def _capacity_of(self, this: Round, server: Simulator) -> float:
        say(f"what a server of speed {server.speed:g} gets done")
        alone = Pressure("alone", "", clients=CAPACITY_CLIENTS)
        with _Watch([server]) as watch:
            self._load(this, f"http://{server.address}", alone, CAPACITY_SECONDS)
        return watch.tokens_per_second(CAPACITY_SECONDS)

    def _measure(self, this: Round, picker: Picker) -> None:
        """A fresh balancer, so that each picker starts without knowledge and learns while it is measured."""
        config = {
            "listeners": [{"name": "public", "address": "127.0.0.1:0"}],
            "admin": {"address": "127.0.0.1:0"},
            "workers": 2,
            "access_log": {"path": "off"},
            "pools": [
                {
                    "name": "fleet",
                    "engine": "vllm",
                    "backends": [server.address for server in this.fleet],
                    "debug_headers": True,
                    **picker.pool,
                }
            ],
        }
        path = this.home / "evenkeel.yaml"
        path.write_text(json.dumps(config))
        daemon = this.children.start(
            [str(self.build / "evenkeel"), "run", "-c", str(path)],
            this.cores.proxy,
            stderr=subprocess.PIPE,
        )
        url = f"http://{listening(daemon)['public']}"
        for pressure in PRESSURES:
            with _Watch(this.fleet) as watch:
                report = self._load(this, url, pressure, self.seconds)
            self._note(this, picker.name, pressure, report, watch)
        this.children.stop(daemon)

    def _load(self, this: Round, url: str, pressure: Pressure, seconds: float) -> dict[str, Any]:
        argv = [str(self.build / "evenkeel"), "load", url, *LOAD, *pressure.flags(this.capacity), "--json"]
        argv += ["--duration", f"{seconds}s", "--model", "m", "--seed", str(this.seed())]
        ended = subprocess.run(
            ["taskset", "-c", str(this.cores.load), *argv],
            capture_output=True,
            text=True,
            timeout=END_OF_LOAD_SECONDS,
            check=False,
        )
        if not ended.stdout:
            raise RuntimeError(f"evenkeel load: {ended.stderr}")
        return dict(json.loads(ended.stdout))

    def _note(
        self, this: Round, name: str, pressure: Pressure, report: dict[str, Any], watch: _Watch
    ) -> None:
        key, number = pressure.key, this.number
        for what, times in (("ttft", report["ttft_seconds"]), ("e2e", report["e2e_seconds"])):
            self.figures.add(name, f"{key}_{what}_p50", number, times["p50"])
            self.figures.add(name, f"{key}_{what}_p99", number, times["p99"])
        tokens = watch.tokens_per_second(self.seconds)
        self.figures.add(name, f"{key}_tokens", number, tokens)
        self.figures.add(name, f"{key}_utilization", number, 100 * tokens / this.capacity)
        self.figures.add(name, f"{key}_busy", number, 100 * watch.busy(self.seconds))
        answered = [report["backends"].get(each.address, {}).get("answered", 0) for each in this.fleet]
        shares = [round(count / max(1, sum(answered)), 3) for count in answered]
        self.shares.setdefault(name, {}).setdefault(key, {})[number] = shares
        requests = report["requests"]
        failed = requests["failed"] + requests["abandoned"]
        if failed:
            self.failures[f"{name}, {key}"] = self.failures.get(f"{name}, {key}", 0) + failed

    def missed(self) -> list[str]:
        return [f"{name}: {row.title}" for name, row, _, met in self._verdicts() if not met]

    def _verdicts(self) -> Iterator[tuple[str, Row, float, bool]]:
        for picker in self.pickers():
            for row in ROWS:
                ratio = self.figures.ratio(picker.name, YARDSTICK, row.key)
                if ratio is None or not picker.judged:
                    continue
                if row.at_most is not None or row.at_least is not None:
                    yield picker.name, row, ratio, row.met(ratio)

    # ---- the results ----

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "fleet.json").write_text(json.dumps(self.as_dict(), indent=2) + "\n")
        (folder / "fleet.md").write_text(wrapped(self.as_markdown()))

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": "fleet",
            "machine": machine(),
            "settings": {
                "rounds": self.rounds,
                "seconds": self.seconds,
                "speeds": SPEEDS,
                "slower_than_life": SLOWER_THAN_LIFE,
                "capacity_tokens_per_second": [self.capacities[number] for number in sorted(self.capacities)],
                "rounds_at_a_time": self.at_once(),
            },
            "figures": {
                picker.name: {
                    row: {
                        "median": self.figures.median(picker.name, row),
                        "rounds": list(rounds.values()),
                    }
                    for row, rounds in self.figures.values.get(picker.name, {}).items()
                }
                for picker in self.pickers()
            },
            "shares": self.shares,
            "failures": self.failures,
            "targets": [
                {"picker": name, "measure": row.key, "target": row.target(), "reached": ratio}
                | {"met": met}
                for name, row, ratio, met in self._verdicts()
            ],
        }

    def as_markdown(self) -> str:
        pickers = self.pickers()
        known = machine()
        rows = []
        for row in ROWS:
            cells = []
            for picker in pickers:
                value = self.figures.median(picker.name, row.key)
                cells.append("-" if value is None else f"{value:,.{row.decimals}f}")
            rows.append([row.title, *cells])
        ratios = []
        for row in ROWS:
            cells = []
            for picker in pickers:
                ratio = self.figures.ratio(picker.name, YARDSTICK, row.key)
                cells.append("-" if ratio is None else f"{ratio:.2f}")
            judged = row.at_most is not None or row.at_least is not None
            ratios.append([row.title, *cells, row.target() if judged else ""])
        shares = [
            [picker.name, *(_share_cell(self.shares.get(picker.name, {}).get(p.key)) for p in PRESSURES)]
            for picker in pickers
        ]
        names = [picker.name for picker in pickers]
        missed = self.missed()
        return "\n".join(
            [
                "# An unequal fleet",
                "",
                f"{known['cpu']}, {known['cores']} cores, {self.rounds} rounds of {self.seconds:g} s each, {self.at_once()} at a time.",
                "",
                *(f"- {line}" for line in REMARKS),
                *(f"- {pressure.key}: {pressure.title}." for pressure in PRESSURES),
                "",
                *markdown_table(["", *names], rows),
                "",
                f"## Over {YARDSTICK}",
                "",
                *markdown_table(["", *names, "target"], ratios),
                "",
                "## Shares of the three servers, by speed " + ", ".join(f"{s:g}" for s in SPEEDS),
                "",
                *markdown_table(["", *(pressure.key for pressure in PRESSURES)], shares),
                "",
                "All targets are met."
                if not missed
                else "Missed: " + "; ".join(missed) + ".",
                *(
                    ["", "Failed requests: " + ", ".join(f"{n} ({w})" for w, n in self.failures.items())]
                    if self.failures
                    else []
                ),
                "",
            ]
        )


REMARKS = (
    "Three simulated A100s with an 8B model behind one balancer, at speeds 1 : 1.7 : 3, which the balancer does not "
    "know. Prompts of 128 to 1024 tokens, outputs of 8 to 32, streamed.",
    "Each picker starts with a fresh balancer and learns while it is measured; calm runs first. Medians over rounds; "
    "ratios are taken within a round.",
    "Utilization: tokens per second, divided by what the three servers generate without a balancer. Busy time "
    "(weighted by speed) says little: a GPU with one stream is as busy as one with a hundred.",
)


class _Watch:
    """Samples the servers while a load runs."""

    def __init__(self, fleet: list[Simulator]) -> None:
        self._fleet = fleet
        self._began = time.monotonic()
        self._samples: list[tuple[float, float, int]] = []  # seconds, busy 0..1, tokens generated
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        speeds = sum(server.speed for server in self._fleet)
        while not self._stop.wait(SAMPLE_SECONDS):
            reports = [server.report() for server in self._fleet]
            pairs = zip(self._fleet, reports, strict=True)
            busy = sum(server.speed * report[0] for server, report in pairs) / speeds
            tokens = sum(report[1] for report in reports)
            self._samples.append((time.monotonic() - self._began, busy, tokens))

    def _within(self, seconds: float) -> list[tuple[float, float, int]]:
        """The samples while requests were sent, without the first quarter, in which the fleet fills up."""
        return [sample for sample in self._samples if seconds / 4 < sample[0] < seconds]

    def busy(self, seconds: float) -> float:
        samples = self._within(seconds)
        return sum(busy for _, busy, _ in samples) / max(1, len(samples))

    def tokens_per_second(self, seconds: float) -> float:
        samples = self._within(seconds)
        if len(samples) < 2:
            return 0.0
        return (samples[-1][2] - samples[0][2]) / (samples[-1][0] - samples[0][0])


def _share_cell(rounds: dict[int, list[float]] | None) -> str:
    if not rounds:
        return "-"
    means = [sum(shares) / len(rounds) for shares in zip(*rounds.values(), strict=True)]
    return " / ".join(f"{100 * mean:.0f} %" for mean in means)


def listening(process: subprocess.Popen[str]) -> dict[str, str]:
    """The listening addresses, by name, that one of our programs prints before it is ready. Its further output is read and
    discarded, so that it never blocks."""
    assert process.stderr
    found: dict[str, str] = {}
    deadline = time.monotonic() + START_PATIENCE_SECONDS
    for line in process.stderr:
        if line.startswith("listening "):
            words = dict(word.split("=", 1) for word in line.split()[1:])
            found[words["name"]] = words["address"]
        if line.strip() == "ready":
            stream = process.stderr
            threading.Thread(target=lambda: [None for _ in stream], daemon=True).start()
            return found
        if time.monotonic() > deadline:
            break
    raise RuntimeError(f"{process.args!r} did not become ready")


def main(build: Path, results: Path, rounds: int, seconds: float, only: list[str]) -> int:
    bench = Bench(build, rounds, seconds, only)
    bench.run()
    bench.write(results)
    print(bench.as_markdown())
    return 1 if bench.failures or bench.missed() else 0
