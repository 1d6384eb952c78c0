"""The daemon's own log, on stderr: nothing waits for its reader."""

import json
import re
import threading

import case
import process
from stream import exchange

BROKEN = "pools: what\n"


class PausableDaemon(process.Daemon):
    """A daemon whose stderr is not read between `pause()` and `resume()`."""

    def __init__(self, *arguments, **kwargs):
        self._reading = threading.Event()
        self._reading.set()
        super().__init__(*arguments, **kwargs)

    def _collect(self):
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
            self._reading.wait()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def pause(self):
        self._reading.clear()

    def resume(self):
        self._reading.set()


class UnreadLog(case.Case):
    def setUp(self):
        config = {"pools": [{"name": "pool", "backends": [self.backend().address]}]}
        self.served = PausableDaemon(self.folder(), config)
        self.addCleanup(self.served.kill)
        self.addCleanup(self.served.resume)

    def dropped(self):
        return self.served.metric("evenkeel_log_dropped_total")

    def fill(self):
        """Logs until lines are dropped: 64 KiB fit into the pipe, 1 MiB into the daemon's queue."""
        self.served.pause()
        # One rejected reload is one entry of some 300 lines, of each of which the log shows an excerpt.
        self.served.config_path.write_text("\n".join(f"unknown_{i}: {i}" for i in range(300)))
        for _ in range(1000):
            self.assertEqual(self.served.ask_admin("/api/v1/reload", method="POST").status, 422)
            if self.dropped() > 0:
                return
        self.fail("no line was dropped")

    def test_requests_admin_and_shutdown_do_not_wait_for_it(self):
        self.fill()
        self.assertEqual(exchange(self.served.address).status, 200)
        self.assertEqual(self.served.ask_admin("/healthz").status, 200)
        self.assertEqual(self.served.ask_admin("/readyz").status, 200)
        self.served.signal(15)
        self.assertEqual(self.served.process.wait(process.PATIENCE), 0)

    def test_it_says_how_many_lines_are_missing_once_it_is_read_again(self):
        self.fill()
        self.served.resume()
        self.served.wait_line(r"log: \d+ lines dropped here: stderr was not read in time")

        def announced():
            return sum(int(found[1]) for line in list(self.served.lines)
                       if (found := re.search(r"log: (\d+) lines dropped here", line)))

        self.eventually(lambda: announced() == self.dropped(), "notices of all dropped lines")
        self.served.config_path.write_text(BROKEN)
        self.served.ask_admin("/api/v1/reload", method="POST")
        self.served.wait_line("pools: expected a list")

    def test_lines_before_the_exit_arrive(self):
        self.served.signal(15)
        self.assertEqual(self.served.wait_exit(), 0)
        self.assertRegex(self.served.lines[-1], "draining 0 connections")


class FileSizeLimit(case.Case):
    def test_a_log_that_cannot_grow_does_not_end_the_daemon(self):
        daemon = self.start_daemon(self.backend(), limits=["--fsize=4096"])
        for _ in range(40):
            self.assertEqual(exchange(daemon.address).status, 200)
        self.eventually(lambda: daemon.access_path.stat().st_size == 4096, "a full access log")
        self.assertEqual(exchange(daemon.address).status, 200)
        self.assertEqual(daemon.ask_admin("/healthz").status, 200)


class LevelAndFormat(case.Case):
    def reload(self, daemon):
        """Logs a line of level error, or the reason why that cannot be."""
        daemon.config_path.write_text(BROKEN)
        self.assertEqual(daemon.ask_admin("/api/v1/reload", method="POST").status, 422)

    def test_the_file_says_which_lines_are_written_and_how(self):
        config = {"pools": [{"name": "pool", "backends": [self.backend().address]}], "log": {"level": "error", "format": "json"}}
        daemon = self.daemon(config)
        self.reload(daemon)
        found = json.loads(daemon.wait_line(r'^\{"time":').string)
        self.assertEqual((found["level"], found["subsystem"]), ("error", "reload"))
        self.assertIn("reload rejected", found["message"])
        self.assertRegex(found["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual([each for each in daemon.lines if '"level":"info"' in each or " info " in each], [])

    def test_the_level_changes_at_run_time(self):
        daemon = self.daemon({"pools": [{"name": "pool", "backends": [self.backend().address]}]})
        done = process.command("ctl", "log", "error", "--admin", daemon.admin)
        self.assertEqual((done.returncode, done.stdout), (0, "the log has level error until the next reload\n"))
        count = len(daemon.lines)
        daemon.ask_admin("/api/v1/backends/" + daemon.api("backends")[0]["id"] + "/drain", method="POST")
        self.reload(daemon)
        daemon.wait_line("reload rejected")
        (drained,) = (each for each in daemon.lines[count:]
                      if " info " in each and "levels of the log" not in each)
        self.assertRegex(drained, r" info \[admin\] pool pool: backend \S+: drained by ")

    def test_what_operators_change_is_written_whatever_the_levels_are(self):
        daemon = self.daemon({"pools": [{"name": "pool", "backends": [self.backend().address]}],
                              "log": {"level": "error"}})
        backend = daemon.api("backends")[0]["address"]
        for words in (["log", "admin=error"], ["drain", backend], ["undrain", backend], ["weight", backend, "3"]):
            done = process.command("ctl", *words, "--admin", daemon.admin)
            self.assertEqual(done.returncode, 0, done.stderr)
        for said in ("levels of the log until the next reload: admin=error", "drained by ", "undrained by ",
                     "weight 3 set by "):
            daemon.wait_line(r" info \[admin\] .*" + said)

    def test_a_subsystem_has_a_level_of_its_own(self):
        daemon = self.daemon({"pools": [{"name": "pool", "health": {"path": "/", "interval": "100ms"},
                                         "backends": [self.backend().address]}],
                              "log": {"levels": {"reload": "warning"}}})

        def ctl(*arguments):
            return process.command("ctl", "log", *arguments, "--admin", daemon.admin)

        self.assertEqual(dict(line.split() for line in ctl().stdout.splitlines()[1:]) | {},
                         {name: "info" for name in daemon.api("log")["levels"]} | {"reload": "warning"})
        done = ctl("health=debug")
        self.assertEqual((done.returncode, done.stdout), (0, "health has level debug until the next reload\n"))
        self.assertEqual(daemon.api("log")["levels"]["health"], "debug")
        daemon.wait_line(r"debug \[health\] 127\.0\.0\.1:\d+: check: passed")
        self.assertEqual(daemon.ask_admin("/api/v1/reload", method="POST").status, 200)
        self.assertEqual(daemon.api("log")["levels"]["health"], "info")
        self.assertEqual([each for each in daemon.lines if "reloaded" in each], [])
        for word, said in (("helth=debug", "unknown subsystem 'helth', available: access_log, admin, "),
                           ("helth=debug", "did you mean 'health'?"),
                           ("loud", "unknown level 'loud', available: debug, info, warning, error")):
            refused = ctl(word)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(said, refused.stderr)


if __name__ == "__main__":
    case.main()
