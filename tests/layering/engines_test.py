"""An engine is one file in src/inference/engines, one line of the table there, and a row in each table of docs/engines.md."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENGINES = ROOT / "src/inference/engines"


def listed():
    table = (ENGINES / "engines.h").read_text().partition("engine_table[] = {")[2].partition("}")[0]
    return re.findall(r"&(\w+)_engine\b", table)


class EnginesTest(unittest.TestCase):
    def test_every_engine_of_the_table_has_its_file(self):
        self.assertGreater(len(listed()), 10)
        files = {path.stem for path in ENGINES.glob("*.cc")}
        self.assertEqual(set(listed()), files - {"kserve"})

    def test_the_page_says_how_each_is_detected_and_checked(self):
        page = (ROOT / "docs/engines.md").read_text()
        for heading in ("| engine | evidence |", "| engine | check |"):
            rows = page.partition(heading)[2].partition("\n\n")[0]
            self.assertCountEqual(re.findall(r"^\| `(\w+)` \|", rows, re.M), listed(), heading)


if __name__ == "__main__":
    unittest.main()
