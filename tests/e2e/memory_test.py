"""Memory and series that are no longer needed go away."""

import resource
import socket

import case
from process import SANITIZED
from reloading import ReloadCase
from stream import Stream, exchange

MEGABYTE = 1 << 20


class Bursts(case.Case):
    @case.unittest.skipIf(SANITIZED, "the sanitizer keeps freed memory")
    def test_the_memory_of_a_burst_of_connections_goes_back(self):
        count = 3000
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most < 2 * count:
            self.skipTest("too few descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4 * count), most))
        daemon = self.start_daemon(self.backend())
        exchange(daemon.address)
        before = daemon.resident_bytes()
        host, _, port = daemon.address.rpartition(":")
        burst = []
        for _ in range(count):
            burst.append(socket.create_connection((host, int(port))))
            burst[-1].sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 12000)  # an incomplete head holds a buffer
        self.eventually(lambda: daemon.resident_bytes() > before + 35 * MEGABYTE, "the burst")
        for each in burst:
            each.close()
        self.eventually(lambda: daemon.resident_bytes() < before + 12 * MEGABYTE, "the memory back", within=60)
        self.assertEqual(exchange(daemon.address).status, 200)


class Names(ReloadCase):
    def test_pools_and_routes_that_are_removed_lose_their_series(self):
        backend = self.backend()
        daemon = self.running(backend)
        self.config["pools"].append({"name": "extra", "backends": [backend.address]})
        self.config["routes"] = [{"match": {"path": "/extra/**"}, "pool": "extra"}, {"pool": "pool"}]
        self.reload()
        self.assertEqual(exchange(daemon.address, target="/extra/1").status, 200)
        self.eventually(lambda: daemon.metric("evenkeel_requests_total", pool="extra", code="200") == 1)

        del self.config["pools"][1], self.config["routes"][0]
        self.reload()
        self.eventually(lambda: 'pool="extra"' not in daemon.ask_admin("/metrics").body.decode(), "the series' end")
        self.assertEqual(exchange(daemon.address).status, 200)
        self.eventually(lambda: daemon.metric("evenkeel_requests_total", pool="pool", code="200") == 1)

    @case.unittest.skipIf(SANITIZED, "the sanitizer keeps freed memory")
    def test_names_of_former_files_take_no_memory(self):
        backend = self.backend()
        daemon = self.running(backend)

        def reload_with_other_names(versions):
            """Each version of the file has 100 pools and routes that no other has, and each gets a request."""
            for version in versions:
                names = [f"{version}-{number}" for number in range(100)]
                self.config["pools"] = [{"name": name, "backends": [backend.address], "health": {"check": "off"}}
                                        for name in names]
                self.config["routes"] = [{"name": name, "match": {"path": f"/{name}"}, "pool": name} for name in names]
                self.reload()
                with Stream.connect(daemon.address) as stream:
                    for name in names:
                        self.assertEqual(stream.exchange(target=f"/{name}").status, 200)

        reload_with_other_names(range(100, 115))
        before, page = daemon.resident_bytes(), len(daemon.ask_admin("/metrics").body)
        reload_with_other_names(range(115, 155))  # 4 000 names, which took 26 MB
        self.eventually(lambda: daemon.resident_bytes() < before + 8 * MEGABYTE, "the memory of the names")
        last = daemon.ask_admin("/metrics").body.decode()
        self.assertLess(len(last), page * 1.05)
        self.assertNotIn('pool="153-0"', last)
        self.eventually(lambda: daemon.metric("evenkeel_requests_total", pool="154-0", route="154-0", code="200") == 1)


if __name__ == "__main__":
    case.main()
