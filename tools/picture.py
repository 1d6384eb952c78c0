#!/usr/bin/env python3
"""Draws docs/picture.svg: requests in flight on the demo's four simulated GPUs, second by second, with each of three
pickers, while the fastest GPU becomes four times as slow.

    tools/picture.py [--evenkeel build/release/evenkeel] [--seconds 60] [--rate 26]

Runs `evenkeel demo` once per picker, one after another (about four minutes), and draws what the daemon's history
(/api/v1/history) and the demo's report say. Run it on a machine that does nothing else.
"""

import argparse
import json
import pathlib
import re
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
PICKERS = ("round-robin", "least-connections", "expected-time")
SLOW_FACTOR = 4
LEVELS = (0, 2, 4, 8, 12, 20, 30, 45)  # requests in flight from which on a cell is darker
LIGHT = ("#eef3f8", "#cfe3ef", "#a3cbe2", "#6ba9cd", "#f4c95d", "#ee9b4a", "#dd5f3c", "#a92c2c")
CELL, ROW, LEFT, TOP, PANEL = 10, 16, 118, 72, 4 * 16 + 40


def fetched(url, body=None):
    request = urllib.request.Request(url, data=body, method="PUT" if body else "GET")
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)


def lines_until(process, end):
    for line in process.stdout:
        yield line
        if end in line:
            return


def recorded(evenkeel, picker, seconds, rate):
    """What one demo was like: GPUs by name, with the requests in flight in each second, and its p99 of the first token."""
    command = [evenkeel, "demo", "--seconds", str(seconds), "--picker", picker, "--rate", str(rate), "--seed", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    head = "".join(lines_until(process, "  try "))
    admin = re.search(r"admin +(http://[\d.:]+)", head)[1]
    gpus = dict(re.findall(r"simulator +http://([\d.:]+) +(.+)", head))
    fault = re.search(r"'(http://\S+/sim/v1/state\?server=sim-0)'", head)[1]
    time.sleep(seconds / 3)
    fetched(fault, json.dumps({"fault": "slow", "slow_factor": SLOW_FACTOR}).encode())
    time.sleep(seconds * 2 / 3 - 1.5)
    history = fetched(f"{admin}/api/v1/history?metric=in_flight")["backends"]
    report = process.communicate(timeout=300)[0]
    p99 = re.search(r"first token \(TTFT\) +(?:[\d.]+ \S+ +){3}([\d.]+ \S+)", report)[1]
    counts = {each["id"]: [value or 0 for value in each["values"][2 - seconds:]] for each in history}
    return [(name, counts[address]) for address, name in gpus.items()], p99


def cells(gpus, top):
    """A path for each level of load."""
    paths = [""] * len(LEVELS)
    for row, (_, counts) in enumerate(gpus):
        for second, count in enumerate(counts):
            level = max(index for index, least in enumerate(LEVELS) if count >= least)
            paths[level] += f"M{LEFT + second * CELL} {top + row * ROW}h{CELL - 1}v{ROW - 2}h-{CELL - 1}z"
    return "".join(f'<path class="l{level}" d="{path}"/>' for level, path in enumerate(paths) if path)


def panel(picker, gpus, p99, top):
    names = "".join(f'<text class="s" x="{LEFT - 8}" y="{top + 24 + row * ROW}" text-anchor="end">{name}</text>'
                    for row, (name, _) in enumerate(gpus))
    return (f'<text class="b" x="{LEFT}" y="{top + 4}">{picker}</text>'
            f'<text class="s" x="{LEFT + 150}" y="{top + 4}">99 % of first tokens within {p99}</text>{names}{cells(gpus, top + 12)}')


def picture(runs, seconds, rate):
    width, height = LEFT + (seconds - 2) * CELL + 20, TOP + PANEL * len(runs) + 30
    panels = "".join(panel(picker, gpus, p99, TOP + PANEL * at) for at, (picker, (gpus, p99)) in enumerate(runs.items()))
    colors = "".join(f".l{level}{{fill:{color}}}" for level, color in enumerate(LIGHT))
    slow = LEFT + seconds // 3 * CELL
    covers = "".join(f'<rect class="c p" x="{LEFT}" y="{TOP + PANEL * at + 10}" width="{(seconds - 2) * CELL}" height="{4 * ROW + 2}"/>'
                     for at in range(len(runs)))
    bottom = height - 24
    scale = f'<text class="s" x="{LEFT - 8}" y="{bottom + 8}" text-anchor="end">in flight</text>'
    for level, least in enumerate(LEVELS):
        more = "+" if least == LEVELS[-1] else ""
        scale += (f'<rect class="l{level}" x="{LEFT + level * 44}" y="{bottom}" width="16" height="9"/>'
                  f'<text class="s" x="{LEFT + level * 44 + 20}" y="{bottom + 9}">{least}{more}</text>')
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" role="img">
<title>Requests in flight on four simulated GPUs, second by second, with three load-balancing policies</title>
<style>
.p{{fill:#fff}}text{{fill:#1f2933}}.b{{font-size:13px;font-weight:600}}.s{{font-size:11px}}.t{{font-size:9px}}{colors}
.c{{transform-box:fill-box;transform-origin:right;animation:sweep 14s steps({seconds},end) infinite;transform:scaleX(0)}}
@keyframes sweep{{0%{{transform:scaleX(1)}}60%,100%{{transform:scaleX(0)}}}}
.m{{stroke:#1f2933;stroke-dasharray:3 3;fill:none}}
@media (prefers-reduced-motion){{.c{{animation:none}}}}
@media (prefers-color-scheme:dark){{.p{{fill:#0d1117}}text{{fill:#d7dee6}}.m{{stroke:#d7dee6}}.l0{{fill:#1b2733}}.l1{{fill:#1f4257}}.l2{{fill:#2a6480}}.l3{{fill:#3f8fb5}}}}
</style>
<rect class="p" width="{width}" height="{height}" rx="6"/>
<text class="b" x="16" y="26">The same {rate} requests a second on four GPUs of unequal speed</text>
<text class="s" x="16" y="42">requests in flight on each, second by second; the fastest GPU becomes {SLOW_FACTOR} times as slow at the dashed line</text>
{scale}
{panels}
<path class="m" d="M{slow} {TOP - 8}V{height - 34}"/>
{covers}
</svg>
"""


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--evenkeel", default=str(ROOT / "build/release/evenkeel"))
    options.add_argument("--seconds", type=int, default=60)
    options.add_argument("--rate", type=int, default=26, help="requests per second")
    options.add_argument("--output", type=pathlib.Path, default=ROOT / "docs/picture.svg")
    options = options.parse_args()
    runs = {picker: recorded(options.evenkeel, picker, options.seconds, options.rate) for picker in PICKERS}
    for picker, (gpus, p99) in runs.items():
        print(picker, p99, {name: counts[-1] for name, counts in gpus})
    options.output.write_text(picture(runs, options.seconds, options.rate))


if __name__ == "__main__":
    main()
