"""What a request costs with many backends, many connections and several workers: always beside the same small case in the
same round, since the machine's speed drifts."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .campaigns import raise_file_limit
from .contender import Contender, Running, Unavailable, evenkeel, haproxy, relay, start
from .ends import Ends
from .figures import Figures
from .process import Children, Cores, available_cores, cpu_seconds
from .report import OURS, machine, markdown_table, wrapped
from .rounds import WARM_UP_SECONDS, rotated, say
from .ways import HTTP1

BASE_BACKENDS, BASE_CONNECTIONS = 10, 64
MOST_GROWTH = 1.2  # CPU time of a request, over the base's
LEAST_SPEEDUP = 1.8  # of two workers
START_PATIENCE_SECONDS = 60.0
USUAL_RATE = 20_000  # requests a second, to turn seconds into requests
REQUESTS_PER_CONNECTION = 40  # at least so many; else opening connections is what is measured


@dataclass(frozen=True)
class Case:
    key: str
    title: str
    backends: int = BASE_BACKENDS
    connections: int = BASE_CONNECTIONS
    workers: int = 1

    def flags(self) -> list[str]:
        return ["--connections", str(self.connections), "--body-bytes", "1024"]


BASE = Case("base", f"{BASE_BACKENDS} backends, {BASE_CONNECTIONS} connections, one worker")
CASES = (
    Case("backends_100", "100 backends", backends=100),
    Case("backends_1000", "1 000 backends", backends=1_000),
    Case("backends_10000", "10 000 backends", backends=10_000),
    Case("connections_1000", "1 000 connections", connections=1_000),
    Case("connections_10000", "10 000 connections", connections=10_000),
    Case("workers_2", "two workers", workers=2),
)

REMARKS = f"""\
Each case differs in one thing from the base: {BASE.title}. 1 KB POST, HTTP/1.1 keep-alive, closed loop.
CPU is user and system time of all threads per request. The ratio to the base is taken inside a round; medians over rounds.
evenkeel runs with its defaults on, which include active health checks of all backends: their cost is in the figures. HAProxy \
checks nothing.
Two workers may use two cores; on a machine of two cores they share one of them with the load, so their speed-up is that of \
CPU time: two cores serve 2 / ratio times what one serves.
Backends are addresses of one server in 127.1.0.0/16.
`relay` passes bytes on unread, over as many connections: the growth that the kernel alone causes. It is measured where the \
number of connections differs; it checks, chooses and shares nothing.""".splitlines()


@dataclass
class Growth:
    """The parameters and the results."""

    ends: Ends
    build: Path
    rounds: int
    seconds: float  # of each run, about
    port: int  # of the origin, on every address of 127.0.0.0/8
    figures: Figures = field(default_factory=Figures)
    absent: dict[str, str] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)

    def run(self, home: Path) -> None:
        for case in CASES:
            say(case.title)
            pairs = list(self._start_pairs(case, home))
            for number in range(self.rounds):
                for pair in rotated(pairs, number):
                    for each, running in rotated(list(pair), number):
                        self._measure(case, each, running, number)
            for pair in pairs:
                for _, running in pair:
                    self.ends.children.stop(running.process)

    def _start_pairs(
        self, case: Case, home: Path
    ) -> Iterator[tuple[tuple[Case, Running], tuple[Case, Running]]]:
        contenders = [self._evenkeel, self._haproxy]
        if case.connections != BASE.connections:
            contenders.append(self._relay)
        for contender_of in contenders:
            started: list[tuple[Case, Running]] = []
            try:
                for each in (BASE, case):
                    contender = contender_of(each)
                    folder = home / f"{case.key}-{each.key}-{contender.name}"
                    started.append((each, self._start(contender, each, folder)))
            except Unavailable as reason:
                for _, running in started:
                    self.ends.children.stop(running.process)
                self.absent[f"{contender_of(case).name}, {case.title}"] = str(reason)
                continue
            yield started[0], started[1]

    def _evenkeel(self, case: Case) -> Contender:
        return evenkeel(self.build, workers=case.workers)

    def _haproxy(self, case: Case) -> Contender:
        return haproxy(threads=case.workers)

    def _relay(self, case: Case) -> Contender:
        return relay(self.build)

    def _start(self, contender: Contender, case: Case, folder: Path) -> Running:
        backends = [
            f"127.1.{index // 250}.{index % 250 + 1}:{self.port}" for index in range(case.backends)
        ]
        cores = [self.ends.cores.proxy, self.ends.cores.origin][: case.workers]
        running = start(
            contender,
            HTTP1,
            backends,
            folder,
            self.ends.children,
            cores,
            patience=START_PATIENCE_SECONDS,
        )
        self.ends.load(running.site.address, WARM_UP_SECONDS, self._flags(contender, case))
        return running

    @staticmethod
    def _flags(contender: Contender, case: Case) -> list[str]:
        return [*contender.load_flags(), *case.flags()]

    def _measure(self, case: Case, each: Case, running: Running, number: int) -> None:
        pids = running.pids()
        before = cpu_seconds(pids)
        flags = self._flags(running.contender, each)
        requests = max(
            int(self.seconds * USUAL_RATE), REQUESTS_PER_CONNECTION * each.connections
        )
        report = self.ends.send_requests(HTTP1, running.site.address, flags, requests)
        done = report["requests"]
        for kind, count in report["errors"].items():
            if count:
                key = f"{running.contender.name}, {each.title}: {kind}"
                self.errors[key] = self.errors.get(key, 0) + count
        running.drop_logs()
        used = cpu_seconds(pids) - before
        self.figures.add(running.contender.name, f"{case.key}/{each.key}", number, used / done * 1e6)

    def ratio(self, name: str, case: Case) -> float | None:
        """Of the CPU time of a request to that of the base."""
        grown = self.figures.rounds(name, f"{case.key}/{case.key}")
        base = self.figures.rounds(name, f"{case.key}/{BASE.key}")
        both = Figures()
        for number, value in grown.items():
            both.add("grown", "cpu", number, value)
        for number, value in base.items():
            both.add("base", "cpu", number, value)
        return both.ratio("grown", "base", "cpu")

    def rows(self) -> list[list[str]]:
        rows = []
        for case in CASES:
            cells = [case.title]
            for name in (OURS, "haproxy", "relay"):
                for each in (BASE, case):
                    value = self.figures.median(name, f"{case.key}/{each.key}")
                    cells.append("-" if value is None else f"{value:.2f}")
                ratio = self.ratio(name, case)
                cells.append("-" if ratio is None else f"{ratio:.2f}")
            rows.append([*cells, self._verdict(case)])
        return rows

    def _verdict(self, case: Case) -> str:
        ratio = self.ratio(OURS, case)
        if ratio is None:
            return "not measured"
        if case.workers > 1:
            speedup = case.workers / ratio
            met = speedup >= LEAST_SPEEDUP
            return f"{speedup:.2f} times the throughput, at least {LEAST_SPEEDUP}: {_word(met)}"
        return f"below {MOST_GROWTH}: {_word(ratio < MOST_GROWTH)}"

    def markdown(self) -> str:
        about = machine()
        titles = ["", "evenkeel, base (us)", "evenkeel (us)", "ratio", "haproxy, base (us)", "haproxy (us)", "ratio",
                  "relay, base (us)", "relay (us)", "ratio", "target"]
        parts = ["# The cost of a request as things grow", ""]
        parts += [
            f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}; {self.rounds} rounds of {self.seconds:g} s.",
            "",
        ]
        parts += [f"- {remark}" for remark in REMARKS]
        parts += ["", *markdown_table(titles, self.rows()), ""]
        if self.absent:
            parts += ["## Not measured", "", *(f"- {name}: {why}" for name, why in self.absent.items()), ""]
        if self.errors:
            parts += ["## Failures", "", *(f"- {name}: {count}" for name, count in self.errors.items()), ""]
        return "\n".join(parts)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": "growth",
            "machine": machine(),
            "settings": {"rounds": self.rounds, "seconds": self.seconds},
            "figures": {
                name: {key: list(rounds.values()) for key, rounds in measured.items()}
                for name, measured in self.figures.values.items()
            },
            "ratios": {
                name: {case.key: self.ratio(name, case) for case in CASES} for name in (OURS, "haproxy", "relay")
            },
            "absent": self.absent,
            "errors": self.errors,
        }


def main(*, build: Path, results: Path, rounds: int, seconds: float) -> int:
    raise_file_limit()
    with (
        tempfile.TemporaryDirectory(prefix="evenkeel-growth-", ignore_cleanup_errors=True) as home,
        Children() as children,
    ):
        ends = Ends(build, Cores.choose(available_cores()), children)
        origin = ends.start_origin(1, [], address="0.0.0.0:0")
        port = int(origin.addresses[0].rpartition(":")[2])
        growth = Growth(ends, build, rounds, seconds, port)
        growth.run(Path(home))
    results.mkdir(parents=True, exist_ok=True)
    (results / "growth.json").write_text(json.dumps(growth.as_dict(), indent=2) + "\n")
    (results / "growth.md").write_text(wrapped(growth.markdown()))
    print(growth.markdown())
    return 1 if any(name.startswith(OURS) for name in [*growth.errors, *growth.absent]) else 0


def _word(met: bool) -> str:
    return "met" if met else "missed"
