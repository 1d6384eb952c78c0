"""npm's `@grpc/grpc-js`, through node: all kinds of calls through evenkeel to a server of grpcio's."""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import unittest

import case
from certificates import Authority
from grpc_servers import SERVICE, EchoServer, MlServer, Triton, grpc, why_no_mlserver, why_no_triton
from ports import refusing_address

SOURCE = pathlib.Path(os.environ.get("EVENKEEL_SOURCE_DIR")
                      or pathlib.Path(__file__).resolve().parents[2])
PACKAGES = SOURCE / "build" / "npm"
PROTO = pathlib.Path(__file__).resolve().parent / "kserve.proto"

# Messages are Buffers, without a schema.
PRELUDE = """
import fs from 'fs';
import grpc from '@grpc/grpc-js';
const [address, authority] = process.argv.slice(2);
const same = (value) => value;
const call = (name, requestStream, responseStream) => ({
  path: '/SERVICE/' + name, requestStream, responseStream, requestSerialize: same, requestDeserialize: same,
  responseSerialize: same, responseDeserialize: same});
const Echo = grpc.makeGenericClientConstructor({
  say: call('Say', false, false), collect: call('Collect', true, false), count: call('Count', false, true),
  chat: call('Chat', true, true), wait: call('Wait', false, true)}, 'Echo');
const credentials = authority ? grpc.credentials.createSsl(fs.readFileSync(authority))
                              : grpc.credentials.createInsecure();
const size = 64 * 1024 * 1024;
const client = new Echo(address, credentials,
                        {'grpc.max_receive_message_length': size, 'grpc.max_send_message_length': size});
const metadata = (fields) => {
  const made = new grpc.Metadata();
  for (const [key, value] of fields) made.add(key, value);
  return made;
};
const deadline = (seconds) => ({deadline: Date.now() + seconds * 1000});
const say = (message, fields = []) => new Promise((resolve) => {
  const seen = {};
  const made = client.say(Buffer.from(message), metadata(fields), deadline(20), (error, answer) => {
    seen.error = error && {code: error.code, details: error.details};
    seen.answer = answer;
    resolve(seen);
  });
  made.on('metadata', (initial) => { seen.initial = initial; });
  made.on('status', (status) => { seen.trailing = status.metadata; });
});
// Until it ends or fails: the messages, and the status.
const heard = (stream) => new Promise((resolve) => {
  const messages = [];
  stream.on('data', (message) => messages.push(String(message)));
  stream.on('error', () => {});
  stream.on('status', (status) => resolve({messages, code: status.code}));
});
const done = (found) => { console.log(JSON.stringify(found)); client.close(); };
""".replace("SERVICE", SERVICE)

KINDS = """
const servers = [];
for (let each = 0; each < 6; ++each) servers.push((await say('hello')).initial.get('server')[0]);
const collected = await new Promise((resolve) => {
  const stream = client.collect(deadline(20), (error, answer) => resolve(error ? String(error) : String(answer)));
  for (const word of ['a', 'b', 'c']) stream.write(Buffer.from(word));
  stream.end();
});
const counted = await heard(client.count(Buffer.from('5'), deadline(20)));
// Each word waits for the one before.
const chat = client.chat(deadline(20));
const words = ['one', 'two', 'three'];
chat.on('data', () => words.length ? chat.write(Buffer.from(words.shift())) : chat.end());
const chatted = heard(chat);
chat.write(Buffer.from(words.shift()));
const large = Buffer.alloc(20_000_000, 'evenkeel');
const {answer} = await say(large);
done({servers, collected, counted, chatted: await chatted, large: Buffer.compare(large, answer)});
"""

METADATA = """
const sent = [['sent-text', 'plain; text'], ['sent-any-bin', Buffer.from([0, 1, 44, 254, 255])]];
const {initial, trailing} = await say('hello', sent);
const words = Buffer.from('zu groß — 太大了');
const failed = await say('hello', [['fail-code', 'DATA_LOSS'], ['fail-text-bin', words]]);
done({initial: [initial.get('sent-text')[0], initial.get('sent-any-bin')[0].toString('hex')],
      trailing: [trailing.get('trailing-sent-text')[0], trailing.get('trailing-sent-any-bin')[0].toString('hex')],
      error: failed.error});
"""

ENDS = """
const late = await heard(client.wait(Buffer.from(''), deadline(1)));
const waiting = client.wait(Buffer.from(''), deadline(20));
waiting.on('data', () => waiting.cancel());
done({late, cancelled: await heard(waiting)});
"""

KSERVE = """
import loader from '@grpc/proto-loader';
const described = grpc.loadPackageDefinition(loader.loadSync(process.argv[4], {keepCase: true}));
const inference = new described.inference.GRPCInferenceService(address, credentials);
const ask = (method, message) => new Promise((resolve) =>
  inference[method](message, deadline(20), (error, answer) => resolve(error ? String(error) : answer)));
const count = {model_name: MODEL, inputs: [{name: 'count', datatype: 'INT32', shape: [1],
                                            contents: {int_contents: [3]}}]};
const stream = inference.ModelStreamInfer(deadline(20));
const answers = [];
const ended = new Promise((resolve) => {
  stream.on('data', (answer) => answers.push(answer));
  stream.on('error', () => {});
  stream.on('status', (status) => resolve(status.code));
});
stream.write(count);
stream.end();
const code = await ended;
const {live} = await ask('ServerLive', {});
const {ready} = await ask('ModelReady', {name: MODEL});
console.log(JSON.stringify({live, ready, code, answers: answers.length}));
inference.close();
client.close();
"""


