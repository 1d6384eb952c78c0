"""The table of README.md between its `bench:proxy` marks, made from the committed results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .report import OURS, markdown_table

BEGIN, END = "<!-- bench:proxy -->\n", "<!-- /bench:proxy -->"
PEERS = ("haproxy", "nginx", "nghttpx")
HEAD = "evenkeel divided by the other proxy, one worker each (below 1: evenkeel needs less)"
# What README shows: the key of the figure, and its row's title, in which {} is evenkeel's own figure.
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
[All figures](bench/results/proxy.md) include the targets that evenkeel misses.
"""


def table(results: dict[str, Any]) -> str:
    ratios, figures = results["ratios"][OURS], results["figures"][OURS]
    rows = []
    for key, title in ROWS:
        own = f"{figures[key]['median']:,.0f}".replace(",", " ")
        found = [ratios.get(peer, {}).get(key) for peer in PEERS]
        rows.append([title.format(own), *("" if ratio is None else f"{ratio:.2f}" for ratio in found)])
    return "\n".join(markdown_table([HEAD, "HAProxy", "nginx", "nghttpx"], rows))


def with_table(text: str, results: dict[str, Any]) -> str:
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"README.md has no {BEGIN.strip()} ... {END}")
    return f"{before}{BEGIN}{table(results)}\n\n{REMARK}{END}{after}"


def write(root: Path) -> None:
    readme = root / "README.md"
    results = json.loads((root / "bench/results/proxy.json").read_text())
    readme.write_text(with_table(readme.read_text(), results))
