"""What expected-time is to reach beside the rules of other routers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from .scenarios import SCENARIOS

OURS = "expected-time"
WITHOUT = "without "  # of the names of its ablations

Found = dict[str, Any]


@dataclass(frozen=True)
class Goal:
    """Limits of expected-time over others: at most these ratios of figures, at least that of capacity."""

    over: tuple[str, ...]
    ratios: dict[str, float]
    capacity: float


def _limits(violations: float, slowdown: float, ttft_p90: float, e2e_p50: float) -> dict[str, float]:
    return {"violations": violations, "slowdown_p99": slowdown, "ttft_p90": ttft_p90, "e2e_p50": e2e_p50}


GOALS = (
    Goal(("round-robin",), _limits(1 / 8, 1 / 30, 1 / 6, 0.65), 2.3),
    Goal(("least-connections", "p2c"), _limits(1 / 4, 1 / 8, 1 / 2.2, 0.75), 2.0),
    Goal(("gaie", "llmd-blend"), _limits(1 / 2.5, 1 / 3.5, 0.75, 0.90), 1.45),
    Goal(("prequal-rs", "sglang"), _limits(1 / 2.3, 1 / 4, 0.75, 0.92), 1.4),
    Goal(("dynamo-queue",), _limits(1 / 2.5, 1 / 2, 0.88, 0.85), 1.3),
    Goal(("llmd-predicted",), _limits(0.55, 0.5, 0.88, 0.92), 1.1),
    Goal(("llmd-sticky",), _limits(0.6, 0.5, 0.95, 0.95), 1.1),
    Goal(("dynamo-tuned",), _limits(0.55, 0.85, 1.08, 0.92), 1.1),
)
LEAST_HITS = 0.93  # of the best rule's, in each scenario
LEAST_OVERLOAD_GOODPUT = 0.65
MOST_OVERLOAD_SHED = 0.10


@dataclass(frozen=True)
class Target:
    what: str
    over: str
    limit: float
    at_most: bool
    reached: float

    @property
    def met(self) -> bool:
        return self.reached <= self.limit if self.at_most else self.reached >= self.limit

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"met": self.met}


def value(row: dict[str, float], key: str) -> float:
    return 1.003 - row["goodput_ratio"] if key == "violations" else row[key]


def ratio(found: Found, name: str, key: str) -> float:
    """Of a contender to expected-time: the geometric mean over the scenarios."""
    logs = []
    for scenario in SCENARIOS:
        theirs = value(found["rows"][name][scenario.name], key)
        ours = value(found["rows"][OURS][scenario.name], key)
        # Azure's prompts share nothing: no hits at all, which is no ratio.
        if theirs > 0 and ours > 0:
            logs.append(math.log(theirs / ours))
    return math.exp(sum(logs) / len(logs)) if logs else 1.0


def targets(found: Found) -> list[Target]:
    judged = []
    for goal in GOALS:
        for name in goal.over:
            for key, limit in goal.ratios.items():
                judged.append(Target(key, name, limit, True, 1 / ratio(found, name, key)))
            speeds = found["capacity"]
            reached = speeds[OURS]["large KV"] / speeds[name]["large KV"]
            judged.append(Target("capacity", name, goal.capacity, False, reached))
    for scenario in SCENARIOS:
        hits = {name: rows[scenario.name]["hit_ratio"] for name, rows in rules_of(found).items()}
        best = max(hits, key=lambda name: hits[name])
        if hits[best] > 0:
            reached = hits[OURS] / hits[best]
            judged.append(Target(f"hits, {scenario.name}", best, LEAST_HITS, False, reached))
    shedding = found["overload"][f"{OURS}, --shed 1"]
    judged.append(
        Target("overload goodput", "", LEAST_OVERLOAD_GOODPUT, False, shedding["goodput_ratio"])
    )
    judged.append(Target("overload refused", "", MOST_OVERLOAD_SHED, True, shed_ratio(shedding)))
    return judged


def shed_ratio(row: dict[str, float]) -> float:
    return row["shed"] / row["requests"]


def rules_of(found: Found) -> dict[str, Any]:
    return {name: rows for name, rows in found["rows"].items() if not name.startswith(WITHOUT)}
