"""The tables of README.md and docs/guides/comparison.md between their `bench:` marks, made from the committed results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

from .report import OURS, markdown_table

README, COMPARISON = "README.md", "docs/guides/comparison.md"
PEERS = ("haproxy", "nginx", "nghttpx")
HEAD = "evenkeel divided by the other proxy, one worker each (below 1: evenkeel needs less)"
# What the comparison shows of `proxy`: the key of the figure, and its row's title, in which {} is evenkeel's own figure.
ROWS = (
    ("small_64_cpu_us", "CPU per request, HTTP/1.1, 1 KB POST, 64 connections"),
    ("small_64_p50_us", "latency p50, same load"),
    ("h2h1_64x1_cpu_us", "CPU per request, HTTP/2 to HTTP/1.1, 64 connections"),
    ("h2h1_8x16_cpu_us", "CPU per request, HTTP/2 to HTTP/1.1, 8 connections of 16 streams"),
    ("h2h2_64x1_cpu_us", "CPU per request, HTTP/2 to HTTP/2, 64 connections"),
    ("h2h2_8x16_cpu_us", "CPU per request, HTTP/2 to HTTP/2, 8 connections of 16 streams"),
    ("tls_64_cpu_us", "CPU per request, TLS to cleartext, keep-alive, 64 connections"),
    ("sse_cpu_us", "CPU per streamed event, 64 streams"),
    ("long_16_cpu_us", "CPU per request, 220 KB prompts"),
    ("instructions_64", "user instructions per request, HTTP/1.1, 64 connections (evenkeel: {})"),
    ("instructions_h2h1", "user instructions per request, HTTP/2 to HTTP/1.1 (evenkeel: {})"),
    ("idle_bytes", "memory per idle connection (evenkeel: {} bytes)"),
    ("idle_tls_bytes", "memory per idle TLS connection (evenkeel: {} bytes)"),
)
REMARK = """\
evenkeel runs with its defaults (JSON access log, metrics, request ids), the others without logs.
[All figures](../../bench/results/proxy.md) include the targets that evenkeel misses.
"""
# The re-implemented rules of other routers in `picking-replay`, by whose they are.
RULES_OF_OTHERS = {
    "Dynamo": ("dynamo", "dynamo-queue", "dynamo-tuned"),
    "llm-d": ("gaie", "llmd-blend", "llmd-predicted", "llmd-sticky"),
    "SGLang": ("sglang",),
}

Results = Callable[[str], dict[str, Any]]


def proxy_table(results: Results) -> str:
    found = results("proxy")
    ratios, figures = found["ratios"][OURS], found["figures"][OURS]
    rows = []
    for key, title in ROWS:
        own = f"{figures[key]['median']:,.0f}".replace(",", " ")
        values = [ratios.get(peer, {}).get(key) for peer in PEERS]
        rows.append([title.format(own), *("" if ratio is None else f"{ratio:.2f}" for ratio in values)])
    return "\n".join(markdown_table([HEAD, "HAProxy", "nginx", "nghttpx"], rows)) + f"\n\n{REMARK}"


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def kept(results: Results, workload: str) -> list[str]:
    """The requests that kept their promise in real time: ours, and the two rules that general proxies have."""
    runs = results("picking")["real_time"][workload]
    ours, least, robin = (f"{mean(runs[picker]['goodput']):.0f} %" for picker in ("expected-time", "least-connections", "round-robin"))
    return [ours, f"`least-connections` {least}, `round-robin` {robin}", "[real time](bench/results/picking.md)"]


def rules(results: Results) -> list[str]:
    """The same over the nine workloads of the replay, beside the best rule of each of three routers."""
    rows = results("picking-replay")["rows"]

    def goodput(*candidates: str) -> str:
        return f"{100 * max(mean([run['goodput_ratio'] for run in rows[rule].values()]) for rule in candidates):.0f} %"

    others = "the best rules of " + ", ".join(f"{name} {goodput(*candidates)}" for name, candidates in RULES_OF_OTHERS.items())
    return [goodput("expected-time"), others, "[replay](bench/results/picking-replay.md), their rules re-implemented"]


def killed(results: Results) -> list[str]:
    figures = results("kill")["figures"]
    failed = {name: f"{figures[name]['failed']['median']:.0f}" for name in (OURS, "haproxy", "nginx", "envoy", "smg")}
    requests = figures[OURS]["requests"]["median"]
    return [f"{failed[OURS]} of {requests:,.0f}".replace(",", " "),
            f"SMG {failed['smg']}, HAProxy {failed['haproxy']}, nginx {failed['nginx']}, Envoy {failed['envoy']}", "[defaults](bench/results/kill.md)"]


def cost(results: Results) -> list[str]:
    figures = results("rivals")["figures"]
    used = {name: f"{figures[name]['small_64_cpu_us']['median']:.0f}" for name in (OURS, "haproxy", "vllm-router", "sglang-router")}
    placing = figures["evenkeel-expected-time"]["small_64_cpu_us"]["median"]
    return [f"{used[OURS]} us; {placing:.0f} us with `expected-time`", f"HAProxy {used['haproxy']} us, vLLM's router {used['vllm-router']} us, "
            f"SGLang's {used['sglang-router']} us", "[1 KB POST](bench/results/rivals.md)"]


def strengths_table(results: Results) -> str:
    rows = [
        ["requests that keep their promise: conversations on four GPUs", *kept(results, "conversation")],
        ["the same while one GPU is four times as slow", *kept(results, "slows")],
        ["the same, mean of nine workloads on eight GPUs", *rules(results)],
        ["requests that fail when one of two servers is killed", *killed(results)],
        ["processor time of a small request", *cost(results)],
    ]
    return "\n".join(markdown_table(["", "evenkeel", "others", "measured"], rows)) + "\n"


ROUTERS = {"evenkeel": "evenkeel", "evenkeel-expected-time": "evenkeel with `expected-time`", "smg": "SMG",
           "sglang-router": "sglang-router", "vllm-router": "vllm-router"}
ROUTER_ROWS = {"small_64_cpu_us": "1 KB POST", "sse_cpu_us": "streamed event", "long_16_cpu_us": "220 KB prompt"}


def routers_table(results: Results) -> str:
    ratios = results("rivals")["ratios"]
    rows = [[title, *(f"{ratios[name]['haproxy'][key]:.2f}" for name in ROUTERS)] for key, title in ROUTER_ROWS.items()]
    return "\n".join(markdown_table(["", *ROUTERS.values()], rows)) + "\n"


def kill_table(results: Results) -> str:
    figures = results("kill")["figures"]
    rows = [[name, f"{figures[name]['failed']['median']:.0f}", f"{figures[name]['p99_ms']['median']:,.0f}".replace(",", " ")]
            for name in (OURS, "haproxy", "nginx", "envoy", "smg")]
    return "\n".join(markdown_table(["defaults", "failed requests", "p99, ms"], rows)) + "\n"


# The page and the table of each mark.
TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "bench:strengths": (README, strengths_table),
    "bench:proxy": (COMPARISON, proxy_table),
    "bench:routers": (COMPARISON, routers_table),
    "bench:kill": (COMPARISON, kill_table),
}


def with_table(text: str, mark: str, results: Results) -> str:
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{TABLES[mark][0]} has no {begin.strip()} ... {end}")
    return f"{before}{begin}{TABLES[mark][1](results)}{end}{after}"


def results_of(root: Path) -> Results:
    return lambda name: json.loads((root / "bench/results" / f"{name}.json").read_text())


def write(root: Path) -> None:
    for mark, (page, _) in TABLES.items():
        path = root / page
        path.write_text(with_table(path.read_text(), mark, results_of(root)))
