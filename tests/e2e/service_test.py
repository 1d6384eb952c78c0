"""Under systemd: what the daemon reports of its start, reloads, shutdown and loops."""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time

import case
from ports import free_port
from process import BINARY, command
from stream import PATIENCE, Stream

CONFIG = pathlib.Path(__file__).resolve().parents[2] / "config"


class Manager:
    """Listens in place of systemd. Keeps each datagram with its time."""

    def __init__(self, test, name):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        test.addCleanup(self._socket.close)
        self._socket.bind(name)
        self.heard = []
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with contextlib.suppress(OSError):
            while datagram := self._socket.recv(65536):
                with self._changed:
                    self.heard.append((time.monotonic(), datagram.decode()))
                    self._changed.notify_all()

    def wait(self, part, after=0.0, within=PATIENCE):
        """The first datagram after `after` that contains this, and its time."""
        deadline = time.monotonic() + within

        def found():
            return next(((at, text) for at, text in self.heard if at > after and part in text), None)

        with self._changed:
            while not found():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"no {part!r} in {self.heard}")
                self._changed.wait(left)
            return found()

    def pings(self, after):
        with self._changed:
            return [at for at, text in self.heard if at > after and text == "WATCHDOG=1"]


class Service(case.Case):
    def start(self, *backends, name=None, env=None, **config):
        name = name or os.path.join(self.folder(), "notify")
        manager = Manager(self, name.replace("@", "\0"))
        daemon = self.daemon({"pools": [{"name": "pool", "backends": [
            each.address for each in backends]}], **config}, env={"NOTIFY_SOCKET": name, **(env or {})})
        return daemon, manager

    def test_it_is_ready_when_the_first_round_of_checks_is_over(self):
        daemon, manager = self.start(self.backend(), self.backend())
        _, ready = manager.wait("READY=1")
        self.assertEqual(ready, "READY=1\nSTATUS=serving 1 pool, 2 of 2 backends up")
        self.assertEqual(daemon.ask_admin("/readyz").status, 200)

    def test_abstract_names_do_as_well(self):
        _, manager = self.start(self.backend(), name=f"@evenkeel-test-{os.getpid()}")
        manager.wait("READY=1")

    def test_a_reload_begins_and_ends_whatever_the_file_says(self):
        daemon, manager = self.start(self.backend())
        good = daemon.config_path.read_text()
        for text, status in ((good, "serving 1 pool"), ("pools: what", "reload rejected: "),
                             (good, "serving 1 pool")):
            daemon.config_path.write_text(text)
            begun = time.monotonic()
            daemon.signal(signal.SIGHUP)
            at, reloading = manager.wait("RELOADING=1", after=begun)
            told = int(reloading.partition("MONOTONIC_USEC=")[2].split("\n")[0]) / 1e6
            self.assertTrue(begun <= told <= at, "of the clock that systemd reads")
            _, ready = manager.wait("READY=1", after=at)
            self.assertIn("STATUS=" + status, ready)

    def test_a_refused_reload_fails_the_command_that_the_unit_runs(self):
        daemon, _ = self.start(self.backend(), admin={"address": f"127.0.0.1:{free_port()}"})
        unit = (CONFIG / "evenkeel.service").read_text()
        programs = [line.partition("=")[2].split() for line in unit.splitlines() if line.startswith("ExecReload=")]
        self.assertEqual([words[0] for words in programs], ["/usr/bin/evenkeel"])
        arguments = [str(daemon.config_path) if word.endswith(".yaml") else word for word in programs[0][1:]]

        self.assertEqual(command(*arguments).returncode, 0)
        good = json.loads(daemon.config_path.read_text())
        for key, value, message in (("pickerr", "gpu", ":.*: error: pools.0..pickerr: unknown key"),
                                    ("engine", "vlm", "did you mean 'vllm'")):
            bad = json.loads(json.dumps(good))
            bad["pools"][0][key] = value
            daemon.config_path.write_text(json.dumps(bad, indent=1))
            ended = command(*arguments)
            self.assertEqual(ended.returncode, 1)
            self.assertRegex(ended.stderr, message)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            listener = {"name": "public", "address": "127.0.0.1:%d" % taken.getsockname()[1]}
            daemon.config_path.write_text(json.dumps({**good, "listeners": [listener]}))
            ended = command(*arguments)
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stderr, "reload rejected.*\n.*:[0-9]+:[0-9]+: error: listeners.0..address: .*Address already in use")
        daemon.config_path.write_text(json.dumps(good))
        self.assertEqual(command(*arguments).returncode, 0)

    def test_a_drain_asks_for_the_time_that_it_takes(self):
        backend = self.backend(lambda ask: ask.wait_disconnected())
        daemon, manager = self.start(backend)
        with Stream.connect(daemon.address) as stream:
            stream.ask()
            self.eventually(lambda: backend.exchanges)
            daemon.signal(signal.SIGTERM)
            at, _ = manager.wait("STOPPING=1\nSTATUS=draining 1 connections")
            manager.wait("EXTEND_TIMEOUT_USEC=", after=at)
        self.assertEqual(daemon.wait_exit(), 0)

    def test_the_watchdog_is_fed_while_every_loop_turns(self):
        interval = 0.2
        daemon, manager = self.start(self.backend(), workers=3, env={
            "WATCHDOG_USEC": str(int(interval * 1e6)), "WATCHDOG_PID": ""})
        self.assertFalse(manager.pings(0), "the watchdog is for another process")

        daemon, manager = self.start(self.backend(), workers=3, env={
            "WATCHDOG_USEC": str(int(interval * 1e6))})
        self.eventually(lambda: len(manager.pings(0)) >= 5)
        gaps = [after - before for before, after in zip(manager.pings(0), manager.pings(0)[1:])]
        self.assert_within(min(gaps), interval, "before the watchdog's time is over")

        with Stopped(daemon, "worker-1"):
            stopped = time.monotonic()
            health = daemon.ask_admin("/healthz")  # which waits 5 s for every loop
            self.assertEqual((health.status, health.body), (503, b"an event loop is blocked\n"))
            # A response from before the stop may still have caused a ping; later there is none.
            self.assertEqual(manager.pings(stopped + interval), [], "one loop of three is stopped")
            self.assertEqual(daemon.ask_admin("/api/v1/status").status, 200, "the others turn")
        resumed = time.monotonic()
        manager.wait("WATCHDOG=1", after=resumed)
        self.assertEqual(daemon.ask_admin("/healthz").status, 200)


