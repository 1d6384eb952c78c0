"""Limits that replicas share hold, and no request is missing in usage records: with 200 tenants, and while daemons, servers and Redis are killed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .process import Children, available_cores, free_port, wait_until
from .report import machine, markdown_table, wrapped
from .rounds import say

REPLICAS, LIGHT, HEAVY = 4, 180, 20
TOKENS = 9  # of each prompt and of each answer: what bench_origin reports
TOKENS_OF_REQUEST = 2 * TOKENS
HEAVY_GRANTED, HEAVY_ASKED, LIGHT_ASKED = 200, 600, 20
LIMIT = HEAVY_GRANTED * TOKENS_OF_REQUEST
CONNECTIONS = 64
BURST = 1000
DEADLINE_MS = 5
LEDGER_TENANTS, LEDGER_CONNECTIONS, LEDGER_CHUNK = 4, 8, 5000
KILLS = 3
BODY = {"model": "bench", "max_tokens": TOKENS, "messages": [{"role": "user", "content": "x" * 4 * TOKENS}]}


def key_of(tenant: str) -> str:
    return f"sk-{tenant}"


def tenants(names: list[str], limit: int | None) -> list[dict[str, Any]]:
    limits = {"limits": {"tokens": f"{limit}/day"}} if limit else {}
    return [{"name": name, "keys_sha256": [hashlib.sha256(key_of(name).encode()).hexdigest()], **limits} for name in names]


# --- programs -------------------------------------------------------------------------------------


@dataclass
class Programs:
    build: Path
    folder: Path
    children: Children

    def start(self, argv: list[str], address: str) -> subprocess.Popen[str]:
        with (self.folder / "log").open("a") as log:
            process = self.children.start(argv, available_cores(), stdout=log, stderr=log)
        wait_until(f"{address} listens", 20, lambda: listens(address))
        return process

    def origin(self, addresses: list[str]) -> subprocess.Popen[str]:
        listen = [word for address in addresses for word in ("--listen", address)]
        return self.start(
            [str(self.build / "bench_origin"), *listen, "--sse-events", "20", "--sse-rate", "1000"], addresses[-1]
        )

    def daemon(self, name: str, address: str, config: dict[str, Any]) -> subprocess.Popen[str]:
        file = self.folder / f"{name}.yaml"
        admin = f"127.0.0.1:{free_port()}"
        common = {"listeners": [{"name": "public", "address": address}], "admin": {"address": admin}, "workers": 1}
        file.write_text(json.dumps(common | {"access_log": {"path": "off"}} | config))
        return self.start([str(self.build / "evenkeel"), "run", "-c", str(file)], address)

    def redis(self, port: int) -> subprocess.Popen[str]:
        argv = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder)]
        return self.start(argv, f"127.0.0.1:{port}")


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    return subprocess.run(["bash", "-c", f"</dev/tcp/{host}/{port}"], capture_output=True, check=False).returncode == 0


def pool(origins: list[str]) -> dict[str, Any]:
    return {"name": "bench", "engine": "vllm", "backends": origins, "metrics": {"scrape": "off"}}


# --- clients --------------------------------------------------------------------------------------


@dataclass
class Ask:
    """A request of a tenant; `leaves` after the first bytes of its answer."""

    tenant: str
    streams: bool = False
    leaves: bool = False


@dataclass
class Seen:
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    def of(self, tenant: str, status: int) -> int:
        return self.statuses[tenant, status]

    def percentile_ms(self, share: float) -> float:
        return 1000 * sorted(self.seconds)[min(int(share * len(self.seconds)), len(self.seconds) - 1)]


async def exchange(address: str, ask: Ask) -> int:
    host, _, port = address.rpartition(":")
    body = json.dumps(BODY | ({"stream": True} if ask.streams else {})).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key_of(ask.tenant)}\r\n"
    head += f"content-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(head.encode() + body)
        status = int((await reader.readline()).split()[1])
        if ask.leaves and status == 200:
            await reader.readuntil(b"data: ")
        else:
            await reader.read(-1)
        return status
    finally:
        writer.close()


async def ask_all(addresses: list[str], asks: list[Ask], at_once: int = CONNECTIONS) -> Seen:
    seen = Seen()
    waiting = iter(enumerate(asks))

    async def client() -> None:
        for number, ask in waiting:
            started = time.monotonic()
            status = await exchange(addresses[number % len(addresses)], ask)
            seen.seconds.append(time.monotonic() - started)
            seen.statuses[ask.tenant, status] += 1

    await asyncio.gather(*(client() for _ in range(at_once)))
    return seen


# --- the benchmark --------------------------------------------------------------------------------


@dataclass
class Bench:
    build: Path
    requests: int  # of the ledger
    rows: list[list[str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def note(self, what: str, reached: str, target: str, met: bool) -> None:
        say(f"{what}: {reached} (target {target})")
        self.rows.append([what, reached, target, "yes" if met else "**no**"])
        if not met:
            self.failures.append(what)

    def run(self) -> None:
        for part in (self.shared_limits, self.ledger):
            with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder, Children() as children:
                part(Programs(self.build, Path(folder), children))

    # ---- shared limits ----

    def shared_limits(self, programs: Programs) -> None:
        origins = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        programs.origin(origins)
        redis_port = free_port()
        redis = programs.redis(redis_port)
        light = [f"light{number}" for number in range(LIGHT)]
        heavy = [f"heavy{number}" for number in range(HEAVY)]
        others = ["burst", "streams", "outage"]
        config = {
            "shared_state": {"redis": f"redis://127.0.0.1:{redis_port}", "replicas": REPLICAS, "timeout": f"{DEADLINE_MS}ms"},
            "tenants": tenants(light + heavy + others[:2], LIMIT) + tenants(others[2:], 100_000_000),
            "pools": [pool(origins)],
        }
        daemons = [f"127.0.0.1:{free_port()}" for _ in range(REPLICAS)]
        for number, address in enumerate(daemons):
            programs.daemon(f"replica{number}", address, config)
        time.sleep(1)  # connections to Redis

        asks = [Ask(name) for name in heavy] * HEAVY_ASKED + [Ask(name) for name in light] * LIGHT_ASKED
        asks = [asks[index * 7919 % len(asks)] for index in range(len(asks))]
        seen = asyncio.run(ask_all(daemons, asks))
        refused = sum(count for (name, status), count in seen.statuses.items() if status == 429 and name in light)
        granted = [seen.of(name, 200) for name in heavy]
        self.note(f"light tenants of {LIGHT}: requests refused", str(refused), "0", refused == 0)
        self.note(
            f"heavy tenants of {HEAVY}, each asking for {HEAVY_ASKED} where {HEAVY_GRANTED} are granted: granted",
            f"{min(granted)} to {max(granted)}",
            f"{HEAVY_GRANTED - CONNECTIONS} to {HEAVY_GRANTED}",
            max(granted) <= HEAVY_GRANTED and min(granted) >= HEAVY_GRANTED - CONNECTIONS,
        )
        seen = asyncio.run(ask_all(daemons, [Ask("burst")] * BURST, at_once=BURST))
        count = seen.of("burst", 200)
        self.note(f"first {BURST} requests of a tenant, all at once: granted", str(count), f"<= {HEAVY_GRANTED}", 0 < count <= HEAVY_GRANTED)
        seen = asyncio.run(ask_all(daemons, [Ask("streams", streams=True, leaves=number % 3 == 0) for number in range(HEAVY_ASKED)]))
        count = seen.of("streams", 200)
        self.note(
            "streams without usage, of which a third is left by the client: granted",
            str(count),
            f"<= {HEAVY_GRANTED + CONNECTIONS}",
            0 < count <= HEAVY_GRANTED + CONNECTIONS,
        )
        self.outages(programs, daemons, redis, redis_port)

    def outages(self, programs: Programs, daemons: list[str], redis: subprocess.Popen[str], port: int) -> None:
        def ask(what: str, before: float | None) -> float:
            seen = asyncio.run(ask_all(daemons, [Ask("outage")] * 1500, at_once=4))
            lost = 1500 - seen.of("outage", 200)
            took = seen.percentile_ms(0.99)
            target = "all answered" if before is None else f"all answered, p99 <= {before:.0f} + {DEADLINE_MS + 10} ms"
            met = lost == 0 and (before is None or took <= before + DEADLINE_MS + 10)
            self.note(f"Redis {what}: requests that failed; p99, longest", f"{lost}; {took:.1f}, {seen.percentile_ms(1):.1f} ms", target, met)
            return took

        usual = ask("answers", None)
        os.kill(redis.pid, signal.SIGSTOP)
        ask("hangs", usual)
        os.kill(redis.pid, signal.SIGCONT)
        redis.kill()
        programs.children.stop(redis)
        ask("is killed", usual)
        programs.redis(port)
        ask("is started again", usual)

    # ---- the ledger ----

    def ledger(self, programs: Programs) -> None:
        origins = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        servers = [programs.origin([address]) for address in origins]
        names = [f"tenant{number}" for number in range(LEDGER_TENANTS)]
        address = f"127.0.0.1:{free_port()}"
        records = programs.folder / "usage.jsonl"
        config = {"tenants": tenants(names, None), "pools": [pool(origins)], "usage": {"path": str(records)}}
        daemon = programs.daemon("daemon", address, config)
        (programs.folder / "body").write_text(json.dumps(BODY))
        started = time.monotonic()
        with ThreadPoolExecutor(LEDGER_TENANTS) as loads:
            running = [loads.submit(self._load, programs, address, name) for name in names]
            for number in range(2 * KILLS):
                self._wait(running, records, (number + 1) * self.requests // (2 * KILLS + 1))
                if number % 2 == 0:
                    servers[0].kill()
                    programs.children.stop(servers[0])
                    servers[0] = programs.origin(origins[:1])
                else:
                    daemon.kill()
                    daemon.wait()
                    daemon = programs.daemon("daemon", address, config)
            answered = {name: load.result() for name, load in zip(names, running, strict=True)}
        seconds = time.monotonic() - started
        time.sleep(1.5)
        daemon.terminate()
        daemon.wait()
        self._compare(records, answered, seconds)

    def _wait(self, running: list[Any], records: Path, count: int) -> None:
        while not all(load.done() for load in running) and lines(records) < count:
            time.sleep(0.2)

    def _load(self, programs: Programs, address: str, tenant: str) -> int:
        """Returns how many requests were answered with 200."""
        answered = 0
        body = programs.folder / "body"
        while answered < self.requests // LEDGER_TENANTS:
            argv = ["h2load", "--h1", "-n", str(LEDGER_CHUNK), "-c", str(LEDGER_CONNECTIONS), "-d", str(body), "-T", "5"]
            argv += ["-H", f"authorization: Bearer {key_of(tenant)}", "-H", "content-type: application/json"]
            output = subprocess.run(
                [*argv, f"http://{address}/v1/chat/completions"], capture_output=True, text=True, check=False
            ).stdout
            found = re.search(r"status codes: (\d+) 2xx", output)
            answered += int(found[1]) if found else 0
        return answered

    def _compare(self, records: Path, answered: dict[str, int], seconds: float) -> None:
        recorded: Counter[str] = Counter()
        ids = set()
        twice = torn = 0
        with records.open() as file:
            for line in file:
                try:
                    event = json.loads(line)
                except ValueError:
                    torn += 1
                    continue
                twice += event["id"] in ids
                ids.add(event["id"])
                data = event["data"]
                if data["status"] == 200 and data["output_tokens"] == TOKENS:
                    recorded[data["tenant"]] += 1
        total = sum(answered.values())
        in_flight = LEDGER_CONNECTIONS * 2 * KILLS
        lost = max(answered[name] - recorded[name] for name in answered)
        beyond = max(recorded[name] - answered[name] for name in answered)
        of_a_second = round(KILLS * total / seconds / LEDGER_TENANTS)
        self.note(f"{total:,} answered requests of {LEDGER_TENANTS} tenants, {KILLS} kills each of the daemon and of a server, in {seconds:.0f} s: "
                  "records missing of a tenant", str(max(lost, 0)), f"<= {of_a_second} (a second before each kill)", lost <= of_a_second)
        self.note("records beyond what clients saw, of a tenant", str(max(beyond, 0)), f"<= {in_flight} (in flight at kills)", beyond <= in_flight)
        self.note("records twice", str(twice), "0", twice == 0)
        self.note("torn lines", str(torn), f"<= {KILLS}", torn <= KILLS)

    # ---- the results ----

    def as_markdown(self) -> str:
        about = machine()
        return "\n".join(
            [
                "# Limits and usage records hold",
                "",
                f"{about['cpu']}, {about['cores']} cores. {REPLICAS} daemons share the limits of {LIGHT + HEAVY} tenants through one Redis "
                f"({DEADLINE_MS} ms deadline); every limit is {LIMIT:,} tokens a day, of which a request uses {TOKENS_OF_REQUEST}.",
                "",
                *markdown_table(["", "reached", "target", "met"], self.rows),
                "",
            ]
        )

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        titles = ("measure", "reached", "target", "met")
        document = {"name": "limits", "machine": machine(), "rows": [dict(zip(titles, row, strict=True)) for row in self.rows]}
        (folder / "limits.json").write_text(json.dumps(document, indent=2) + "\n")
        (folder / "limits.md").write_text(wrapped(self.as_markdown()))


def lines(file: Path) -> int:
    if not file.exists():
        return 0
    return int(subprocess.run(["wc", "-l", str(file)], capture_output=True, text=True, check=True).stdout.split()[0])


def main(build: Path, results: Path, requests: int) -> int:
    bench = Bench(build, requests)
    bench.run()
    bench.write(results)
    print(bench.as_markdown())
    return 1 if bench.failures else 0
