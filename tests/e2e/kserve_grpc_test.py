"""PyPI's `tritonclient`, the client of Triton's users: KServe's protocol over gRPC, through evenkeel to real Triton,
to real MLServer and to the simulator; over clear HTTP/2, and over TLS."""

import asyncio
import queue
import tempfile
import unittest

import case
from certificates import Authority
from grpc_servers import LARGEST, MlServer, Triton, grpc, why_no_mlserver, why_no_triton

try:
    import numpy
    import tritonclient.grpc
    import tritonclient.grpc.aio
    from tritonclient.grpc import service_pb2
    from tritonclient.utils import InferenceServerException
except ImportError:
    tritonclient = None

PATIENCE = 20
needs_client = unittest.skipIf(grpc is None or tritonclient is None,
                               "PyPI's tritonclient[grpc] is not installed (./dev setup)")


class Kserve(case.Case):
    """Shared by all tests: a daemon in front of gRPC servers, and clients."""

    secure = False

    def setUp(self):
        if self.secure:
            self.authority = Authority(self.folder())
            self.certificate = self.authority.issue("127.0.0.1")

    def front(self, *addresses, **pool):
        listener = {"name": "public", "limits": {"body": "64MiB"}}
        if self.secure:
            listener["tls"] = {"certificates": [self.certificate.config()]}
        return self.daemon({"listeners": [listener], "pools": [
            {"name": "pool", "engine": "triton", "protocol": "h2", "backends": list(addresses), **pool}]})

    def client(self, address, secure=False):
        client = tritonclient.grpc.InferenceServerClient(
            address, ssl=secure, root_certificates=self.authority.cert if secure else None)
        self.addCleanup(client.close)
        return client

    def through(self, daemon):
        return self.client(daemon.address, self.secure)

    def tensor(self, name, values, datatype):
        tensor = tritonclient.grpc.InferInput(name, list(values.shape), datatype)
        tensor.set_data_from_numpy(values)
        return tensor

    def bytes_of(self, size):
        return self.tensor("in", numpy.random.default_rng(1).integers(0, 256, size, numpy.uint8), "UINT8")

    def count(self, number):
        return self.tensor("count", numpy.array([number], numpy.int32), "INT32")


class RealServer:
    """Calls that any server of the protocol answers; each test compares with the server's own response."""

    kind = None
    server = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="evenkeel-e2e-")
        cls.addClassCleanup(folder.cleanup)
        cls.server = cls.kind(folder.name)
        cls.addClassCleanup(cls.server.kill)

    def both(self, ask):
        daemon = self.front(self.server.address)
        return ask(self.client(self.server.address)), ask(self.through(daemon))

    def test_server_and_model_metadata(self):
        def ask(client):
            return (client.is_server_live(), client.is_server_ready(), client.is_model_ready("echo"),
                    client.is_model_ready("nothing") if self.kind is Triton else None,
                    client.get_server_metadata(as_json=True), client.get_model_metadata("echo", as_json=True))

        direct, relayed = self.both(ask)
        self.assertEqual(relayed, direct)
        self.assertEqual(direct[:3], (True, True, True))

    def test_infer(self):
        def ask(client):
            return client.infer("echo", [self.bytes_of(1000)], request_id="of mine",
                                client_timeout=PATIENCE).get_response()

        direct, relayed = self.both(ask)
        self.assertEqual(relayed, direct)
        self.assertEqual(direct.id, "of mine")

    def test_infer_of_20_mb(self):
        client = self.through(self.front(self.server.address))
        sent = numpy.random.default_rng(2).integers(0, 256, 20_000_000, numpy.uint8)
        result = client.infer("echo", [self.tensor("in", sent, "UINT8")], client_timeout=3 * PATIENCE)
        self.assertTrue(numpy.array_equal(result.as_numpy("out").reshape(-1), sent))

    def test_many_at_a_time_over_one_connection(self):
        client = self.through(self.front(self.server.address))
        answers = queue.Queue()
        for number in range(40):
            client.async_infer("echo", [self.bytes_of(100 + number)], request_id=str(number),
                               callback=lambda result, error: answers.put((result, error)),
                               client_timeout=PATIENCE)
        seen = {}
        for _ in range(40):
            result, error = answers.get(timeout=2 * PATIENCE)
            self.assertIsNone(error)
            seen[result.get_response().id] = result.as_numpy("out").size
        self.assertEqual(seen, {str(number): 100 + number for number in range(40)})

    def test_its_errors_are_its_own(self):
        def ask(client):
            with self.assertRaises(InferenceServerException) as raised:
                client.infer("nothing", [self.bytes_of(10)])
            return raised.exception.status(), raised.exception.message()

        direct, relayed = self.both(ask)
        self.assertEqual(relayed, direct)

    def test_aio(self):
        daemon = self.front(self.server.address)

        async def ask():
            async with tritonclient.grpc.aio.InferenceServerClient(
                    daemon.address, ssl=self.secure,
                    root_certificates=self.authority.cert if self.secure else None) as client:
                return await asyncio.gather(*(client.infer("echo", [self.bytes_of(10)]) for _ in range(10)))

        self.assertEqual([result.as_numpy("out").size for result in asyncio.run(ask())], [10] * 10)


