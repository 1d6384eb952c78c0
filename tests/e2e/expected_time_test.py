"""`picker: expected-time`: requests to models wait until a server can start them, and go where they cost least."""

import hashlib
import json
import threading
import time
from collections import Counter

import case
from conversations import CHAT, ConversationCase
from http2 import Peer
from kserve_grpc_test import Kserve, needs_client
from ports import refusing_address
from scripted_models import END, LONG, POOL, TOKEN, HeldCase, Model, answer_at_once, prompt
from stream import PATIENCE, Closed, Stream, exchange

try:
    import numpy
except ImportError:
    numpy = None


class Prefixes(ConversationCase):
    def test_conversations_find_theirs(self):
        ours = self.cached_ratio("expected-time")
        scattered = self.cached_ratio("least-connections")

        self.assertGreater(ours, 0.6)  # three of four turns, but for what is new in each
        self.assertGreater(ours, 1.25 * scattered)


class Holding(HeldCase):
    def test_a_long_prompt_waits_for_the_first_token_of_the_one_before_it(self):
        daemon = self.models()
        first = self.send(prompt("first", LONG))
        second = self.hold(prompt("second", LONG))
        head = first.read_head()
        self.assertEqual(head.status, 200)
        self.assertEqual(self.waiting(), 1)  # the head shows nothing of the engine

        self.model.began[0].first_token.set()

        self.eventually(lambda: self.begun() == 2, "the second prompt")
        self.assertEqual(self.waiting(), 0)
        self.assertEqual(daemon.api("pools")[0]["in_flight"], 2)  # the first one still streams
        self.model.release_all()
        self.assertEqual(first.read_body(head).body, TOKEN + TOKEN + END)
        self.assert_served(second)

    def test_the_shortest_of_those_that_wait_goes_first(self):
        self.models()
        first = self.send(prompt("first", LONG))
        streams = [self.hold(prompt(name, size)) for name, size in (("long", LONG), ("longer", 2 * LONG), ("short", 100))]
        self.model.began[0].first_token.set()
        for count in (2, 3, 4):
            self.eventually(lambda count=count: self.begun() == count, f"{count} prompts")
            self.model.began[-1].first_token.set()

        names = [json.loads(each.body)["messages"][0]["content"].split()[0] for each in self.model.began]
        self.assertEqual(names, ["first", "short", "long", "longer"])
        self.model.release_all()
        self.assert_served(first, *streams)

    def test_a_response_that_is_not_streamed_makes_room_when_it_ends(self):
        gate = threading.Event()
        self.addCleanup(gate.set)

        def script(request):
            gate.wait(3 * PATIENCE)
            answer_at_once(request)

        server = self.backend(script)
        daemon = self.running(server, pool=POOL)
        asked = [self.spawn(lambda name=name: exchange(daemon.address, "POST", CHAT, (), prompt(name, LONG, stream=False)))
                 for name in ("one", "two", "three")]
        self.eventually(lambda: (len(server.exchanges), self.waiting()) == (1, 2), "one at the server, two in the queue")

        gate.set()

        self.assertEqual({each.join().status for each in asked}, {200})

    def test_requests_to_no_model_are_not_held(self):
        daemon = self.models()
        first = self.send(prompt("first", LONG))
        second = self.hold(prompt("second", LONG))

        self.assertEqual(exchange(daemon.address, target="/v1/models").status, 200)
        self.assertEqual(exchange(daemon.address, "POST", "/upload", body=b"x" * 100_000).body, b"hello")

        self.assertEqual(self.waiting(), 1)
        self.model.release_all()
        self.assert_served(first, second)

    def test_clients_that_leave_give_up_their_places(self):
        daemon = self.models()
        first = self.send(prompt("first", LONG))
        kept = self.hold(prompt("kept", LONG))
        for number in range(20):
            leaving = self.hold(prompt(f"leaving-{number}", 500))
            leaving.reset() if number % 2 else leaving.close()
            self.eventually(lambda: self.waiting() == 1, "its place to be free")
        with Peer.connect(daemon.address) as peer:
            stream = peer.request("POST", CHAT, body=prompt("over-http2", 500))
            self.eventually(lambda: self.waiting() == 2, "one more in the queue")
            stream.reset()
            self.eventually(lambda: self.waiting() == 1, "its place to be free")

        self.model.began[0].first_token.set()

        self.eventually(lambda: self.begun() == 2, "the prompt that was kept")
        self.model.release_all()
        self.assert_served(first, kept)
        self.assertEqual(self.begun(), 2)

    def test_a_client_that_leaves_its_prompt_unanswered_makes_room(self):
        self.models()
        first = self.send(prompt("first", LONG))
        second = self.hold(prompt("second", LONG))

        first.close()

        self.eventually(lambda: self.begun() == 2, "the second prompt")
        self.model.release_all()
        self.assert_served(second)

    def test_no_backend_has_more_than_its_limit(self):
        self.models(3, pool={"limits": {"max_in_flight": 2}})
        for model in self.models_:
            model.release_all()
        daemon = self.served

        def client(number):
            with Stream.connect(daemon.address) as stream:
                for turn in range(25):
                    answer = stream.exchange("POST", CHAT, (), prompt((number, turn), 50 + 400 * (turn % 5)))
                    assert answer.status == 200, answer.raw

        for each in [self.spawn(lambda number=number: client(number)) for number in range(16)]:
            each.join()
        self.assertEqual(self.begun(), 16 * 25)
        for model in self.models_:
            self.assertLessEqual(model.max_running, 2)
            self.assertGreater(len(model.began), 0)


