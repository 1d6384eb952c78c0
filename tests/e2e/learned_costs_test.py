"""`state_file` with `picker: expected-time`: after a restart, what was learned of engines and their caches is used at once."""

import json
import pathlib
import signal
import time

import case
import saved_state
from ports import free_ports
from stream import exchange
from upgrading import UpgradeCase

CHAT = "/v1/chat/completions"
EXPLAIN = ("x-evenkeel-explain", "1")
POOL = {"picker": "expected-time", "engine": "vllm"}
TRUSTING = [{"name": "public", "address": "127.0.0.1:0", "trusted_proxies": ["127.0.0.0/8"]}]
CONVERSATIONS = 24


def chat(conversation, words=600, max_tokens=12):
    text = f"conversation {conversation} " * words
    return json.dumps({"model": "llama", "stream": True, "max_tokens": max_tokens,
                       "messages": [{"role": "user", "content": text}]}).encode()


class Learned:
    """Needs a case, and `self.state`: a path."""

    def ask(self, daemon, conversation, name=None):
        fields = (("x-request-id", name), EXPLAIN) if name else ()
        answer = exchange(daemon.address, "POST", CHAT, fields, chat(conversation))
        self.assertEqual(answer.status, 200, answer.body)

    def warm_up(self, daemon):
        """Two conversations at a time, so that no backend has all. Returns where each is."""
        places = []
        for first in range(0, CONVERSATIONS, 2):
            pair = [self.spawn(lambda each=each: self.decision(daemon, each, f"warm-{each}")["backend"])
                    for each in (first, first + 1)]
            places += [each.join() for each in pair]
        return places

    def decision(self, daemon, conversation, name):
        self.ask(daemon, conversation, name)
        attempt, = self.eventually(lambda: self.finished(daemon, name), "its record")
        return attempt

    def finished(self, daemon, name):
        answer = daemon.ask_admin(f"/api/v1/decisions/{name}")
        attempts = json.loads(answer.body)["attempts"] if answer.status == 200 else []
        return attempts if attempts and attempts[0]["state"] == "finished" else None

    def chosen(self, attempt):
        return next(each for each in attempt["candidates"] if each["backend"] == attempt["backend"])

    def learned(self):
        """Samples and coefficients of the speeds of prompts, by backend."""
        return {backend: (each.engine.prefill.samples, *each.engine.prefill.coefficients)
                for backend, each in saved_state.read(self.state).items() if each.engine.HasField("prefill")}

    def confidences(self, daemon):
        return {each["id"]: each["forecast"]["confidence"] for each in daemon.api("backends")}

    def polled(self, daemon):
        """Each engine has told of itself."""
        return all(each["engine_state"] and each["engine_state"]["kv_cache_tokens"] for each in daemon.api("backends"))


