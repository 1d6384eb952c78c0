"""What may go wrong around an upgrade: signals, operators and reloads in the middle of it, processes that die, drains after it."""

import contextlib
import ctypes
import json
import os
import pathlib
import signal
import threading
import time

import case
import process
from process import BINARY
from reloading import refuses, serve
from service_test import Manager
from stream import PATIENCE, Stream, exchange
from upgrading import UpgradeCase, alive, children, taken_over

PR_SET_CHILD_SUBREAPER = 36


class UpgradeFaults(UpgradeCase):
    def setUp(self):
        self.released = threading.Event()
        self.addCleanup(self.released.set)

    def stream(self, exchange_):
        """A stream that goes on until `released`."""
        if exchange_.method != "POST":
            return exchange_.answer(b"hello")
        exchange_.begin_chunks([("content-type", "text/event-stream")])
        exchange_.chunk(b"data: first\n\n")
        self.released.wait(PATIENCE)
        with contextlib.suppress(OSError):
            exchange_.chunk(b"data: last\n\n")
            exchange_.end_chunks()

    @contextlib.contextmanager
    def open_stream(self):
        """A client in the middle of a stream; yields a function that reads the rest."""
        with Stream.connect(self.served.address) as client:
            client.ask("POST", "/v1/completions", body=b"{}")
            head = client.read_head()
            self.assertEqual(client.read_chunk(head), b"data: first\n\n")
            yield lambda: (self.released.set(), client.read_chunk(head), client.read_chunk(head))[1:]

    rest = (b"data: last\n\n", b"")

    def silent(self, exchange_):
        """Does not answer health checks."""
        return exchange_.wait_disconnected() if exchange_.target == "/health" else serve(exchange_)

    def start_with_slow_successor(self, *backends, **config):
        """A daemon whose successor waits 3 s for the first check of a backend that only it has."""
        self.start(*backends, pool={"engine": "vllm", "metrics": {"scrape": "off"}, "health": {"timeout": "3s"}}, **config)
        self.pool["backends"].append(self.backend(self.silent).address)
        self.write()

    def hold(self):
        """The next upgrade waits for the returned function to be called."""
        gate = self.binary.with_name("gate")
        self.install(f'#!/bin/sh\nwhile [ ! -e {gate} ]; do sleep 0.05; done\nexec {BINARY} "$@"\n')
        return gate.touch

    def begin(self):
        os.kill(self.main, signal.SIGUSR2)
        self.served.wait_line("upgrade: starting")
        return self.eventually(lambda: children(self.main), "the new process")[0]

    def end(self):
        """Waits until the upgrade that was begun has ended."""
        self.main = self.eventually(lambda: taken_over(self.served), "the upgrade")[-1]

    def clients(self, count):
        """Clients that open a connection per request, and a function that ends them. It returns the longest time that a
        request took; one that failed fails the test."""
        longest, stop = [0.0], threading.Event()

        def work():
            while not stop.is_set():
                began = time.monotonic()
                self.assertEqual(exchange(self.served.address).status, 200)
                longest[0] = max(longest[0], time.monotonic() - began)

        threads = [self.spawn(work) for _ in range(count)]
        self.addCleanup(stop.set)

        def end():
            stop.set()
            for thread in threads:
                thread.join()
            return longest[0]

        return end

    # ---- drains ----

    def test_a_drain_waits_for_the_requests_of_the_old_process(self):
        backend = self.backend(self.stream)
        self.start(backend)
        drain = ("ctl", "drain", backend.address, "--wait", "--admin", self.served.admin)
        with self.open_stream() as read_rest:
            self.upgrade()
            early = process.command(*drain, "--timeout", "300ms")
            self.assertEqual(early.returncode, 3, early.stdout)
            self.eventually(lambda: self.served.backend(backend.address)["replaced_in_flight"] == 1, "the report")
            waiting = self.spawn(lambda: process.command(*drain))
            self.assertTrue(alive(self.served.pid))
            self.assertFalse(self.released.is_set())
            self.assertEqual(read_rest(), self.rest)
        self.assertEqual(waiting.join().returncode, 0)
        self.wait_drained(self.served.pid)
        self.eventually(lambda: self.served.backend(backend.address)["replaced_in_flight"] == 0, "the end of the report")

    # ---- sockets ----

    def test_a_drain_after_an_upgrade_closes_the_listeners(self):
        self.start(self.backend(self.stream))
        self.wait_drained(self.upgrade())
        with self.open_stream() as read_rest:
            os.kill(self.main, signal.SIGTERM)
            self.eventually(lambda: refuses(self.served.address), "refused connections")
            self.assertEqual(read_rest(), self.rest)
        self.wait_drained(self.main)
        self.main = self.served.pid

    def test_more_workers_keep_no_connection_waiting(self):
        self.start_with_slow_successor(self.backend(serve), workers=1)
        end_clients = self.clients(8)
        self.config["workers"] = 4
        self.write()
        began = time.monotonic()
        self.upgrade()
        self.assertGreater(time.monotonic() - began, 2, "the new process has waited for a check")
        self.assertLess(end_clients(), 1.5)
        self.assertEqual(self.served.api("status")["workers"], 4)
        for _ in range(40):
            self.assertEqual(exchange(self.served.address).status, 200)

    def test_more_workers_that_fail_to_start_reset_no_connection(self):
        self.start_with_slow_successor(self.backend(serve), workers=1)
        end_clients = self.clients(8)
        self.config["workers"] = 4
        self.config["listeners"].append({"name": "second", "address": "127.0.0.1:0"})
        self.write()
        new = self.begin()
        self.served.wait_line("listening name=second ")
        os.kill(new, signal.SIGKILL)
        self.served.wait_line("upgrade failed; this process continues: .*signal 9")
        end_clients()

    def test_a_program_that_leaves_another_process_behind_fails_at_once(self):
        self.start(self.backend(serve))
        self.install("#!/bin/sh\nsleep 30 &\necho left $! >&2\nexit 1\n")
        began = time.monotonic()
        self.served.signal(signal.SIGUSR2)
        left = int(self.served.wait_line(r"^left (\d+)$")[1])
        self.addCleanup(os.kill, left, signal.SIGKILL)
        self.served.wait_line("upgrade failed; .*did not start: it exited with code 1")
        self.assert_within(time.monotonic() - began, 10)
        self.assertEqual(exchange(self.served.address).status, 200)
        self.served.signal(signal.SIGTERM)
        self.assertEqual(self.served.process.wait(PATIENCE), 0)
        self.assertTrue(refuses(self.served.address))

    # ---- operators and reloads ----

    def test_changes_during_an_upgrade_are_made_in_the_new_process(self):
        backends = [self.backend(serve) for _ in range(3)]
        self.start(*backends)
        drained, weighted, added = (each.address for each in backends)
        self.config["pools"][0]["backends"] = [drained, weighted]
        self.reload()
        go_on = self.hold()
        self.begin()
        for action, body in ((f"backends/{drained}/drain", None), (f"backends/{weighted}/weight", b'{"weight": 7}')):
            with Stream.connect(self.served.admin) as client:
                answer = client.exchange("POST", f"/api/v1/{action}", body=body, host=self.served.admin)
            self.assertEqual((answer.status, answer.field("retry-after")), (503, "1"), answer.body)
            self.assertIn("an upgrade is in progress", json.loads(answer.body)["error"])
        commands = [self.spawn(lambda verb=verb: process.command("ctl", *verb, "--admin", self.served.admin))
                    for verb in (("drain", drained), ("weight", weighted, "7"), ("reload", "--wait"))]
        waiting = self.spawn(lambda: self.served.ask_admin("/api/v1/reload", method="POST"))
        self.eventually(lambda: self.served.api("status")["connections"] == 0)
        go_on()
        self.end()
        for each in commands:
            ended = each.join()
            self.assertEqual(ended.returncode, 0, ended.stderr)
        refusal = waiting.join()
        self.assertIn((refusal.status, refusal.field("retry-after")), ((503, "1"), (200, None)), refusal.body)
        self.eventually(lambda: self.states() == {drained: "draining", weighted: "up"})
        self.assertEqual(self.served.backend(weighted)["weight"], 7)
        self.assertNotIn(added, self.states())

    def test_a_request_that_waits_for_the_upgrade_is_answered(self):
        self.start(self.backend(serve))
        go_on = self.hold()
        self.begin()
        with Stream.connect(self.served.admin) as client:
            client.ask("POST", "/api/v1/reload", host=self.served.admin)
            self.wait_read(client)
            go_on()
            self.end()
            answer = client.read_response()
        self.assertEqual((answer.status, answer.field("retry-after")), (503, "1"))
        self.assertIn("another process has taken over", json.loads(answer.body)["error"])

    def wait_read(self, client):
        """Waits until the daemon has read what this connection has sent."""
        host, port = client.socket.getsockname()
        own = "%s:%04X" % ("".join("%02X" % int(each) for each in reversed(host.split("."))), port)

        def unread():
            rows = map(str.split, pathlib.Path("/proc/net/tcp").read_text().splitlines())
            return next(int(row[4].partition(":")[2], 16) for row in rows if row[2] == own)

        self.eventually(lambda: unread() == 0, "a request that is read")

    def test_a_reload_during_an_upgrade_is_made_by_the_new_process(self):
        first, later = self.backend(serve), self.backend(serve)
        self.start_with_slow_successor(first)
        self.begin()
        self.eventually(lambda: sum("listening name=admin" in each for each in list(self.served.lines)) == 2,
                        "a new process that has read the file")
        self.pool["backends"].append(later.address)
        self.write()
        os.kill(self.main, signal.SIGHUP)
        self.end()
        self.eventually(lambda: later.address in self.states(), "the reload")
        self.served.wait_line(f"reload passed on to process {self.main}")

    def test_a_signal_that_a_drain_ignores_is_logged(self):
        self.start(self.backend(self.stream))
        with self.open_stream() as read_rest:
            self.served.signal(signal.SIGTERM)
            self.served.wait_line("draining 1 connections")
            self.served.signal(signal.SIGHUP)
            self.served.wait_line("not reloaded: the daemon is shutting down")
            self.served.signal(signal.SIGUSR2)
            self.served.wait_line("no upgrade: this process is draining")
            self.assertEqual(read_rest(), self.rest)
        self.assertEqual(self.served.process.wait(PATIENCE), 0)

    # ---- the old process ----

    def test_the_first_signal_leaves_a_replaced_process_its_drain_time(self):
        self.start(self.backend(self.stream))
        with self.open_stream() as read_rest:
            old = self.upgrade()
            os.kill(old, signal.SIGTERM)
            self.served.wait_line("draining 1 connections for at most 120 s")
            self.assertEqual(read_rest(), self.rest)
        self.assertEqual(self.served.process.wait(PATIENCE), 0)

    def test_the_second_signal_ends_a_replaced_process(self):
        self.start(self.backend(self.stream))
        with self.open_stream():
            old = self.upgrade()
            for expected in ("draining 1 connections for at most", "second signal: exiting with requests in flight"):
                os.kill(old, signal.SIGTERM)
                self.served.wait_line(expected)
            self.assertEqual(self.served.process.wait(PATIENCE), 3)
        self.finish_new()

    def test_a_stop_of_the_new_process_also_ends_the_old_one_in_its_drain_time(self):
        self.start(self.backend(self.stream), shutdown={"drain": "1s"})
        with self.open_stream():
            self.upgrade()
            os.kill(self.main, signal.SIGTERM)
            self.wait_drained(self.main)
            self.assertEqual(self.served.process.wait(PATIENCE), 3)
        self.main = self.served.pid

    def finish_new(self):
        os.kill(self.main, signal.SIGTERM)
        self.wait_drained(self.main)
        self.main = self.served.pid

    # ---- the new process dies ----

    def test_the_death_of_the_new_process_is_logged_and_cuts_no_stream(self):
        self.start(self.backend(self.stream))
        with self.open_stream() as read_rest:
            self.upgrade()
            os.kill(self.main, signal.SIGKILL)
            self.served.wait_line(f"process {self.main}, which had taken over, has failed: it was ended by signal 9")
            self.eventually(lambda: children(self.served.pid) == [], "no zombie")
            self.assertEqual(read_rest(), self.rest)
        self.assertEqual(self.served.process.wait(PATIENCE), 1)
        self.main = self.served.pid

    def test_systemd_sees_the_death_of_the_new_process_at_once(self):
        self.assertEqual(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0)
        self.addCleanup(ctypes.CDLL(None).prctl, PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        name = os.path.join(self.folder(), "notify")
        Manager(self, name)
        os.environ["NOTIFY_SOCKET"] = name
        try:
            self.start(self.backend(self.stream))
        finally:
            del os.environ["NOTIFY_SOCKET"]
        with self.open_stream():
            self.upgrade()
            os.kill(self.main, signal.SIGKILL)
            self.assertEqual(self.served.process.wait(PATIENCE), 1)
            pid, status = os.waitpid(self.main, 0)
        self.assertEqual((pid, os.WTERMSIG(status)), (self.main, signal.SIGKILL))
        self.main = self.served.pid


if __name__ == "__main__":
    case.main()
