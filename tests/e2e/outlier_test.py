"""A backend whose requests fail is ejected, however well it passes its health checks, and returns once it is well."""

import time

import case
from http2 import ENHANCE_YOUR_CALM, INTERNAL_ERROR, NO_ERROR, PROTOCOL_ERROR, goaway
from stream import Closed, Stream, exchange

FAST_HEALTH = {"path": "/health", "interval": "300ms"}
PICKERS = ("round-robin", "weighted", "least-connections", "least-latency", "queue-depth", "gpu", "consistent-hash",
           "prefix-affinity", "expected-time")
# A prompt, by which expected-time places it.
PROMPT = b'{"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}]}'


class Server:
    """A script that passes health checks; its requests fail while `status` is one of a failure."""

    def __init__(self, status=200, seconds=0.0, generates=True):
        self.status = status
        self.generates = generates  # text, at `/v1/completions`
        self.seconds = seconds
        self.served = 0
        self.tokens = 0  # of probes

    def __call__(self, request):
        if request.target == "/health":
            return request.answer(b"ok")
        if request.target == "/v1/models":
            return request.answer(b'{"object": "list", "data": [{"id": "m", "object": "model"}]}')
        if request.target == "/v1/completions":
            self.tokens += 1
            if not self.generates:
                return request.answer(b"{}", status=404)
            if self.status == 200:
                return request.answer(b'{"choices": [{"text": "x"}], "usage": {"completion_tokens": 1}}')
        self.served += 1
        if self.status == 200:
            time.sleep(self.seconds)
        return request.answer(b'{"choices": []}', status=self.status)


