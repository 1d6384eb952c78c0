"""`evenkeel import`: what it prints passes `evenkeel check`, and serves as the file that it was made from says."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import yaml

import case
import certificates
from process import command
from stream import exchange

ROOT = pathlib.Path(os.environ.get("EVENKEEL_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2])
SAMPLES = ROOT / "tests" / "import" / "samples"


class Import(case.Case):
    def imported(self, program, text):
        """(path of the printed configuration, what was said on stderr)"""
        folder = pathlib.Path(self.folder())
        source = folder / "source"
        source.write_text(text)
        ended = command("import", program, str(source))
        self.assertEqual(ended.returncode, 0, ended.stderr)
        path = folder / "evenkeel.yaml"
        path.write_text(ended.stdout)
        return path, ended.stderr

    def test_samples_pass_the_check_once_their_files_are_there(self):
        folder = pathlib.Path(self.folder())
        issued = certificates.Authority(folder).issue("llm.example.com")
        both = folder / "site.pem"
        both.write_text(pathlib.Path(issued.cert).read_text() + pathlib.Path(issued.key).read_text())
        for key in ("OPENAI_API_KEY", "MISTRAL_API_KEY"):
            (folder / key).write_text("provider-key")
        samples = sorted(each.name for each in SAMPLES.iterdir())
        self.assertGreater(len(samples), 17)
        for name in samples:
            text = (SAMPLES / name).read_text()
            text = re.sub(r"/etc/ssl/\w+\.pem", issued.cert, text)
            text = re.sub(r"/etc/ssl/\w+\.key", issued.key, text)
            text = text.replace("/etc/ssl/private", str(folder)).replace("/var/log/nginx", str(folder))
            path, said = self.imported(re.split(r"[-.]", name)[0], text)
            path.write_text(path.read_text().replace("/etc/evenkeel", str(folder)))
            checked = command("check", "--offline", "-c", str(path))
            self.assertEqual(checked.returncode, 0, f"{name}: {checked.stderr}")
            self.assertNotIn("very-secret", said + path.read_text(), name)
            if "-" not in name:
                self.assertIn("left out: ", said)
                self.assertIn("# line ", path.read_text())

    def test_an_imported_file_serves(self):
        chat = self.backend(lambda exchange: exchange.answer(b"chat"))
        embed = self.backend(lambda exchange: exchange.answer(b"embed"))
        path, _ = self.imported("nginx", f"""
            upstream chat {{ least_conn; server {chat.address}; }}
            server {{ listen 127.0.0.1:8080;
                location /v1/ {{ proxy_pass http://chat; }}
                location = /v1/embeddings {{ proxy_pass http://{embed.address}; }} }}""")
        config = yaml.safe_load(path.read_text())
        self.assertEqual(config.pop("listeners"), [{"address": "127.0.0.1:8080"}])
        daemon = self.daemon({**config, "pools": [{**pool, "engine": "generic"} for pool in config["pools"]]})
        for target, body in (("/v1/chat/completions", b"chat"), ("/v1/embeddings", b"embed")):
            self.assertEqual(exchange(daemon.address, target=target).body, body)

    def curl(self, daemon, path, *options, model=None):
        """(status, header fields, body) of an answer; `model`: asks it for a chat."""
        body = {"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}
        chat = ["--header", "content-type: application/json", "--data", json.dumps(body)] if model else []
        ended = subprocess.run(["curl", "--silent", "--show-error", "--include", "--max-time", "20", *chat, *options,
                                f"http://{daemon.address}{path}"], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        head, _, text = ended.stdout.partition("\n\n")
        return int(head.split()[1]), head.lower(), text

    @unittest.skipUnless(shutil.which("curl"), "no curl here")
    def test_a_published_file_of_nginx_serves_its_page_within_its_limits(self):
        simulators = self.simulators("--model", "small")
        text = (SAMPLES / "nginx-tgi-limit.conf").read_text()
        path, _ = self.imported("nginx", text.replace("127.0.0.1:8000", simulators.addresses[0]))
        daemon = self.daemon(yaml.safe_load(path.read_text()) | {"listeners": [{}]})

        page = ("--header", "origin: https://chat.example.org")
        preflight = self.curl(daemon, "/v1/chat/completions", *page, "--request", "OPTIONS",
                              "--header", "access-control-request-method: POST")
        answers = []
        while len(answers) < 500 and (not answers or answers[-1][0] == 200):
            answers.append(self.curl(daemon, "/v1/chat/completions", *page, model="small"))

        self.assertEqual(preflight[0], 204)
        self.assertIn("access-control-allow-origin: https://chat.example.org", preflight[1])
        self.assertIn("access-control-allow-origin: https://chat.example.org", answers[0][1])
        self.assertEqual(json.loads(answers[0][2])["model"], "small")
        self.assertGreaterEqual(len(answers), 11, "of a burst of 11 the preflight took one, and one more is refused")
        self.assertEqual(answers[-1][0], 429)

    @unittest.skipUnless(shutil.which("curl"), "no curl here")
    def test_keys_of_a_published_file_of_nginx_let_in_its_clients(self):
        simulators = self.simulators("--model", "small")
        text = (SAMPLES / "nginx-vllm-keys.conf").read_text()
        path, _ = self.imported("nginx", text.replace("127.0.0.1:8000", simulators.addresses[0]))
        daemon = self.daemon(yaml.safe_load(path.read_text()) | {"listeners": [{}]})

        def status(path, *options, model=None):
            return self.curl(daemon, path, *options, model=model)[0]

        chat = "/v1/chat/completions"
        self.assertEqual(status(chat, "--header", "authorization: Bearer sk-a-very-secret", model="small"), 200)
        self.assertEqual(status(chat, "--header", "authorization: Bearer sk-c-very-secret", model="small"), 401)
        self.assertEqual(status(chat, model="small"), 401)
        self.assertEqual(status("/health"), 200)

    @unittest.skipUnless(shutil.which("curl"), "no curl here")
    def test_a_published_file_of_litellm_serves_whose_key_it_has(self):
        simulators = self.simulators("--model", "facebook/opt-125m")
        text = (SAMPLES / "litellm-azure.yaml").read_text()
        path, _ = self.imported("litellm", text.replace("10.0.0.1:4000", simulators.addresses[0]))
        key_file = pathlib.Path(self.folder()) / "MISTRAL_API_KEY"
        key_file.write_text("provider-key")
        config = yaml.safe_load(path.read_text().replace("/etc/evenkeel/MISTRAL_API_KEY", str(key_file)))
        daemon = self.daemon(config | {"listeners": [{}]})

        key = ("--header", "authorization: Bearer sk-very-secret")
        status, head, body = self.curl(daemon, "/v1/chat/completions", *key, model="vllm-models")

        self.assertEqual((status, json.loads(body).get("model")), (200, "vllm-models"), body)
        self.assertIn("x-ratelimit-limit-requests: 1440", head)
        self.assertEqual(self.curl(daemon, "/v1/chat/completions", model="vllm-models")[0], 401)
        self.assertEqual(self.curl(daemon, "/v1/chat/completions", *key, model="gpt-4o")[0], 404)

    def test_what_was_not_reachable_stays_so(self):
        api = self.backend(lambda exchange: exchange.answer(b"api"))
        text = f"""
            server {{ listen 127.0.0.1:8080;
                location / {{ proxy_pass http://{api.address}; proxy_set_header X-User "very-secret"; }}
                location /metrics/ {{ deny all; }}
                location /embed/ {{ proxy_pass http://{api.address}/x?y=z; }}
                location = /up {{ return 200 "up\\n"; }} }}"""
        path, said = self.imported("nginx", text)
        self.assertNotIn("very-secret", said + path.read_text())
        self.assertTrue(said.splitlines()[0].endswith("(a field of that name reaches backends as clients send it)"))
        self.assertIn("NOT PROTECTED ANY MORE: ", said.splitlines()[0])
        self.assertIn("Listens on 127.0.0.1:8080.", path.read_text().splitlines()[0])
        config = yaml.safe_load(path.read_text())
        config.pop("listeners")
        daemon = self.daemon({**config, "pools": [{**pool, "engine": "generic"} for pool in config["pools"]]})
        answers = {"/x": (200, b"api"), "/metrics/": (403, b""), "/metrics": (403, b""), "//metrics/x": (403, b""),
                   "/%6detrics/x": (403, b""), "/embed/x": (501, b""), "/up": (200, b"up\n")}
        for target, (status, body) in answers.items():
            answer = exchange(daemon.address, target=target)
            self.assertEqual(answer.status, status, target)
            if body:
                self.assertEqual(answer.body, body)

    def test_addresses_with_other_routes_are_refused(self):
        source = pathlib.Path(self.folder()) / "two.conf"
        source.write_text("server { listen 80; location / { proxy_pass http://api; } }\n"
                          "server { listen 127.0.0.1:9000; location / { proxy_pass http://admin; } }\n")
        ended = command("import", "nginx", str(source))
        self.assertEqual((ended.returncode, ended.stdout), (1, ""))
        self.assertIn(f"{source}:2: error: server of line 2 (127.0.0.1:9000) has other routes than", ended.stderr)
        ended = command("import", "nginx", str(source), "--listen", "127.0.0.1:9000")
        self.assertEqual(ended.returncode, 0)
        self.assertNotIn("api", ended.stdout)

    def test_what_cannot_be_read_is_an_error_with_its_place(self):
        folder = pathlib.Path(self.folder())
        broken = folder / "broken.conf"
        broken.write_text("http {\n  server {\n")
        ended = command("import", "nginx", str(broken))
        self.assertEqual((ended.returncode, ended.stdout), (1, ""))
        self.assertEqual(ended.stderr, f"{broken}:2: error: a '{{' without its '}}'\n")
        self.assertEqual(command("import", "haproxy", str(folder / "missing")).returncode, 1)
        self.assertEqual(command("import", "envoy", str(broken)).returncode, 2)
        self.assertEqual(command("import", "litellm", "-", text="model_list: []\n").returncode, 1)


if __name__ == "__main__":
    case.main()
