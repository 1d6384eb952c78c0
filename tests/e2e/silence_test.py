"""Connections and servers that fall silent without a word, and a daemon that is stopped for a while."""

import contextlib
import signal
import socket
import threading
import time

import case
from http2 import ACK, END_STREAM, HEADERS, PING, SETTINGS, data, frame, headers, settings
from process import SANITIZED
from stream import Closed, Stream, exchange


class Http2Server:
    """Serves HTTP/2 until `silence()`: the connections of that time then hear nothing more, newer ones do."""

    def __init__(self, test):
        self.silenced = set()
        self.open = set()
        self.requests = []  # number of the connection of each request
        self.server = test.hostile(self._play)
        self.address = self.server.address

    def silence(self):
        self.silenced |= self.open

    def _play(self, wire, number):
        self.open.add(number)
        try:
            self._serve(wire, number)
        finally:
            self.open.discard(number)

    def _serve(self, wire, number):
        wire.send(settings())
        wire.stream.socket.settimeout(120)
        while True:
            received = wire.read()
            if number in self.silenced:
                if received.kind == HEADERS:
                    self.requests.append(number)
                continue
            if received.kind == SETTINGS and not received.flags & ACK:
                wire.send(settings(ack=True))
            elif received.kind == PING and not received.flags & ACK:
                wire.send(frame(PING, ACK, 0, received.payload))
            elif received.kind == HEADERS and received.flags & END_STREAM:
                wire.decode(received)
                self.requests.append(number)
                wire.send(headers(received.stream, [(":status", "200")], end=False),
                          data(received.stream, b"fine", end=True))


def request(address, within=60):
    """The status and how long it took."""
    began = time.monotonic()
    with Stream.connect(address) as stream:
        stream.socket.settimeout(within)
        answer = stream.exchange()
    return answer.status, time.monotonic() - began


class SilentConnections(case.Case):
    def test_a_silent_connection_is_left_although_requests_go_out_on_it(self):
        server = Http2Server(self)
        daemon = self.start_daemon(server, pool={"protocol": "h2", "health": {"check": "off"}}, workers=1)
        self.assertEqual(request(daemon.address)[0], 200)
        server.silence()
        answers = []
        began = time.monotonic()
        while time.monotonic() - began < 14:
            answers.append(self.spawn(lambda: request(daemon.address)))
            time.sleep(1)
        took = [each.join() for each in answers]
        self.assertEqual([status for status, _ in took], [200] * len(took))  # GET: safe to repeat
        self.assert_within(max(seconds for _, seconds in took), 25 if not SANITIZED else 40)
        self.assert_within(took[-1][1], 1 if not SANITIZED else 5)  # sent after the ping

    def test_checks_find_that_only_the_connections_are_dead(self):
        server = Http2Server(self)
        daemon = self.start_daemon(server, workers=1, pool={
            "protocol": "h2", "health": {"check": "http", "path": "/health", "interval": "300ms", "timeout": "500ms"}})
        self.assertEqual(request(daemon.address)[0], 200)
        server.silence()
        held = self.spawn(lambda: request(daemon.address))
        began = time.monotonic()
        self.eventually(lambda: set(server.requests) - server.silenced, "a check over a new connection")
        self.eventually(lambda: daemon.backend(server.address)["state"] == "up")
        time.sleep(0.5)  # then the workers ping
        status, seconds = request(daemon.address)
        self.assertEqual(status, 200)
        self.assert_within(seconds, 1 if not SANITIZED else 5)
        self.assert_within(time.monotonic() - began, 8 if not SANITIZED else 20)
        self.assertEqual(held.join()[0], 200)
        self.eventually(lambda: len(server.open) <= 3, "one connection for requests, one for checks")


class SilentServers(case.Case):
    def test_requests_of_a_server_that_hangs_fail_soon_after_its_checks(self):
        simulators = self.simulators("--engine", "vllm", "--model", "m", speed=1)
        daemon = self.start_daemon(*simulators.addresses, pool={
            "engine": "vllm", "health": {"interval": "200ms", "timeout": "500ms"}})
        body = (b'{"model": "m", "stream": true, "max_tokens": 100000, "ignore_eos": true,'
                b' "messages": [{"role": "user", "content": "hello"}]}')
        stream = Stream.connect(daemon.address)
        self.addCleanup(stream.close)
        stream.ask("POST", "/v1/chat/completions", body=body, fields=[("content-type", "application/json")])
        self.assertEqual(stream.read_head().status, 200)
        simulators.signal(signal.SIGSTOP)
        self.addCleanup(lambda: simulators.running() and simulators.signal(signal.SIGCONT))
        began = time.monotonic()
        self.eventually(lambda: daemon.backend(simulators.addresses[0])["state"] == "down")
        self.assertEqual(exchange(daemon.address).status, 503)
        stream.socket.settimeout(60)
        with self.assertRaises(Closed):
            while stream.read_some():
                pass
            raise Closed("cut off")
        self.assert_within(time.monotonic() - began, 40 if not SANITIZED else 90)
        simulators.signal(signal.SIGCONT)