class Stopped:
    """One thread of a daemon, stopped as a debugger stops it; the others run on. ptrace is a thread's,
    so all of it happens on the one that enters."""

    SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
    WALL = 0x40000000

    def __init__(self, daemon, thread):
        tasks = pathlib.Path(f"/proc/{daemon.pid}/task").iterdir()
        self._thread = next(int(task.name) for task in tasks
                            if (task / "comm").read_text().strip() == thread)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self._libc.ptrace.restype = ctypes.c_long

    def _ptrace(self, request):
        if self._libc.ptrace(request, self._thread, None, None) != 0:
            error = ctypes.get_errno()
            if request == self.SEIZE and error == 1:  # EPERM
                raise case.unittest.SkipTest("no thread may be traced here")
            raise OSError(error, f"ptrace {request}: {os.strerror(error)}")

    def __enter__(self):
        self._ptrace(self.SEIZE)
        self._ptrace(self.INTERRUPT)
        stopped, status = os.waitpid(self._thread, self.WALL)
        assert stopped == self._thread and os.WIFSTOPPED(status)
        return self

    def __exit__(self, *_):
        self._ptrace(self.DETACH)


class Units(case.Case):
    """The unit files in config/."""

    def setUp(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze here")
        # The unit starts the installed program; here it is the built one.
        self.units = pathlib.Path(self.folder())
        for name in ("evenkeel.service", "evenkeel.socket"):
            text = (CONFIG / name).read_text()
            (self.units / name).write_text(text.replace("/usr/bin/evenkeel", BINARY))

    def analyze(self, *arguments):
        return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True,
                              timeout=60, check=False, env={**os.environ, "SYSTEMD_COLORS": "0"})

    def test_they_are_sound(self):
        verified = self.analyze("verify", "--man=no", str(self.units / "evenkeel.service"),
                                str(self.units / "evenkeel.socket"))
        ours = [line for line in verified.stderr.splitlines() if "evenkeel" in line]
        self.assertEqual((verified.returncode, ours), (0, []), verified.stderr)

    def test_the_service_may_do_little_that_it_need_not(self):
        judged = self.analyze("security", "--offline=true", "--threshold=20", "--no-pager",
                              str(self.units / "evenkeel.service"))
        self.assertEqual(judged.returncode, 0, judged.stdout + judged.stderr)
        self.assertIn("OK", judged.stdout.splitlines()[-1])


if __name__ == "__main__":
    case.main()
