"""Credentials that are right, wrong, expired, revoked, for another model or over their limit: what clients raise."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import unittest

import case
from process import command

try:
    import openai
except ImportError:
    openai = None
try:
    import anthropic
except ImportError:
    anthropic = None
try:
    import numpy
    import tritonclient.grpc
    import tritonclient.http
    from tritonclient.utils import InferenceServerException
except ImportError:
    tritonclient = None

SOURCE = pathlib.Path(os.environ.get("EVENKEEL_SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[2])
PACKAGES = SOURCE / "build" / "npm" / "node_modules"
TENANTS = [{"name": "acme"}, {"name": "small", "models": ["other-*"]}, {"name": "tiny", "limits": {"requests": "1/day"}}]
MESSAGES = [{"role": "user", "content": "hi"}]
# What a client raises for the credentials that are not right.
REFUSALS = {"wrong": 401, "expired": 401, "revoked": 401, "small": 403, "tiny": 429}
ERRORS = {401: "AuthenticationError", 403: "PermissionDeniedError", 429: "RateLimitError"}
NODE = """
import OpenAI from 'openai';
import Anthropic from '@anthropic-ai/sdk';
const [address, keys] = [process.argv[2], JSON.parse(process.argv[3])];
const messages = [{role: 'user', content: 'hi'}];
const said = {openai: {}, anthropic: {}};
for (const [name, apiKey] of Object.entries(keys)) {
  const ask = {
    openai: () => new OpenAI({baseURL: `http://${address}/v1`, apiKey, maxRetries: 0, timeout: 20000})
      .chat.completions.create({model: 'm', max_tokens: 4, messages}),
    anthropic: () => new Anthropic({baseURL: `http://${address}`, apiKey, maxRetries: 0, timeout: 20000})
      .messages.create({model: 'm', max_tokens: 4, messages}),
  };
  for (const [sdk, call] of Object.entries(ask)) {
    try { await call(); said[sdk][name] = 'served'; }
    catch (error) { said[sdk][name] = error.constructor.name; }
  }
}
console.log(JSON.stringify(said));
"""


class RefusedClients(case.Case):
    def setUp(self):
        file = os.path.join(self.folder(), "keys.txt")

        def create(tenant):
            done = command("key", "create", "--file", file, "--tenant", tenant)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.strip()

        def hash_of(key):
            return hashlib.sha256(key.encode()).hexdigest()

        self.keys = {"right": create("acme"), "wrong": "ek_wrong", "expired": "ek_expired", "revoked": create("acme"),
                     "small": create("small"), "tiny": create("tiny")}
        with open(file, "a", encoding="utf-8") as keys:
            keys.write(f"sha256:{hash_of('ek_expired')} tenant=acme expires=2020-01-01T00:00:00Z\n")
        done = command("key", "revoke", "--file", file, hash_of(self.keys["revoked"])[:8])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.file = file

    def guarded(self, server, **pool):
        return self.start_daemon(server, pool={"health": {"check": "off"}, "metrics": {"scrape": "off"}, **pool},
                                 auth={"keys": {"file": self.file}}, tenants=TENANTS)

    def models(self):
        """A server of both APIs."""
        def answer(request):
            body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m",
                    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
            if request.target == "/v1/messages":
                body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                        "stop_sequence": None, "content": [{"type": "text", "text": "hi"}],
                        "usage": {"input_tokens": 1, "output_tokens": 1}}
            request.answer(json.dumps(body).encode(), fields=[("content-type", "application/json")])
        return self.backend(answer)

    def check(self, ask, raised):
        """`ask(key)` is served once for the right key and the first request of `tiny`; `raised(error)`: what was raised."""
        ask(self.keys["right"])
        ask(self.keys["tiny"])
        for name, status in REFUSALS.items():
            with self.subTest(name), self.assertRaises(Exception) as caught:
                ask(self.keys[name])
            self.assertEqual(raised(caught.exception), status, name)

    @unittest.skipIf(openai is None, "PyPI's openai is not installed (./dev setup)")
    def test_openai(self):
        daemon = self.guarded(self.models())

        def ask(key):
            with openai.OpenAI(base_url=f"http://{daemon.address}/v1", api_key=key, max_retries=0, timeout=20) as client:
                client.chat.completions.create(model="m", max_tokens=4, messages=MESSAGES)

        self.check(ask, lambda error: isinstance(error, getattr(openai, ERRORS[error.status_code])) and error.status_code)

    @unittest.skipIf(anthropic is None, "PyPI's anthropic is not installed (./dev setup)")
    def test_anthropic(self):
        daemon = self.guarded(self.models())

        def ask(key):
            with anthropic.Anthropic(base_url=f"http://{daemon.address}", api_key=key, max_retries=0, timeout=20) as client:
                client.messages.create(model="m", max_tokens=4, messages=MESSAGES)

        self.check(ask, lambda error: isinstance(error, getattr(anthropic, ERRORS[error.status_code])) and error.status_code)

    @unittest.skipUnless(shutil.which("node"), "no node here")
    @unittest.skipUnless((PACKAGES / "@anthropic-ai").is_dir(), "npm's @anthropic-ai/sdk is not installed (./dev setup)")
    def test_node(self):
        daemon = self.guarded(self.models())
        folder = pathlib.Path(self.folder())
        (folder / "ask.mjs").write_text(NODE)
        (folder / "node_modules").symlink_to(PACKAGES)
        # The one request of `tiny` is served to the SDK that asks first.
        done = subprocess.run(["node", "--preserve-symlinks-main", str(folder / "ask.mjs"), daemon.address,
                               json.dumps(self.keys)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = {"right": "served", **{name: ERRORS[status] for name, status in REFUSALS.items()}}
        self.assertEqual(json.loads(done.stdout), {"openai": {**expected, "tiny": "served"}, "anthropic": expected})

    @unittest.skipIf(tritonclient is None, "PyPI's tritonclient is not installed (./dev setup)")
    def test_tritonclient(self):
        tensor_of = {"http": tritonclient.http, "grpc": tritonclient.grpc}
        words = {401: ["401", "UNAUTHENTICATED"], 403: ["403", "PERMISSION_DENIED"], 429: ["429", "RESOURCE_EXHAUSTED"]}
        for protocol, module in tensor_of.items():
            with self.subTest(protocol):
                self.setUp()
                simulator = self.simulators("--engine", "triton", "--model", "m").addresses[0]
                daemon = self.start_daemon(simulator, pool={"engine": "triton"}, auth={"keys": {"file": self.file}},
                                           tenants=TENANTS)

                def ask(key):
                    tensor = module.InferInput("text_input", [1, 1], "BYTES")
                    data = numpy.array([["hi"]], dtype=object)
                    if protocol == "http":
                        tensor.set_data_from_numpy(data, binary_data=False)
                    else:
                        tensor.set_data_from_numpy(data)
                    with module.InferenceServerClient(daemon.address) as client:
                        client.infer("m", [tensor], headers={"authorization": f"Bearer {key}"})

                def raised(error):
                    self.assertIsInstance(error, InferenceServerException)
                    return next(status for status, names in words.items() if any(name in str(error.status()) for name in names))

                self.check(ask, raised)


if __name__ == "__main__":
    case.main()
