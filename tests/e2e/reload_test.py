"""Reload under load: no request is lost and no state is forgotten."""

import itertools
import pathlib
import signal
import threading
import unittest

from process import SANITIZED
from reloading import ReloadCase, Traffic, serve
from stream import Stream

CHECKED = {"check": "http", "path": "/health", "interval": "100ms"}


class Backends(ReloadCase):
    """Backends with distinguishable answers."""

    def several(self, count):
        return [self.backend(serve) for _ in range(count)]

    def held(self):
        """A backend whose streams continue until `self.go` is set."""
        self.go = threading.Event()
        self.addCleanup(self.go.set)

        def script(exchange):
            if exchange.target != "/long":
                return exchange.answer(b"hello")
            exchange.begin_chunks()
            exchange.chunk(b"begun")
            self.go.wait(30)
            exchange.chunk(b"ended")
            return exchange.end_chunks()

        return self.backend(script)

    def long_request(self, address):
        stream = Stream.connect(address)
        self.addCleanup(stream.close)
        stream.ask(target="/long")
        head = stream.read_head()
        self.assertEqual(stream.read_chunk(head), b"begun")
        return stream, head

    def ends_well(self, stream, head):
        self.go.set()
        self.assertEqual(stream.read_chunk(head), b"ended")
        self.assertEqual(stream.read_chunk(head), b"")

    def asks(self, count=20, address=None, **kwargs):
        with Stream.connect(address or self.served.address) as stream:
            return [stream.exchange(**kwargs).status for _ in range(count)]


