"""The daemon of a chaos run: its process may be replaced by SIGUSR2."""

import contextlib
import os
import pathlib
import re
import signal

from process import Daemon, wait_until


def alive(pid):
    """Whether the process runs; a zombie does not."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


class UpgradableDaemon(Daemon):
    _serving = None  # the process that serves, when it is no longer the one that we started
    upgrades = 0

    @property
    def pid(self):
        return self._serving or self.process.pid

    def running(self):
        return alive(self.pid)

    def signal(self, number):
        os.kill(self.pid, number)

    def upgrade(self):
        """Returns when the new process serves and the old one has drained and exited."""
        before = self.pid
        taken_over = self._taken_over()
        self.signal(signal.SIGUSR2)
        wait_until(lambda: len(self._taken_over()) > len(taken_over), what="a new process")
        self._serving = self._taken_over()[-1]
        self.upgrades += 1
        wait_until(lambda: not alive(before), 60, "the drain of the old process")
        if before == self.process.pid:
            assert self.process.wait() == 0, f"the old process exited with code {self.process.returncode}"
        wait_until(self._ready, what="a ready process")

    def _taken_over(self):
        return [int(found[1]) for line in list(self.lines)
                if (found := re.search(r"upgrade: process (\d+) has taken over", line))]

    def _ready(self):
        with contextlib.suppress(OSError):
            return self.ask_admin("/readyz").status == 200
        return False

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        wait_until(lambda: not self.running(), what="the end of the daemon")
        self.wait_exit()

    def finish(self):
        """Exits cleanly. Only of the process that we started the exit code is known."""
        if not self.running():
            return
        try:
            self.wait_at_rest()
            self.signal(signal.SIGTERM)
            if self._serving is None:
                assert self.process.wait(20) == 0, f"exit code {self.process.returncode}: " + "\n".join(self.lines)
            wait_until(lambda: not self.running(), what="the end of the daemon")
        finally:
            if self.running():
                self.kill()
