"""Health checks: each engine is checked in the way that works for it, and a backend that fails gets no requests until it passes
again."""

import json
import resource
import threading
import time

import case
from backend import Backend
from certificates import Authority, serving
from ports import refusing_address
from process import command
from stream import exchange

QUICK = {"interval": "100ms"}


def answers(table, otherwise=(404, b"")):
    """A script that responds by target: {target: (status, body) or body}."""
    def script(request):
        said = table.get(request.target, otherwise)
        status, body = said if isinstance(said, tuple) else (200, said)
        request.answer(body, status=status)
    return script


def models(*names):
    return json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode()


class Health(case.Case):
    def pool(self, *backends, health=None, **pool):
        """A daemon with these backends; checks run often unless `health` says otherwise."""
        return self.start_daemon(*backends, pool={"health": {**QUICK, **(health or {})}, **pool})

    def state(self, daemon, backend):
        shown = daemon.backend(backend if isinstance(backend, str) else backend.address)
        return shown["state"], shown["reason"]

    def becomes(self, daemon, backend, state, reason=None):
        """Waits until the backend is in this state, with a reason that contains this text."""
        def holds():
            now, why = self.state(daemon, backend)
            return now == state and (reason is None or reason in (why or ""))
        try:
            self.eventually(holds)
        except AssertionError:
            self.assertEqual(self.state(daemon, backend), (state, reason))

    def checks(self, daemon, result, **labels):
        return daemon.metric("evenkeel_backend_health_checks_total", result=result, **labels)

    def fault(self, simulators, fault, **more):
        """Sets a fault of the first simulator, on the control listener, which always responds."""
        control = simulators.control
        answer = exchange(control, "PUT", "/sim/v1/state",
                          body=json.dumps({"fault": fault, **more}).encode())
        self.assertEqual(answer.status, 200, answer.body)


