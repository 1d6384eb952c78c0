"""Real inference servers behind evenkeel: conformance.py [NAME...] (see docs/engines.md). Prints what was observed
of each, and keeps the table in docs/engines.md."""

import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import installing  # pylint: disable=wrong-import-position
import observing  # pylint: disable=wrong-import-position
import servers  # pylint: disable=wrong-import-position

PAGE = installing.ROOT / "docs" / "engines.md"
BEGIN, END = "<!-- what was seen: begin -->", "<!-- what was seen: end -->"
ALWAYS = ("triton", "mlserver")


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


def row_of(kind, version, seen):
    cells = [f"{kind.title} {version}"]
    for column in observing.COLUMNS:
        missing = "none known" if column == "trapped" else "not seen"
        cells.append(" ".join(str(seen.get(column, missing)).split()).replace("|", "\\|"))
    return "| " + " | ".join(cells) + " |"


def keep(rows):
    """Rows of other engines stay as they were."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    head, _, *body = (line for line in table.splitlines() if line.startswith("|"))
    known = {line.split("|")[1].split()[0]: line for line in body}
    known.update({kind.title.split()[0]: row for kind, row in rows})
    order = [kind.title.split()[0] for kind in servers.ENGINES.values()]
    columns = head.count("|") - 1
    lines = [head, "|" + "---|" * columns, *(known[each] for each in order if each in known)]
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + after)


def main(names):
    strangers = [each for each in names if each not in servers.ENGINES]
    if strangers:
        print(f"no such engine: {', '.join(strangers)}; there are {', '.join(servers.ENGINES)}", file=sys.stderr)
        return 2
    failed, rows = False, []
    for name in names or ALWAYS:
        kind = servers.ENGINES[name]
        why_not = kind.why_not()
        if why_not:
            print(f"skip  {kind.title:<10}  {why_not}", flush=True)
            failed = True  # it was asked for
            continue
        version, seen = observe(kind)
        failed |= any(not each.passed for each in seen.values())
        if version:  # else it has not even come up
            rows.append((kind, row_of(kind, version, seen)))
    if rows:
        keep(rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
