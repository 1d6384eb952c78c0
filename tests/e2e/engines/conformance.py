"""Real inference servers behind evenkeel: conformance.py [NAME...] (see bench/results/engines.md). Prints what
was observed of each, and updates its list in that page."""

import pathlib
import re
import sys
import tempfile
import textwrap
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import installing  # pylint: disable=wrong-import-position
import observing  # pylint: disable=wrong-import-position
import servers  # pylint: disable=wrong-import-position
import shapes  # pylint: disable=wrong-import-position

PAGE = installing.ROOT / "bench" / "results" / "engines.md"
BEGIN, END = "<!-- observations: begin -->", "<!-- observations: end -->"
DEFAULT = ("triton", "mlserver")
LABELS = {
    "detected": "detection",
    "loading": "start-up",
    "trapped": "misleading readiness",
    "polled": "polling",
    "balanced": "balancing",
    "streamed": "first token",
    "odd": "odd requests",
    "kept": "connections",
    "left": "departure",
    "inspected": "inspection",
    "killed": "kill -9",
    "stopped": "SIGTERM",
    "broken": "broken engine",
}


def observe(kind):
    """(version, {column: Sighting})."""
    seen = {}
    with tempfile.TemporaryDirectory(prefix="evenkeel-e2e-", ignore_cleanup_errors=True) as folder:
        trial = observing.Trial(kind, folder)
        try:
            began = time.monotonic()
            for column, sighting in trial.observe():
                now = time.monotonic()
                print(f"{'pass' if sighting.passed else 'FAIL'}  {kind.title:<10}  {column:<8}  {sighting}  "
                      f"[{now - began:.0f} s]", flush=True)
                seen[column] = sighting
                began = now
        finally:
            trial.close()
        return trial.version, seen


def section_of(kind, version, seen):
    """The engine's list in the page: a heading and an item per observation."""
    lines = [f"### {kind.title} {version}", ""]
    for column in observing.COLUMNS:
        missing = "no case known" if column in ("trapped", "broken") else "not observed"
        item = f"- **{LABELS[column]}**: {seen.get(column, missing)}"
        lines.append(textwrap.fill(item, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False))
    return "\n".join(lines)


def first_word(section):
    """The first word of the engine's title, which is unique."""
    return section.removeprefix("### ").split()[0]


def keep(sections):
    """Writes these sections into the page; those of other engines stay as they are."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    body, _, after = rest.partition(END)
    known = {first_word(each): each.strip() for each in re.split(r"^(?=### )", body, flags=re.M) if each.strip()}
    known.update({first_word(each): each for each in sections})
    order = [kind.title.split()[0] for kind in servers.ENGINES.values()]
    text = "\n\n".join(known[each] for each in order if each in known)
    PAGE.write_text(before + BEGIN + "\n" + text + "\n" + END + after)


def main(names):
    unknown = [each for each in names if each not in servers.ENGINES]
    if unknown:
        print(f"unknown engine: {', '.join(unknown)}; known: {', '.join(servers.ENGINES)}", file=sys.stderr)
        return 2
    failed, sections = False, []
    for name in names or DEFAULT:
        kind = servers.ENGINES[name]
        why_not = kind.why_not() or shapes.why_not()
        if why_not:
            print(f"skip  {kind.title:<10}  {why_not}", flush=True)
            failed = True  # it was requested by name
            continue
        version, seen = observe(kind)
        failed |= any(not each.passed for each in seen.values())
        if version:  # otherwise it never started
            sections.append(section_of(kind, version, seen))
    if sections:
        keep(sections)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