class UnderLoad(Backends):
    def test_a_hundred_reloads_lose_no_request_and_no_state(self):
        lasting, other, passing = backends = self.several(3)
        daemon = self.running(*backends, pool={"health": CHECKED, "picker": "round-robin"})
        doomed = self.backend(lambda exchange: exchange.abort())
        self.config["pools"].append({"name": "doomed", "backends": [doomed.address]})
        self.config["routes"] = [{"match": {"path": "/doomed"}, "pool": "doomed"}, {"pool": "pool"}]
        self.reload()
        self.assertEqual(self.asks(3, target="/doomed"), [502] * 3)
        before = {each["id"]: each for each in daemon.api("backends")}
        traffic = Traffic(self, daemon.address)
        self.eventually(lambda: daemon.backend(lasting.address)["latency"]["e2e_seconds"] is not None, "a measured answer")
        pickers = ["round-robin", "least-connections", "weighted", "least-latency"]
        seen = 0
        for number in range(100):
            self.pool["picker"] = pickers[number % 4]
            here = [lasting.address, other.address] + [passing.address] * (number % 3 == 0)
            self.pool["backends"] = here[::-1] if number % 2 else here
            self.config["routes"][1]["name"] = f"number {number % 5}"
            if number % 2:
                self.reload()
            else:
                self.send_sighup()
            now = {each["id"]: each for each in daemon.api("backends")}
            for backend in (lasting, other):
                self.assertEqual(now[backend.address]["since"], before[backend.address]["since"])
                self.assertEqual(now[backend.address]["state"], "up")
            picks = now[lasting.address]["picks_total"]
            self.assertGreaterEqual(picks, seen)
            self.assertIsNotNone(now[lasting.address]["latency"]["e2e_seconds"])
            seen = picks
        asked = traffic.end()
        self.assertGreater(asked, 100)
        daemon.wait_at_rest()
        now = {each["id"]: each for each in daemon.api("backends")}
        for backend in (lasting, other):
            requests = sum(each.target != "/health" for each in backend.exchanges)
            self.assertEqual(now[backend.address]["picks_total"], requests)
            self.assertEqual(now[backend.address]["errors_total"], 0)
        self.assertEqual(now[doomed.address]["errors_total"], before[doomed.address]["errors_total"])
        self.assertGreater(now[doomed.address]["errors_total"], 0)
        # The counters continue: every request of the clients, and the three that failed. Those by route end with the
        # names that the route no longer has.
        self.assertEqual(daemon.metric("evenkeel_requests_total", code="502"), 3)
        self.assertEqual(daemon.metric("evenkeel_request_duration_seconds_count", pool="pool"), asked)
        self.assertEqual(daemon.metric("evenkeel_connections_total", listener="public"), 7)

    def test_a_stream_and_a_connection_outlive_twenty_reloads(self):
        backend = self.held()
        daemon = self.running(backend)
        stream, head = self.long_request(daemon.address)
        traffic = Traffic(self, daemon.address, h1=0, h2=1, sse=0)
        self.eventually(lambda: traffic.counts["h2"] > 0)
        for number in range(20):
            self.pool["limits"] = {"max_in_flight": 100 + number}
            self.pool["timeouts"] = {"idle": f"{100 + number}s"}
            self.reload()
            asked = traffic.asked()
            self.eventually(lambda at=asked: traffic.asked() > at + 4)
        self.ends_well(stream, head)
        traffic.end()
        self.assertEqual(len(traffic.connections), 1)
        self.assertEqual(stream.exchange().status, 200, "on the same connection")

    def test_connections_to_unchanged_backends_are_kept(self):
        plain, modern, other = self.backend(serve), self.h2_backend(serve), self.backend(serve)
        self.running(plain, workers=1, pool={"keep_alive": {"idle": "60s"}})
        self.config["pools"].append({"name": "modern", "backends": [modern.address], "protocol": "h2",
                                     "keep_alive": {"idle": "60s"}})
        self.config["routes"] = [{"match": {"path": "/modern"}, "pool": "modern"}, {"pool": "pool"}]
        self.reload()
        with Stream.connect(self.served.address) as stream:
            for number in range(20):
                self.assertEqual(stream.exchange().status, 200)
                self.assertEqual(stream.exchange(target="/modern").status, 200)
                self.pool["backends"] = [plain.address, {"address": other.address, "standby": True}][:1 + number % 2]
                self.pool["limits"] = {"max_in_flight": 10 + number}
                self.reload()
        self.assertEqual((plain.accepted, modern.accepted), (1, 1))
        # Another protocol needs new connections.
        self.pool["timeouts"] = {"first_byte": "9s"}
        self.reload()
        self.assertEqual(self.asks(3), [200] * 3)
        self.assertEqual((plain.accepted, modern.accepted), (2, 1))
        self.eventually(lambda: plain.connections() == 1, "the end of the unused link")

    def test_polls_and_checks_continue(self):
        simulators = self.simulators("--engine", "vllm", count=2)
        daemon = self.running(*simulators.addresses, pool={"engine": "vllm", "health": {"interval": "100ms"},
                                                           "metrics": {"interval": "50ms"}})
        self.eventually(lambda: all(each["polled"]["running"] is not None for each in daemon.api("backends")))

        def checks():
            return daemon.metric("evenkeel_backend_health_checks_total", result="passed")

        seen = checks()
        since = [each["since"] for each in daemon.api("backends")]
        for number in range(20):
            self.pool["limits"] = {"max_in_flight": 100 + number}
            self.reload()
            now = daemon.api("backends")
            self.assertEqual([each["since"] for each in now], since)
            for each in now:
                self.assertEqual(each["state"], "up")
                self.assertIsNotNone(each["polled"]["running"])
                self.assert_within(each["polled"]["age_seconds"], 2)
            self.assertGreaterEqual(checks(), seen)
            seen = checks()
        self.eventually(lambda: checks() > seen, "further checks")

    def test_many_signals_at_once(self):
        daemon = self.running(*self.several(2))
        traffic = Traffic(self, daemon.address, h1=2, h2=1, sse=1)
        for number in range(300):
            if number % 10 == 0:
                self.write()
            daemon.signal(signal.SIGHUP)
        self.pool["debug_headers"] = True
        self.send_sighup()

        def last_is_in_force():
            with Stream.connect(daemon.address) as stream:
                return stream.exchange().field("x-evenkeel-pool") == "pool"

        self.eventually(last_is_in_force)
        self.assertGreater(traffic.end(), 0)

    def test_memory_does_not_grow(self):
        backends = self.several(4)
        daemon = self.running(*backends, pool={"health": CHECKED})
        self.config["pools"].append({"name": "second", "backends": [each.address for each in backends],
                                     "picker": "consistent-hash"})
        self.config["routes"] = [{"match": {"path": "/second"}, "pool": "second"}, {"pool": "pool"}]

        def rounds(count):
            for number in range(count):
                self.pool["backends"] = [each.address for each in backends[number % 2:]]
                self.pool["timeouts"] = {"idle": f"{100 + number % 3}s"}
                self.config["routes"][0]["name"] = f"route {number % 3}"
                self.reload()
                self.asks(1)
                self.asks(1, target="/second")

        rounds(50)
        before, descriptors = daemon.resident_bytes(), daemon.descriptors()
        rounds(250)
        if not SANITIZED:
            self.assertLess(daemon.resident_bytes() - before, 3 * 1024 * 1024)
        self.eventually(lambda: daemon.descriptors() <= descriptors + 8, "descriptors given back")


