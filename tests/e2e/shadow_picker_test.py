"""`shadow_picker`: what another picker's choices would cost beside those of `picker: expected-time`, in metrics, on the admin
API, and across reloads."""

import json

import case
from conversations import CHAT, text
from scripted_models import LONG, POOL, HeldCase, prompt
from stream import exchange

EVERY = {"name": "expected-time", "explain_one_in": 1}


def shadows(daemon):
    """The series of evenkeel_shadow_*: {(name, picker): sum}."""
    found = {}
    for (name, labels), value in daemon.metrics().items():
        if name.startswith("evenkeel_shadow_"):
            key = name.removeprefix("evenkeel_shadow_"), dict(labels)["picker"]
            found[key] = found.get(key, 0) + value
    return found


def document(daemon):
    return daemon.api("pools")[0]["scheduler"]["shadow"]


def growth(daemon, read, act):
    """How much the numbers that `read` finds have grown when `act` is done."""
    before = read(daemon)
    act()
    return {key: value - before[key] for key, value in read(daemon).items() if isinstance(value, (int, float))}


class UnequalServers(case.Case):
    def start(self, shadow):
        """A daemon with a fast server and one that is eight times slower, which it has got to know."""
        self.fast, self.slow = (self.simulators("--model", "llama", speed=speed).addresses[0] for speed in (8, 1))
        pool = {**POOL, "picker": {**EVERY, "shadow_picker": shadow}}
        self.served = self.start_daemon(self.fast, self.slow, pool=pool, workers=1)
        for known, drained in ((self.slow, self.fast), (self.fast, self.slow)):
            self.change(drained, "drain")
            for number in range(200):
                if self.served.backend(known)["forecast"]["confidence"] != "cold":
                    break
                self.ask(f"for {known} {number}", size=500 + 700 * (number % 20))
            self.change(drained, "undrain")
        confidences = [each["forecast"]["confidence"] for each in self.served.api("backends")]
        self.assertNotIn("cold", confidences, "it does not get to know its servers")

    def change(self, server, action):
        answer = self.served.ask_admin(f"/api/v1/backends/{server}/{action}", method="POST")
        self.assertEqual(answer.status, 200, answer.body)

    def ask(self, about, size=20_000):
        body = json.dumps({"model": "llama", "stream": True, "max_tokens": 4,
                           "messages": [{"role": "user", "content": text(about, size)}]}).encode()
        answer = exchange(self.served.address, "POST", CHAT, (("x-request-id", about.replace(" ", "-")),), body)
        self.assertEqual(answer.status, 200, answer.body)

    def kept(self, name):
        return self.served.api(f"decisions/{name}")["attempts"]

    def test_round_robin_regrets_the_turns_of_the_slow_server(self):
        self.start("round-robin")
        grown = growth(self.served, shadows, lambda: [self.ask(f"r {number}") for number in range(12)])

        self.assertEqual(grown["choices_total", "round-robin"], 12)
        regret = grown["regret_seconds_total", "round-robin"]
        decisions = [self.kept(f"r-{number}")[0]["shadow"] for number in range(12)]
        differences = [each["cost"] - each["scheduler_cost"] for each in decisions]
        self.assertGreater(regret, 0.2)  # six prompts of 5000 tokens, some 80 ms longer each
        self.assertAlmostEqual(regret, sum(each for each in differences if each > 0), delta=1e-3)
        self.assertEqual([each["backend"] for each in decisions].count(self.slow), 6)
        for each, difference in zip(decisions, differences):
            if each["backend"] == self.slow:
                self.assertGreater(difference, 0, each)

    def test_all_pages_tell_the_same(self):
        self.start("least-connections")
        told, metrics = document(self.served), shadows(self.served)
        self.assertEqual(told["picker"], "least-connections")
        self.assertEqual(told["compared_total"] + told["unavailable_total"],
                         metrics["choices_total", "least-connections"])
        self.assertEqual(told["agreed_total"], self.served.metric("evenkeel_shadow_choices_total", result="same"))
        for name in ("regret", "gain"):
            self.assertAlmostEqual(told[f"{name}_seconds_total"],
                                   metrics[f"{name}_seconds_total", "least-connections"], places=6)


