"""h2spec, the HTTP/2 conformance test suite, in cleartext and over TLS, normal and strict. Every case must pass;
bench/results/conformance.md has the results."""

import os
import pathlib
import subprocess
import unittest
import xml.etree.ElementTree as ElementTree

import case
from certificates import Authority

H2SPEC = pathlib.Path(os.environ.get("EVENKEEL_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2],
                      "build", "go", "bin", "h2spec")
MIN_CASES = 145  # in version 2.2.1; 146 with --strict


@unittest.skipUnless(H2SPEC.exists(), "h2spec is not installed (./dev setup)")
class H2spec(case.Case):
    def check(self, *options, tls=False):
        listener = {"name": "public"}
        folder = self.folder()
        if tls:
            listener["tls"] = {"certificates": [Authority(folder).issue("127.0.0.1").config()]}
            options = [*options, "--tls", "--insecure"]
        daemon = self.start_daemon(self.backend(lambda ask: ask.answer(b"x" * 200)), listeners=[listener])
        report = pathlib.Path(folder, "report.xml")
        run = subprocess.run(
            [H2SPEC, "-h", "127.0.0.1", "-p", daemon.address.rpartition(":")[2], "-j", report, *options],
            capture_output=True, text=True, timeout=100, check=False)

        self.assertTrue(report.exists(), run.stdout[-2000:] + run.stderr[-2000:])
        failed, passed, skipped = [], 0, 0
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            for each in suite.iter("testcase"):
                wrong = each.find("failure") if each.find("failure") is not None else each.find("error")
                if wrong is not None:
                    failed.append(f"{each.get('package')}: {each.get('classname')}\n{wrong.text}")
                elif each.find("skipped") is not None:
                    skipped += 1
                else:
                    passed += 1
        print(f"{passed} passed, {skipped} skipped, {len(failed)} failed ", end="", flush=True)
        if failed:
            self.fail("\n\n".join(["h2spec reports failures:", *failed]))
        self.assertGreaterEqual(passed, MIN_CASES)
        self.assertEqual(skipped, 0)
        self.assertEqual(run.returncode, 0)

    def test_cleartext(self):
        self.check()

    def test_cleartext_strict(self):
        self.check("--strict")

    def test_tls(self):
        self.check(tls=True)

    def test_tls_strict(self):
        self.check("--strict", tls=True)


if __name__ == "__main__":
    case.main()