class Engines(Health):
    """The simulator speaks each engine's dialect."""

    def test_a_loading_backend_is_starting_until_it_reports_ready(self):
        for engine, reason in (("vllm", "Connection refused"), ("triton", "/v2/health/ready: 400"),
                               ("sglang", "/health: 503"), ("tgi", "/health: 503"),
                               ("llamacpp", "Loading model")):
            with self.subTest(engine=engine):
                simulators = self.simulators("--engine", engine, "--model", "m")
                self.fault(simulators, "loading")
                daemon = self.pool(simulators.addresses[0], engine=engine)
                self.becomes(daemon, simulators.addresses[0], "starting", reason)
                refused = exchange(daemon.address, "GET", "/v1/models")
                self.assertEqual((refused.status, refused.reason), (503, "no_backend"))

                self.fault(simulators, "none")
                self.becomes(daemon, simulators.addresses[0], "up")
                self.assertEqual(exchange(daemon.address, "GET", "/v1/models").status, 200)

    def test_a_killed_server_is_down_and_recovers(self):
        simulators = self.simulators("--model", "m")
        daemon = self.pool(simulators.addresses[0], engine="vllm")
        self.assertEqual(self.state(daemon, simulators.addresses[0]), ("up", None))

        self.fault(simulators, "die", die_after_tokens=0)
        self.becomes(daemon, simulators.addresses[0], "down", "Connection refused")
        self.assertEqual(daemon.metric("evenkeel_backend_up", backend=simulators.addresses[0]), 0)
        self.assertGreaterEqual(self.checks(daemon, "refused"), 3)

        self.fault(simulators, "none")
        self.becomes(daemon, simulators.addresses[0], "up")

    def test_a_hanging_server_is_down_and_delays_no_other_check(self):
        simulators = self.simulators("--model", "m")
        other = self.simulators("--model", "m")
        hung, sound = simulators.addresses[0], other.addresses[0]
        daemon = self.pool(hung, sound, engine="vllm", health={"timeout": "300ms"})

        self.fault(simulators, "hang")
        self.becomes(daemon, hung, "down", "no response in time")
        before = self.checks(daemon, "passed", backend=sound)
        late = self.checks(daemon, "timeout", backend=hung)
        self.eventually(lambda: self.checks(daemon, "passed", backend=sound) >= before + 6)
        self.assertLessEqual(self.checks(daemon, "timeout", backend=hung), late + 4)
        self.assertEqual(self.state(daemon, sound), ("up", None))

        self.fault(simulators, "none")
        self.becomes(daemon, hung, "up")

    def test_a_token_finds_a_crashed_model_behind_a_healthy_server(self):
        simulators = self.simulators("--model", "m", "--engine", "vllm")
        address = simulators.addresses[0]
        self.fault(simulators, "error", error_status=500)
        trusting = self.pool(address, engine="vllm", models=["m"], health={"model": "required"})
        asking = self.pool(address, engine="vllm", models=["m"], health={"model": "generate"})
        self.assertEqual(self.state(trusting, address), ("up", None))
        self.becomes(asking, address, "down", "POST /v1/completions for 'm': 500")

        self.fault(simulators, "none")
        self.becomes(asking, address, "up")

    def test_each_engine_generates_a_token(self):
        for engine in ("sglang", "triton", "tgi", "llamacpp"):
            with self.subTest(engine=engine):
                simulators = self.simulators("--engine", engine, "--model", "m")
                daemon = self.pool(simulators.addresses[0], engine=engine, models=["m"],
                                   health={"model": "generate"})
                self.assertEqual(self.state(daemon, simulators.addresses[0]), ("up", None))
                self.assertGreaterEqual(self.checks(daemon, "passed"), 1)

    def test_sglang_checks_may_take_a_second(self):
        simulators = self.simulators("--engine", "sglang", "--model", "m", speed=1)
        daemon = self.pool(simulators.addresses[0], engine="sglang")
        self.assertEqual(self.state(daemon, simulators.addresses[0]), ("up", None))

    def test_triton_is_checked_over_grpc_if_its_pool_uses_grpc(self):
        simulators = self.simulators("--engine", "triton", "--model", "m")
        address = simulators.addresses[0]
        self.fault(simulators, "loading")
        daemons = [self.pool(address, engine="triton", protocol="h2"),
                   self.pool(address, engine="triton", protocol="h2", models=["m"],
                             health={"model": "required"}),
                   self.pool(address, protocol="h2", health={"check": "grpc"})]
        for daemon, reason in zip(daemons, ("ServerReady", "ModelReady", "NOT_SERVING")):
            self.becomes(daemon, address, "starting", reason)
        self.fault(simulators, "none")
        for daemon in daemons:
            self.becomes(daemon, address, "up")

    def test_a_grpc_server_without_the_model_is_down(self):
        simulators = self.simulators("--engine", "triton", "--model", "m")
        daemon = self.pool(simulators.addresses[0], engine="triton", protocol="h2", models=["other"],
                           health={"model": "required"})
        self.assertNotEqual(self.state(daemon, simulators.addresses[0])[0], "up")
        self.assertIn("other", self.state(daemon, simulators.addresses[0])[1])

    def test_engines_are_detected_even_while_loading(self):
        simulators = self.simulators("--engine", "vllm", "--model", "m")
        address = simulators.addresses[0]
        self.fault(simulators, "loading")
        daemon = self.pool(address, engine="auto")
        self.assertEqual(daemon.backend(address)["engine"], "auto")
        self.becomes(daemon, address, "starting", "Connection refused")

        self.fault(simulators, "none")
        self.becomes(daemon, address, "up")
        shown = daemon.backend(address)
        self.assertEqual((shown["engine"], shown["models"]), ("vllm", ["m"]))
        self.eventually(lambda: daemon.backend(address)["polled"]["running"] is not None,
                        "metrics that are read once the engine is known")

        self.fault(simulators, "refuse")
        self.becomes(daemon, address, "down")


