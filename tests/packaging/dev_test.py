"""`./dev build release --pgo`, with programs in the place of cmake and of the training that only note their calls.

    dev_test.py DEV
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

DEV = pathlib.Path(sys.argv[1])

# Notes its arguments; builds what is missing, or older than the file `source`.
CMAKE = """#!/bin/sh
[ "$1" = --build ] || exit 0
echo "build $2 $4" >>calls
shift; folder=$1; shift 2
for target; do
  [ "$folder/$target" -nt source ] || touch "$folder/$target"
done
"""
TRAIN = """#!/bin/sh
echo "train $*" >>calls
[ ! -e fail ] || exit 1
mkdir -p build/profile
"""
DPKG_QUERY = """#!/bin/sh
for package; do echo "ii $package"; done
"""

TOOLS = "build build/release bench_origin"
TRAINING = "build build/release-training evenkeel"
TRAIN_CALL = "train build/release-training build/release"
USE = "build build/release-pgo evenkeel"


class ProfileGuidedBuild(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copy(DEV, self.root / "dev")
        shutil.copytree(DEV.parent / "tools", self.root / "tools")
        (self.root / "source").touch()
        for path, text in (("bin/cmake", CMAKE), ("bin/dpkg-query", DPKG_QUERY), ("bench/train", TRAIN)):
            (self.root / path).parent.mkdir(exist_ok=True)
            (self.root / path).write_text(text)
            (self.root / path).chmod(0o755)

    def run_dev(self, *arguments):
        """The exit status, and what was called."""
        calls = self.root / "calls"
        calls.write_text("")
        status = subprocess.run([self.root / "dev", *arguments], capture_output=True, stdin=subprocess.DEVNULL, check=False,
                                env=os.environ | {"PATH": f"{self.root}/bin:{os.environ['PATH']}"}).returncode
        return status, calls.read_text().splitlines()

    def make_newer(self, path):
        """By more than the clock of the file system may hide."""
        newest = max(each.stat().st_mtime for each in self.root.rglob("*"))
        os.utime(self.root / path, (newest + 1, newest + 1))

    def test_it_is_trained_before_it_is_compiled_for_use(self):
        self.assertEqual(self.run_dev("build", "release", "--pgo"), (0, [TOOLS, TRAINING, TRAIN_CALL, USE]))

    def test_the_profile_is_kept_until_the_sources_change(self):
        self.run_dev("build", "release", "--pgo")
        self.make_newer("build/profile/complete")
        self.assertEqual(self.run_dev("build", "release", "--pgo"), (0, [TOOLS, TRAINING, USE]))
        leftover = self.root / "build/release-pgo/compiled-with-the-old-profile"
        leftover.touch()
        self.make_newer("build/release-training/evenkeel")
        self.assertEqual(self.run_dev("build", "release", "--pgo"), (0, [TOOLS, TRAINING, TRAIN_CALL, USE]))
        self.assertFalse(leftover.exists())

    def test_a_training_that_failed_is_repeated(self):
        (self.root / "fail").touch()
        self.assertEqual(self.run_dev("build", "release", "--pgo"), (1, [TOOLS, TRAINING, TRAIN_CALL]))
        (self.root / "fail").unlink()
        self.assertEqual(self.run_dev("build", "release", "--pgo")[1], [TOOLS, TRAINING, TRAIN_CALL, USE])

    def test_it_takes_no_targets(self):
        self.assertEqual(self.run_dev("build", "release", "--pgo", "evenkeel"), (2, []))


    def test_a_package_is_of_a_commit_and_takes_few_words(self):
        for arguments in (["--pgo"], ["--profile"], ["--no-pgo", "x"], ["tset"]):
            self.assertEqual(self.run_dev("package", *arguments), (2, []), arguments)
        self.assertEqual(self.run_dev("package", "--profile", "missing"), (1, []))
        self.assertEqual(self.run_dev("package", "--no-pgo"), (1, []), "without a history")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
