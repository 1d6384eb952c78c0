"""Costs that repeat: user instructions (callgrind) and system calls (strace) per request, by difference of two runs."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from . import measures
from .contender import Contender, Running, Unavailable, start
from .ends import Ends, Origin
from .figures import by_difference
from .measures import Measure
from .ways import H2_TO_H1, H2_TO_H2, HTTP1, Protocol, Way

TRACED_PATIENCE_SECONDS = 90.0
TRACED_END_SECONDS = 30.0


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
    """One measure: so many requests over so many connections (and streams on each), twice."""

    measure: Measure
    tracer: Tracer
    connections: int
    short: int
    long: int
    in_quick: bool  # of the peers too
    way: Way = HTTP1
    streams: int = 1

    def load_flags(self, contender: Contender) -> list[str]:
        if self.way.front is Protocol.HTTP1:
            return ["--connections", str(self.connections), *contender.load_flags()]
        return ["-c", str(self.connections), "-m", str(self.streams)]


def per_request(
    count: Count, contender: Contender, ends: Ends, origin: Origin, folder: Path
) -> float:
    totals = []
    for requests in (count.short, count.long):
        home = folder / f"{count.measure.key}-{requests}"
        output = folder / f"{count.measure.key}-{requests}.out"
        running = start(
            contender,
            count.way,
            origin.addresses,
            home,
            ends.children,
            ends.cores.proxy,
            wrapper=count.tracer.wrapper(output),
            patience=TRACED_PATIENCE_SECONDS,
        )
        try:
            _ask(count, running, ends, requests)
            _end(running)
        finally:
            ends.children.stop(running.process)
        totals.append(count.tracer.read(output.read_text()))
    return by_difference(totals[0], totals[1], count.short, count.long)


def _ask(count: Count, running: Running, ends: Ends, requests: int) -> None:
    flags = count.load_flags(running.contender)
    report = ends.send_requests(count.way, running.site.address, flags, requests)
    if report["requests"] != requests or any(report["errors"].values()):
        raise Unavailable(f"{report['requests']} of {requests} answered, {report['errors']}")


def _end(running: Running) -> None:
    """Ends the contender, not its tracer, which then writes its totals."""
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


def instruction_counts(quick: bool, target: measures.Target) -> list[Count]:
    """The instructions of clear HTTP/1.1 alone, with this target."""
    return [
        replace(count, measure=replace(count.measure, target=target))
        for count in all_counts(quick)
        if count.way == HTTP1 and count.tracer is CALLGRIND
    ]


def all_counts(quick: bool) -> list[Count]:
    """In a quick run the peers' instructions are omitted: they change only with the version."""
    short, long = (500, 1500) if quick else (1000, 4000)
    return [
        Count(measures.INSTRUCTIONS_1, CALLGRIND, 1, short, long, in_quick=False),
        Count(measures.INSTRUCTIONS_64, CALLGRIND, 64, short, long, in_quick=False),
        Count(
            measures.INSTRUCTIONS_H2_TO_H1, CALLGRIND, 8, short, long, False, H2_TO_H1, streams=16
        ),
        Count(
            measures.INSTRUCTIONS_H2_TO_H2, CALLGRIND, 8, short, long, False, H2_TO_H2, streams=16
        ),
        Count(measures.SYSCALLS_1, STRACE, 1, short, long, in_quick=True),
        Count(measures.SYSCALLS_64, STRACE, 64, short, long, in_quick=True),
    ]
