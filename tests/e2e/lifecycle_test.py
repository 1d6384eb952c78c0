"""Start and shutdown: messages, draining, exit codes."""

import errno
import json
import os
import pathlib
import signal
import socket
import threading
import time

import case
from process import SANITIZED, Process, command
from stream import Closed, Stream, exchange


class Start(case.Case):
    def test_a_line_for_every_address_then_ready(self):
        backend = self.backend()
        daemon = self.daemon({
            "listeners": [{"name": "public"}, {"name": "internal", "address": "127.0.0.1:0"}],
            "pools": [{"name": "pool", "backends": [backend.address]}]})
        self.assertEqual(list(daemon.listening), ["public", "internal", "admin"])
        self.assertEqual(daemon.lines[3], "ready")
        for name in ("public", "internal"):
            self.assertNotRegex(daemon.listening[name], ":0$", "the port that the kernel gave")
            self.assertEqual(exchange(daemon.listening[name]).status, 200)
        lines = daemon.wait_access(2)
        self.assertEqual({line["listener"] for line in lines}, {"public", "internal"})

    def test_all_workers_serve_the_one_port(self):
        daemon = self.start_daemon(self.backend(), workers=4)
        streams = [Stream.connect(daemon.address) for _ in range(40)]
        for stream in streams:
            self.assertEqual(stream.exchange().status, 200)
            stream.close()
        self.assertEqual(daemon.api("status")["workers"], 4)

    def test_ipv6_if_available(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError:
            self.skipTest("no IPv6 here")
        daemon = self.start_daemon(self.backend(), listeners=[{"name": "public", "address": "[::1]:0"}])
        port = int(daemon.address.rpartition(":")[2])
        self.assertEqual(daemon.address, f"[::1]:{port}")
        with Stream(socket.create_connection(("::1", port))) as stream:
            self.assertEqual(stream.exchange().status, 200)
        self.assertEqual(daemon.wait_access(1)[0]["client"], "::1")

    def failed_start(self, config):
        process = Process(["run", "-c", self.write(config)])
        self.addCleanup(process.kill)
        self.assertEqual(process.wait_exit(), 1)
        self.assertNotIn("ready", process.lines)
        return "\n".join(process.lines)

    def write(self, text):
        path = os.path.join(self.folder(), "evenkeel.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            said = self.failed_start(
                f"listeners: [{{name: front, address: '{address}'}}]\nadmin: {{address: '127.0.0.1:0'}}\n"
                "pools: [{name: a, backends: ['127.0.0.1:1']}]\n")
            self.assertRegex(said, r"evenkeel\.yaml:1:36: error: listeners\[0\]\.address: listener front")
            self.assertIn(f"listener front: cannot listen on {address}: Address already in use; stop the process that uses it", said)
            said = self.failed_start(
                f"listeners: [{{address: '127.0.0.1:0'}}]\nadmin: {{address: '{address}'}}\n"
                "pools: [{name: a, backends: ['127.0.0.1:1']}]\n")
            self.assertRegex(said, r"evenkeel\.yaml:2:18: error: admin\.address: ")
            self.assertIn(f"admin.address: cannot listen on {address}: Address already in use", said)

    def test_a_second_daemon_cannot_share_a_port(self):
        daemon = self.start_daemon(self.backend())
        said = self.failed_start(
            f"listeners: [{{address: '{daemon.address}'}}]\nadmin: {{address: '127.0.0.1:0'}}\n"
            "pools: [{name: a, backends: ['127.0.0.1:1']}]\n")
        self.assertIn(f"cannot listen on {daemon.address}: Address already in use", said)
        said = self.failed_start(
            f"listeners: [{{address: '127.0.0.1:0'}}]\nadmin: {{address: '{daemon.admin}'}}\n"
            "pools: [{name: a, backends: ['127.0.0.1:1']}]\n")
        self.assertIn(f"cannot listen on {daemon.admin}: Address already in use", said)

    def test_a_port_can_be_reused_right_after_an_exit(self):
        backend = self.backend(lambda request: (request.answer(b"bye", fields=[("Connection", "close")])))
        first = self.start_daemon(backend)
        self.assertEqual(exchange(first.address).status, 200)
        first.wait_at_rest()
        self.assertEqual(first.stop(), 0)
        second = self.start_daemon(backend, listeners=[{"name": "public", "address": first.address}])
        self.assertEqual(exchange(second.address).status, 200)

    def test_an_invalid_file_fails_the_start(self):
        said = self.failed_start("pools: [{name: a, backend: [x]}]\n")
        self.assertRegex(said, r"evenkeel.yaml:1:\d+: error: pools\[0\].backend: unknown key; "
                               r"did you mean 'backends'\?")

    def test_a_missing_file_fails_the_start(self):
        ended = command("run", "-c", "/nowhere/evenkeel.yaml")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("/nowhere/evenkeel.yaml", ended.stderr)

    def test_an_access_log_that_cannot_be_opened_fails_the_start(self):
        said = self.failed_start("pools: [{name: a, backends: ['127.0.0.1:1']}]\n"
                                 "listeners: [{address: '127.0.0.1:0'}]\nadmin: {address: '127.0.0.1:0'}\n"
                                 "access_log: {path: /nowhere/at/all.log}\n")
        self.assertIn("/nowhere/at/all.log", said)


class Drain(case.Case):
    """Requests in flight at SIGTERM."""

    def setUp(self):
        self.go = threading.Event()
        self.addCleanup(self.go.set)

        def script(request):
            if request.target == "/quick":
                return request.answer(b"quick")
            request.begin_chunks()
            request.chunk(b"first ")
            self.go.wait(20)
            request.chunk(b"last")
            request.end_chunks()

        self.server = self.backend(script)

    def streaming(self, **config):
        """A daemon with one response in progress."""
        self.daemon_ = self.start_daemon(self.server, **config)
        stream = Stream.connect(self.daemon_.address)
        self.addCleanup(stream.close)
        stream.ask("POST", "/v1/chat/completions", body=b"{}")
        self.head = stream.read_head()
        self.assertEqual(stream.read_chunk(self.head), b"first ")
        return self.daemon_, stream

    def refuses(self, address):
        host, _, port = address.rpartition(":")
        with socket.socket() as sock:
            return sock.connect_ex((host, int(port))) == errno.ECONNREFUSED

    def test_requests_in_flight_finish_and_no_new_ones_are_accepted(self):
        daemon, stream = self.streaming()
        idle = Stream.connect(daemon.address)
        self.addCleanup(idle.close)
        self.assertEqual(idle.exchange(target="/quick").body, b"quick")
        fresh = Stream.connect(daemon.address)  # has not sent a request yet
        self.addCleanup(fresh.close)

        daemon.signal(signal.SIGTERM)
        self.eventually(lambda: self.refuses(daemon.address), "the end of the listener")
        idle.wait_closed()
        fresh.wait_closed()
        self.assertEqual(daemon.ask_admin("/readyz").status, 503)
        self.assertEqual(daemon.ask_admin("/readyz").body, b"draining\n")
        self.assertEqual(daemon.ask_admin("/healthz").status, 200)
        self.assertTrue(daemon.api("status")["draining"])
        self.assertEqual(daemon.api("status")["requests_in_flight"], 1)
        self.assertTrue(daemon.running())

        self.go.set()
        stream.read_body(self.head)
        self.assertEqual(self.head.body, b"last")
        stream.wait_closed()
        self.assertEqual(daemon.wait_exit(), 0)
        self.assertEqual(len(daemon.access_lines()), 2)

    def test_readiness_fails_before_listeners_close(self):
        daemon = self.start_daemon(self.server, shutdown={"delay": "1s"})
        daemon.signal(signal.SIGTERM)
        self.eventually(lambda: daemon.ask_admin("/readyz").status == 503, "not to be ready")
        self.assertEqual(exchange(daemon.address, target="/quick").body, b"quick")
        self.assertEqual(daemon.wait_exit(), 0)

    def test_int_and_quit_drain_too(self):
        for number in (signal.SIGINT, signal.SIGQUIT):
            self.go.clear()
            daemon, stream = self.streaming()
            daemon.signal(number)
            self.eventually(lambda: self.refuses(daemon.address), "the end of the listener")
            self.go.set()
            self.assertEqual(stream.read_body(self.head).body, b"last")
            self.assertEqual(daemon.wait_exit(), 0)

    def test_a_second_signal_exits_at_once(self):
        daemon, stream = self.streaming()
        daemon.signal(signal.SIGTERM)
        daemon.wait_line("draining")
        began = time.monotonic()
        daemon.signal(signal.SIGTERM)
        code = daemon.wait_exit()
        self.assert_within(time.monotonic() - began, 2 if not SANITIZED else 10)
        self.assertEqual(code, 3, "a request was left")
        with self.assertRaises((Closed, ConnectionError)):
            stream.read_body(self.head)

    def test_a_second_signal_does_not_wait_for_a_file_that_is_being_checked(self):
        daemon, stream = self.streaming()
        text = json.dumps({**json.loads(daemon.config_path.read_text()), "routes": [
            {"match": {"path": f"/tenant-{number}/**", "header": {"x-tenant": "a" * 200}}, "pool": "pool"}
            for number in range(15_000)]}, indent=1)
        daemon.config_path.write_text(text)
        began = time.monotonic()
        self.assertEqual(command("check", "-c", str(daemon.config_path)).returncode, 0)
        check_time = time.monotonic() - began
        daemon.signal(signal.SIGHUP)
        self.eventually(lambda: self.is_checking(daemon), "the check of the file")

        began = time.monotonic()
        daemon.signal(signal.SIGTERM)
        daemon.wait_line("draining")
        daemon.signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_exit(), 3, "a request was left")

        print(f"exited in {time.monotonic() - began:.2f} s, a check takes {check_time:.1f} s")
        self.assertLess(time.monotonic() - began, check_time / 2)
        self.assertIn("second signal", daemon.lines[-1], "the log is complete")
        self.assertEqual(daemon.access_path.read_text().count("\n"), 1, "so is the access log")

    def is_checking(self, daemon):
        """Whether the thread that checks files has used 30 ms of processor time."""
        for thread in pathlib.Path(f"/proc/{daemon.pid}/task").iterdir():
            if (thread / "comm").read_text() == "preparation\n":
                return int((thread / "stat").read_text().rpartition(")")[2].split()[11]) >= 3
        return False

    def test_the_drain_deadline_cuts_off_the_rest(self):
        daemon, stream = self.streaming(shutdown={"drain": "300ms"})
        began = time.monotonic()
        daemon.signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_exit(), 3)
        self.assertGreaterEqual(time.monotonic() - began, 0.3)
        with self.assertRaises((Closed, ConnectionError), msg="the abort must be visible"):
            stream.read_body(self.head)

    def test_idle_connections_do_not_delay_the_exit(self):
        daemon = self.start_daemon(self.server)
        idle = [Stream.connect(daemon.address) for _ in range(50)]
        for stream in idle:
            self.addCleanup(stream.close)
        for stream in idle[::2]:
            stream.exchange(target="/quick")
        self.eventually(lambda: daemon.api("status")["connections"] == 50)
        began = time.monotonic()
        self.assertEqual(daemon.stop(), 0)
        self.assert_within(time.monotonic() - began, 2 if not SANITIZED else 10)
        for stream in idle:
            stream.wait_closed()

    def test_a_partially_received_request_is_answered(self):
        """Its head has begun to arrive at the signal."""
        daemon = self.start_daemon(self.server)
        with Stream.connect(daemon.address) as stream:
            stream.send(b"GET /quick HTTP/1.1\r\nHo")
            self.eventually(lambda: daemon.api("status")["connections"] == 1)
            with Stream.connect(daemon.address) as other:  # answered after the daemon has read the first half
                other.exchange(target="/quick")
            daemon.signal(signal.SIGTERM)
            self.eventually(lambda: self.refuses(daemon.address), "the end of the listener")
            stream.send(b"st: test\r\n\r\n")
            answer = stream.read_response()
            self.assertEqual((answer.status, answer.field("connection")), (200, "close"))
        self.assertEqual(daemon.wait_exit(), 0)

    def test_a_queued_request_is_still_served(self):
        daemon, first = self.streaming(pool={"limits": {"max_in_flight": 1}})
        second = Stream.connect(daemon.address)
        self.addCleanup(second.close)
        second.ask()
        self.eventually(lambda: daemon.api("pools")[0]["waiting"] == 1, "one in line")
        daemon.signal(signal.SIGTERM)
        self.eventually(lambda: self.refuses(daemon.address), "the end of the listener")
        self.go.set()
        self.assertEqual(first.read_body(self.head).body, b"last")
        self.assertEqual(second.read_response().body, b"first last")
        self.assertEqual(daemon.wait_exit(), 0)

    def test_sighup_does_not_exit(self):
        daemon = self.start_daemon(self.server)
        daemon.signal(signal.SIGHUP)
        daemon.signal(signal.SIGUSR1)
        self.assertEqual(exchange(daemon.address, target="/quick").status, 200)


