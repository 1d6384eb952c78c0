"""One of two servers is killed for a while under load: how many requests each balancer loses, and how long the others take."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import rivals, ways
from .contender import Command, Contender, Site, Unavailable, evenkeel, first_line, found, haproxy, nginx, start
from .figures import Figures
from .process import Children, Cores, available_cores, free_port, wait_until
from .report import OURS, machine, markdown_table, wrapped
from .rounds import rotated, say

MODEL = "bench"
RATE_PER_SECOND = 200
LOAD = ["--rate", str(RATE_PER_SECOND), "--poisson", "--prompt-tokens", "32..128", "--output-tokens", "16..32"]
SERVER_SPEED = "1.5"  # a request takes a fifth of a second; one server alone can take all of the load
KILL_AFTER_SECONDS, DOWN_SECONDS, AFTER_SECONDS = 3.0, 3.0, 4.0
END_OF_LOAD_SECONDS = 120.0
ROWS = (
    ("requests", "requests", 0),
    ("failed", "failed", 0),
    ("failed_percent", "failed, %", 2),
    ("p50_ms", "p50, ms", 0),
    ("p99_ms", "p99, ms", 0),
    ("max_ms", "longest, ms", 0),
)
REMARKS = (
    f"Two simulated GPU servers, {RATE_PER_SECOND} requests a second (Poisson, not streamed, 16 to 32 tokens). After 3 s one server is killed "
    "(SIGKILL) and started again 3 s later; the load goes on for 4 s. Failed: any status but 200, or no complete answer. Times are "
    "those of answered requests.",
    "All pick the server with the fewest requests in flight, and check health every 2 s where they can (nginx cannot).",
    "`evenkeel`, `haproxy`, `nginx`: the defaults. Those of HAProxy and nginx repeat a POST only if it was not sent; evenkeel's also "
    "repeat one once if its reused connection closes without an answer within a second of sending, which covers the requests of this load. "
    "The others may repeat one whose server died before it answered: `retry: {on: [reset]}`; `retry-on all-retryable-errors` with "
    "`option redispatch`; `proxy_next_upstream error timeout http_502 non_idempotent`.",
)


# --- contenders -----------------------------------------------------------------------------------


def contenders(build: Path, home: Path) -> list[Contender]:
    return [
        _variant(evenkeel(build), OURS, _evenkeel_command(build, "")),
        _variant(evenkeel(build), f"{OURS} retrying", _evenkeel_command(build, "retry: {on: [reset]}")),
        _variant(haproxy(), "haproxy", _haproxy_command("")),
        _variant(haproxy(), "haproxy retrying", _haproxy_command("retry-on all-retryable-errors")),
        _variant(nginx(), "nginx", _nginx_command("")),
        _variant(
            nginx(),
            "nginx retrying",
            _nginx_command("proxy_next_upstream error timeout http_502 non_idempotent;"),
        ),
        rivals.envoy(home),
        rivals.smg(home),
    ]


def _variant(like: Contender, name: str, command: Callable[[Site, bool], Command]) -> Contender:
    return Contender(name=name, version=like.version, command=command)


def _evenkeel_command(build: Path, retry: str) -> Callable[[Site, bool], Command]:
    def command(site: Site, traced: bool) -> Command:
        config = site.write(
            "evenkeel.yaml",
            f"""\
listeners: [{{name: public, address: "{site.address}"}}]
admin: {{address: "127.0.0.1:{site.side_port}"}}
workers: 1
pools:
  - name: bench
    engine: vllm
    backends: {json.dumps(site.backends)}
    {retry}
access_log: {{path: {site.folder / "access.log"}}}
""",
        )
        return Command([str(build / "evenkeel"), "run", "-c", str(config)])

    return command


def _haproxy_command(retry: str) -> Callable[[Site, bool], Command]:
    def command(site: Site, traced: bool) -> Command:
        servers = "\n".join(
            f"  server s{number} {address} check inter 2s"
            for number, address in enumerate(site.backends)
        )
        redispatch = f"option redispatch 1\n  {retry}" if retry else ""
        config = site.write(
            "haproxy.cfg",
            f"""\
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 600s
  {redispatch}
