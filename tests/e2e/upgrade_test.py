"""SIGUSR2: a new process with the binary's new file takes over the listening sockets; the old one drains and exits."""

import os
import pathlib
import signal
import socket
import threading

import case
import process
import saved_state
from dns_server import NameServer
from http2 import Peer
from process import BINARY
from reloading import EVENTS, Traffic, refuses, serve
from service_test import Manager
from socket_activation_test import SocketActivatedDaemon
from stream import PATIENCE, Closed, Stream, exchange
from upgrading import UpgradeCase, alive, children


class ReconnectingTraffic(Traffic):
    """Clients that connect again when their connection says that it closes, and only then. Every other failure of a
    request fails the test."""

    def __init__(self, test, address, **kwargs):
        super().__init__(test, address, **kwargs)
        self.counts["new"] = 0
        self._clients.append(test.spawn(self._ask_on_new_connections))

    def _connections(self):
        """HTTP/1 connections, each to be used until it says that it closes."""
        while not self._stop.is_set():
            with Stream.connect(self.address) as stream:
                yield stream

    def _ask_h1(self):
        for stream in self._connections():
            closes = False
            while not closes and not self._stop.is_set():
                answer = stream.exchange(target=self.path)
                assert (answer.status, answer.body) == (200, b"hello"), (answer.raw, answer.body)
                closes = answer.field("connection") == "close"
                self.counts["h1"] += 1

    def _ask_on_new_connections(self):
        while not self._stop.is_set():
            answer = exchange(self.address)
            assert (answer.status, answer.body) == (200, b"hello"), (answer.raw, answer.body)
            self.counts["new"] += 1

    def _ask_sse(self):
        for stream in self._connections():
            closes = False
            while not closes and not self._stop.is_set():
                stream.ask("POST", "/sse", body=b"{}")
                head = stream.read_head()
                pieces = []
                while piece := stream.read_chunk(head):
                    pieces.append(piece)
                assert b"".join(pieces) == b"".join(EVENTS), pieces
                closes = head.field("connection") == "close"
                self.counts["sse"] += 1

    def _ask_h2(self):
        while not self._stop.is_set():
            with Peer.connect(self.address) as peer:
                while peer.goaway is None and not self._stop.is_set():
                    self._exchange_h2(peer)
                assert not peer.violations, peer.violations

    def _exchange_h2(self, peer):
        for stream in [peer.request(path=self.path) for _ in range(4)]:
            try:
                head = stream.read_response()
            except Closed:
                # RFC 9113, section 6.8: was not processed; the client sends it again elsewhere.
                if peer.goaway is None or stream.number <= peer.goaway[0]:
                    raise
                continue
            assert (head.status, head.body) == (200, b"hello"), (head.fields, head.body)
            self.counts["h2"] += 1