class Refusing(HeldCase):
    """With `shed`, what would be late is refused."""

    SHED = {"name": "expected-time", "shed": 1}

    def assert_refused(self, stream):
        answer = stream.read_response()
        self.assertEqual((answer.status, answer.reason), (429, "queue_full"), answer.body)
        self.assertGreaterEqual(int(answer.field("retry-after")), 1)

    def test_what_would_be_late_gets_429_and_when_to_come_back(self):
        daemon = self.models(pool={"picker": {**self.SHED, "slo": {"ttft": "200ms"}}})
        first = self.send(prompt("first", LONG))
        began = time.monotonic()

        late = self.ask(prompt("late"))
        self.assert_refused(late)

        self.assertGreater(time.monotonic() - began, 0.15)
        self.eventually(lambda: daemon.metric("evenkeel_errors_total", reason="queue_full") == 1, "the count of refusals")
        self.model.release_all()
        self.assert_served(first)

    def test_the_target_of_a_request_counts_and_a_malformed_one_does_not(self):
        self.models(pool={"picker": {**self.SHED, "slo": {"ttft": "60s"}}})
        first = self.send(prompt("first", LONG))
        patient = [self.hold(prompt(f"patient-{number}"), [("x-slo-ttft-ms", value)]) for number, value in enumerate(
            ("soon", "0", "-5", "1.5", "200ms", "", "99999999999999999999", "60000"))]

        hasty = self.ask(prompt("hasty"), [("X-SLO-TTFT-MS", "200")])
        self.assert_refused(hasty)

        self.assertEqual(self.waiting(), len(patient))
        self.model.release_all()
        self.assert_served(first, *patient)

    def test_a_route_has_its_own_target_and_batch_requests_four_times_as_long(self):
        self.models(pool={"picker": self.SHED}, routes=[
            {"match": {"header": {"x-kind": "hasty"}}, "pool": "pool", "slo": {"ttft": "200ms"}},
            {"match": {"header": {"x-kind": "slow"}}, "pool": "pool", "slo": {"ttft": "60s"}},
            {"pool": "pool", "slo": {"ttft": "1s"}}])
        first = self.send(prompt("first", LONG))
        slow = self.hold(prompt("slow"), [("x-kind", "slow")])
        began = time.monotonic()
        batch = self.hold(prompt("batch"), [("x-kind", "hasty"), ("x-priority", "batch")])
        hasty = self.hold(prompt("hasty"), [("x-kind", "hasty")])

        self.assert_refused(hasty)
        self.assert_refused(batch)

        self.assertGreater(time.monotonic() - began, 4 * 0.2 - 0.1)
        self.assertEqual(self.waiting(), 1)
        self.model.release_all()
        self.assert_served(first, slow)


