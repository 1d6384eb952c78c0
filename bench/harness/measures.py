"""What is measured, in which unit, and what evenkeel is to reach."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """`limit` in the measure's unit, or as a multiple of what `peer` needed in the same round."""

    limit: float
    peer: str | None = None

    def text(self) -> str:
        return f"<= {self.limit:g}x {self.peer}" if self.peer else f"<= {self.limit:,.0f}"


@dataclass(frozen=True)
class Measure:
    key: str
    title: str
    unit: str
    decimals: int = 1
    target: Target | None = None


@dataclass(frozen=True)
class Scenario:
    """One run of bench_load; CPU time is counted per request, or per event of a stream."""

    key: str
    title: str
    flags: tuple[str, ...]
    cpu_target: Target | None = None
    delay_target: Target | None = None

    @property
    def streams(self) -> bool:
        return "sse" in self.flags

    def measures(self) -> list[Measure]:
        per = "event" if self.streams else "request"
        time = "relay delay" if self.streams else "latency"
        rate = "events/s" if self.streams else "requests/s"
        late = self.delay_target
        return [
            Measure(f"{self.key}_cpu_us", f"{self.title}: CPU per {per}", "us", 2, self.cpu_target),
            Measure(f"{self.key}_p50_us", f"{self.title}: {time} p50", "us", 0, late),
            Measure(f"{self.key}_p99_us", f"{self.title}: {time} p99", "us", 0, late),
            *(
                [Measure(f"{self.key}_max_us", f"{self.title}: {time} max", "us", 0)]
                if self.streams
                else []
            ),
            Measure(f"{self.key}_per_second", f"{self.title}: {rate}", "1/s", 0),
        ]


def small(connections: int, cpu_target: Target | None = None) -> Scenario:
    plural = "" if connections == 1 else "s"
    return Scenario(
        key=f"small_{connections}",
        title=f"1 KB POST, {connections} connection{plural}",
        flags=("--connections", str(connections), "--body-bytes", "1024"),
        cpu_target=cpu_target,
    )


def long_prompts(connections: int, cpu_target: Target | None = None) -> Scenario:
    plural = "" if connections == 1 else "s"
    return Scenario(
        key=f"long_{connections}",
        title=f"220 KB POST, {connections} connection{plural}",
        flags=("--connections", str(connections), "--body-bytes", "220000", "--prompts", "8"),
        cpu_target=cpu_target,
    )


def streams(
    count: int, rate: int, cpu_target: Target | None = None, late: Target | None = None
) -> Scenario:
    return Scenario(
        key="sse",
        title=f"SSE, {count} streams x {rate}/s",
        flags=("--mode", "sse", "--connections", str(count), "--body-bytes", "1024"),
        cpu_target=cpu_target,
        delay_target=late,
    )


# A tie is no later; a hundredth of a millisecond more or less is chance.
NO_LATER = Target(1.05, "haproxy")

PROXY_SSE_RATE = 100
PROXY_SCENARIOS = [
    small(1),
    small(8),
    small(64, Target(0.75, "haproxy")),
    streams(64, PROXY_SSE_RATE, Target(1.0, "haproxy"), NO_LATER),
    long_prompts(16, Target(1.0, "haproxy")),
]

RIVALS_SSE_RATE = 50
RIVALS_SCENARIOS = [small(64), streams(64, RIVALS_SSE_RATE), long_prompts(1), long_prompts(16)]

INSTRUCTIONS_1 = Measure(
    "instructions", "User instructions per request (callgrind), 1 connection", "", 0, Target(18000)
)
INSTRUCTIONS_64 = Measure(
    "instructions_64",
    "User instructions per request (callgrind), 64 connections",
    "",
    0,
    Target(18000),
)
SYSCALLS_1 = Measure("syscalls", "Syscalls per request (strace), 1 connection", "", 2)
SYSCALLS_64 = Measure("syscalls_64", "Syscalls per request (strace), 64 connections", "", 2)
REST_RSS = Measure("rest_rss_mb", "Memory at rest, RSS", "MB", 1, Target(20))
REST_PSS = Measure("rest_pss_mb", "Memory at rest, PSS", "MB", 1)
AFTER_RSS = Measure("after_rss_mb", "Memory after the load, RSS", "MB", 1)
IDLE_BYTES = Measure("idle_bytes", "Memory per idle connection", "bytes", 0, Target(1200))
SLOW_BYTES = Measure("slow_bytes", "Memory per slow reader", "bytes", 0)

MEMORY_MEASURES = [IDLE_BYTES, SLOW_BYTES, REST_RSS, REST_PSS, AFTER_RSS]
