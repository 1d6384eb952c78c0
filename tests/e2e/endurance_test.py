"""Many, slow, fast and careless clients: memory stays flat, descriptors are released, nothing hangs.

EVENKEEL_IDLE_CLIENTS and EVENKEEL_SLOW_READERS set how many. The defaults, 2000 and 150, are
below the documented 10 000 and 1 000 to save time."""

import os
import resource
import threading
import time
import unittest

import case
from process import SANITIZED
from stream import Closed, Stream, exchange

IDLE_CLIENTS = int(os.environ.get("EVENKEEL_IDLE_CLIENTS", "2000"))
SLOW_READERS = int(os.environ.get("EVENKEEL_SLOW_READERS", "150"))
KIBI = 1024
MEBI = 1024 * KIBI


def raise_descriptor_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Memory(case.Case):
    @unittest.skipIf(SANITIZED, "a sanitizer's memory is not ours")
    def test_at_rest_it_is_small(self):
        daemon = self.start_daemon(self.backend())
        exchange(daemon.address)
        print(f"\n  at rest: {daemon.resident_bytes() / MEBI:.1f} MiB ", end="", flush=True)
        self.assertLess(daemon.resident_bytes(), 20 * MEBI)

    @unittest.skipIf(SANITIZED, "a sanitizer's memory is not ours")
    def test_idle_clients_cost_next_to_nothing(self):
        if raise_descriptor_limit() < IDLE_CLIENTS + 100:
            self.skipTest("too few descriptors for that many clients")
        # Half of them never ask, and must not be sent away while the others come.
        daemon = self.start_daemon(self.backend(), listeners=[
            {"name": "public", "timeouts": {"header": "5m", "idle": "5m"}}])
        exchange(daemon.address)
        before = daemon.resident_bytes()

        streams = []
        for _ in range(IDLE_CLIENTS):
            stream = Stream.connect(daemon.address)
            self.addCleanup(stream.close)
            streams.append(stream)
        for stream in streams[::2]:  # half of them have been served, half never asked
            self.assertEqual(stream.exchange().status, 200)
        self.eventually(lambda: daemon.api("status")["connections"] == IDLE_CLIENTS)

        each = (daemon.resident_bytes() - before) / IDLE_CLIENTS
        print(f"\n  {IDLE_CLIENTS} idle clients: {each:.0f} B each, "
              f"{daemon.resident_bytes() / MEBI:.1f} MiB in all ", end="", flush=True)
        self.assertLess(each, 2 * KIBI)
        self.assertEqual(exchange(daemon.address).status, 200)

        for stream in streams:
            stream.close()
        self.eventually(lambda: daemon.api("status")["connections"] == 0)

    @unittest.skipIf(SANITIZED, "a sanitizer's memory is not ours")
    def test_slow_readers_cost_a_buffer_each_and_block_no_others(self):
        raise_descriptor_limit()

        def flood(ask):
            if ask.target == "/quick":
                return ask.answer(b"quick")
            ask.begin_chunks()
            while True:
                ask.chunk(b"x" * 16384)

        backend = self.backend(flood)
        daemon = self.start_daemon(backend)
        exchange(daemon.address, target="/quick")
        before = daemon.resident_bytes()

        streams = []
        for _ in range(SLOW_READERS):
            stream = Stream.connect(daemon.address, receive_buffer=4096)
            self.addCleanup(stream.close)
            stream.ask(target="/flood")
            streams.append(stream)
        for stream in streams:
            stream.read_head()
        self.eventually(lambda: daemon.api("status")["requests_in_flight"] == SLOW_READERS)

        peak = 0
        for _ in range(5):
            for stream in streams:  # reads a little of each
                stream.socket.recv(1000)
            self.assertEqual(exchange(daemon.address, target="/quick").body, b"quick")
            peak = max(peak, daemon.resident_bytes())
        each = (peak - before) / SLOW_READERS
        print(f"\n  {SLOW_READERS} slow readers: {each / KIBI:.1f} KiB each, {peak / MEBI:.1f} MiB in all ",
              end="", flush=True)
        self.assertLess(each, 160 * KIBI)
        for stream in streams:
            stream.close()
        daemon.wait_at_rest()


# UBSan checks memory by writing it to a pipe, for which it needs descriptors.
needs_its_last_descriptor = unittest.skipIf("undefined" in os.environ.get("EVENKEEL_SANITIZE", ""),
                                            "UBSan mistakes a lack of descriptors for bad memory")


