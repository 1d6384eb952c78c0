"""Runs testssl.sh on a listener whose `tls` has a certificate and otherwise defaults; it must report nothing above LOW. This
takes a minute and a half, so only `./dev conformance` runs it."""

import collections
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from backend import Backend
from certificates import Authority
from process import Daemon

# Findings that a listener cannot fix, and why.
NOT_OURS = {
    "cert_revocation": "the test's authority publishes no list of revoked certificates",
    "security_headers": "header fields of the backend's responses",
}
ACCEPTED = ("OK", "INFO", "LOW", "WARN")  # WARN: testssl.sh could not run the check


def main():
    tool = shutil.which("testssl") or shutil.which("testssl.sh")
    if tool is None:
        sys.exit("testssl.sh is not installed")
    with tempfile.TemporaryDirectory(prefix="evenkeel-testssl-") as folder:
        authority = Authority(folder)
        own = authority.issue("localhost", "127.0.0.1", days=90)
        backend = Backend()
        daemon = Daemon(folder, {
            "listeners": [{"name": "tls", "tls": {"certificates": [own.config()]}}],
            "pools": [{"name": "pool", "backends": [backend.address]}]})
        report = pathlib.Path(folder, "report.json")
        try:
            # The exit code mixes findings and failures of the tool, so only the report counts.
            run = subprocess.run(
                [tool, "--quiet", "--color", "0", "--warnings", "batch", "--add-ca", authority.cert,
                 "--jsonfile", report, daemon.address.replace("127.0.0.1", "localhost")],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False)
        finally:
            daemon.finish()
            backend.close()
        if not report.exists():
            sys.exit(run.stdout + run.stderr)
        findings = json.loads(report.read_text())

    counts = collections.Counter(each["severity"] for each in findings)
    print("testssl.sh:", ", ".join(f"{count} {severity}" for severity, count in counts.most_common()))
    bad = 0
    for each in findings:
        severity, name = each["severity"], each["id"]
        if severity in ("OK", "INFO"):
            continue
        excuse = NOT_OURS.get(name)
        wrong = severity not in ACCEPTED and excuse is None
        bad += wrong
        print(f"  {'FAIL ' if wrong else ''}{severity} {name}: {each['finding']}"
              + (f" ({excuse})" if excuse else ""))
    if counts["OK"] < 30:
        sys.exit("testssl.sh made too few checks:\n" + run.stdout)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
