"""What a look at many backends costs: the page at /metrics and the admin API, with a thousand of them."""

import os
import statistics
import subprocess
import sys
import time

import case
from process import SANITIZED
from slowness import slowness
from stream import Stream

MANY = 1000
WINDOW = 4  # seconds
ATTEMPTS = 4
SPARE_CORES = len(os.sched_getaffinity(0)) >= 8  # client, backend, two workers, management thread, scrapers

# Ten connections that fetch page after page, in a process of their own. Prints how many there were.
SCRAPERS = """
import http.client, sys, threading
pages, stopping = [], False
def scrape():
    connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]))
    while not stopping:
        connection.request("GET", "/metrics")
        assert connection.getresponse().read()
        pages.append(1)
threads = [threading.Thread(target=scrape) for _ in range(10)]
for each in threads: each.start()
sys.stdin.read()
stopping = True
for each in threads: each.join()
print(len(pages))
"""


class Scrape(case.Case):
    def many(self):
        backend = self.backend()
        # One answers; the others are checked and refuse, so that they have many series.
        others = [f"127.0.0.1:{port}" for port in range(1, MANY)]
        return self.start_daemon(backend, *others, pool={"engine": "vllm", "metrics": {"scrape": "off"},
                                                        "health": {"interval": "60s"}})

    def timed(self, daemon, target):
        """Seconds that each of ten answers took, and the last of them."""
        took = []
        with Stream.connect(daemon.admin, receive_buffer=8 << 20) as stream:
            for _ in range(10):
                began = time.monotonic()
                answer = stream.exchange(target=target, host=daemon.admin)
                took.append(time.monotonic() - began)
        self.assertEqual(answer.status, 200)
        return took, answer.body

    def test_a_thousand_backends_are_scraped_within_a_tenth_of_a_second(self):
        daemon = self.many()
        page_times, page = self.timed(daemon, "/metrics")
        list_times, listed = self.timed(daemon, "/api/v1/backends")
        self.assertEqual(page.count(b"\nevenkeel_backend_up{"), MANY)
        self.assertEqual(listed.count(b'"id":'), MANY)
        if SANITIZED:
            self.skipTest("times say nothing here")
        # The best of ten: the machine has other things to do, we do not.
        self.assert_within(min(page_times), 0.100, page_times)
        self.assert_within(min(list_times), 0.050, list_times)

    def test_no_worker_waits_for_a_scrape(self):
        daemon = self.many()
        lags = set()  # a page that took long is used again, with the same lag
        with Stream.connect(daemon.admin, receive_buffer=8 << 20) as admin, \
                Stream.connect(daemon.address) as client:
            while len(lags) < 8:
                # The page is made while the worker serves; the next one tells the worker's longest turn.
                admin.ask(target="/metrics", host=daemon.admin)
                for _ in range(3):
                    self.assertEqual(client.exchange().status, 200)
                page = admin.read_response().body.decode()
                lags.add(float(page.rpartition("\nevenkeel_event_loop_lag_seconds ")[2].split()[0]))
        if SANITIZED:
            self.skipTest("times say nothing here")
        self.assert_within(statistics.median(lags), 0.005, lags)

    def test_ten_scrapers_in_a_loop_disturb_neither_requests_nor_checks_nor_polls(self):
        seen = {"/health": [], "/metrics": []}

        def serve(exchange):
            path = exchange.target.partition("?")[0].rstrip("/")
            if path in seen:
                seen[path].append(exchange.began)
            exchange.answer(b"vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n")

        others = [f"127.0.0.1:{port}" for port in range(1, 500)]
        daemon = self.start_daemon(self.backend(serve), *others, pool={
            "engine": "vllm", "health": {"interval": "250ms"}, "metrics": {"interval": "250ms"}})
        self.eventually(lambda: all(len(times) > 2 for times in seen.values()), "checks and polls")

        def measured():
            """p99 of requests, and the 90th percentile of the time between checks and between polls."""
            began, took = time.monotonic(), []
            with Stream.connect(daemon.address) as client:
                while time.monotonic() < began + WINDOW:
                    sent = time.monotonic()
                    self.assertEqual(client.exchange().status, 200)
                    took.append(time.monotonic() - sent)
            gaps = []
            for times in seen.values():
                mine = [at for at in times if at >= began]
                gaps.append(percentile([later - earlier for earlier, later in zip(mine, mine[1:])], 0.9))
            return percentile(took, 0.99), max(gaps)

        # The test shares its machine, so that one pair of windows proves nothing: the best of a few pairs counts.
        pairs = []
        for _ in range(ATTEMPTS):
            quiet = measured()
            scrapers = subprocess.Popen([sys.executable, "-c", SCRAPERS, *daemon.admin.rsplit(":", 1)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            try:
                scraped = measured()
            finally:
                pages = int(scrapers.communicate("")[0])
            self.assertGreater(pages, 10)
            pairs.append((scraped[0] / quiet[0], scraped[0] - quiet[0], scraped[1] - quiet[1]))
            if SANITIZED or self.good(*pairs[-1]):
                break
        print(f"with scrapers ({pages} pages): p99 x {pairs[-1][0]:.2f} ({pairs[-1][1] * 1000:+.2f} ms), "
              f"checks and polls {pairs[-1][2] * 1000:+.1f} ms")
        if SANITIZED:
            self.skipTest("times say nothing here")
        self.assertTrue(any(self.good(*pair) for pair in pairs), pairs)

    @staticmethod
    def good(ratio, difference, delay):
        """With a core to spare, p99 changes by less than 5 %. Without one the scrapers and the management thread take time
        slices from the client, the backend and the workers; a worker that waited for a page would take far longer."""
        slice_ = 0.020 * slowness()
        return (ratio < 1.05 if SPARE_CORES else difference < slice_) and delay < slice_


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


if __name__ == "__main__":
    case.main()
