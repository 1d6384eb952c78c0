"""The daemon of a chaos run: its process may be replaced by SIGUSR2."""

import contextlib
import os
import signal

import upgrading
from process import Daemon, wait_until
from upgrading import alive


class UpgradableDaemon(Daemon):
    _serving = None  # the process that serves, when it is no longer the one that we started

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
        self._serving = upgrading.upgrade(self, before)
        wait_until(lambda: not alive(before), 60, "the drain of the old process")
        if before == self.process.pid:
            assert self.process.wait() == 0, f"the old process exited with code {self.process.returncode}"

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
