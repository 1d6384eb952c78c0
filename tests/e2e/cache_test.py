"""Answers asked for before: identical requests in flight share one generation, and those to come get the answer that is kept."""

import hashlib
import json
import pathlib
import select
import threading
import unittest

import case
from ports import refusing_address
from process import command
from reloading import ReloadCase
from stream import Stream, exchange

try:
    import openai
except ImportError:
    openai = None

CHAT = "/v1/chat/completions"
EMBEDDINGS = "/v1/embeddings"
JSON = [("content-type", "application/json")]
QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
KEYS = {"acme": "sk-acme-4711", "beta": "sk-beta-0815"}
TENANTS = [{"name": name, "keys_sha256": [hashlib.sha256(key.encode()).hexdigest()]} for name, key in KEYS.items()]


def chat(**more):
    return json.dumps({"model": "m", "temperature": 0, "messages": [{"role": "user", "content": "Count."}], **more}).encode()


def embedding(text="a text"):
    return json.dumps({"model": "m", "input": text}).encode()


def bearer(tenant):
    return ("authorization", f"Bearer {KEYS[tenant]}")


def event(text, finish="null"):
    return f'data: {{"choices": [{{"index": 0, "delta": {{"content": "{text}"}}, "finish_reason": {finish}}}]}}\n\n'.encode()