class Shadows(HeldCase):
    def start(self, shadow, **pool):
        """Two models, of which the first one to get a prompt is kept busy with a long one."""
        self.models(count=2, pool={**pool, **({"picker": {**EVERY, "shadow_picker": shadow}} if shadow else {})},
                    workers=1)
        self.busy = self.send(prompt("long", LONG))
        model = next(each for each in self.models_ if not each.began)
        model.release_all()
        self.free = model.address

    def serve(self, name, fields=()):
        answer = exchange(self.served.address, "POST", CHAT, (("x-request-id", name), *fields), prompt(name))
        self.assertEqual(answer.status, 200, answer.body)

    def shadow_of(self, name):
        return self.served.api(f"decisions/{name}")["attempts"][0]["shadow"]

    def end(self):
        for each in self.models_:
            each.release_all()
        self.busy.close()

    def test_it_changes_no_placement(self):
        placements = []
        for shadow in ("", "round-robin", "consistent-hash"):
            self.start(shadow)
            for number in range(10):
                self.serve(f"n{number}")
            picks = {each["address"] == self.free: each["picks_total"] for each in self.served.api("backends")}
            placements.append(picks)
            self.end()
        self.assertEqual(placements, 3 * [{True: 10, False: 1}])

    def test_it_regrets_what_it_would_send_behind_a_long_prompt(self):
        self.start("round-robin")
        grown = growth(self.served, document, lambda: [self.serve(f"n{number}") for number in range(10)])
        self.assertEqual(grown["compared_total"], 10)
        self.assertEqual(grown["agreed_total"], 5)
        self.assertGreater(grown["regret_seconds_total"], 5)  # a second each, at least
        self.assertEqual({self.shadow_of(f"n{number}")["scheduler_backend"] for number in range(10)}, {self.free})
        self.end()

    def test_it_sees_what_a_picker_by_keys_would_see(self):
        self.start("consistent-hash")
        users = [[("x-session-id", f"user {user}")] for user in range(32)]
        for number in range(64):
            self.serve(f"n{number}", users[number % 32])
        chosen = [self.shadow_of(f"n{number}")["backend"] for number in range(64)]
        self.assertEqual(chosen[:32], chosen[32:])
        self.assertEqual(len(set(chosen)), 2)
        self.end()

    def test_a_reload_changes_it_and_removes_it(self):
        self.start("round-robin")
        self.serve("first")
        counted = shadows(self.served)
        self.assertGreater(counted["choices_total", "round-robin"], 0)

        self.pool["debug_headers"] = True
        self.reload()
        self.assertEqual(shadows(self.served), counted)

        self.pool["picker"]["shadow_picker"] = "least-latency"
        self.reload()
        self.assertEqual(shadows(self.served), {
            (name, "least-latency"): 0 for name in ("choices_total", "regret_seconds_total", "gain_seconds_total")})
        self.serve("second")
        self.assertEqual(document(self.served)["compared_total"], 1)
        self.assertIsNotNone(self.shadow_of("second"))

        self.pool["picker"]["explain_one_in"] = 3
        self.reload()
        for number in range(6):
            self.serve(f"n{number}")
        self.assertEqual(document(self.served)["compared_total"], 3)

        del self.pool["picker"]["shadow_picker"]
        self.reload()
        for number in range(6, 12):
            self.serve(f"n{number}")
        self.assertEqual(shadows(self.served), {})
        self.assertIsNone(document(self.served))
        self.assertIsNone(self.shadow_of("n8"))
        self.end()

    def test_a_file_in_which_it_has_no_effect_is_refused(self):
        self.start("round-robin")
        self.pool["picker"]["name"] = "least-connections"
        self.assertIn("pools[0].picker.shadow_picker: unknown key; only `expected-time` has it", self.refused())
        self.serve("still")
        self.assertEqual(self.shadow_of("still")["scheduler_backend"], self.free)
        self.end()


if __name__ == "__main__":
    case.main()