@unittest.skipIf(grpc is None, "PyPI's grpcio is not installed (./dev setup)")
@unittest.skipUnless(shutil.which("node"), "no node here")
@unittest.skipUnless((PACKAGES / "node_modules" / "@grpc" / "grpc-js").is_dir(),
                     "npm's @grpc/grpc-js is not installed (./dev setup)")
class GrpcJs(case.Case):
    def setUp(self):
        self.authority = None

    def server(self, name=""):
        server = EchoServer(name)
        self.addCleanup(server.stop)
        return server

    def front(self, *addresses):
        return self.daemon({"listeners": [self.listener()], "pools": [
            {"name": "pool", "protocol": "h2", "picker": "round-robin", "backends": list(addresses)}]})

    def listener(self):
        return {"name": "public"}

    def ask(self, daemon, script):
        folder = pathlib.Path(self.folder())
        (folder / "ask.mjs").write_text(PRELUDE + script)
        (folder / "node_modules").symlink_to(PACKAGES / "node_modules")
        ended = subprocess.run(["node", "--preserve-symlinks-main", str(folder / "ask.mjs"), daemon.address,
                                self.authority.cert if self.authority else "", str(PROTO)],
                               capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return json.loads(ended.stdout)

    def test_all_kinds_of_calls_are_balanced_round_robin(self):
        servers = [self.server(name) for name in "abc"]
        found = self.ask(self.front(*(each.address for each in servers)), KINDS)
        self.assertEqual(collections.Counter(found.pop("servers")), {"a": 2, "b": 2, "c": 2})
        self.assertEqual(found, {
            "collected": "abc",
            "counted": {"messages": list("01234"), "code": 0},
            "chatted": {"messages": ["one", "two", "three", "bye"], "code": 0},
            "large": 0,
        })

    def test_metadata_and_a_status_message_that_is_not_ascii(self):
        found = self.ask(self.front(self.server().address), METADATA)
        self.assertEqual(found, {
            "initial": ["plain; text", "00012cfeff"], "trailing": ["plain; text", "00012cfeff"],
            "error": {"code": grpc.StatusCode.DATA_LOSS.value[0], "details": "zu groß — 太大了"}})

    def test_deadlines_and_cancelled_calls_end_at_the_server(self):
        server = self.server()
        found = self.ask(self.front(server.address), ENDS)
        self.assertEqual(found["late"]["messages"], ["waiting"])
        self.assertEqual(found["late"]["code"], grpc.StatusCode.DEADLINE_EXCEEDED.value[0])
        self.assertEqual(found["cancelled"]["code"], grpc.StatusCode.CANCELLED.value[0])
        self.assertEqual(len(server.calls), 2)
        self.assertTrue(all(call.ended.wait(10) for call in server.calls))
        self.assert_within(server.calls[1].ended_at - server.calls[1].began, 10, "not by its deadline")

    def test_no_server_is_unavailable(self):
        found = self.ask(self.front(refusing_address()), "done((await say('hello')).error);")
        self.assertEqual(found["code"], grpc.StatusCode.UNAVAILABLE.value[0])

    # ---- inference, by the descriptions in kserve.proto ----

    def infer(self, address, model):
        return self.ask(self.front(address), KSERVE.replace("MODEL", json.dumps(model)))

    def serve(self, kind):
        server = kind(self.folder())
        self.addCleanup(server.kill)
        return server.address

    @unittest.skipIf(why_no_triton(), why_no_triton())
    def test_real_triton(self):
        found = self.infer(self.serve(Triton), "tokens")
        self.assertEqual(found, {"live": True, "ready": True, "code": 0, "answers": 3})

    @unittest.skipIf(why_no_mlserver(), why_no_mlserver())
    def test_real_mlserver(self):
        found = self.infer(self.serve(MlServer), "tokens")
        self.assertEqual(found, {"live": True, "ready": True, "code": 0, "answers": 3})

    def test_the_simulator(self):
        found = self.infer(self.simulators("--engine", "triton", "--model", "m").addresses[0], "m")
        self.assertEqual(found, {"live": True, "ready": True, "code": 0, "answers": 1})


class GrpcJsOverTls(GrpcJs):
    test_real_triton = test_real_mlserver = None  # kserve_grpc_test.py has them over TLS

    def setUp(self):
        super().setUp()
        self.authority = Authority(self.folder())
        self.certificate = self.authority.issue("127.0.0.1")

    def listener(self):
        return {**super().listener(), "tls": {"certificates": [self.certificate.config()]}}


if __name__ == "__main__":
    case.main()
