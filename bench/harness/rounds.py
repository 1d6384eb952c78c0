"""Interleaved rounds: every contender does a scenario before the next scenario begins."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .contender import Running
from .ends import Ends, Origin
from .figures import Figures
from .measures import Scenario
from .process import cpu_seconds
from .ways import Protocol

DIRECT = "direct"  # no contender between the two ends
WARM_UP_SECONDS = 0.3


@dataclass
class Campaign:
    """The parameters and the results of all rounds."""

    ends: Ends
    origins: dict[Protocol, Origin]
    contenders: list[Running]  # one per contender and way
    seconds: float
    figures: Figures = field(default_factory=Figures)
    errors: dict[str, dict[str, int]] = field(default_factory=dict)  # contender -> kind -> count
    busy: Figures = field(default_factory=Figures)  # part of its core that a contender used

    def run(self, scenarios: Sequence[Scenario], rounds: int) -> None:
        self._warm_up()
        for number in range(rounds):
            for scenario in scenarios:
                say(f"round {number + 1}/{rounds}: {scenario.title}")
                self._direct(scenario, number)
                taking_part = [one for one in self.contenders if one.site.way == scenario.way]
                for running in rotated(taking_part, number):
                    self._one(running, scenario, number)

    def _warm_up(self) -> None:
        for running in self.contenders:
            way = running.site.way
            flags = running.contender.load_flags() if way.front is Protocol.HTTP1 else []
            self.ends.measure(way, running.site.address, WARM_UP_SECONDS, flags)

    def _direct(self, scenario: Scenario, number: int) -> None:
        way = scenario.way
        if way.front is not way.back:
            return  # the backends do not speak what the clients speak
        address = self.origins[way.back].addresses[0]
        report, _ = self.ends.measure(way, address, self.seconds, list(scenario.flags))
        self._note_report(DIRECT, scenario, number, report)

    def _one(self, running: Running, scenario: Scenario, number: int) -> None:
        name = running.contender.name
        way = scenario.way
        flags = list(scenario.flags)
        if way.front is Protocol.HTTP1:
            flags += running.contender.load_flags()
        pids = running.pids()
        report, used = self.ends.measure(
            way, running.site.address, self.seconds, flags, lambda: cpu_seconds(pids)
        )
        running.drop_logs()

        done = report["events"] if scenario.streams else report["requests"]
        if done:
            self.figures.add(name, f"{scenario.key}_cpu_us", number, used / done * 1e6)
            self.busy.add(name, scenario.key, number, used / report["seconds"])
            self._note_report(name, scenario, number, report)
        for kind, count in report["errors"].items():
            if count:
                kinds = self.errors.setdefault(name, {})
                kinds[f"{scenario.key} {kind}"] = kinds.get(f"{scenario.key} {kind}", 0) + count

    def _note_report(
        self, name: str, scenario: Scenario, number: int, report: dict[str, Any]
    ) -> None:
        times = report["delay_us" if scenario.streams else "latency_us"]
        rate = report["events_per_second" if scenario.streams else "requests_per_second"]
        for quantile in ("p50", "p99", "max"):
            self.figures.add(name, f"{scenario.key}_{quantile}_us", number, times[quantile])
        self.figures.add(name, f"{scenario.key}_per_second", number, rate)


def rotated(contenders: list[Any], number: int) -> list[Any]:
    """Rotates the order, so that no contender is always first."""
    start = number % max(1, len(contenders))
    return contenders[start:] + contenders[:start]


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
