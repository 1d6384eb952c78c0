"""Debian's redis-server, for one test."""

import os
import signal
import subprocess

from ports import free_port
from process import wait_until
from stream import PATIENCE


class Redis:
    def __init__(self, test, *options):
        self.port = free_port()
        self._folder = test.folder()
        self._options = options
        self._process = None
        test.addCleanup(self.kill)
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def start(self):
        with open(os.path.join(self._folder, "log"), "a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", self._folder,
                 *self._options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: "PONG" in self.command("PING") or "NOAUTH" in self.command("PING"), what="redis-server")

    def command(self, *words):
        return subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True, text=True,
                              timeout=PATIENCE, check=False).stdout

    def pause(self):
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
