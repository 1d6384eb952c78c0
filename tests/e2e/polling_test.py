"""Polling of engines and GPU exporters, which never delays requests."""

import json
import threading
import time

import case
from certificates import Authority, serving
from stream import Stream, exchange

VLLM = ("# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{{engine="0",model_name="m"}} {running}\n'
        'vllm:num_requests_waiting{{engine="0",model_name="m"}} {waiting}\n'
        'vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} 0.5\n')
GIBIBYTE = 1 << 30
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def vllm(running=4, waiting=3):
    return VLLM.format(running=running, waiting=waiting).encode()


class Polling(case.Case):
    def polled(self, daemon, backend):
        return daemon.backend(backend if isinstance(backend, str) else backend.address)["polled"]

    def until(self, daemon, backend, condition):
        """Waits until the polled values of the backend fulfil `condition`, and returns them."""
        seen = {}

        def holds():
            seen.update(self.polled(daemon, backend))
            return condition(seen)
        try:
            self.eventually(holds)
        except AssertionError:
            self.fail(f"still {seen}")
        return seen

    def fault(self, simulators, fault, server=None, **more):
        target = "/sim/v1/state" + (f"?server={server}" if server else "")
        answer = exchange(simulators.control, "PUT", target,
                          body=json.dumps({"fault": fault, **more}).encode())
        self.assertEqual(answer.status, 200, answer.body)

    def stream_from(self, daemon):
        """A chat whose head has arrived and that continues until it is closed."""
        stream = Stream.connect(daemon.address)
        self.addCleanup(stream.close)
        body = json.dumps({**CHAT, "stream": True, "max_tokens": 30000, "ignore_eos": True})
        stream.ask("POST", "/v1/chat/completions", [("content-type", "application/json")],
                   body.encode())
        self.assertEqual(stream.read_head().status, 200)
        return stream


class Engines(Polling):
    def test_each_engines_metric_names_are_understood(self):
        for engine in ("vllm", "sglang", "tgi", "llamacpp"):
            with self.subTest(engine=engine):
                simulators = self.simulators("--engine", engine, "--model", "m", speed=1)
                daemon = self.start_daemon(simulators.addresses[0], pool={"engine": engine})
                stream = self.stream_from(daemon)
                shown = self.until(
                    daemon, simulators.addresses[0],
                    lambda polled: (polled["running"], polled["engine"]["state"]) == (1, "fresh"))
                self.assertEqual(shown["waiting"], 0)
                self.assertEqual(shown["kv_cache_ratio"] is None, engine == "llamacpp")
                self.assertIsNone(shown["gpu_memory_used_bytes"], "it does not tell")
                self.assertIsNone(shown["engine"]["reason"])
                self.assert_within(shown["age_seconds"], 3)
                labels = {"pool": "pool", "backend": simulators.addresses[0]}
                self.assertEqual(daemon.metric("evenkeel_backend_running_requests", **labels), 1)
                stream.close()

    def test_tritons_gpus_and_queue_are_read(self):
        simulators = self.simulators("--engine", "triton", "--model", "m")
        daemon = self.start_daemon(simulators.addresses[0], pool={"engine": "triton"})
        shown = self.until(daemon, simulators.addresses[0],
                           lambda polled: polled["waiting"] is not None)
        self.assertEqual(shown["waiting"], 0)
        self.assertIsNone(shown["running"], "Triton counts those that wait, and no others")
        self.assertEqual(shown["gpu_memory_total_bytes"], 80 * GIBIBYTE)
        self.assertAlmostEqual(shown["gpu_memory_used_bytes"], 0.92 * 80 * GIBIBYTE, delta=1)

    def test_a_detected_engine_is_polled(self):
        simulators = self.simulators("--engine", "sglang", "--model", "m")
        daemon = self.start_daemon(simulators.addresses[0], pool={"engine": "auto"})
        self.until(daemon, simulators.addresses[0], lambda polled: polled["running"] == 0)

    def test_polls_do_not_keep_a_llamacpp_model_awake(self):
        backend = self.backend(lambda request: request.answer(b"llamacpp:requests_processing 0\n"))
        daemon = self.start_daemon(backend, pool={"engine": "llamacpp",
                                                 "health": {"interval": "100ms"}})
        asked = lambda target: [request.target for request in list(backend.exchanges)].count(target)
        resting = lambda polled: polled["engine"]["state"] == "resting"
        self.until(daemon, backend, resting)
        self.assertEqual(asked("/metrics"), 0)
        exchange(daemon.address, "GET", "/")  # while it works, it may be polled
        self.until(daemon, backend, resting)
        before, checks = asked("/metrics"), asked("/health")
        self.eventually(lambda: asked("/health") >= checks + 10)  # four intervals of polling
        self.assertEqual(asked("/metrics"), before)

    def test_metrics_at_another_port_are_polled_without_the_key(self):
        elsewhere = self.backend(lambda request: request.answer(vllm(running=7)))
        backend = self.backend()
        key = self.folder() + "/key"
        with open(key, "w", encoding="ascii") as file:
            file.write("secret\n")
        daemon = self.start_daemon({"address": backend.address, "api_key_file": key,
                                   "metrics": f"http://{elsewhere.address}/engine/metrics"},
                                  pool={"engine": "vllm", "health": {"check": "off"}})
        self.until(daemon, backend, lambda polled: polled["running"] == 7)
        asked = elsewhere.exchanges[0]
        self.assertEqual(asked.target, "/engine/metrics")
        self.assertIsNone(asked.head.field("authorization"))

    def test_a_tls_server_is_polled_over_tls_with_its_key(self):
        authority = Authority(self.folder())
        backend = self.backend(lambda request: request.answer(vllm(running=6)),
                               tls=serving(authority.issue("127.0.0.1")))
        key = self.folder() + "/key"
        with open(key, "w", encoding="ascii") as file:
            file.write("secret\n")
        daemon = self.start_daemon({"address": backend.address, "api_key_file": key},
                                  pool={"engine": "vllm", "tls": {"ca": authority.cert},
                                        "health": {"check": "off"}})
        self.until(daemon, backend, lambda polled: polled["running"] == 6)
        self.assertEqual(backend.exchanges[0].head.field("authorization"), "Bearer secret")

    def test_the_reason_for_missing_metrics_is_reported(self):
        backend = self.backend(lambda request: request.answer(b"no", status=404))
        daemon = self.start_daemon(backend, pool={"engine": "vllm", "health": {"check": "off"}})
        shown = self.until(daemon, backend,
                           lambda polled: polled["engine"]["state"] == "failing")
        self.assertEqual(shown["engine"]["reason"], "status 404")
        self.assertIsNone(shown["age_seconds"])
        self.assertIsNone(shown["running"])
        self.assertEqual(exchange(daemon.address, "GET", "/").status, 404)


