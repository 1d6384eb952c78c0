"""A headless Chromium, driven over its own protocol through a pair of pipes."""

import fcntl
import itertools
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading

from process import wait_until
from stream import PATIENCE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = ("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
             "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--hide-scrollbars",
             "--window-size=1400,1000")


KEYS = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowDown": 40}


class ProtocolError(Exception):
    """The browser has refused a command."""


class Browser:
    """One browser with one page."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="evenkeel-chromium-", ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()

        def connect():
            """Chromium reads commands from descriptor 3 and writes to 4."""
            commands, replies = (fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in (to_browser, from_browser))
            os.dup2(commands, 3)
            os.dup2(replies, 4)

        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # needs rights that root in a container lacks
        self.process = subprocess.Popen(
            [CHROMIUM, *ARGUMENTS, *sandbox, f"--user-data-dir={self.folder.name}", "about:blank"],
            preexec_fn=connect, close_fds=False, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._numbers = itertools.count(1)
        self._replies = {}
        self.events = []  # of the page: (method, parameters)
        threading.Thread(target=self._read, daemon=True).start()
        target = wait_until(lambda: next((each for each in self.call("Target.getTargets")["targetInfos"]
                                          if each["type"] == "page"), None), what="a page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    session = None

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        os.close(self._out)
        self.folder.cleanup()

    def _read(self):
        with os.fdopen(self._in, "rb") as stream:
            rest = b""
            while chunk := stream.read1(1 << 16):
                *whole, rest = (rest + chunk).split(b"\0")
                for message in map(json.loads, whole):
                    if "id" in message:
                        self._replies[message["id"]].put(message)
                    else:
                        self.events.append((message["method"], message["params"]))

    def call(self, method, within=3 * PATIENCE, **parameters):
        number = next(self._numbers)
        self._replies[number] = queue.Queue()
        message = {"id": number, "method": method, "params": parameters}
        if self.session and not method.startswith("Target."):
            message["sessionId"] = self.session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        reply = self._replies[number].get(timeout=within)
        del self._replies[number]
        if "error" in reply:
            raise ProtocolError(f"{method}: {reply['error']}")
        return reply["result"]

    # ---- the page ----

    def open(self, url):
        """Goes to the URL; no element of the page before is left."""
        begun = len(self.events)
        self.call("Page.navigate", url=url)
        wait_until(lambda: any(method in ("Page.frameNavigated", "Page.navigatedWithinDocument")
                               for method, _ in self.events[begun:]), what=f"the browser to open {url}")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=0, y=0)

    def evaluate(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        reply = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, (expression, reply["exceptionDetails"])
        return reply["result"].get("value")

    def wait(self, expression, within=PATIENCE):
        """Waits until the expression is true, and returns its value."""
        def value():
            try:
                return self.evaluate(expression)
            except ProtocolError:  # the page is being replaced
                return None

        return wait_until(value, within=within, what=expression)

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")

    def click(self, selector):
        """Clicks as a user does: with the mouse, in the middle of what is there."""
        x, y = self.evaluate(f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            element.scrollIntoView({{block: "center"}});
            const box = element.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key], text=text)

    def type(self, text):
        self.call("Input.insertText", text=text)

    # ---- what it did ----

    def requested(self):
        return [parameters["request"]["url"] for method, parameters in list(self.events)
                if method == "Network.requestWillBeSent"]

    def problems(self):
        """Exceptions, console errors and violations of the page's policy; not requests that failed."""
        found = []
        for method, parameters in list(self.events):
            if method == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"])
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(parameters["args"])
            elif method == "Log.entryAdded" and parameters["entry"]["source"] != "network":
                if parameters["entry"]["level"] in ("error", "warning"):
                    found.append(parameters["entry"])
        return found