class Outlier(case.Case):
    def pool(self, *scripts, **pool):
        self.backends = [self.backend(script) for script in scripts]
        return self.start_daemon(*self.backends, pool={"health": FAST_HEALTH, **pool})

    def send(self, daemon, seconds, rate=40, body=b"{}"):
        """Requests one after another at this rate; returns their statuses."""
        fields = [("content-type", "application/json")]
        statuses = []
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            statuses.append(exchange(daemon.address, "POST", "/v1/chat/completions", fields, body=body).status)
            time.sleep(max(0.0, began + len(statuses) / rate - time.monotonic()))
        return statuses

    def state(self, daemon, index=0):
        backend = daemon.backend(self.backends[index].address)
        return backend["state"], backend["reason"]

    def test_a_fast_failer_fails_few_requests_under_every_picker(self):
        for picker in PICKERS:
            with self.subTest(picker):
                bad = Server(500)
                daemon = self.pool(bad, Server(), Server(), picker=picker,
                                   health={**FAST_HEALTH, "interval": "10s"})

                statuses = self.send(daemon, 1.5, body=PROMPT)
                if picker not in ("least-latency", "gpu"):  # these avoid it of their own accord
                    self.eventually(lambda: statuses.extend(self.send(daemon, 0.1, body=PROMPT)) or
                                    self.state(daemon)[0] == "ejected", "its ejection")
                statuses += self.send(daemon, 0.5, body=PROMPT)

                self.assertLessEqual(sum(status != 200 for status in statuses), 5)
                if picker in ("least-latency", "gpu"):
                    continue
                state, reason = self.state(daemon)
                self.assertEqual(state, "ejected")
                self.assertRegex(reason, "^[345] failures in a row: 500$")
                self.assertEqual(daemon.metric("evenkeel_backend_state", state="ejected",
                                               backend=self.backends[0].address), 1)
                self.assertEqual(daemon.metric("evenkeel_backend_ejections_total", reason="consecutive",
                                               backend=self.backends[0].address), 1)

    def test_a_trial_brings_it_back_once_it_is_well(self):
        bad = Server(500)
        daemon = self.pool(bad, Server(), Server(), outlier={"ejection": "1s"})
        self.eventually(lambda: self.send(daemon, 0.1) and self.state(daemon)[0] == "ejected", "its ejection")
        daemon.wait_line(r"pool pool: \S+ is ejected: [345] failures in a row: 500$")
        bad.status = 200

        self.eventually(lambda: self.send(daemon, 0.2) and self.state(daemon) == ("up", None), "its return")

        daemon.wait_line(r"pool pool: \S+ is no longer ejected$")
        served = bad.served
        self.assertEqual(set(self.send(daemon, 0.5)), {200})
        self.assertGreater(bad.served, served)

    def test_trials_that_cost_clients_their_requests_are_rare(self):
        bad = Server(500)
        daemon = self.pool(bad, Server(), Server())

        statuses = self.send(daemon, 10)

        self.assertEqual(self.state(daemon)[0], "ejected")
        self.assertLessEqual(sum(status != 200 for status in statuses), 6)  # each worker may lose one at the same time

    def test_trials_cost_no_client_a_request_that_may_be_repeated(self):
        bad = Server(500)
        daemon = self.pool(bad, Server(), Server(), outlier={"ejection": "1s"})

        def get():
            return exchange(daemon.address, target="/page").status

        self.eventually(lambda: get() and self.state(daemon)[0] == "ejected", "its ejection")
        served = bad.served
        statuses = []
        self.eventually(lambda: statuses.append(get()) or bad.served >= served + 2, "two trials")

        self.assertEqual(set(statuses), {200})
        self.assertNotEqual(self.state(daemon), ("up", None))

    def test_a_server_that_only_lists_its_models(self):
        daemon = self.pool(Server(500), Server(), Server())
        statuses = []

        def send():
            for _ in range(3):
                self.assertEqual(exchange(daemon.address, "GET", "/v1/models").status, 200)
            statuses.append(exchange(daemon.address, "POST", "/v1/chat/completions", body=b"{}").status)
            return self.state(daemon)[0] == "ejected"

        self.eventually(send, "its ejection")
        for _ in range(40):
            send()
        self.assertLessEqual(sum(status != 200 for status in statuses), 6)

    def test_a_share_of_the_pool_is_a_percentage(self):
        daemon = self.pool(Server(500), Server(), Server(), outlier={"max_ejected": "0%"})
        self.send(daemon, 0.5)
        self.assertEqual(self.state(daemon)[0], "up")

    def test_a_client_that_claims_grpc_ejects_none(self):
        daemon = self.pool(Server(), Server(), Server())
        for method in ("GET", "POST"):
            for _ in range(30):
                answer = exchange(daemon.address, method, "/v1/models", [("content-type", "application/grpc")])
                self.assertEqual((answer.status, answer.field("grpc-status")), (200, "2"))
        self.assertEqual([each["state"] for each in daemon.api("backends")], ["up"] * 3)
        self.assertEqual(daemon.metric("evenkeel_backend_ejections_total"), 0)
        self.assertFalse(daemon.metric("evenkeel_backend_errors_total"))

    def test_streams_reset_for_the_request_eject_none(self):
        backends = [self.h2_backend(lambda ask: ask.abort(PROTOCOL_ERROR)) for _ in range(3)]
        daemon = self.start_daemon(*backends, pool={"protocol": "h2"})
        for _ in range(20):
            self.assertEqual(exchange(daemon.address).status, 502)
        self.assertEqual(daemon.metric("evenkeel_backend_ejections_total"), 0)

    def test_connections_that_end_with_a_goaway_without_an_error_eject_none(self):
        for code, ejections in ((ENHANCE_YOUR_CALM, 0), (NO_ERROR, 0), (INTERNAL_ERROR, 1)):
            for begins in (False, True):
                with self.subTest(code=code, begins=begins):
                    self.check_goaway(code, begins, ejections)

    def check_goaway(self, code, begins, ejections):
        def script(ask):
            if begins:
                ask.begin_chunks()
                ask.chunk(b"x")
            ask.peer.send(goaway(ask.stream.number, code))
            ask.peer.cut()

        bad = self.h2_backend(script)
        # Other pickers take a backend that ends its connections for a busy one.
        pool = {"protocol": "h2", "picker": "round-robin"}
        daemon = self.start_daemon(bad, self.h2_backend(), self.h2_backend(), pool=pool)

        def send():
            try:
                exchange(daemon.address, "POST", body=b"{}")
            except (Closed, ConnectionError):
                pass
            return len(bad.exchanges) >= 8 or daemon.metric("evenkeel_backend_ejections_total") > 0

        self.eventually(send, "eight requests or an ejection")
        self.assertEqual(daemon.metric("evenkeel_backend_ejections_total"), ejections)

    def test_servers_that_close_paused_uploads_are_not_ejected(self):
        def script(ask):
            if ask.method == "GET":
                return ask.answer(b"ok")
            time.sleep(0.3)
            return ask.abort()

        self.backends = [self.backend(script, reads_body=False) for _ in range(3)]
        daemon = self.start_daemon(*self.backends)
        uploads = [Stream.connect(daemon.address) for _ in range(30)]
        for upload in uploads:
            self.addCleanup(upload.close)
            upload.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx")
        for upload in uploads:
            answer = upload.read_response()
            self.assertEqual((answer.status, answer.reason), (502, "backend_closed"))
        self.assertEqual([each["state"] for each in daemon.api("backends")], ["up"] * 3)
        self.assertEqual(daemon.metric("evenkeel_backend_ejections_total"), 0)

    def test_a_429_keeps_requests_away_for_as_long_as_it_says(self):
        asked = []

        def limited(ask):
            if ask.target != "/v1/chat/completions":
                return ask.answer(b"{}")
            asked.append(time.monotonic())
            if len(asked) == 1:
                return ask.answer(b"{}", status=429, fields=[("retry-after", "2")])
            return ask.answer(b"{}")

        daemon = self.pool(limited, Server(), Server())
        statuses = []
        self.eventually(lambda: statuses.extend(self.send(daemon, 0.2)) or len(asked) >= 2, "its return")

        self.assertEqual(statuses.count(429), 1)
        self.assertGreater(asked[1] - asked[0], 1.9)
        self.assertNotIn("overloaded", str(daemon.backend(self.backends[0].address)["reason"]))

    def test_where_the_engine_is_known_probes_take_the_place_of_trials(self):
        for models in (["m"], []):
            with self.subTest(models):
                self.check_probes({"models": models} if models else {})

    def test_generic_backends_whose_checks_cover_their_models_are_probed_too(self):
        self.check_probes({"engine": "generic", "models": ["m"], "health": {**FAST_HEALTH, "model": "required"}})

    def test_a_generic_server_that_generates_no_tokens_gets_a_trial_soon(self):
        bad = Server(500, generates=False)
        daemon = self.pool(bad, Server(), Server(), models=["m"], health={**FAST_HEALTH, "model": "required"})
        self.eventually(lambda: self.send(daemon, 0.1) and self.state(daemon)[0] == "ejected", "its ejection")
        bad.status = 200

        self.eventually(lambda: self.send(daemon, 0.2) and self.state(daemon) == ("up", None), "its return")

        self.assertLessEqual(bad.tokens, 1)

    def check_probes(self, pool):
        bad = Server(500)
        daemon = self.pool(bad, Server(), Server(), **{"engine": "vllm", **pool})
        statuses = []
        self.eventually(lambda: statuses.extend(self.send(daemon, 0.2)) or bad.tokens > 1, "probes")
        self.assertLessEqual(sum(status != 200 for status in statuses), 5)
        self.assertEqual(self.state(daemon)[0], "ejected")

        bad.status = 200
        well = time.monotonic()
        self.eventually(lambda: self.state(daemon)[0] == "up", "its return")

        self.assert_within(time.monotonic() - well, 2.0)  # two health intervals, on a busy machine
        self.assertEqual(set(self.send(daemon, 0.5)), {200})

    def test_simulated_engines_with_a_fault_are_ejected_until_it_ends(self):
        for engine in ("vllm", "sglang", "llamacpp"):
            with self.subTest(engine):
                servers = [self.simulators("--engine", engine, "--model", "m").addresses[0] for _ in range(3)]
                daemon = self.start_daemon(*servers, pool={"engine": engine, "health": {"interval": "300ms"}})
                exchange(servers[0], "PUT", "/sim/v1/state", body=b'{"fault": "error"}')

                def requests(count=4):
                    body = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}'
                    fields = [("content-type", "application/json")]
                    return [exchange(daemon.address, "POST", "/v1/chat/completions", fields, body).status
                            for _ in range(count)]

                self.eventually(lambda: requests() and daemon.backend(servers[0])["state"] == "ejected",
                                "its ejection")
                self.assertEqual(set(requests(20)), {200})

                exchange(servers[0], "PUT", "/sim/v1/state", body=b'{"fault": "none"}')
                self.eventually(lambda: daemon.backend(servers[0])["state"] == "up", "its return")
                self.assertEqual(set(requests(20)), {200})

    def test_a_pool_whose_every_request_fails_keeps_its_backends(self):
        daemon = self.pool(Server(500), Server(500), Server(500))

        self.send(daemon, 1.5)

        for index in range(3):
            self.assertEqual(self.state(daemon, index)[0], "up")

    def test_errors_of_clients_eject_none(self):
        daemon = self.pool(Server(400), Server(), Server())

        self.send(daemon, 1)

        self.assertEqual(self.state(daemon), ("up", None))

    def test_an_overloaded_backend_is_left_alone_but_not_ejected(self):
        busy = Server(429)
        daemon = self.pool(busy, Server(), Server())

        statuses = self.send(daemon, 2)

        self.assertLessEqual(statuses.count(429), 2)
        self.assertEqual(self.state(daemon)[0], "up")

    def test_streams_that_break_eject_their_backend(self):
        def breaks(request):
            if request.target == "/health":
                return request.answer(b"ok")
            request.begin_chunks()
            request.chunk(b"data: x\n\n")
            return request.abort()

        daemon = self.pool(breaks, Server(), Server(), health={**FAST_HEALTH, "interval": "10s"})

        def send():
            try:
                exchange(daemon.address, "POST", "/v1/chat/completions", body=b"{}")
            except (Closed, ConnectionError):
                pass
            return self.state(daemon)[0] == "ejected"

        self.eventually(send, "its ejection")


