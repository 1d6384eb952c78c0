"""README's table of figures is the one that the committed results give."""

import json
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from harness import readme  # noqa: E402


class Readme(unittest.TestCase):
    def test_its_table_is_made_from_the_committed_results(self):
        text = (ROOT / "README.md").read_text()
        results = json.loads((ROOT / "bench/results/proxy.json").read_text())
        self.assertEqual(text, readme.with_table(text, results), "run bench/run proxy, or harness/readme.py's write()")

    def test_another_figure_changes_it(self):
        text = (ROOT / "README.md").read_text()
        results = json.loads((ROOT / "bench/results/proxy.json").read_text())
        results["ratios"]["evenkeel"]["haproxy"]["small_64_cpu_us"] = 7.77
        self.assertIn("| 7.77 |", readme.with_table(text, results))


if __name__ == "__main__":
    unittest.main()