class UncheckedServers(case.Case):
    def test_a_server_that_hangs_is_noticed_without_health_checks(self):
        hangs, left = threading.Event(), threading.Event()
        left.set()

        def serve(request):
            if hangs.is_set():
                left.wait(60)
            request.answer(b"hung")

        bad = self.backend(serve)
        others = [self.backend(lambda request: request.answer(b"fine")) for _ in range(2)]
        daemon = self.start_daemon(bad, *others, workers=2, pool={"health": {"check": "off"}, "picker": "round-robin"})
        answered, clients = [], []

        def send(seconds, rate=20):
            began = time.monotonic()
            while time.monotonic() - began < seconds:
                clients.append(self.spawn(lambda: answered.append(request(daemon.address))))
                time.sleep(1 / rate)

        def reason():
            return daemon.backend(bad.address)["reason"] or ""

        send(0.5)
        hangs.set()
        left.clear()
        self.addCleanup(left.set)
        self.eventually(lambda: send(0.2) or "answers no request" in reason(), "its silence")
        daemon.wait_line(r"pool pool: \S+ is avoided: it has answered none of \d+ requests for \d\.\d s while others answer$")
        self.eventually(lambda: len(clients) - len(answered) == daemon.backend(bad.address)["in_flight"])
        held = len(clients) - len(answered)
        send(3)
        self.eventually(lambda: len(clients) - len(answered) <= held + 2, "answers of the others; two were trials")

        hangs.clear()
        left.set()
        self.eventually(lambda: send(0.2) or not reason(), "its return")
        self.eventually(lambda: len(answered) == len(clients))
        daemon.wait_line(r"pool pool: \S+ answers again$")
        self.assertEqual({status for status, _ in answered}, {200})


    def test_clients_that_hold_back_their_uploads_make_no_server_silent(self):
        self.check_uploads(paused=True)

    def test_a_server_that_does_not_read_its_uploads_is_silent(self):
        self.check_uploads(paused=False)

    def check_uploads(self, paused):
        """Two uploads to one server, while the other one answers."""
        reads = threading.Event()

        def serve(request):
            if request.method == "POST" and not paused:
                reads.wait(60)
            request.answer(b"fine")

        servers = [self.backend(serve, reads_body=paused) for _ in range(2)]
        daemon = self.start_daemon(*servers, pool={
            "health": {"check": "off"}, "picker": {"name": "consistent-hash", "header": "x-user", "load_factor": 1000}})
        self.addCleanup(reads.set)

        def server_of(key):
            seen = len(servers[0].exchanges)
            self.assertEqual(exchange(daemon.address, fields=[("x-user", key)]).status, 200)
            return 0 if len(servers[0].exchanges) > seen else 1

        here = "0"
        there = next(key for key in map(str, range(1, 100)) if server_of(key) != server_of(here))
        server = servers[server_of(here)]
        size = 30_000_000  # more than the buffers of the sockets hold

        def upload():
            wire = Stream.connect(daemon.address)
            self.addCleanup(wire.close)
            wire.send(f"POST / HTTP/1.1\r\nHost: a\r\nX-User: {here}\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * 1000)
            if not paused:
                self.spawn(lambda: self.fill(wire, size - 1000))
                self.addCleanup(self.cut, wire)  # before the thread is joined

        def silent():
            if daemon.backend(server.address)["in_flight"] < 5:
                upload()
            self.assertEqual(exchange(daemon.address, fields=[("x-user", there)]).status, 200)
            return "answers no request" in (daemon.backend(server.address)["reason"] or "")

        if not paused:
            return self.eventually(silent, "its silence")
        began = time.monotonic()
        while time.monotonic() - began < 6:
            self.assertFalse(silent())
            time.sleep(0.1)
        return self.assertEqual(daemon.backend(server.address)["in_flight"], 5)

    @staticmethod
    def fill(wire, size):
        with contextlib.suppress(OSError):  # the test ends first
            wire.send(b"x" * size)

    @staticmethod
    def cut(wire):
        with contextlib.suppress(OSError):
            wire.socket.shutdown(socket.SHUT_RDWR)


class StoppedDaemon(case.Case):
    def stop(self, daemon, seconds):
        """Sends SIGSTOP; a timer of that many seconds sends SIGCONT."""
        daemon.signal(signal.SIGSTOP)
        timer = threading.Timer(seconds, lambda: daemon.signal(signal.SIGCONT))
        timer.start()
        self.addCleanup(timer.join)

    def test_what_arrives_meanwhile_counts_as_in_time(self):
        def script(asked):
            if asked.target == "/late":
                self.asked.set()
                self.stopped.wait(20)
            if asked.target == "/body":
                asked.begin_chunks()
                asked.chunk(b"one")
                self.asked.set()
                self.stopped.wait(20)
                asked.chunk(b"two")
                return asked.end_chunks()
            return asked.answer(b"fine")

        backend = self.backend(script)
        daemon = self.start_daemon(
            backend, workers=1, pool={"timeouts": {"first_byte": "3s", "idle": "3s"}, "health": {"check": "off"}},
            listeners=[{"name": "public", "timeouts": {"header": "3s", "body": "3s"}}])
        for attempt in range(3):
            with self.subTest(attempt=attempt):
                self.asked, self.stopped = threading.Event(), threading.Event()
                late, streamed = Stream.connect(daemon.address), Stream.connect(daemon.address)
                late.ask(target="/late")
                self.asked.wait(20)
                self.asked.clear()
                streamed.ask(target="/body")
                self.asked.wait(20)
                streamed.read_head()
                head, body = Stream.connect(daemon.address), Stream.connect(daemon.address)
                for stream in (late, streamed, head, body):
                    self.addCleanup(stream.close)
                head.send(b"GET / HTTP/1.1\r\n")
                body.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\none")
                time.sleep(0.1)
                self.stop(daemon, 3.6)
                head.send(b"Host: a\r\n\r\n")
                body.send(b"two")
                self.stopped.set()
                statuses = [stream.read_response().status for stream in (late, head, body)]
                self.assertEqual(statuses, [200, 200, 200])
                self.assertIn(b"two", streamed.read_until(b"0\r\n\r\n"))


if __name__ == "__main__":
    case.main()
