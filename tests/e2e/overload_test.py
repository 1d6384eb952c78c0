"""When connections, memory or the patience with slow clients run out: what is given up, and what is served."""

import json
import pathlib
import re
import resource
import select
import threading
import time
import unittest

import case
import http2
from certificates import Authority
from process import SANITIZED
from stream import Closed, Stream, exchange
from websocket_echo import switch

KIBI = 1 << 10
MEBI = 1 << 20
UNIT = pathlib.Path(__file__).resolve().parents[2] / "config" / "evenkeel.service"


class Gate:
    """A script that answers `/waits` when the test opens it, and everything else at once."""

    def __init__(self):
        self._opened = threading.Event()

    def __call__(self, ask):
        if ask.target == "/waits":
            assert self._opened.wait(30), "the test did not open the gate"
        ask.answer(ask.target.encode())

    def open(self):
        self._opened.set()


class Limited(case.Case):
    """A listener with a limit of connections."""

    def limited(self, most, workers=1):
        self.gate = Gate()
        self.addCleanup(self.gate.open)
        return self.start_daemon(self.backend(self.gate), workers=workers, listeners=[
            {"name": "public", "limits": {"max_connections": most}}])

    def connect(self, daemon):
        stream = Stream.connect(daemon.address)
        self.addCleanup(stream.close)
        return stream

    def open_connections(self, daemon, count):
        self.eventually(lambda: daemon.metric("evenkeel_connections") == count, f"{count} connections")

    @staticmethod
    def shed(daemon, reason="max_connections"):
        return daemon.metric("evenkeel_connections_shed_total", listener="public", reason=reason)

    @staticmethod
    def closed(streams):
        """The numbers of the connections that the daemon has closed."""
        return [number for number, each in enumerate(streams) if select.select([each.socket], [], [], 0)[0]]


class MaxConnections(Limited):
    def test_the_connection_that_is_idle_longest_makes_room_on_whichever_worker(self):
        most = 24
        daemon = self.limited(most, workers=3)
        order = [self.connect(daemon) for _ in range(most)]
        order.append(order[0])  # it has two exchanges, and is idle for the shortest time
        for stream in order:
            self.assertEqual(stream.exchange().status, 200)
            daemon.wait_asleep()  # a worker may send a response and take note of the idle connection later
        del order[0]

        for number in range(most):
            fresh = self.connect(daemon)
            self.assertEqual(fresh.exchange().status, 200)
            self.eventually(lambda number=number: number in self.closed(order), "the oldest to be shed")
            daemon.wait_asleep()
            self.assertEqual(self.closed(order), list(range(number + 1)), "one is shed for one accepted")
        self.assertEqual(self.shed(daemon), most)
        self.open_connections(daemon, most)

    def test_while_none_is_idle_new_connections_wait_until_one_ends(self):
        daemon = self.limited(2, workers=2)
        busy = [self.connect(daemon) for _ in range(2)]
        for stream in busy:
            stream.ask(target="/waits")
        self.eventually(lambda: daemon.api("pools")[0]["in_flight"] == 2, "both at the backend")

        waiting = [self.connect(daemon) for _ in range(6)]
        for number, stream in enumerate(waiting):
            stream.ask(target=f"/{number}")
        before = daemon.cpu_seconds()
        time.sleep(1)  # nothing is to happen
        self.assertLess(daemon.cpu_seconds() - before, 0.2, "it must not spin")
        self.assertEqual(daemon.metric("evenkeel_connections_total"), 2)
        self.assertEqual(self.shed(daemon), 0)

        self.gate.open()
        for stream in busy:
            self.assertEqual(stream.read_response().body, b"/waits")
        for number, stream in enumerate(waiting):
            self.assertEqual(stream.read_response().body, b"/%d" % number)

    def test_a_connection_whose_next_request_may_be_on_the_way_is_kept(self):
        daemon = self.limited(1)
        active = self.connect(daemon)
        self.assertEqual(active.exchange().status, 200)
        waiting = self.connect(daemon)
        waiting.ask(target="/next")
        end = time.monotonic() + 1
        while time.monotonic() < end:
            self.assertEqual(active.exchange().status, 200)
        self.assertEqual(self.shed(daemon), 0)
        self.assertEqual(waiting.read_response().body, b"/next")
        self.assertEqual(self.shed(daemon), 1)

    def test_a_connection_that_ends_is_replaced_at_once(self):
        daemon = self.limited(1)
        busy = self.connect(daemon)
        busy.ask(target="/waits")
        self.eventually(lambda: daemon.api("pools")[0]["in_flight"] == 1, "a busy connection")
        waiting = self.connect(daemon)
        waiting.ask(target="/next")
        busy.close()
        self.assertEqual(waiting.read_response().body, b"/next")