class Restarts(Learned, case.Case):
    def setUp(self):
        self.state = pathlib.Path(self.folder()) / "evenkeel.state"
        # Ports that no connection gets as its own: else a server could not start again where it was.
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        self.simulate()

    def simulate(self):
        self.servers = [self.simulators("--model", "llama", "--prompt-tokens-details", speed=4, listen=address)
                        for address in self.addresses]

    def start(self, **pool):
        return self.start_daemon(*self.addresses, pool={**POOL, **pool}, workers=2, listeners=TRUSTING,
                                 state_file=str(self.state))

    def stopped(self, daemon):
        self.assertEqual(daemon.stop(), 0)
        return self.learned()

    def test_the_first_request_goes_where_its_prefix_is_at_the_learned_speed(self):
        first = self.start()
        self.eventually(lambda: self.polled(first), "the metrics of both")
        places = self.warm_up(first)
        self.assertEqual(set(places), set(self.addresses))
        warm = self.decision(first, 0, "warm")
        confidences = self.confidences(first)
        learned = self.stopped(first)
        self.assertGreater(learned[warm["backend"]][0], 5)

        second = self.start()
        self.assertEqual(self.confidences(second), confidences)
        again = self.decision(second, 0, "again")
        self.assertEqual(again["backend"], places[0])
        predicted, was = again["predicted"]["cached_tokens"], warm["predicted"]["cached_tokens"]
        self.assertGreater(was, 500)
        self.assertAlmostEqual(predicted, was, delta=0.2 * was)
        self.assertGreater(again["outcome"]["cached_tokens"], 500)
        other = [each for each in again["candidates"] if each["backend"] != places[0]]
        self.assertEqual([each["cached_tokens"] for each in other], [0])
        for conversation in range(1, CONVERSATIONS):
            self.assertEqual(self.decision(second, conversation, f"again-{conversation}")["backend"], places[conversation])

    def test_speeds_are_those_that_were_learned(self):
        first = self.start()
        self.warm_up(first)
        learned = self.stopped(first)
        self.assertEqual(self.stopped(self.start()), learned)

    def test_an_engine_that_has_restarted_meanwhile_has_no_prefixes(self):
        first = self.start()
        self.eventually(lambda: self.polled(first), "the metrics of both")
        self.warm_up(first)
        learned = self.stopped(first)
        saved = saved_state.read(self.state)
        self.assertEqual({backend for backend, each in saved.items() if each.engine.prefixes}, set(self.addresses))
        for server in self.servers:
            server.kill()
        time.sleep(1.6)  # start times that are closer are taken for one, whose clock was adjusted
        self.simulate()

        second = self.start()
        self.eventually(lambda: self.polled(second), "the metrics of both")
        fresh = iter(range(CONVERSATIONS))

        def next_decision():
            number = next(fresh)
            return self.decision(second, number, f"again-{number}")

        def predicts_none(attempt):
            return [each["cached_tokens"] for each in attempt["candidates"]] == [0, 0] and attempt

        attempt = self.eventually(lambda: predicts_none(next_decision()), "an index without what the engines had")
        self.assertEqual(attempt["outcome"]["cached_tokens"], 0)
        after = self.stopped(second)
        self.assertGreaterEqual(after[attempt["backend"]][0], learned[attempt["backend"]][0])

    def test_a_kill_loses_prefixes_but_no_speeds(self):
        first = self.start()
        self.warm_up(first)
        learned = self.stopped(first)
        second = self.start()
        self.eventually(lambda: not any(each.engine.prefixes for each in saved_state.read(self.state).values()),
                        "the first write, at the start")
        second.signal(signal.SIGKILL)
        second.process.wait()
        self.assertEqual(self.learned(), learned)

    def test_a_file_that_is_cut_is_learned_anew(self):
        first = self.start()
        self.warm_up(first)
        self.stopped(first)
        self.state.write_bytes(self.state.read_bytes()[:-500])

        second = self.start()
        second.wait_line("the state in .* is not used: it is damaged")
        self.assertEqual(self.stopped(second), {})

    def test_another_picker_writes_none(self):
        first = self.start(picker="least-connections")
        self.ask(first, 1)
        self.assertEqual(self.stopped(first), {})


class Upgrades(Learned, UpgradeCase):
    def test_an_upgrade_passes_on_what_was_learned(self):
        servers = self.simulators("--model", "llama", "--prompt-tokens-details", count=2, speed=4)
        daemon = self.start(*servers.addresses, pool=POOL, listeners=TRUSTING)
        places = self.warm_up(daemon)
        confidences = self.confidences(daemon)

        self.upgrade()

        self.assertEqual(self.confidences(daemon), confidences)
        for conversation in range(CONVERSATIONS):
            attempt = self.decision(daemon, conversation, f"again-{conversation}")
            self.assertEqual(attempt["backend"], places[conversation])
            self.assertGreater(attempt["predicted"]["cached_tokens"], 500)


if __name__ == "__main__":
    case.main()
