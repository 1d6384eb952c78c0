"""The tables of figures in README and in the comparison are those that the committed results give."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from harness import readme  # noqa: E402


class Readme(unittest.TestCase):
    def test_tables_are_made_from_the_committed_results(self):
        for mark, (page, _) in readme.TABLES.items():
            text = (ROOT / page).read_text()
            self.assertEqual(text, readme.with_table(text, mark, readme.results_of(ROOT)), "run bench/run proxy, or harness/readme.py's write()")

    def test_another_figure_changes_them(self):
        def changed(name):
            results = readme.results_of(ROOT)(name)
            if name == "proxy":
                results["ratios"]["evenkeel"]["haproxy"]["small_64_cpu_us"] = 7.77
            if name == "kill":
                results["figures"]["evenkeel"]["failed"]["median"] = 77
            return results

        self.assertIn("| 7.77 |", readme.proxy_table(changed))
        self.assertIn("| 77 of 1 984 |", readme.strengths_table(changed))

    def test_the_first_screen_is_free_of_wide_tables_and_of_build_options(self):
        screen = (ROOT / "README.md").read_text().splitlines()[:40]
        self.assertEqual([line for line in screen if line.count("|") > 5 or "pgo" in line.lower()], [])


if __name__ == "__main__":
    unittest.main()
