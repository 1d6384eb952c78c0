"""An evenkeel whose backends are evenkeels: judged by their first tokens, their readiness and what they refuse."""

import collections
import concurrent.futures
import time

import case
from ports import refusing_address
from stream import exchange

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}


class Regions(case.Case):
    def region(self, name, delay=0.0, backend=None, **pool):
        """An evenkeel with one server, which answers after that many seconds."""
        def serve(request):
            time.sleep(delay)
            request.answer(name.encode())

        address = backend or self.backend(serve).address
        return self.daemon({"listeners": [{"name": "public", "address": "127.0.0.1:0"}], "admin": {"address": "127.0.0.1:0"},
                            "workers": 1, "pools": [{"name": name, "backends": [address], **QUIET, **pool}]})

    def front(self, *regions, **pool):
        return self.daemon({
            "listeners": [{"name": "public", "address": "127.0.0.1:0"}], "admin": {"address": "127.0.0.1:0"}, "workers": 1,
            "pools": [{"name": "regions", "picker": "least-latency", "metrics": {"scrape": "off"},
                       "backends": [region.address for region in regions], "health": {"check": "off"},
                       "retry": {"attempts": 2, "on": ["overload"]}, **pool}]})

    def seen(self, front, count):
        answers = [exchange(front.address) for _ in range(count)]
        self.assertEqual({answer.status for answer in answers}, {200})
        return collections.Counter(answer.body.decode() for answer in answers)

    def test_the_one_whose_first_tokens_come_soonest_gets_most(self):
        front = self.front(self.region("near", 0.002), self.region("far", 0.1))
        seen = self.seen(front, 100)
        self.assertGreater(seen["near"], 60, seen)

    def test_one_without_a_server_gets_nothing_further(self):
        dead, alive = self.region("dead", backend=refusing_address()), self.region("alive")
        front = self.front(dead, alive)
        self.assertEqual(self.seen(front, 20), {"alive": 20})

    def test_readiness_is_that_of_its_admin_listener(self):
        dead = self.region("dead", backend=refusing_address(), health={"check": "http", "path": "/health", "interval": "100ms", "fall": 1})
        self.eventually(lambda: dead.ask_admin("/readyz").status == 503, "a region that is not ready")
        port = int(dead.admin.rpartition(":")[2])
        front = self.daemon({
            "listeners": [{"name": "public", "address": "127.0.0.1:0"}], "admin": {"address": "127.0.0.1:0"}, "workers": 1,
            "pools": [{"name": "regions", "picker": "least-latency", "metrics": {"scrape": "off"}, "backends": [dead.address],
                       "health": {"check": "http", "path": "/readyz", "port": port, "interval": "100ms", "fall": 1}}]})
        self.eventually(lambda: "GET /readyz: 503" in (front.backend(dead.address)["reason"] or ""), "the state of the region")
        self.assertNotEqual(front.backend(dead.address)["state"], "up")

    def test_one_that_is_full_sends_its_requests_to_the_other(self):
        full = self.region("full", 0.5, limits={"max_in_flight": 1, "queue": {"size": 0}})
        front = self.front(full, self.region("other"))
        with concurrent.futures.ThreadPoolExecutor(10) as clients:
            answers = list(clients.map(lambda _: exchange(front.address, "POST", "/", body=b"x"), range(10)))
        self.assertEqual({answer.status for answer in answers}, {200})
        self.assertEqual(front.metric("evenkeel_requests_total", pool="regions"), 10)


if __name__ == "__main__":
    case.main()
