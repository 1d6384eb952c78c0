"""Stateful models of Triton: a sequence never splits over servers. The servers here refuse, as Triton does, a request of a
sequence whose start they have not seen."""

import concurrent.futures
import json
import queue
import re
import threading
import unittest

import case
from grpc_servers import Triton, why_no_triton
from reloading import ReloadCase
from stream import PATIENCE

try:
    import grpc
    import numpy
    import tritonclient.grpc
    import tritonclient.http
    from tritonclient.grpc import service_pb2
    from tritonclient.utils import InferenceServerException
except ImportError:
    tritonclient = None

MODEL = "accumulate"
STEPS = 4
SERVICE = "inference.GRPCInferenceService"
NUMBERS = list(range(1, 9))
WORDS = [f"meeting/{name}" for name in ("ann", "bob", "eve", "joe")]
LARGE_NUMBERS = [2 ** 40, 2 ** 63 - 1]


class Sequences:
    """What a server knows of its sequences: the steps that each has made."""

    def __init__(self):
        self.steps = {}
        self.ended = 0
        self._lock = threading.Lock()

    def step(self, sequence, start, end):
        """The number of this step; a text: why it is refused."""
        with self._lock:
            if not start and sequence not in self.steps:
                return (f"inference request for sequence {sequence} to model '{MODEL}' must specify the START flag on "
                        "the first request of the sequence")
            number = 1 if start else self.steps[sequence] + 1
            self.steps[sequence] = number
            if end:
                del self.steps[sequence]
                self.ended += 1
            return number


class GrpcServer:
    """ModelInfer and ModelStreamInfer of one stateful model."""

    def __init__(self):
        self.sequences = Sequences()
        self._workers = concurrent.futures.ThreadPoolExecutor(max_workers=32)
        self._server = grpc.server(self._workers)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {
            "ModelInfer": grpc.unary_unary_rpc_method_handler(
                self._infer, service_pb2.ModelInferRequest.FromString, service_pb2.ModelInferResponse.SerializeToString),
            "ModelStreamInfer": grpc.stream_stream_rpc_method_handler(
                self._stream, service_pb2.ModelInferRequest.FromString,
                service_pb2.ModelStreamInferResponse.SerializeToString),
            "ServerReady": grpc.unary_unary_rpc_method_handler(
                lambda request, context: service_pb2.ServerReadyResponse(ready=True),
                service_pb2.ServerReadyRequest.FromString, service_pb2.ServerReadyResponse.SerializeToString)}),))
        self.address = "127.0.0.1:%d" % self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def _step(self, request):
        given = {name: getattr(value, value.WhichOneof("parameter_choice")) for name, value in request.parameters.items()}
        return self.sequences.step(given["sequence_id"], given.get("sequence_start"), given.get("sequence_end"))

    def _answer(self, request, step):
        answer = service_pb2.ModelInferResponse(model_name=request.model_name, id=request.id)
        answer.outputs.add(name="step", datatype="INT32", shape=[1]).contents.int_contents.append(step)
        return answer

    def _infer(self, request, context):
        step = self._step(request)
        if isinstance(step, str):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, step)
        return self._answer(request, step)

    def _stream(self, requests, _context):
        for request in requests:
            step = self._step(request)
            if isinstance(step, str):
                yield service_pb2.ModelStreamInferResponse(error_message=step)
            else:
                yield service_pb2.ModelStreamInferResponse(infer_response=self._answer(request, step))

    def close(self):
        self._server.stop(None).wait()
        self._workers.shutdown()


def flags(step):
    return {"sequence_start": step == 0, "sequence_end": step == STEPS - 1}


@unittest.skipIf(tritonclient is None, "PyPI's tritonclient is not installed (./dev setup)")
class SequenceCase(ReloadCase):
    def front(self, *servers, **pool):
        return self.running(*(server.address for server in servers), pool={
            "picker": "round-robin", "affinity": {"by": ["sequence_id"]}, **pool})

    def run_all(self, sequences, infer):
        """All steps of each sequence, many sequences at a time; `infer(sequence, step)` returns the server's count."""
        def run(sequence):
            self.assertEqual([infer(sequence, step) for step in range(STEPS)], list(range(1, STEPS + 1)), sequence)

        for each in [self.spawn(lambda sequence=sequence: run(sequence)) for sequence in sequences]:
            each.join()

    def spread(self, servers, count):
        """Each server has had some of the sequences, and all have ended."""
        self.assertEqual(sum(server.ended for server in servers), count)
        self.assertTrue(all(server.ended for server in servers), [server.ended for server in servers])
        self.assertEqual([server.steps for server in servers], [{}] * len(servers))