class LargeClient(Limited):
    """One address that has most of a listener's connections, and others that need some."""

    LIMIT = 12
    SMALL, LARGE, FRESH = "127.0.0.1", "127.0.0.2", "127.0.0.3"

    def connect_from(self, daemon, source, **kwargs):
        stream = Stream.connect(daemon.address, source=source, **kwargs)
        self.addCleanup(stream.close)
        return stream

    def idle(self, daemon, source, **kwargs):
        stream = self.connect_from(daemon, source, **kwargs)
        self.assertEqual(stream.exchange().status, 200)
        return stream

    def test_its_idle_connections_make_room_first(self):
        daemon = self.limited(self.LIMIT, workers=2)
        small = self.idle(daemon, self.SMALL)
        large = [self.idle(daemon, self.LARGE) for _ in range(self.LIMIT - 1)]
        daemon.wait_asleep()

        others = [small, *(self.idle(daemon, self.FRESH) for _ in range(3))]

        self.eventually(lambda: len(self.closed(large)) == 3, "three of the large client's to be shed")
        # The first ones were within its share.
        self.assertGreater(min(self.closed(large)), 5)
        for stream in others:
            self.assertEqual(stream.exchange().status, 200)
        self.assertEqual(self.shed(daemon), 3)

    def test_a_new_one_of_it_takes_the_place_of_none_of_others(self):
        daemon = self.limited(self.LIMIT)
        small = self.idle(daemon, self.SMALL)
        large = [self.connect_from(daemon, self.LARGE) for _ in range(self.LIMIT - 1)]
        for stream in large:
            stream.ask(target="/waits")
        self.eventually(lambda: daemon.api("pools")[0]["in_flight"] == len(large), "all at the backend")
        time.sleep(0.3)  # the idle one may be shed from now on

        for _ in range(3):
            self.connect_from(daemon, self.LARGE).wait_closed()

        self.assertEqual(small.exchange().status, 200)
        self.assertEqual(self.shed(daemon), 3)
        time.sleep(0.3)
        self.idle(daemon, self.FRESH)
        small.wait_closed()
        self.gate.open()
        for stream in large:
            self.assertEqual(stream.read_response().status, 200)

    def test_one_that_is_alone_has_all(self):
        daemon = self.limited(self.LIMIT)
        large = [self.idle(daemon, self.LARGE) for _ in range(self.LIMIT)]
        time.sleep(0.3)
        self.idle(daemon, self.LARGE)
        self.eventually(lambda: self.closed(large) == [0], "the oldest to be shed")

    def test_its_unfinished_handshakes_make_room_first(self):
        authority = Authority(self.folder())
        certificate = authority.issue("localhost", "127.0.0.1")
        daemon = self.start_daemon(self.backend(Gate()), workers=1, listeners=[
            {"name": "public", "limits": {"max_connections": self.LIMIT},
             "tls": {"certificates": [certificate.config()]}}])
        tls = {"tls": authority.trust(), "name": "localhost"}
        small = self.idle(daemon, self.SMALL, **tls)
        silent = [self.connect_from(daemon, self.LARGE) for _ in range(self.LIMIT - 1)]
        self.open_connections(daemon, self.LIMIT)

        fresh = self.idle(daemon, self.FRESH, **tls)

        self.eventually(lambda: len(self.closed(silent)) == 1, "one handshake to be shed")
        self.assertEqual((small.exchange().status, fresh.exchange().status), (200, 200))

    def test_clients_behind_a_proxy_are_those_that_it_names(self):
        daemon = self.start_daemon(self.backend(Gate()), listeners=[
            {"name": "public", "proxy_protocol": ["127.0.0.0/8"], "limits": {"max_connections": self.LIMIT}}])

        def idle(client):
            stream = self.connect(daemon)
            stream.send(b"PROXY TCP4 %s 192.0.2.9 51000 80\r\n" % client)
            self.assertEqual(stream.exchange().status, 200)
            return stream

        small = idle(b"192.0.2.1")
        large = [idle(b"192.0.2.2") for _ in range(self.LIMIT - 1)]
        idle(b"192.0.2.3")
        self.eventually(lambda: len(self.closed(large)) == 1, "one of the large client's to be shed")
        self.assertEqual(small.exchange().status, 200)

    def test_a_trusted_proxy_is_none(self):
        daemon = self.start_daemon(self.backend(Gate()), listeners=[
            {"name": "public", "trusted_proxies": [f"{self.LARGE}/32"], "limits": {"max_connections": self.LIMIT}}])
        small = self.idle(daemon, self.SMALL)
        proxy = [self.idle(daemon, self.LARGE) for _ in range(self.LIMIT - 1)]
        time.sleep(0.3)
        self.idle(daemon, self.LARGE)
        self.eventually(lambda: self.closed([small]) == [0], "the small client's to be shed")
        self.assertEqual(self.closed(proxy), [])


