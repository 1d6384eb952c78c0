"""Every link in the Markdown pages leads somewhere, and their lines wrap at 100 columns."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTH = 100
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"\b(?:docs|bench/results)/[\w/-]+\.md\b")
PAGES = 17  # hand-written ones directly in docs/, besides the changelog
GENERATED = ("configuration.md", "reasons.md")  # from tables in the code; they are looked up, not read
FOLDERS = ("guides", "observability")  # of docs/ with pages: one task each, and the runbooks
GUIDE_LINES = 120  # of a guide: commands to copy, not a manual


def pages(root=ROOT):
    """The Markdown pages by their path, without those of build folders."""
    for path in sorted(root.rglob("*.md")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(("build/", ".")) and "/node_modules/" not in name:
            yield name, path.read_text()


def prose(text):
    """(number, line) of the lines outside code blocks."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchor(heading):
    """The anchor of a heading as GitHub makes it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(text):
    found = {}
    for _, line in prose(text):
        if heading := re.match(r"#+ (.*)", line):
            name = anchor(heading[1])
            found[name] = found.get(name, -1) + 1
            yield name if found[name] == 0 else f"{name}-{found[name]}"


def broken_links(name, text, root=ROOT):
    lines = dict(prose(text))
    whole = "\n".join(re.sub(r"`[^`]*`", "``", lines.get(number, "")) for number in range(1, max(lines) + 1))
    for link in LINK.finditer(whole):
        target = link[1]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, wanted = target.partition("#")
        page = (root / name).parent / path if path else root / name
        number = whole.count("\n", 0, link.end()) + 1
        if not page.exists():
            yield f"{name}:{number}: {target}: no such file"
        elif wanted and wanted not in anchors(page.read_text() if path else text):
            yield f"{name}:{number}: {target}: no such heading"


def too_long(name, text):
    for number, line in prose(text):
        unbreakable = line.lstrip().startswith(("|", "<!--")) or " " not in line.strip().lstrip("-*#> ")
        if len(line) > WIDTH and not unbreakable:
            yield f"{name}:{number}: {len(line)} columns"


class Pages(unittest.TestCase):
    def test_every_link_leads_to_a_file_and_a_heading(self):
        found = [each for name, text in pages() for each in broken_links(name, text)]
        self.assertEqual([], found)

    def test_lines_wrap(self):
        found = [each for name, text in pages() for each in too_long(name, text)]
        self.assertEqual([], found)

    def test_pages_that_are_named_exist(self):
        found = []
        for folder in ("src", "include", "tests", "bench", "tools", "docker", "config"):
            for path in sorted((ROOT / folder).rglob("*")):
                if path.suffix in (".cc", ".h", ".py", ".txt", ".yml", ".yaml", ".service", ".sh"):
                    found += [f"{path.relative_to(ROOT)}: {each}" for each in NAMED.findall(path.read_text()) if not (ROOT / each).exists()]
        for name, text in pages():
            found += [f"{name}: {each}" for each in NAMED.findall(text) if not (ROOT / each).exists()]
        self.assertEqual([], found)

    def test_documentation_stays_small_enough_to_be_read(self):
        names = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
        read = sorted(name for name in names if "/" not in name and name not in ("CHANGELOG.md", *GENERATED))
        self.assertLessEqual(len(read), PAGES, read)
        self.assertLessEqual({name.split("/")[0] for name in names if "/" in name}, set(FOLDERS))

    def test_guides_stay_short(self):
        lengths = {path.name: len(path.read_text().splitlines()) for path in (ROOT / "docs" / "guides").glob("*.md")}
        self.assertEqual({}, {name: lines for name, lines in lengths.items() if lines > GUIDE_LINES})

    def test_the_checks_find_what_is_wrong(self):
        text = "# A page\n\n## `x`: the y\n\n## Twice\n\n## Twice\n\n[a](#x-the-y) [b](#twice-1) [c](#gone) [d](gone.md)\n" + "word " * 21
        self.assertEqual([each.split(": ", 1)[1] for each in broken_links("README.md", text)],
                         ["#gone: no such heading", "gone.md: no such file"])
        self.assertEqual(list(anchors(text)), ["a-page", "x-the-y", "twice", "twice-1"])
        self.assertEqual(list(too_long("page.md", text)), ["page.md:10: 105 columns"])


if __name__ == "__main__":
    unittest.main()
