"""curl and Python's http.client receive the same through evenkeel as without it."""

import http.client
import json
import os
import shutil
import subprocess
import unittest

import case

CHAT = {"model": "m", "max_tokens": 12, "seed": 12345678901234567890123,
        "temperature": 0.30000000000000004, "x_unknown": {"kept": True},
        "messages": [{"role": "user", "content": "Is it byte for byte? \u00e9 \U0001f41f"}]}


def chat(**more):
    return json.dumps({**CHAT, **more}).encode()


class AgainstTheSimulator(case.Case):
    """Each test calls the server directly and through evenkeel, and compares the responses."""

    def setUp(self):
        self.simulator = self.simulators("--model", "m").addresses[0]
        self.daemon_ = self.start_daemon(self.simulator, pool={"engine": "vllm"})

    def both(self, ask):
        return ask(self.simulator), ask(self.daemon_.address)

    def curl(self, *arguments):
        ended = subprocess.run(["curl", "--silent", "--show-error", "--max-time", "20", *arguments],
                               capture_output=True, check=False, timeout=30)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return ended.stdout

    @unittest.skipUnless(shutil.which("curl"), "no curl here")
    def test_curl_streams_a_chat_completion(self):
        direct, relayed = self.both(lambda address: self.curl(
            "--no-buffer", "-H", "Content-Type: application/json",
            "--data-binary", chat(stream=True).decode(), f"http://{address}/v1/chat/completions"))
        self.assertEqual(relayed, direct)
        self.assertGreater(direct.count(b"data: "), 10)
        self.assertTrue(direct.endswith(b"data: [DONE]\n\n"))

    @unittest.skipUnless(shutil.which("curl"), "no curl here")
    def test_curl_gets_a_whole_completion_and_the_models(self):
        for arguments in (["-d", chat().decode(), "-H", "Content-Type: application/json", "/v1/chat/completions"],
                          ["/v1/models"], ["-X", "POST", "-d", "{}", "/v1/completions"], ["/nowhere"]):
            *options, path = arguments
            direct, relayed = self.both(lambda address: self.curl(*options, f"http://{address}{path}"))
            self.assertEqual(relayed, direct, path)
            self.assertTrue(direct, path)

    @unittest.skipUnless(shutil.which("curl"), "no curl here")
    def test_curl_sends_a_large_file_after_100_continue(self):
        path = os.path.join(self.folder(), "large.json")
        with open(path, "wb") as file:
            file.write(chat(messages=[{"role": "user", "content": "word " * 400_000}]))
        direct, relayed = self.both(lambda address: self.curl(
            "-H", "Expect: 100-continue", "-H", "Content-Type: application/json", "-T", path,
            "-X", "POST", f"http://{address}/v1/chat/completions"))
        self.assertEqual(relayed, direct)

    def test_http_client_streams_on_a_connection_that_it_keeps(self):
        def ask(address):
            connection = http.client.HTTPConnection(address, timeout=20)
            events = []
            for _ in range(3):
                connection.request("POST", "/v1/chat/completions", chat(stream=True),
                                   {"Content-Type": "application/json"})
                answer = connection.getresponse()
                self.assertEqual(answer.status, 200)
                self.assertTrue(answer.headers["Content-Type"].startswith("text/event-stream"))
                events.append(list(answer))
            connection.close()
            return events

        direct, relayed = self.both(ask)
        self.assertEqual(relayed, direct)

    def test_http_client_sends_an_iterable_as_chunks(self):
        def ask(address):
            connection = http.client.HTTPConnection(address, timeout=20)
            whole = chat()
            pieces = [whole[at:at + 7] for at in range(0, len(whole), 7)]
            connection.request("POST", "/v1/chat/completions", iter(pieces),
                               {"Content-Type": "application/json"}, encode_chunked=True)
            answer = connection.getresponse().read()
            connection.close()
            return answer

        direct, relayed = self.both(ask)
        self.assertEqual(relayed, direct)
        self.assertIn("choices", json.loads(direct))


class WhatTheyAdd(case.Case):
    def test_http_client_sees_the_same_fields_as_without_us(self):
        fields = [("Content-Type", "application/json"), ("openai-version", "2020-10-01"),
                  ("x-ratelimit-remaining-requests", "9999"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")]
        backend = self.backend(lambda ask: ask.answer(b"{}", fields=fields))
        daemon = self.start_daemon(backend)

        def ask(address):
            connection = http.client.HTTPConnection(address, timeout=20)
            connection.request("GET", "/v1/models", headers={"Authorization": "Bearer k", "X-A": "b"})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            return answer.getheaders()

        ask(backend.address)
        relayed = [each for each in ask(daemon.address) if each[0].lower() != "x-request-id"]
        self.assertEqual([each for each in relayed if each[0].lower() != "content-length"], fields)
        direct, through = (each.head.fields for each in backend.exchanges)
        ours = {"x-request-id", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "via", "host"}
        self.assertEqual([each for each in through if each[0].lower() not in ours],
                         [each for each in direct if each[0].lower() != "host"])


if __name__ == "__main__":
    case.main()
