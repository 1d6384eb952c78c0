"""Which pool serves a request, and which backend of it."""

import collections
import time

import case
from reloading import ReloadCase
from stream import Closed, Stream, exchange


class Routes(case.Case):
    def routed(self, routes):
        """A daemon with a pool per name; its only backend responds with that name."""
        pools = sorted({name for route in routes for name in route.get("split", [route.get("pool")])})
        backends = {name: self.backend(lambda request, name=name: request.answer(name.encode()))
                    for name in pools}
        return self.daemon({"pools": [{"name": name, "backends": [backend.address]}
                                      for name, backend in backends.items()], "routes": routes})

    def answer_of(self, daemon, target="/", **kwargs):
        answer = exchange(daemon.address, target=target, **kwargs)
        return answer.body.decode() if answer.status == 200 else answer.status

    def test_timeouts_of_their_own(self):
        def late(request):
            time.sleep(0.5)
            request.answer(b"late")

        backend = self.backend(late)
        daemon = self.daemon({"pools": [{"name": "a", "backends": [backend.address], "retry": {"attempts": 1}},
                                        {"name": "b", "backends": [backend.address], "timeouts": {"first_byte": "100ms"},
                                         "retry": {"attempts": 1}}],
                              "routes": [{"match": {"path": "/a/short"}, "pool": "a", "timeouts": {"first_byte": "100ms"}},
                                         {"match": {"path": "/a"}, "pool": "a"},
                                         {"match": {"path": "/b/long"}, "pool": "b", "timeouts": {"first_byte": "60s"}},
                                         {"match": {"path": "/b"}, "pool": "b"}]})
        for path, expected in (("/a/short", 504), ("/a", "late"), ("/b/long", "late"), ("/b", 504)):
            self.assertEqual(self.answer_of(daemon, path), expected, path)

    def test_a_pause_of_their_own(self):
        def pauses(request):
            request.begin_chunks()
            request.chunk(b"first")
            time.sleep(0.5)
            request.chunk(b" last")
            request.end_chunks()

        backend = self.backend(pauses)
        daemon = self.daemon({"pools": [{"name": "a", "backends": [backend.address]}],
                              "routes": [{"match": {"path": "/short"}, "pool": "a", "timeouts": {"idle": "100ms"}},
                                         {"match": {"path": "/long"}, "pool": "a"}]})
        self.assertEqual(self.answer_of(daemon, "/long"), "first last")
        with self.assertRaises(Closed):
            self.answer_of(daemon, "/short")
        self.assertEqual(self.answer_of(daemon, "/long"), "first last")

    def test_by_host(self):
        daemon = self.routed([{"match": {"host": "one.example"}, "pool": "a"},
                              {"match": {"host": "*.example"}, "pool": "b"}])

        self.assertEqual(self.answer_of(daemon, host="one.example"), "a")
        self.assertEqual(self.answer_of(daemon, host="ONE.Example:8080"), "a")
        self.assertEqual(self.answer_of(daemon, host="two.example"), "b")
        self.assertEqual(self.answer_of(daemon, host="x.two.example"), "b")
        self.assertEqual(self.answer_of(daemon, host="example"), 404)
        self.assertEqual(self.answer_of(daemon, host="badexample"), 404)

    def test_by_path(self):
        daemon = self.routed([{"match": {"path": "/v1/models"}, "pool": "a"},
                              {"match": {"path": "/v2/models/*/infer"}, "pool": "b"},
                              {"match": {"path": "/v1/**"}, "pool": "c"}])

        self.assertEqual(self.answer_of(daemon, "/v1/models"), "a")
        self.assertEqual(self.answer_of(daemon, "/v1/models?limit=1"), "a")
        self.assertEqual(self.answer_of(daemon, "/v1/models/x"), "c")
        self.assertEqual(self.answer_of(daemon, "/v1/chat/completions"), "c")
        self.assertEqual(self.answer_of(daemon, "/v2/models/m/infer"), "b")
        self.assertEqual(self.answer_of(daemon, "/v2/models/m/n/infer"), 404)
        self.assertEqual(self.answer_of(daemon, "/"), 404)

    def test_a_path_cannot_be_disguised(self):
        daemon = self.routed([{"match": {"path": "/admin/**"}, "pool": "b"}, {"pool": "a"}])

        for disguise in ("/admin/x", "/%61dmin/x", "//admin/x", "/./admin/x", "/y/../admin/x"):
            self.assertEqual(self.answer_of(daemon, disguise), "b", disguise)
        self.assertEqual(self.answer_of(daemon, "/admin%2fx"), "a")

    def test_by_header(self):
        daemon = self.routed([{"match": {"header": {"x-canary": "always", "x-team": "blue"}}, "pool": "a"},
                              {"pool": "b"}])

        both = [("X-Canary", "always"), ("x-team", "blue")]
        self.assertEqual(self.answer_of(daemon, fields=both), "a")
        self.assertEqual(self.answer_of(daemon, fields=both[:1]), "b")
        self.assertEqual(self.answer_of(daemon, fields=[("X-Canary", "Always"), both[1]]), "b")

    def test_by_method(self):
        daemon = self.routed([{"match": {"method": "POST"}, "pool": "a"},
                              {"match": {"method": ["GET", "HEAD"]}, "pool": "b"}])

        self.assertEqual(self.answer_of(daemon, method="POST", body=b"{}"), "a")
        self.assertEqual(self.answer_of(daemon, method="GET"), "b")
        self.assertEqual(self.answer_of(daemon, method="DELETE"), 405)

    def test_the_first_match_wins_even_if_a_later_one_is_more_specific(self):
        daemon = self.routed([{"name": "posts", "match": {"method": "POST"}, "pool": "a"},
                              {"name": "chat", "match": {"path": "/v1/chat/completions",
                                                         "header": {"x-team": "blue"}}, "pool": "b"}])

        self.assertEqual(self.answer_of(daemon, "/v1/chat/completions", method="POST", body=b"{}",
                                        fields=[("x-team", "blue")]), "a")
        line = daemon.wait_access(1)[0]
        self.assertEqual((line["route"], line["pool"]), ("posts", "a"))
        self.assertEqual(daemon.metric("evenkeel_requests_total", route="posts", pool="a", code="200"), 1)

    def test_a_split_keeps_to_its_shares(self):
        daemon = self.routed([{"split": {"a": 80, "b": 15, "c": 5}}])
        count = 1000

        seen = collections.Counter()
        with Stream.connect(daemon.address) as stream:
            for _ in range(count):
                seen[stream.exchange().body.decode()] += 1

        # Five standard deviations: one false alarm in a million runs.
        for pool, share in (("a", 0.8), ("b", 0.15), ("c", 0.05)):
            self.assertAlmostEqual(seen[pool] / count, share, delta=5 * (share * (1 - share) / count) ** 0.5)

    def test_a_share_of_zero_gets_nothing(self):
        daemon = self.routed([{"split": {"a": 1, "b": 0}}])
        self.assertEqual({self.answer_of(daemon) for _ in range(30)}, {"a"})


