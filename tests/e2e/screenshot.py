"""Makes docs/live-page.webp: the live page of `evenkeel demo`, after two minutes of traffic.

    EVENKEEL_BINARY=build/release/evenkeel python3 tests/e2e/screenshot.py docs/live-page.webp
"""

import base64
import pathlib
import re
import subprocess
import sys
import time

from browser import Browser
from process import BINARY

WARM_UP = 125  # seconds


def main(path):
    demo = subprocess.Popen([BINARY, "demo", "--scenario", "fleet", "--picker", "expected-time", "--seconds", str(WARM_UP + 60)],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
    browser = Browser()
    try:
        url = next(found[0] for line in demo.stdout if (found := re.search(r"http://\S+/ui/", line)))
        browser.open(url)
        time.sleep(WARM_UP)
        browser.evaluate("document.querySelector('tbody .name').blur()")
        shot = browser.call("Page.captureScreenshot", format="webp", quality=80)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))
    finally:
        browser.close()
        demo.kill()
        demo.wait()


if __name__ == "__main__":
    main(sys.argv[1])
