"""Scaling: how many replicas pools need, in the admin API, as metrics, and to KEDA, whose client is grpcio with KEDA's own
messages; and requests that wait for the first server of a pool."""

import pathlib
import queue
import shutil
import subprocess
import unittest

import case
from backend import Backend
from dns_server import NAME_ERROR, NameServer
from ports import free_port
from stream import exchange

try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:
    grpc = None

PROTO = pathlib.Path(__file__).resolve().parent / "externalscaler.proto"
PATIENCE = 20
SCALING = {"min": 0, "max": 4, "start_time": "60s"}
QUICK = {"check": "tcp", "interval": "100ms", "timeout": "1s", "rise": 1, "fall": 1}


def messages(folder):
    """The classes of KEDA's messages, by name."""
    compiled = pathlib.Path(folder) / "externalscaler.pb"
    subprocess.run(["protoc", f"--proto_path={PROTO.parent}", f"--descriptor_set_out={compiled}", PROTO.name], check=True)
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes())
    for each in files.file:
        pool.Add(each)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"externalscaler.{name}"))
            for name in ("ScaledObjectRef", "IsActiveResponse", "GetMetricSpecResponse", "GetMetricsRequest",
                         "GetMetricsResponse")}


class Keda:
    """What KEDA's operator asks an external scaler for one ScaledObject."""

    def __init__(self, test, address, **metadata):
        self.of = messages(test.folder())
        self.ref = self.of["ScaledObjectRef"](name="llama", namespace="default", scalerMetadata=metadata)
        self.channel = grpc.insecure_channel(address)
        test.addCleanup(self.channel.close)

    def call(self, method, request, answer):
        ask = self.channel.unary_unary(f"/externalscaler.ExternalScaler/{method}",
                                       lambda message: message.SerializeToString(), self.of[answer].FromString)
        return ask(request, timeout=PATIENCE)

    def is_active(self):
        return self.call("IsActive", self.ref, "IsActiveResponse").result

    def metric_specs(self):
        return self.call("GetMetricSpec", self.ref, "GetMetricSpecResponse").metricSpecs

    def metric_values(self, name):
        request = self.of["GetMetricsRequest"](scaledObjectRef=self.ref, metricName=name)
        return self.call("GetMetrics", request, "GetMetricsResponse").metricValues

    def stream(self):
        ask = self.channel.unary_stream("/externalscaler.ExternalScaler/StreamIsActive",
                                        lambda message: message.SerializeToString(),
                                        self.of["IsActiveResponse"].FromString)
        return ask(self.ref)


class Scaled(case.Case):
    def front(self, *addresses, config=None, **pool):
        return self.front_of({"name": "llama", "backends": list(addresses), "scaling": SCALING, "health": QUICK, **pool},
                             **(config or {}))

    def front_of(self, *pools, **config):
        return self.daemon({"listeners": [{"name": "public"}, {"name": "scaler", "scaler": True}], "pools": list(pools),
                            "routes": [{"pool": pools[0]["name"]}], **config})

    def nowhere(self):
        """The address of a server that has not started."""
        return "127.0.0.1:%d" % free_port()

    def late_server(self, address):
        return self._kept(Backend(port=int(address.rpartition(":")[2])))

    def plan(self, daemon):
        return daemon.api("scaling")[0]


class Plans(Scaled):
    def test_requests_in_flight_are_planned_by_the_slots_of_a_replica(self):
        gate = Gate()
        servers = [self.backend(gate), self.backend(gate)]
        daemon = self.front(*(each.address for each in servers), limits={"max_in_flight": 2},
                            scaling={"min": 1, "max": 8, "target": 1})

        waiting = [self.spawn(lambda: exchange(daemon.address).status) for _ in range(10)]
        self.eventually(lambda: self.plan(daemon)["waiting"] == 6, "four at the servers, and six in the queue")
        self.eventually(lambda: self.plan(daemon)["desired"] >= 3, "the replicas that they need")

        plan = self.plan(daemon)
        self.assertEqual((plan["pool"], plan["replicas"], plan["min"], plan["max"]), ("llama", 2, 1, 8))
        self.assertIn(plan["reason"], ("load", "trend"))
        self.assertIsNone(plan["work"])
        self.assertGreaterEqual(daemon.metric("evenkeel_pool_desired_replicas", pool="llama"), 3)
        self.assertGreater(daemon.metric("evenkeel_pool_demand_replicas", pool="llama"), 2)
        gate.open()
        self.assertEqual([each.join() for each in waiting], [200] * 10)

    def test_a_scheduler_tells_the_predicted_work(self):
        simulators = self.simulators("--model", "llama", speed=10)
        daemon = self.front(*simulators.addresses, picker="expected-time", engine="vllm")
        body = b'{"model":"llama","messages":[{"role":"user","content":"' + b"word " * 400 + b'"}],"max_tokens":20}'

        def ask():
            answer = exchange(daemon.address, "POST", "/v1/chat/completions", body=body,
                              fields=[("content-type", "application/json")])
            return answer.status == 200 and self.plan(daemon)["work"]

        self.assertGreater(self.eventually(ask, "a price"), 0)
        plan = self.plan(daemon)
        self.assertGreater(plan["capacity_per_replica"], 0)
        self.assertLessEqual(plan["capacity_per_replica"], 1)
        self.assertEqual(plan["desired"], 1)

    def test_pools_without_scaling_have_no_plan(self):
        daemon = self.front_of({"name": "plain", "backends": [self.backend().address]})

        self.assertEqual(daemon.api("scaling"), [])
        self.assertNotIn("evenkeel_pool_desired_replicas", {name for name, _ in daemon.metrics()})


