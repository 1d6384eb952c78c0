"""Memory at rest, per idle client and per slow reader, each in a fresh instance, since a heap that has grown once hides growth."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import measures
from .contender import Contender, Running, unverified_tls_context, start
from .ends import Ends, Origin
from .figures import Figures
from .process import memory_of
from .ways import HTTP1, TLS_TO_CLEAR

SETTLE_SECONDS = 1.0
TLS_PATIENCE_SECONDS = 10.0
MEGABYTE = 1e6


@dataclass(frozen=True)
class ConnectionGroup:
    idle: int
    slow: int
    idle_tls: int = 0


def measure_memory(
    contender: Contender, ends: Ends, origin: Origin, folder: Path, crowd: ConnectionGroup, figures: Figures
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


def measure_tls_memory(
    contender: Contender, ends: Ends, origin: Origin, folder: Path, crowd: ConnectionGroup, figures: Figures
) -> None:
    running = start(
        contender, TLS_TO_CLEAR, origin.addresses, folder / "tls", ends.children, ends.cores.proxy
    )
    try:
        before = memory_of(running.pids()).pss_bytes
        with _idle_over_tls(running.site.port, crowd.idle_tls):
            time.sleep(SETTLE_SECONDS)
            growth = memory_of(running.pids()).pss_bytes - before
        figures.add(contender.name, measures.IDLE_TLS_BYTES.key, 0, growth / crowd.idle_tls)
    finally:
        ends.children.stop(running.process)


@contextlib.contextmanager
def _idle_over_tls(port: int, count: int) -> Iterator[None]:
    """While the block runs, so many clients are connected and idle after one response each."""
    request = b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-length: 0\r\n\r\n"
    context = unverified_tls_context()
    with contextlib.ExitStack() as held:
        for _ in range(count):
            bare = socket.create_connection(("127.0.0.1", port), TLS_PATIENCE_SECONDS)
            client = held.enter_context(context.wrap_socket(bare))
            client.sendall(request)
            if not client.recv(65536).startswith(b"HTTP/1.1 200"):
                raise RuntimeError("an idle client had no answer")
        yield


def _growth(running: Running, ends: Ends, count: int, mode: str, flags: list[str]) -> float:
    """PSS bytes per connection of the given mode."""
    before = memory_of(running.pids()).pss_bytes
    with ends.holding(running.site.address, ["--mode", mode, "--connections", str(count), *flags]):
        time.sleep(SETTLE_SECONDS)
        return (memory_of(running.pids()).pss_bytes - before) / count
