"""What testssl.sh says of a listener whose `tls` holds a certificate and nothing else: nothing above
LOW. It takes a minute and a half, so it is for `./dev conformance`, not for every test run."""

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

# What no listener can mend, and why.
NOT_OURS = {
    "cert_revocation": "the test's authority publishes no list of revoked certificates",
    "security_headers": "fields of the backend's answers",
}
BORNE = ("OK", "INFO", "LOW", "WARN")  # WARN: a check that testssl.sh itself could not make


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
            # What it returns is a sum of its own findings and failures; the report is what counts.
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
        wrong = severity not in BORNE and excuse is None
        bad += wrong
        print(f"  {'WRONG ' if wrong else ''}{severity} {name}: {each['finding']}"
              + (f" ({excuse})" if excuse else ""))
    if counts["OK"] < 30:
        sys.exit("it has hardly looked:\n" + run.stdout)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
