"""Backends given by name: several addresses, changing addresses, failing name servers."""

import random
import socket
import struct
import threading
import time

from dns_server import A, AAAA, NAME_ERROR, SERVER_FAILURE, NameServer, answer
from reloading import ReloadCase, Traffic
from stream import Stream

NAME = "models.test"
QUICK = {"check": "http", "path": "/health", "interval": "100ms"}


class DnsCase(ReloadCase):
    def setUp(self):
        self.names = NameServer()
        self.addCleanup(self.names.close)
        self.go = threading.Event()
        self.addCleanup(self.go.set)
        self.port = 0
        self.servers = {}

    def answer(self, exchange):
        if exchange.target != "/long":
            return exchange.answer(b"hello")
        exchange.begin_chunks()
        exchange.chunk(b"begun")
        self.go.wait(30)
        exchange.chunk(b"ended")
        return exchange.end_chunks()

    def serve_at(self, *hosts, script=None):
        """Backends on these addresses, all with the same port."""
        for host in hosts:
            server = self.backend(script or self.answer, host=host, port=self.port)
            self.port = server.port
            self.servers[host] = server
        return [self.servers[host] for host in hosts]

    def start(self, *addresses, pool=None, names=(NAME,), max_ttl="300ms", **how):
        """A daemon whose pool has this name as its backend; the name has these addresses."""
        if addresses or how:
            self.names.say(NAME, *addresses, **how)
        self.running(*(f"{name}:{self.port}" for name in names), pool={"picker": "round-robin", **(pool or {})},
                     dns={"servers": [self.names.address], "min_ttl": "100ms", "max_ttl": max_ttl}, workers=1)
        return self.served

    def ids(self):
        return [each["id"] for each in self.served.api("backends")]

    def at(self, *hosts):
        return [f"{NAME}:{self.port}@{host}" for host in hosts]

    def wait_for(self, *ids):
        self.eventually(lambda: sorted(self.ids()) == sorted(ids), f"the backends {ids}, not {self.ids()}")

    def ask(self, count=1):
        with Stream.connect(self.served.address) as stream:
            return [stream.exchange().status for _ in range(count)]

    def hits(self, host):
        return sum(each.target != "/health" for each in list(self.servers[host].exchanges))

    def questions_from_now(self, count, name=NAME, kind=A):
        """Waits for that many further queries."""
        before = len(self.names.questions(name, kind))
        self.eventually(lambda: len(self.names.questions(name, kind)) >= before + count, "further questions")