class FixedResponses(case.Case):
    SOON = {"status": 503, "body": "not yet\n"}

    def test_a_route_without_a_pool_responds_itself(self):
        daemon = self.daemon({"routes": [
            {"match": {"path": "/robots.txt"}, "respond": {"body": "<b>", "content_type": "text/html"}},
            {"name": "rest", "respond": self.SOON}]})

        self.assertEqual(daemon.ask_admin("/readyz").status, 200)
        page = exchange(daemon.address, target="/robots.txt")
        self.assertEqual((page.status, page.body, page.field("content-type")), (200, b"<b>", "text/html"))
        with Stream.connect(daemon.address) as stream:
            for method, body in (("GET", None), ("POST", b"{}"), ("GET", None)):
                soon = stream.exchange(method=method, body=body)
                self.assertEqual((soon.status, soon.body), (503, b"not yet\n"))
                self.assertEqual(soon.field("content-type"), "text/plain; charset=utf-8")
        self.assertEqual(exchange(daemon.address, method="POST", body=b"x" * 300_000).status, 503)
        self.assertEqual(exchange(daemon.address, method="HEAD").status, 503)
        line = daemon.wait_access(2)[1]
        self.assertEqual((line["route"], line["pool"], line["status"]), ("rest", None, 503))
        self.assertEqual(daemon.metric("evenkeel_requests_total", route="rest", code="503"), 5)

    def test_a_body_may_decide_that_a_route_responds(self):
        backend = self.backend(lambda request: request.answer(b"a"))
        daemon = self.daemon({"pools": [{"name": "a", "backends": [backend.address]}],
                              "routes": [{"match": {"model": "old"}, "respond": {"status": 410, "body": "gone"}},
                                         {"pool": "a"}]})

        chat = {"method": "POST", "target": "/v1/chat/completions"}
        gone = exchange(daemon.address, body=b'{"model": "old"}', **chat)
        self.assertEqual((gone.status, gone.body), (410, b"gone"))
        self.assertEqual(exchange(daemon.address, body=b'{"model": "new"}', **chat).body, b"a")


class FirstPool(ReloadCase):
    def test_a_reload_adds_it(self):
        backend = self.backend(lambda request: request.answer(b"a"))
        daemon = self.running(pools=[], routes=[{"respond": FixedResponses.SOON}])
        self.assertEqual(exchange(daemon.address).status, 503)

        self.config.update(pools=[{"name": "a", "backends": [backend.address]}], routes=[])
        self.reload()

        self.assertEqual(exchange(daemon.address).body, b"a")