class Answers(Health):
    """Scripted servers."""

    def test_triton_serves_its_models_while_it_loads_another(self):
        backend = self.backend(answers({"/v2/health/ready": (400, b""), "/v2/models/a/ready": b""}))
        wary = self.pool(backend, engine="triton", models=["a"])
        daemon = self.pool(backend, engine="triton", models=["a"], health={"model": "required"})
        self.becomes(wary, backend, "starting", "/v2/health/ready: 400")
        self.assertEqual(self.state(daemon, backend), ("up", None))

    def test_every_model_of_the_pool_is_required(self):
        table = {"/health": b"", "/v1/models": models("a")}
        backend = self.backend(answers(table))
        daemon = self.pool(backend, engine="vllm", models=["a", "b"], health={"model": "required"})
        self.becomes(daemon, backend, "down", "the server does not serve model 'b'")
        self.assertGreaterEqual(self.checks(daemon, "model_missing"), 1)

        table["/v1/models"] = models("b", "a")
        self.becomes(daemon, backend, "up")
        self.assertEqual(daemon.backend(backend.address)["models"], ["b", "a"])

    def test_a_check_over_the_latency_limit_fails(self):
        gate = threading.Event()

        def script(request):
            if not gate.is_set():
                time.sleep(0.06)  # the server is slow
            request.answer(b"")

        backend = self.backend(script)
        daemon = self.pool(backend, health={"path": "/ready", "latency": "50ms", "timeout": "10s"})
        self.becomes(daemon, backend, "down", "the limit is 0.050 s")
        gate.set()
        self.becomes(daemon, backend, "up")

    def test_fewer_failures_than_fall_are_tolerated(self):
        table = {"/ready": b""}
        backend = self.backend(answers(table))
        daemon = self.pool(backend, health={"path": "/ready", "fall": 1000})
        table["/ready"] = (500, b"")
        self.eventually(lambda: self.checks(daemon, "error") >= 5)
        self.assertEqual(self.state(daemon, backend), ("up", None))

    def test_a_failed_connect_triggers_a_check_at_once(self):
        backend = self.backend()
        daemon = self.pool(backend, health={"path": "/", "interval": "1h"})
        self.assertEqual(self.state(daemon, backend), ("up", None))
        backend.close()

        self.assertEqual(exchange(daemon.address).status, 502)
        self.becomes(daemon, backend, "down", "Connection refused")

    def test_a_successful_check_ends_the_back_off(self):
        backend = self.backend()
        daemon = self.pool(backend, health={"check": "tcp", "fall": 1000})
        backend.close()
        self.assertEqual(exchange(daemon.address).status, 502)
        self.becomes(daemon, backend, "down", "connect_failed")

        revived = Backend(port=backend.port)
        self.addCleanup(revived.close)
        self.becomes(daemon, backend, "up")
        self.assertEqual(revived.exchanges, [])

    def test_checks_and_requests_carry_the_key(self):
        key = self.folder() + "/key"
        with open(key, "w") as file:
            file.write("sesame\n")
        backend = self.backend(answers({"/health": b"", "/v1/models": models("a")}))
        open_backend = self.backend(answers({"/health": b"", "/v1/models": models("a")}))
        daemon = self.pool({"address": backend.address, "api_key_file": key},
                           engine="vllm", models=["a"], health={"model": "required"})
        plain = self.pool(open_backend, engine="vllm")
        for each in (daemon, plain):
            answer = exchange(each.address, "GET", "/v1/models", [("Authorization", "Bearer mine")])
            self.assertEqual(answer.status, 200)

        def keys(server, target):
            return {request.head.field("authorization") for request in list(server.exchanges)
                    if request.target == target}
        self.assertEqual(keys(backend, "/health"), {"Bearer sesame"})
        self.assertEqual(keys(backend, "/v1/models"), {"Bearer sesame"})
        self.assertEqual(keys(open_backend, "/health"), {None})
        self.assertEqual(keys(open_backend, "/v1/models"), {"Bearer mine"})

    def test_a_retry_on_another_backend_keeps_the_clients_credentials(self):
        key = self.folder() + "/key"
        with open(key, "w") as file:
            file.write("sesame")
        backend = self.backend(lambda request: request.answer(request.head.field("authorization").encode()))
        gone = refusing_address()
        daemon = self.pool({"address": gone, "api_key_file": key}, backend, picker="round-robin",
                           health={"check": "off"})
        for _ in range(4):
            answer = exchange(daemon.address, "GET", "/", [("Authorization", "Bearer mine")])
            self.assertEqual((answer.status, answer.body), (200, b"Bearer mine"))

    def test_a_grpc_health_service_that_is_not_serving(self):
        states = {"serving": False}

        def script(request):
            self.assertEqual(request.target, "/grpc.health.v1.Health/Check")
            status = b"\x08\x01" if states["serving"] else b"\x08\x02"
            request.begin_chunks([("content-type", "application/grpc")])
            request.chunk(b"\0" + len(status).to_bytes(4, "big") + status)
            request.end_chunks([("grpc-status", "0")])

        backend = self.h2_backend(script)
        daemon = self.pool(backend, protocol="h2", health={"check": "grpc", "service": "llm.Chat"})
        self.becomes(daemon, backend, "starting", "NOT_SERVING")
        states["serving"] = True
        self.becomes(daemon, backend, "up")
        self.assertEqual(backend.exchanges[0].body, b"\0\0\0\0\x0a\x0a\x08llm.Chat")

    def test_a_server_without_the_grpc_health_service(self):
        def script(request):
            request.send_head([("content-type", "application/grpc"), ("grpc-status", "12"),
                           ("grpc-message", "unknown service")], end=True)

        backend = self.h2_backend(script)
        daemon = self.pool(backend, protocol="h2", health={"check": "grpc"})
        self.becomes(daemon, backend, "down", "gRPC status 12 unknown service")

    def test_control_characters_from_a_server_are_escaped(self):
        said = {"text": "boom%0A2026-11-21T18:00:00.000+0000 info pool p: 10.0.0.9:80 is up"}

        def script(request):
            request.send_head([("content-type", "application/grpc"), ("grpc-status", "13"),
                           ("grpc-message", said["text"])], end=True)

        backend = self.h2_backend(script)
        daemon = self.pool(backend, protocol="h2", health={"check": "grpc"})
        method = "grpc.health.v1.Health/Check: gRPC status 13"
        self.becomes(daemon, backend, "down", method)
        self.assertEqual(self.state(daemon, backend)[1], f"{method} boom")
        self.assertFalse([line for line in daemon.lines if line.startswith("2026-11-21T18:00")])
        for text, shown in (("a%1B[2J", f"{method} a?[2J"), ("a%C2%9B2J", f"{method} a?2J"),
                            ("A" * 6000, f"{method} " + "A" * 120), ("caf%C3%A9 %FF%C3", f"{method} caf\u00e9 \ufffd\ufffd"),
                            ("A" * 119 + "%E2%82%AC", f"{method} " + "A" * 119)):
            said["text"] = text
            self.eventually(lambda shown=shown: self.state(daemon, backend)[1] == shown)
        table = command("ctl", "backends", "--admin", daemon.admin).stdout
        self.assertTrue(table.isprintable() or all(each.isprintable() for each in table.splitlines()))

    def test_a_grpc_port_is_checked_over_grpc(self):
        def unknown(request):
            request.send_head([("content-type", "application/grpc"), ("grpc-status", "12")], end=True)

        def serving(request):
            if not states["serving"] or request.target != "/grpc.health.v1.Health/Check":
                return states["otherwise"](request)
            request.begin_chunks([("content-type", "application/grpc")])
            request.chunk(b"\0\0\0\0\2\x08" + states["serving"])
            return request.end_chunks([("grpc-status", "0")])

        for engine in ("vllm", "auto"):
            for otherwise in (unknown, lambda request: request.abort()):
                with self.subTest(engine=engine, resets=otherwise is not unknown):
                    states = {"serving": b"\1", "otherwise": otherwise}
                    backend = self.h2_backend(serving)
                    daemon = self.pool(backend, engine=engine, protocol="h2")
                    self.becomes(daemon, backend, "up")
                    if engine == "vllm":
                        states["serving"] = b"\2"
                        self.becomes(daemon, backend, "down", "NOT_SERVING")
                        states["serving"] = b"\1"
                        self.becomes(daemon, backend, "up")

        # Without the service any gRPC answer is enough; an answer that is not gRPC fails.
        states = {"serving": None, "otherwise": unknown}
        backend = self.h2_backend(serving)
        daemon = self.pool(backend, engine="vllm", protocol="h2")
        self.becomes(daemon, backend, "up")
        states["otherwise"] = lambda request: request.abort()
        self.becomes(daemon, backend, "down", "reset")

    def test_checks_use_tls_as_requests_do(self):
        authority = Authority(self.folder())
        backend = self.backend(answers({"/health": b"ok"}), tls=serving(authority.issue("127.0.0.1")))
        other = self.backend(answers({"/health": b"ok"}), tls=serving(authority.issue("10.0.0.9")))
        daemon = self.pool(backend, other, engine="vllm", tls={"ca": authority.cert})
        self.assertEqual(self.state(daemon, backend), ("up", None))
        self.assertEqual(self.state(daemon, other)[0], "down")
        self.assertGreaterEqual(self.checks(daemon, "unreachable", backend=other.address), 1)

    def test_engines_are_detected_over_tls_and_with_the_key(self):
        authority = Authority(self.folder())
        key = self.folder() + "/key"
        with open(key, "w") as file:
            file.write("sesame")
        listed = json.dumps({"data": [{"id": "a", "owned_by": "vllm"}]}).encode()

        def script(request):
            if request.head.field("authorization") != "Bearer sesame":
                request.answer(b"", status=401)
            else:
                answers({"/health": b"", "/v1/models": listed})(request)

        backend = self.backend(script, tls=serving(authority.issue("127.0.0.1")))
        daemon = self.pool({"address": backend.address, "api_key_file": key}, engine="auto",
                           tls={"ca": authority.cert})
        self.becomes(daemon, backend, "up")
        shown = daemon.backend(backend.address)
        self.assertEqual((shown["engine"], shown["models"]), ("vllm", ["a"]))

    def test_an_unknown_kserve_server_is_checked_as_kserve(self):
        table = {"/v2": b'{"name":"unknown_server","version":"1.7.1","extensions":[]}',
                 "/v2/health/ready": (400, b"")}
        backend = self.backend(answers(table))
        daemon = self.pool(backend, engine="auto")
        self.becomes(daemon, backend, "starting", "/v2/health/ready: 400")
        self.assertEqual(daemon.backend(backend.address)["engine"], "generic")
        table["/v2/health/ready"] = b""
        self.becomes(daemon, backend, "up")

    def test_a_server_without_a_known_check_is_not_checked(self):
        backend = self.backend()
        daemon = self.pool(backend)
        self.assertEqual(self.state(daemon, backend), ("up", None))
        self.assertEqual(exchange(daemon.address).status, 200)
        self.assertEqual([request.target for request in backend.exchanges], ["/"])


