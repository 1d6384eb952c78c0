"""Memory at rest, per idle client and per slow reader, each of a fresh instance: a heap that has grown once hides growth."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from . import measures
from .contender import Contender, Running, start
from .ends import Ends, Origin
from .figures import Figures
from .process import memory_of
from .ways import HTTP1

SETTLE_SECONDS = 1.0
MEGABYTE = 1e6


@dataclass(frozen=True)
class Crowd:
    idle: int
    slow: int


def measure_memory(
    contender: Contender, ends: Ends, origin: Origin, folder: Path, crowd: Crowd, figures: Figures
) -> None:
    running = start(
        contender, HTTP1, origin.addresses, folder / "idle", ends.children, ends.cores.proxy
    )
    try:
        time.sleep(SETTLE_SECONDS)
        rest = memory_of(running.pids())
        figures.add(contender.name, measures.REST_RSS.key, 0, rest.rss_bytes / MEGABYTE)
        figures.add(contender.name, measures.REST_PSS.key, 0, rest.pss_bytes / MEGABYTE)
        idle = _growth(running, ends, crowd.idle, "idle", contender.load_flags())
        figures.add(contender.name, measures.IDLE_BYTES.key, 0, idle)
    finally:
        ends.children.stop(running.process)
    if crowd.slow:
        _measure_slow(contender, ends, origin, folder, crowd.slow, figures)


def _measure_slow(
    contender: Contender, ends: Ends, origin: Origin, folder: Path, count: int, figures: Figures
) -> None:
    running = start(
        contender, HTTP1, origin.addresses, folder / "slow", ends.children, ends.cores.proxy
    )
    try:
        slow = _growth(running, ends, count, "slow", ["--path", "/large"])
        figures.add(contender.name, measures.SLOW_BYTES.key, 0, slow)
    finally:
        ends.children.stop(running.process)


def _growth(running: Running, ends: Ends, count: int, mode: str, flags: list[str]) -> float:
    """PSS bytes per connection of the given mode."""
    before = memory_of(running.pids()).pss_bytes
    with ends.holding(running.site.address, ["--mode", mode, "--connections", str(count), *flags]):
        time.sleep(SETTLE_SECONDS)
        return (memory_of(running.pids()).pss_bytes - before) / count
