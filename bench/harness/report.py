"""The JSON file and the Markdown table of a campaign."""

from __future__ import annotations

import json
import platform
import textwrap
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .figures import Figures, Verdict, judge
from .measures import Measure
from .rounds import DIRECT

OURS = "evenkeel"
YARDSTICK = "haproxy"  # the peer that the others are measured by


@dataclass
class Report:
    """The contents of a results file."""

    name: str
    title: str
    settings: dict[str, Any]
    contenders: list[str]  # in the table's order, the absent ones too
    versions: dict[str, str]
    absent: dict[str, str]  # contender -> why it was not measured
    measures: list[Measure]
    figures: Figures
    busy: Figures
    errors: dict[str, dict[str, int]]
    remarks: list[str] = field(default_factory=list)
    ours: str = OURS  # the contender whose ratios to the others are shown

    def verdicts(self) -> list[Verdict]:
        judged = (judge(self.figures, self.ours, measure) for measure in self.measures)
        return [verdict for verdict in judged if verdict]

    def present(self) -> list[str]:
        return [name for name in self.contenders if name not in self.absent]

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        as_json = json.dumps(self.as_dict(), indent=2)
        (folder / f"{self.name}.json").write_text(as_json + "\n")
        (folder / f"{self.name}.md").write_text(wrapped(self.as_markdown()))

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "machine": machine(),
            "settings": self.settings,
            "versions": self.versions,
            "absent": self.absent,
            "units": {measure.key: measure.unit for measure in self.measures},
            "figures": {name: self._figures_of(name) for name in [*self.present(), DIRECT]},
            "ratios": {name: self._ratios_of(name) for name in self.present()},
            "core_busy": {name: self._busy_of(name) for name in self.present()},
            "errors": self.errors,
            "targets": [asdict(verdict) for verdict in self.verdicts()],
        }

    def _figures_of(self, name: str) -> dict[str, Any]:
        measured = self.figures.values.get(name, {})
        return {
            key: {"median": self.figures.median(name, key), "rounds": list(rounds.values())}
            for key, rounds in measured.items()
        }

    def _ratios_of(self, name: str) -> dict[str, dict[str, float]]:
        ratios: dict[str, dict[str, float]] = {}
        for peer in self.present():
            for measure in self.measures:
                ratio = self.figures.ratio(name, peer, measure.key) if peer != name else None
                if ratio is not None:
                    ratios.setdefault(peer, {})[measure.key] = round(ratio, 4)
        return ratios

    def _busy_of(self, name: str) -> dict[str, float | None]:
        return {key: self.busy.median(name, key) for key in self.busy.values.get(name, {})}

    def as_markdown(self) -> str:
        parts = [f"# {self.title}", "", self._setting_line(), ""]
        parts += [f"- {remark}" for remark in self.remarks]
        parts += ["", *self._table(), ""]
        if YARDSTICK in self.present() and len(self.present()) > 1:
            parts += [f"## Multiples of {YARDSTICK}", "", *self._yardstick_table(), ""]
        if any(verdict.met is not None for verdict in self.verdicts()):
            parts += ["## Targets", "", *self._target_table(), ""]
        if self.absent:
            parts += ["## Not measured", ""]
            parts += [f"- {name}: {reason}" for name, reason in self.absent.items()] + [""]
        if self.errors:
            parts += [
                "## Failures",
                "",
                "Requests or connections that failed, over all rounds:",
                "",
            ]
            parts += [f"- {name}: {_counts(kinds)}" for name, kinds in self.errors.items()] + [""]
        return "\n".join(parts)

    def _setting_line(self) -> str:
        about = machine()
        versions = "; ".join(f"{name}: {text}" for name, text in self.versions.items() if text)
        rounds = f"{self.settings['rounds']} rounds of {self.settings['seconds']:g} s"
        return (
            f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}; {rounds}. {versions}"
        )

    def _table(self) -> list[str]:
        names = [*self.present(), DIRECT]
        peers = [name for name in self.present() if name != self.ours and self.ours in self.present()]
        rows = []
        for measure in self.measures:
            unit = f" ({measure.unit})" if measure.unit else ""
            cells = [self._cell(name, measure) for name in names]
            cells += [self._ratio_cell(peer, measure) for peer in peers]
            if any(cell != "-" for cell in cells):
                rows.append([measure.title + unit, *cells])
        return markdown_table(["", *names, *(f"{self.ours} / {peer}" for peer in peers)], rows)

    def _yardstick_table(self) -> list[str]:
        names = [name for name in self.present() if name != YARDSTICK]
        rows = []
        for measure in self.measures:
            ratios = [self.figures.ratio(name, YARDSTICK, measure.key) for name in names]
            if any(ratio is not None for ratio in ratios):
                cells = ["-" if ratio is None else f"{ratio:,.2f}" for ratio in ratios]
                rows.append([measure.title, *cells])
        return markdown_table(["", *names], rows)

    def _cell(self, name: str, measure: Measure) -> str:
        value = self.figures.median(name, measure.key)
        return "-" if value is None else f"{value:,.{measure.decimals}f}"

    def _ratio_cell(self, peer: str, measure: Measure) -> str:
        ratio = self.figures.ratio(self.ours, peer, measure.key)
        return "-" if ratio is None else f"{ratio:.2f}"

    def _target_table(self) -> list[str]:
        titles = {measure.key: measure.title for measure in self.measures}
        words = {True: "met", False: "**missed**", None: "not measured"}
        rows = [
            [
                titles[verdict.measure],
                verdict.target,
                "-" if verdict.reached is None else f"{verdict.reached:,.2f}",
                words[verdict.met],
            ]
            for verdict in self.verdicts()
        ]
        return markdown_table(["", "target", "reached", ""], rows)


def markdown_table(columns: list[str], rows: list[list[str]]) -> list[str]:
    rule = ["---", *("---:" for _ in columns[1:])]
    return ["| " + " | ".join(cells) + " |" for cells in [columns, rule, *rows]]


def wrapped(markdown: str) -> str:
    """Wraps paragraphs and list items, of one line each, at 100 columns. Tables stay as they are."""
    lines = []
    for line in markdown.split("\n"):
        item = "  " if line.startswith("- ") else ""
        kept = len(line) <= 100 or line.startswith(("|", "#"))
        lines += [line] if kept else textwrap.wrap(line, 100, subsequent_indent=item, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    cpu = "unknown CPU"
    cores = 0
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        cores += name.strip() == "processor"
        if name.strip() == "model name":
            cpu = value.strip()
    return {"cpu": cpu, "cores": cores, "kernel": platform.release()}


def _counts(kinds: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())
