"""Child processes that always end, and their figures from /proc."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STOP_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class Cores:
    """Which process runs on which core. The contender has a core for itself."""

    proxy: int
    origin: int
    load: int

    @staticmethod
    def choose(available: list[int]) -> Cores:
        """With two cores the two ends share the second; with one core, all share it."""
        first, second, third = (available + available[-1:] * 2)[:3]
        return Cores(proxy=first, origin=second, load=third)


def available_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def core_pairs() -> list[list[int]]:
    """The cores by twos: runs that need so many go on beside each other. One alone counts as a pair."""
    cores = available_cores()
    return [cores[at : at + 2] for at in range(0, max(1, len(cores) - 1), 2)]


def free_port() -> int:
    """Outside the range that the kernel chooses from, so that no connection takes it before its server starts."""
    lowest = int((PROC / "sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = range(10_000, min(lowest, 32_768)) or range(10_000, 65_536)
    while True:
        port = random.choice(ports)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def pinned(argv: list[str], core: int | list[int]) -> list[str]:
    """The same pid on one core or these, killed by the kernel should this process die without cleaning up."""
    cores = [core] if isinstance(core, int) else core
    return ["taskset", "-c", ",".join(map(str, cores)), "setpriv", "--pdeathsig", "KILL", *argv]


class Children:
    """Every process started here is ended by `stop` or at the latest when the `with` block is left."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in reversed(self._running.copy()):
            self.stop(child)

    def start(
        self,
        argv: list[str],
        core: int | list[int],
        *,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[str] = subprocess.DEVNULL,
        stderr: int | IO[str] = subprocess.DEVNULL,
    ) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            pinned(argv, core),
            env=os.environ | (env or {}),
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,  # a Ctrl-C reaches us first, then we end them in order
        )
        self._running.append(child)
        return child

    def stop(self, child: subprocess.Popen[str], patience: float = STOP_PATIENCE_SECONDS) -> None:
        """SIGTERM, a wait, then SIGKILL for the process and its descendants."""
        if child in self._running:
            self._running.remove(child)
        family = [(pid, started_at(pid)) for pid in tree(child.pid)]
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(patience)
        for pid, started in family:
            if started is not None and started_at(pid) == started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream:
                stream.close()


def _stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the command's name: [0] is the state."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2 :].split()


def started_at(pid: int) -> int | None:
    fields = _stat_fields(pid)
    return int(fields[19]) if fields and fields[0] != "Z" else None


def tree(root: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat_fields(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting.extend(children.get(pid, []))
    return found


def cpu_seconds(pids: list[int]) -> float:
    """User and system time of all threads: nanoseconds from schedstat, else ticks from stat."""
    return sum(_scheduled_seconds(pid) for pid in pids)


def _scheduled_seconds(pid: int) -> float:
    total_ns = 0
    try:
        for thread in (PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                total_ns += int((thread / "schedstat").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return total_ns / 1e9 if total_ns else _ticked_seconds(pid)


def _ticked_seconds(pid: int) -> float:
    fields = _stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND if fields else 0.0


@dataclass(frozen=True)
class Memory:
    """Of a process and its descendants. PSS counts a shared page once in all; RSS once per process."""

    rss_bytes: int
    pss_bytes: int


def memory_of(pids: list[int]) -> Memory:
    sums = {"Rss": 0, "Pss": 0}
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            rollup = (PROC / str(pid) / "smaps_rollup").read_text()
            for name, kilobytes in _rollup_fields(rollup):
                if name in sums:
                    sums[name] += kilobytes * 1024
    return Memory(rss_bytes=sums["Rss"], pss_bytes=sums["Pss"])


def _rollup_fields(rollup: str) -> Iterator[tuple[str, int]]:
    for line in rollup.splitlines():
        name, _, rest = line.partition(":")
        if rest.endswith(" kB"):
            yield name, int(rest.split()[0])


def wait_until(what: str, seconds: float, done: Callable[[], bool]) -> None:
    """Polls `done`; TimeoutError names what did not happen."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.05)
