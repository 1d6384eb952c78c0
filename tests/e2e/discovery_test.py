"""Backends that a file, a URL or SRV records list."""

import json
import os
import pathlib

import case
from dns_server import SRV, NameServer
from reloading import ReloadCase, Traffic
from stream import Stream

QUICK = {"check": "http", "path": "/health", "interval": "200ms"}


class Lists(ReloadCase):
    def start(self, discover, pool=None, **config):
        self.config = {"listeners": [{"name": "public", "address": "127.0.0.1:0"}], "workers": 2,
                       "admin": {"address": "127.0.0.1:0"},
                       "pools": [{"name": "pool", "discover": discover, "health": QUICK, **(pool or {})}], **config}
        self.served = self.daemon(self.config)
        self.config["access_log"] = {"path": str(self.served.access_path)}
        return self.served

    def ids(self):
        return sorted(each["id"] for each in self.served.api("backends"))

    def wait_for(self, *backends):
        wanted = sorted(each if isinstance(each, str) else each.address for each in backends)
        self.eventually(lambda: self.ids() == wanted, f"{wanted}, not {self.ids()}")

    def wait_up(self, *backends):
        self.wait_for(*backends)
        self.eventually(lambda: set(self.states().values()) == {"up"}, "all up")

    def ask(self):
        with Stream.connect(self.served.address) as stream:
            return stream.exchange().status

    def discovered(self, what):
        return self.served.metric(f"evenkeel_discovery_{what}", pool="pool")


class FileCase(Lists):
    def setUp(self):
        self.path = pathlib.Path(self.folder(), "backends.json")

    def list(self, *backends, **labels):
        self.replace(json.dumps([{"targets": [each.address for each in backends], "labels": labels}]))

    def replace(self, text):
        """As a program does that lets nothing see half a file."""
        new = self.path.with_suffix(".new")
        new.write_text(text)
        os.replace(new, self.path)


class Files(FileCase):
    def test_a_file_that_changes_moves_requests_and_none_fails(self):
        first, second, third = (self.backend() for _ in range(3))
        self.list(first, second, gpu="h100")
        self.start({"file": str(self.path)})
        self.wait_up(first, second)
        self.assertEqual(self.served.backend(first.address)["labels"], {"gpu": "h100"})
        traffic = Traffic(self, self.served.address, h1=2, h2=1, sse=0)
        self.list(second, third)
        self.wait_up(second, third)
        asked = traffic.asked()
        self.eventually(lambda: traffic.asked() > asked + 50)
        self.assertGreater(traffic.end(), 50)
        self.assertTrue(third.exchanges)
        self.assertEqual(self.discovered("backends"), 2)

    def test_backends_may_be_written_as_in_the_pool_and_stand_beside_those_of_the_file(self):
        fixed, found = self.backend(), self.backend()
        self.replace(f"- {{address: 'http://{found.address}', weight: 3, zone: eu}}\n- {fixed.address}\n")
        self.start({"file": str(self.path)}, pool={"backends": [{"address": fixed.address, "weight": 7}]})
        self.assertEqual(self.ids(), sorted([fixed.address, found.address]))
        self.assertEqual(self.served.backend(fixed.address)["weight"], 7, "the file's own comes first")
        told = self.served.backend(found.address)
        self.assertEqual((told["weight"], told["zone"]), (3, "eu"))

    def test_a_file_that_is_wrong_or_gone_changes_nothing(self):
        first = self.backend()
        self.list(first)
        self.start({"file": str(self.path)})
        self.wait_up(first)
        self.replace("[{\"targets\": [\"no port\"]}]")
        self.served.wait_line("1:.*'no port' is no target")
        self.path.unlink()
        self.served.wait_line("No such file")
        self.assertEqual(self.ids(), [first.address])
        self.eventually(lambda: self.discovered("failures_total") >= 2, "two failures")
        second = self.backend()
        self.list(first, second)
        self.wait_up(first, second)

    def test_an_empty_list_counts_only_when_a_second_look_confirms_it(self):
        first = self.backend()
        self.list(first)
        self.start({"file": str(self.path)})
        self.wait_up(first)
        self.replace("[]")
        self.eventually(lambda: self.discovered("held_total") == 1)
        self.assertEqual(self.ids(), [first.address])
        self.wait_for()
        self.assertEqual(self.ask(), 503)

    def test_a_file_that_is_not_there_yet_does_not_prevent_the_start(self):
        self.start({"file": str(self.path)})
        self.assertEqual(self.ids(), [])
        first = self.backend()
        self.list(first)
        self.wait_up(first)
        self.assertEqual(self.ask(), 200)