class Counting:
    """A script that numbers its answers."""

    def __init__(self, fields=(), status=200, finish="stop"):
        self.fields = list(fields)
        self.status = status
        self.finish = finish
        self.count = 0

    def __call__(self, request):
        self.count += 1
        choice = {"index": 0, "message": {"role": "assistant", "content": "1"}, "finish_reason": self.finish}
        model = json.loads(request.body).get("model")
        body = {"answer": self.count, "model": model, "choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
        request.answer(json.dumps(body).encode(), self.status, [*JSON, *self.fields])


class Told:
    """A script of a stream whose words the test tells, one at a time."""

    def __init__(self):
        self.begun = 0
        self.left = 0
        self._words = []
        self._told = threading.Condition()

    def tell(self, word):
        with self._told:
            self._words.append(word)
            self._told.notify_all()

    def __call__(self, request):
        self.begun += 1
        request.begin_chunks([("content-type", "text/event-stream")])
        at = 0
        while True:
            with self._told:
                if not self._told.wait_for(lambda: len(self._words) > at, timeout=0.02):
                    if select.select([request.stream.socket], [], [], 0)[0]:  # it has sent all of its request
                        self.left += 1
                        return
                    continue
                word = self._words[at]
            at += 1
            if word is None:
                request.chunk(event("", '"stop"') + b"data: [DONE]\n\n")
                request.end_chunks()
                return
            request.chunk(event(word))


class Cached(case.Case):
    def cached(self, *backends, pool=None, **config):
        return self.start_daemon(*backends, pool={**QUIET, "cache": {}, **(pool or {})}, **config)

    def ask(self, daemon, body=None, fields=(), path=CHAT):
        """The number of the answer, and where it came from."""
        got = exchange(daemon.address, "POST", path, [*JSON, *fields], body or chat())
        self.assertEqual(got.status, 200, got.body)
        return json.loads(got.body)["answer"], got.field("x-evenkeel-cache")


class Kept(Cached):
    def test_answers_are_given_to_identical_requests_of_any_worker(self):
        script = Counting()
        daemon = self.cached(self.backend(script), workers=2)
        self.assertEqual(self.ask(daemon), (1, "miss"))
        for _ in range(8):
            self.assertEqual(self.ask(daemon), (1, "hit"))
        self.assertEqual(self.ask(daemon, embedding(), path=EMBEDDINGS), (2, "miss"))
        self.assertEqual(self.ask(daemon, embedding(), path=EMBEDDINGS), (2, "hit"))
        self.assertEqual(self.ask(daemon, embedding("another"), path=EMBEDDINGS), (3, "miss"))
        got = exchange(daemon.address, "POST", CHAT, JSON, chat())
        self.assertEqual((got.field("content-type"), got.field("age")), ("application/json", "0"))
        self.assertEqual(daemon.metric("evenkeel_cache_hits_total", pool="pool"), 10)
        self.assertEqual(daemon.metric("evenkeel_cache_misses_total", pool="pool"), 3)
        self.assertEqual(daemon.metric("evenkeel_cache_answers", pool="pool"), 3)
        self.assertGreater(daemon.metric("evenkeel_cache_bytes", pool="pool"), 0)
        lines = [line["cache"] for line in daemon.wait_access(13)]
        self.assertEqual((lines.count("hit"), lines.count("miss")), (10, 3))

    def test_requests_whose_answer_is_another_one_each_time_are_not_looked_for(self):
        script = Counting()
        daemon = self.cached(self.backend(script))
        for body in (chat(temperature=0.7), chat(n=2), chat(temperature=None)):
            self.assertEqual([self.ask(daemon, body)[1] for _ in range(2)], [None, None], body)
        for body in (chat(temperature=1, seed=7), chat(temperature=0.0)):
            self.assertEqual([self.ask(daemon, body)[1] for _ in range(2)], ["miss", "hit"], body)

    def test_only_the_kinds_of_requests_that_the_file_names_are_kept(self):
        daemon = self.cached(self.backend(Counting()), pool={"cache": {"for": ["embeddings"]}})
        self.assertEqual([self.ask(daemon)[1] for _ in range(2)], [None, None])
        self.assertEqual([self.ask(daemon, embedding(), path=EMBEDDINGS)[1] for _ in range(2)], ["miss", "hit"])

    def test_no_store_keeps_nothing_and_no_cache_asks_again(self):
        script = Counting()
        daemon = self.cached(self.backend(script))
        self.assertEqual(self.ask(daemon, fields=[("cache-control", "max-age=0, No-Store")]), (1, None))
        self.assertEqual(self.ask(daemon), (2, "miss"))
        self.assertEqual(self.ask(daemon, fields=[("cache-control", "no-cache")]), (3, "miss"))
        self.assertEqual(self.ask(daemon), (3, "hit"))
        for fields in ([("cache-control", "no-store")], [("cache-control", "private")], [("set-cookie", "a=b")],
                       [("vary", "user-agent")], [("cache-control", "max-age=0")], [("cache-control", "no-cache")]):
            script.fields = fields
            body = chat(user=str(fields))
            self.assertEqual([self.ask(daemon, body)[1] for _ in range(2)], ["miss", "miss"], fields)

    def test_errors_are_not_kept(self):
        script = Counting(status=400)
        daemon = self.cached(self.backend(script))
        for _ in range(2):
            self.assertEqual(exchange(daemon.address, "POST", CHAT, JSON, chat()).status, 400)
        self.assertEqual(script.count, 2)

    def test_texts_that_have_not_ended_are_not_kept(self):
        script = Counting()
        daemon = self.cached(self.backend(script))
        for finish in (None, "abort", "error"):
            script.finish = finish
            body = chat(user=str(finish))
            self.assertEqual([self.ask(daemon, body)[1] for _ in range(2)], ["miss", "miss"], finish)

    def test_documents_that_tell_of_an_error_or_are_cut_off_are_not_kept(self):
        answers = iter([b'{"error": {"message": "none is left"}}', b'{"data": [1', b'{"data": [1]}'])
        server = self.backend(lambda request: request.answer(next(answers), 200, JSON))
        daemon = self.cached(server)
        got = [exchange(daemon.address, "POST", EMBEDDINGS, JSON, embedding()) for _ in range(4)]
        self.assertEqual([each.field("x-evenkeel-cache") for each in got], ["miss", "miss", "miss", "hit"])

    def test_temperatures_are_those_that_backends_get(self):
        daemon = self.cached(self.backend(Counting()), pool={"body": {"set": {"temperature": 1}}})
        self.assertEqual([self.ask(daemon)[1] for _ in range(2)], [None, None])
        daemon = self.cached(self.backend(Counting()), pool={"body": {"set": {"temperature": 0}}})
        self.assertEqual([self.ask(daemon, chat(temperature=0.7))[1] for _ in range(2)], ["miss", "hit"])

    def test_answers_that_must_be_asked_for_anew_are_not_given_beyond_their_time(self):
        server = self.backend(Counting([("cache-control", "max-age=1, must-revalidate")]))
        daemon = self.cached(server)
        self.assertEqual(self.ask(daemon), (1, "miss"))
        server.close()
        self.eventually(lambda: exchange(daemon.address, "POST", CHAT, JSON, chat()).status == 502, "the end of its time")

    def test_tenants_and_credentials_never_get_answers_of_others(self):
        script = Counting()
        daemon = self.cached(self.backend(script), tenants=TENANTS)
        self.assertEqual(self.ask(daemon, fields=[bearer("acme")]), (1, "miss"))
        self.assertEqual(self.ask(daemon, fields=[bearer("beta")]), (2, "miss"))
        self.assertEqual(self.ask(daemon), (3, "miss"))
        self.assertEqual(self.ask(daemon, fields=[("x-api-key", "other")]), (4, "miss"))
        self.assertEqual(self.ask(daemon, fields=[bearer("acme")]), (1, "hit"))
        self.assertEqual(self.ask(daemon, fields=[bearer("beta")]), (2, "hit"))

    def test_answers_serve_while_no_backend_does_and_beyond_their_time(self):
        server = self.backend(Counting())
        daemon = self.cached(server, pool={"cache": {"ttl": "1s", "stale_if_error": "1h"}})
        self.assertEqual(self.ask(daemon), (1, "miss"))
        server.close()
        self.assertEqual(self.ask(daemon), (1, "hit"))
        got = self.eventually(lambda: (answer := self.ask(daemon))[1] == "stale" and answer, "the end of its time", interval=0.1)
        self.assertEqual(got, (1, "stale"))
        self.assertEqual(exchange(daemon.address, "POST", CHAT, JSON, chat(user="new")).status, 502)
        self.assertGreaterEqual(daemon.metric("evenkeel_cache_stale_total", pool="pool"), 1)

    def test_a_fresh_answer_replaces_one_whose_time_is_over(self):
        daemon = self.cached(self.backend(Counting()), pool={"cache": {"ttl": "1s", "stale_if_error": "0s"}})
        self.assertEqual(self.ask(daemon), (1, "miss"))
        self.eventually(lambda: self.ask(daemon) == (2, "miss"), "the end of its time", interval=0.1)
        self.assertEqual(self.ask(daemon), (2, "hit"))

    def test_are_dropped_by_a_purge(self):
        daemon = self.cached(self.backend(Counting()))
        self.ask(daemon)
        self.assertEqual(self.ask(daemon), (1, "hit"))
        purged = daemon.ask_admin("/api/v1/cache/purge?pool=pool", method="POST")
        self.assertEqual(json.loads(purged.body), {"dropped": 1})
        self.assertEqual(self.ask(daemon), (2, "miss"))
        self.assertEqual(daemon.ask_admin("/api/v1/cache/purge?pool=poll", method="POST").status, 404)
        done = command("ctl", "--admin", daemon.admin, "purge")
        self.assertIn("1 kept answers dropped", done.stdout)
        self.assertEqual(self.ask(daemon), (3, "miss"))

    def test_streams_are_kept_once_they_are_complete(self):
        told = Told()
        daemon = self.cached(self.backend(told))
        for word in ("one ", "two ", None):
            told.tell(word)
        first = exchange(daemon.address, "POST", CHAT, JSON, chat(stream=True))
        again = exchange(daemon.address, "POST", CHAT, JSON, chat(stream=True))
        self.assertEqual((first.field("x-evenkeel-cache"), again.field("x-evenkeel-cache")), ("miss", "hit"))
        self.assertEqual(again.body, first.body)
        self.assertIn(b"[DONE]", again.body)
        self.assertEqual(again.field("content-type"), "text/event-stream")
        self.assertEqual(told.begun, 1)

    def test_streams_without_their_last_event_or_with_an_error_are_not_kept(self):
        stop = event("one", '"stop"')
        for number, events in enumerate((stop, stop + b'data: {"error": {"message": "x", "code": 500}}\n\ndata: [DONE]\n\n')):
            def script(request, events=events):
                request.begin_chunks([("content-type", "text/event-stream")])
                request.chunk(events)
                request.end_chunks()

            daemon = self.cached(self.backend(script))
            for _ in range(2):
                got = exchange(daemon.address, "POST", CHAT, JSON, chat(stream=True))
                self.assertEqual(got.field("x-evenkeel-cache"), "miss", number)

    def test_streams_that_break_are_not_kept(self):
        def script(request):
            request.begin_chunks([("content-type", "text/event-stream")])
            request.chunk(event("half "))
            request.stream.close()

        server = self.backend(script)
        daemon = self.cached(server)
        for number in range(2):
            with Stream.connect(daemon.address) as stream:
                stream.ask("POST", CHAT, JSON, body=chat(stream=True))
                stream.wait_closed()
            self.assertEqual(len(server.exchanges), number + 1)

    def test_hits_cost_no_tokens(self):
        path = pathlib.Path(self.folder(), "usage.jsonl")
        daemon = self.cached(self.backend(Counting()), usage={"path": str(path), "prices": {"m": {"input": 1, "output": 2}}},
                             tenants=[{**TENANTS[0], "limits": {"requests": "100/day", "tokens": "100000/day"}}])
        answers = [exchange(daemon.address, "POST", CHAT, [*JSON, bearer("acme")], chat()) for _ in range(3)]
        self.assertEqual([each.field("x-ratelimit-remaining-requests") for each in answers], ["99", "98", "97"])

        def used():
            limits = daemon.api("tenants")[0]["limits"]
            return {each["unit"]: each["used"] for each in limits}

        self.eventually(lambda: used() == {"requests": 3, "tokens": 10}, f"the tokens of one request: {used()}")
        records = self.eventually(
            lambda: len(lines := path.read_text().splitlines()) == 3 and [json.loads(line)["data"] for line in lines], "3 records")
        self.assertEqual(sorted((each.get("cache", ""), each["input_tokens"], each["output_tokens"]) for each in records),
                         [("", 7, 3), ("hit", 0, 0), ("hit", 0, 0)])
        self.assertEqual([each["cost"] for each in records if "cache" in each], [0, 0])
        self.assertEqual(daemon.metric("evenkeel_tokens_total", pool="pool", model="m", direction="output"), 3)

    @unittest.skipIf(openai is None, "PyPI's openai is not installed (./dev setup)")
    def test_clients_of_openai_read_them_as_any_other(self):
        simulator = self.simulators("--model", "m").addresses[0]
        daemon = self.cached(simulator, pool={"engine": "vllm"})
        client = openai.OpenAI(base_url=f"http://{daemon.address}/v1", api_key="sk-test", timeout=20, max_retries=0)
        self.addCleanup(client.close)
        ask = {"model": "m", "max_tokens": 8, "temperature": 0, "messages": [{"role": "user", "content": "Go."}]}
        whole = [client.chat.completions.create(**ask) for _ in range(2)]
        self.assertEqual(whole[0].id, whole[1].id)
        streams = [list(client.chat.completions.create(**ask, stream=True)) for _ in range(2)]
        self.assertEqual(streams[0], streams[1])
        self.assertTrue(all(each.usage is None for each in streams[1]), "the client did not ask")
        with_usage = [list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
                      for _ in range(2)]
        self.assertEqual(with_usage[1][-1].usage.completion_tokens, 8)


class Coalesced(Cached):
    def sharing(self, *backends, pool=None, **config):
        return self.start_daemon(*backends, pool={**QUIET, "coalesce": "deterministic", **(pool or {})}, workers=1, **config)

    def begin(self, daemon, body=None, fields=()):
        stream = Stream.connect(daemon.address)
        self.addCleanup(stream.close)
        stream.ask("POST", CHAT, [*JSON, *fields], body=body or chat(stream=True))
        return stream

    def test_a_hundred_identical_streams_are_one_generation(self):
        simulator = self.simulators("--model", "m", speed=1).addresses[0]
        # Those that come when the stream has ended find it in the cache.
        daemon = self.sharing(simulator, pool={"engine": "vllm", "cache": {}})
        streams = [self.begin(daemon, chat(stream=True, max_tokens=40)) for _ in range(100)]
        answers = [stream.read_response() for stream in streams]
        self.assertEqual(len({each.body for each in answers}), 1)
        sources = [each.field("x-evenkeel-cache") for each in answers]
        self.assertEqual(sources.count("miss"), 1)
        self.assertGreater(sources.count("coalesced"), 0)
        report = json.loads(exchange(simulator, target="/sim/v1/report").body)
        self.assertEqual((report["completed"], report["tokens"]["generated"]), (1, 40))
        self.assertEqual(daemon.metric("evenkeel_coalesced_total", pool="pool"), sources.count("coalesced"))

    def test_a_late_reader_gets_what_was_said_and_goes_on_live(self):
        told = Told()
        daemon = self.sharing(self.backend(told))
        first = self.begin(daemon)
        told.tell("one ")
        first.read_until(b"one ")
        late = self.begin(daemon)
        late.read_until(b"one ")
        told.tell("two ")
        for stream in (first, late):
            stream.read_until(b"two ")
        told.tell(None)
        for stream in (first, late):
            stream.read_until(b"[DONE]")
        self.assertEqual(told.begun, 1)

    def test_the_generation_goes_on_until_the_last_reader_has_left(self):
        told = Told()
        server = self.backend(told)
        daemon = self.sharing(server)
        first, second = self.begin(daemon), self.begin(daemon)
        told.tell("one ")
        for stream in (first, second):
            stream.read_until(b"one ")
        first.close()
        self.eventually(lambda: daemon.metric("evenkeel_requests_in_flight", pool="pool") == 1, "the first has left")
        told.tell("two ")
        second.read_until(b"two ")
        second.close()
        self.eventually(lambda: told.left == 1, "the end of the generation")
        self.eventually(lambda: daemon.api("pools")[0]["in_flight"] == 0, "an idle pool")
        left = {line["cache"]: line["backend"] for line in daemon.wait_access(2)}
        self.assertEqual(left, {"coalesced": None, "miss": server.address}, "the last one counts as the backend's")

    def test_readers_that_wait_for_a_slot_share_it_too(self):
        gate = threading.Event()
        self.addCleanup(gate.set)
        script = Counting()

        def held(request):
            gate.wait(30)
            script(request)

        daemon = self.sharing(self.backend(held), pool={"limits": {"max_in_flight": 1}})
        streams = [self.begin(daemon, chat()) for _ in range(5)]
        self.eventually(lambda: daemon.metric("evenkeel_coalesced_total", pool="pool") == 4, "4 that wait")
        gate.set()
        self.assertEqual({json.loads(stream.read_response().body)["answer"] for stream in streams}, {1})

    def test_an_error_is_told_to_all(self):
        gate = threading.Event()
        self.addCleanup(gate.set)

        def failing(request):
            gate.wait(30)
            request.abort()

        server = self.backend(failing)
        daemon = self.sharing(server)
        streams = [self.begin(daemon, chat()) for _ in range(3)]
        self.eventually(lambda: daemon.metric("evenkeel_coalesced_total", pool="pool") == 2, "2 that wait")
        gate.set()
        self.assertEqual([stream.read_response().status for stream in streams], [502] * 3)
        self.assertEqual(len(server.exchanges), 1)

    def test_tenants_never_share(self):
        told = Told()
        daemon = self.sharing(self.backend(told), tenants=TENANTS)
        streams = [self.begin(daemon, fields=[bearer(tenant)]) for tenant in KEYS]
        told.tell("one ")
        told.tell(None)
        for stream in streams:
            stream.read_until(b"[DONE]")
        self.assertEqual(told.begun, 2)

    def test_others_do_not_wait_for_a_slow_reader(self):
        word = "x" * 60_000
        pieces = 250  # 15 MB, more than is held

        def script(request):
            request.begin_chunks([("content-type", "text/event-stream")])
            for _ in range(pieces):
                request.chunk(event(word))
            request.chunk(event("", '"stop"') + b"data: [DONE]\n\n")
            request.end_chunks()

        told = threading.Event()
        self.addCleanup(told.set)

        def held(request):
            told.wait(30)
            script(request)

        daemon = self.sharing(self.backend(held))
        slow, fast = self.begin(daemon), self.begin(daemon)
        self.eventually(lambda: daemon.metric("evenkeel_coalesced_total", pool="pool") == 1, "two readers")
        told.set()
        self.assertGreater(len(fast.read_response().body), pieces * len(word))
        slow.wait_closed()  # reads what has been sent to it
        lines = daemon.wait_access(2)
        self.assertEqual(sorted(line["reason"] or "" for line in lines), ["", "write_timeout"])

    def test_streams_that_were_shared_are_kept(self):
        told = Told()
        daemon = self.sharing(self.backend(told), pool={"cache": {}})
        streams = [self.begin(daemon) for _ in range(2)]
        told.tell("one ")
        for stream in streams:
            stream.read_until(b"one ")
        told.tell(None)
        for stream in streams:
            stream.read_until(b"\r\n0\r\n\r\n")
        again = exchange(daemon.address, "POST", CHAT, JSON, chat(stream=True))
        self.assertEqual(again.field("x-evenkeel-cache"), "hit")
        self.assertEqual(told.begun, 1)

    def test_one_of_the_readers_is_billed(self):
        path = pathlib.Path(self.folder(), "usage.jsonl")
        gate = threading.Event()
        self.addCleanup(gate.set)
        script = Counting()

        def held(request):
            gate.wait(30)
            script(request)

        daemon = self.sharing(self.backend(held), usage={"path": str(path)})
        streams = [self.begin(daemon, chat()) for _ in range(3)]
        self.eventually(lambda: daemon.metric("evenkeel_coalesced_total", pool="pool") == 2, "2 that wait")
        gate.set()
        for stream in streams:
            stream.read_response()
        records = self.eventually(
            lambda: len(lines := path.read_text().splitlines()) == 3 and [json.loads(line)["data"] for line in lines], "3 records")
        self.assertEqual(sorted((each.get("cache", ""), each["output_tokens"]) for each in records),
                         [("", 3), ("coalesced", 0), ("coalesced", 0)])

    def test_what_another_pool_answers_after_a_shared_failure_is_counted(self):
        path = pathlib.Path(self.folder(), "usage.jsonl")
        script = Counting()
        first = {"name": "first", "backends": [refusing_address()], "coalesce": "deterministic", "fallback": "second", **QUIET}
        second = {"name": "second", "backends": [self.backend(script).address], "model": "served", **QUIET}
        daemon = self.daemon({"pools": [first, second], "routes": [{"pool": "first"}], "usage": {"path": str(path)},
                              "workers": 1})
        got = exchange(daemon.address, "POST", CHAT, JSON, chat())
        self.assertEqual((got.status, got.field("x-evenkeel-fallback")), (200, "second"))
        self.assertEqual(json.loads(got.body)["model"], "m")
        records = self.eventually(lambda: [json.loads(line)["data"] for line in path.read_text().splitlines()], "a record")
        self.assertEqual([(each.get("cache"), each["input_tokens"], each["output_tokens"]) for each in records], [(None, 7, 3)])
        self.assertEqual(daemon.metric("evenkeel_tokens_total", pool="second", model="m", direction="output"), 3)

    def test_the_backend_gets_the_trace_of_the_first(self):
        server = self.backend(Counting())
        daemon = self.sharing(server, tracing={"otlp": f"http://{refusing_address()}"})
        trace = ("traceparent", f"00-{'a' * 32}-{'b' * 16}-00")
        self.assertEqual(exchange(daemon.address, "POST", CHAT, [*JSON, trace], chat()).status, 200)
        _, own, span, _ = server.exchanges[0].head.field("traceparent").split("-")
        self.assertEqual(own, "a" * 32)
        self.assertNotEqual(span, "b" * 16)

    def test_with_all_requests_of_any_temperature_share(self):
        told = Told()
        daemon = self.sharing(self.backend(told), pool={"coalesce": "all"})
        streams = [self.begin(daemon, chat(stream=True, temperature=0.9)) for _ in range(2)]
        told.tell("one ")
        told.tell(None)
        for stream in streams:
            stream.read_until(b"[DONE]")
        self.assertEqual(told.begun, 1)


class Reloaded(ReloadCase):
    def test_answers_outlive_a_reload(self):
        script = Counting()
        daemon = self.running(self.backend(script), pool={**QUIET, "cache": {}})
        for source in ("miss", "hit"):
            self.assertEqual(exchange(daemon.address, "POST", CHAT, JSON, chat()).field("x-evenkeel-cache"), source)
        self.config["pools"][0]["cache"] = {"memory": "64MiB"}
        self.reload()
        self.assertEqual(exchange(daemon.address, "POST", CHAT, JSON, chat()).field("x-evenkeel-cache"), "hit")
        self.config["pools"][0]["body"] = {"set": {"top_p": 0.5}}
        self.reload()
        for source in ("miss", "hit"):
            self.assertEqual(exchange(daemon.address, "POST", CHAT, JSON, chat()).field("x-evenkeel-cache"), source)
        del self.config["pools"][0]["cache"]
        self.reload()
        self.assertIsNone(exchange(daemon.address, "POST", CHAT, JSON, chat()).field("x-evenkeel-cache"))


if __name__ == "__main__":
    case.main()
