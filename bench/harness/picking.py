"""Our pickers in front of simulated engines, in real time over real sockets, on public traces; beside what `evenkeel replay`
says of the same requests in virtual time."""

from __future__ import annotations

import json
import os
import queue
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .figures import Figures
from .fleet import listening
from .process import Children, core_pairs, cpu_seconds
from .report import machine, markdown_table, wrapped
from .rounds import say

OURS = "expected-time"
PICKERS = ("round-robin", "least-connections", "queue-depth", "prefix-affinity", OURS)
PRESET = "reference"
BACKENDS = 4
FASTER_THAN_LIFE = 4.0  # the engines, the arrivals and the targets
TTFT_SLO, TPOT_SLO = 2.0, 0.1  # seconds of the engines, as in the replay
RUNS_PER_PAIR = 2  # of cores, at a time; each has processes of its own
POLL_SECONDS = 1.0
END_OF_LOAD_SECONDS = 240.0

# A run during which the clients or the engines were late says more about the machine than about the picker.
MAX_LATE_STARTS = 0.05  # of the requests, by more than a millisecond
MAX_LATE_STEPS = 0.02  # of the engines' steps, likewise
ATTEMPTS = 2

# Of the engines of PRESET, in seconds (src/sim/presets.cc): an unloaded prefill, as the replay computes it.
STEP_TOKENS, STEP, PER_TOKEN, PER_PAIR = 8192, 16e-3, 45e-6, 1.3e-9


@dataclass(frozen=True)
class Scenario:
    key: str
    title: str
    trace: str
    speed: float  # of the trace, for engines at the speed of life
    speeds: tuple[float, ...] = (1, 1, 1, 1)  # of the engines
    slows_by: float = 1  # the first engine, after a third of the time

    def slowdown_at(self, seconds: float) -> float:
        """`seconds`: the whole time."""
        return seconds / 3


CONVERSATION = "mooncake_conversation_first60.jsonl.gz"
SCENARIOS = (
    Scenario("conversation", "conversations (Mooncake), 0.625 times their speed", CONVERSATION, 0.625),
    Scenario("synthetic", "synthetic (Mooncake), 0.8", "mooncake_synthetic_first60.jsonl.gz", 0.8),
    Scenario("tools", "like tools and agents, 0.92", "toolagent_like_synthetic_10min.jsonl.gz", 0.92),
    Scenario("slows", "conversations, 0.5; one of four engines becomes 4 times as slow", CONVERSATION, 0.5, slows_by=4),
    Scenario("unequal", "conversations, 0.45; two engines of four are half as fast", CONVERSATION, 0.45, (1, 1, 0.5, 0.5)),
)


@dataclass(frozen=True)
class Row:
    key: str  # of the figures and of the replay's JSON
    title: str
    decimals: int = 2


ROWS = (
    Row("goodput", "goodput, %", 1),
    Row("ttft_p50", "first token p50, s"),
    Row("ttft_p90", "first token p90, s"),
    Row("ttft_p99", "first token p99, s"),
    Row("slowdown_p99", "slowdown p99", 1),
    Row("tpot_p50", "per token p50, ms", 0),
    Row("tpot_p99", "per token p99, ms", 0),
    Row("e2e_p50", "whole response p50, s", 1),
    Row("e2e_p99", "whole response p99, s", 1),
    Row("hits", "prompt tokens found in caches, %", 1),
)
CPU = "cpu_us"


