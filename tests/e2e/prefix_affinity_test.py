"""`picker: prefix-affinity`: prompts that begin alike meet at one server, by what follows the beginning that all share."""

import json
import math
import random

import case
from stream import Stream, exchange

CHAT = "/v1/chat/completions"
QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}


def text(seed, size):
    """So many bytes, which no other seed gives."""
    chance = random.Random(str(seed))
    return "".join(chance.choice("abcdefghij klmnop") for _ in range(size))


SYSTEM = text("system", 4000)


def chat(document, turns=(), system=SYSTEM):
    """A question about a document, after some turns, behind the system prompt that all share."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": document}]
    for turn in turns:
        messages += [{"role": "assistant", "content": turn}, {"role": "user", "content": "and then?"}]
    return json.dumps({"model": "llama", "max_tokens": 2, "messages": messages}).encode()


class PrefixAffinity(case.Case):
    def cached_ratio(self, picker):
        """Of the prompts' tokens that follow the system prompt, the share that a server had in its cache."""
        servers = self.simulators("--prompt-tokens-details", "--model", "llama", count=4)
        daemon = self.start_daemon(*servers.addresses, pool={**QUIET, "picker": picker}, workers=1)

        def ask(document, turns=()):
            answer = exchange(daemon.address, "POST", CHAT, (), chat(document, turns))
            self.assertEqual(answer.status, 200, answer.body)
            usage = json.loads(answer.body)["usage"]
            return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

        for number in range(40):  # each server gets the system prompt, and evenkeel learns that it is common
            ask(text(("before", number), 1200))
        shared = ask("hello")[0]
        chance = random.Random(3)
        conversations = [[text(("document", number), 6000)] for number in range(16)]
        rounds = [turns for turns in conversations for _ in range(4)]
        chance.shuffle(rounds)
        tokens, cached = 0, 0
        for turns in rounds:
            asked, found = ask(turns[0], turns[1:])
            tokens, cached = tokens + asked - shared, cached + max(0, found - shared)
            turns.append(text(chance.random(), 300))
        return cached / tokens

    def test_conversations_find_their_prefixes_behind_a_shared_system_prompt(self):
        ours = self.cached_ratio("prefix-affinity")
        scattered = self.cached_ratio("least-connections")

        self.assertGreater(ours, 0.6)  # three of four turns, but for what is new in each
        self.assertGreater(ours, 1.25 * scattered)

    def shares(self, bodies):
        """How many of the requests each of four servers has, while all of them are in flight."""
        servers = [self.backend(lambda request: request.wait_disconnected()) for _ in range(4)]
        daemon = self.start_daemon(*servers, pool={**QUIET, "picker": "prefix-affinity"}, workers=1)
        for count, body in enumerate(bodies, 1):
            stream = Stream.connect(daemon.address)
            self.addCleanup(stream.close)
            stream.ask("POST", CHAT, (), body)
            self.eventually(lambda count=count: sum(len(each.exchanges) for each in servers) == count,
                            f"{count} requests at the servers")
        return sorted(len(each.exchanges) for each in servers)

    def test_no_server_gets_more_than_its_bound_of_one_document(self):
        document = text("hot", 3000)
        shares = self.shares([chat(document)] * 12)

        self.assertLessEqual(shares[-1], math.ceil(1.25 * 12 / 4))

    def test_requests_that_say_nothing_go_to_the_least_loaded(self):
        shares = self.shares([b'{"model": "llama", "prompt": []}'] * 12)

        self.assertEqual(shares, [3, 3, 3, 3])


if __name__ == "__main__":
    case.main()
