"""The measures, their units, and evenkeel's targets."""

from __future__ import annotations

from dataclasses import dataclass

from .ways import H2_TO_H1, H2_TO_H2, HTTP1, TLS_TO_CLEAR, Way


@dataclass(frozen=True)
class Target:
    """`limit` in the measure's unit, or as a multiple of `peer`'s value in the same round."""

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
    """One run of the way's clients; CPU time is counted per request, or per event of a stream."""

    key: str
    title: str
    flags: tuple[str, ...]  # of bench_load, or of h2load
    cpu_target: Target | None = None
    delay_target: Target | None = None
    way: Way = HTTP1

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


def http2(way: Way, connections: int, streams: int, cpu_target: Target) -> Scenario:
    plural = "" if streams == 1 else "s"
    return Scenario(
        key=f"{way.name.replace('-', '')}_{connections}x{streams}",
        title=f"{WAY_TITLES[way]}, 1 KB POST, {connections} connections x {streams} stream{plural}",
        flags=("-c", str(connections), "-m", str(streams)),
        cpu_target=cpu_target,
        way=way,
    )


def tls(connections: int, cpu_target: Target) -> Scenario:
    return Scenario(
        key=f"tls_{connections}",
        title=f"{WAY_TITLES[TLS_TO_CLEAR]}, 1 KB POST, {connections} connections",
        flags=("-c", str(connections), "-m", "1"),
        cpu_target=cpu_target,
        way=TLS_TO_CLEAR,
    )


WAY_TITLES = {
    H2_TO_H1: "HTTP/2 to HTTP/1.1",
    H2_TO_H2: "HTTP/2 to HTTP/2",
    TLS_TO_CLEAR: "TLS to clear",
}

# Not later than the peer; 5 % is noise.
NO_LATER = Target(1.05, "haproxy")

PROXY_SSE_RATE = 100
PROXY_SCENARIOS = [
    small(1),
    small(8),
    small(64, Target(0.75, "haproxy")),
    streams(64, PROXY_SSE_RATE, Target(1.0, "haproxy"), NO_LATER),
    long_prompts(16, Target(1.0, "haproxy")),
    http2(H2_TO_H1, 8, 16, Target(0.70, "haproxy")),
    http2(H2_TO_H1, 64, 1, Target(0.70, "haproxy")),
    http2(H2_TO_H2, 8, 16, Target(0.90, "haproxy")),
    http2(H2_TO_H2, 64, 1, Target(0.90, "haproxy")),
    tls(8, Target(1.0, "haproxy")),
    tls(64, Target(1.0, "haproxy")),
]

RIVALS_SSE_RATE = 50
RIVALS_SCENARIOS = [small(64), streams(64, RIVALS_SSE_RATE), long_prompts(1), long_prompts(16)]

TENANTS_TARGET = Target(1.10, "evenkeel-inspect")
TENANTS_SCENARIOS = [
    small(64, TENANTS_TARGET),
    streams(64, RIVALS_SSE_RATE, TENANTS_TARGET),
    long_prompts(16, TENANTS_TARGET),
]

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
INSTRUCTIONS_H2_TO_H1 = Measure(
    "instructions_h2h1",
    f"User instructions per request (callgrind), {WAY_TITLES[H2_TO_H1]}, 8 x 16 streams",
    "",
    0,
)
INSTRUCTIONS_H2_TO_H2 = Measure(
    "instructions_h2h2",
    f"User instructions per request (callgrind), {WAY_TITLES[H2_TO_H2]}, 8 x 16 streams",
    "",
    0,
)
REST_RSS = Measure("rest_rss_mb", "Memory at rest, RSS", "MB", 1, Target(20))
REST_PSS = Measure("rest_pss_mb", "Memory at rest, PSS", "MB", 1)
AFTER_RSS = Measure("after_rss_mb", "Memory after the load, RSS", "MB", 1)
IDLE_BYTES = Measure("idle_bytes", "Memory per idle connection", "bytes", 0, Target(1200))
IDLE_TLS_BYTES = Measure(
    "idle_tls_bytes", "Memory per idle TLS connection", "bytes", 0, Target(12_000)
)
SLOW_BYTES = Measure("slow_bytes", "Memory per slow reader", "bytes", 0)

MEMORY_MEASURES = [IDLE_BYTES, IDLE_TLS_BYTES, SLOW_BYTES, REST_RSS, REST_PSS, AFTER_RSS]