class Fallback(case.Case):
    def two_pools(self, first, second, **keys):
        return self.daemon({
            "pools": [{"name": "large", "backends": first, "fallback": "small", **keys},
                      {"name": "small", "backends": second}],
            "routes": [{"match": {"path": "/**"}, "pool": "large"}]})

    def test_takes_requests_while_the_pool_has_no_backend(self):
        small = self.backend(lambda request: request.answer(b"small"))
        daemon = self.two_pools(["127.0.0.1:1"], [small.address])

        for _ in range(2):  # when the connection is refused, and in the back-off after it
            answer = exchange(daemon.address)
            self.assertEqual((answer.status, answer.body), (200, b"small"))
            self.assertEqual(answer.field("x-evenkeel-fallback"), "small")

        self.assertEqual(daemon.wait_access(2)[-1]["pool"], "small")
        self.assertEqual(daemon.metric("evenkeel_fallbacks_total", pool="large"), 2)
        self.assertEqual(daemon.metric("evenkeel_requests_in_flight", pool="large"), 0)

    def test_takes_requests_that_find_the_queue_full(self):
        gate = Gate()
        large = self.backend(gate)
        small = self.backend(lambda request: request.answer(b"small"))
        daemon = self.two_pools([large.address], [small.address],
                                limits={"max_in_flight": 1, "queue": {"size": 0}})
        held = self.spawn(lambda: exchange(daemon.address))
        self.eventually(lambda: large.exchanges, "a request at the large pool")

        answer = exchange(daemon.address)

        self.assertEqual((answer.body, answer.field("x-evenkeel-fallback")), (b"small", "small"))
        gate.open.set()
        self.assertIsNone(held.join().field("x-evenkeel-fallback"))

    def test_gets_the_clients_credentials_and_not_the_key_of_the_first_pool(self):
        key = self.folder() + "/key"
        with open(key, "w") as file:
            file.write("KEY-OF-LARGE")
        small = self.backend(lambda request: request.answer(b"small"))
        daemon = self.two_pools([{"address": "127.0.0.1:1", "api_key_file": key}], [small.address])

        for fields in ([("Authorization", "Bearer CLIENT")], []):
            self.assertEqual(exchange(daemon.address, fields=fields).body, b"small")

        self.assertEqual([each.head.all("authorization") for each in small.exchanges], [["Bearer CLIENT"], []])

    def test_keeps_no_copy_of_a_body_while_it_answers(self):
        gate = Gate()

        def stream_answer(request):
            request.begin_chunks()
            request.chunk(b"x")
            gate.open.wait(20)
            request.end_chunks()

        daemon = self.two_pools(["127.0.0.1:1"], [self.backend(stream_answer).address])
        with Stream.connect(daemon.address) as stream:
            stream.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n")
            stream.send(b"x" * 500000)
            self.assertEqual(stream.read_head().status, 200)
            held = daemon.metric("evenkeel_replay_bytes")
            gate.open.set()
        self.assertEqual(held, 0)

    def test_takes_no_request_that_a_backend_has_received(self):
        """The first attempt is reset, and the second finds no connection."""
        def fail(request):
            for each in large:
                if each is not request.backend:
                    each.close()
            request.abort()

        small = self.backend(lambda request: request.answer(b"small"))
        large = [self.backend(fail), self.backend(fail)]
        daemon = self.two_pools([each.address for each in large], [small.address], retry={"on": ["reset"]})

        answer = exchange(daemon.address, "POST", body=b"{}")

        self.assertEqual((answer.status, answer.reason), (502, "backend_closed"))
        line = daemon.wait_access(1)[0]
        self.assertEqual((line["pool"], [each["outcome"] for each in line["attempts"]]),
                         ("large", ["backend_closed", "connect_failed"]))
        self.assertEqual(small.exchanges, [])


class Gate:
    """A script that holds every request until it is opened."""

    def __init__(self):
        import threading
        self.open = threading.Event()

    def __call__(self, request):
        self.open.wait(20)
        request.answer(b"done")


if __name__ == "__main__":
    case.main()