class Failures(HeldCase):
    def test_a_server_that_fails_leaves_its_requests_to_the_others(self):
        bad = self.backend(lambda request: request.answer(b"{}", status=500, phrase="Internal Server Error"))
        good = [self.backend(lambda request, name=name: answer_at_once(request, name)) for name in ("one", "two")]
        daemon = self.running(bad, refusing_address(), *good, pool={
            **POOL, "engine": "vllm", "outlier": {"max_ejected": "0%"},
            "retry": {"attempts": 4, "budget": "100%", "on": ["5xx"]}})

        def client(number):
            with Stream.connect(daemon.address) as stream:
                answers = [stream.exchange("POST", CHAT, (), prompt((number, turn), 60 + 2000 * (turn % 4),
                                                                    stream=turn % 3 > 0)) for turn in range(25)]
            return [(each.status, each.field("x-server")) for each in answers]

        told = Counter(each for client in [self.spawn(lambda number=number: client(number)) for number in range(8)]
                       for each in client.join())

        self.assertEqual({status for status, _ in told}, {200}, told)
        self.assertEqual({server for _, server in told}, {"one", "two"})
        self.assertGreater(len(bad.exchanges), 0)
        daemon.wait_at_rest()

    def test_streams_that_break_leave_nothing_behind(self):
        def script(request):
            request.begin_chunks([("content-type", "text/event-stream")])
            if len(server.exchanges) % 2:
                request.chunk(TOKEN)
            request.abort()

        server = self.backend(script)
        daemon = self.running(server, pool=POOL)
        for number in range(12):
            stream = self.ask(prompt(number, LONG))
            try:
                stream.read_response()
            except (Closed, ConnectionError):
                pass
        daemon.wait_at_rest()
        self.assertEqual(len(server.exchanges), 12)

    def test_a_reload_that_adds_and_removes_servers_fails_no_request(self):
        servers = [self.simulators("--model", "llama", speed=20) for _ in range(4)]
        addresses = [each.addresses[0] for each in servers]
        daemon = self.running(*addresses[:2], pool=POOL)
        stop = threading.Event()
        self.addCleanup(stop.set)
        served = Counter()

        def client(number):
            with Stream.connect(daemon.address) as stream:
                turn = 0
                while not stop.is_set():
                    turn += 1
                    answer = stream.exchange("POST", CHAT, (), prompt((number, turn), 100 + 4000 * (turn % 5),
                                                                      stream=turn % 4 > 0, tokens=5))
                    assert answer.status == 200, (answer.raw, answer.body)
                    served[number] += 1

        clients = [self.spawn(lambda number=number: client(number)) for number in range(12)]
        for chosen in ((0, 1, 2), (1, 2), (2,), (2, 3), (0, 3), (0, 1, 2, 3), (1,), (1, 2, 3)):
            before = sum(served.values())
            self.pool["backends"] = [addresses[index] for index in chosen]
            self.send_sighup()
            self.eventually(lambda before=before: sum(served.values()) > before + 40, "requests after the reload")
        stop.set()
        for each in clients:
            each.join()
        self.eventually(lambda: len(daemon.api("backends")) == 3, "the backends of the last file")
        daemon.wait_at_rest()


class Sessions(HeldCase):
    def test_a_pinned_session_waits_for_its_own_backend(self):
        daemon = self.models(3, pool={"affinity": {"by": ["header:x-session-id"]}})
        one, other = [("x-session-id", "one")], [("x-session-id", "other")]
        first = self.send(prompt("first", LONG), one)
        home = next(model for model in self.models_ if model.began)

        second = self.hold(prompt("second", LONG), one)  # two other backends are idle
        elsewhere = self.send(prompt("elsewhere", LONG), other)
        self.assertEqual(len(home.began), 1)
        home.began[0].first_token.set()
        self.eventually(lambda: len(home.began) == 2, "its second prompt at the same backend")

        for model in self.models_:
            model.release_all()
        self.assert_served(first, second, elsewhere)
        self.assertEqual(daemon.metric("evenkeel_affinity_requests_total", result="hit"), 1)

    def test_versions_have_their_shares_and_wait_for_their_own_backends(self):
        names = ("v7", "v7", "v8")
        servers = [self.backend(lambda request, name=name: answer_at_once(request, name)) for name in names]
        daemon = self.running(
            *({"address": each.address, "labels": {"version": name}} for each, name in zip(servers, names)), pool=POOL,
            routes=[{"pool": "pool", "split": {"version=v7": 80, "version=v8": 20}}])

        def versions():
            with Stream.connect(daemon.address) as stream:
                return [stream.exchange("POST", CHAT, [("x-session-id", f"user-{number}")], prompt(number)).field("x-server")
                        for number in range(300)]

        first = versions()
        self.assertEqual(versions(), first)
        self.assertAlmostEqual(Counter(first)["v8"] / len(first), 0.2, delta=0.07)
        self.assertTrue(all(each.exchanges for each in servers))

    def test_a_version_that_is_busy_holds_its_own_requests_only(self):
        self.models_ = [Model(self) for _ in range(2)]
        self.running(*({"address": model.address, "labels": {"version": version}}
                       for model, version in zip(self.models_, ("v7", "v8"))), pool=POOL,
                     routes=[{"match": {"header": {"x-try": "next"}}, "pool": "pool", "split": {"version=v8": 1}},
                             {"pool": "pool", "split": {"version=v7": 1}}])
        stable, next_one = self.models_
        streams = [self.send(prompt("busy", LONG), [("x-try", "next")])]
        streams += [self.hold(prompt(f"held-{number}", LONG), [("x-try", "next")]) for number in range(60)]

        stable.release_all()
        for number in range(10):
            self.assert_served(self.ask(prompt(f"stable-{number}")))

        self.assertEqual((len(next_one.began), self.waiting()), (1, 60))
        next_one.release_all()
        self.assert_served(*streams)