class Pickers(case.Case):
    def picked(self, pool, weights=(1, 1, 1, 1), fields=None, count=100, workers=1):
        """Number of requests, sent one after another, that each backend got."""
        backends = [self.backend() for _ in weights]
        daemon = self.start_daemon(
            *({"address": backend.address, "weight": weight}
              for backend, weight in zip(backends, weights)), pool=pool, workers=workers)
        with Stream.connect(daemon.address) as stream:
            for number in range(count):
                stream.exchange(fields=fields(number) if fields else ())
        return [len(backend.exchanges) for backend in backends]

    def test_round_robin_gives_each_its_turn(self):
        self.assertEqual(self.picked({"picker": "round-robin"}), [25] * 4)

    def test_weighted_keeps_to_the_weights(self):
        self.assertEqual(self.picked({"picker": "weighted"}, weights=(5, 3, 2, 10)), [25, 15, 10, 50])

    def test_least_connections_spreads_over_idle_backends(self):
        shares = self.picked({"picker": "least-connections"}, count=200)
        self.assertEqual(sum(shares), 200)
        self.assertGreater(min(shares), 20, shares)

    def test_least_connections_avoids_a_busy_backend(self):
        busy = self.backend(lambda request: request.stream.wait_closed())
        idle = self.backend()
        daemon = self.start_daemon(busy, idle)
        holders = []
        while not busy.exchanges:  # ties are broken at random
            stream = Stream.connect(daemon.address)
            self.addCleanup(stream.close)
            stream.ask()
            holders.append(stream)
            self.eventually(lambda: len(busy.exchanges) + len(idle.exchanges) == len(holders))

        self.eventually(lambda: daemon.backend(idle.address)["in_flight"] == 0, "an idle backend")
        before = len(idle.exchanges)
        with Stream.connect(daemon.address) as stream:
            for _ in range(20):
                self.assertEqual(stream.exchange().status, 200)
        self.assertEqual(len(idle.exchanges), before + 20)

    def test_least_connections_respects_weights(self):
        """With twelve requests in flight, the heavier backend has three for each one of the lighter."""
        light, heavy = (self.backend(lambda request: request.stream.wait_closed()) for _ in range(2))
        daemon = self.start_daemon({"address": light.address, "weight": 1},
                                  {"address": heavy.address, "weight": 3})
        for number in range(12):
            stream = Stream.connect(daemon.address)
            self.addCleanup(stream.close)
            stream.ask()
            self.eventually(lambda: len(light.exchanges) + len(heavy.exchanges) == number + 1)
        self.assertEqual([len(light.exchanges), len(heavy.exchanges)], [3, 9])

    def test_consistent_hash_sticks_to_a_key_whichever_worker_picks(self):
        backends = [self.backend(lambda request: request.answer(str(request.backend.port).encode()))
                    for _ in range(4)]
        daemon = self.start_daemon(*backends, pool={"picker": {"name": "consistent-hash", "header": "X-User"}})
        answers = collections.defaultdict(set)
        for _ in range(4):  # connections, so that several workers pick
            daemon.wait_at_rest()  # another one in flight would exceed its fair share
            with Stream.connect(daemon.address) as stream:
                for user in range(40):
                    answers[user].add(stream.exchange(fields=[("x-user", f"user-{user}")]).body)

        self.assertTrue(all(len(each) == 1 for each in answers.values()), answers)
        self.assertEqual(len(set.union(*answers.values())), 4, "forty keys reach all four")

    def test_consistent_hash_moves_only_the_keys_of_the_failed_backend(self):
        backends = [self.backend(lambda request: request.answer(str(request.backend.port).encode()))
                    for _ in range(4)]
        daemon = self.start_daemon(*backends, pool={"picker": "consistent-hash"})

        def where():
            daemon.wait_at_rest()
            with Stream.connect(daemon.address) as stream:
                return {user: stream.exchange(fields=[("X-Session-Id", f"user-{user}")]).body
                        for user in range(40)}

        before = where()
        backends[2].close()
        after = where()

        dead = str(backends[2].port).encode()
        self.assertIn(dead, before.values())
        for user, backend in after.items():
            self.assertNotEqual(backend, dead)
            if before[user] != dead:
                self.assertEqual(backend, before[user])

    def test_consistent_hash_spreads_requests_without_the_header(self):
        shares = self.picked({"picker": "consistent-hash"}, count=200)
        self.assertGreater(min(shares), 20, shares)


if __name__ == "__main__":
    case.main()
