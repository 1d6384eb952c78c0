"""npm's `openai`, through node: objects and events through evenkeel equal those without it."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

import case
from ports import refusing_address

SOURCE = pathlib.Path(os.environ.get("EVENKEEL_SOURCE_DIR")
                      or pathlib.Path(__file__).resolve().parents[2])
PACKAGES = SOURCE / "build" / "npm"

SCRIPT = """
import OpenAI from 'openai';
const client = new OpenAI({baseURL: `http://${process.argv[2]}/v1`, apiKey: 'sk-test', maxRetries: 0,
                           timeout: 20000});
const chat = (more) => client.chat.completions.create({
  model: 'm', max_tokens: 16, messages: [{role: 'user', content: 'Count to ten.'}], ...more});
try {
  const whole = await chat({});
  const events = [];
  for await (const event of await chat({stream: true})) events.push(event);
  console.log(JSON.stringify({whole, events, models: (await client.models.list()).data}));
} catch (error) {
  console.log(JSON.stringify({error: {name: error.constructor.name, status: error.status,
                                      code: error.code, type: error.type}}));
}
"""


@unittest.skipUnless(shutil.which("node"), "no node here")
@unittest.skipUnless((PACKAGES / "node_modules" / "openai").is_dir(),
                     "npm's openai is not installed (./dev setup)")
class OpenAi(case.Case):
    def ask(self, address):
        folder = pathlib.Path(self.folder())
        (folder / "ask.mjs").write_text(SCRIPT)
        (folder / "node_modules").symlink_to(PACKAGES / "node_modules")
        ended = subprocess.run(["node", "--preserve-symlinks-main", str(folder / "ask.mjs"), address],
                               capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return json.loads(ended.stdout)

    def test_completions_events_and_models_are_the_same(self):
        simulator = self.simulators("--model", "m").addresses[0]
        daemon = self.start_daemon(simulator, pool={"engine": "vllm"})

        direct, relayed = self.ask(simulator), self.ask(daemon.address)

        self.assertEqual(relayed, direct)
        self.assertGreater(len(direct["events"]), 16)
        self.assertTrue(direct["whole"]["choices"][0]["message"]["content"])

    def test_our_errors_are_errors_of_the_sdk(self):
        daemon = self.start_daemon(refusing_address())
        self.assertEqual(self.ask(daemon.address)["error"], {
            "name": "InternalServerError", "status": 502, "code": "connect_failed",
            "type": "upstream_error"})


if __name__ == "__main__":
    case.main()