class OverGrpc(SequenceCase):
    def servers(self, count=3):
        servers = [GrpcServer() for _ in range(count)]
        for server in servers:
            self.addCleanup(server.close)
        return servers

    def front(self, *servers, **pool):
        return super().front(*servers, engine="triton", protocol="h2", metrics={"scrape": "off"}, **pool)

    def client(self, daemon):
        """With a connection of its own."""
        client = tritonclient.grpc.InferenceServerClient(
            daemon.address, channel_args=[("grpc.use_local_subchannel_pool", 1)])
        self.addCleanup(client.close)
        return client

    def tensor(self):
        tensor = tritonclient.grpc.InferInput("value", [1], "INT32")
        tensor.set_data_from_numpy(numpy.ones(1, numpy.int32))
        return tensor

    def infer(self, client, sequence, step):
        result = client.infer(MODEL, [self.tensor()], sequence_id=sequence, client_timeout=PATIENCE, **flags(step))
        return result.get_response().outputs[0].contents.int_contents[0]

    def test_calls_of_all_workers(self):
        servers = self.servers()
        daemon = self.front(*servers)
        clients = [self.client(daemon) for _ in range(8)]
        number_of = {sequence: number for number, sequence in enumerate([*NUMBERS, *WORDS, *LARGE_NUMBERS])}

        # Each step over another connection.
        self.run_all(number_of, lambda sequence, step: self.infer(
            clients[(number_of[sequence] + step) % len(clients)], sequence, step))

        self.spread([server.sequences for server in servers], len(number_of))
        self.assertEqual(daemon.metric("evenkeel_affinity_requests_total", result="move"), 0)
        self.assertEqual(daemon.metric("evenkeel_affinity_requests_total", result="miss"), len(number_of))

    def test_streams(self):
        servers = self.servers()
        daemon = self.front(*servers)

        def infer(sequence, step):
            """One step over a stream of its own."""
            client = self.client(daemon)
            answers = queue.Queue()
            client.start_stream(lambda result, error: answers.put((result, error)))
            client.async_stream_infer(MODEL, [self.tensor()], sequence_id=sequence, **flags(step))
            result, error = answers.get(timeout=PATIENCE)
            client.stop_stream()
            self.assertIsNone(error)
            return result.get_response().outputs[0].contents.int_contents[0]

        self.run_all([*NUMBERS, *WORDS], infer)
        self.spread([server.sequences for server in servers], len(NUMBERS) + len(WORDS))

    def test_a_stream_with_all_steps_and_calls_that_go_on(self):
        servers = self.servers()
        daemon = self.front(*servers)
        client = self.client(daemon)

        def infer(sequence, step):
            if step == STEPS - 1:
                return self.infer(client, sequence, step)
            if step == 0:
                streaming[sequence] = (self.client(daemon), queue.Queue())
                streaming[sequence][0].start_stream(lambda result, error: streaming[sequence][1].put((result, error)))
            stream, answers = streaming[sequence]
            stream.async_stream_infer(MODEL, [self.tensor()], sequence_id=sequence, **flags(step))
            result, error = answers.get(timeout=PATIENCE)
            self.assertIsNone(error)
            if step == STEPS - 2:
                stream.stop_stream()
            return result.get_response().outputs[0].contents.int_contents[0]

        streaming = {}
        self.run_all(NUMBERS, infer)
        self.spread([server.sequences for server in servers], len(NUMBERS))

    def test_an_id_that_starts_again_is_placed_again(self):
        servers = self.servers(2)
        daemon = self.front(*servers[:1])
        client = self.client(daemon)
        for _ in range(2):
            self.run_all(NUMBERS, lambda sequence, step: self.infer(client, sequence, step))
        self.assertEqual(servers[0].sequences.ended, 2 * len(NUMBERS))

        # A server that joins gets its share of the sequences that start then, though all ids are known.
        self.pool["backends"].append(servers[1].address)
        self.reload()
        self.eventually(lambda: set(self.states().values()) == {"up"}, "backends that are up")
        self.run_all(NUMBERS, lambda sequence, step: self.infer(client, sequence, step))

        self.spread([server.sequences for server in servers], 3 * len(NUMBERS))
        self.assertEqual(servers[1].sequences.ended, len(NUMBERS) / 2)
        self.assertEqual(daemon.metric("evenkeel_affinity_requests_total", result="miss"), 3 * len(NUMBERS))

    def test_a_server_that_dies_releases_its_sequences(self):
        servers = self.servers(2)
        daemon = self.front(*servers, health={"check": "tcp", "interval": "100ms", "timeout": "1s"})
        self.eventually(lambda: set(self.states().values()) == {"up"}, "backends that are up")
        client = self.client(daemon)
        for sequence in NUMBERS:
            self.infer(client, sequence, 0)
        lost = set(servers[0].sequences.steps)
        servers[0].close()
        daemon.wait_line(rf"pool pool: {re.escape(servers[0].address)} is down, its sessions are released: {len(lost)}$")

        for sequence in NUMBERS:
            if sequence not in lost:
                self.assertEqual(self.infer(client, sequence, 1), 2)
                continue
            # No other server can go on with it; the client starts it anew.
            with self.assertRaises(InferenceServerException) as raised:
                self.infer(client, sequence, 1)
            self.assertIn("must specify the START flag", raised.exception.message())
            self.assertEqual([self.infer(client, sequence, step) for step in range(STEPS)], [1, 2, 3, 4])


