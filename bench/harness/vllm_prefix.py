"""Two real vLLM servers under a load that shares prefixes: whether what the scheduler believes of their caches is what
they report, and what that is worth next to other pickers."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .conversations import Answer, Clients, Conversation, Shape, conversations_of
from .report import machine, markdown_table, wrapped
from .rounds import rotated, say
from .vllm_servers import LAYERS, WIDTH, Engine, e2e_modules, two_servers

PICKERS = ("expected-time", "least-connections", "round-robin")
PREDICTS = "expected-time"
MAX_DEVIATION_PERCENT = 5.0
MIN_SAMPLED = 0.9  # of the streams: those whose tokens all came at once have no gaps
SETTLE_SECONDS = 15.0
MEASURED = Shape(documents=12, conversations=4, turns=3, clients=4)
QUICK = Shape(documents=6, conversations=3, turns=2, clients=4)
LEARNING = Shape(documents=3, conversations=2, turns=2, clients=2)


# --- one picker -----------------------------------------------------------------------------------


@dataclass
class Cached:
    """Tokens of prompts that a server had in its cache, by who says so."""

    prompt: int = 0
    engine: int = 0  # vllm:prefix_cache_hits
    usage: int = 0  # prompt_tokens_details.cached_tokens
    predicted: int | None = None

    def deviation_percent(self) -> float | None:
        if self.predicted is None or self.engine == 0:
            return None
        return 100.0 * (self.predicted - self.engine) / self.engine


def total_of(parts: list[Cached]) -> Cached:
    predicted = [part.predicted for part in parts if part.predicted is not None]
    return Cached(
        prompt=sum(part.prompt for part in parts),
        engine=sum(part.engine for part in parts),
        usage=sum(part.usage for part in parts),
        predicted=sum(predicted) if predicted else None,
    )


@dataclass
class Outcome:
    picker: str
    seconds: float = 0.0
    answers: list[Answer] = field(default_factory=list)  # in no order
    lines: list[dict[str, Any]] = field(default_factory=list)  # of the access log
    learning: list[Cached] = field(default_factory=list)  # by server, of the load before
    cached: list[Cached] = field(default_factory=list)
    confidences: list[str] = field(default_factory=list)
    known_kv_tokens: list[Any] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)  # deviations: of each server, of both

    def add(self, other: Outcome) -> None:
        """Another round."""
        self.seconds += other.seconds
        self.answers += other.answers
        self.lines += other.lines
        for own, others in ((self.learning, other.learning), (self.cached, other.cached)):
            own[:] = [total_of(list(pair)) for pair in zip(own, others, strict=True)] if own else others
        self.confidences, self.known_kv_tokens = other.confidences, other.known_kv_tokens
        deviations = [part.deviation_percent() for part in [*other.cached, total_of(other.cached)]]
        self.rounds.append({"deviations_percent": deviations} | other.figures())

    def failed(self) -> int:
        return sum(bool(answer.failure) for answer in self.answers)

    def first_tokens(self) -> list[float]:
        return sorted(answer.outputs[0] for answer in self.answers if answer.outputs)

    def figures(self) -> dict[str, float]:
        whole, times = total_of(self.cached), self.first_tokens()
        return {
            "requests": len(self.answers),
            "failed": self.failed(),
            "hit_percent": 100.0 * whole.engine / max(1, whole.prompt),
            "computed_tokens": whole.prompt - whole.engine,
            "ttft_mean_s": statistics.fmean(times),
            "ttft_p50_s": times[len(times) // 2],
            "ttft_p95_s": times[min(len(times) - 1, int(0.95 * len(times)))],
            "queued_mean_s": statistics.fmean(line["wait_ms"] / 1000.0 for line in self.lines),
            "seconds": self.seconds,
        }


class Trial:
    """A fresh daemon with one picker, before servers that know none of the texts."""

    def __init__(self, process: Any, picker: str, engines: list[Engine], folder: Path) -> None:
        self.outcome = Outcome(picker)
        self._engines = engines
        pool: dict[str, Any] = {"name": "models", "engine": "vllm", "picker": picker, "debug_headers": True}
        pool |= {"backends": [each.address for each in engines], "metrics": {"interval": "250ms"}}
        folder.mkdir()
        self._daemon = process.Daemon(folder, {"pools": [pool], "routes": [{"match": {"path": "/**"}, "pool": "models"}]})

    def run(self, shape: Shape, seed: str, mark: str) -> Outcome:
        try:
            self._load(LEARNING, conversations_of(LEARNING, f"{seed} learning", mark), self.outcome.learning)
            began = len(self._daemon.access_lines())
            self._load(shape, conversations_of(shape, seed, mark), self.outcome.cached)
            self.outcome.lines = self._daemon.wait_access(began + shape.requests())[began:]
            self._look()
        finally:
            self._daemon.finish()
        return self.outcome

    def _load(self, shape: Shape, conversations: list[Conversation], into: list[Cached]) -> None:
        before = [self._seen(each) for each in self._engines]
        began = time.monotonic()
        self.outcome.answers = Clients(self._daemon.address, conversations, shape.clients).run()
        self.outcome.seconds = time.monotonic() - began
        self._daemon.wait_at_rest()
        self._settle()
        for old, engine in zip(before, self._engines, strict=True):
            new = self._seen(engine)
            predicted = None
            if new.predicted is not None and old.predicted is not None:
                predicted = new.predicted - old.predicted
            into.append(Cached(new.prompt - old.prompt, new.engine - old.engine, new.usage - old.usage, predicted))

    def _settle(self) -> None:
        """An engine adds to its counters a moment after it has answered."""
        deadline = time.monotonic() + SETTLE_SECONDS
        last = None
        while time.monotonic() < deadline and last != (now := [each.totals() for each in self._engines]):
            last = now
            time.sleep(1.0)

    def _seen(self, engine: Engine) -> Cached:
        totals, page = engine.totals(), self._daemon.metrics()

        def ours(name: str, **labels: str) -> int | None:
            wanted = {("backend", engine.address), *labels.items()}
            found = [value for (series, own), value in page.items() if series == name and wanted <= own]
            return int(found[0]) if found else None

        predicted = None
        if self.outcome.picker == PREDICTS:
            predicted = ours("evenkeel_backend_cached_prompt_tokens_total", source="predicted") or 0
        usage = ours("evenkeel_backend_tokens_total", direction="cached") or 0
        return Cached(totals["queries"], totals["hits"], usage, predicted)

    def _look(self) -> None:
        """Confidence and sizes, as far as the daemon tells."""
        page = self._daemon.metrics()
        documents = self._daemon.api("backends")
        for engine in self._engines:
            own = ("backend", engine.address)
            confidences = [dict(labels).get("confidence", "") for (name, labels), value in page.items()
                     if name == "evenkeel_backend_confidence" and own in labels and value == 1]  # fmt: skip
            self.outcome.confidences += confidences or [""]
            document = next(each for each in documents if each["address"] == engine.address)
            self.outcome.known_kv_tokens.append((document.get("engine_state") or {}).get("kv_cache_tokens"))


# --- the results ----------------------------------------------------------------------------------


def median_ms(values: list[float]) -> float:
    return 1000.0 * statistics.median(values) if values else float("nan")


def assumptions(outcome: Outcome, engines: list[Engine]) -> list[tuple[str, str, bool]]:
    """(what the scheduler assumes, what was seen, whether it holds)."""
    good = [answer for answer in outcome.answers if not answer.failure]
    lines = [line for line in outcome.lines if line["status"] == 200]
    reported = [line for line in lines if line.get("cached_tokens") is not None]
    leaked = sum(answer.has_usage for answer in good)
    gap = [line["tpot_ms"] for line in lines if line.get("tpot_ms") is not None]
    gaps = [(a.outputs[-1] - a.outputs[0]) / (a.tokens - 1) for a in good]
    first = [line["ttft_ms"] / 1000.0 for line in lines if line.get("ttft_ms") is not None]
    heads, firsts = median_ms([a.head for a in good]), median_ms([a.outputs[0] for a in good])
    facts = [each.facts() for each in engines]
    seen = [
        ("engines report usage of streams whose clients did not ask (`stream_usage: auto`)",
         f"{len(reported)} of {len(lines)} streams with `cached_tokens`; the usage reached {leaked} clients",
         len(reported) == len(lines) and leaked == 0),
        ("the first token is seen, not the head or the event with the role",
         f"medians at the clients: head {heads:.0f} ms, first text {firsts:.0f} ms; evenkeel's `ttft_ms` {median_ms(first):.0f}",
         len(first) == len(lines) and abs(median_ms(first) - firsts) < max(20.0, 0.1 * firsts)),
        ("gaps between tokens are seen",
         f"{len(gap)} of {len(lines)} streams; median {statistics.median(gap):.1f} ms a token, at the clients {median_ms(gaps):.1f}",
         len(gap) >= MIN_SAMPLED * len(lines)),
        ("`vllm:cache_config_info` tells the size of the KV cache", "; ".join(json.dumps(each) for each in facts),
         all(int(each.get("kv_cache_size_tokens", "0")) > 0 for each in facts)),
        ("evenkeel knows that size", ", ".join(map(str, outcome.known_kv_tokens)),
         all(each is not None for each in outcome.known_kv_tokens)),
    ]  # fmt: skip
    if any(outcome.confidences):
        holds = all(each == "confirmed" for each in outcome.confidences)
        seen.append(("both servers have the confidence `confirmed`", ", ".join(outcome.confidences), holds))
    return seen


@dataclass
class Bench:
    shape: Shape
    options: list[str]
    rounds: int
    version: str = ""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    assumed: list[tuple[str, str, bool]] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)

    def deviations(self) -> list[float]:
        """Of each server, then of both."""
        cached = self.outcomes[PREDICTS].cached
        found = [each.deviation_percent() for each in [*cached, total_of(cached)]]
        return [each for each in found if each is not None]

    def missed(self) -> list[str]:
        missed = [f"{name}: {each.failed()} requests failed" for name, each in self.outcomes.items() if each.failed()]
        if PREDICTS in self.outcomes:
            found = self.deviations()
            if not found or max(map(abs, found)) > MAX_DEVIATION_PERCENT:
                missed.append(f"{PREDICTS}: predictions are off by " + ", ".join(f"{each:+.1f} %" for each in found))
        return missed

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": "vllm-prefix",
            "machine": machine(),
            "settings": {"vllm": self.version, "options": self.options, "rounds": self.rounds, "load": vars(self.shape),
                         "model": {"width": WIDTH, "layers": LAYERS}, "cache": self.facts},
            "pickers": {
                name: {
                    "figures": each.figures(),
                    "rounds": each.rounds,
                    "servers": [vars(part) | {"deviation_percent": part.deviation_percent()} for part in each.cached],
                    "learning": [vars(part) | {"deviation_percent": part.deviation_percent()} for part in each.learning],
                }
                for name, each in self.outcomes.items()
            },
            "assumptions": [{"assumed": what, "seen": seen, "holds": holds} for what, seen, holds in self.assumed],
            "missed": self.missed(),
        }  # fmt: skip

    def as_markdown(self) -> str:
        known, shape = machine(), self.shape
        parts = [
            "# What the prefix index predicts, and what vLLM reports",
            "",
            f"{known['cpu']}, {known['cores']} cores. Two vLLM {self.version} on CPU, one thread each"
            f"{', ' + ' '.join(self.options) if self.options else ''}, with a Llama of random weights ({LAYERS} layers of {WIDTH}).",
            "",
            f"- Load: {shape.documents} documents of {shape.document_bytes[0]} to {shape.document_bytes[1]} bytes as system prompts, "
            f"{shape.conversations} conversations about each, {shape.turns} turns each, {shape.clients} clients at a time, streams.",
            f"- Rounds: {self.rounds}. In each, every picker has a fresh daemon and the same texts but for their first words, so that no "
            f"cache knows them. A short load before it, about other documents ({LEARNING.requests()} requests), lets the daemon learn; it is not "
            "counted.",
            "- Hits: `vllm:prefix_cache_hits_total`. Usage: `prompt_tokens_details.cached_tokens`, summed. Predicted: what the scheduler "
            "took for cached when it placed the requests (`evenkeel_backend_cached_prompt_tokens_total`).",
            "- Servers, daemon and clients share the cores with whatever else the machine does: tokens are comparable, times only roughly "
            "(the JSON has those of each round).",
            "",
            "```",
            " ".join(self._command()),
            "```",
            "",
        ]
        if PREDICTS in self.outcomes:
            parts += self._predictions()
        parts += self._pickers()
        parts += ["## What the scheduler assumes of the engine", ""]
        parts += markdown_table(
            ["assumed", "seen", "holds"],
            [[what, seen, "yes" if holds else "no"] for what, seen, holds in self.assumed],
        )
        missed = self.missed()
        parts += ["", "All predictions within 5 %." if not missed else "Missed: " + "; ".join(missed) + ".", ""]
        return "\n".join(parts)

    def _command(self) -> list[str]:
        words = ["bench/run", "vllm-prefix", "--rounds", str(self.rounds)]
        if len(self.outcomes) < len(PICKERS):
            words += ["--only", ",".join(self.outcomes)]
        return words + ([f"--engine-options '{' '.join(self.options)}'"] if self.options else [])

    def _predictions(self) -> list[str]:
        outcome, rows = self.outcomes[PREDICTS], []
        named = [(f"server {number + 1}", part) for number, part in enumerate(outcome.cached)]
        named += [("both", total_of(outcome.cached)), ("both, while learning", total_of(outcome.learning))]
        for name, part in named:
            deviation = part.deviation_percent()
            rows.append([name, f"{part.prompt:,}", f"{part.engine:,}", f"{part.usage:,}", f"{part.predicted or 0:,}",
                         "-" if deviation is None else f"{deviation:+.1f} %"])  # fmt: skip
        titles = ["tokens", "prompts", "hits", "usage", "predicted", "predicted against hits"]
        of_both = [each["deviations_percent"][-1] for each in outcome.rounds]
        rounds = ", ".join("-" if each is None else f"{each:+.1f} %" for each in of_both)
        return ["## Cached tokens with `expected-time`", "", *markdown_table(titles, rows), "", f"Both servers, by round: {rounds}.", ""]

    def _pickers(self) -> list[str]:
        rows = []
        for name, each in self.outcomes.items():
            found = each.figures()
            rows.append([name, f"{found['hit_percent']:.1f} %", f"{found['computed_tokens']:,.0f}", f"{found['ttft_mean_s']:.2f}",
                         f"{found['ttft_p50_s']:.2f}", f"{found['ttft_p95_s']:.2f}", f"{found['queued_mean_s']:.2f}", f"{found['seconds']:.0f}",
                         f"{found['failed']:.0f}"])  # fmt: skip
        titles = ["picker", "hits", "computed tokens", "first token, mean s", "p50", "p95", "of it in evenkeel's queue, mean s", "whole load, s", "failed"]
        rows.sort(key=lambda row: PICKERS.index(row[0]))
        return ["## Pickers", "", *markdown_table(titles, rows), ""]


def main(
    build: Path, results: Path, quick: bool, rounds: int, only: list[str], given: list[str], options: list[str]
) -> int:
    """`given`: addresses of two servers that run already; otherwise they are started with `options` added."""
    os.environ["EVENKEEL_BINARY"] = str(build / "evenkeel")
    _, _, process, _ = e2e_modules()
    if unknown := [name for name in only if name not in PICKERS]:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(PICKERS)}")
    bench = Bench(QUICK if quick else MEASURED, options, rounds)
    with tempfile.TemporaryDirectory(prefix="evenkeel-bench-", ignore_cleanup_errors=True) as home:
        folder = Path(home)
        with contextlib.nullcontext(given) if given else two_servers(options, folder) as addresses:
            servers = [Engine(address) for address in addresses]
            with urllib.request.urlopen(f"http://{addresses[0]}/version", timeout=30) as answer:
                bench.version = json.load(answer)["version"]
            bench.facts = servers[0].facts()
            for number in range(rounds):
                for picker in rotated(list(only or PICKERS), number):
                    say(f"round {number + 1}/{rounds}: {picker}")
                    trial = Trial(process, picker, servers, folder / f"{picker}-{number}")
                    found = trial.run(bench.shape, f"round {number}", f"{picker} {time.time_ns()}")
                    bench.outcomes.setdefault(picker, Outcome(picker)).add(found)
            judged = bench.outcomes.get(PREDICTS) or next(iter(bench.outcomes.values()))
            bench.assumed = assumptions(judged, servers)
    results.mkdir(parents=True, exist_ok=True)
    (results / "vllm-prefix.json").write_text(json.dumps(bench.as_dict(), indent=2) + "\n")
    (results / "vllm-prefix.md").write_text(wrapped(bench.as_markdown()))
    print(bench.as_markdown())
    return 1 if bench.missed() else 0
