"""The base class of the end-to-end tests. Everything that a test starts ends with the test. At the end each daemon must be
idle (all leases released) and exit with code 0."""

import socket
import sys
import tempfile
import threading
import unittest

from backend import Backend
from h2_backend import H2Backend, HostileServer
from process import Daemon, Simulators, wait_until
from slowness import slowness
from stream import PATIENCE

SKIPPED = 77  # ctest's SKIP_RETURN_CODE


class Case(unittest.TestCase):
    maxDiff = 4000

    def folder(self):
        made = tempfile.TemporaryDirectory(prefix="evenkeel-e2e-")
        self.addCleanup(made.cleanup)
        return made.name

    def daemon(self, config, **kwargs):
        daemon = Daemon(self.folder(), config, **kwargs)
        self.addCleanup(daemon.finish)
        return daemon

    def backend(self, script=None, **kwargs):
        return self._kept(Backend(script, **kwargs))

    def h2_backend(self, script=None, **kwargs):
        return self._kept(H2Backend(script, **kwargs))

    def hostile(self, play, **kwargs):
        """An HTTP/2 server that may break any rule: `play(wire, number)` handles each connection."""
        return self._kept(HostileServer(play, **kwargs))

    def _kept(self, backend):
        def end():
            backend.close()
            self.assertEqual(backend.failures, [])

        self.addCleanup(end)
        return backend

    def unresponsive_server(self):
        """The address of a server that accepts no connection: its backlog is full, so the kernel drops further
        SYNs."""
        listener = socket.socket()
        self.addCleanup(listener.close)
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):
            queued = socket.socket()
            self.addCleanup(queued.close)
            queued.setblocking(False)
            queued.connect_ex(listener.getsockname())
        return "127.0.0.1:%d" % listener.getsockname()[1]

    def simulators(self, *arguments, **kwargs):
        simulators = Simulators(*arguments, **kwargs)
        self.addCleanup(simulators.kill)
        return simulators

    def start_daemon(self, *backends, pool=None, limits=(), **config):
        """A daemon with one pool of these backends (or addresses); `pool` has further keys of the pool."""
        addresses = [each if isinstance(each, (str, dict)) else each.address for each in backends]
        return self.daemon({"pools": [{"name": "pool", "backends": addresses, **(pool or {})}],
                            **config}, limits=limits)

    def eventually(self, condition, what="the condition", within=PATIENCE, interval=0.005):
        return wait_until(condition, within, what, interval)

    def assert_within(self, seconds, limit, message=None):
        """The limit is for an idle machine with fast cores; it is as many times longer as this one is slower."""
        if seconds >= limit:
            self.assertLess(seconds, limit * slowness(), message)

    def spawn(self, work):
        """Runs `work` on a thread. The test fails if it fails; `join()` returns its result."""
        thread = BackgroundThread(work)
        self.addCleanup(thread.join)
        return thread


class BackgroundThread(threading.Thread):
    def __init__(self, work):
        super().__init__(daemon=True)
        self._work = work
        self._result = None
        self._failure = None
        self.start()

    def run(self):
        try:
            self._result = self._work()
        except BaseException as failure:  # raised again by join()
            self._failure = failure

    def join(self, timeout=3 * PATIENCE):
        super().join(timeout)
        if self.is_alive():
            raise AssertionError("a background thread of the test does not end")
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return self._result


def main():
    """Like unittest.main, but exits with SKIPPED if every test was skipped."""
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    if len(result.skipped) >= max(1, result.testsRun):
        for _, reason in result.skipped[:1]:
            print("skipped:", reason)
        sys.exit(SKIPPED)
    sys.exit(0)