STATEFUL_CONFIG = """\
name: "accumulate"
backend: "python"
max_batch_size: 1
sequence_batching { max_sequence_idle_microseconds: 60000000 oldest { max_candidate_sequences: 64 } }
input [{ name: "value" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "step" data_type: TYPE_INT32 dims: [1] }]
instance_group [{ kind: KIND_CPU }]
"""

STATEFUL_MODEL = """\
import numpy
import triton_python_backend_utils as backend

class TritonPythonModel:
    def initialize(self, args):
        self.steps = {}

    def execute(self, requests):
        return [self.answer(each) for each in requests]

    def answer(self, request):
        sequence = request.correlation_id()
        start = request.flags() & backend.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
        self.steps[sequence] = 1 if start else self.steps[sequence] + 1
        return backend.InferenceResponse([
            backend.Tensor("step", numpy.array([[self.steps[sequence]]], numpy.int32))])
"""


@unittest.skipIf(why_no_triton(), why_no_triton())
class RealTriton(SequenceCase):
    def test_sequences_of_two_servers(self):
        servers = []
        for _ in range(2):
            servers.append(Triton(self.folder(), models=[(MODEL, STATEFUL_CONFIG, STATEFUL_MODEL)]))
            self.addCleanup(servers[-1].kill)
        daemon = self.front(*servers, engine="triton", protocol="h2", metrics={"scrape": "off"})
        clients = [tritonclient.grpc.InferenceServerClient(
            daemon.address, channel_args=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(4)]
        tensor = tritonclient.grpc.InferInput("value", [1, 1], "INT32")
        tensor.set_data_from_numpy(numpy.ones((1, 1), numpy.int32))
        number_of = {sequence: number for number, sequence in enumerate([*NUMBERS, *WORDS])}

        def infer(sequence, step):
            client = clients[(number_of[sequence] + step) % len(clients)]
            result = client.infer(MODEL, [tensor], sequence_id=sequence, client_timeout=PATIENCE, **flags(step))
            return int(result.as_numpy("step")[0][0])

        try:
            self.run_all(number_of, infer)
        finally:
            for client in clients:
                client.close()
        lines = [line for line in daemon.wait_access(STEPS * len(number_of)) if line["path"].endswith("/ModelInfer")]
        self.assertEqual({line["backend"] for line in lines}, {server.address for server in servers})
        self.assertEqual(daemon.metric("evenkeel_affinity_requests_total", result="move"), 0)


class OverHttp(SequenceCase):
    def servers(self, count=3):
        return [self.backend(self.script(Sequences())) for _ in range(count)]

    def script(self, sequences):
        self.sequences = [*getattr(self, "sequences", []), sequences]

        def answer(request):
            given = json.loads(request.body)["parameters"]
            step = sequences.step(given["sequence_id"], given.get("sequence_start"), given.get("sequence_end"))
            head = [("content-type", "application/json")]
            if isinstance(step, str):
                return request.answer(json.dumps({"error": step}).encode(), 400, head, "Bad Request")
            return request.answer(json.dumps({"model_name": MODEL, "model_version": "1", "outputs": [
                {"name": "step", "datatype": "INT32", "shape": [1], "data": [step]}]}).encode(), fields=head)

        return answer

    def infer(self, client, sequence, step):
        tensor = tritonclient.http.InferInput("value", [1], "INT32")
        tensor.set_data_from_numpy(numpy.ones(1, numpy.int32), binary_data=False)
        return int(client.infer(MODEL, [tensor], sequence_id=sequence, **flags(step)).as_numpy("step")[0])

    def test_calls_of_all_workers(self):
        daemon = self.front(*self.servers())

        def infer(sequence, step):
            with tritonclient.http.InferenceServerClient(daemon.address) as client:
                return self.infer(client, sequence, step)

        self.run_all([*NUMBERS, *WORDS, 2 ** 64 - 1], infer)
        self.spread(self.sequences, len(NUMBERS) + len(WORDS) + 1)


if __name__ == "__main__":
    case.main()
