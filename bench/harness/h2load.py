"""h2load, the clients for protocols that bench_load does not support: HTTP/2, and HTTP/1.1 over TLS."""

from __future__ import annotations

import re
import statistics
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .process import Children
from .ways import Protocol

PATH = "/v1/chat/completions"
WARM_UP_SECONDS = 0.5  # connecting, handshakes and growing are not in the figures
PATIENCE_SECONDS = 60
CIPHER = "TLS_AES_128_GCM_SHA256"  # the only one offered, so that all contenders use it

BEGUN = "Main benchmark duration is started"
ENDED = "Main benchmark duration is over"


class Broken(RuntimeError):
    """h2load did not run to its end; with its last output."""


def run(
    children: Children,
    core: int,
    front: Protocol,
    address: str,
    flags: list[str],
    folder: Path,
    *,
    seconds: float | None = None,
    meter: Callable[[], float] = lambda: 0.0,
) -> tuple[dict[str, Any], float]:
    """Runs for `seconds`, or (None) until the `-n` of the flags are answered. Returns the results, with bench_load's
    names, and the growth of `meter` while it measured."""
    times = folder / "h2load.times"
    times.unlink(missing_ok=True)
    argv = ["stdbuf", "-oL", "h2load", "--threads", "1", *_body(folder), *_speaking(front)]
    if seconds is not None:
        argv += ["--duration", f"{int(seconds * 1000)}ms"]
        argv += ["--warm-up-time", f"{int(WARM_UP_SECONDS * 1000)}ms", "--log-file", str(times)]
    scheme = "https" if front is Protocol.HTTP1_TLS else "http"
    argv += [*flags, f"{scheme}://{address}{PATH}"]
    process = children.start(argv, core, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        text, risen = _listen(process, meter)
        process.wait(PATIENCE_SECONDS)
    finally:
        children.stop(process)
    report = read_totals(text)
    if process.returncode != 0 or report is None:
        raise Broken(f"h2load failed: {' '.join(text[-800:].split())}")
    report["latency_us"] = quantiles(times) if seconds is not None else {}
    if seconds is not None:
        report["seconds"] = seconds
        report["requests_per_second"] = report["requests"] / seconds
    return report, risen


def _listen(process: subprocess.Popen[str], meter: Callable[[], float]) -> tuple[str, float]:
    assert process.stdout
    text = ""
    begun = ended = meter()
    for line in process.stdout:
        text += line
        if line.startswith(BEGUN):
            begun = meter()
        elif line.startswith(ENDED):
            ended = meter()
    return text, ended - begun


def _body(folder: Path) -> list[str]:
    """A POST of 1 KB, the same each time."""
    path = folder / "h2load.body"
    front, back = '{"model":"bench","messages":[{"role":"user","content":"', '"}]}'
    path.write_text(front + "x" * (1024 - len(front) - len(back)) + back)
    return ["--data", str(path), "--header", "content-type: application/json"]


def _speaking(front: Protocol) -> list[str]:
    match front:
        case Protocol.HTTP2:
            return ["--no-tls-proto", "h2c"]
        case Protocol.HTTP1_TLS:
            return ["--h1", "--tls13-ciphers", CIPHER]
        case Protocol.HTTP1:
            return ["--h1"]


def read_totals(text: str) -> dict[str, Any] | None:
    """h2load's summary; None: it ended early. Failed requests have a status other than 2xx, or were reset or lost; requests
    in flight at the end of a timed run do not count."""
    totals = re.search(
        r"^requests: \d+ total, \d+ started, (\d+) done, \d+ succeeded, (\d+) failed",
        text,
        re.MULTILINE,
    )
    if not totals:
        return None
    done, failed = map(int, totals.groups())
    return {"requests": done, "errors": {"failed": failed}}


def quantiles(times: Path) -> dict[str, float]:
    """Reads a file with a line per request: start time, status, microseconds."""
    found = sorted(int(line.rsplit("\t", 1)[1]) for line in times.read_text().splitlines())
    if len(found) < 2:
        return {"p50": 0.0, "p99": 0.0, "max": 0.0}
    cuts = statistics.quantiles(found, n=100)
    return {"p50": cuts[49], "p99": cuts[98], "max": float(found[-1])}
