"""Usage records: one for each request that reached a model, as the client got it, and none lost or written twice."""

import gzip
import json
import pathlib
import signal
import subprocess
import unittest

import case
from ports import refusing_address
from process import BINARY, command
from reloading import ReloadCase
from stream import Stream, exchange
from upgrading import UpgradeCase
from usage_records import CHAT, JSON, KEYS, QUIET, TENANTS, Usage, answer, chat, read_records

try:
    import openai
except ImportError:
    openai = None


def words(request, count, end=True):
    """A stream without usage."""
    request.begin_chunks([("content-type", "text/event-stream")])
    for _ in range(count):
        request.chunk(b'data: {"choices": [{"index": 0, "delta": {"content": "word "}}]}\n\n')
    if end:
        request.chunk(b"data: [DONE]\n\n")
        request.end_chunks()


def report(address):
    """What a simulated server has counted."""
    return json.loads(exchange(address, target="/sim/v1/report").body)["tokens"]


class Records(Usage, case.Case):
    def metered(self, *backends, pool=None, **config):
        return self.start_daemon(*backends, pool={**QUIET, **(pool or {})}, usage=self.usage(), **config)

    def test_are_cloud_events_with_cost_and_tenant(self):
        daemon = self.metered(self.backend(answer), tenants=TENANTS)
        self.ask(daemon, fields=[("authorization", f"Bearer {KEYS['acme']}"), ("x-request-id", "r-1")])
        self.records(1)
        event = read_records(self.path_of())[0]
        for key, value in (("specversion", "1.0"), ("type", "evenkeel.request"), ("subject", "acme"),
                           ("datacontenttype", "application/json")):
            self.assertEqual(event[key], value)
        self.assertTrue(event["source"].startswith("evenkeel/"))
        self.assertRegex(event["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        data = event["data"]
        self.assertEqual({key: data[key] for key in ("request_id", "tenant", "model", "served_model", "pool", "status")},
                         {"request_id": "r-1", "tenant": "acme", "model": "m", "served_model": "m", "pool": "pool",
                          "status": 200})
        self.assertEqual((data["input_tokens"], data["output_tokens"], data["estimated"], data["aborted"]), (7, 3, False, False))
        self.assertEqual(data["cost"], 7 * 0.6e-6 + 3 * 1.8e-6)
        self.assertEqual(daemon.metric("evenkeel_usage_records_total"), 1)
        self.assertEqual(daemon.metric("evenkeel_usage_dropped_total"), 0)

    def test_of_clients_that_repeat_their_request_id_have_ids_of_their_own(self):
        daemon = self.metered(self.backend(answer))
        for _ in range(3):
            self.ask(daemon, fields=[("x-request-id", "the-same")])
        self.assertEqual({each["request_id"] for each in self.records(3)}, {"the-same"})

    @unittest.skipIf(openai is None, "PyPI's openai is not installed (./dev setup)")
    def test_of_streams_have_the_engines_count_whether_the_client_asked_for_it_or_not(self):
        simulator = self.simulators("--model", "m").addresses[0]
        daemon = self.start_daemon(simulator, pool={"engine": "vllm"}, usage=self.usage())
        client = openai.OpenAI(base_url=f"http://{daemon.address}/v1", api_key="sk-test", timeout=20, max_retries=0)
        self.addCleanup(client.close)

        def ask(**more):
            return client.chat.completions.create(model="m", max_tokens=16, messages=[{"role": "user", "content": "Go."}], **more)

        whole = ask()
        with_usage = list(ask(stream=True, stream_options={"include_usage": True}))
        without = list(ask(stream=True))
        self.assertEqual(with_usage[-1].usage.completion_tokens, 16)
        self.assertTrue(all(each.usage is None for each in without), "the client did not ask")
        for each in self.records(3):
            self.assertEqual((each["input_tokens"], each["output_tokens"], each["estimated"]),
                             (whole.usage.prompt_tokens, 16, False))

    def test_of_an_engine_that_counts_nothing_are_estimated(self):
        daemon = self.metered(self.backend(lambda request: words(request, 5)))
        self.ask(daemon, chat(stream=True))
        record = self.records(1)[0]
        self.assertEqual((record["output_tokens"], record["estimated"], record["aborted"]), (5, True, False))
        self.assertGreater(record["input_tokens"], 3)

    def test_of_clients_that_leave_have_what_they_got(self):
        left = []

        def script(request):
            words(request, 3, end=False)
            request.wait_disconnected()
            left.append(True)

        daemon = self.metered(self.backend(script))
        with Stream.connect(daemon.address) as stream:
            stream.ask("POST", CHAT, JSON, body=chat(stream=True))
            stream.read_until(b"word")
            stream.read_until(b"word")
            stream.read_until(b"word")
        record = self.records(1)[0]
        self.assertEqual((record["status"], record["aborted"], record["estimated"], record["output_tokens"]), (499, True, True, 3))
        self.eventually(lambda: left, "the end of the generation")

    def test_of_a_stream_that_breaks_have_what_came(self):
        def script(request):
            words(request, 4, end=False)
            request.stream.close()

        daemon = self.metered(self.backend(script))
        with Stream.connect(daemon.address) as stream:
            stream.ask("POST", CHAT, JSON, body=chat(stream=True))
            stream.wait_closed()
        record = self.records(1)[0]
        self.assertTrue(record["aborted"])
        self.assertEqual((record["output_tokens"], record["estimated"]), (4, True))

    def test_of_retries_are_one(self):
        def busy(request):
            request.answer(b"busy", status=503)

        daemon = self.metered(self.backend(busy), self.backend(answer), pool={"picker": "round-robin", "engine": "vllm"}, workers=1)
        for _ in range(4):
            self.ask(daemon)
        records = self.records(4)
        self.assertEqual(sum(each["output_tokens"] for each in records), 4 * 3)
        self.assertGreater(sum(each["retries"] for each in records), 0)

    def test_of_errors_have_no_tokens(self):
        daemon = self.metered(self.backend(lambda request: request.answer(b'{"error": "no"}', status=400, fields=JSON)))
        self.ask(daemon, status=400)
        record = self.records(1)[0]
        self.assertEqual((record["status"], record["input_tokens"], record["output_tokens"], record["cost"], record["estimated"]),
                         (400, 0, 0, 0, False))

    def test_are_none_of_requests_that_no_backend_got(self):
        server = self.backend(answer)
        daemon = self.daemon({
            "usage": self.usage(),
            "pools": [{"name": "away", "backends": [refusing_address()], **QUIET}, {"name": "here", "backends": [server.address], **QUIET}],
            "routes": [{"match": {"model": "away"}, "pool": "away"}, {"match": {"model": "m"}, "pool": "here"}]})
        self.ask(daemon, chat(model="away"), status=502)
        self.ask(daemon, chat(model="unknown"), status=404)
        exchange(daemon.address, target="/metrics")
        self.ask(daemon)
        self.assertEqual([each["model"] for each in self.records(1)], ["m"])

    def test_of_compressed_answers_are_counted(self):
        server = self.backend(answer)
        daemon = self.metered(server)
        self.ask(daemon, fields=[("accept-encoding", "gzip")])
        self.assertEqual(self.records(1)[0]["output_tokens"], 3)
        self.assertIsNone(server.exchanges[0].head.field("accept-encoding"))

    def test_name_the_model_that_the_backend_got(self):
        daemon = self.metered(self.backend(answer), pool={"model": "m-70b"})
        self.ask(daemon)
        record = self.records(1)[0]
        self.assertEqual((record["model"], record["served_model"]), ("m", "m-70b"))


class Files(Usage, ReloadCase):
    def metered(self, *backends):
        return self.running(*backends, pool=QUIET, usage=self.usage())

    def test_are_rotated_without_a_loss(self):
        daemon = self.metered(self.backend(answer))
        for number in range(1, 4):
            self.ask(daemon)
            self.path_of().rename(self.path_of(f"usage.{number}"))
            daemon.signal(signal.SIGUSR1)
            self.ask(daemon)
            self.eventually(self.path_of().exists, "a new file")
        self.records(6, self.path_of(), *(self.path_of(f"usage.{number}") for number in range(1, 4)))

    def test_change_by_a_reload(self):
        daemon = self.metered(self.backend(answer))
        self.ask(daemon)
        self.config["usage"]["path"] = str(self.path_of("other.jsonl"))
        self.reload()
        self.ask(daemon)
        self.records(1)
        self.records(1, self.path_of("other.jsonl"))

    def test_go_on_behind_a_torn_line(self):
        self.path_of().write_text('{"specversion":"1.0","id":"half')
        daemon = self.metered(self.backend(answer))
        self.ask(daemon)
        self.records(1)
        self.assertEqual(len(self.path_of().read_text().split("\n")), 3)

    def test_are_kept_while_the_disk_is_full(self):
        folder = self.folder()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("needs root, to mount a small disk")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False)
        path, ballast = pathlib.Path(folder, "usage.jsonl"), pathlib.Path(folder, "ballast")
        daemon = self.running(self.backend(answer), pool=QUIET, usage=self.usage(path=str(path)))
        ballast.write_bytes(b"x" * 56 * 1024)
        for _ in range(50):
            self.ask(daemon)
        daemon.wait_line("usage records cannot be written: No space left on device")
        self.assertLess(len(read_records(path)), 50)
        ballast.unlink()
        daemon.wait_line("usage records are written again")
        self.records(50, path)
        self.assertEqual(daemon.metric("evenkeel_usage_records_total"), 50)
        self.assertEqual(daemon.metric("evenkeel_usage_dropped_total"), 0)
        summed = json.loads(command("usage", str(path), "--json").stdout)
        self.assertEqual(summed["total"]["requests"], 50)
        self.assertEqual(daemon.stop(), 0)

    def test_have_everything_at_the_end(self):
        daemon = self.metered(self.backend(answer))
        for _ in range(20):
            self.ask(daemon)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(len(read_records(self.path_of())), 20)

    def test_must_be_writable(self):
        self.metered(self.backend(answer))
        self.config["usage"]["path"] = str(self.path_of("no/usage.jsonl"))
        self.assertIn("usage.path", json.dumps(self.refused()))


class Upgrades(Usage, UpgradeCase):
    def test_lose_and_repeat_nothing(self):
        daemon = self.start(self.backend(answer), pool=QUIET, usage=self.usage())
        with Stream.connect(daemon.address) as kept:
            asked = 0
            for _ in range(2):
                for _ in range(5):
                    self.ask(daemon)
                    asked += 1
                kept_answer = kept.exchange("POST", CHAT, JSON, chat()) if asked == 5 else None
                asked += kept_answer is not None
                self.upgrade()
        self.ask(daemon)
        self.records(asked + 1)

    def test_are_how_records_are_turned_on(self):
        daemon = self.start(self.backend(answer), pool=QUIET)
        self.ask(daemon)
        self.config["usage"] = self.usage()
        self.write()
        daemon.signal(signal.SIGHUP)
        daemon.wait_line("upgrade: process (\\d+) has taken over")
        self.main = int(daemon.wait_line("upgrade: process (\\d+) has taken over")[1])
        self.eventually(lambda: daemon.ask_admin("/readyz").status == 200, "a ready process")
        self.ask(daemon)
        self.records(1)


class Sums(Usage, case.Case):
    def test_are_by_tenant_and_model(self):
        daemon = self.start_daemon(self.backend(answer), pool=QUIET, usage=self.usage(), tenants=TENANTS)
        for tenant in ("acme", "acme", "beta"):
            self.ask(daemon, fields=[("authorization", f"Bearer {KEYS[tenant]}")])
        self.records(3)
        copy = self.path_of("usage.1.gz")
        copy.write_bytes(gzip.compress(self.path_of().read_bytes()))

        ended = command("usage", str(self.path_of()), str(copy), "--by", "tenant,model", "--since", "1h", "--json")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("3 records were there twice", ended.stderr)
        summed = json.loads(ended.stdout)
        self.assertEqual([(row["tenant"], row["model"], row["requests"], row["input_tokens"], row["output_tokens"])
                          for row in summed["rows"]], [("acme", "m", 2, 14, 6), ("beta", "m", 1, 7, 3)])
        self.assertEqual(summed["total"]["requests"], 3)
        self.assertIn('"cost":0.0000288,', ended.stdout, "exact")
        table = command("usage", str(self.path_of()), "--by", "tenant").stdout.split("\n")
        self.assertEqual([line.split()[:2] for line in table[:4]],
                         [["TENANT", "REQUESTS"], ["acme", "2"], ["beta", "1"], ["all", "3"]])
        self.assertEqual(json.loads(command("usage", str(copy), "--until", "1h", "--json").stdout)["total"]["requests"], 0)

    def test_say_what_cannot_be_read(self):
        self.path_of().write_text("torn\n")
        ended = command("usage", str(self.path_of()), str(self.path_of("none")), "--json")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("1 lines are no whole records", ended.stderr)
        self.assertIn("none: No such file", ended.stderr)
        self.assertEqual(command("usage", "x", "--by", "weather").returncode, 2)
        self.assertEqual(command("usage", "x", "--since", "soon").returncode, 2)


class Bills(Usage, case.Case):
    """The sum of the records is what the simulators have counted."""

    CLIENTS, OUTPUT = 4, 12  # at a time; tokens of each answer

    def load(self, daemon, tenant, requests):
        return subprocess.Popen(
            [BINARY, "load", f"http://{daemon.address}", "--model", "m", "--concurrency", str(self.CLIENTS), "--requests",
             str(requests), "--prompt-tokens", "8..64", "--output-tokens", str(self.OUTPUT), "--stream", "--json", "--header",
             f"authorization: Bearer {KEYS[tenant]}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def ended(self, load):
        out, _ = load.communicate(timeout=120)
        return json.loads(out)

    def metered(self, *simulators, **more):
        return self.start_daemon(*(each.addresses[0] for each in simulators), usage=self.usage(), tenants=TENANTS,
                                 pool={"engine": "vllm", "retry": {"attempts": 3}}, **more)

    def sums(self):
        ended = command("usage", str(self.path_of()), "--by", "tenant", "--json")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        summed = json.loads(ended.stdout)
        return {row["tenant"]: row for row in summed["rows"]}, summed["total"]

    def test_of_a_day_without_trouble_is_exact(self):
        simulators = [self.simulators("--model", "m") for _ in range(2)]
        daemon = self.metered(*simulators)
        loads = {tenant: self.load(daemon, tenant, 150) for tenant in KEYS}
        reports = {tenant: self.ended(load) for tenant, load in loads.items()}
        self.records(300)

        by_tenant, total = self.sums()
        counted = [report(each.addresses[0]) for each in simulators]
        for tenant, loaded in reports.items():
            self.assertEqual(loaded["requests"]["succeeded"], 150)
            self.assertEqual(by_tenant[tenant]["output_tokens"], loaded["tokens"]["output"])
        self.assertEqual(total["output_tokens"], sum(each["generated"] for each in counted))
        self.assertEqual(total["input_tokens"], sum(each["prompt"] for each in counted))
        self.assertEqual(total["estimated_ratio"], 0)

    def test_survives_the_death_of_a_backend(self):
        dying, living = (self.simulators("--model", "m", speed=5) for _ in range(2))
        daemon = self.metered(dying, living)
        load = self.load(daemon, "acme", 60)
        self.eventually(lambda: report(dying.addresses[0])["generated"] > 5 * self.OUTPUT, "work at the backend")
        counted = report(dying.addresses[0])
        dying.kill()
        loaded = self.ended(load)
        daemon.wait_at_rest()
        self.eventually(lambda: len(read_records(self.path_of())) == loaded["requests"]["started"], "a record for each request")

        _, total = self.sums()
        output = counted["generated"] + report(living.addresses[0])["generated"]
        # What was in flight at the kill: generated since the report, or before it and not passed on.
        self.assertLessEqual(abs(total["output_tokens"] - output), 2 * self.CLIENTS * self.OUTPUT)
        self.assertEqual(sum(each["data"]["aborted"] for each in read_records(self.path_of())),
                         loaded["requests"]["failed"])

    def test_survives_the_death_of_the_daemon(self):
        simulator = self.simulators("--model", "m")
        daemon = self.metered(simulator)
        load = self.load(daemon, "acme", 100_000)
        self.eventually(lambda: len(read_records(self.path_of())) > 100, "records")
        written = daemon.metric("evenkeel_usage_records_total")
        daemon.kill()
        load.kill()
        load.communicate()

        _, total = self.sums()
        self.assertGreaterEqual(total["requests"], written)
        whole = sum(not each["data"]["aborted"] for each in read_records(self.path_of()))
        self.assertEqual(total["output_tokens"] if whole == total["requests"] else whole * self.OUTPUT, whole * self.OUTPUT)
        again = self.metered(simulator)
        self.assertEqual(self.ended(self.load(again, "beta", 20))["requests"]["succeeded"], 20)
        self.eventually(lambda: self.sums()[0].get("beta", {}).get("requests") == 20, "the records of the next process")
        self.assertEqual(self.sums()[1]["requests"], total["requests"] + 20)


if __name__ == "__main__":
    case.main()