class Descriptors(case.Case):
    def test_clients_that_come_and_go_leave_none_behind(self):
        backend = self.backend(lambda ask: ask.answer(b"x") if ask.target == "/quick"
                               else ask.stream.wait_closed())
        daemon = self.start_daemon(backend)
        for _ in range(4):
            exchange(daemon.address, target="/quick")
        daemon.wait_at_rest()
        self.eventually(lambda: daemon.api("status")["connections"] == 0)
        before = daemon.descriptors()

        for number in range(600):
            stream = Stream.connect(daemon.address)
            kind = number % 6
            if kind == 1:
                stream.send(b"GET / HT")
            if kind == 2:
                stream.ask(target="/hangs")
            if kind == 3:
                stream.exchange(target="/quick")
            if kind == 4:
                stream.send(b"nonsense\r\n\r\n")
            if kind == 5:
                stream.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf")
            if number % 2:
                stream.reset()
            else:
                stream.close()

        self.eventually(lambda: daemon.api("status")["connections"] == 0)
        daemon.wait_at_rest()
        # Idle connections to backends are kept, as many as were in use at once.
        self.eventually(lambda: daemon.metric("evenkeel_backend_links", state="idle") <= 8)
        idle = daemon.metric("evenkeel_backend_links", state="idle")
        # The connection of the last scrape may take a moment to close.
        self.eventually(lambda: daemon.descriptors() <= before + idle)

    @needs_its_last_descriptor
    def test_when_descriptors_run_out_idle_clients_make_room(self):
        backend = self.backend()
        daemon = self.start_daemon(backend, workers=1, limits=["--nofile=100:100"])
        streams = []
        for _ in range(150):
            stream = Stream.connect(daemon.address)
            self.addCleanup(stream.close)
            streams.append(stream)

        began = time.monotonic()
        with Stream.connect(daemon.address) as late_client:
            self.assertEqual(late_client.exchange().status, 200)
        self.assert_within(time.monotonic() - began, 5, "it must not wait for another connection's timeout")
        self.assertEqual(daemon.backend(backend.address)["errors_total"], 0)
        self.assertEqual(streams[-1].exchange().status, 200)

    @needs_its_last_descriptor
    def test_a_lack_of_descriptors_does_not_make_the_listeners_spin(self):
        daemon = self.start_daemon(self.backend(), workers=2)
        _, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (3, hard))  # those that are open stay open
        try:
            waiting = [Stream.connect(daemon.address) for _ in range(20)]  # both workers have some
            admin = Stream.connect(daemon.admin)
            for stream in [*waiting, admin]:
                self.addCleanup(stream.close)
            before = daemon.cpu_seconds()
            time.sleep(1)
            self.assertLess(daemon.cpu_seconds() - before, 0.3)
            self.assertLess(len(daemon.access_lines()), 1)
        finally:
            resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (hard, hard))
        for stream in waiting:
            self.assertEqual(stream.exchange().status, 200)
        self.assertEqual(admin.exchange("GET", "/healthz").status, 200)

    @needs_its_last_descriptor
    def test_when_all_descriptors_are_busy_it_recovers_afterwards(self):
        go = threading.Event()

        def script(ask):
            if ask.target == "/waits":
                go.wait(20)
            ask.answer(b"x")

        backend = self.backend(script)
        daemon = self.start_daemon(backend, workers=1, limits=["--nofile=100:100"])
        admin = Stream.connect(daemon.admin)  # a new connection would need a descriptor too
        self.addCleanup(admin.close)
        self.assertEqual(admin.exchange("GET", "/healthz", host=daemon.admin).status, 200)
        streams = []
        for _ in range(120):
            stream = Stream.connect(daemon.address)
            self.addCleanup(stream.close)
            stream.ask(target="/waits")
            streams.append(stream)
        self.eventually(lambda: daemon.descriptors() > 80, "few descriptors left")
        self.assertEqual(admin.exchange("GET", "/healthz", host=daemon.admin).status, 200)
        go.set()

        answered = 0
        for stream in streams:
            try:
                answer = stream.read_response()
                answered += answer.status == 200
                if answer.status != 200:
                    self.assertEqual((answer.status, answer.reason, answer.field("retry-after")),
                                     (503, "overloaded", "1"))
            except (Closed, ConnectionError):
                pass
            stream.close()
        self.assertGreater(answered, 20)
        self.assertEqual(daemon.backend(backend.address)["state"], "up", "the backend is not at fault")
        self.eventually(lambda: daemon.api("status")["connections"] == 0)
        for _ in range(10):
            self.assertEqual(exchange(daemon.address).status, 200)


class Speed(case.Case):
    def test_a_busy_minute_ends_where_it_began(self):
        """Streams, uploads, pipelines and early leavers at the same time, several rounds: no growth."""
        def script(ask):
            if ask.target == "/stream":
                ask.begin_chunks()
                for _ in range(20):
                    ask.chunk(b"data: token\n\n")
                return ask.end_chunks()
            ask.answer(ask.body[:10])

        daemon = self.start_daemon(*(self.backend(script) for _ in range(3)))

        def client(number):
            with Stream.connect(daemon.address) as stream:
                for _ in range(10):
                    self.assertEqual(stream.exchange(target="/stream").body, b"data: token\n\n" * 20)
                    answer = stream.exchange("POST", "/upload", body=b"%010d" % number + b"y" * 100_000)
                    self.assertEqual(answer.body, b"%010d" % number)
            quitter = Stream.connect(daemon.address)
            quitter.ask(target="/stream")
            quitter.close()

        def round_of_clients():
            for each in [self.spawn(lambda number=number: client(number)) for number in range(8)]:
                each.join()
            daemon.wait_at_rest()
            return daemon.resident_bytes()

        sizes = [round_of_clients() for _ in range(6)]
        if not SANITIZED:
            self.assertLess(sizes[-1] - sizes[1], 2 * MEBI, sizes)


if __name__ == "__main__":
    case.main()
