"""Costs that repeat: user instructions (callgrind) and system calls (strace) per request, by difference of two runs."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import measures
from .contender import Contender, Running, Unavailable, start
from .ends import Ends, Origin
from .figures import by_difference
from .measures import Measure

TRACED_PATIENCE_SECONDS = 90.0
TRACED_END_SECONDS = 30.0
TRACED_RUN_SECONDS = 120.0


@dataclass(frozen=True)
class Tracer:
    """A tool that runs a contender inside itself and writes totals when it ends."""

    program: str
    arguments: Callable[[Path], list[str]]  # of the file to write
    read: Callable[[str], int]

    def wrapper(self, output: Path) -> list[str]:
        if not shutil.which(self.program):
            raise Unavailable(f"{self.program} is not installed")
        return [self.program, *self.arguments(output), "--"]


@dataclass(frozen=True)
class Count:
    """One measure: so many requests over so many connections, twice."""

    measure: Measure
    tracer: Tracer
    connections: int
    short: int
    long: int
    in_quick: bool  # of the peers too


def per_request(
    count: Count, contender: Contender, ends: Ends, origin: Origin, folder: Path
) -> float:
    totals = []
    for requests in (count.short, count.long):
        home = folder / f"{count.measure.key}-{requests}"
        output = folder / f"{count.measure.key}-{requests}.out"
        running = start(
            contender,
            origin.addresses,
            home,
            ends.children,
            ends.cores.proxy,
            wrapper=count.tracer.wrapper(output),
            patience=TRACED_PATIENCE_SECONDS,
        )
        try:
            _ask(running, ends, count.connections, requests)
            _end(running)
        finally:
            ends.children.stop(running.process)
        totals.append(count.tracer.read(output.read_text()))
    return by_difference(totals[0], totals[1], count.short, count.long)


def _ask(running: Running, ends: Ends, connections: int, requests: int) -> None:
    flags = ["--connections", str(connections), "--requests", str(requests)]
    flags += running.contender.load_flags()
    report = ends.load(running.site.address, TRACED_RUN_SECONDS, flags)
    if report["requests"] != requests or any(report["errors"].values()):
        raise Unavailable(f"{report['requests']} of {requests} answered, {report['errors']}")


def _end(running: Running) -> None:
    """Ends the contender, not its tracer, which then writes what it has counted."""
    tracer, *inside = running.pids()  # valgrind is the contender's own process, strace its parent
    os.kill(inside[0] if inside else tracer, signal.SIGTERM)
    running.process.wait(TRACED_END_SECONDS)


def read_callgrind(text: str) -> int:
    """The total of a callgrind.out file, all threads together."""
    found = re.search(r"^(?:summary|totals):\s*(\d+)", text, re.MULTILINE)
    if not found:
        raise ValueError("no summary in callgrind's output")
    return int(found.group(1))


def read_strace(text: str) -> int:
    """The sum of the calls column of `strace -c`; its own total line is left out."""
    total = 0
    for line in text.splitlines():
        row = re.match(r"\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\S+)$", line)
        if row and row.group(2) != "total":
            total += int(row.group(1))
    return total


CALLGRIND = Tracer(
    program="valgrind",
    arguments=lambda output: [
        "--tool=callgrind",
        "-q",
        f"--log-file={output}.log",
        f"--callgrind-out-file={output}",
    ],
    read=read_callgrind,
)
STRACE = Tracer(
    program="strace",
    arguments=lambda output: ["-f", "-c", "-o", str(output)],
    read=read_strace,
)


def all_counts(quick: bool) -> list[Count]:
    """In a quick run the peers' instructions are left out: they change only with their version."""
    short, long = (500, 1500) if quick else (1000, 4000)
    return [
        Count(measures.INSTRUCTIONS_1, CALLGRIND, 1, short, long, in_quick=False),
        Count(measures.INSTRUCTIONS_64, CALLGRIND, 64, short, long, in_quick=False),
        Count(measures.SYSCALLS_1, STRACE, 1, short, long, in_quick=True),
        Count(measures.SYSCALLS_64, STRACE, 64, short, long, in_quick=True),
    ]