@unittest.skipIf(SANITIZED, "a sanitizer's memory is not ours")
class Memory(case.Case):
    """Uploads whose backend does not answer: their copies, kept for a retry, take up memory."""

    SIZE = MEBI - KIBI

    def start(self, limit, **kwargs):
        self.gate = Gate()
        self.addCleanup(self.gate.open)
        backends = [self.backend(self.gate).address for _ in range(2)]
        return self.daemon({"pools": [{"name": "pool", "backends": backends}], "workers": 2,
                            "limits": {"memory": limit, "held_bodies": "1GiB"}}, **kwargs)

    def upload(self, peer):
        return peer.request("POST", "/waits", body=b"x" * self.SIZE)

    def peer(self, daemon):
        peer = http2.Peer.connect(daemon.address)
        self.addCleanup(peer.close)
        return peer

    def connect(self, daemon):
        stream = Stream.connect(daemon.address)
        self.addCleanup(stream.close)
        return stream

    @staticmethod
    def used(daemon):
        return daemon.metric("evenkeel_memory_used_bytes") / daemon.metric("evenkeel_memory_limit_bytes")

    def test_near_the_limit_idle_connections_go_new_ones_wait_and_requests_are_refused(self):
        daemon = self.start("64MiB")
        idle = [self.connect(daemon) for _ in range(20)]
        for stream in idle:
            self.assertEqual(stream.exchange().status, 200)
        peer = self.peer(daemon)
        held = []
        for _ in range(120):
            held.append(self.upload(peer))
            if self.used(daemon) > 0.96:
                break
            time.sleep(0.02)
        self.assertGreater(self.used(daemon), 0.9)

        for stream in idle:
            stream.wait_closed()
        self.assertEqual(daemon.metric("evenkeel_connections_shed_total", listener="public", reason="memory"), 20)
        time.sleep(0.5)  # for another measurement
        refused = peer.exchange("POST", "/v1/chat/completions", body=b"{}")
        self.assertEqual((refused.status, refused.reason), (503, "out_of_memory"))
        self.assertGreaterEqual(int(refused.field("retry-after")), 1)
        late = self.connect(daemon)
        late.ask()
        late.socket.settimeout(0.5)
        with self.assertRaises(TimeoutError):
            late.socket.recv(1)
        self.assertEqual(daemon.ask_admin("/healthz").status, 200)
        self.assertLess(self.used(daemon), 1.15)

        self.gate.open()
        answers = [stream.read_response() for stream in held]
        served = [answer for answer in answers if answer.status == 200]
        # Memory is measured from time to time: the last ones may have begun when it was short already.
        self.assertGreater(len(served), 20)
        self.assertEqual({(answer.status, answer.reason) for answer in answers if answer.status != 200} -
                         {(503, "out_of_memory")}, set())
        late.socket.settimeout(20)
        self.assertEqual(late.read_response().status, 200)
        daemon.wait_line("memory: .*: refusing|memory: .*: closing")
        self.eventually(lambda: daemon.metric("evenkeel_errors_total", reason="out_of_memory") >= 1)

    def test_prompts_of_many_clients_are_refused_in_time(self):
        """Eight clients send prompts of a megabyte while uploads that wait use up 64 MiB."""
        daemon = self.start("64MiB")
        prompt = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * self.SIZE}]}).encode()
        answers = []
        ended = threading.Event()
        self.addCleanup(ended.set)

        def send(peer):
            peer.request("GET", "/waits")  # an idle connection would be closed
            while not ended.is_set():
                answer = peer.exchange("POST", "/v1/chat/completions", body=prompt)
                answers.append((answer.status, answer.reason))

        def used():
            status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
            return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) * KIBI

        filler = self.peer(daemon)
        clients = [self.spawn(lambda peer=self.peer(daemon): send(peer)) for _ in range(8)]
        most = 0
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and answers.count((503, "out_of_memory")) < 50:
            if self.used(daemon) < 0.96:
                self.upload(filler)
            most = max(most, used())
            time.sleep(0.02)
        ended.set()
        for client in clients:
            client.join()
        self.assertGreaterEqual(answers.count((503, "out_of_memory")), 50)
        self.assertGreater(answers.count((200, None)), 0)
        self.assertLess(most, 64 * MEBI)
        self.assertTrue(daemon.running(), "\n".join(daemon.lines[-20:]))

        self.gate.open()
        filler.close()
        self.eventually(lambda: self.serves(daemon), "service as before")

    def test_an_allocation_that_fails_ends_the_process_and_the_unit_starts_the_next(self):
        daemon = self.start("off")
        exchange(daemon.address)
        status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
        mapped = int(re.search(r"VmSize:\s+(\d+) kB", status)[1]) * KIBI
        resource.prlimit(daemon.pid, resource.RLIMIT_AS, (mapped + 16 * MEBI, resource.RLIM_INFINITY))

        for _ in range(20):
            try:
                peer = self.peer(daemon)
                for _ in range(20):
                    self.upload(peer)
            except (Closed, http2.Reset, OSError):
                pass
            if not daemon.running():
                break
        self.assertEqual(daemon.wait_exit(), 1)
        self.assertEqual([line for line in daemon.lines if "out of memory" in line],
                         ["evenkeel: out of memory: the process ends; lower limits.memory, or raise the memory limit "
                          "of the process"])
        unit = UNIT.read_text()
        self.assertIn("\nRestart=on-failure\n", unit)
        self.assertNotRegex(unit, "\n(SuccessExitStatus|RestartPreventExitStatus)=")

    @staticmethod
    def serves(daemon):
        try:
            return exchange(daemon.address).status == 200
        except (Closed, OSError):
            return False