class FromZero(Scaled):
    def test_a_request_waits_while_the_first_server_starts(self):
        address = self.nowhere()
        daemon = self.front(address)
        self.assertEqual(self.plan(daemon)["desired"], 0)
        self.assertEqual(daemon.ask_admin("/readyz").status, 200, "it takes requests")

        waiting = self.spawn(lambda: exchange(daemon.address))
        self.eventually(lambda: self.plan(daemon)["desired"] == 1, "the first replica")
        self.assertEqual(self.plan(daemon)["reason"], "waiting")
        self.assertEqual(self.plan(daemon)["waiting"], 1)
        server = self.late_server(address)

        self.assertEqual(waiting.join().status, 200)
        self.assertEqual(len(server.exchanges), 1)

    def test_a_request_waits_until_the_name_of_the_servers_has_an_address(self):
        names = NameServer()
        self.addCleanup(names.close)
        names.say("models.test", code=NAME_ERROR)
        port = free_port()
        daemon = self.front(f"models.test:{port}", config={
            "dns": {"servers": [names.address], "min_ttl": "100ms", "max_ttl": "300ms"}})

        waiting = [self.spawn(lambda: exchange(daemon.address).status) for _ in range(3)]
        self.eventually(lambda: self.plan(daemon)["waiting"] == 3, "requests that wait")
        self.late_server(f"127.0.0.1:{port}")
        names.say("models.test", "127.0.0.1")

        self.assertEqual([each.join() for each in waiting], [200] * 3)

    def test_it_gives_up_after_the_timeout_of_the_queue(self):
        daemon = self.front(self.nowhere(), limits={"queue": {"timeout": "300ms"}})

        answer = exchange(daemon.address)

        self.assertEqual((answer.status, answer.field("x-evenkeel-reason")), (503, "queue_timeout"))
        self.assertIsNotNone(answer.field("retry-after"))

    def test_without_zero_a_pool_whose_servers_are_down_refuses_at_once(self):
        daemon = self.front(self.nowhere(), scaling={"min": 1})

        answer = exchange(daemon.address)

        self.assertEqual((answer.status, answer.field("x-evenkeel-reason")), (503, "no_backend"))


class Gate:
    """A script that holds every request until it is opened."""

    def __init__(self):
        self._opened = queue.SimpleQueue()

    def open(self):
        self._opened.put(True)

    def __call__(self, request):
        self._opened.put(self._opened.get(timeout=3 * PATIENCE))
        request.answer(b"done")


@unittest.skipIf(grpc is None, "PyPI's grpcio is not installed (./dev setup)")
@unittest.skipIf(shutil.which("protoc") is None, "protoc is not installed")
class ByKeda(Scaled):
    def keda(self, daemon, **metadata):
        return Keda(self, daemon.listening["scaler"], **metadata)

    def test_it_learns_the_metric_and_reads_its_value(self):
        daemon = self.front(self.backend().address, scaling={"min": 2, "max": 4})
        keda = self.keda(daemon)

        (spec,) = keda.metric_specs()
        (value,) = keda.metric_values(spec.metricName)

        self.assertEqual((spec.metricName, spec.targetSizeFloat), ("evenkeel-llama", 1))
        self.assertEqual((value.metricName, value.metricValueFloat), ("evenkeel-llama", 2))
        self.assertTrue(keda.is_active())

    def test_it_hears_at_once_of_a_request_that_waits_for_the_first_server(self):
        address = self.nowhere()
        daemon = self.front(address)
        keda = self.keda(daemon, pool="llama")
        self.assertFalse(keda.is_active())
        heard = keda.stream()
        self.assertFalse(next(heard).result, "told at the beginning")

        waiting = self.spawn(lambda: exchange(daemon.address))
        self.assertTrue(next(heard).result, "pushed")
        server = self.late_server(address)

        self.assertEqual(waiting.join().status, 200)
        self.assertEqual(len(server.exchanges), 1)
        heard.cancel()

    def test_metadata_that_names_no_pool_of_several_is_refused(self):
        server = self.backend()
        daemon = self.front_of(*({"name": name, "backends": [server.address], "scaling": SCALING, "health": QUICK}
                                 for name in ("llama", "qwen")))

        for metadata, code in (({}, grpc.StatusCode.INVALID_ARGUMENT), ({"pool": "gemma"}, grpc.StatusCode.NOT_FOUND)):
            with self.assertRaises(grpc.RpcError) as refused:
                self.keda(daemon, **metadata).is_active()
            self.assertEqual(refused.exception.code(), code)
        self.assertTrue(self.keda(daemon, pool="qwen").is_active(), "its server is up, and may stay for a while")


    def test_its_streams_do_not_hold_up_the_end_of_the_process(self):
        daemon = self.front(self.backend().address)
        heard = self.keda(daemon).stream()
        next(heard)

        self.assertEqual(daemon.stop(), 0)

        with self.assertRaises(grpc.RpcError) as ended:
            while True:
                next(heard)
        self.assertEqual(ended.exception.code(), grpc.StatusCode.UNAVAILABLE)

    def test_its_listener_proxies_nothing(self):
        daemon = self.front(self.backend().address)

        self.assertEqual(exchange(daemon.listening["scaler"]).status, 404)


if __name__ == "__main__":
    case.main()
