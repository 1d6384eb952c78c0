"""Runs the evenkeel binary: its output, its admin API, its end."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

from slowness import slowness
from stream import PATIENCE, Stream

BINARY = os.environ.get("EVENKEEL_BINARY") or str(
    pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "evenkeel")

# Under a sanitizer everything is slower and larger, so measurements mean nothing.
SANITIZED = os.environ.get("EVENKEEL_SANITIZE", "") != ""


def wait_until(condition, within=PATIENCE, what="the condition", interval=0.005):
    """Polls until `condition()` is true, and returns its value. A slow machine has more time."""
    began = time.monotonic()
    limit = within
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() - began > limit:
            if limit > within or (limit := within * slowness()) <= within:
                raise AssertionError(f"timed out after {limit} s waiting for {what}")
        time.sleep(interval)


def command(*arguments, text=None, env=None, folder=None, within=PATIENCE * 3):
    """Runs evenkeel with these arguments until it exits."""
    return subprocess.run([BINARY, *arguments], input=text, capture_output=True, text=True,
                          timeout=within, env={**os.environ, **(env or {})}, check=False,
                          cwd=folder)


class Process:
    """A running evenkeel process. Its output is collected line by line."""

    def __init__(self, arguments, env=None, limits=()):
        """`limits`: arguments of prlimit(1), such as `--nofile=100`."""
        prefix = ["prlimit", *limits, "--"] if limits else []
        self.lines = []
        self._changed = threading.Condition()
        self._ended = False
        self.process = self.popen([*prefix, BINARY, *arguments], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, **(env or {})})
        self.stdout = []
        self._readers = [threading.Thread(target=self._collect, daemon=True),
                         threading.Thread(target=self._collect_stdout, daemon=True)]
        for reader in self._readers:
            reader.start()

    def popen(self, command, **kwargs):
        """Starts the process."""
        return subprocess.Popen(command, **kwargs)

    def _collect(self):
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _collect_stdout(self):
        for line in self.process.stdout:
            self.stdout.append(line.rstrip("\n"))

    @property
    def pid(self):
        return self.process.pid

    def wait_line(self, pattern, within=PATIENCE):
        """Waits for a line of stderr that matches; returns the match."""
        began = time.monotonic()
        limit = within

        def search():
            return next((found for line in self.lines if (found := re.search(pattern, line))), None)

        with self._changed:
            while (found := search()) is None:
                left = began + limit - time.monotonic()
                if left <= 0 and limit == within:
                    limit = within * slowness()
                elif self._ended or left <= 0:
                    raise AssertionError(f"no line {pattern!r} in: " + "\n".join(self.lines))
                else:
                    self._changed.wait(left)
            return found

    def running(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def wait_exit(self, within=PATIENCE):
        """Waits for the end; returns the exit code."""
        code = self.process.wait(within)
        for reader in self._readers:
            reader.join(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def kill(self):
        if self.running():
            self.process.kill()
        self.wait_exit()

    # ---- from the kernel ----

    def resident_bytes(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024

    def cpu_seconds(self):
        """Of all its threads, in user and in kernel mode."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def wait_asleep(self):
        """Waits until each thread has slept since the call: what it was doing is done."""
        for thread in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            wait_until(lambda stat=thread / "stat": self._sleeps(stat), what=f"{thread} to sleep")

    @staticmethod
    def _sleeps(stat):
        try:
            return stat.read_text().rpartition(")")[2].split()[0] == "S"
        except FileNotFoundError:  # the thread has ended
            return True