class ChangedBackends(Backends):
    def test_a_removed_backend_finishes_and_gets_nothing_new(self):
        leaving, staying = self.held(), self.backend(serve)
        daemon = self.running(leaving)
        stream, head = self.long_request(daemon.address)
        self.pool["backends"] = [staying.address]
        self.reload()
        seen = len(leaving.exchanges)
        self.assertEqual(self.asks(), [200] * 20)
        with self.subTest("on connections that were there before"):
            self.assertEqual(len(leaving.exchanges), seen)
        self.assertEqual(self.states(), {staying.address: "up"})
        self.ends_well(stream, head)
        self.assertEqual(stream.exchange().status, 200)
        self.assertEqual(len(leaving.exchanges), seen)
        self.eventually(lambda: leaving.connections() == 0, "the end of its links")
        # When it is added again it is a new backend.
        self.pool["backends"] = [leaving.address]
        self.reload()
        self.assertEqual(self.asks(4), [200] * 4)
        self.assertEqual(daemon.backend(leaving.address)["picks_total"], 4)

    def test_a_request_whose_body_is_awaited_goes_to_a_backend_of_the_new_file(self):
        leaving, staying = self.several(2)
        daemon = self.running(leaving, pool={"inspect": True})
        body = b'{"model": "tiny", "prompt": "hello"}'
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                        b"Content-Length: %d\r\n\r\n%s" % (len(body), body[:10]))
            self.eventually(lambda: daemon.metric("evenkeel_requests_in_flight", pool="pool") == 1)
            self.pool["backends"] = [staying.address]
            self.reload()
            stream.send(body[10:])
            self.assertEqual(stream.read_response().status, 200)
        self.assertEqual([each.body for each in staying.exchanges if each.method == "POST"], [body])
        self.assertEqual([each.target for each in leaving.exchanges if each.method == "POST"], [])
        self.eventually(lambda: daemon.metric("evenkeel_requests_in_flight", pool="pool") == 0)

    def test_requests_in_the_queue_go_to_the_backends_of_the_new_file(self):
        completion = {"method": "POST", "target": "/v1/completions", "fields": [("content-type", "application/json")],
                      "body": b'{"model": "tiny", "prompt": "hello", "max_tokens": 50}'}
        for picker, change in itertools.product(("least-connections", "expected-time"), ("replaced", "added")):
            with self.subTest(picker=picker, change=change):
                full, fresh = self.held(), self.backend(serve)
                daemon = self.running(full, pool={"limits": {"max_in_flight": 1}, "picker": picker, "engine": "vllm",
                                                  "health": {"check": "off"}})
                stream, head = self.long_request(daemon.address)
                waiting = [self.spawn(lambda: self.asks(1, **completion)) for _ in range(8)]
                self.eventually(lambda: daemon.api("pools")[0]["waiting"] == 8)
                self.pool["backends"] = [fresh.address] if change == "replaced" else [full.address, fresh.address]
                self.reload()
                self.assertEqual([each.join() for each in waiting], [[200]] * 8)
                self.assertEqual(daemon.backend(fresh.address)["picks_total"], 8)
                self.assertEqual(daemon.api("pools")[0]["waiting"], 0)
                self.ends_well(stream, head)

    def test_an_added_backend_gets_requests_after_its_first_check(self):
        healthy = threading.Event()
        self.addCleanup(healthy.set)

        def script(exchange):
            if exchange.target == "/health":
                healthy.wait(30)
            return exchange.answer(b"hello")

        old, added = self.backend(serve), self.backend(script)
        daemon = self.running(old, pool={"health": {**CHECKED, "timeout": "30s"}, "picker": "round-robin"})
        traffic = Traffic(self, daemon.address, h1=2, h2=1, sse=0)
        self.pool["backends"].append(added.address)
        self.reload()
        self.assertEqual(self.states(), {old.address: "up", added.address: "starting"})
        # Neither other requests nor later reloads wait for it.
        for number in range(5):
            self.pool["limits"] = {"max_in_flight": 100 + number}
            self.reload()
            asked = traffic.asked()
            self.eventually(lambda at=asked: traffic.asked() > at + 20)
        self.assertEqual({each.target for each in added.exchanges}, {"/health"})
        healthy.set()
        self.eventually(lambda: self.states()[added.address] == "up")
        self.eventually(lambda: any(each.target == "/" for each in added.exchanges))
        traffic.end()

    def test_the_log_names_what_changed(self):
        old, staying, new = self.several(3)
        daemon = self.running(old, staying)
        self.pool["backends"] = [staying.address, {"address": new.address, "weight": 3}]
        self.pool["limits"] = {"max_in_flight": 7}
        self.reload()
        daemon.wait_line(r"reloaded .*: 3 changes; serving 1 pool, 2 of 2 backends up")
        daemon.wait_line(f"reload: pool pool: backend {new.address}: added")
        daemon.wait_line(f"reload: pool pool: backend {old.address}: removed")
        daemon.wait_line(r"reload: pool pool: limits.max_in_flight: 0 -> 7")
        self.reload()
        daemon.wait_line(r"reloaded .*: 0 changes; ")

    def test_pools_routes_and_limits_change(self):
        one, two = self.backend(lambda request: request.answer(b"one")), self.backend(lambda request: request.answer(b"two"))
        daemon = self.running(one, workers=1)
        with Stream.connect(daemon.address) as stream:
            self.assertEqual(stream.exchange(target="/two").body, b"one")
            self.config["pools"].append({"name": "second", "backends": [two.address], "debug_headers": True})
            self.config["routes"] = [{"match": {"path": "/two"}, "pool": "second"}, {"pool": "pool"}]
            self.reload()
            answer = stream.exchange(target="/two")
            self.assertEqual((answer.body, answer.field("x-evenkeel-pool")), (b"two", "second"))
            self.assertEqual(stream.exchange().body, b"one")
            self.config["routes"][1]["match"] = {"path": "/one"}
            self.reload()
            self.assertEqual(stream.exchange().reason, "no_route")
            del self.config["pools"][0], self.config["routes"]
            self.reload()
            self.assertEqual(stream.exchange().body, b"two")
            self.assertEqual([each["name"] for each in daemon.api("pools")], ["second"])

    @unittest.skipIf(SANITIZED, "a sanitizer keeps what is freed")
    def test_a_replaced_prefix_index_is_released_although_a_request_goes_on(self):
        daemon = self.running(self.held(), pool={"picker": {"name": "expected-time", "index_memory": "128MiB"}})
        stream, head = self.long_request(daemon.address)
        before = self.resident_mib(daemon)
        for index_memory in "127MiB", "126MiB", "125MiB", "124MiB", "123MiB":
            self.pool["picker"]["index_memory"] = index_memory
            self.reload()
        self.eventually(lambda: self.resident_mib(daemon) < before + 40, "one index is left")
        self.pool["picker"] = "round-robin"
        self.reload()
        self.eventually(lambda: self.resident_mib(daemon) < before - 60, "no index is left")
        self.ends_well(stream, head)

    def resident_mib(self, daemon):
        lines = pathlib.Path(f"/proc/{daemon.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) >> 10

    def test_a_higher_limit_applies_to_later_requests(self):
        backend = self.held()
        daemon = self.running(backend, pool={"limits": {"max_in_flight": 1}})
        stream, head = self.long_request(daemon.address)
        waiting = self.spawn(lambda: self.asks(1))
        self.eventually(lambda: daemon.api("pools")[0]["waiting"] == 1)
        self.pool["limits"] = {"max_in_flight": 10}
        self.reload()
        self.assertEqual(self.asks(3), [200] * 3)
        self.assertFalse(head.trailers)
        self.ends_well(stream, head)
        self.assertEqual(waiting.join(), [200])

    def test_trust_in_proxies_changes_for_open_connections_too(self):
        daemon = self.running(self.backend(), workers=1)
        named = [("X-Forwarded-For", "203.0.113.9")]
        with Stream.connect(daemon.address) as stream:
            stream.exchange(fields=named)
            self.config["listeners"][0]["trusted_proxies"] = ["127.0.0.0/8"]
            self.reload()
            stream.exchange(fields=named)
            del self.config["listeners"][0]["trusted_proxies"]
            self.reload()
            stream.exchange(fields=named)
        lines = daemon.wait_access(3)
        self.assertEqual([(line["client"], line.get("peer")) for line in lines],
                         [("127.0.0.1", None), ("203.0.113.9", "127.0.0.1"), ("127.0.0.1", None)])

    def test_timeouts_and_queues_change(self):
        backend = self.held()
        daemon = self.running(backend, pool={"limits": {"max_in_flight": 1}})
        stream, head = self.long_request(daemon.address)
        self.pool["limits"]["queue"] = {"size": 0}
        self.reload()
        self.assertEqual(self.asks(1), [429])
        self.pool["limits"] = {"max_in_flight": 10}
        self.pool["timeouts"] = {"first_byte": "100ms"}
        self.reload()
        silent = self.backend(lambda exchange: exchange.wait_disconnected())
        self.pool["backends"] = [silent.address]
        self.reload()
        with Stream.connect(daemon.address) as other:
            self.assertEqual(other.exchange().reason, "first_byte_timeout")
        self.ends_well(stream, head)

    def test_a_former_standby_backend_serves(self):
        active, spare = self.backend(serve), self.backend(serve)
        self.running(active, {"address": spare.address, "standby": True}, pool={"picker": "round-robin"})
        self.asks(10)
        self.assertEqual(len(spare.exchanges), 0)
        self.pool["backends"][1]["standby"] = False
        self.reload()
        self.assertEqual(self.states()[spare.address], "up")
        self.asks(10)
        self.assertEqual(len(spare.exchanges), 5)
        self.pool["backends"][1]["standby"] = True
        self.reload()
        self.asks(10)
        self.assertEqual(len(spare.exchanges), 5)

    def test_an_operators_settings_hold_until_the_file_changes_them(self):
        first, second = self.several(2)
        daemon = self.running(first, second, pool={"picker": "round-robin"})

        def set_weight(backend, weight):
            answer = self.post(f"/api/v1/backends/{backend.address}/weight", b'{"weight": %d}' % weight)
            self.assertEqual(answer.status, 200, answer.body)

        set_weight(first, 7)
        set_weight(second, 9)
        self.assertEqual(self.post(f"/api/v1/backends/{second.address}/drain").status, 200)
        for number in range(5):
            self.pool["limits"] = {"max_in_flight": 100 + number}
            self.reload()
            self.assertEqual([each["weight"] for each in daemon.api("backends")], [7, 9])
            self.assertEqual(self.states(), {first.address: "up", second.address: "draining"})
        self.pool["backends"] = [{"address": first.address, "weight": 3}, second.address]
        self.reload()
        self.assertEqual([each["weight"] for each in daemon.api("backends")], [3, 9])
        seen = len(second.exchanges)
        self.asks(10)
        self.assertEqual(len(second.exchanges), seen)
        # Removed and added again, it is as in the file.
        self.pool["backends"] = [first.address]
        self.reload()
        self.pool["backends"] = [first.address, second.address]
        self.reload()
        self.assertEqual([each["weight"] for each in daemon.api("backends")], [1, 1])
        self.assertEqual(self.states()[second.address], "up")

    def post(self, target, body=b""):
        with Stream.connect(self.served.admin) as stream:
            return stream.exchange("POST", target, body=body, host=self.served.admin)


class OtherSignals(Backends):
    def test_no_reload_during_a_drain(self):
        backend = self.held()
        daemon = self.running(backend)
        stream, head = self.long_request(daemon.address)
        daemon.signal(signal.SIGTERM)
        daemon.wait_line("draining")
        self.config["listeners"].append({"name": "late", "address": "127.0.0.1:0"})
        self.assertIn("shutting down", self.refused())
        daemon.signal(signal.SIGHUP)
        self.assertTrue(daemon.api("status")["draining"])
        self.ends_well(stream, head)
        self.assertEqual(daemon.wait_exit(), 0)

    def test_sigterm_during_a_reload(self):
        hanging = threading.Event()
        self.addCleanup(hanging.set)
        backend, slow = self.held(), self.backend(lambda exchange: hanging.wait(30))
        daemon = self.running(backend)
        stream, head = self.long_request(daemon.address)
        # A reload waits briefly for the first check of a new backend, so the signal arrives in between.
        self.config["pools"].append({"name": "slow", "backends": [slow.address],
                                     "health": {"check": "http", "path": "/health", "timeout": "30s"}})
        self.config["routes"] = [{"match": {"path": "/slow"}, "pool": "slow"}, {"pool": "pool"}]
        self.config["listeners"].append({"name": "late", "address": "127.0.0.1:0"})
        self.write()
        daemon.signal(signal.SIGHUP)
        self.eventually(lambda: slow.exchanges, "its first check")
        daemon.signal(signal.SIGTERM)
        daemon.wait_line("reloaded|reload rejected")
        self.ends_well(stream, head)
        self.assertEqual(daemon.wait_exit(), 0)

    def test_the_access_log_continues(self):
        daemon = self.running(*self.several(1))
        self.asks(3)
        self.reload()
        self.asks(3)
        self.assertEqual(len(daemon.wait_access(6)), 6)
        moved = pathlib.Path(f"{daemon.access_path}.1")
        daemon.access_path.rename(moved)
        daemon.signal(signal.SIGUSR1)
        self.reload()
        self.eventually(lambda: daemon.access_path.exists())
        self.asks(3)
        self.assertEqual(len(daemon.wait_access(3)), 3)
        self.assertEqual(len(moved.read_text().splitlines()), 6)


if __name__ == "__main__":
    import case
    case.main()