class Silence(Polling):
    def test_stalled_metrics_expire_and_delay_no_request(self):
        stalled = threading.Event()
        over = threading.Event()
        self.addCleanup(over.set)

        def script(request):
            if request.target != "/metrics":
                return request.answer(b"hello")
            if stalled.is_set():
                over.wait()
            return request.answer(vllm())
        silent = self.backend(script)
        other = self.backend(lambda request: request.answer(
            vllm() if request.target == "/metrics" else b"hello"))
        daemon = self.start_daemon(silent, other,
                                  pool={"engine": "vllm", "picker": "round-robin",
                                        "health": {"check": "off"}})
        for backend in (silent, other):
            self.until(daemon, backend, lambda polled: polled["running"] == 4)
        stalled.set()

        def forgotten(polled):
            before = time.monotonic()
            self.assertEqual(exchange(daemon.address, "GET", "/").status, 200)
            self.assert_within(time.monotonic() - before, 1)
            beside = self.polled(daemon, other)
            self.assertEqual(beside["running"], 4)
            self.assert_within(beside["age_seconds"], 1.5)
            return polled["running"] is None
        shown = self.until(daemon, silent, forgotten)
        self.assertGreaterEqual(shown["age_seconds"], 1.9)
        self.assertIsNone(shown["waiting"])
        self.assertIsNone(shown["kv_cache_ratio"])
        self.assertEqual(shown["engine"]["state"], "failing")
        self.assertEqual(shown["engine"]["reason"], "no response in time")
        older = self.until(daemon, silent,
                           lambda polled: polled["age_seconds"] > shown["age_seconds"])
        self.assertIsNone(older["running"])

        over.set()
        self.until(daemon, silent, lambda polled: polled["running"] == 4)

    def test_old_metrics_count_until_they_expire(self):
        simulators = self.simulators("--model", "m")
        daemon = self.start_daemon(simulators.addresses[0], pool={"engine": "vllm"})
        self.until(daemon, simulators.addresses[0], lambda polled: polled["running"] == 0)
        self.fault(simulators, "stale-metrics")
        self.stream_from(daemon)
        began = time.monotonic()
        shown = self.until(daemon, simulators.addresses[0],  # polled well after the stream began
                           lambda polled: polled["age_seconds"] < time.monotonic() - began - 0.5)
        self.assertEqual((shown["running"], shown["engine"]["state"]), (0, "fresh"))
        self.fault(simulators, "none")
        self.until(daemon, simulators.addresses[0], lambda polled: polled["running"] == 1)

    def test_a_slow_server_is_polled_less_often(self):
        def script(request):
            if request.target.startswith("/metrics"):
                pause.wait(0.05)  # rendering time
            request.answer(vllm())
        pause = threading.Event()
        backend = self.backend(script)
        daemon = self.start_daemon(backend, pool={"engine": "vllm", "health": {"check": "off"},
                                                 "metrics": {"interval": "100ms"}})
        shown = self.until(daemon, backend,
                           lambda polled: polled["engine"]["interval_seconds"] > 1)
        self.assertGreaterEqual(shown["engine"]["took_seconds"], 0.04)


