"""Triton and MLServer, the real inference servers that PyPI carries, two each behind the daemon: what
`./dev conformance engines` observes (bench/results/engines.md), in short."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "engines"))

import case
import shapes
from observing import Trial
from servers import MlServer, Triton


class Engine:
    """One test with all observations: each begins where the one before has left the servers."""

    kind = None

    def test_what_it_does_behind_evenkeel(self):
        why_not = self.kind.why_not() or shapes.why_not()
        if why_not:
            self.skipTest(why_not)
        with tempfile.TemporaryDirectory(prefix="evenkeel-e2e-", ignore_cleanup_errors=True) as folder:
            trial = Trial(self.kind, folder, seconds=1.5, folded=True)
            try:
                for column, sighting in trial.observe():
                    with self.subTest(column):
                        self.assertTrue(sighting.passed, str(sighting))
            finally:
                trial.close()


class RealTriton(Engine, unittest.TestCase):
    kind = Triton


class RealMlServer(Engine, unittest.TestCase):
    kind = MlServer


if __name__ == "__main__":
    case.main()
