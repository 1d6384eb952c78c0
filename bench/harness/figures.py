"""Arithmetic on what was measured: medians over rounds, ratios inside a round, targets met or missed."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from .measures import Measure


@dataclass
class Figures:
    """contender -> measure -> round -> value. A round without a value is absent, never 0."""

    values: dict[str, dict[str, dict[int, float]]] = field(default_factory=dict)

    def add(self, contender: str, measure: str, round_number: int, value: float) -> None:
        rounds = self.values.setdefault(contender, {}).setdefault(measure, {})
        rounds[round_number] = value

    def rounds(self, contender: str, measure: str) -> dict[int, float]:
        return self.values.get(contender, {}).get(measure, {})

    def median(self, contender: str, measure: str) -> float | None:
        rounds = self.rounds(contender, measure)
        return statistics.median(rounds.values()) if rounds else None

    def ratio(self, contender: str, peer: str, measure: str) -> float | None:
        """The median of the ratios inside each round: the machine's speed drifts between rounds."""
        ours, theirs = self.rounds(contender, measure), self.rounds(peer, measure)
        inside = [ours[number] / theirs[number] for number in ours if theirs.get(number)]
        return statistics.median(inside) if inside else None


@dataclass(frozen=True)
class Verdict:
    measure: str
    target: str
    reached: float | None  # in the target's terms: a ratio, or the measure's unit
    met: bool | None  # None: not measured in this run


def judge(figures: Figures, contender: str, measure: Measure) -> Verdict | None:
    target = measure.target
    if target is None:
        return None
    reached = (
        figures.ratio(contender, target.peer, measure.key)
        if target.peer
        else figures.median(contender, measure.key)
    )
    met = None if reached is None else reached <= target.limit
    return Verdict(measure=measure.key, target=target.text(), reached=reached, met=met)


def by_difference(short_total: int, long_total: int, short: int, long: int) -> float:
    """The cost of one of `long - short` more requests; start and end cancel out."""
    return (long_total - short_total) / (long - short)