class Detection(Health):
    """`engine: auto` detects what each server runs."""

    VLLM = {"/health": b"", "/v1/models": json.dumps(
        {"object": "list", "data": [{"id": "a", "owned_by": "vllm"}]}).encode()}

    def runs(self, daemon, backend, engine):
        self.eventually(lambda: daemon.backend(backend.address)["engine"] == engine,
                        f"{engine} at {backend.address}")

    def again(self, backend, script):
        """Replaces the server by another one at the same address."""
        other = Backend(script, port=backend.port)
        self.addCleanup(other.close)
        return other

    def test_a_different_server_at_the_address_keeps_the_detected_engine(self):
        backend = self.backend(answers(self.VLLM))
        daemon = self.pool(backend, engine="auto")
        self.becomes(daemon, backend, "up")
        backend.close()
        self.becomes(daemon, backend, "down", "Connection refused")

        unknown_server = self.again(backend, answers({}))
        self.eventually(lambda: any(request.target == "/ping" for request in list(unknown_server.exchanges)),
                        "all questions to the unknown_server")
        self.becomes(daemon, backend, "down", "GET /health: 404")
        self.assertEqual(daemon.backend(backend.address)["engine"], "vllm")
        self.assertEqual(exchange(daemon.address).reason, "no_backend")
        unknown_server.close()

        revived = self.again(backend, answers(self.VLLM))
        self.becomes(daemon, backend, "up")
        revived.close()
        self.becomes(daemon, backend, "down", "Connection refused")

    def test_a_different_engine_at_the_address_is_detected(self):
        backend = self.backend(answers(self.VLLM))
        daemon = self.pool(backend, engine="auto")
        self.becomes(daemon, backend, "up")
        backend.close()
        self.becomes(daemon, backend, "down")
        listed = self.VLLM["/v1/models"].replace(b"vllm", b"sglang")
        self.again(backend, answers({**self.VLLM, "/v1/models": listed}))
        self.runs(daemon, backend, "sglang")
        self.becomes(daemon, backend, "up")

    def test_an_unidentified_server_is_detected_again(self):
        table = {}
        backend = self.backend(answers(table))
        daemon = self.pool(backend, engine="auto")
        self.becomes(daemon, backend, "up")
        self.assertEqual(daemon.backend(backend.address)["engine"], "generic")
        backend.close()
        self.becomes(daemon, backend, "down", "Connection refused")

        revived = self.again(backend, answers(table))
        self.becomes(daemon, backend, "up")
        table.update(self.VLLM)  # before, only a proxy in front of it answered
        self.runs(daemon, backend, "vllm")
        self.assertEqual(self.state(daemon, backend), ("up", None))
        self.eventually(lambda: any(request.target == "/health" for request in list(revived.exchanges)))

    def test_an_incomplete_answer_detects_nothing(self):
        gate = threading.Event()

        def script(request):
            if request.target == "/v1/models":
                gate.wait()
            answers(self.VLLM)(request)

        backend = self.backend(script)
        self.addCleanup(gate.set)
        daemon = self.pool(backend, engine="auto", health={"timeout": "1s"})
        gate.set()
        self.becomes(daemon, backend, "up")
        self.assertEqual(daemon.backend(backend.address)["engine"], "vllm")
        self.assertFalse([line for line in daemon.lines if "generic" in line])

    def test_a_server_that_rejects_every_get_serves(self):
        for status in (501, 500):
            with self.subTest(status=status):
                def script(request, status=status):
                    request.answer(b"done", status=200 if request.method == "POST" else status)

                backend = self.backend(script)
                daemon = self.pool(backend, engine="auto")
                self.becomes(daemon, backend, "up")
                answer = exchange(daemon.address, "POST", "/generate", body=b"{}")
                self.assertEqual((answer.status, answer.body), (200, b"done"))

    def test_more_backends_than_descriptors_are_checked(self):
        simulators = self.simulators("--engine", "vllm", "--model", "m", count=60)
        daemon = self.start_daemon(*simulators.addresses, limits=["--nofile=110"],
                                  pool={"engine": "auto", "health": {"interval": "1s"}})
        daemon.wait_line(r"warning \[limits\] the limit of 110 open descriptors may be too low: health checks "
                         "and polls of 60 backends take up to 120")
        for address in simulators.addresses:
            self.becomes(daemon, address, "up")
        self.eventually(lambda: daemon.descriptors() < 90, "descriptors that are let go")
        self.assertEqual(exchange(daemon.address, "GET", "/v1/models").status, 200)

    def test_a_lack_of_descriptors_is_logged_once(self):
        backend = self.backend(answers(self.VLLM))
        daemon = self.pool(backend, engine="vllm", health={"check": "tcp"})
        self.becomes(daemon, backend, "up")
        _, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (3, hard))
        try:
            daemon.wait_line(r"error \[limits\] cannot check backends: out of descriptors or memory")
        finally:
            resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (hard, hard))
        passed = self.checks(daemon, "passed")
        self.eventually(lambda: self.checks(daemon, "passed") > passed)
        self.assertEqual(self.state(daemon, backend), ("up", None))
        self.assertEqual(sum("cannot check backends" in line for line in daemon.lines), 1)