class Daemon(Process):
    """`evenkeel run`. `config` is the configuration as Python values (JSON is YAML). By default listeners and
    the admin listener get ports from the kernel, and the access log is a file."""

    def __init__(self, folder, config, limits=(), env=None):
        self.folder = pathlib.Path(folder)
        self.access_path = self.folder / "access.log"
        whole = {
            "listeners": [{"name": "public", "address": "127.0.0.1:0"}],
            "admin": {"address": "127.0.0.1:0"},
            "workers": 2,
            "access_log": {"path": str(self.access_path)},
        }
        whole.update(config)
        for listener in whole["listeners"]:
            listener.setdefault("address", "127.0.0.1:0")
        self.config_path = self.folder / "evenkeel.yaml"
        self.config_path.write_text(json.dumps(whole, indent=1))
        super().__init__(["run", "-c", str(self.config_path)], env=env, limits=limits)
        try:
            self.wait_line(r"^ready$")
            self.listening = dict(
                found.groups() for line in self.lines
                if (found := re.match(r"listening name=(\S+) address=(\S+)$", line)))
            self.admin = self.listening["admin"]
            self.address = next(address for name, address in self.listening.items() if name != "admin")
        except BaseException:
            self.kill()
            raise

    # ---- admin ----

    admin_tls = None  # an ssl.SSLContext, if the admin listener speaks TLS
    _page = b""  # the last one of metrics()

    def ask_admin(self, target, method="GET", fields=()):
        with Stream.connect(self.admin, tls=self.admin_tls) as stream:
            return stream.exchange(method, target, fields=fields, host=self.admin)

    def api(self, what):
        answer = self.ask_admin(f"/api/v1/{what}")
        assert answer.status == 200, (answer.status, answer.body)
        return json.loads(answer.body)

    def backend(self, address):
        return next(each for each in self.api("backends") if each["address"] == address)

    def metrics(self):
        """The metrics as {(name, frozenset of labels): number}, as they are now: not from a page that took long and that the
        daemon sends again for a quarter of a second. No two pages are equal, since making one takes processor time."""
        self._page = wait_until(lambda: (page := self.ask_admin("/metrics").body) != self._page and page, what="a new page")
        return read_metrics(self._page.decode())

    def metric(self, name, **labels):
        """The sum over all series with these labels."""
        wanted = set(labels.items())
        return sum(value for (series, own), value in self.metrics().items()
                   if series == name and wanted <= own)

    def at_rest(self):
        """No request is in flight or queued, and no lease is held."""
        return (all(each["in_flight"] == 0 for each in self.api("backends"))
                and all(each["waiting"] == 0 and each["in_flight"] == 0 for each in self.api("pools"))
                and self.api("status")["requests_in_flight"] == 0
                and self.metric("evenkeel_backend_links", state="busy") == 0
                and self.metric("evenkeel_requests_in_flight") == 0
                and self.metric("evenkeel_requests_waiting") == 0)

    def wait_at_rest(self):
        wait_until(self.at_rest, what="an idle daemon (no request in flight, no lease, no busy link)")

    # ---- the access log ----

    def access_lines(self):
        if not self.access_path.exists():
            return []
        whole = self.access_path.read_text().split("\n")[:-1]  # the last line may be incomplete
        return [json.loads(line) for line in whole]

    def wait_access(self, count):
        """The log as soon as it has this many lines."""
        return wait_until(lambda: len(lines := self.access_lines()) >= count and lines,
                          what=f"an access log of {count} lines")

    # ---- ending it ----

    def stop(self, number=signal.SIGTERM):
        """Sends a signal; returns the exit code."""
        self.signal(number)
        return self.wait_exit()

    def finish(self):
        """At the end of a test: the daemon must become idle and exit with code 0."""
        if not self.running():
            with contextlib.suppress(ValueError):
                self.wait_exit()
            return
        try:
            self.wait_at_rest()
            code = self.stop()
            assert code == 0, f"exit code {code}: " + "\n".join(self.lines)
        finally:
            if self.running():
                self.kill()


class Simulators(Process):
    """`evenkeel sim`: simulated inference servers, on ports from the kernel by default. They are fast and
    deterministic."""

    def __init__(self, *arguments, count=1, speed=50, listen="127.0.0.1:0"):
        super().__init__(["sim", "--listen", listen, "--count", str(count),
                          "--speed", str(speed), *arguments])
        try:
            self.wait_line(r"^ready$")
        except BaseException:
            self.kill()
            raise
        self.addresses = [found[1] for line in self.lines
                          if (found := re.match(r"listening name=sim-\d+ address=(\S+)", line))]
        self.control = self.wait_line(r"listening name=sim-control address=(\S+)")[1]


def read_metrics(text):
    page = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        found = re.fullmatch(r'([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)', line)
        assert found, f"not a sample: {line!r}"
        labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found[2] or "")
        key = (found[1], frozenset(labels))
        assert key not in page, f"duplicate: {line!r}"
        page[key] = float(found[3])
    return page
