"""Versions of a model in one pool: a split names backends by their labels."""

import collections
import http.cookiejar
import json
import threading
import urllib.request

import case
from dns_test import NAME, DnsCase
from process import command
from reloading import ReloadCase
from stream import PATIENCE, Stream, exchange

SESSIONS = [f"user-{number}" for number in range(400)]
HEALTH = {"check": "http", "path": "/health", "interval": "100ms", "timeout": "1s"}
CANARY = {"version=v7": 80, "version=v8": 20}


def labelled(address, version):
    return {"address": address, "labels": {"version": version}}


def answers(address, sessions, target="/"):
    """The body of the answer to one request of each session; pipelined on one connection."""
    with Stream.connect(address) as stream:
        stream.send(b"".join(b"GET %s HTTP/1.1\r\nhost: test\r\nx-session-id: %s\r\n\r\n"
                             % (target.encode(), session.encode()) for session in sessions))
        return [stream.read_response().body.decode() for _ in sessions]


class VersionCase(ReloadCase):
    def versions(self, *versions, split=None, pool=None, **route):
        """A daemon with one backend for each of these versions, which it responds with."""
        self.broken = set()

        def script(request, version):
            if version in self.broken:
                return request.answer(b"", status=503, phrase="Service Unavailable")
            return request.answer(version.encode())

        self.backends = [self.backend(lambda request, version=version: script(request, version))
                         for version in versions]
        return self.running(
            *(labelled(backend.address, version) for backend, version in zip(self.backends, versions)),
            pool={"picker": "round-robin", "health": HEALTH, **(pool or {})},
            routes=[{"name": "chat", "pool": "pool", "split": split or CANARY, **route}])

    def subset(self, name):
        return next(each for each in self.served.api("pools")[0]["subsets"] if each["name"] == name)

    def all_up(self):
        self.eventually(lambda: set(self.states().values()) == {"up"}, "backends that are up")


class Shares(VersionCase):
    def test_a_conversation_keeps_its_version(self):
        daemon = self.versions("v7", "v7", "v8", "v8")
        before = answers(daemon.address, SESSIONS)

        self.assertEqual(answers(daemon.address, SESSIONS), before)
        self.pool["limits"] = {"max_in_flight": 50}
        self.reload()
        self.assertEqual(answers(daemon.address, SESSIONS), before)
        self.assertAlmostEqual(collections.Counter(before)["v8"] / len(SESSIONS), 0.2, delta=0.06)
        self.assertTrue(all(backend.exchanges for backend in self.backends))

        # Another process, with another number of workers, and without one of the backends.
        self.config["workers"] = 1
        self.config.pop("access_log")
        self.pool["backends"].pop()
        self.assertEqual(answers(self.daemon(self.config).address, SESSIONS), before)

    def test_a_rollback_takes_effect_with_the_reload(self):
        daemon = self.versions("v7", "v8")
        self.config["routes"][0]["split"] = {"version=v7": 100, "version=v8": 0}
        self.reload()
        self.assertEqual(set(answers(daemon.address, SESSIONS)), {"v7"})

    def test_a_route_may_lead_to_one_version(self):
        daemon = self.versions("v7", "v8")
        self.config["routes"].insert(0, {"match": {"header": {"x-try": "next"}}, "pool": "pool", "split": {"version=v8": 1}})
        self.config["routes"].append({"match": {"path": "/never"}, "pool": "pool"})
        self.config["routes"][1]["match"] = {"path": "/v1/**"}
        self.config["routes"][2]["match"] = {"path": "/any"}
        self.reload()

        self.assertEqual({exchange(daemon.address, fields=[("x-try", "next")]).body for _ in range(6)}, {b"v8"})
        self.assertEqual({exchange(daemon.address, target="/any").body for _ in range(6)}, {b"v7", b"v8"})

    def test_several_labels_choose_what_has_them_all(self):
        daemon = self.versions("v7", "v7", "v8")
        for backend, gpu in zip(self.pool["backends"], ("h100", "a100", "h100")):
            backend["labels"]["gpu"] = gpu
        self.config["routes"][0]["split"] = {"gpu=h100,version=v7": 1}
        self.reload()

        answers(daemon.address, SESSIONS[:20])
        self.assertEqual([sum(each.target == "/" for each in backend.exchanges) for backend in self.backends], [20, 0, 0])

    def test_mistakes_are_named(self):
        self.versions("v7", "v8")
        self.config["routes"][0]["split"] = {"version=v7": 95, "version=v9": 5}
        self.assertIn("routes[0].split.version=v9: no backend of the pool 'pool' has version=v9; did you mean 'v7'?",
                      self.refused())
        self.config["routes"][0]["split"] = {"v7": 95, "v8": 5}
        self.assertIn("routes[0].split.v7: expected LABEL=VALUE, such as version=v7", self.refused())

    def test_operators_see_them(self):
        daemon = self.versions("v7", "v7", "v8")
        self.all_up()
        count = collections.Counter(answers(daemon.address, SESSIONS))
        daemon.wait_at_rest()

        self.assertEqual(self.subset("version=v8"), {
            "name": "version=v8", "backends": {"up": 1, "total": 1}, "in_flight": 0, "picks_total": count["v8"],
            "fallbacks_total": 0})
        self.assertEqual(self.subset("version=v7")["picks_total"], count["v7"])
        self.assertEqual(daemon.metric("evenkeel_subset_in_rotation", pool="pool", subset="version=v7"), 2)
        shown = command("ctl", "status", "--admin", daemon.admin)
        self.assertRegex(shown.stdout, r"(?m)^  version=v8 +1 +1 +0 *$")


