"""A picker is one line in config/picker_list.h, one file in src/picker, one test, and one row in docs/balancing.md."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def text(path):
    return (ROOT / path).read_text()


def listed():
    """Name in the file and name of the factory, as the list has them."""
    return re.findall(r'^  PICKER\("([a-z-]+)", ([a-z_]+)\)', text("include/evenkeel/config/picker_list.h"), re.M)


class PickersTest(unittest.TestCase):
    def test_every_line_of_the_list_has_its_file_and_every_file_its_line(self):
        files = {}
        for path in (ROOT / "src/picker").glob("*.cc"):
            for factory in re.findall(r"^PickerFactory pickers::([a-z_]+)\(", path.read_text(), re.M):
                files[factory] = path.stem
        self.assertGreaterEqual(len(files), 7)
        self.assertEqual(files, {factory: factory for _, factory in listed()})

    def test_every_picker_has_a_test_of_its_own(self):
        for _, factory in listed():
            self.assertTrue(list(ROOT.glob(f"tests/p*/{factory}_test.cc")), factory)

    def test_the_page_describes_every_picker_once(self):
        table = text("docs/balancing.md").partition("| picker | rule | use it for |\n")[2].partition("\n\n")[0]
        rows = re.findall(r"^\| `([a-z-]+)`(?: \(default\))? \| ", table, re.M)
        self.assertCountEqual(rows, [name for name, _ in listed()])

    def test_the_configuration_reference_names_every_picker(self):
        (row,) = re.findall(r"^\| `picker` \|.*$", text("docs/configuration.md"), re.M)
        words = re.findall(r"`([a-z-]+)`", row.split("|")[2])
        self.assertEqual(words, [name for name, _ in listed()])


if __name__ == "__main__":
    unittest.main()