class Upgrade(UpgradeCase):
    def test_no_request_fails_and_streams_finish(self):
        self.start(self.backend(serve), self.backend(serve))
        traffic = ReconnectingTraffic(self, self.served.address)
        self.eventually(lambda: traffic.asked() > 200, "traffic")
        self.upgrade()
        self.assertEqual(self.served.process.wait(PATIENCE), 0, "the old process drained")
        counts = dict(traffic.counts)
        self.eventually(lambda: all(traffic.counts[kind] > counts[kind] + 5 for kind in counts), "traffic")
        traffic.end()

    def test_three_upgrades_in_a_row(self):
        self.start(self.backend(serve))
        traffic = ReconnectingTraffic(self, self.served.address, h1=2, sse=1)
        pids = [self.served.pid]
        for _ in range(3):
            counts = dict(traffic.counts)
            self.eventually(lambda: all(traffic.counts[kind] > counts[kind] for kind in counts), "traffic")
            self.upgrade()
            pids.append(self.main)
        self.assertEqual(len(set(pids)), 4)
        for pid in pids[:3]:
            self.wait_drained(pid)
        traffic.end()

    def test_a_long_stream_ends_in_the_process_that_began_it(self):
        release = threading.Event()

        def stream(exchange):
            exchange.begin_chunks([("content-type", "text/event-stream")])
            exchange.chunk(b"data: first\n\n")
            release.wait(PATIENCE)
            exchange.chunk(b"data: last\n\n")
            exchange.end_chunks()

        self.start(self.backend(stream))
        with Stream.connect(self.served.address) as client:
            client.ask("POST", "/v1/completions", body=b"{}")
            head = client.read_head()
            self.assertEqual(client.read_chunk(head), b"data: first\n\n")
            self.upgrade()
            self.assertTrue(self.served.running())
            release.set()
            self.assertEqual(client.read_chunk(head), b"data: last\n\n")
            self.assertEqual(client.read_chunk(head), b"")
        self.assertEqual(self.served.process.wait(PATIENCE), 0)

    def test_an_idle_connection_gets_its_next_response_and_then_closes(self):
        self.start(self.backend(serve))
        with Stream.connect(self.served.address) as client:
            self.assertEqual(client.exchange().status, 200)
            self.upgrade()
            answer = client.exchange()
            self.assertEqual((answer.status, answer.field("connection")), (200, "close"))
        self.assertEqual(self.served.process.wait(PATIENCE), 0)

    def test_the_new_process_reads_the_file_again(self):
        self.start(self.backend(serve), workers=3)
        first = self.served.address
        self.config["listeners"].append({"name": "second", "address": "127.0.0.1:0"})
        self.config["workers"] = 1
        self.write()
        self.upgrade()
        self.served.process.wait(PATIENCE)
        self.assertEqual(self.served.api("status")["workers"], 1)
        second = self.served.wait_line(r"listening name=second address=(\S+)")[1]
        for _ in range(40):  # one worker accepts from the three sockets
            self.assertEqual(exchange(first).status, 200)
            self.assertEqual(exchange(second).status, 200)
        self.config["listeners"].pop()
        self.config["workers"] = 4
        self.write()
        self.upgrade()
        self.eventually(lambda: refuses(second), "the end of the second listener")
        self.assertEqual(self.served.api("status")["workers"], 4)
        for _ in range(40):
            self.assertEqual(exchange(first).status, 200)

    def test_what_operators_have_set_holds(self):
        backends = [self.backend(serve) for _ in range(3)]
        self.start(*backends)
        drained, weighted, other = (backend.address for backend in backends)
        self.served.ask_admin(f"/api/v1/backends/{drained}/drain", method="POST")
        ended = process.command("ctl", "weight", weighted, "7", "--admin", self.served.admin)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        for _ in range(2):
            self.wait_drained(self.upgrade())
            self.assertEqual(self.states(), {drained: "draining", weighted: "up", other: "up"})
            self.assertEqual(self.served.backend(weighted)["weight"], 7)
        self.served.ask_admin(f"/api/v1/backends/{drained}/undrain", method="POST")
        self.wait_drained(self.upgrade())
        self.assertEqual(self.states()[drained], "up")

    def test_a_drain_holds_although_the_name_has_lost_other_servers(self):
        hosts = ["127.0.0.11", "127.0.0.12"]
        port = 0
        for host in hosts:
            port = self.backend(serve, host=host, port=port).port
        names = NameServer()
        self.addCleanup(names.close)
        names.say("fleet.test", *hosts)
        other = self.backend(serve).address
        self.start(f"fleet.test:{port}", other, dns={"servers": [names.address], "min_ttl": "100ms", "max_ttl": "300ms"})
        drained = f"fleet.test:{port}@{hosts[0]}"
        self.assertEqual(self.served.ask_admin(f"/api/v1/backends/{drained}/drain", method="POST").status, 200)
        names.say("fleet.test", hosts[0])
        left = {drained: "draining", other: "up"}
        self.eventually(lambda: self.states() == left, "the end of the other server")
        self.wait_drained(self.upgrade())
        self.assertEqual(self.states(), left)

    def test_what_was_learned_holds(self):
        state = pathlib.Path(self.folder()) / "state"
        backend = self.backend(serve)
        self.start(backend, state_file=str(state), pool={"health": {"check": "off"}})
        for _ in range(20):
            exchange(self.served.address)
        self.wait_drained(self.upgrade())
        self.eventually(state.exists, "the file of the new process")
        state.unlink()
        os.kill(self.main, signal.SIGTERM)
        self.eventually(state.exists, "the file of the new process at its end")
        self.assertEqual(saved_state.read(state)[backend.address].observed.latency_samples, 20)

    def test_the_file_at_the_path_is_what_runs_next(self):
        self.start(self.backend(serve))
        self.install(f'#!/bin/sh\necho "this is the new file" >&2\nexec {BINARY} "$@"\n')
        self.upgrade()
        self.served.wait_line("^this is the new file$")
        self.assertEqual(exchange(self.served.address).status, 200)

    def test_an_upgrade_that_fails_leaves_the_daemon_as_it_was(self):
        self.start(self.backend(serve))
        traffic = ReconnectingTraffic(self, self.served.address)
        good = self.binary.read_bytes()

        def corrupt():
            self.write("pools: what")

        for spoil, problem in ((corrupt, "did not start: it exited with code 1"),
                               (lambda: self.install("no program"), "cannot run .*: Exec format error"),
                               (lambda: self.install("#!/bin/sh\nkill -SEGV $$\n"), "it was ended by signal 11"),
                               (self.binary.unlink, "cannot run .*: No such file")):
            spoil()
            failures = self.reloads_logged("upgrade failed")
            self.served.signal(signal.SIGUSR2)
            self.eventually(lambda: self.reloads_logged("upgrade failed") > failures, "the failure")
            self.served.wait_line("upgrade failed; this process continues: .*" + problem)
            self.assertRegex(self.served.api("status")["upgrade_problem"], problem)
            self.assertEqual(self.served.metric("evenkeel_last_upgrade_successful"), 0)
            self.assertIn("the last upgrade failed: ", "\n".join(
                process.command("ctl", "status", "--admin", self.served.admin).stdout.splitlines()))
        traffic.end()
        self.write()
        self.binary.write_bytes(good)
        self.binary.chmod(0o755)
        self.upgrade()
        self.assertEqual(self.served.metric("evenkeel_last_upgrade_successful"), 1)
        self.assertEqual(self.served.process.wait(PATIENCE), 0)

    def test_a_drain_ends_an_upgrade_that_is_not_ready(self):
        self.start(self.backend(serve))
        self.install("#!/bin/sh\nexec sleep 60\n")
        self.served.signal(signal.SIGUSR2)
        started = self.eventually(lambda: children(self.main), "the new process")
        self.assertEqual(exchange(self.served.address).status, 200)
        self.served.signal(signal.SIGTERM)
        self.assertEqual(self.served.process.wait(PATIENCE), 0)
        for pid in started:
            self.eventually(lambda pid=pid: not alive(pid), "the end of the new process")

    def test_the_socket_of_a_supervisor_is_handed_on(self):
        held = socket.socket()
        self.addCleanup(held.close)
        held.bind(("127.0.0.7", 0))
        held.listen(100)
        place = "127.0.0.7:%d" % held.getsockname()[1]
        self.config = {"listeners": [{"name": "public", "address": "127.0.0.1:0"}], "workers": 2,
                       "pools": [{"name": "pool", "backends": [self.backend(serve).address]}]}
        self.served = SocketActivatedDaemon(self.folder(), self.config, [held], ["public"])
        self.addCleanup(self.served.finish)
        self.main = self.served.pid
        self.addCleanup(self.end_main)
        held.close()
        self.assertEqual(self.served.address, place)
        for _ in range(2):
            before = self.upgrade()
            self.wait_drained(before)
            for _ in range(20):
                self.assertEqual(exchange(place).status, 200)
        self.assertEqual(self.served.ask_admin("/api/v1/reload", method="POST").status, 200)
        self.assertEqual(exchange(place).status, 200)

    def test_systemd_is_notified_of_the_new_main_process(self):
        name = os.path.join(self.folder(), "notify")
        manager = Manager(self, name)
        self.served = self.daemon({"pools": [{"name": "pool", "backends": [self.backend(serve).address]}]},
                                  env={"NOTIFY_SOCKET": name})
        self.main = self.served.pid
        self.addCleanup(self.end_main)
        at, _ = manager.wait("READY=1")
        self.wait_drained(self.upgrade())
        at, _ = manager.wait("RELOADING=1", after=at)
        _, told = manager.wait("MAINPID=", after=at)
        self.assertEqual(told, f"MAINPID={self.main}\nREADY=1\nSTATUS=serving 1 pool, 1 of 1 backends up")
        self.assertFalse([text for _, text in manager.heard if "STOPPING" in text])


if __name__ == "__main__":
    case.main()
