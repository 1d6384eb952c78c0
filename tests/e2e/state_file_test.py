"""`state_file`: what a daemon has learned, and what operators have set, is there after a restart."""

import json
import os
import pathlib
import signal
import socket
import time
import unittest

import case
import process
import saved_state
from stream import exchange

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}


class StateFile(case.Case):
    def setUp(self):
        self.state = pathlib.Path(self.folder()) / "evenkeel.state"

    def start(self, *backends, **config):
        return self.start_daemon(*backends, state_file=str(self.state), **config)

    def post(self, daemon, path, body=b""):
        with process.Stream.connect(daemon.admin) as stream:
            answer = stream.exchange("POST", path, body=body, host=daemon.admin)
        self.assertEqual(answer.status, 200, answer.body)

    def stop(self, daemon):
        self.assertEqual(daemon.stop(), 0)

    def test_drains_and_weights_hold_after_a_restart(self):
        backends = [self.backend() for _ in range(3)]
        drained, weighted, other = (backend.address for backend in backends)
        first = self.start(*backends)
        self.post(first, f"/api/v1/backends/{drained}/drain")
        self.post(first, f"/api/v1/backends/{weighted}/weight", b'{"weight": 7}')
        self.stop(first)
        self.assertEqual(os.stat(self.state).st_mode & 0o777, 0o600)

        second = self.start(*backends)
        self.assertEqual({each["id"]: (each["state"], each["weight"]) for each in second.api("backends")},
                         {drained: ("draining", 1), weighted: ("up", 7), other: ("up", 1)})
        self.post(second, f"/api/v1/backends/{drained}/undrain")
        self.stop(second)
        third = self.start(*backends)
        self.assertEqual(third.backend(drained)["state"], "up")
        # A write that is in progress has a file of its own.
        self.eventually(lambda: list(self.state.parent.iterdir()) == [self.state], "no other file")

    def latencies(self):
        """The saved averages: seconds and samples by backend."""
        return {backend: (each.observed.latency_seconds, each.observed.latency_samples)
                for backend, each in saved_state.read(self.state).items() if each.observed.latency_samples}

    def test_averages_are_believed_after_a_short_stop(self):
        def slow(exchange_):
            time.sleep(0.1)
            exchange_.answer(b"slow")

        backends = [self.backend(slow), self.backend()]
        pool = {"picker": "round-robin", **QUIET}
        first = self.start(*backends, pool=pool)
        for _ in range(8):
            exchange(first.address)
        self.stop(first)
        learned = self.latencies()
        samples = [learned[each.address][1] for each in backends]
        self.assertEqual(sum(samples), 8)
        self.assertGreater(min(samples), 0)  # each worker has a turn of its own
        self.assertGreater(learned[backends[0].address][0], 0.1)

        self.stop(self.start(*backends, pool=pool))
        self.assertEqual(self.latencies(), learned)

    def test_an_ejection_lasts_over_a_restart(self):
        def fails(exchange_):
            exchange_.answer(b"no", status=500)

        bad, good, other = self.backend(fails), self.backend(), self.backend()
        pool = {"picker": "round-robin", "outlier": {"ejection": "5m"},
                "health": {"check": "off", "interval": "60s"}, "metrics": {"scrape": "off"}}
        first = self.start(bad, good, other, pool=pool)
        self.eventually(lambda: exchange(first.address) and first.backend(bad.address)["state"] == "ejected",
                        "the ejection")
        self.stop(first)

        second = self.start(bad, good, other, pool=pool)
        backend = second.backend(bad.address)
        self.assertEqual((backend["state"], backend["reason"]),
                         ("ejected", "its requests failed before this process started"))
        self.assertEqual({exchange(second.address).status for _ in range(20)}, {200})

    def test_a_start_does_not_wait_for_a_backend_that_was_down(self):
        held = socket.socket()  # accepts, and never answers
        self.addCleanup(held.close)
        held.bind(("127.0.0.1", 0))
        held.listen(100)
        hung = "127.0.0.1:%d" % held.getsockname()[1]
        pool = {"engine": "vllm", "health": {"timeout": "4s"}}
        good = self.backend()
        first = self.start(good, hung, pool=pool)
        self.eventually(lambda: first.backend(hung)["state"] == "down", "a failed check", within=20)
        self.stop(first)

        began = time.monotonic()
        second = self.start(good, hung, pool=pool)
        self.assert_within(time.monotonic() - began, 3)
        self.assertNotEqual(second.backend(hung)["state"], "up")
        self.assertEqual(exchange(second.address).status, 200)

    def test_a_file_that_cannot_be_used_is_one_warning(self):
        backend = self.backend()
        for text, why in ((b"", "it has another format"),
                          (b"evenkeel state 2 0123456789abcdef\nsaved 1\n", "it has another format"),
                          (b"evenkeel state 3 0123456789abcdef\nsaved", "it is damaged"),
                          (os.urandom(5000), "it has another format")):
            with self.subTest(text[:20]):
                self.state.write_bytes(text)
                daemon = self.start(backend)
                daemon.wait_line(f"the state in .* is not used: {why}")
                self.assertEqual(sum("is not used" in line for line in daemon.lines), 1)
                self.assertEqual(exchange(daemon.address).status, 200)
                self.stop(daemon)
                self.assertTrue(self.state.read_bytes().startswith(saved_state.FORMAT))

    def test_a_file_that_cannot_be_written_is_one_warning_and_a_metric(self):
        self.state = self.state.parent / "missing" / "evenkeel.state"
        daemon = self.start(self.backend())
        daemon.wait_line("the state is not saved: cannot write .*: No such file")
        self.eventually(lambda: daemon.metric("evenkeel_last_state_write_successful") == 0, "the metric")
        self.assertIn("No such file", daemon.api("status")["state_file_problem"])
        status = process.command("ctl", "status", "--admin", daemon.admin)
        self.assertIn("the state is not saved: cannot write", status.stdout)
        self.assertEqual(exchange(daemon.address).status, 200)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_devices_are_not_replaced(self):
        self.state = pathlib.Path("/dev/full")
        daemon = self.start(self.backend())
        daemon.wait_line("the state is not saved: cannot write /dev/full: not a regular file")
        self.stop(daemon)
        self.assertTrue(self.state.is_char_device())

    def test_a_size_limit_stands_for_a_full_disk(self):
        daemon = self.start(self.backend(), limits=["--fsize=16"])
        daemon.wait_line("the state is not saved: cannot write .*: File too large")
        self.assertEqual(list(self.state.parent.iterdir()), [])
        self.assertEqual(exchange(daemon.address).status, 200)

    def test_check_says_whether_it_can_be_written(self):
        config = pathlib.Path(self.folder()) / "evenkeel.yaml"

        def check(state):
            config.write_text(json.dumps({"pools": [{"name": "p", "backends": ["127.0.0.1:1"]}],
                                          "state_file": str(state)}))
            ended = process.command("check", "-c", str(config))
            return ended.returncode, ended.stdout + ended.stderr

        self.assertEqual(check(self.state)[0], 0)
        self.assertNotIn("warning", check(self.state)[1])
        code, said = check(self.state.parent / "missing" / "state")
        self.assertEqual(code, 0)
        self.assertRegex(said, "warning: state_file: '.*' cannot be written: No such file")
        self.assertRegex(check("/dev/null")[1], "warning: state_file: '/dev/null' is not a regular file")

    def test_a_kill_loses_a_minute_at_most(self):
        backend = self.backend()
        first = self.start(backend)
        self.eventually(self.state.exists, "the first write, at the start")
        first.signal(signal.SIGKILL)
        first.process.wait()
        second = self.start(backend)
        self.assertFalse([line for line in second.lines if "is not used" in line])

    def test_a_reload_names_another_file(self):
        daemon = self.start(self.backend())
        other = self.state.with_name("other")
        config = json.loads(daemon.config_path.read_text())
        config["state_file"] = str(other)
        daemon.config_path.write_text(json.dumps(config))
        self.post(daemon, "/api/v1/reload")
        self.stop(daemon)
        self.assertTrue(other.exists())


if __name__ == "__main__":
    case.main()