frontend public
  bind {site.address}
  default_backend bench
backend bench
  balance leastconn
  option httpchk GET /health
{servers}
""",
        )
        return Command([found("haproxy"), "-db", "-f", str(config)])

    return command


def _nginx_command(retry: str) -> Callable[[Site, bool], Command]:
    base = nginx().command

    def command(site: Site, traced: bool) -> Command:
        started = base(site, traced)
        config = site.folder / "nginx.conf"
        text = config.read_text()
        text = text.replace("upstream bench {", "upstream bench {\n    least_conn;")
        config.write_text(text.replace("proxy_pass http://bench;", f"proxy_pass http://bench;\n      {retry}"))
        return started

    return command


# --- the servers ----------------------------------------------------------------------------------


class Server:
    """A simulated GPU server on a fixed port."""

    def __init__(self, build: Path, children: Children, core: int) -> None:
        self._argv = [str(build / "evenkeel"), "sim", "--model", MODEL, "--speed", SERVER_SPEED]
        self._children, self._core = children, core
        self.address = f"127.0.0.1:{free_port()}"
        self.start()

    def start(self) -> None:
        self._process = self._children.start([*self._argv, "--listen", self.address], self._core)
        wait_until(f"{self.address} answers", 20, self._answers)

    def kill(self) -> None:
        self._process.kill()
        self._children.stop(self._process)

    def _answers(self) -> bool:
        argv = ["curl", "--silent", "--fail", "--max-time", "2", "--output", "/dev/null"]
        return subprocess.run([*argv, f"http://{self.address}/health"], check=False).returncode == 0


# --- the benchmark --------------------------------------------------------------------------------


@dataclass
class Bench:
    build: Path
    home: Path
    rounds: int
    only: list[str]
    cores: Cores
    figures: Figures = field(default_factory=Figures)
    versions: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def run(self) -> None:
        wanted = contenders(self.build, self.home)
        known = [each.name for each in wanted]
        if unknown := [name for name in self.only if name not in known]:
            raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        wanted = [each for each in wanted if not self.only or each.name in self.only]
        self.names = [each.name for each in wanted]
        with (
            tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder,
            Children() as children,
        ):
            servers = [Server(self.build, children, self.cores.origin) for _ in range(2)]
            for number in range(self.rounds):
                for each in rotated(wanted, number):
                    if each.name not in self.absent:
                        say(f"round {number + 1}/{self.rounds}: {each.name}")
                        home = Path(folder) / f"{each.name.replace(' ', '-')}-{number}"
                        self._measure(each, servers, home, children, number)

    def _measure(
        self, contender: Contender, servers: list[Server], home: Path, children: Children, number: int
    ) -> None:
        addresses = [server.address for server in servers]
        try:
            running = start(contender, ways.HTTP1, addresses, home, children, self.cores.proxy)
            self.versions[contender.name] = contender.version()
        except Unavailable as reason:
            self.absent[contender.name] = str(reason)
            return
        try:
            load = self._load(f"http://{running.site.address}", number, contender.load_flags())
            time.sleep(KILL_AFTER_SECONDS)
            servers[1].kill()
            time.sleep(DOWN_SECONDS)
            servers[1].start()
            self._note(contender.name, number, load())
        finally:
            children.stop(running.process)

    def _load(self, url: str, number: int, flags: list[str]) -> Callable[[], dict[str, Any]]:
        """Starts the load; the result waits for its end and returns its report."""
        seconds = KILL_AFTER_SECONDS + DOWN_SECONDS + AFTER_SECONDS
        argv = ["taskset", "-c", str(self.cores.load), str(self.build / "evenkeel"), "load", url, *LOAD]
        argv += [*flags, "--duration", f"{seconds}s", "--seed", str(number + 1), "--json"]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        output: list[tuple[str, str]] = []
        reader = threading.Thread(target=lambda: output.append(process.communicate(timeout=END_OF_LOAD_SECONDS)))
        reader.start()

        def report() -> dict[str, Any]:
            reader.join()
            if not output or not output[0][0]:
                process.kill()
                raise RuntimeError(f"evenkeel load: {output[0][1] if output else 'does not end'}")
            return dict(json.loads(output[0][0]))

        return report

    def _note(self, name: str, number: int, report: dict[str, Any]) -> None:
        requests, times = report["requests"], report["e2e_seconds"]
        failed = requests["failed"] + requests.get("abandoned", 0)
        total = requests["succeeded"] + failed
        values = {"requests": total, "failed": failed, "failed_percent": 100 * failed / max(1, total)}
        values |= {f"{key}_ms": 1000 * times[key] for key in ("p50", "p99", "max")}
        for key, value in values.items():
            self.figures.add(name, key, number, value)

    def lost(self) -> float | None:
        """Requests that evenkeel lost although it could have repeated them, in all rounds; None: not measured."""
        rounds = self.figures.rounds(f"{OURS} retrying", "failed")
        return sum(rounds.values()) if rounds else None

    def missed(self) -> str:
        """Why the target is not met; empty: it is."""
        if (lost := self.lost()) is None:
            return f"{OURS} retrying was not measured: {self.absent.get(f'{OURS} retrying', 'it was not chosen')}"
        return f"{OURS} retrying lost {lost:.0f} requests" if lost else ""

    # ---- the results ----

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kill.json").write_text(json.dumps(self.as_dict(), indent=2) + "\n")
        (folder / "kill.md").write_text(wrapped(self.as_markdown()))

    def present(self) -> list[str]:
        return [name for name in self.names if name in self.figures.values]

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": "kill",
            "machine": machine(),
            "settings": {"rounds": self.rounds, "rate_per_second": RATE_PER_SECOND, "down_seconds": DOWN_SECONDS},
            "versions": self.versions,
            "absent": self.absent,
            "figures": {
                name: {
                    key: {
                        "median": self.figures.median(name, key),
                        "rounds": list(self.figures.rounds(name, key).values()),
                    }
                    for key, _, _ in ROWS
                }
                for name in self.present()
            },
            "ratios": {
                peer: {"p99_ms": self.figures.ratio(f"{OURS} retrying", peer, "p99_ms")}
                for peer in self.present()
                if not peer.startswith(OURS)
            },
            "targets": [
                {"contender": f"{OURS} retrying", "measure": "failed", "target": "0", "reached": self.lost()}
                | {"met": None if self.lost() is None else not self.missed()}
            ],
        }

    def as_markdown(self) -> str:
        about = machine()
        rows = []
        for name in self.present():
            cells = [self.figures.median(name, key) for key, _, _ in ROWS]
            rows.append(
                [
                    name,
                    *(
                        "-" if value is None else f"{value:,.{decimals}f}"
                        for value, (_, _, decimals) in zip(cells, ROWS, strict=True)
                    ),
                ]
            )
        versions = sorted({text for text in self.versions.values() if text})
        return "\n".join(
            [
                "# A server is killed",
                "",
                f"{about['cpu']}, {about['cores']} cores, {self.rounds} rounds; medians. {'; '.join(versions)}.",
                "",
                *(f"- {line}" for line in REMARKS),
                "",
                *markdown_table(["", *(title for _, title, _ in ROWS)], rows),
                *(["", *(f"- not measured: {name}: {why}" for name, why in self.absent.items())] if self.absent else []),
                "",
            ]
        )


def main(build: Path, home: Path, results: Path, rounds: int, only: list[str]) -> int:
    bench = Bench(build, home, rounds, only, Cores.choose(available_cores()))
    bench.run()
    bench.write(results)
    print(bench.as_markdown())
    if missed := bench.missed():
        say(f"target missed: {missed}")
    return 1 if missed else 0
