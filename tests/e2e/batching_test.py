"""Batching: requests for embeddings, and KServe's, that come while a backend works at others go to it as one."""

import hashlib
import json
import pathlib
import shutil
import subprocess
import threading
import time
import unittest
import zlib

import case
from ports import refusing_address
from reloading import ReloadCase
from stream import PATIENCE, Stream, exchange

try:
    import openai
except ImportError:
    openai = None

EMBEDDINGS = "/v1/embeddings"
INFER = "/v2/models/m/infer"
JSON = [("content-type", "application/json")]
QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
KEYS = {"acme": "sk-acme-4711", "beta": "sk-beta-0815"}
TENANTS = [{"name": name, "keys_sha256": [hashlib.sha256(key.encode()).hexdigest()]} for name, key in KEYS.items()]
LONG = "60s"  # never over in a test


def asks(text, **more):
    return json.dumps({"model": "m", "input": text, **more}).encode()


def inputs_of(body):
    """The inputs of a request as a list."""
    given = json.loads(body)["input"]
    is_list = isinstance(given, list) and not (given and isinstance(given[0], int))
    return given if is_list else [given]


def vector_of(value):
    """Another one for each input."""
    return [zlib.crc32(json.dumps(value).encode()) / 1e9, -1.5e-7]


def tokens_of(value):
    return len(value)  # a token is a letter


