"""GET /v1/models over several pools, and requests for models that are not there."""

import json
import unittest

import case
from ports import free_ports
from process import Process
from reloading import ReloadCase
from stream import exchange

try:
    import openai
except ImportError:
    openai = None
try:
    import anthropic
except ImportError:
    anthropic = None

CHECKS = {"interval": "100ms", "fall": 2, "rise": 1}
ROUTES = [{"match": {"path": "/v1/embeddings"}, "pool": "small"}, {"match": {"path": "/v1/**"}, "pool": "large"}]


class Simulator(Process):
    """One simulated vLLM with this model, at this port."""

    def __init__(self, port, model):
        self.address = f"127.0.0.1:{port}"
        super().__init__(["sim", "--listen", self.address, "--control", "127.0.0.1:0", "--model", model])
        try:
            self.wait_line(r"^ready$")
        except BaseException:
            self.kill()
            raise


class Models(ReloadCase):
    def simulator(self, port, model):
        simulator = Simulator(port, model)
        self.addCleanup(simulator.kill)
        return simulator

    def two_pools(self, routes=None, **keys):
        """Pools `large` and `small`, each with a simulator of a model."""
        ports = free_ports(2)
        self.large = self.simulator(ports[0], "org/Large-70B")
        self.small = self.simulator(ports[1], "small-embed")
        return self.running(routes=routes or ROUTES, pools=[
            {"name": name, "engine": "vllm", "backends": [simulator.address], "health": CHECKS, **keys}
            for name, simulator in (("large", self.large), ("small", self.small))])

    def listed(self, daemon):
        return [each["id"] for each in self.json_of(daemon, "/v1/models")["data"]]

    def json_of(self, daemon, target, status=200, **kwargs):
        answer = exchange(daemon.address, target=target, **kwargs)
        self.assertEqual(answer.status, status, answer.body)
        return json.loads(answer.body)

    def lists(self, daemon, *ids):
        self.eventually(lambda: self.listed(daemon) == list(ids), f"the list {ids}")

    def test_the_models_of_both_pools_are_listed(self):
        daemon = self.two_pools()
        self.lists(daemon, "org/Large-70B", "small-embed")

        direct = json.loads(exchange(self.large.address, target="/v1/models").body)["data"][0]
        direct.pop("permission", None)
        self.assertEqual(self.json_of(daemon, "/v1/models")["data"][0], direct)
        self.assertEqual(self.json_of(daemon, "/v1/models/org/Large-70B"), direct)
        self.assertEqual(self.json_of(daemon, "/v1/models/org%2FLarge-70B"), direct)

        answer = exchange(daemon.address, target="/v1/models", method="HEAD")
        self.assertEqual((answer.status, answer.body), (200, b""))
        line = self.eventually(lambda: next((each for each in daemon.access_lines() if each["method"] == "HEAD"), None))
        self.assertEqual((line["route"], line["pool"], line["backend"]), ("/v1/**", None, None))
        self.assertGreaterEqual(daemon.metric("evenkeel_requests_total", route="/v1/**", pool="", code="200"), 4)

    def test_an_unknown_model_gets_404_with_near_names(self):
        daemon = self.two_pools()
        self.lists(daemon, "org/Large-70B", "small-embed")

        error = self.json_of(daemon, "/v1/models/large-70b", status=404)["error"]
        self.assertEqual((error["code"], error["type"], error["param"]),
                         ("model_not_found", "invalid_request_error", "model"))
        self.assertIn("Did you mean `org/Large-70B`?", error["message"])
        error = self.json_of(daemon, "/v1/models/%22%0a%00x", status=400)
        error = self.json_of(daemon, "/v1/models/%22%0a" + "x" * 5000, status=404)["error"]
        self.assertLess(len(error["message"]), 250)
        self.eventually(lambda: daemon.metric("evenkeel_errors_total", reason="model_not_found") == 2)

    def test_the_models_of_a_dead_backend_vanish_and_return(self):
        daemon = self.two_pools()
        self.lists(daemon, "org/Large-70B", "small-embed")

        port = self.small.address.rpartition(":")[2]
        self.small.kill()
        self.lists(daemon, "org/Large-70B")
        self.assertEqual(self.json_of(daemon, "/v1/models/small-embed", status=404)["error"]["code"],
                         "model_not_found")

        self.simulator(port, "another")
        self.lists(daemon, "org/Large-70B", "another")

    def test_a_reload_changes_the_names(self):
        daemon = self.two_pools()
        self.lists(daemon, "org/Large-70B", "small-embed")

        self.config["pools"][0]["models"] = ["one", "two"]
        self.reload()
        self.lists(daemon, "one", "two", "small-embed")
        self.assertEqual(self.json_of(daemon, "/v1/models/two")["id"], "two")

        self.config["routes"][1]["model_list"] = "forward"
        self.reload()
        self.lists(daemon, "org/Large-70B")
        del self.config["routes"][1]["model_list"]
        self.config["routes"], self.config["pools"] = self.config["routes"][1:], self.config["pools"][:1]
        self.reload()
        self.lists(daemon, "org/Large-70B")
        self.config["routes"][0]["model_list"] = "merged"
        self.reload()
        self.lists(daemon, "one", "two")

    def test_routes_by_model_say_which_models_there_are(self):
        daemon = self.two_pools([{"match": {"model": "org/*"}, "pool": "large"},
                                 {"match": {"path": "/v1/**", "model": ["small-embed", "alias"]}, "pool": "small"},
                                 {"match": {"path": "/v2/**", "model": "resnet"}, "pool": "small"}])
        self.lists(daemon, "org/Large-70B", "small-embed")

        def post(target, model, fields=()):
            body = json.dumps({"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]})
            answer = exchange(daemon.address, method="POST", target=target, body=body.encode(),
                              fields=[("content-type", "application/json"), *fields])
            return answer.status, json.loads(answer.body)

        self.assertEqual(post("/v1/chat/completions", "org/Large-70B")[0], 200)
        status, told = post("/v1/chat/completions", "large-70b")
        self.assertEqual((status, told["error"]["code"], told["error"]["param"]), (404, "model_not_found", "model"))
        self.assertIn("Did you mean `org/Large-70B`?", told["error"]["message"])
        status, told = post("/v1/messages", "smal-embed")
        self.assertEqual((status, told["error"]["type"]), (404, "not_found_error"))
        self.assertIn("Did you mean `small-embed`?", told["error"]["message"])
        status, told = post("/v1/chat/completions", "aliass")
        self.assertIn("Did you mean `alias`?", told["error"]["message"], "a name in the file")
        status, told = post("/v2/models/resnett/infer", "")
        self.assertEqual(status, 404)
        self.assertIn("Did you mean `resnet`?", told["error"])
        line = self.eventually(lambda: next((each for each in daemon.access_lines() if each["status"] == 404), None))
        self.assertEqual((line["reason"], line["route"], line["pool"]), ("model_not_found", None, None))

    def test_a_pool_is_listed_by_the_names_that_clients_use(self):
        daemon = self.two_pools([{"match": {"model": "chat"}, "pool": "large"}, {"pool": "small"}])
        self.config["pools"][0]["model"] = "org/Large-70B"
        self.reload()
        self.lists(daemon, "chat", "small-embed")
        self.assertEqual(self.json_of(daemon, "/v1/models/chat")["root"],
                         json.loads(exchange(self.large.address, target="/v1/models").body)["data"][0]["root"])

    def test_other_methods_and_paths_reach_a_backend(self):
        backend = self.backend(lambda request: request.answer(b"backend"))
        daemon = self.daemon({"pools": [{"name": "a", "models": ["m"], "backends": [backend.address]},
                                        {"name": "b", "models": ["n"], "backends": [backend.address]}],
                              "routes": [{"match": {"path": "/v1/embeddings"}, "pool": "a"}, {"pool": "b"}]})

        self.assertEqual(self.listed(daemon), ["m", "n"])
        for method, target in (("OPTIONS", "/v1/models"), ("DELETE", "/v1/models/m"), ("POST", "/v1/models/m:predict"),
                               ("GET", "/v1/modelsx")):
            self.assertEqual(exchange(daemon.address, target=target, method=method).body, b"backend", method)
        self.assertEqual(len(backend.exchanges), 4, "nothing was asked that the file says")

    def test_a_backend_answers_while_its_models_are_not_known(self):
        def answer(request):
            if request.target == "/v1/models":
                return request.answer(b"no key", status=401)
            return request.answer(b"card of " + request.target.encode())

        secret = self.backend(answer)
        daemon = self.daemon({"pools": [{"name": "secret", "backends": [secret.address]},
                                        {"name": "named", "models": ["m"], "backends": [secret.address]}],
                              "routes": [{"match": {"path": "/v1/embeddings"}, "pool": "named"}, {"pool": "secret"}]})

        self.eventually(lambda: len(secret.exchanges) > 0, "a request for the list")
        self.assertEqual(self.listed(daemon), ["m"])
        self.assertEqual(exchange(daemon.address, target="/v1/models/other").body, b"card of /v1/models/other")
        self.assertEqual(self.json_of(daemon, "/v1/models/m")["id"], "m")

    @unittest.skipIf(openai is None, "PyPI's openai is not installed (./dev setup)")
    def test_the_sdk_of_openai_lists_and_retrieves(self):
        daemon = self.two_pools()
        self.lists(daemon, "org/Large-70B", "small-embed")
        client = openai.OpenAI(base_url=f"http://{daemon.address}/v1", api_key="sk-test", max_retries=0, timeout=20)
        self.addCleanup(client.close)

        self.assertEqual([model.id for model in client.models.list()], ["org/Large-70B", "small-embed"])
        model = client.models.retrieve("org/Large-70B")
        self.assertEqual((model.id, model.object), ("org/Large-70B", "model"))
        with self.assertRaises(openai.NotFoundError) as raised:
            client.models.retrieve("small-embedd")
        self.assertEqual((raised.exception.code, raised.exception.param), ("model_not_found", "model"))
        self.assertIn("Did you mean `small-embed`?", str(raised.exception))

    @unittest.skipIf(anthropic is None, "PyPI's anthropic is not installed (./dev setup)")
    def test_the_sdk_of_anthropic_lists_and_retrieves(self):
        daemon = self.two_pools()
        self.lists(daemon, "org/Large-70B", "small-embed")
        client = anthropic.Anthropic(base_url=f"http://{daemon.address}", api_key="sk-test", max_retries=0, timeout=20)
        self.addCleanup(client.close)

        self.assertEqual([model.id for model in client.models.list()], ["org/Large-70B", "small-embed"])
        model = client.models.retrieve("small-embed")
        self.assertEqual((model.id, model.type, model.display_name), ("small-embed", "model", "small-embed"))
        with self.assertRaises(anthropic.NotFoundError) as raised:
            client.models.retrieve("small-embedd")
        self.assertEqual(raised.exception.body["error"]["type"], "not_found_error")


if __name__ == "__main__":
    case.main()
