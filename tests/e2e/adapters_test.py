"""`picker: expected-time` and LoRA adapters: a request for one goes to a server that has it loaded, unless that is too
busy."""

import json
from collections import Counter

import case
from stream import exchange

EXPLAIN = ("x-evenkeel-explain", "1")
CHAT = "/v1/chat/completions"
POOL = {"picker": "expected-time", "engine": "vllm", "health": {"check": "off"}, "debug_headers": True}
LOAD_SECONDS = 0.5


def chat(model, about, words=50):
    return json.dumps({"model": model, "max_tokens": 2,
                       "messages": [{"role": "user", "content": f"{about} " * words}]}).encode()


class Adapters(case.Case):
    def start(self, count=3, names="sql,chat,code", slots=1):
        self.servers = self.simulators("--model", "llama", "--lora", names, "--max-loras", str(slots),
                                       "--lora-load-time", f"{LOAD_SECONDS}s", count=count, speed=1)
        self.daemon_ = self.start_daemon(*self.servers.addresses, pool=POOL, workers=1)
        self.number = 0

    def ask(self, model, words=50, name=None):
        """The decision about a request with a prompt like no other."""
        self.number += 1
        name = name or f"request-{self.number}"
        answer = exchange(self.daemon_.address, "POST", CHAT, (("x-request-id", name), EXPLAIN),
                          chat(model, f"topic {name}", words))
        self.assertEqual(answer.status, 200, answer.body)
        return json.loads(self.daemon_.ask_admin(f"/api/v1/decisions/{name}").body)["attempts"][-1]

    def loads(self, decision):
        """The predicted load time on each server."""
        return {each["backend"]: each["load_seconds"] for each in decision["candidates"]}

    def wait_until_known(self, model):
        """Until evenkeel knows where the adapter is, as far as requests can tell: in one place, and elsewhere not."""
        def known():
            return sorted(each == 0 for each in self.loads(self.ask(model)).values())[:-1] == [False] * (
                len(self.servers.addresses) - 1)

        self.eventually(known, f"{model} to be known as an adapter")

    def loaded(self):
        """How often the servers have loaded an adapter for a request."""
        reports = (json.loads(exchange(address, target="/sim/v1/report").body) for address in self.servers.addresses)
        return sum(each["adapter_loads"] for each in reports)

    def test_requests_go_where_their_adapter_is(self):
        self.start()
        adapters = ("sql", "chat", "code")
        for name in adapters:
            self.wait_until_known(name)
        homes = {}

        def settled():
            homes.update({name: self.ask(name)["backend"] for name in adapters})
            return len(set(homes.values())) == 3

        self.eventually(settled, "each server to have one of the adapters")
        before = self.loaded()

        for _ in range(5):
            for name in adapters:
                decision = self.ask(name)
                self.assertEqual(decision["backend"], homes[name], decision)
                loads = self.loads(decision)
                self.assertEqual(loads.pop(homes[name]), 0)
                self.assertTrue(all(each > 0 for each in loads.values()), decision)
                chosen, *others = decision["candidates"]
                for other in others:
                    self.assertGreater(other["cost"], chosen["cost"])
                    self.assertGreaterEqual(other["prefill_seconds"], other["load_seconds"])

        self.assertEqual(self.loaded(), before)

    def test_requests_for_the_base_model_load_nothing(self):
        self.start()
        self.wait_until_known("sql")
        before = self.loaded()

        for _ in range(10):
            self.assertEqual(set(self.loads(self.ask("llama")).values()), {0})
        self.assertEqual(self.loaded(), before)

    def test_another_server_loads_it_when_that_one_is_too_busy(self):
        self.start(count=2)
        self.wait_until_known("sql")
        home = self.ask("sql")["backend"]
        decisions = {}

        def work(number):  # a prompt takes the server about a second
            decisions[number] = self.ask("sql", words=16_000, name=f"long-{number}")

        threads = [self.spawn(lambda number=number: work(number)) for number in range(6)]
        for thread in threads:
            thread.join()

        elsewhere = [each for each in decisions.values() if each["backend"] != home]
        self.assertTrue(0 < len(elsewhere) < len(decisions), Counter(each["backend"] for each in decisions.values()))
        first = min(elsewhere, key=lambda each: each["held"]["seconds"])
        chosen = first["candidates"][0]
        self.assertEqual(chosen["backend"], first["backend"])
        self.assertGreater(max(each["candidates"][0]["load_seconds"] for each in elsewhere), 0)

    def test_a_server_with_a_slot_for_each_adapter_has_them_all(self):
        self.start(count=2, slots=3)
        self.wait_until_known_everywhere("chat")

        self.eventually(lambda: set(self.loads(self.ask("sql")).values()) == {0}, "every server to be taken to have it")
        self.assertEqual(self.loaded(), 0)

    def wait_until_known_everywhere(self, model):
        """A page of metrics tells of slots once a request has used an adapter there."""
        for address in self.servers.addresses:
            answer = exchange(address, "POST", CHAT, body=chat(model, "directly"))
            self.assertEqual(answer.status, 200, answer.body)
        self.eventually(lambda: all(each["engine_state"]["lora_adapters"] == 1 for each in self.daemon_.api("backends")),
                        "pages that tell of adapters")


if __name__ == "__main__":
    case.main()
