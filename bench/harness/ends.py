"""The two ends of every measurement: bench_load in front of the contender and bench_origin behind it; for protocols
that they do not support, h2load and nghttpd."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import h2load
from .process import Children, Cores, free_port
from .ways import Protocol, Way

ANSWER_BYTES = 300
HOLD_LIMIT_SECONDS = 120
ASKING_SECONDS = 120.0
OPENING_PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Ends:
    """Where the two programs are and on which cores they run."""

    build: Path
    cores: Cores
    children: Children

    def start_origin(
        self, listeners: int, flags: list[str], *, address: str = "127.0.0.1:0"
    ) -> Origin:
        argv = [str(self.build / "bench_origin"), *flags]
        for _ in range(listeners):
            argv += ["--listen", address]
        process = self.children.start(argv, self.cores.origin, stdout=subprocess.PIPE)
        assert process.stdout
        addresses = []
        for _ in range(listeners):
            line = process.stdout.readline()
            if not line.startswith("listening "):
                raise RuntimeError("bench_origin did not start")
            addresses.append(line.split()[1])
        return Origin(process=process, addresses=addresses)

    def start_h2_origin(self, count: int, folder: Path) -> Origin:
        """nghttpd with the same 300-byte response as bench_origin, over HTTP/2 with prior knowledge."""
        answer = folder / h2load.PATH.lstrip("/")
        answer.parent.mkdir(parents=True)
        answer.write_text("{" + " " * (ANSWER_BYTES - 2) + "}")
        addresses = []
        for _ in range(count):
            port = free_port()
            argv = [
                "nghttpd",
                "--no-tls",
                "--address=127.0.0.1",
                "--htdocs",
                str(folder),
                str(port),
            ]
            process = self.children.start(argv, self.cores.origin)
            addresses.append(f"127.0.0.1:{port}")
        return Origin(process=process, addresses=addresses)

    def measure(
        self,
        way: Way,
        address: str,
        seconds: float,
        flags: list[str],
        meter: Callable[[], float] = lambda: 0.0,
    ) -> tuple[dict[str, Any], float]:
        """The results of the clients of this way, and the growth of `meter` while they ran."""
        if way.front is Protocol.HTTP1:
            before = meter()
            report = self.load(address, seconds, flags)
            return report, meter() - before
        with tempfile.TemporaryDirectory(prefix="evenkeel-h2load-") as folder:
            return h2load.run(
                self.children,
                self.cores.load,
                way.front,
                address,
                flags,
                Path(folder),
                seconds=seconds,
                meter=meter,
            )

    def send_requests(self, way: Way, address: str, flags: list[str], requests: int) -> dict[str, Any]:
        """Exactly so many requests."""
        if way.front is Protocol.HTTP1:
            return self.load(address, ASKING_SECONDS, [*flags, "--requests", str(requests)])
        with tempfile.TemporaryDirectory(prefix="evenkeel-h2load-") as folder:
            report, _ = h2load.run(
                self.children,
                self.cores.load,
                way.front,
                address,
                [*flags, "-n", str(requests)],
                Path(folder),
            )
        return report

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
        """While the block runs, all the connections are open (modes idle and slow)."""
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
