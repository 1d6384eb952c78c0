#!/usr/bin/env python3
"""The scheduler without one of its parts: what each part is worth.

    ablations.py --list                  # the names
    ablations.py NAME SOURCE OUT         # src/scheduler/scheduling_pass.cc without the part

The product has no switches for this: bench/CMakeLists.txt compiles changed copies of one source file. A line that is not in
the source exactly once is an error, so an ablation cannot silently be the whole scheduler."""

from __future__ import annotations

import sys
from pathlib import Path

NO_HOLDING = ("held_from = 0.5;", "held_from = 1e9;")
NO_STREAM_PRICE = ("violation_price = 2;", "violation_price = 0;")
NO_LATE_BINDING = ("return std::clamp(2 * speed.coefficients().step, 0.02, 0.15);", "return speed.coefficients().step + 1e9;")

ABLATIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "holding": (NO_HOLDING,),
    "holding-and-streams": (NO_HOLDING, NO_STREAM_PRICE),
    "late-binding": (NO_LATE_BINDING,),
    "late-binding-holding-and-streams": (NO_LATE_BINDING, NO_HOLDING, NO_STREAM_PRICE),
    "shortest-first": (
        (
            "request.least_prefill + ageing * request.arrived_at",
            "request.arrived_at",
        ),
    ),
    "gpu-price": (("gpu_price = 0.5;", "gpu_price = 0;"),),
    "decode-price": (("decode_price = 0.1;", "decode_price = 0;"),),
    "memory-price": (("parts.decode + parts.memory +", "parts.decode +"),),
    "ties": (("tie_ratio = 0.05;", "tie_ratio = 0;"), ("tie_seconds = 0.002;", "tie_seconds = 0;")),
    "lateness": (("parts.ttft + parts.lateness +", "parts.ttft +"),),
    "prefix-index": (
        (
            "std::min(depth * request.tokens_per_block, tokens - 1)",
            "std::min(0 * depth * request.tokens_per_block, tokens - 1)",
        ),
    ),
}


def without(name: str, source: str) -> str:
    for line, changed in ABLATIONS[name]:
        found = source.count(line)
        if found != 1:
            raise ValueError(f"{name}: {found} times in the source: {line}")
        source = source.replace(line, changed)
    return source


def main(words: list[str]) -> int:
    if words == ["--list"]:
        print(";".join(ABLATIONS))
        return 0
    name, source, out = words
    Path(out).write_text(without(name, Path(source).read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