@needs_client
@unittest.skipIf(why_no_triton(), why_no_triton())
class RealTriton(RealServer, Kserve):
    kind = Triton

    def test_stream_infer(self):
        """Two requests to a decoupled model over one stream: the tokens one by one, and an empty final response."""
        client = self.through(self.front(self.server.address))
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        tokens, final = [], 0
        for wanted in (3, 20):
            client.async_stream_infer("tokens", [self.count(wanted)], enable_empty_final_response=True)
        while final < 2:
            result, error = answers.get(timeout=PATIENCE)
            self.assertIsNone(error)
            if result.get_response().parameters["triton_final_response"].bool_param:
                final += 1
            else:
                tokens.append(int(result.as_numpy("token")[0]))
        client.stop_stream()
        self.assertEqual(sorted(tokens), sorted([*range(3), *range(20)]))

    def test_an_error_within_a_stream_does_not_end_it(self):
        client = self.through(self.front(self.server.address))
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("nothing", [self.count(1)])
        _, error = answers.get(timeout=PATIENCE)
        self.assertIn("unknown model", error.message())
        client.async_stream_infer("tokens", [self.count(1)])
        result, error = answers.get(timeout=PATIENCE)
        self.assertIsNone(error)
        self.assertEqual(int(result.as_numpy("token")[0]), 0)
        client.stop_stream()


class RealTritonOverTls(RealTriton):
    secure = True


@needs_client
@unittest.skipIf(why_no_mlserver(), why_no_mlserver())
class RealMlServer(RealServer, Kserve):
    kind = MlServer

    def test_stream_infer(self):
        """MLServer's streams carry a bare ModelInferResponse, which tritonclient does not read; so this test does."""
        daemon = self.front(self.server.address)
        options = [("grpc.max_receive_message_length", LARGEST)]
        if self.secure:
            with open(self.authority.cert, "rb") as cert:
                credentials = grpc.ssl_channel_credentials(cert.read())
            channel = grpc.secure_channel(daemon.address, credentials, options)
        else:
            channel = grpc.insecure_channel(daemon.address, options)
        self.addCleanup(channel.close)
        request = service_pb2.ModelInferRequest(model_name="tokens", inputs=[
            service_pb2.ModelInferRequest.InferInputTensor(
                name="count", datatype="INT32", shape=[1],
                contents=service_pb2.InferTensorContents(int_contents=[20]))])
        ask = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer",
                                    request_serializer=service_pb2.ModelInferRequest.SerializeToString,
                                    response_deserializer=service_pb2.ModelInferResponse.FromString)

        answers = ask(iter([request]), timeout=PATIENCE)

        self.assertEqual([answer.outputs[0].contents.int_contents[0] for answer in answers], list(range(20)))


class RealMlServerOverTls(RealMlServer):
    secure = True


if __name__ == "__main__":
    case.main()