class Addresses(DnsCase):
    def test_each_address_is_a_backend(self):
        hosts = ["127.0.0.11", "127.0.0.12", "127.0.0.13"]
        self.serve_at(*hosts)
        self.start(*hosts)
        self.assertEqual(self.ids(), self.at(*hosts))
        self.assertEqual([each["address"] for each in self.served.api("backends")],
                         [f"{host}:{self.port}" for host in hosts])
        self.assertEqual(self.ask(9), [200] * 9)
        self.assertEqual([self.hits(host) for host in hosts], [3, 3, 3])

    def test_a_removed_address_drains_and_a_new_one_is_checked_first(self):
        hosts = ["127.0.0.11", "127.0.0.12"]
        checked = threading.Event()
        self.addCleanup(checked.set)

        def once_checked(exchange):
            if exchange.target == "/health":
                checked.wait(30)
            return self.answer(exchange)

        first, _ = self.serve_at(*hosts)
        self.serve_at("127.0.0.13", script=once_checked)
        self.start(*hosts, pool={"health": {**QUICK, "timeout": "30s"}})
        traffic = Traffic(self, self.served.address, h1=2, h2=1, sse=0)
        streams = []
        while not any(each.target == "/long" for each in first.exchanges):
            stream = Stream.connect(self.served.address)
            self.addCleanup(stream.close)
            stream.ask(target="/long")
            head = stream.read_head()
            self.assertEqual(stream.read_chunk(head), b"begun")
            streams.append((stream, head))
        since = self.since(hosts[1])
        self.names.say(NAME, hosts[1], "127.0.0.13")
        self.wait_for(*self.at(hosts[1], "127.0.0.13"))
        self.served.wait_line("DNS update applied")
        # After this many responses, every request that was in flight before has been answered.
        asked = traffic.asked()
        self.eventually(lambda: traffic.asked() > asked + 10)
        hits = self.hits(hosts[0])
        asked = traffic.asked()
        self.eventually(lambda: traffic.asked() > asked + 30)
        self.assertEqual(self.hits(hosts[0]), hits, "it gets nothing new")
        self.assertEqual(self.hits("127.0.0.13"), 0, "it has not been checked")
        self.assertEqual(self.states()[self.at("127.0.0.13")[0]], "starting")
        self.assertEqual(self.since(hosts[1]), since)
        checked.set()
        self.eventually(lambda: self.hits("127.0.0.13") > 0, "requests for the new one")
        self.go.set()
        for stream, head in streams:
            self.assertEqual(stream.read_chunk(head), b"ended")
            self.assertEqual(stream.read_chunk(head), b"")
        traffic.end()

    def since(self, host):
        return next(each["since"] for each in self.served.api("backends") if each["address"].startswith(host))

    def test_a_backend_keeps_its_state_when_other_addresses_come_and_go(self):
        hosts = ["127.0.0.11", "127.0.0.12"]
        one, _ = self.serve_at(*hosts)
        alone = f"{NAME}:{self.port}"
        self.start(hosts[0], pool={"health": QUICK, "keep_alive": {"idle": "60s"}})
        self.assertEqual(self.ids(), [alone])
        self.assertEqual(self.ask(10), [200] * 10)
        checks, links = len(one.exchanges), one.accepted
        self.names.say(NAME, *hosts)
        self.wait_for(alone, *self.at(hosts[1]))
        self.eventually(lambda: self.states()[self.at(hosts[1])[0]] == "up")
        self.assertEqual(self.ask(10), [200] * 10)
        self.assertEqual(self.served.api("backends")[0]["picks_total"], 15)
        self.names.say(NAME, hosts[1])
        self.wait_for(*self.at(hosts[1]))
        self.assertEqual(self.ask(10), [200] * 10)
        self.assertEqual(self.served.api("backends")[0]["picks_total"], 15)
        self.assertGreater(len(one.exchanges), checks)
        self.assertEqual(one.accepted, links, "its links stayed")

    def test_shuffled_answers_change_nothing(self):
        hosts = ["127.0.0.11", "127.0.0.12", "127.0.0.13"]
        self.serve_at(*hosts)
        self.start(*hosts)
        loaded = self.ids()
        for _ in range(10):
            random.shuffle(hosts)
            self.names.say(NAME, *hosts, *hosts[:2])
            self.questions_from_now(1)
            self.assertEqual(self.ids(), loaded)
        self.assertFalse([line for line in self.served.lines if "DNS update applied" in line])
        self.assertEqual(self.ask(3), [200] * 3)

    def test_a_name_that_flaps_loses_no_request(self):
        hosts = ["127.0.0.11", "127.0.0.12", "127.0.0.13"]
        self.serve_at(*hosts)
        self.start(*hosts, pool={"health": QUICK})
        traffic = Traffic(self, self.served.address, h1=2, h2=1, sse=0)
        for number in range(12):
            self.names.say(NAME, *hosts[number % 3:][:2], ttl=0)
            self.questions_from_now(1)
        self.assertGreater(traffic.end(), 0)

    def test_time_to_live_is_honoured(self):
        self.serve_at("127.0.0.11")
        self.start("127.0.0.11", ttl=1, max_ttl="10s")
        self.questions_from_now(3)
        asked = self.names.questions(NAME)[1:4]
        for before, after in zip(asked, asked[1:]):
            self.assertGreater(after - before, 0.95)
            self.assert_within(after - before, 2)
        # The limits of the file apply, and a reload may change them.
        self.config["dns"]["max_ttl"] = "200ms"
        self.reload()
        self.questions_from_now(2)
        self.names.say(NAME, "127.0.0.11", ttl=100000)
        self.questions_from_now(3)

    def test_a_backend_with_a_new_address_is_checked_at_once(self):
        self.serve_at("127.0.0.11", "127.0.0.12")
        self.start("127.0.0.11", pool={"health": {**QUICK, "interval": "60s"}})
        self.assertEqual(self.ask(4), [200] * 4)
        self.names.say(NAME, "127.0.0.12")
        self.eventually(lambda: any(each.target == "/health" for each in self.servers["127.0.0.12"].exchanges))
        self.served.wait_line("DNS update applied")
        self.assertEqual(self.ask(4), [200] * 4)
        self.assertEqual([self.hits("127.0.0.11"), self.hits("127.0.0.12")], [4, 4])

    def test_ipv6_and_ipv4_addresses_are_the_same_server(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError:
            self.skipTest("no IPv6 here")
        self.serve_at("127.0.0.11")
        self.start("127.0.0.11", "::1")
        self.assertEqual(self.ids(), [f"{NAME}:{self.port}"])
        self.assertEqual(self.ask(4), [200] * 4)
        # First only IPv4, then only IPv6.
        self.names.say(NAME, "127.0.0.11")
        self.questions_from_now(2, kind=AAAA)
        self.assertEqual(self.ask(4), [200] * 4)
        with socket.socket(socket.AF_INET6) as modern:
            modern.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            modern.bind(("::1", self.port))
            modern.listen()
            moves = self.reloads_logged("DNS update applied")
            self.names.say(NAME, "::1")
            self.eventually(lambda: self.reloads_logged("DNS update applied") > moves
                            and list(self.states().values()) == ["up"])
            with Stream.connect(self.served.address) as stream:
                stream.ask()
                modern.settimeout(20)
                with Stream(modern.accept()[0]) as server:
                    server.read_head()
                    server.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
                    self.assertEqual(stream.read_response().status, 200)


class Failures(DnsCase):
    def test_a_name_that_does_not_exist_at_the_start_is_resolved_later(self):
        self.serve_at("127.0.0.11")
        other = self.backend(self.answer)
        self.names.say(NAME, code=NAME_ERROR)
        self.start()
        self.assertEqual(self.states(), {f"{NAME}:{self.port}": "down"})
        self.assertEqual(self.ask(), [503])
        self.assertIn("its name has no address", self.served.api("backends")[0]["reason"])
        self.names.say(NAME, "127.0.0.11")
        self.eventually(lambda: list(self.states().values()) == ["up"])
        self.assertEqual(self.ask(3), [200] * 3)
        # Denied later, it keeps the server that passes its checks.
        self.names.say(NAME, code=NAME_ERROR)
        self.served.wait_line("has no address any more, say its name servers; its 1 stay for 30 s at least")
        self.questions_from_now(5)
        self.assertEqual(list(self.states().values()), ["up"])
        self.assertEqual(self.ask(3), [200] * 3)
        self.names.say(NAME, "127.0.0.11")
        self.served.wait_line("has addresses again")
        # A file with an unknown name is accepted, and the rest of it works.
        self.pool["backends"] += [other.address, "nowhere.test:1"]
        self.reload()
        self.assertEqual(self.states(), {f"{NAME}:{self.port}": "up", other.address: "up", "nowhere.test:1": "down"})
        self.assertEqual(self.ask(4), [200] * 4)

    def test_failing_name_servers_remove_no_backends(self):
        host = "127.0.0.11"
        self.serve_at(host)
        troubles = [{"code": SERVER_FAILURE}, {"failing": {A}}, {"silent": {A}}, {"silent": {A, AAAA}},
                    {"raw": lambda query, question: b"\0" * 40},
                    {"raw": lambda query, question: query[:2]},
                    {"raw": lambda query, question: answer(query, question, ["127.0.0.66"])[:-3]},
                    {"raw": lambda query, question: answer(query, question, flags=0x8380)},  # truncated, and TCP is unavailable
                    {"raw": lambda query, question: b"\xff\xff" + answer(query, question, ["127.0.0.66"])[2:]},
                    {"raw": lambda query, question: query[:2] + struct.pack("!HHHHH", 0x8180, 1, 60000, 9, 9)
                     + question + b"\xc0\x0c" * 30000}]
        names = [f"trouble{number}.test" for number in range(len(troubles))]
        for name in names:
            self.names.say(name, host)
        self.start(names=names)
        good = dict.fromkeys((f"{name}:{self.port}" for name in names), "up")
        self.assertEqual(self.states(), good)
        before = len(self.names.asked)
        for name, trouble in zip(names, troubles):
            self.names.say(name, **trouble)
        for name in names:
            self.eventually(lambda name=name: sum(asked == name and kind == A for _, asked, kind
                                                  in self.names.asked[before:]) >= 3, f"questions for {name}")
        self.assertEqual(self.states(), good)
        self.assertEqual(self.ask(20), [200] * 20)
        # When they recover, updates are applied again.
        self.serve_at("127.0.0.12")
        for name in names:
            self.names.say(name, "127.0.0.12")
        self.eventually(lambda: self.ask(10) and self.hits("127.0.0.11") == self.hits_after_ten(), within=30)
        self.assertEqual(self.states(), good)

    def hits_after_ten(self):
        self.ask(10)
        return self.hits("127.0.0.11")

    def test_one_address_family_is_enough(self):
        """The name server ignores or refuses queries for IPv6."""
        self.serve_at("127.0.0.11", "127.0.0.12")
        for how in ({"silent": {AAAA}}, {"failing": {AAAA}}):
            with self.subTest(how=how):
                began = time.monotonic()
                self.start("127.0.0.11", "127.0.0.12", **how)
                self.assert_within(time.monotonic() - began, 2.5, "no request waits for it")
                self.assertEqual(self.states(), dict.fromkeys(self.at("127.0.0.11", "127.0.0.12"), "up"))
                self.names.say(NAME, "127.0.0.12", **how)
                self.wait_for(*self.at("127.0.0.12"))

    def test_a_slow_name_server_delays_no_request(self):
        self.serve_at("127.0.0.11", "127.0.0.12")
        self.names.say("slow.test", "127.0.0.12", delay=2.5)
        self.start("127.0.0.11")
        traffic = Traffic(self, self.served.address, h1=2, h2=1, sse=0)
        self.pool["backends"].append(f"slow.test:{self.port}")
        reloading = self.spawn(self.reload)
        self.eventually(lambda: self.names.questions("slow.test"))
        asked, questions = traffic.asked(), len(self.names.questions(NAME))
        self.eventually(lambda: len(self.names.questions(NAME)) > questions, "another name's turn")
        self.assertGreater(traffic.asked(), asked)
        reloading.join()
        self.eventually(lambda: self.states()[f"slow.test:{self.port}"] == "up")
        self.eventually(lambda: self.hits("127.0.0.12") > 0)
        traffic.end()

    def test_missing_certificate_files_do_not_block_updates(self):
        hosts = ["127.0.0.11", "127.0.0.12"]
        self.serve_at(*hosts)
        key = self.folder() + "/key"
        with open(key, "w") as file:
            file.write("secret")
        self.names.say(NAME, hosts[0])
        self.start(pool={"backends": [{"address": f"{NAME}:{self.port}", "api_key_file": key}]})
        with open(key, "w") as file:
            file.write("")
        self.names.say(NAME, hosts[1])
        self.eventually(lambda: any("DNS update applied" in line for line in self.served.lines))
        self.assertEqual(self.ask(2), [200] * 2)
        self.assertEqual({each.head.field("authorization") for each in self.servers[hosts[1]].exchanges},
                         {"Bearer secret"})


if __name__ == "__main__":
    import case
    case.main()