class Embedder:
    """A scripted server. It holds its answers while the test wants it to, and refuses inputs that say so."""

    def __init__(self, test, model="m"):
        self.model = model
        self.bodies = []
        self.heads = []
        self.left = 0
        self.fields = []
        self.status = 200
        self.breaks = False
        self.max_inputs = 1000
        self._open = threading.Event()
        self._open.set()
        self._lock = threading.Lock()
        self.server = test.backend(self._serve)
        self.address = self.server.address
        test.addCleanup(self._open.set)

    def hold(self):
        self._open.clear()

    def release(self):
        self._open.set()

    @property
    def inputs(self):
        """Those of each request that came."""
        return [inputs_of(body) for body in self.bodies]

    def _serve(self, request):
        with self._lock:
            self.bodies.append(request.body)
            self.heads.append(request)
        if not self._open.is_set():
            request.stream.socket.setblocking(False)
            try:
                while not self._open.wait(0.01):
                    if self._has_left(request):
                        self.left += 1
                        return
            finally:
                request.stream.socket.settimeout(PATIENCE)
        inputs = inputs_of(request.body)
        if self.breaks:
            return request.stream.close()
        bad = [each for each in inputs if "bad" in each]
        if bad or len(inputs) > self.max_inputs:
            error = {"error": {"message": f"refused {bad[0] if bad else len(inputs)}"}}
            return request.answer(json.dumps(error).encode(), 400, JSON, phrase="Bad Request")
        if self.status != 200:
            return request.answer(b'{"error": {"message": "failed"}}', self.status, [*JSON, *self.fields])
        data = [{"object": "embedding", "index": i, "embedding": vector_of(each)} for i, each in enumerate(inputs)]
        tokens = sum(tokens_of(each) for each in inputs)
        answer = {"object": "list", "data": data, "model": self.model, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
        request.answer(json.dumps(answer).encode(), 200, [*JSON, *self.fields])

    @staticmethod
    def _has_left(request):
        try:
            return request.stream.socket.recv(1) == b""
        except BlockingIOError:
            return False


class Batched(case.Case):
    def batching(self, *backends, batching=None, pool=None, **config):
        pool = {**QUIET, "batching": {"max_wait": "10s", **(batching or {})}, **(pool or {})}
        return self.start_daemon(*backends, pool=pool, workers=1, **config)

    def send(self, daemon, body, fields=(), path=EMBEDDINGS, in_flight=None):
        """A request whose answer is not read yet. It has come to the pool then; `in_flight`: which it is."""
        stream = Stream.connect(daemon.address)
        self.addCleanup(stream.close)
        stream.ask("POST", path, [*JSON, *fields], body=body)
        if in_flight is not None:
            self.wait_for(daemon, in_flight)
        return stream

    def wait_for(self, daemon, count):
        self.eventually(lambda: daemon.metric("evenkeel_requests_in_flight", pool="pool") == count, f"{count} in flight")

    def send_all(self, daemon, server, bodies, fields=()):
        """A request that the server has, and those that come meanwhile, one after another."""
        server.hold()
        streams = [self.send(daemon, asks("first"), fields)]
        self.eventually(lambda: len(server.bodies) >= 1, "the first one at the server")
        return streams + [self.send(daemon, body, fields, in_flight=number) for number, body in enumerate(bodies, 2)]

    def embedded(self, stream, *inputs, model="m"):
        """Checks that the answer is that to these inputs."""
        got = stream.read_response()
        self.assertEqual(got.status, 200, got.body)
        answer = json.loads(got.body)
        self.assertEqual([each["index"] for each in answer["data"]], list(range(len(inputs))))
        self.assertEqual([each["embedding"] for each in answer["data"]], [vector_of(each) for each in inputs])
        self.assertEqual(answer["model"], model)
        return answer

    def batches(self, daemon):
        return {reason: int(daemon.metric("evenkeel_batches_total", pool="pool", reason=reason))
                for reason in ("idle", "size", "wait")}


class Batches(Batched):
    def test_a_lone_request_passes_as_it_is(self):
        server = Embedder(self)
        daemon = self.batching(server, batching={"max_wait": "10s"})
        body = b'{ "input":"one" , "model" : "m"}'
        began = time.monotonic()
        for number in range(5):
            self.embedded(self.send(daemon, body), "one")
        self.assert_within(time.monotonic() - began, 5, "it has waited for others")
        self.assertEqual(server.bodies, [body] * 5)
        self.assertEqual(self.batches(daemon), {"idle": 5, "size": 0, "wait": 0})

    def test_requests_that_come_while_another_is_in_flight_go_as_one_when_it_has_ended(self):
        server = Embedder(self)
        daemon = self.batching(server)
        streams = self.send_all(daemon, server, [asks("two"), asks(["three", "four"]), asks(["five"])])
        server.release()
        for stream, inputs in zip(streams, (["first"], ["two"], ["three", "four"], ["five"])):
            self.embedded(stream, *inputs)
        self.assertEqual(server.inputs, [["first"], ["two", "three", "four", "five"]])
        self.assertEqual(self.batches(daemon), {"idle": 2, "size": 0, "wait": 0})
        self.assertEqual(daemon.metric("evenkeel_batched_requests_total", pool="pool"), 4)
        self.assertEqual(daemon.metric("evenkeel_batched_inputs_total", pool="pool"), 5)

    def test_a_batch_that_is_full_goes_at_once(self):
        server = Embedder(self)
        daemon = self.batching(server, batching={"max_size": 3})
        streams = self.send_all(daemon, server, [asks("a"), asks("b"), asks("c")])
        self.eventually(lambda: len(server.bodies) == 2, "the batch at the server")
        server.release()
        for stream, text in zip(streams, ("first", "a", "b", "c")):
            self.embedded(stream, text)
        self.assertEqual(self.batches(daemon), {"idle": 1, "size": 1, "wait": 0})

    def test_a_batch_goes_when_its_first_request_has_waited_long_enough(self):
        server = Embedder(self)
        daemon = self.batching(server, batching={"max_wait": "50ms"})
        server.hold()
        streams = [self.send(daemon, asks(text)) for text in ("first", "a", "b")]
        self.eventually(lambda: sum(map(len, server.inputs)) == 3, "all at the server, of which it answers none")
        server.release()
        for stream, text in zip(streams, ("first", "a", "b")):
            self.embedded(stream, text)
        self.assertGreaterEqual(self.batches(daemon)["wait"], 1)

    def test_long_inputs_go_with_long_ones(self):
        server = Embedder(self)
        daemon = self.batching(server, batching={"max_tokens": 1000})
        shorts, longs, longest = ["1" * 40, "2" * 40], ["3" * 800, "4" * 800], "5" * 1200  # a token is 4 bytes
        texts = [*shorts, *longs, longest]
        streams = self.send_all(daemon, server, [asks(text) for text in texts])
        self.eventually(lambda: len(server.bodies) == 2, "three of them, which have 900 tokens with padding, at the server")
        server.release()
        for stream, text in zip(streams, ["first", *texts]):
            self.embedded(stream, text)
        self.assertEqual(server.inputs[1:], [[*longs, longest], shorts])

    def test_what_differs_in_more_than_its_input_is_not_joined(self):
        server = Embedder(self)
        daemon = self.batching(server)
        others = [asks("a", dimensions=3), asks("b", dimensions=4), asks("c", user="u"), asks("d", encoding_format="float")]
        server.hold()
        streams = [self.send(daemon, body) for body in others]
        self.eventually(lambda: len(server.bodies) == 4, "each at the server by itself")
        more = [self.send(daemon, asks("a2", dimensions=3), in_flight=5), self.send(daemon, asks("b2", dimensions=4), in_flight=6)]
        server.release()
        for stream, text in zip(streams + more, ("a", "b", "c", "d", "a2", "b2")):
            self.embedded(stream, text)
        self.assertEqual(sorted(map(len, server.inputs)), [1] * 6)

    def test_what_is_not_understood_passes_as_it_is(self):
        server = Embedder(self)
        daemon = self.batching(server, batching={"max_size": 4})
        server.hold()
        streams = [self.send(daemon, asks("first"))]
        self.eventually(lambda: len(server.bodies) == 1, "the first one")
        passing = [asks([]), asks(["a"] * 5), b'{"model": "m", "input": ["x"], "input": ["x"]}', asks("y" * 1_100_000)]
        streams += [self.send(daemon, body) for body in passing]
        streams += [self.send(daemon, asks("z"), [("idempotency-key", "7")])]
        self.eventually(lambda: len(server.bodies) == 6, "all at the server")
        server.release()
        for stream in streams:
            self.assertEqual(stream.read_response().status, 200)

    def test_names_of_models_are_those_of_each_client(self):
        server = Embedder(self, model="served")
        daemon = self.batching(server, pool={"model": "served"})
        streams = self.send_all(daemon, server, [json.dumps({"model": name, "input": name}).encode() for name in ("a", "bb", "m")])
        server.release()
        self.embedded(streams[0], "first", model="m")
        for stream, name in zip(streams[1:], ("a", "bb", "m")):
            self.embedded(stream, name, model=name)
        self.assertEqual(server.inputs, [["first"], ["a", "bb", "m"]])
        self.assertEqual([json.loads(body)["model"] for body in server.bodies], ["served", "served"])

    def test_each_request_is_billed_by_itself_and_once(self):
        server = Embedder(self)
        path = pathlib.Path(self.folder(), "usage.jsonl")
        tenant = {**TENANTS[0], "limits": {"requests": "100/day", "tokens": "100000/day"}}
        daemon = self.batching(server, usage={"path": str(path), "prices": {"m": {"input": 1, "output": 2}}}, tenants=[tenant])
        key = [("authorization", f"Bearer {KEYS['acme']}")]
        streams = self.send_all(daemon, server, [asks("a" * 30), asks(["b" * 60, "c" * 90])], key)
        server.release()
        usage = [self.embedded(stream, *inputs)["usage"]
                 for stream, inputs in zip(streams, (["first"], ["a" * 30], ["b" * 60, "c" * 90]))]
        self.assertEqual([each["prompt_tokens"] for each in usage][0], 5)
        self.assertEqual(sum(each["total_tokens"] for each in usage), 5 + 180)
        self.assertAlmostEqual(usage[1]["prompt_tokens"], 30, delta=5)
        records = self.eventually(
            lambda: len(lines := path.read_text().splitlines()) == 3 and [json.loads(line)["data"] for line in lines], "3 records")
        billed = sorted(each["input_tokens"] for each in records)
        self.assertEqual(billed, sorted(each["prompt_tokens"] for each in usage))

        def used():
            return {each["unit"]: each["used"] for each in daemon.api("tenants")[0]["limits"]}

        self.eventually(lambda: used() == {"requests": 3, "tokens": 185}, f"the tokens of all: {used()}")
        self.assertEqual(daemon.metric("evenkeel_tokens_total", pool="pool", model="m", direction="input"), 185)
        lines = daemon.wait_access(3)
        self.assertEqual(sorted(each["prompt_tokens"] for each in lines), billed)
        self.assertEqual({each["backend"] for each in lines}, {server.address})
        self.assertEqual(len({each["request_id"] for each in lines}), 3)

    def test_tenants_and_credentials_are_never_joined(self):
        server = Embedder(self)
        daemon = self.batching(server, tenants=TENANTS)
        server.hold()
        acme, beta = ([("authorization", f"Bearer {KEYS[name]}")] for name in KEYS)
        streams = [self.send(daemon, asks("a"), acme), self.send(daemon, asks("b"), beta)]
        self.eventually(lambda: len(server.bodies) == 2, "both at the server")
        more = []
        for number in range(3):
            more.append(self.send(daemon, asks(f"a{number}"), acme, in_flight=len(more) + 3))
            more.append(self.send(daemon, asks(f"b{number}"), beta, in_flight=len(more) + 3))
        server.release()
        for stream, text in zip(streams + more, ("a", "b", "a0", "b0", "a1", "b1", "a2", "b2")):
            self.embedded(stream, text)
        self.assertEqual(sorted(server.inputs), [["a"], ["a0", "a1", "a2"], ["b"], ["b0", "b1", "b2"]])
        self.assertEqual({(len(set(each)), each[0][0]) for each in server.inputs}, {(1, "a"), (1, "b"), (3, "a"), (3, "b")})

    def test_fields_of_the_answer_are_those_of_the_backend(self):
        server = Embedder(self)
        server.fields = [("x-served-by", "gpu-1"), ("set-cookie", "a=b"), ("etag", '"all"')]
        daemon = self.batching(server)
        streams = self.send_all(daemon, server, [asks("a"), asks("b")])
        server.release()
        answers = [stream.read_response() for stream in streams[1:]]
        self.assertEqual([each.field("x-served-by") for each in answers], ["gpu-1"] * 2)
        self.assertEqual([each.field("set-cookie") for each in answers], ["a=b", None])
        self.assertEqual([each.field("etag") for each in answers], [None, None], "it is of other bytes")

    def test_cached_answers_are_those_of_each_request(self):
        server = Embedder(self)
        daemon = self.batching(server, pool={"cache": {}})
        streams = self.send_all(daemon, server, [asks("a"), asks("b")])
        server.release()
        for stream, text in zip(streams, ("first", "a", "b")):
            self.embedded(stream, text)
        for text in ("a", "b"):
            got = exchange(daemon.address, "POST", EMBEDDINGS, JSON, asks(text))
            self.assertEqual(got.field("x-evenkeel-cache"), "hit")
            self.assertEqual(json.loads(got.body)["data"][0]["embedding"], vector_of(text))


class Failures(Batched):
    def test_an_input_that_is_refused_spoils_no_other(self):
        server = Embedder(self)
        daemon = self.batching(server)
        streams = self.send_all(daemon, server, [asks("a"), asks("bad one"), asks("c")])
        server.release()
        self.embedded(streams[0], "first")
        self.embedded(streams[1], "a")
        got = streams[2].read_response()
        self.assertEqual((got.status, json.loads(got.body)["error"]["message"]), (400, "refused bad one"))
        self.embedded(streams[3], "c")
        self.assertEqual(sorted(server.inputs), [["a"], ["a", "bad one", "c"], ["bad one"], ["c"], ["first"]])
        self.assertEqual(daemon.metric("evenkeel_batch_splits_total", pool="pool"), 3)

    def test_a_server_that_takes_fewer_inputs_gets_them_one_by_one(self):
        server = Embedder(self)
        server.max_inputs = 2
        daemon = self.batching(server)
        streams = self.send_all(daemon, server, [asks("a"), asks("b"), asks("c")])
        server.release()
        for stream, text in zip(streams, ("first", "a", "b", "c")):
            self.embedded(stream, text)

    def test_errors_of_the_server_are_those_of_all(self):
        for status in (429, 500, 503):
            server = Embedder(self)
            daemon = self.batching(server, pool={"retry": {"attempts": 1}})
            streams = self.send_all(daemon, server, [asks("a"), asks("b")])
            server.status = status
            server.release()
            answers = [stream.read_response() for stream in streams]
            self.assertEqual([each.status for each in answers], [status] * 3)
            self.assertEqual({each.body for each in answers}, {b'{"error": {"message": "failed"}}'})
            self.assertEqual(len(server.bodies), 2)

    def test_a_broken_connection_is_an_error_of_all(self):
        server = Embedder(self)
        daemon = self.batching(server)
        streams = self.send_all(daemon, server, [asks("a"), asks("b")])
        server.breaks = True
        server.release()
        answers = [stream.read_response() for stream in streams]
        self.assertEqual([(each.status, each.field("x-evenkeel-reason")) for each in answers], [(502, "backend_closed")] * 3)

    def test_a_batch_goes_to_another_backend_if_one_cannot_be_connected(self):
        server = Embedder(self)
        daemon = self.batching(refusing_address(), server, batching={"max_size": 2})
        for number in range(4):
            streams = [self.send(daemon, asks(f"{number}{text}")) for text in "abcd"]
            for stream, text in zip(streams, "abcd"):
                self.embedded(stream, f"{number}{text}")

    def test_a_fallback_takes_each_request(self):
        server = Embedder(self)
        first = {"name": "pool", "backends": [refusing_address()], "batching": {}, "fallback": "second", **QUIET}
        second = {"name": "second", "backends": [server.address], "batching": {}, **QUIET}
        daemon = self.daemon({"pools": [first, second], "routes": [{"pool": "pool"}], "workers": 1})
        streams = [self.send(daemon, asks(text)) for text in "abcdef"]
        for stream, text in zip(streams, "abcdef"):
            self.embedded(stream, text)

    def test_an_answer_that_cannot_be_taken_apart_is_asked_for_again(self):
        def script(request):
            inputs = inputs_of(request.body)
            data = [{"index": 0, "embedding": vector_of(inputs[0])}]  # whatever it was asked for
            request.answer(json.dumps({"data": data, "model": "m"}).encode(), 200, JSON)

        daemon = self.batching(self.backend(script), batching={"max_size": 3})
        for _ in range(5):
            streams = [self.send(daemon, asks(text)) for text in "abcdefgh"]
            for stream, text in zip(streams, "abcdefgh"):
                self.embedded(stream, text)


class Leaving(Batched):
    def test_a_client_that_leaves_before_its_batch_is_sent_takes_its_input_out(self):
        server = Embedder(self)
        daemon = self.batching(server)
        streams = self.send_all(daemon, server, [asks("a"), asks("gone"), asks("c")])
        streams[2].close()
        self.wait_for(daemon, 3)
        server.release()
        for stream, text in zip([streams[0], streams[1], streams[3]], ("first", "a", "c")):
            self.embedded(stream, text)
        self.assertEqual(server.inputs, [["first"], ["a", "c"]])

    def test_a_client_that_leaves_later_does_not_matter_to_the_others(self):
        server = Embedder(self)
        daemon = self.batching(server, batching={"max_size": 3})
        streams = self.send_all(daemon, server, [asks("a"), asks("gone"), asks("c")])
        self.eventually(lambda: len(server.bodies) == 2, "the batch at the server")
        streams[2].close()
        self.wait_for(daemon, 3)
        server.release()
        for stream, text in zip([streams[0], streams[1], streams[3]], ("first", "a", "c")):
            self.embedded(stream, text)
        lines = daemon.wait_access(4)
        self.assertEqual(sorted(each["status"] for each in lines), [200, 200, 200, 499])

    def test_when_all_have_left_the_backend_stops(self):
        server = Embedder(self)
        daemon = self.batching(server, batching={"max_size": 3})
        streams = self.send_all(daemon, server, [asks("a"), asks("b"), asks("c")])
        self.eventually(lambda: len(server.bodies) == 2, "the batch at the server")
        for stream in streams[1:]:
            stream.close()
        self.eventually(lambda: server.left == 1, "its connection closed")
        server.release()
        self.embedded(streams[0], "first")

    def test_when_all_that_wait_have_left_nothing_is_sent(self):
        server = Embedder(self)
        daemon = self.batching(server)
        streams = self.send_all(daemon, server, [asks("a"), asks("b")])
        for stream in streams[1:]:
            stream.close()
        self.wait_for(daemon, 1)
        server.release()
        self.embedded(streams[0], "first")
        self.embedded(self.send(daemon, asks("next")), "next")
        self.assertEqual(server.inputs, [["first"], ["next"]])


class Reloads(ReloadCase, Batched):
    def test_what_waits_goes_on(self):
        server, other = Embedder(self), Embedder(self)
        daemon = self.running(server.address, pool={**QUIET, "batching": {"max_wait": "10s"}}, workers=1)
        other.hold()
        streams = self.send_all(daemon, server, [asks("a"), asks("b")])
        self.pool["backends"] = [server.address, other.address]
        self.pool["batching"] = {"max_size": 7}
        self.reload()
        streams.append(self.send(daemon, asks("new"), in_flight=4))
        self.pool["backends"] = [server.address]
        del self.pool["batching"]
        self.reload()
        streams.append(self.send(daemon, asks("newest"), in_flight=5))
        server.release()
        other.release()
        for stream, text in zip(streams, ("first", "a", "b", "new", "newest")):
            self.embedded(stream, text)
        self.assertIn(["a", "b"], server.inputs)


class Tensors(Batched):
    def infers(self, daemon, name, rows, in_flight=None):
        data = [f"{name}{number}" for number in range(rows * 2)]
        body = {"id": name, "inputs": [{"name": "INPUT0", "shape": [rows, 2], "datatype": "BYTES", "data": data}]}
        return self.send(daemon, json.dumps(body).encode(), path=INFER, in_flight=in_flight), data

    def test_requests_are_joined_along_the_first_dimension(self):
        simulator = self.simulators("--engine", "triton", "--model", "m", "--max-batch", "0", "--batch-time", "300ms", speed=1)
        daemon = self.batching(simulator.addresses[0], pool={"engine": "triton"})
        sent = [self.infers(daemon, "first", 1, in_flight=1)]
        sent += [self.infers(daemon, name, rows) for name, rows in (("a", 1), ("b", 3), ("c", 2))]
        for (stream, data), (name, rows) in zip(sent, (("first", 1), ("a", 1), ("b", 3), ("c", 2))):
            got = stream.read_response()
            self.assertEqual(got.status, 200, got.body)
            answer = json.loads(got.body)
            self.assertEqual((answer["id"], answer["outputs"][0]["shape"], answer["outputs"][0]["data"]), (name, [rows, 2], data))
        report = json.loads(exchange(simulator.addresses[0], target="/sim/v1/report").body)
        self.assertLess(report["completed"], 4)
        self.assertEqual(daemon.metric("evenkeel_batched_inputs_total", pool="pool"), 7)


class Clients(Batched):
    @unittest.skipIf(openai is None, "PyPI's openai is not installed (./dev setup)")
    def test_clients_of_openai_get_exactly_their_own_vectors(self):
        simulator = self.simulators("--model", "m", "--batch-embeddings", "--max-batch", "0", speed=1)
        daemon = self.batching(simulator.addresses[0], batching={"max_wait": "5ms"})
        given = ["a text", ["two", "texts with more words"], [1, 2, 3], [[4, 5], [6]], ["ümläut \n \"quoted\""], "x" * 500]

        def ask(address, number):
            with openai.OpenAI(base_url=f"http://{address}/v1", api_key="sk-test", timeout=30, max_retries=0) as client:
                answers = []
                for each in given[number % 6:] + given[:number % 6]:
                    for form in ("float", "base64"):
                        answer = client.embeddings.create(model="m", input=each, encoding_format=form)
                        answers.append((json.dumps(each), form, [(item.index, item.embedding) for item in answer.data],
                                        answer.model))
                return sorted(answers, key=lambda each: each[:2])

        wanted = ask(simulator.addresses[0], 0)
        clients = [self.spawn(lambda number=number: ask(daemon.address, number)) for number in range(12)]
        for client in clients:
            self.assertEqual(client.join(), wanted)
        requests = daemon.metric("evenkeel_batched_requests_total", pool="pool")
        self.assertEqual(requests, 12 * 12)
        self.assertLess(sum(self.batches(daemon).values()), requests, "some have gone together")
        self.assertEqual(daemon.metric("evenkeel_batch_splits_total", pool="pool"), 0)

    @unittest.skipUnless(shutil.which("curl"), "no curl here")
    def test_curl(self):
        server = Embedder(self)
        daemon = self.batching(server)
        server.hold()
        texts = [f"text {number}" for number in range(5)]
        running = [subprocess.Popen(["curl", "-sS", "--max-time", "30", f"http://{daemon.address}{EMBEDDINGS}", "-H",
                                     "content-type: application/json", "-d", asks(text)], stdout=subprocess.PIPE) for text in texts]
        self.wait_for(daemon, 5)
        server.release()
        for process, text in zip(running, texts):
            answer = json.loads(process.communicate()[0])
            self.assertEqual(answer["data"], [{"object": "embedding", "index": 0, "embedding": vector_of(text)}])
        self.assertEqual(len(server.bodies), 2)


class Throughput(Batched):
    CLIENTS = 64

    def rate(self, address, seconds=1.5):
        """Requests in a second that clients get answered, each of which sends its next one after an answer."""
        ends = time.monotonic() + seconds
        counts = [0] * self.CLIENTS

        def ask(number):
            with Stream.connect(address) as stream:
                while time.monotonic() < ends:
                    got = stream.exchange("POST", EMBEDDINGS, JSON, asks(f"text of {number}, {counts[number]}"))
                    assert got.status == 200, got.body
                    counts[number] += 1

        clients = [self.spawn(lambda number=number: ask(number)) for number in range(self.CLIENTS)]
        for client in clients:
            client.join()
        return sum(counts) / (time.monotonic() - ends + seconds)

    def test_a_server_that_does_not_batch_answers_at_least_three_times_as_many(self):
        simulator = self.simulators("--model", "m", "--batch-embeddings", "--max-batch", "0", "--batch-time", "50ms", "--item-time",
                                    "500us", speed=1)
        plain = self.start_daemon(simulator.addresses[0], pool=QUIET, workers=1)
        alone = self.rate(plain.address)
        batched = self.rate(self.batching(simulator.addresses[0], batching={"max_wait": "100ms"}).address)
        print(f"\n{alone:.0f} requests/s one by one, {batched:.0f} in batches", end=" ")
        self.assertGreater(batched, 3 * alone)


if __name__ == "__main__":
    case.main()