class Faults(VersionCase):
    def test_a_version_that_is_down_leaves_its_requests_to_the_others(self):
        simulators = [self.simulators() for _ in range(2)]
        stable, canary = (each.addresses[0] for each in simulators)
        daemon = self.running(labelled(stable, "v7"), labelled(canary, "v8"),
                              pool={"health": HEALTH, "debug_headers": True},
                              routes=[{"name": "chat", "pool": "pool", "split": CANARY}])
        self.all_up()

        def placed():
            asked = [exchange(daemon.address, "GET", "/v1/models", [("x-session-id", session)])
                     for session in SESSIONS[:40]]
            self.assertEqual({answer.status for answer in asked}, {200})
            return [answer.field("x-evenkeel-backend") for answer in asked]

        before = placed()
        self.assertEqual(set(before), {stable, canary})
        simulators[1].kill()
        self.assertEqual(set(placed()), {stable})
        daemon.wait_line("pool pool: no backend with version=v8 is in rotation, its requests go to the other backends")
        self.assertEqual(set(placed()), {stable})

        self.assertGreaterEqual(daemon.metric("evenkeel_subset_fallbacks_total", pool="pool", subset="version=v8"),
                                before.count(canary))
        self.assertEqual(daemon.metric("evenkeel_subset_fallbacks_total", pool="pool", subset="version=v7"), 0)
        self.assertEqual(daemon.metric("evenkeel_subset_in_rotation", pool="pool", subset="version=v8"), 0)
        self.simulators(listen=canary)
        daemon.wait_line("pool pool: a backend with version=v8 is back")
        self.assertEqual(placed(), before)

    def test_a_request_that_one_version_fails_is_retried_by_another(self):
        daemon = self.versions("v7", "v8", split={"version=v8": 1}, pool={"outlier": {"consecutive": 0}})
        self.all_up()
        self.broken.add("v8")
        self.pool["health"] = {"check": "off"}
        self.reload()

        answer = exchange(daemon.address)

        self.assertEqual((answer.status, answer.body), (200, b"v7"))
        self.assertEqual(len(daemon.wait_access(1)[0]["attempts"]), 2)

    def test_the_fallback_pool_gets_what_no_version_can_take(self):
        simulated = self.simulators()
        spare = self.backend(lambda request: request.answer(b"spare"))
        daemon = self.running(labelled(simulated.addresses[0], "v7"), pool={"health": HEALTH},
                              routes=[{"pool": "pool", "split": {"version=v7": 1}}])
        self.pool["fallback"] = "other"
        self.config["pools"].append({"name": "other", "backends": [spare.address]})
        self.reload()
        self.eventually(lambda: self.subset("version=v7")["backends"]["up"] == 1, "the backend that is up")
        simulated.kill()

        for _ in range(3):
            answer = exchange(daemon.address, "GET", "/v1/models")
            self.assertEqual((answer.status, answer.body, answer.field("x-evenkeel-fallback")), (200, b"spare", "other"))

    def test_a_full_version_is_waited_for(self):
        daemon = self.versions("v7", "v8", split={"version=v8": 1}, pool={"limits": {"max_in_flight": 1}})
        self.all_up()

        asked = [self.spawn(lambda: exchange(daemon.address).body) for _ in range(8)]

        self.assertEqual({each.join() for each in asked}, {b"v8"})
        self.assertEqual(self.subset("version=v8")["fallbacks_total"], 0)

    def test_a_version_that_hangs_takes_no_place_from_the_others(self):
        gate = threading.Event()
        self.addCleanup(gate.set)
        hanging = self.backend(lambda request: gate.wait(3 * PATIENCE) and request.answer(b"v8"))
        stable = self.backend(lambda request: request.answer(b"v7"))
        size = 20
        daemon = self.running(
            labelled(stable.address, "v7"), labelled(hanging.address, "v8"),
            pool={"limits": {"max_in_flight": 2, "queue": {"size": size, "timeout": "60s"}}},
            routes=[{"match": {"header": {"x-try": "next"}}, "pool": "pool", "split": {"version=v8": 1}},
                    {"match": {"path": "/any"}, "pool": "pool"},
                    {"match": {"path": "/**"}, "pool": "pool", "split": {"version=v7": 1}}])

        def waiting():
            return daemon.api("pools")[0]["waiting"]

        streams = [Stream.connect(daemon.address) for _ in range(2 + size)]
        for stream in streams:
            self.addCleanup(stream.close)
            stream.ask(fields=[("x-try", "next")])
        self.eventually(lambda: waiting() == size, "a full queue of the version that hangs")
        refused = exchange(daemon.address, fields=[("x-try", "next")])
        self.assertEqual((refused.status, refused.field("x-evenkeel-reason")), (429, "queue_full"))

        def client():
            with Stream.connect(daemon.address) as kept:
                return [kept.exchange(target=target).body for target in ["/", "/any"] * 20]

        # More clients than slots, so they wait for each other.
        bodies = [body for each in [self.spawn(client) for _ in range(8)] for body in each.join()]
        self.assertEqual(collections.Counter(bodies), {b"v7": 8 * 40})
        self.assertEqual(waiting(), size)

        gate.set()
        self.assertEqual({stream.read_response().body for stream in streams}, {b"v8"})


