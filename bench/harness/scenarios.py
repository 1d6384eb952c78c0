"""The nine scenarios of the picking replay: requests from public traces and from a generator, on eight engines.

The requests are those of the simulations in Python that the scheduler was designed with, number by number: the generator of
random numbers, its seeds and the order of its draws are theirs. So figures of both can be compared."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BLOCK_TOKENS = 512
SEEDS = (1, 2)
STAMPED_EVERY_MS = 3000.0  # by Mooncake's recorder

CONVERSATION = "mooncake_conversation_first60.jsonl.gz"
SYNTHETIC = "mooncake_synthetic_first60.jsonl.gz"
CODE = "azure2023_code_first60.csv.gz"


@dataclass(frozen=True)
class Request:
    at_ms: float
    prompt_tokens: int
    output_tokens: int
    blocks: list[int]


Maker = Callable[[Path, int], list[Request]]  # from the folder of the traces and the seed


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    source: str  # a trace of SOURCES
    options: tuple[str, ...]  # of bench_picking_replay


def mooncake(file: str) -> Maker:
    """Requests that share a stamp are spread at random over the time to the next one."""

    def make(folder: Path, seed: int) -> list[Request]:
        with gzip.open(folder / file, "rt") as lines:
            rows = [json.loads(line) for line in lines]
        stamps = sorted({row["timestamp"] for row in rows})
        following = dict(zip(stamps, [*stamps[1:], stamps[-1] + STAMPED_EVERY_MS], strict=True))
        chance = random.Random(seed)
        requests = []
        for row in rows:
            stamp = row["timestamp"]
            at = stamp + chance.random() * (following[stamp] - stamp)
            requests.append(Request(at, row["input_length"], row["output_length"], row["hash_ids"]))
        return sorted(requests, key=lambda request: request.at_ms)

    return make


def azure(file: str) -> Maker:
    """Prompts that share nothing: each has blocks of its own."""

    def make(folder: Path, seed: int) -> list[Request]:
        del seed  # the stamps are exact
        requests = []
        next_block = 10**9
        with gzip.open(folder / file, "rt") as lines:
            for row in csv.DictReader(lines):
                tokens = max(1, int(row["context_tokens"]))
                count = blocks_of(tokens)
                blocks = list(range(next_block, next_block + count))
                next_block += count
                requests.append(
                    Request(float(row["timestamp_ms"]), tokens, int(row["generated_tokens"]), blocks)
                )
        return requests

    return make


def blocks_of(tokens: int) -> int:
    return -(-tokens // BLOCK_TOKENS)


class ToolCalls:
    """Two hot tools, a tail of prompts that recur more rarely, and sessions of agents that grow: shapes read off Mooncake's
    sample of its tool and agent trace."""

    RATE, SECONDS = 22.0, 250.0
    HOT, WARM = list(range(10, 22)), list(range(40, 45))
    SYSTEM = [1]
    LONGEST_SESSION = 60_000  # tokens
    SESSIONS = 400  # remembered

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(100 + seed)
        self.next_block = 10**6
        self.tails = [
            [5000 + 100 * number + place for place in range(self.chance.randint(3, 14))]
            for number in range(60)
        ]
        self.sessions: list[tuple[list[int], int]] = []  # full blocks, tokens

    def requests(self) -> list[Request]:
        found = []
        at = 0.0
        while at < self.SECONDS:
            at += self.chance.expovariate(self.RATE)
            made = self.one()
            if made is not None:
                found.append(Request(1e3 * at, *made))
        return found

    def one(self) -> tuple[int, int, list[int]] | None:
        chance = self.chance
        kind = chance.random()
        if kind < 0.38:
            tokens = len(self.HOT) * BLOCK_TOKENS + int(chance.lognormvariate(6, 0.9))
            output = 3 if chance.random() < 0.5 else chance.randint(10, 80)
            return tokens, output, self.blocks(self.HOT, tokens)
        if kind < 0.54:
            tokens = len(self.WARM) * BLOCK_TOKENS + int(chance.lognormvariate(6, 0.5))
            output = chance.randint(15, 30)
            return tokens, output, self.blocks(self.WARM, tokens)
        if kind < 0.70:
            tail = self.tails[min(59, int(chance.paretovariate(0.9)) - 1)]
            tokens = len(tail) * BLOCK_TOKENS + int(chance.lognormvariate(6.5, 1))
            output = int(chance.lognormvariate(5, 0.8)) + 1
            return tokens, output, self.blocks(tail, tokens)
        return self.turn()

    def turn(self) -> tuple[int, int, list[int]] | None:
        """Of a session, new or old. Nothing: an old one has become too long and is forgotten."""
        chance = self.chance
        number = None
        known = self.SYSTEM
        if self.sessions and chance.random() < 0.6:
            number = chance.randrange(len(self.sessions))
            known, before = self.sessions[number]
            tokens = before + int(chance.lognormvariate(6.5, 1.0)) + 50
            if tokens > self.LONGEST_SESSION:
                self.sessions.pop(number)
                return None
        else:
            tokens = int(chance.lognormvariate(8.5, 1.0))
        blocks = self.blocks(known, tokens)
        output = int(chance.lognormvariate(5.6, 0.6)) + 1
        session = (blocks[: tokens // BLOCK_TOKENS], tokens + output)
        if number is not None:
            self.sessions[number] = session
        else:
            self.sessions.append(session)
            if len(self.sessions) > self.SESSIONS:
                self.sessions.pop(0)
        return tokens, output, blocks

    def blocks(self, known: list[int], tokens: int) -> list[int]:
        """Of a prompt that begins with what is known."""
        count = blocks_of(tokens)
        fresh = max(0, count - len(known))
        blocks = known[:count] + list(range(self.next_block, self.next_block + fresh))
        self.next_block += fresh
        return blocks


def tool_calls(folder: Path, seed: int) -> list[Request]:
    del folder
    return ToolCalls(seed).requests()


SOURCES: dict[str, Maker] = {
    "conversation": mooncake(CONVERSATION),
    "synthetic": mooncake(SYNTHETIC),
    "tool-like": tool_calls,
    "azure-code": azure(CODE),
}

LARGE = ("--preset", "reference-large-kv")
UNEQUAL = tuple(word for speed in "1 1 1 1 .5 .5 .5 .5".split() for word in ("--backend-speed", speed))

SCENARIOS = (
    Scenario("conv-small-1.25x", "conv-small 1.25x", "conversation", ("--speed", "1.25", "--max-seconds", "450")),
    Scenario("conv-small-1.45x", "1.45x", "conversation", ("--speed", "1.45", "--max-seconds", "420")),
    Scenario("conv-large-1.7x", "conv-large 1.7x", "conversation", (*LARGE, "--speed", "1.7", "--max-seconds", "400")),
    Scenario("conv-large-2.0x", "2.0x", "conversation", (*LARGE, "--speed", "2.0", "--max-seconds", "380")),
    Scenario("synthetic-1.6x", "synthetic 1.6x", "synthetic", (*LARGE, "--speed", "1.6")),
    Scenario("tool-like-22rps", "tool-like 22/s", "tool-like", ()),
    Scenario("azure-code-7x", "azure code 7x", "azure-code", ("--speed", "7", "--max-seconds", "240")),
    Scenario("4-fast-4-half", "4 fast, 4 half", "conversation", ("--speed", "1.05", "--max-seconds", "450", *UNEQUAL)),
    Scenario(
        "one-slows-4x",
        "one slows 4x",
        "conversation",
        ("--speed", "1.2", "--max-seconds", "420", "--slow-first-backend", "4", "--slow-at", "120"),
    ),
)


def trace_file(source: str, seed: int, traces: Path, work: Path) -> Path:
    """The requests of a source, written in Mooncake's format unless they are there."""
    path = work / f"{source}-{seed}.jsonl.gz"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        with gzip.open(unfinished, "wt", compresslevel=1) as out:
            for request in SOURCES[source](traces, seed):
                row = {
                    "timestamp": request.at_ms,
                    "input_length": request.prompt_tokens,
                    "output_length": max(1, request.output_tokens),
                    "hash_ids": request.blocks,
                }
                out.write(json.dumps(row) + "\n")
        unfinished.rename(path)
    return path
