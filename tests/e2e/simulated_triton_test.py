"""Simulated Triton servers behind evenkeel with Triton's own client: balancing per call, batches, streams, and the ends of
calls."""

import queue

import case
from kserve_grpc_test import PATIENCE, Kserve, needs_client
from process import read_metrics
from stream import exchange

try:
    import grpc
    import numpy
    from tritonclient.utils import InferenceServerException
    from grpc_health.v1 import health_pb2, health_pb2_grpc
except ImportError:
    pass

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
TRITON = ("--engine", "triton")
SERVICE = "inference.GRPCInferenceService"


class Answers:
    """The calls of a stream's callback, in order."""

    def __init__(self, client):
        self.queue = queue.Queue()
        client.start_stream(lambda result, error: self.queue.put((result, error)))

    def next(self):
        return self.queue.get(timeout=PATIENCE)

    def response(self):
        result, error = self.next()
        assert error is None, error
        return result

    def error(self):
        _, error = self.next()
        assert error is not None
        return error


@needs_client
class SimulatedTriton(Kserve):
    def item(self, items=1):
        return self.tensor("INPUT0", numpy.ones((items, 4), numpy.float32), "FP32")

    def text(self, words="hello there"):
        return self.tensor("text_input", numpy.array([words.encode()], numpy.object_), "BYTES")

    def counted(self, address, name):
        """A counter of one simulated server."""
        answer = exchange(address, "GET", "/metrics")
        return read_metrics(answer.body.decode())[(name, frozenset({("model", MODEL), ("version", "1")}))]

    def refused(self, ask):
        with self.assertRaises(InferenceServerException) as raised:
            ask()
        return raised.exception

    def test_each_call_of_one_connection_is_balanced(self):
        simulated = self.simulators(*TRITON, count=3)
        daemon = self.front(*simulated.addresses, picker="round-robin")
        client = self.through(daemon)

        for number in range(30):
            result = client.infer(MODEL, [self.item()], request_id=str(number), client_timeout=PATIENCE)
            self.assertEqual(result.get_response().id, str(number))

        self.assertEqual([self.counted(address, "nv_inference_count") for address in simulated.addresses], [10] * 3)
        self.assertEqual(daemon.metric("evenkeel_grpc_responses_total", grpc_status="0"), 30)
        self.assertEqual(daemon.metric("evenkeel_connections_total"), 1)

    def test_concurrent_calls_run_in_batches(self):
        # At a tenth of real time, so that concurrent calls stay concurrent for long.
        simulated = self.simulators(*TRITON, "--max-queue-delay", "10ms", "--preferred-batch", "4,8", speed=0.1)
        client = self.through(self.front(*simulated.addresses))
        answers = queue.Queue()

        for _ in range(32):
            client.async_infer(MODEL, [self.item()], callback=lambda result, error: answers.put((result, error)))
        errors = [answers.get(timeout=PATIENCE)[1] for _ in range(32)]

        self.assertEqual(errors, [None] * 32)
        address = simulated.addresses[0]
        self.assertEqual(self.counted(address, "nv_inference_count"), 32)
        self.assertLess(self.counted(address, "nv_inference_exec_count"), 20)
        self.assertGreater(self.counted(address, "nv_inference_queue_duration_us"), 0)

    def test_a_stream_of_requests_and_of_decoupled_text(self):
        for protocol in ("h2", "http1"):  # a stream runs in both directions over HTTP/1.1 too
            with self.subTest(protocol):
                simulated = self.simulators(*TRITON)
                client = self.through(self.front(*simulated.addresses, protocol=protocol))
                answers = Answers(client)
                for number in range(5):
                    client.async_stream_infer(MODEL, [self.item()], request_id=str(number))
                    self.assertEqual(answers.response().get_response().id, str(number))

                client.async_stream_infer("nothing", [self.item()])
                self.assertIn("unknown model", answers.error().message())

                client.async_stream_infer(MODEL, [self.text()], parameters={"max_tokens": 6},
                                          enable_empty_final_response=True)
                words = []
                while not (result := answers.response()).get_response().parameters["triton_final_response"].bool_param:
                    words.append(result.as_numpy("text_output")[0].decode())
                client.stop_stream()
                whole = client.infer(MODEL, [self.text()], parameters={"max_tokens": 6})
                self.assertEqual("".join(words), whole.as_numpy("text_output")[0].decode())
                self.assertEqual(len(words), 6)

    def test_a_deadline_ends_the_call_on_both_sides(self):
        simulated = self.simulators(*TRITON, "--batch-time", "1h", speed=1)
        daemon = self.front(*simulated.addresses)

        error = self.refused(lambda: self.through(daemon).infer(MODEL, [self.item()], client_timeout=0.3))

        self.assertEqual(error.status(), "StatusCode.DEADLINE_EXCEEDED")
        self.eventually(lambda: daemon.metric("evenkeel_requests_in_flight") == 0)
        line = daemon.wait_access(1)[0]
        self.assertIn((line["grpc_status"], line["reason"]), [(4, "deadline_exceeded"), (1, "client_gone")])

    def test_our_deadline_applies_without_a_client_deadline(self):
        """The client states a deadline in its metadata but does not enforce it."""
        simulated = self.simulators(*TRITON, "--batch-time", "1h", speed=1)
        daemon = self.front(*simulated.addresses)
        channel = grpc.insecure_channel(daemon.address)
        self.addCleanup(channel.close)
        ask = channel.unary_unary(f"/{SERVICE}/ServerLive")
        exchange(simulated.addresses[0], "PUT", "/sim/v1/state", body=b'{"fault":"hang"}')

        with self.assertRaises(grpc.RpcError) as raised:
            ask(b"", metadata=[("grpc-timeout", "200m")])

        self.assertEqual(raised.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertEqual(raised.exception.details(), "the deadline of the call has passed")
        self.assertEqual(daemon.metric("evenkeel_grpc_responses_total", grpc_status="4"), 1)
        self.assertEqual(daemon.metric("evenkeel_errors_total", pool="pool", reason="deadline_exceeded"), 1)

    def test_a_client_that_leaves_removes_its_requests_from_the_queue(self):
        simulated = self.simulators(*TRITON, "--max-batch", "1", "--batch-time", "1h", speed=1)
        daemon = self.front(*simulated.addresses)
        address = simulated.addresses[0]
        client = self.through(daemon)
        Answers(client)
        for _ in range(3):
            client.async_stream_infer(MODEL, [self.item()])
        self.eventually(lambda: self.counted(address, "nv_inference_pending_request_count") == 2)

        client.stop_stream(cancel_requests=True)

        self.eventually(lambda: self.counted(address, "nv_inference_pending_request_count") == 0)
        self.eventually(lambda: daemon.metric("evenkeel_grpc_responses_total", grpc_status="1") == 1)

    def test_a_server_that_dies_in_the_middle_makes_its_streams_unavailable(self):
        for protocol in ("h2", "http1"):
            with self.subTest(protocol):
                simulated = self.simulators(*TRITON, speed=1)
                daemon = self.front(*simulated.addresses, protocol=protocol)
                client = self.through(daemon)
                answers = Answers(client)
                client.async_stream_infer(MODEL, [self.text()], parameters={"max_tokens": 1000})
                answers.response()

                simulated.kill()

                while (answer := answers.next())[1] is None:
                    pass
                self.assertEqual(answer[1].status(), "StatusCode.UNAVAILABLE")
                line = daemon.wait_access(1)[0]
                self.assertEqual((line["grpc_status"], line["reason"]), (14, "backend_closed"))
                error = self.refused(lambda: client.infer(MODEL, [self.item()]))
                self.assertEqual(error.status(), "StatusCode.UNAVAILABLE")

    def test_routes_by_service_and_method(self):
        simulated = self.simulators(*TRITON, count=2)
        pools = [{"name": name, "protocol": "h2", "backends": [address]}
                 for name, address in zip(("inference", "health"), simulated.addresses)]
        daemon = self.daemon({"pools": pools, "routes": [
            {"match": {"grpc": [f"{SERVICE}/ModelInfer", f"{SERVICE}/ServerLive"]}, "pool": "inference"},
            {"match": {"grpc": "grpc.health.v1.Health"}, "pool": "health"}]})
        client = self.through(daemon)
        channel = grpc.insecure_channel(daemon.address)
        self.addCleanup(channel.close)

        self.assertTrue(client.is_server_live())
        client.infer(MODEL, [self.item()])
        check = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
        error = self.refused(client.get_server_metadata)

        self.assertEqual(check.status, health_pb2.HealthCheckResponse.SERVING)
        self.assertEqual((error.status(), error.message()),
                         ("StatusCode.UNIMPLEMENTED", f"no route for POST /{SERVICE}/ServerMetadata of host {daemon.address}: "
                                                       "none with its host takes this call"))
        pool_of = {line["path"].rpartition("/")[2]: line["pool"] for line in daemon.wait_access(4)}
        self.assertEqual(pool_of, {"ServerLive": "inference", "ModelInfer": "inference", "Check": "health",
                               "ServerMetadata": None})


if __name__ == "__main__":
    case.main()
