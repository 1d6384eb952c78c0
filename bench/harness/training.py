"""The loads that train a profile-guided build: those of the benchmarks, each for so many requests, so that the profile does
not depend on the speed of the machine.

Each instance of the instrumented program adds its counts to the profile when it ends."""

from __future__ import annotations

import os
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import measures
from .contender import Contender, Running, Unavailable, evenkeel, start
from .ends import Ends, Origin
from .process import Children, Cores, available_cores
from .rounds import say
from .ways import H2_TO_H1, H2_TO_H2, HTTP1, TLS_TO_CLEAR, Protocol, Way

BACKENDS = 2
SSE_RATE = 200  # events a second of each stream
SSE_SECONDS = 2.0
END_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Load:
    """Flags of bench_load or, where the way says so, of h2load. `requests` None: for SSE_SECONDS."""

    flags: tuple[str, ...]
    requests: int | None


def exchanges(connections: int, requests: int) -> Load:
    return Load(measures.small(connections).flags, requests)


# The weights of the profile: as many requests to read and to route as to pass on, and few that are mostly copying.
HTTP1_LOADS = (
    exchanges(1, 3_000),
    exchanges(64, 6_000),
    Load(("--connections", "8", "--body-bytes", "1024", "--header", "connection: close"), 600),
    Load(measures.streams(16, SSE_RATE).flags, None),
    Load(measures.long_prompts(8).flags, 400),
)
READING_LOADS = (exchanges(1, 1_000), exchanges(64, 2_000), *HTTP1_LOADS[3:])
HTTP2_LOADS = (Load(("-c", "8", "-m", "16"), 5_000), Load(("-c", "8", "-m", "1"), 1_500))
TLS_LOADS = (Load(("-c", "8", "-m", "1"), 2_000),)


def all_courses(build: Path) -> list[tuple[Contender, Way, tuple[Load, ...]]]:
    plain = evenkeel(build)
    return [
        (plain, HTTP1, HTTP1_LOADS),
        (evenkeel(build, inspects=True), HTTP1, READING_LOADS),
        (evenkeel(build, picker="expected-time"), HTTP1, READING_LOADS),
        (plain, H2_TO_H1, HTTP2_LOADS),
        (plain, H2_TO_H2, HTTP2_LOADS),
        (plain, TLS_TO_CLEAR, TLS_LOADS),
    ]


def main(build: Path, tools: Path) -> int:
    """`build`: of the instrumented program; `tools`: of bench_load and bench_origin."""
    with tempfile.TemporaryDirectory(prefix="evenkeel-training-") as home, Children() as children:
        ends = Ends(tools, Cores.choose(available_cores()), children)
        origins = {
            Protocol.HTTP1: ends.start_origin(BACKENDS, ["--sse-rate", str(SSE_RATE)]),
            Protocol.HTTP2: ends.start_h2_origin(BACKENDS, Path(home) / "htdocs"),
        }
        try:
            for contender, way, loads in all_courses(build):
                say(f"training: {contender.name}, {way.name}")
                folder = Path(home) / f"{contender.name}-{way.name}"
                train(ends, origins[way.back], contender, way, loads, folder)
        except Unavailable as reason:
            say(f"training failed: {reason}")
            return 1
    return 0


def train(
    ends: Ends, origin: Origin, contender: Contender, way: Way, loads: tuple[Load, ...], folder: Path
) -> None:
    running = start(contender, way, origin.addresses, folder, ends.children, ends.cores.proxy)
    try:
        for load in loads:
            apply(ends, running, load)
        end(running)
    finally:
        ends.children.stop(running.process)


def apply(ends: Ends, running: Running, load: Load) -> None:
    way, address, flags = running.site.way, running.site.address, list(load.flags)
    if load.requests is None:
        report = ends.load(address, SSE_SECONDS, flags)
        answered = report["events"] > 0
    else:
        report = ends.send_requests(way, address, flags, load.requests)
        answered = report["requests"] == load.requests
    if not answered or any(report["errors"].values()):
        raise Unavailable(f"{' '.join(flags)}: {report}")


def end(running: Running) -> None:
    """SIGTERM drains; the program then returns from main, and so writes the profile."""
    os.kill(running.process.pid, signal.SIGTERM)
    status = running.process.wait(END_PATIENCE_SECONDS)
    if status != 0:
        raise Unavailable(f"{running.contender.name} ended with {status}")
