"""split_debug_info() of CMakeLists.txt: a stripped binary that runs, and its debug information beside it.

    split_debug_test.py BINARY OBJCOPY
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

BINARY, OBJCOPY = (pathlib.Path(argument) for argument in sys.argv[1:3])


def section(binary, name):
    """The bytes of a section; None: the file has no such section."""
    with tempfile.TemporaryDirectory() as folder:
        dump = pathlib.Path(folder) / "section"
        subprocess.run([OBJCOPY, f"--dump-section={name}={dump}", binary, pathlib.Path(folder) / "copy"],
                       stderr=subprocess.DEVNULL, check=False)
        return dump.read_bytes() if dump.exists() else None


class SplitDebug(unittest.TestCase):
    def test_the_binary_runs_without_debug_information(self):
        self.assertIsNone(section(BINARY, ".debug_info"))
        self.assertEqual(subprocess.run([BINARY], capture_output=True, text=True, check=True).stdout, "runs\n")

    def test_the_debug_file_beside_it_has_the_information(self):
        self.assertTrue(section(BINARY.with_name(BINARY.name + ".debug"), ".debug_info"))

    def test_the_binary_names_its_debug_file(self):
        link = section(BINARY, ".gnu_debuglink")
        self.assertEqual(link.split(b"\0")[0].decode(), BINARY.name + ".debug")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
