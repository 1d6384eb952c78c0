"""A client that leaves stops the work of the engine within 50 ms, over each protocol, before and after the first token. The
simulator records when a request has left its engine."""

import json
import struct
import time

import case
from http2 import Peer
from process import SANITIZED
from stream import Stream, exchange

AT_ONCE = 0.05 if not SANITIZED else 1.0  # seconds; the median of ROUNDS counts, since other tests delay single ones
ROUNDS = 5
JSON = [("content-type", "application/json")]
CHAT = json.dumps({"model": "m", "stream": True, "max_tokens": 100_000, "ignore_eos": True,
                   "messages": [{"role": "user", "content": "go on"}]}).encode()
INFER_STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"


def varint(number):
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def message(number, payload):
    """A field of a protobuf message: text, bytes or a message."""
    payload = payload.encode() if isinstance(payload, str) else payload
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def infer_text(model, tokens):
    """A gRPC message with a ModelInferRequest that generates so many tokens."""
    words = b"go on"
    tensor = message(1, "text_input") + message(2, "BYTES") + message(3, varint(1)) + \
        message(5, message(8, words))
    parameter = message(1, "max_tokens") + message(2, varint(2 << 3) + varint(tokens))
    request = message(1, model) + message(4, parameter) + message(5, tensor)
    return b"\0" + struct.pack("!I", len(request)) + request


class AbortDelay(case.Case):
    def check(self, daemon, simulators, begin):
        """`begin()` starts a generation and returns what the client does to leave."""
        def report():
            return json.loads(exchange(simulators.control, target="/sim/v1/report").body)["servers"][0]

        delays = []
        for number in range(1, ROUNDS + 1):
            leave = begin()
            self.eventually(lambda: report()["running"] == 1, "a request in the engine")
            left = time.time()
            leave()
            seen = self.eventually(lambda: (now := report())["aborted"] == number and now, "the end of the generation")
            self.assertEqual((seen["running"], seen["waiting"]), (0, 0))
            delays.append(seen["abort_delay_seconds"]["last_at_unix"] - left)
        print(f"\n  {', '.join(f'{delay * 1000:.0f}' for delay in delays)} ms ", end="", flush=True)
        self.assert_within(sorted(delays)[ROUNDS // 2], AT_ONCE, delays)
        daemon.wait_at_rest()
        self.assertEqual(sum(each["errors_total"] for each in daemon.api("backends")), 0, "it was not the server's fault")
        self.assertEqual({each["state"] for each in daemon.api("backends")}, {"up"})

    def front(self, speed, *arguments, **pool):
        simulators = self.simulators("--model", "m", *arguments, speed=speed)
        return self.start_daemon(*simulators.addresses, pool=pool), simulators

    def test_http1_while_it_streams(self):
        daemon, simulators = self.front(1, engine="vllm")

        def begin():
            stream = Stream.connect(daemon.address)
            self.addCleanup(stream.close)
            stream.ask("POST", "/v1/chat/completions", JSON, CHAT)
            self.assertTrue(stream.read_chunk(stream.read_head()))
            return stream.close

        self.check(daemon, simulators, begin)

    def test_http1_before_the_first_token(self):
        daemon, simulators = self.front(0.02, engine="vllm")

        def begin():
            stream = Stream.connect(daemon.address)
            self.addCleanup(stream.close)
            stream.ask("POST", "/v1/chat/completions", JSON, CHAT)
            return stream.reset

        self.check(daemon, simulators, begin)

    def test_http2_stream_reset(self):
        daemon, simulators = self.front(1, engine="vllm")
        peer = Peer.connect(daemon.address)
        self.addCleanup(peer.close)

        def begin():
            call = peer.request("POST", "/v1/chat/completions", JSON, CHAT)
            call.read_head()
            return call.reset

        self.check(daemon, simulators, begin)

    def test_http2_connection_closed(self):
        daemon, simulators = self.front(1, engine="vllm")

        def begin():
            peer = Peer.connect(daemon.address)
            self.addCleanup(peer.close)
            peer.request("POST", "/v1/chat/completions", JSON, CHAT).read_head()
            return peer.cut

        self.check(daemon, simulators, begin)

    def test_grpc_call_cancelled(self):
        daemon, simulators = self.front(1, "--engine", "triton", engine="triton", protocol="h2")
        peer = Peer.connect(daemon.address)
        self.addCleanup(peer.close)

        def begin():
            call = peer.request("POST", INFER_STREAM, [("content-type", "application/grpc"), ("te", "trailers")], end=False)
            call.send(infer_text("m", 100_000))
            self.assertTrue(call.read_head() and call.read_piece())
            return call.reset

        self.check(daemon, simulators, begin)


if __name__ == "__main__":
    case.main()