class ClientTimeouts(case.Case):
    """How long a client may be inactive."""

    def test_idle_between_requests(self):
        daemon = self.start_daemon(self.backend(), listeners=[
            {"name": "public", "timeouts": {"idle": "200ms"}}])
        with Stream.connect(daemon.address) as stream:
            stream.exchange()
            stream.exchange()
            self.assertEqual(stream.socket.recv(100), b"", "an end without a word")
        self.assertEqual(daemon.metric("evenkeel_errors_total"), 0)

    def test_not_reading_the_response(self):
        def flood(request):
            request.begin_chunks()
            while True:
                request.chunk(b"x" * 65536)

        backend = self.backend(flood)
        daemon = self.start_daemon(backend, listeners=[{"name": "public", "timeouts": {"write": "200ms"}}])
        with Stream.connect(daemon.address, receive_buffer=4096) as stream:
            stream.ask()
            line = daemon.wait_access(1)[0]
            self.assertEqual((line["status"], line["reason"], line["aborted"]),
                             (499, "write_timeout", True))
        self.eventually(lambda: backend.connections() == 0, "the end of the generation")
        self.assertEqual(daemon.backend(backend.address)["errors_total"], 0)

    def test_a_slow_reader_is_served_to_the_end(self):
        """The timeout is about progress, not about the total time."""
        size = 8_000_000
        daemon = self.start_daemon(self.backend(lambda request: request.answer(b"x" * size)),
                                  listeners=[{"name": "public", "timeouts": {"write": "300ms"}}])
        with Stream.connect(daemon.address, receive_buffer=65536) as stream:
            stream.ask()
            head = stream.read_head()
            got = len(stream.buffer)
            began = time.monotonic()
            while got < size:
                piece = stream.socket.recv(65536)
                self.assertTrue(piece, f"cut off after {got} bytes")
                got += len(piece)
                if time.monotonic() - began < 1:
                    time.sleep(0.02)  # takes three times the timeout
            self.assertEqual(head.length(), size)


if __name__ == "__main__":
    case.main()
