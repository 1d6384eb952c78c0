"""The two ends of every measurement: bench_origin behind the contender and bench_load before it."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .process import Children, Cores

HOLD_LIMIT_SECONDS = 120
OPENING_PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Ends:
    """Where the two programs are and on which cores they run."""

    build: Path
    cores: Cores
    children: Children

    def start_origin(self, listeners: int, flags: list[str]) -> Origin:
        argv = [str(self.build / "bench_origin"), *flags]
        for _ in range(listeners):
            argv += ["--listen", "127.0.0.1:0"]
        process = self.children.start(argv, self.cores.origin, stdout=subprocess.PIPE)
        assert process.stdout
        addresses = []
        for _ in range(listeners):
            line = process.stdout.readline()
            if not line.startswith("listening "):
                raise RuntimeError("bench_origin did not start")
            addresses.append(line.split()[1])
        return Origin(process=process, addresses=addresses)

    def load(self, address: str, seconds: float, flags: list[str]) -> dict[str, Any]:
        """One run of bench_load to its end."""
        process = self._start_load(address, seconds, flags)
        try:
            report, _ = process.communicate(timeout=seconds + OPENING_PATIENCE_SECONDS)
        finally:
            self.children.stop(process)
        if process.returncode != 0:
            raise RuntimeError(f"bench_load failed: {report}")
        return dict(json.loads(report))

    @contextlib.contextmanager
    def holding(self, address: str, flags: list[str]) -> Iterator[None]:
        """While the block runs, all the connections asked for stand (modes idle and slow)."""
        process = self._start_load(address, HOLD_LIMIT_SECONDS, flags)
        assert process.stdout and process.stdin
        try:
            first = process.stdout.readline()
            if '"holding"' not in first:
                raise RuntimeError(f"connections did not settle: {first.strip()}")
            yield
        finally:
            self.children.stop(process)

    def _start_load(self, address: str, seconds: float, flags: list[str]) -> subprocess.Popen[str]:
        argv = [
            str(self.build / "bench_load"),
            "--connect",
            address,
            "--seconds",
            str(seconds),
            *flags,
        ]
        return self.children.start(
            argv, self.cores.load, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )


@dataclass(frozen=True)
class Origin:
    process: subprocess.Popen[str]
    addresses: list[str]