class EveryPicker(FileCase):
    PICKERS = ("round-robin", "weighted", "least-connections", "least-latency", "queue-depth", "gpu", "consistent-hash",
               "prefix-affinity", "expected-time")

    def test_a_pool_may_be_empty_and_fill(self):
        """Whatever picks, and also where requests wait in a queue."""
        self.replace("[]")
        pools = [{"name": each, "picker": each, "discover": {"file": str(self.path)}, "health": QUICK,
                  "limits": {"max_in_flight": 4, "queue": {"timeout": "200ms"}}} for each in self.PICKERS]
        self.served = self.daemon({"pools": pools, "routes": [{"match": {"path": f"/{each}"}, "pool": each}
                                                              for each in self.PICKERS]})

        def statuses():
            with Stream.connect(self.served.address) as stream:
                return {stream.exchange(target=f"/{each}").status for each in self.PICKERS}

        self.assertLessEqual(statuses(), {503, 429})
        self.list(self.backend(), self.backend())
        self.eventually(lambda: statuses() == {200}, "a pool that has filled")
        self.replace("[]")
        self.eventually(lambda: 200 not in statuses(), "pools that are empty again")


class Urls(Lists):
    def setUp(self):
        self.listed = []
        self.status = 200
        self.inventory = self.backend(self.tell)

    def tell(self, exchange):
        groups = [{"targets": [each.address for each in self.listed], "labels": {"__weight__": "2"}}]
        exchange.answer(json.dumps(groups).encode(), status=self.status)

    def test_the_list_at_a_url_is_followed_and_stays_while_the_url_fails(self):
        first, second = self.backend(), self.backend()
        self.listed = [first]
        self.start({"http_sd": f"http://{self.inventory.address}/sd?pool=a", "interval": "1s"})
        self.wait_up(first)
        self.assertEqual(self.served.backend(first.address)["weight"], 2)
        asked = self.inventory.exchanges[0]
        self.assertEqual(asked.target, "/sd?pool=a")
        self.assertEqual(asked.head.field("x-prometheus-refresh-interval-seconds"), "1")
        self.listed = [first, second]
        self.wait_up(first, second)
        self.status = 500
        self.served.wait_line("answers 500; the 2 backends found")
        self.assertEqual(self.ids(), sorted([first.address, second.address]))
        self.status, self.listed = 200, [second]
        self.wait_for(second)


class SrvRecords(Lists):
    def setUp(self):
        self.names = NameServer()
        self.addCleanup(self.names.close)
        self.first, self.second = self.backend(host="127.0.0.11"), self.backend(host="127.0.0.12")
        for name, host in (("a.test", "127.0.0.11"), ("b.test", "127.0.0.12")):
            self.names.say(name, host)

    def say(self, *services, **how):
        self.names.say("_http._tcp.llama.test", services=services, **how)

    def test_the_servers_with_the_lowest_priority_number_are_backends_by_weight(self):
        self.say((10, 5, self.first.port, "a.test"), (20, 1, self.second.port, "b.test"))
        self.start({"srv": "_http._tcp.llama.test"},
                   dns={"servers": [self.names.address], "min_ttl": "100ms", "max_ttl": "300ms"})
        self.wait_up(f"a.test:{self.first.port}")
        self.assertEqual(self.served.api("backends")[0]["weight"], 5)
        self.assertEqual(self.ask(), 200)
        self.say((10, 5, self.second.port, "b.test"), (10, 3, self.first.port, "a.test"))
        self.wait_up(f"a.test:{self.first.port}", f"b.test:{self.second.port}")

    def test_name_servers_that_fail_remove_nothing(self):
        self.say((10, 5, self.first.port, "a.test"))
        self.start({"srv": "_http._tcp.llama.test"},
                   dns={"servers": [self.names.address], "min_ttl": "100ms", "max_ttl": "300ms"})
        self.wait_up(f"a.test:{self.first.port}")
        self.say(failing=[SRV])
        self.eventually(lambda: self.discovered("failures_total") > 0)
        self.assertEqual(self.ids(), [f"a.test:{self.first.port}"])
        self.assertEqual(self.ask(), 200)


if __name__ == "__main__":
    case.main()
