"""Upgrades of a running daemon by SIGUSR2, for tests and chaos runs."""

import contextlib
import os
import pathlib
import re
import shutil
import signal

import process
from process import BINARY, wait_until
from reloading import ReloadCase
from stream import PATIENCE


def alive(pid):
    """Whether the process runs; a zombie does not."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def children(pid):
    """The processes that this one has started and that have not been waited for."""
    return [int(each) for each in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def taken_over(daemon):
    """The processes that have replaced the one before, in order."""
    return [int(found[1]) for line in list(daemon.lines)
            if (found := re.search(r"upgrade: process (\d+) has taken over", line))]


def is_ready(daemon):
    with contextlib.suppress(OSError):
        return daemon.ask_admin("/readyz").status == 200
    return False


def upgrade(daemon, pid, within=PATIENCE):
    """Replaces the process `pid`, which serves. Returns the new one when it is ready."""
    count = len(taken_over(daemon))
    os.kill(pid, signal.SIGUSR2)
    wait_until(lambda: len(taken_over(daemon)) > count, within, "the upgrade")
    wait_until(lambda: is_ready(daemon), what="a ready process")
    return taken_over(daemon)[-1]


class UpgradeCase(ReloadCase):
    def start(self, *args, **kwargs):
        """A daemon that runs a copy of the binary; `self.main` is the process that serves."""
        self.binary = pathlib.Path(self.folder()) / "evenkeel"
        shutil.copy(BINARY, self.binary)
        before, process.BINARY = process.BINARY, str(self.binary)
        try:
            served = self.running(*args, **kwargs)
        finally:
            process.BINARY = before
        self.main = served.pid
        self.addCleanup(self.end_main)
        return served

    def install(self, text):
        """A script takes the place of the daemon's binary."""
        new = self.binary.with_name("new")
        new.write_text(text)
        new.chmod(0o755)
        new.rename(self.binary)

    def end_main(self):
        """The process that serves at the end of the test must exit within the patience of a test."""
        if self.main == self.served.pid:
            return
        self.assertEqual(self.served.process.wait(PATIENCE), 0)
        os.kill(self.main, signal.SIGTERM)
        try:
            self.wait_drained(self.main)
        except AssertionError:
            os.kill(self.main, signal.SIGKILL)
            raise

    def upgrade(self, within=PATIENCE):
        """Returns the process that was replaced."""
        before, self.main = self.main, upgrade(self.served, self.main, within)
        return before

    def wait_drained(self, pid):
        self.eventually(lambda: not alive(pid), f"the end of process {pid}")