class Protocols(HeldCase):
    def test_streams_of_one_http2_connection_are_placed_one_by_one(self):
        daemon = self.models(2)
        with Peer.connect(daemon.address) as peer:
            asked = [peer.request("POST", CHAT, body=prompt(f"prompt-{number}", LONG)) for number in range(5)]
            self.eventually(lambda: (self.begun(), self.waiting()) == (2, 3), "one prompt at each server, three held")
            self.assertEqual(peer.exchange(path="/v1/models").body, b"hello")
            for model in self.models_:
                model.release_all()
            for stream in asked:
                answer = stream.read_response()
                self.assertEqual((answer.status, answer.body), (200, TOKEN + TOKEN + END))
        self.assertTrue(all(model.began for model in self.models_))


@needs_client
class Grpc(Kserve):
    def test_kserve_calls_are_placed(self):
        simulated = self.simulators("--engine", "triton", count=3)
        daemon = self.front(*simulated.addresses, **POOL)
        client = self.through(daemon)
        model = "meta-llama/Llama-3.1-8B-Instruct"
        self.assertTrue(client.is_server_ready())
        for number in range(12):
            item = self.tensor("INPUT0", numpy.full((1, 4), number, numpy.float32), "FP32")
            result = client.infer(model, [item], client_timeout=PATIENCE)
            self.assertEqual(result.as_numpy("OUTPUT0").tolist(), [[number] * 4])
            words = self.tensor("text_input", numpy.array([f"hello {number}".encode()], numpy.object_), "BYTES")
            limit = self.tensor("max_tokens", numpy.array([3], numpy.int32), "INT32")
            result = client.infer(model, [words, limit], client_timeout=PATIENCE)
            self.assertTrue(result.as_numpy("text_output")[0])
        self.eventually(lambda: daemon.metric("evenkeel_grpc_responses_total", grpc_status="0") == 25, "all calls to be counted")


class Fairness(case.Case):
    SECONDS = 6

    def test_a_tenant_that_floods_delays_itself(self):
        servers = self.simulators("--model", "llama", "--preset", "reference", speed=4, count=2)
        daemon = self.start_daemon(*servers.addresses, pool={**POOL, "limits": {"queue": {"size": 1000}}}, tenants=[
            {"name": name, "keys_sha256": [hashlib.sha256(name.encode()).hexdigest()], "weight": weight}
            for name, weight in (("flood", 1), ("light", 2))])
        until = time.monotonic() + self.SECONDS

        def first_tokens(tenant, number, size):
            seconds = []
            with Stream.connect(daemon.address) as stream:
                while time.monotonic() < until:
                    began = time.monotonic()
                    stream.ask("POST", CHAT, [("x-api-key", tenant)], prompt((tenant, number, len(seconds)), size, tokens=4))
                    head = stream.read_head()
                    assert head.status == 200, head.raw
                    received = b""
                    while b'"content"' not in received:
                        received += stream.read_chunk(head)
                    seconds.append(time.monotonic() - began)
                    while stream.read_chunk(head):
                        pass
            return sorted(seconds)

        # Each of the flood's prompts takes about 70 ms of a server, so the 48 clients wait for more than a second.
        flood = [self.spawn(lambda number=number: first_tokens("flood", number, 24_000)) for number in range(48)]
        self.eventually(lambda: daemon.api("pools")[0]["waiting"] > 30, "the flood")
        light = self.spawn(lambda: first_tokens("light", 0, 400)).join()
        flooded = sorted(second for each in flood for second in each.join())

        self.assertGreater(len(light), 5)
        self.assertLess(light[int(0.9 * len(light))], 0.5 * flooded[len(flooded) // 2], (light, flooded))


if __name__ == "__main__":
    case.main()