class SlowUploads(case.Case):
    """`limits.body_rate`, over HTTP/1.1 and HTTP/2, at the same time because each takes more than 10 s."""

    def setUp(self):
        super().setUp()
        self.reads = threading.Event()
        self.addCleanup(self.reads.set)

        def script(ask):
            if ask.target == "/unread":
                assert self.reads.wait(30)
            if ask.target == "/tunnel":
                switch(ask)
                ask.stream.socket.settimeout(40)
                return ask.send(ask.stream.read_exactly(1))
            return ask.answer(str(sum(len(piece) for piece in ask.pieces())).encode())

        self.daemon_ = self.start_daemon(self.backend(script, reads_body=False))

    def drip(self, send, failed):
        """A byte a second, until the other side has had enough; returns how long that took."""
        began = time.monotonic()
        while not failed() and time.monotonic() - began < 30:
            try:
                send(b"x")
            except (Closed, http2.Reset, OSError):
                break
            time.sleep(1)
        return time.monotonic() - began

    def drip_http1(self):
        with Stream.connect(self.daemon_.address) as stream:
            stream.send(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
            took = self.drip(stream.send, lambda: select.select([stream.socket], [], [], 0)[0])
            return took, stream.read_response()

    def drip_http2(self):
        with http2.Peer.connect(self.daemon_.address) as peer:
            call = peer.request("POST", "/slow", end=False)
            took = self.drip(call.send, lambda: call.head is not None)
            return took, call.read_response()

    def held_back(self):
        """The client of a backend that does not read loses nothing."""
        size = 16 * MEBI
        with Stream.connect(self.daemon_.address) as stream:
            stream.send(b"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
            stream.socket.settimeout(40)
            stream.socket.sendall(b"x" * size)
            return stream.read_response()

    def open_tunnel(self):
        """A WebSocket, on which its client may be silent."""
        peer = http2.Peer.connect(self.daemon_.address)
        self.addCleanup(peer.close)
        tunnel = peer.open_stream([*http2.request_fields("CONNECT", "/tunnel"), (":protocol", "websocket"),
                                   ("sec-websocket-version", "13")], end=False)
        self.assertEqual(tunnel.read_head().status, 200)
        return tunnel

    def test_a_client_that_drips_gets_408_and_one_that_is_held_back_does_not(self):
        tunnel = self.open_tunnel()
        slow = [self.spawn(self.drip_http1), self.spawn(self.drip_http2)]
        patient = self.spawn(self.held_back)
        for each in slow:
            took, answer = each.join()
            self.assertEqual((answer.status, answer.reason), (408, "body_timeout"))
            self.assertIn(b"limits.body_rate", answer.body)
            self.assertGreater(took, 9)
            self.assertLess(took, 20)
        time.sleep(2)
        tunnel.send(b"x")
        self.assertEqual(tunnel.read_piece(), b"x")
        self.reads.set()
        answer = patient.join()
        self.assertEqual((answer.status, answer.body), (200, b"%d" % (16 * MEBI)))


if __name__ == "__main__":
    case.main()