class Gpus(Polling):
    def test_one_exporter_for_the_gpus_of_several_backends(self):
        exporter = self.backend(lambda request: request.answer(
            b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",hostname="n"} 87\n'
            b'DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",hostname="n"} 3\n'
            b'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",hostname="n"} 70\n'
            b'DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",hostname="n"} 10\n'
            b'DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",hostname="n"} 30\n'
            b'DCGM_FI_DEV_FB_FREE{gpu="1",UUID="GPU-b",hostname="n"} 90\n'))
        first, second = self.backend(), self.backend()
        daemon = self.start_daemon({"address": first.address, "gpus": ["0"]},
                                  {"address": second.address, "gpus": ["n/1"]},
                                  pool={"metrics": {"gpu": f"http://{exporter.address}/metrics"}})
        one = self.until(daemon, first, lambda polled: polled["gpu_exporter"]["state"] == "fresh")
        other = self.until(daemon, second,
                           lambda polled: polled["gpu_memory_used_bytes"] is not None)
        self.assertEqual((one["gpu_utilization_ratio"], other["gpu_utilization_ratio"]),
                         (0.87, 0.03))
        self.assertEqual((one["gpu_memory_used_bytes"], other["gpu_memory_used_bytes"]),
                         (70 << 20, 10 << 20))
        self.assertEqual(one["gpu_memory_total_bytes"], 100 << 20)
        self.assertIsNone(one["engine"], "a generic engine has no known metrics endpoint")
        self.assertEqual(exporter.accepted, 1)

    def test_a_server_whose_memory_fills_gets_no_requests_before_it_fails_any(self):
        full, sound = self.simulators("--model", "m"), self.simulators("--model", "m")
        daemon = self.start_daemon(full.addresses[0], sound.addresses[0],
                                  pool={"engine": "vllm", "picker": "gpu"})
        self.until(daemon, full.addresses[0], lambda polled: polled["kv_cache_ratio"] == 0)
        self.fault(full, "vram", gpu_memory_ratio=0.97, out_of_memory_after_seconds=3)
        self.until(daemon, full.addresses[0], lambda polled: polled["kv_cache_ratio"] == 0.97)
        picked = daemon.backend(full.addresses[0])["picks_total"]

        body = json.dumps({**CHAT, "max_tokens": 2}).encode()
        began = time.monotonic()
        while time.monotonic() - began < 4:  # at the end each request to it would fail
            answer = exchange(daemon.address, "POST", "/v1/chat/completions",
                              [("content-type", "application/json")], body)
            self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(daemon.backend(full.addresses[0])["picks_total"], picked)
        direct = exchange(full.addresses[0], "POST", "/v1/chat/completions",
                          [("content-type", "application/json")], body)
        self.assertEqual(direct.status, 500)

    def test_gpu_memory_and_engine_load_are_both_polled(self):
        simulators = self.simulators("--model", "m")
        address = simulators.addresses[0]
        daemon = self.start_daemon(address,
                                  pool={"engine": "vllm",
                                        "metrics": {"gpu": f"http://{address}/dcgm/metrics"}})
        self.until(daemon, address, lambda polled: polled["running"] == 0
                   and polled["gpu_memory_used_bytes"] is not None)
        self.fault(simulators, "vram", gpu_memory_ratio=0.97, out_of_memory_after_seconds=60)
        shown = self.until(daemon, address, lambda polled: polled["kv_cache_ratio"] == 0.97)
        self.assertEqual(shown["running"], 0)
        self.until(daemon, address, lambda polled: polled["gpu_memory_used_bytes"]
                   > 0.96 * polled["gpu_memory_total_bytes"])


if __name__ == "__main__":
    case.main()