class Sessions(VersionCase):
    def test_a_browser_keeps_its_version(self):
        """Its cookie is not known to the split, which draws at random."""
        daemon = self.versions("v7", "v7", "v8", "v8", split={"version=v7": 1, "version=v8": 1},
                               pool={"affinity": {"by": ["cookie"]}})
        browsers = [urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
                    for _ in range(12)]

        def visit():
            return [browser.open(f"http://{daemon.address}/", timeout=PATIENCE).read() for browser in browsers]

        first = visit()
        self.assertEqual(set(first), {b"v7", b"v8"})
        for _ in range(4):
            self.assertEqual(visit(), first)

        # Other shares move no pinned session, and a version without one loses them.
        self.config["routes"][0]["split"] = {"version=v7": 99, "version=v8": 1}
        self.reload()
        self.assertEqual(visit(), first)
        self.config["routes"][0]["split"] = {"version=v7": 99, "version=v8": 0}
        self.reload()
        self.assertEqual(set(visit()), {b"v7"})

    def test_no_split_moves_a_sequence(self):
        daemon = self.versions("v7", "v8", split={"version=v7": 1, "version=v8": 1},
                               pool={"affinity": {"by": ["sequence_id"]}})

        def infer(sequence):
            body = json.dumps({"inputs": [], "parameters": {"sequence_id": sequence}}).encode()
            return exchange(daemon.address, "POST", "/v2/models/counter/infer", body=body).body

        first = [infer(sequence) for sequence in range(1, 21)]
        self.assertEqual(set(first), {b"v7", b"v8"})
        self.config["routes"][0]["split"] = {"version=v7": 1}
        self.reload()
        self.assertEqual([infer(sequence) for sequence in range(1, 21)], first)
        self.assertEqual({infer(sequence) for sequence in range(100, 110)}, {b"v7"})


class Names(DnsCase):
    def test_servers_that_a_name_gains_have_its_labels(self):
        stable, old, new = "127.0.0.31", "127.0.0.32", "127.0.0.33"
        self.serve_at(stable, old, new)
        self.names.say(NAME, old)
        daemon = self.running(
            labelled(f"{stable}:{self.port}", "v7"), labelled(f"{NAME}:{self.port}", "v8"),
            pool={"picker": "round-robin"}, routes=[{"pool": "pool", "split": {"version=v8": 1}}],
            dns={"servers": [self.names.address], "min_ttl": "100ms", "max_ttl": "300ms"}, workers=2)
        for _ in range(4):
            self.assertEqual(exchange(daemon.address).status, 200)
        self.assertEqual((self.hits(stable), self.hits(old)), (0, 4))

        self.names.say(NAME, old, new)
        self.eventually(lambda: len(self.ids()) == 3, "the server that the name has gained")
        self.eventually(lambda: self.ask(4) and self.hits(new) > 0, "requests to it")

        self.assertEqual(self.hits(stable), 0)
        self.assertEqual(daemon.api("pools")[0]["subsets"][0]["backends"], {"up": 2, "total": 2})


if __name__ == "__main__":
    case.main()
