"""grpcurl, which calls a server by its reflected descriptors: reflection, health and inference through evenkeel."""

import base64
import json
import os
import pathlib
import subprocess
import unittest

import case
from certificates import Authority
from grpc_servers import EchoServer, MlServer, Triton, grpc, why_no_mlserver, why_no_triton
from ports import refusing_address

SOURCE = pathlib.Path(os.environ.get("EVENKEEL_SOURCE_DIR")
                      or pathlib.Path(__file__).resolve().parents[2])
GRPCURL = SOURCE / "build" / "go" / "bin" / "grpcurl"

# Its exit code is 64 plus the status.
DEADLINE_EXCEEDED, UNIMPLEMENTED, UNAVAILABLE = (64 + each for each in (4, 12, 14))


def tensor(model, name, datatype, **contents):
    values, = contents.values()
    return {"model_name": model, "inputs": [
        {"name": name, "datatype": datatype, "shape": [len(values)], "contents": contents}]}


def values_in(text):
    """One JSON value after the other."""
    decoder, values, at = json.JSONDecoder(), [], 0
    while (rest := text[at:].lstrip()):
        value, used = decoder.raw_decode(rest)
        values.append(value)
        at = len(text) - len(rest) + used
    return values


@unittest.skipUnless(GRPCURL.exists(), "grpcurl is not built (./dev setup)")
@unittest.skipIf(grpc is None, "PyPI's grpcio is not installed (./dev setup)")
class Grpcurl(case.Case):
    def setUp(self):
        self.trust = ["-plaintext"]
        self.listener = {"name": "public"}

    def front(self, address):
        return self.daemon({"listeners": [self.listener], "pools": [
            {"name": "pool", "protocol": "h2", "backends": [address]}]})

    def server(self):
        server = EchoServer(described=True)
        self.addCleanup(server.stop)
        return server.address

    def ask(self, *arguments, given=None, code=0):
        """Its output: the responses as values, or its error text."""
        ended = subprocess.run([str(GRPCURL), *self.trust, *arguments], input=given, text=True, capture_output=True,
                               timeout=60, check=False)
        self.assertEqual(ended.returncode, code, ended.stderr)
        return ended.stdout if code == 0 else ended.stderr

    def test_reflection(self):
        daemon = self.front(self.server())
        services = self.ask(daemon.address, "list").split()
        self.assertEqual(services, ["grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"])
        self.assertIn("rpc Check", self.ask(daemon.address, "describe", "grpc.health.v1.Health"))

    def test_a_call_by_reflection(self):
        daemon = self.front(self.server())
        answer = self.ask("-d", '{"service": ""}', daemon.address, "grpc.health.v1.Health/Check")
        self.assertEqual(json.loads(answer), {"status": "SERVING"})

    def test_a_stream_that_its_deadline_ends(self):
        daemon = self.front(self.server())
        words = self.ask("-max-time", "1", daemon.address, "grpc.health.v1.Health/Watch", code=DEADLINE_EXCEEDED)
        self.assertIn("DeadlineExceeded", words)

    def test_statuses_of_a_server_and_our_own(self):
        daemon = self.front(self.server())
        words = self.ask("-d", '{"service": "nothing"}', daemon.address, "grpc.health.v1.Health/Check", code=64 + 5)
        self.assertIn("NotFound", words)
        unreachable = self.front(refusing_address())
        self.assertIn("Unavailable", self.infer(unreachable, "ServerLive", code=UNAVAILABLE))

    # ---- inference, by the descriptors in kserve.proto ----

    def infer(self, daemon, method, *messages, code=0):
        said = self.ask("-import-path", str(pathlib.Path(__file__).parent), "-proto", "kserve.proto", "-d", "@",
                        daemon.address, f"inference.GRPCInferenceService/{method}",
                        given="\n".join(map(json.dumps, messages)) or "{}", code=code)
        return values_in(said) if code == 0 else said

    def serve(self, kind):
        server = kind(self.folder())
        self.addCleanup(server.kill)
        return server.address

    @unittest.skipIf(why_no_triton(), why_no_triton())
    def test_real_triton(self):
        daemon = self.front(self.serve(Triton))
        self.assertEqual(self.infer(daemon, "ServerLive"), [{"live": True}])
        self.assertEqual(self.infer(daemon, "ModelReady", {"name": "echo"}), [{"ready": True}])
        answer, = self.infer(daemon, "ModelInfer", tensor("echo", "in", "UINT8", uint_contents=[1, 2, 255]))
        self.assertEqual(base64.b64decode(answer["rawOutputContents"][0]), b"\1\2\xff")
        answers = self.infer(daemon, "ModelStreamInfer", tensor("tokens", "count", "INT32", int_contents=[2]),
                             tensor("tokens", "count", "INT32", int_contents=[3]))
        tokens = [base64.b64decode(each["inferResponse"]["rawOutputContents"][0])[0] for each in answers]
        self.assertEqual(sorted(tokens), [0, 0, 1, 1, 2])

    @unittest.skipIf(why_no_mlserver(), why_no_mlserver())
    def test_real_mlserver(self):
        daemon = self.front(self.serve(MlServer))
        self.assertEqual(self.infer(daemon, "ServerReady"), [{"ready": True}])
        answer, = self.infer(daemon, "ModelInfer", tensor("echo", "in", "INT32", int_contents=[1, 2, 255]))
        self.assertEqual(answer["outputs"][0]["contents"], {"intContents": [1, 2, 255]})

    def test_the_simulator(self):
        daemon = self.front(self.simulators("--engine", "triton", "--model", "m").addresses[0])
        self.assertEqual(self.infer(daemon, "ServerLive"), [{"live": True}])
        self.assertEqual(self.infer(daemon, "ModelReady", {"name": "m"}), [{"ready": True}])
        asked = tensor("m", "in", "INT32", int_contents=[1, 2, 3])
        answer, = self.infer(daemon, "ModelInfer", asked)
        self.assertEqual(answer["modelName"], "m")
        streamed = self.infer(daemon, "ModelStreamInfer", asked, asked)
        self.assertEqual([each["inferResponse"]["outputs"] for each in streamed], [answer["outputs"]] * 2)


class GrpcurlOverTls(Grpcurl):
    test_real_triton = test_real_mlserver = None  # kserve_grpc_test.py has them over TLS

    def setUp(self):
        super().setUp()
        authority = Authority(self.folder())
        self.trust = ["-cacert", authority.cert]
        self.listener = {**self.listener, "tls": {"certificates": [authority.issue("127.0.0.1").config()]}}


if __name__ == "__main__":
    case.main()
