"""Ten thousand hostile connections to the admin listener: requests are served and backends checked as if there were none."""

import resource
import statistics
import subprocess
import sys
import time

import case
from process import SANITIZED
from stream import Stream

CONNECTIONS = 10_000
SECONDS = 6
CHECK_INTERVAL = 0.2

# A process of its own, so that it takes no time from the clients and the backend of the test. It keeps every connection
# open. One kind of attack after the other: a head that never ends, a foreign Host, a head that is too large, many requests
# at once of which no answer is read, bytes that are no HTTP, and nothing at all.
ATTACKER = """
import socket, sys, time
host, port, count, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
attacks = [b"GET /metrics HTTP/1.1\\r\\nhost:",
           b"GET /api/v1/status HTTP/1.1\\r\\nhost: evil.example\\r\\n\\r\\n",
           b"GET / HTTP/1.1\\r\\nhost: a\\r\\nx: " + b"x" * 20000,
           b"GET /metrics HTTP/1.1\\r\\nhost: localhost\\r\\n\\r\\n" * 50,
           bytes(range(256)) + b"\\r\\n\\r\\n",
           b""]
kept = []
began = time.monotonic()
for number in range(count):
    attacker = socket.socket()
    attacker.setblocking(False)
    attacker.connect_ex((host, port))
    kept.append((attacker, attacks[number % len(attacks)]))
    if len(kept) >= 50:
        try:
            kept[-50][0].send(kept[-50][1])
        except OSError:
            pass
    time.sleep(max(0, began + number * seconds / count - time.monotonic()))
print("attacked", flush=True)
sys.stdin.read()
"""


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


class AdminUnderAttack(case.Case):
    def serve(self, exchange):
        if exchange.target == "/health":
            self.checks.append(exchange.began)
        exchange.answer(b"hello")

    def latencies(self, daemon, seconds):
        """Of requests, one after the other."""
        took = []
        until = time.monotonic() + seconds
        with Stream.connect(daemon.address) as stream:
            while time.monotonic() < until:
                began = time.monotonic()
                self.assertEqual(stream.exchange().status, 200)
                took.append(time.monotonic() - began)
        return took

    def attack(self, daemon, connections):
        host, _, port = daemon.admin.rpartition(":")
        attacker = subprocess.Popen([sys.executable, "-c", ATTACKER, host, port, str(connections), str(SECONDS)],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def end():
            attacker.communicate("")

        self.addCleanup(end)
        return attacker

    def test_neither_requests_nor_checks_notice(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        connections = min(CONNECTIONS, hard - 200)
        self.checks = []
        daemon = self.start_daemon(self.backend(self.serve), pool={
            "engine": "vllm", "metrics": {"scrape": "off"}, "health": {"interval": f"{int(CHECK_INTERVAL * 1000)}ms"}})
        memory = daemon.resident_bytes()
        quiet = self.latencies(daemon, 3)

        attacker = self.attack(daemon, connections)
        began = time.monotonic()
        attacked = self.latencies(daemon, SECONDS)
        ended = time.monotonic()
        self.assertEqual(attacker.stdout.readline(), "attacked\n")

        # A probe gets its answer while all of them are still open.
        probed = time.monotonic()
        self.assertEqual(daemon.ask_admin("/readyz").status, 200)
        probed = time.monotonic() - probed
        self.assertLess(daemon.descriptors(), 300)
        checks = [at for at in self.checks if began <= at <= ended]
        gaps = [later - earlier for earlier, later in zip(checks, checks[1:])]
        print(f"{connections} connections: p95 {percentile(quiet, 0.95) * 1000:.2f} ms before, "
              f"{percentile(attacked, 0.95) * 1000:.2f} ms under attack; between checks "
              f"{statistics.median(gaps) * 1000:.0f} ms, at most {max(gaps) * 1000:.0f} ms; "
              f"a probe then took {probed * 1000:.0f} ms")
        if SANITIZED:
            self.skipTest("times and memory say nothing here")
        self.assertLess(daemon.resident_bytes() - memory, 64 << 20)
        # The attacker and the tests beside this one take processor time: each has a core on the machine that runs the
        # daemon alone. Without it some requests and checks wait for a few time slices, which the limits leave out: the
        # admin listener would delay all of them.
        self.assert_within(percentile(attacked, 0.95) - percentile(quiet, 0.95), 0.025)
        self.assert_within(percentile(gaps, 0.75), CHECK_INTERVAL * 1.1 + 0.075, gaps)  # checks are jittered by 10 %
        self.assert_within(max(gaps), 10 * CHECK_INTERVAL, gaps)


if __name__ == "__main__":
    case.main()