class Reloads(Health):
    """A reload keeps what is known of a server."""

    def reload(self, daemon, **pool):
        config = json.loads(daemon.config_path.read_text())
        config["pools"][0].update(pool)
        daemon.config_path.write_text(json.dumps(config))
        answer = daemon.ask_admin("/api/v1/reload", method="POST")
        self.assertEqual(answer.status, 200, answer.body)

    def test_health_survives_a_reload(self):
        table = {"/old": b"", "/new": b""}
        backend, broken = self.backend(answers(table)), self.backend()
        broken.script = answers({})
        daemon = self.pool(backend, broken, health={"path": "/old"})
        before = [daemon.backend(each.address) for each in (backend, broken)]
        self.assertEqual([each["state"] for each in before], ["up", "down"])

        self.reload(daemon, health={**QUICK, "path": "/new"})
        self.eventually(lambda: any(request.target == "/new" for request in list(backend.exchanges)))
        after = [daemon.backend(each.address) for each in (backend, broken)]
        self.assertEqual([(each["state"], each["since"]) for each in after],
                         [(each["state"], each["since"]) for each in before])

    def test_a_new_backend_is_checked_before_its_first_request(self):
        old, new = self.backend(answers({"/ready": b"", "/": b""})), self.backend()
        new.script = answers({"/ready": b"", "/": b""})
        gone = refusing_address()
        daemon = self.pool(old, picker="round-robin", health={"path": "/ready"})
        self.reload(daemon, backends=[new.address, gone])

        for _ in range(4):
            self.assertEqual(exchange(daemon.address).status, 200)
        self.assertEqual(new.exchanges[0].target, "/ready")
        self.assertEqual(daemon.backend(gone)["state"], "starting")
        self.assertEqual(daemon.backend(gone)["picks_total"], 0)

    def test_checks_are_switched_on_and_off(self):
        table = {"/": b""}
        backend = self.backend(answers(table))
        daemon = self.pool(backend)
        self.reload(daemon, health={**QUICK, "path": "/ready", "fall": 10})
        self.assertEqual(exchange(daemon.address).status, 200, "it serves until checks have failed")
        self.becomes(daemon, backend, "down", "GET /ready: 404")
        self.reload(daemon, health={})
        self.assertEqual(self.state(daemon, backend), ("up", None))
        self.assertEqual(exchange(daemon.address).status, 200)

    def test_removing_the_engine_key_closes_no_backend(self):
        gate = threading.Event()
        self.addCleanup(gate.set)
        table = {"/health": b"", "/v1/models": models("a").replace(b'"a"', b'"a","owned_by":"vllm"')}

        def script(request):
            if request.target == "/health" and asked.is_set():
                gate.wait()
            answers(table, (200, b"hello"))(request)

        asked = threading.Event()
        backend = self.backend(script)
        daemon = self.pool(backend, engine="vllm", health={"timeout": "20s"})
        self.becomes(daemon, backend, "up")
        asked.set()  # from now on its health endpoint is slow
        self.reload(daemon, engine="auto")
        self.eventually(lambda: [request.target for request in list(backend.exchanges)].count("/v1/models"))
        self.eventually(lambda: daemon.backend(backend.address)["engine"] == "vllm")
        for _ in range(10):
            self.assertEqual(exchange(daemon.address).body, b"hello")
        gate.set()
        self.assertEqual(self.state(daemon, backend), ("up", None))

    def test_a_detected_engine_survives_a_reload(self):
        simulators = self.simulators("--engine", "sglang", "--model", "m")
        address = simulators.addresses[0]
        daemon = self.pool(address, engine="auto")
        self.assertEqual(daemon.backend(address)["engine"], "sglang")
        self.reload(daemon, picker="round-robin")
        self.assertEqual((daemon.backend(address)["engine"], self.state(daemon, address)[0]),
                         ("sglang", "up"))


if __name__ == "__main__":
    case.main()
