"""What it is worth to answer requests that repeat only once: identical ones in flight share an answer, or find a kept one."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .process import Children, available_cores, free_port, wait_until
from .report import machine, markdown_table, wrapped
from .rounds import say

SERVERS, SPEED = 2, 2.0
PROMPTS, SKEW = 2000, 1.0  # Zipf: the prompt of rank r is asked in proportion to r ** -SKEW
CLIENTS = 512
WORDS = 250  # of a prompt
OUTPUT_TOKENS = 100
TARGET = 1.4  # what Pinterest reports of coalescing

WAYS: dict[str, dict[str, Any]] = {
    "neither": {},
    "coalesce": {"coalesce": "deterministic"},
    "cache": {"cache": {"for": ["deterministic"]}},
    "both": {"coalesce": "deterministic", "cache": {"for": ["deterministic"]}},
}


def bodies(count: int, seed: int) -> list[bytes]:
    """Chats with temperature 0 whose prompts repeat."""
    chance = random.Random(seed)
    weights = [rank**-SKEW for rank in range(1, PROMPTS + 1)]
    return [body_of(number) for number in chance.choices(range(PROMPTS), weights, k=count)]


def body_of(number: int) -> bytes:
    chance = random.Random(number)
    prompt = " ".join(f"w{chance.randrange(10_000)}" for _ in range(WORDS))
    messages = [{"role": "user", "content": prompt}]
    return json.dumps({"model": "m", "temperature": 0, "max_tokens": OUTPUT_TOKENS, "messages": messages}).encode()


async def exchange(address: str, body: bytes) -> tuple[int, str]:
    """The status, and where the answer came from."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}connection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await reader.read(-1)).decode(errors="replace")
        source = answer.partition("x-evenkeel-cache: ")[2].partition("\r\n")[0]
        return int(answer.split(" ", 2)[1]), source or "backend"
    finally:
        writer.close()


@dataclass
class Outcome:
    per_second: float = 0
    sources: dict[str, int] = field(default_factory=dict)
    failed: int = 0


async def ask_all(address: str, asked: list[bytes]) -> Outcome:
    outcome = Outcome()
    waiting = iter(asked)
    started = time.monotonic()

    async def client() -> None:
        for body in waiting:
            status, source = await exchange(address, body)
            outcome.failed += status != 200
            outcome.sources[source] = outcome.sources.get(source, 0) + 1

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    outcome.per_second = len(asked) / (time.monotonic() - started)
    return outcome


def measure(program: Path, way: dict[str, Any], asked: list[bytes]) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-") as folder, Children() as children:
        log = (Path(folder) / "log").open("a")
        servers = [free_port() for _ in range(SERVERS)]
        for port in servers:
            argv = [str(program), "sim", "--listen", f"127.0.0.1:{port}", "--model", "m", "--speed", str(SPEED)]
            children.start(argv, available_cores(), stdout=log, stderr=log)
        address, admin = (f"127.0.0.1:{free_port()}" for _ in range(2))
        pool = {"name": "fleet", "engine": "vllm", "picker": "least-connections", "backends": [f"127.0.0.1:{port}" for port in servers]}
        config = {
            "listeners": [{"name": "public", "address": address}],
            "admin": {"address": admin},
            "workers": 1,
            "access_log": {"path": "off"},
            "pools": [pool | way],
        }
        file = Path(folder) / "evenkeel.yaml"
        file.write_text(json.dumps(config))
        children.start([str(program), "run", "-c", str(file)], available_cores(), stdout=log, stderr=log)
        wait_until("evenkeel answers", 20, lambda: answers(address))
        return asyncio.run(ask_all(address, asked))


def answers(address: str) -> bool:
    argv = ["curl", "-sf", "-o", "/dev/null", "-d", body_of(PROMPTS).decode(), "-H", "content-type: application/json"]
    return subprocess.run([*argv, f"http://{address}/v1/chat/completions"], check=False).returncode == 0


def as_markdown(found: dict[str, Outcome], count: int) -> str:
    about = machine()
    baseline = found["neither"].per_second
    rows = []
    for name, outcome in found.items():
        ratio = outcome.per_second / baseline
        shares = ", ".join(f"{source} {100 * number / count:.0f} %" for source, number in sorted(outcome.sources.items()))
        target = f">= {TARGET}" if name == "coalesce" else ""
        rows.append([name, f"{outcome.per_second:,.0f}", f"{ratio:.2f}", target, shares])
    return "\n".join(
        [
            "# Requests that repeat",
            "",
            f"{about['cpu']}, {about['cores']} cores. {SERVERS} simulated servers (`evenkeel sim`, {SPEED:g} times faster than life), {CLIENTS} "
            f"clients, each with one request at a time; {count:,} chats with temperature 0 among {PROMPTS:,} prompts, of which that of rank r "
            f"is asked in proportion to r^-{SKEW} (Zipf): {OUTPUT_TOKENS} tokens of output each.",
            "",
            *markdown_table(["`pools`", "requests/s", "times", "target", "answers"], rows),
            "",
        ]
    )


def main(*, build: Path, results: Path, requests: int) -> int:
    asked = bodies(requests, seed=1)
    found = {}
    for name, way in WAYS.items():
        found[name] = measure(build / "evenkeel", way, asked)
        say(f"{name}: {found[name].per_second:,.0f} requests/s, {found[name].sources}, {found[name].failed} failed")
    results.mkdir(parents=True, exist_ok=True)
    text = as_markdown(found, requests)
    (results / "repeats.md").write_text(wrapped(text))
    document = {"name": "repeats", "machine": machine(), "requests": requests, "ways": {name: vars(each) for name, each in found.items()}}
    (results / "repeats.json").write_text(json.dumps(document, indent=2) + "\n")
    print(text)
    met = found["coalesce"].per_second >= TARGET * found["neither"].per_second
    return 0 if met and not any(each.failed for each in found.values()) else 1