def unloaded_prefill(prompt_tokens: int) -> float:
    """Seconds that an idle engine with an empty cache takes for a prompt."""
    seconds = 0.0
    for before in range(0, prompt_tokens, STEP_TOKENS):
        tokens = min(STEP_TOKENS, prompt_tokens - before)
        seconds += STEP + tokens * PER_TOKEN + tokens * (before + tokens / 2) * PER_PAIR
    return seconds


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def figures_of(lines: list[dict[str, Any]], started: int) -> dict[str, float]:
    """The definitions of docs/simulator.md, in seconds of the engines. `lines`: of requests that ended, by any number."""
    counted = [line for line in lines if line["index"] >= started // 10]
    served = [line for line in counted if line["ttft_seconds"] is not None]
    good = 0
    first, slowdown, per_token, whole = [], [], [], []
    for line in served:
        unloaded = unloaded_prefill(line["prompt_tokens"])
        ttft = line["ttft_seconds"] * FASTER_THAN_LIFE
        first.append(ttft)
        slowdown.append(ttft / max(0.25, unloaded))
        if line["error"] is not None:
            continue
        whole.append(line["e2e_seconds"] * FASTER_THAN_LIFE)
        tpot = (line["tpot_seconds"] or 0) * FASTER_THAN_LIFE
        if line["tpot_seconds"] is not None:
            per_token.append(tpot)
        good += ttft <= max(TTFT_SLO, 3 * unloaded) and tpot <= TPOT_SLO
    prompts = sum(line["prompt_tokens"] for line in served)
    return {
        "goodput": 100 * good / (started - started // 10),
        "ttft_p50": percentile(first, 0.5),
        "ttft_p90": percentile(first, 0.9),
        "ttft_p99": percentile(first, 0.99),
        "slowdown_p99": percentile(slowdown, 0.99),
        "tpot_p50": 1e3 * percentile(per_token, 0.5),
        "tpot_p99": 1e3 * percentile(per_token, 0.99),
        "e2e_p50": percentile(whole, 0.5),
        "e2e_p99": percentile(whole, 0.99),
        "hits": 100 * sum(line["cached_tokens"] for line in served) / max(1, prompts),
    }


def replayed_figures(row: dict[str, Any]) -> dict[str, float]:
    return {
        "goodput": 100 * row["goodput_ratio"],
        **{f"ttft_{name}": row["ttft_seconds"][name] for name in ("p50", "p90", "p99")},
        "slowdown_p99": row["slowdown"]["p99"],
        **{f"tpot_{name}": 1e3 * row["tpot_seconds"][name] for name in ("p50", "p99")},
        **{f"e2e_{name}": row["e2e_seconds"][name] for name in ("p50", "p99")},
        "hits": 100 * row["hit_ratio"],
    }


def with_priority() -> list[str]:
    """Before everything that has to be in time: real-time priority, where it is permitted. The load is small, so this delays
    others little."""
    wanted = ["chrt", "-r", "1"]
    with suppress(FileNotFoundError):
        if subprocess.run([*wanted, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return wanted
    return []


@dataclass
class Run:
    """One picker in front of fresh engines."""

    bench: Bench
    scenario: Scenario
    picker: str
    proxy_core: int
    ends_core: int
    seed: int
    late: str = ""  # what was late, and how much; empty: nothing
    failed: int = 0
    figures: dict[str, float] = field(default_factory=dict)

    def measure(self) -> None:
        with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as home, Children() as children:
            engines = [self._engine(children, speed) for speed in self.scenario.speeds]
            daemon = self._daemon(children, [address for address, _ in engines], Path(home))
            url = f"http://{listening(daemon)['public']}"
            time.sleep(POLL_SECONDS)  # health checks and polls have begun
            before = cpu_seconds([daemon.pid])
            fault = threading.Timer(
                self.scenario.slowdown_at(self.bench.seconds), self._slow_down, [engines[0][1]]
            )
            if self.scenario.slows_by != 1:
                fault.start()
            try:
                report, lines = self._load(url, Path(home) / "requests.jsonl")
            finally:
                fault.cancel()
            spent = cpu_seconds([daemon.pid]) - before
            self._check(report, engines)
        started = report["requests"]["started"]
        self.failed = report["requests"]["failed"] + report["requests"]["abandoned"]
        self.figures = figures_of(lines, started) | {CPU: 1e6 * spent / max(1, started), "requests": started}

    def _engine(self, children: Children, speed: float) -> tuple[str, str]:
        argv = [*self.bench.priority, str(self.bench.program), "sim", "--listen", "127.0.0.1:0", "--model", "m"]
        argv += ["--preset", PRESET, "--speed", str(speed * FASTER_THAN_LIFE), "--prompt-tokens-details"]
        found = listening(children.start(argv, self.ends_core, stderr=subprocess.PIPE))
        address = next(value for name, value in found.items() if name.startswith("sim-0"))
        return address, next(value for name, value in found.items() if "control" in name)

    def _daemon(self, children: Children, backends: list[str], home: Path) -> subprocess.Popen[str]:
        pool: dict[str, Any] = {"name": "fleet", "engine": "vllm", "picker": self.picker, "backends": backends}
        pool["limits"] = {"queue": {"size": 10_000, "timeout": "10m"}}
        if self.picker == OURS:
            slo = {"ttft": f"{1e3 * TTFT_SLO / FASTER_THAN_LIFE:.0f}ms", "tpot": f"{1e3 * TPOT_SLO / FASTER_THAN_LIFE:.0f}ms"}
            pool["picker"] = {"name": OURS, "slo": slo}
        config = {
            "listeners": [{"name": "public", "address": "127.0.0.1:0"}],
            "admin": {"address": "127.0.0.1:0"},
            "workers": 1,
            "access_log": {"path": "off"},
            "pools": [pool],
        }
        path = home / "evenkeel.yaml"
        path.write_text(json.dumps(config))
        argv = [*self.bench.priority, str(self.bench.program), "run", "-c", str(path)]
        return children.start(argv, self.proxy_core, stderr=subprocess.PIPE)

    def _slow_down(self, control: str) -> None:
        state = json.dumps({"fault": "slow", "slow_factor": self.scenario.slows_by}).encode()
        request = urllib.request.Request(f"http://{control}/sim/v1/state", data=state, method="PUT")
        urllib.request.urlopen(request, timeout=5).close()

    def _load(self, url: str, log: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        speed = self.scenario.speed * FASTER_THAN_LIFE
        argv = [*self.bench.priority, str(self.bench.program), "load", url, "--stream", "--model", "m", "--json"]
        argv += ["--trace", str(self.bench.traces / self.scenario.trace), "--trace-speed", str(speed)]
        argv += ["--max-seconds", f"{speed * self.bench.seconds}s", "--log", str(log), "--seed", str(self.seed)]
        ended = subprocess.run(
            ["taskset", "-c", str(self.ends_core), *argv],
            capture_output=True,
            text=True,
            timeout=self.bench.seconds + END_OF_LOAD_SECONDS,
            check=False,
        )
        if not ended.stdout:
            raise RuntimeError(f"evenkeel load: {ended.stderr}")
        return json.loads(ended.stdout), [json.loads(line) for line in log.read_text().splitlines()]

    def _check(self, report: dict[str, Any], engines: list[tuple[str, str]]) -> None:
        late_starts = report["late_starts"] / max(1, report["requests"]["started"])
        late, steps = 0, 0
        for _, control in engines:
            with urllib.request.urlopen(f"http://{control}/sim/v1/report", timeout=5) as answer:
                server = json.load(answer)["servers"][0]
            late += server["lateness"]["late_steps"]
            steps += server["steps"]
        late_steps = late / max(1, steps)
        if late_starts > MAX_LATE_STARTS or late_steps > MAX_LATE_STEPS:
            self.late = f"{100 * late_starts:.1f} % of the requests and {100 * late_steps:.1f} % of the steps were late"


@dataclass
class Bench:
    build: str  # the name of its folder
    program: Path
    traces: Path
    rounds: int
    seconds: float  # of real time, in which requests are sent
    only: list[str]
    priority: list[str] = field(default_factory=with_priority)
    figures: dict[str, Figures] = field(default_factory=dict)  # by scenario
    replayed: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)  # by scenario and picker
    invalid: list[str] = field(default_factory=list)
    failures: dict[str, int] = field(default_factory=dict)
    load_averages: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lanes = core_pairs() * RUNS_PER_PAIR

    def pickers(self) -> list[str]:
        if unknown := [name for name in self.only if name not in PICKERS]:
            raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(PICKERS)}")
        return [name for name in PICKERS if not self.only or name in self.only]

    def run(self) -> None:
        for scenario in SCENARIOS:
            self._replay(scenario)
        free: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        for cores in self.lanes:
            free.put(cores)
        for number in range(self.rounds):
            pickers = self.pickers()
            first = number % len(pickers)  # rotates, so that none is always first
            with ThreadPoolExecutor(len(self.lanes)) as lanes:
                runs = [
                    lanes.submit(self._measure, free, scenario, picker, number)
                    for scenario in SCENARIOS
                    for picker in pickers[first:] + pickers[:first]
                ]
            for run in runs:
                run.result()

    def _measure(
        self, free: queue.SimpleQueue[list[int]], scenario: Scenario, picker: str, number: int
    ) -> None:
        cores = free.get()
        try:
            self._measure_on(cores, scenario, picker, number)
        finally:
            free.put(cores)

    def _measure_on(self, cores: list[int], scenario: Scenario, picker: str, number: int) -> None:
        say(f"round {number + 1}/{self.rounds}: {scenario.key}, {picker}")
        self.load_averages.append(os.getloadavg()[0])
        for _ in range(ATTEMPTS):
            run = Run(self, scenario, picker, proxy_core=cores[0], ends_core=cores[-1], seed=number + 1)
            run.measure()
            if not run.late:
                break
            self.invalid.append(f"{scenario.key}, {picker}: {run.late}")
        else:
            return
        name = f"{picker}, {scenario.key}"
        if run.failed:
            self.failures[name] = self.failures.get(name, 0) + run.failed
        figures = self.figures.setdefault(scenario.key, Figures())
        for key, value in run.figures.items():
            figures.add(picker, key, number, value)

    def _replay(self, scenario: Scenario) -> None:
        seconds = self.seconds * FASTER_THAN_LIFE
        argv = [str(self.program), "replay", "--trace", str(self.traces / scenario.trace), "--json"]
        argv += ["--speed", str(scenario.speed), "--max-seconds", f"{seconds}s", "--preset", PRESET]
        argv += ["--backends", str(BACKENDS), "--speeds", ",".join(map(str, scenario.speeds))]
        argv += ["--picker", ",".join(self.pickers())]
        if scenario.slows_by != 1:
            argv += ["--slowdown", f"0:{scenario.slows_by}@{scenario.slowdown_at(seconds):g}"]
        ended = subprocess.run(argv, capture_output=True, text=True, check=True)
        rows = json.loads(ended.stdout)["rows"]
        self.replayed[scenario.key] = {row["picker"]: replayed_figures(row) for row in rows}

    # ---- the results ----

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "picking.json").write_text(json.dumps(self.as_dict(), indent=2) + "\n")
        (folder / "picking.md").write_text(wrapped(self.as_markdown()))

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": "picking",
            "machine": machine(),
            "settings": {
                "build": self.build,
                "rounds": self.rounds,
                "seconds": self.seconds,
                "faster_than_life": FASTER_THAN_LIFE,
                "real_time_priority": bool(self.priority),
                "load_average": self.load_averages,
            },
            "real_time": {
                key: {
                    picker: {name: list(rounds.values()) for name, rounds in measures.items()}
                    for picker, measures in figures.values.items()
                }
                for key, figures in self.figures.items()
            },
            "replay": self.replayed,
            "invalid_runs": self.invalid,
            "failures": self.failures,
        }

    def as_markdown(self) -> str:
        known = machine()
        busy = statistics.fmean(self.load_averages) if self.load_averages else 0
        out = [
            "# Picking in real time",
            "",
            f"{known['cpu']}, {known['cores']} cores, {self.rounds} round{'s' * (self.rounds > 1)} of {self.seconds:g} s each, {len(self.lanes)} runs at a "
            f"time, with the programs of `{self.build}`. Load average of the machine: {busy:.0f}"
            + (", so the programs had real-time priority." if self.priority else "."),
            "",
            *(f"- {line}" for line in REMARKS),
            "",
        ]
        for scenario in SCENARIOS:
            out += [f"## {scenario.title[0].upper()}{scenario.title[1:]}", "", *self._table(scenario), ""]
        out += ["## Real time against replay", "", *self._agreement(), ""]
        out += ["## The balancer's processor time, us per request", "", *self._cpu(), ""]
        invalid = "; ".join(self.invalid)
        out += [f"Invalid runs, measured again once: {invalid}." if invalid else "No run was invalid."]
        if self.failures:
            out += ["", "Failed requests: " + ", ".join(f"{n} ({w})" for w, n in self.failures.items()) + "."]
        return "\n".join([*out, ""])

    def _table(self, scenario: Scenario) -> list[str]:
        """Medians over the rounds, and behind them the replay's figure."""
        figures = self.figures.get(scenario.key, Figures())
        replayed = self.replayed.get(scenario.key, {})
        rows = []
        for row in ROWS:
            cells = []
            for picker in self.pickers():
                real = figures.median(picker, row.key)
                virtual = replayed.get(picker, {}).get(row.key)
                shown = [
                    "-" if value is None else f"{value:,.{row.decimals}f}" for value in (real, virtual)
                ]
                cells.append(f"{shown[0]} ({shown[1]})")
            rows.append([row.title, *cells])
        return markdown_table(["real time (replay)", *self.pickers()], rows)

    def _agreement(self) -> list[str]:
        """The order of the pickers by goodput, in both."""
        rows = []
        for scenario in SCENARIOS:
            figures = self.figures.get(scenario.key, Figures())
            real = {
                picker: value
                for picker in self.pickers()
                if (value := figures.median(picker, "goodput")) is not None
            }
            virtual = {picker: self.replayed[scenario.key][picker]["goodput"] for picker in real}
            gaps = [real[picker] - virtual[picker] for picker in real]
            gap = max(gaps, key=abs, default=0.0)
            rows.append([scenario.key, order(real), order(virtual), f"{gap:+.1f}"])
        return markdown_table(["goodput", "real time", "replay", "largest difference, points"], rows)

    def _cpu(self) -> list[str]:
        rows = []
        for scenario in SCENARIOS:
            figures = self.figures.get(scenario.key, Figures())
            values = [figures.median(picker, CPU) for picker in self.pickers()]
            rows.append([scenario.key, *("-" if value is None else f"{value:,.0f}" for value in values)])
        return markdown_table(["", *self.pickers()], rows)


REMARKS = (
    f"{BACKENDS} `evenkeel sim` of preset `{PRESET}`, each {FASTER_THAN_LIFE:g} times as fast as in the replay; arrivals and "
    "targets likewise. `evenkeel load` sends the trace's requests; one worker of evenkeel is between them. All times here are "
    "those of the engines: real ones, multiplied by the speed.",
    f"Goodput, slowdown and hits as in docs/simulator.md: a first token within {TTFT_SLO:g} s (or 3 unloaded prefills) and "
    f"{1e3 * TPOT_SLO:.0f} ms per token; the first tenth of the requests is left out. In parentheses: `evenkeel replay` of "
    "the same part of the trace.",
    "Each run has fresh engines and a fresh balancer that knows nothing. Runs in which over 5 % of the requests or 2 % of the "
    "engines' steps were more than a millisecond late are left out.",
    "Real time differs from replay in this: network, balancer and engines take and share processor time; the balancer estimates "
    "the tokens of a prompt from its bytes; polls of `queue-depth` come late; and constants of `expected-time` that are times (how "
    "long it holds a prompt, how fast waiting ages) do not run four times as fast.",
    "The processor time is the whole daemon's, with its polls and health checks. In a build for development (`dev`) it only "
    "compares the pickers.",
)


def order(goodput: dict[str, float]) -> str:
    """Best first; what differs by less than half a point is one place."""
    names = sorted(goodput, key=lambda name: -goodput[name])
    text = ""
    for name, before in zip(names, [None, *names], strict=False):
        if before is not None:
            text += " = " if goodput[before] - goodput[name] < 0.5 else " > "
        text += name
    return text


def main(build: Path, traces: Path | None, results: Path, rounds: int, seconds: float, only: list[str]) -> int:
    if traces is None:
        raise SystemExit("picking needs --traces FOLDER: the public traces that bench/README.md names")
    bench = Bench(build.name, build / "evenkeel", traces.resolve(), rounds, seconds, only)
    bench.run()
    bench.write(results)
    print(bench.as_markdown())
    return 1 if bench.failures else 0
