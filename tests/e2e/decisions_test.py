"""Why `picker: expected-time` placed a request as it did: in metrics, and on the admin API."""

import json

import case
from process import command
from stream import Stream, exchange

CHAT = "/v1/chat/completions"
POOL = {"picker": "expected-time", "engine": "vllm", "health": {"check": "off"}, "metrics": {"scrape": "off"}}


def chat(words, max_tokens=8, about="lorem ipsum", stream=True):
    return json.dumps({"model": "llama", "stream": stream, "max_tokens": max_tokens,
                       "messages": [{"role": "user", "content": f"{about} " * words}]}).encode()


class Watching(case.Case):
    def setUp(self):
        self.servers = self.simulators("--model", "llama", "--prompt-tokens-details", count=2, speed=1)
        self.daemon_ = self.start_daemon(*self.servers.addresses, pool=POOL, workers=1)

    def ask(self, *args, **kwargs):
        answer = exchange(self.daemon_.address, "POST", CHAT, (), chat(*args, **kwargs))
        self.assertEqual(answer.status, 200, answer.body)

    def counted(self, name):
        return self.daemon_.metric(f"evenkeel_scheduler_{name}")

    def test_metrics_tell_what_was_placed_and_how_well_it_was_predicted(self):
        self.assertEqual(self.counted("placed_total"), 0)
        for number in range(5):
            self.ask(200 + number)
        self.assertEqual(self.counted("placed_total"), 5)
        self.assertEqual(self.counted("refused_total"), 0)
        self.assertEqual(self.counted("first_tokens_total"), 5)
        for name in ("predicted_first_token", "first_token", "first_token_error", "demand_prefill", "demand_decode"):
            self.assertGreater(self.counted(f"{name}_seconds_total"), 0, name)
        self.assertEqual(self.counted("index_bytes"), self.daemon_.api("pools")[0]["scheduler"]["index_bytes"])
        self.assertEqual(self.daemon_.api("pools")[0]["scheduler"]["placed_total"], 5)

    def rung(self, backend):
        return next(labels for (name, labels), value in self.daemon_.metrics().items()
                    if name == "evenkeel_backend_rung" and value == 1 and ("backend", backend) in labels)

    def test_the_rung_of_a_backend_is_shown_and_rises(self):
        backend = self.servers.addresses[0]
        self.assertIn(("rung", "cold"), self.rung(backend))
        for number in range(300):
            self.ask(200, max_tokens=4, about=f"topic {number}")
            busiest = max(self.daemon_.api("backends"), key=lambda each: each["picks_total"])
            if busiest["forecast"]["rung"] != "cold":
                break
        self.assertEqual(busiest["forecast"]["rung"], "confirmed")
        self.assertGreaterEqual(busiest["forecast"]["wait_seconds"], 0)
        self.assertIn(("rung", "confirmed"), self.rung(busiest["id"]))
        self.assertIn("confirmed", command("ctl", "backends", "--admin", self.daemon_.admin).stdout)

    def test_requests_that_are_refused_are_counted(self):
        server = self.backend(lambda request: request.wait_disconnected())
        self.daemon_ = self.start_daemon(
            server, pool={**POOL, "slo": {"ttft": "10ms"}, "expected_time": {"shed": 1}}, workers=1)
        stream = Stream.connect(self.daemon_.address)
        self.addCleanup(stream.close)
        stream.ask("POST", CHAT, (), chat(2000))
        self.eventually(lambda: server.exchanges)
        answer = exchange(self.daemon_.address, "POST", CHAT, (), chat(2000))
        self.assertEqual(answer.status, 429)
        self.assertEqual(self.counted("refused_total"), 1)


if __name__ == "__main__":
    case.main()
