"""`evenkeel quick`: serves servers given by URL, and prints the configuration for them."""

import json
import re
import socket
import threading

import case
from backend import Backend
from ports import free_port, refusing_address
from process import Daemon, Process, command
from stream import Stream, exchange

CHAT = json.dumps({"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}).encode()


class Quick(Daemon):
    """`evenkeel quick` on free ports."""

    def __init__(self, *arguments):
        Process.__init__(self, ["quick", *arguments, "--listen", "127.0.0.1:0",
                                "--admin", "127.0.0.1:0"])
        try:
            self.wait_line(r"^ready$")
        except BaseException:
            self.kill()
            raise
        self.admin = self.wait_line(r"^listening name=admin address=(\S+)$")[1]
        self.address = self.wait_line(r"^listening name=public address=(\S+)$")[1]

    def notes(self):
        return [line for line in self.lines if line.startswith("evenkeel quick: ")]


def listed(name, owner):
    return json.dumps({"object": "list", "data": [{"id": name, "object": "model",
                                                   "owned_by": owner}]}).encode()


class QuickTest(case.Case):
    def quick(self, *arguments):
        quick = Quick(*arguments)
        self.addCleanup(quick.finish)
        return quick

    def scripted(self, answers, **kwargs):
        """A server with a response per path, as (status, body), and 404 for other paths."""
        def script(ask):
            status, body = answers.get(ask.target, (404, b""))
            ask.answer(body, status=status)

        return self.backend(script, **kwargs)

    def file_of(self, quick):
        """The configuration that it printed on stdout."""
        text = "\n".join(self.eventually(lambda: quick.stdout, "a file on stdout")) + "\n"
        checked = command("check", "-c", "-", text=text)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        return text

    def check_answers(self, quick, count=4):
        """Sends requests on one connection, so to one worker: each worker has its own round robin."""
        with Stream.connect(quick.address) as stream:
            for _ in range(count):
                answer = stream.exchange("POST", "/v1/chat/completions",
                                         [("Content-Type", "application/json")], CHAT)
                self.assertEqual(answer.status, 200, answer.body)

    # ---- detection ----

    def test_every_simulated_engine_is_detected(self):
        for engine in ("vllm", "sglang", "triton", "tgi", "llamacpp", "generic"):
            with self.subTest(engine=engine):
                servers = self.simulators("--engine", engine, "--model", "org/tiny", count=2)
                quick = self.quick(*(f"http://{address}" for address in servers.addresses),
                                   "--picker", "round-robin")
                self.check_answers(quick)

                text = self.file_of(quick)
                self.assertIn("  - name: tiny\n", text)
                self.assertIn("    models: [org/tiny]\n", text)
                self.assertIn("    picker: round-robin\n", text)
                self.assertIn(f"    backends: [{', '.join(servers.addresses)}]\n", text)
                engine_key = re.search(r"    engine: (\w+)\n", text)
                self.assertEqual(engine_key[1] if engine_key else "generic", engine)
                rows = quick.api("backends")
                self.assertEqual([row["picks_total"] for row in rows], [2, 2])
                self.assertEqual({row["engine"] for row in rows}, {engine})

    def test_every_other_engine_is_detected_from_its_responses(self):
        java = b'{"code": 404, "type": "ResourceNotFoundException", "message": "no"}'
        for engine, answers in {
                "trtllm": {"/v1/models": (200, listed("m", "tensorrt_llm"))},
                "ray": {"/v1/models": (200, listed("m", "vllm")),
                        "/-/routes": (200, b'{"/": "llm"}')},
                "ollama": {"/v1/models": (200, listed("m", "library")),
                           "/": (200, b"Ollama is running")},
                "tfserving": {"/v1/models": (404, b'{"error": "Malformed request: GET /v1/models"}')},
                "torchserve": {"/ping": (200, b'{"status": "Healthy"}'), "/v2": (404, java)},
        }.items():
            with self.subTest(engine=engine):
                server = self.scripted(answers)
                quick = self.quick(server.address)
                self.assertIn(f"    engine: {engine}\n", self.file_of(quick))

    def test_probes_only_read(self):
        server = self.scripted({})
        self.quick(server.address)
        asked = [(ask.method, ask.target) for ask in server.exchanges]
        self.assertEqual({method for method, _ in asked}, {"GET"})
        self.assertFalse([target for _, target in asked
                          if "metrics" in target or "health" in target], asked)

    def test_stdout_has_only_the_configuration(self):
        server = self.scripted({"/v1/models": (200, listed("m", "vllm")), "/health": (200, b"")})
        quick = self.quick(server.address)
        before = self.file_of(quick)
        answer = exchange(quick.address, "GET", "/v1/models")
        self.assertEqual(answer.status, 200)
        quick.wait_line(r'"path":"/v1/models"')  # the access log
        self.assertEqual(self.file_of(quick), before)

    def test_engines_are_mixed_when_they_serve_the_same_model(self):
        one = self.simulators("--engine", "vllm", "--model", "tiny")
        other = self.simulators("--engine", "sglang", "--model", "tiny")
        quick = self.quick(*one.addresses, *other.addresses, "--picker", "round-robin")
        self.check_answers(quick)
        self.assertEqual([row["picks_total"] for row in quick.api("backends")], [2, 2])
        self.assertIn("    engine: auto\n", self.file_of(quick))
        self.assertEqual({row["engine"] for row in quick.api("backends")}, {"vllm", "sglang"})

    def test_a_server_that_loads_its_model_is_detected(self):
        server = self.simulators("--engine", "llamacpp")
        exchange(server.addresses[0], "PUT", "/sim/v1/state", body=b'{"fault": "loading"}')
        quick = self.quick(server.addresses[0])
        self.assertIn("    engine: llamacpp\n", self.file_of(quick))

    # ---- servers that do not answer ----

    def test_a_server_that_is_not_up_yet_joins_the_pool(self):
        alive = self.simulators("--engine", "vllm")
        port = free_port()
        quick = self.quick(*alive.addresses, f"http://127.0.0.1:{port}", "--picker", "round-robin")
        self.assertTrue(any(f"warning: http://127.0.0.1:{port} does not answer "
                            "(Connection refused)" in line for line in quick.notes()), quick.notes())
        self.assertIn(f"    backends: [{alive.addresses[0]}, 127.0.0.1:{port}]\n",
                      self.file_of(quick))
        self.check_answers(quick)

        late = Backend(port=port)
        self.addCleanup(late.close)

        def asked():
            self.check_answers(quick)
            return late.exchanges

        self.eventually(asked, "a request to the server that started late")

    def test_when_no_server_answers_each_is_listed_with_its_reason(self):
        silent_socket = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent_socket.close)
        refusing = f"http://{refusing_address()}"
        silent = f"http://127.0.0.1:{silent_socket.getsockname()[1]}"

        ended = command("quick", refusing, silent)

        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stdout, "")
        self.assertIn(f"{refusing}: does not answer (Connection refused)", ended.stderr)
        self.assertIn(f"{silent}: does not answer (no response in time)", ended.stderr)

    def test_a_port_with_another_protocol_is_refused(self):
        greeting = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(greeting.close)
        kept = []

        def greet():
            while True:
                try:
                    peer, _ = greeting.accept()
                except OSError:
                    return
                peer.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
                kept.append(peer)

        threading.Thread(target=greet, daemon=True).start()
        alive = self.simulators("--engine", "vllm")

        ended = command("quick", *alive.addresses, f"127.0.0.1:{greeting.getsockname()[1]}")
        greeting.close()
        for peer in kept:
            peer.close()

        self.assertEqual(ended.returncode, 1)
        self.assertIn("does not speak HTTP/1.1", ended.stderr)

    # ---- servers with different models ----

    def ask(self, quick, model):
        body = json.dumps({"model": model, "max_tokens": 2,
                           "messages": [{"role": "user", "content": "hello"}]}).encode()
        return exchange(quick.address, "POST", "/v1/chat/completions",
                        [("Content-Type", "application/json")], body)

    def picks(self, quick, pool):
        return {row["id"]: row["picks_total"] for row in quick.api("backends")
                if row["pool"] == pool}

    def test_each_model_reaches_every_server_that_has_it(self):
        adapted = self.simulators("--engine", "vllm", "--model", "org/base", "--lora", "style")
        plain = self.simulators("--engine", "sglang", "--model", "org/base")
        other = self.simulators("--engine", "llamacpp", "--model", "qwen", count=2)
        servers = adapted.addresses + plain.addresses + other.addresses
        quick = self.quick(*servers, "--picker", "round-robin")

        self.assertIn("  - name: base\n    match:\n      model: [org/base]\n    pool: base\n",
                      self.file_of(quick))
        self.eventually(lambda: all(row["state"] == "up" for row in quick.api("backends")),
                        "all backends up")
        for model in ("org/base", "style", "qwen"):
            for _ in range(4 * quick.api("status")["workers"]):
                self.assertEqual(self.ask(quick, model).status, 200, model)
        self.assertEqual(self.picks(quick, "base").keys(),
                         set(adapted.addresses + plain.addresses))
        self.assertEqual(self.picks(quick, "style").keys(), set(adapted.addresses))
        self.assertEqual(self.picks(quick, "qwen").keys(), set(other.addresses))
        for pool in ("base", "style", "qwen"):
            self.assertTrue(all(self.picks(quick, pool).values()), pool)

        self.assertEqual(self.ask(quick, "gemma").status, 404)
        listed_models = json.loads(exchange(quick.address, "GET", "/v1/models").body)["data"]
        self.assertEqual({model["id"] for model in listed_models}, {"org/base", "style", "qwen"})

    def test_a_late_server_serves_only_the_models_that_it_turns_out_to_have(self):
        one = self.simulators("--engine", "vllm", "--model", "llama")
        other = self.simulators("--engine", "vllm", "--model", "qwen")
        port = free_port()
        late = f"127.0.0.1:{port}"
        quick = self.quick(*one.addresses, *other.addresses, late)
        self.assertTrue(any(f"warning: the models of http://{late} are unknown" in line
                            for line in quick.notes()), quick.notes())

        self.simulators("--engine", "vllm", "--model", "qwen", listen=late)

        def states():
            return {row["pool"]: row["state"] for row in quick.api("backends")
                    if row["id"] == late}

        self.eventually(lambda: states() == {"llama": "down", "qwen": "up"}, "the late server", within=20)

    def test_there_is_no_file_to_reload(self):
        quick = self.quick(*self.simulators("--engine", "vllm").addresses)
        done = command("ctl", "reload", "--admin", quick.admin)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no file to reload: `evenkeel quick` has started this daemon", done.stderr)
        self.assertIn("run -c FILE", done.stderr)

    # ---- mistakes on the command line ----

    def test_each_bad_argument_is_named_with_a_correction(self):
        ended = command("quick", "http://127.0.0.1:8000/v1", "https://gpu:8000", "localhost",
                        "http://127.0.0.1:8080", "--admin", "9901")

        self.assertEqual(ended.returncode, 2)
        self.assertEqual(ended.stdout, "")
        for expected in ("'http://127.0.0.1:8000/v1': it has a path; requests keep their own; "
                         "write http://127.0.0.1:8000\n",
                         "'https://gpu:8000': only servers without TLS can be probed; name it as a backend in a file\n",
                         "'localhost': the port is missing; write http://localhost:PORT\n",
                         "http://127.0.0.1:8080 is an address that evenkeel itself would listen on; "
                         "set another with --listen\n",
                         "--admin '9901': the port is missing; "):
            self.assertIn(expected, ended.stderr)

    def test_an_unknown_picker_is_named(self):
        ended = command("quick", "http://127.0.0.1:8000", "--picker", "leastconn")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("--picker: 'leastconn' is not one of round-robin, ", ended.stderr)
        self.assertIn("did you mean 'least-connections'?\n", ended.stderr)

    def test_a_missing_url_is_named(self):
        ended = command("quick")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("url is required", ended.stderr)

    def test_a_url_given_twice_counts_once(self):
        server = self.scripted({})
        quick = self.quick(server.address, f"http://{server.address}/")
        self.assertTrue(any("is given twice" in line for line in quick.notes()))
        self.assertEqual(len(quick.api("backends")), 1)


if __name__ == "__main__":
    case.main()
