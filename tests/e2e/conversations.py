"""Prompts that share their beginnings, and what a pool makes of them: used by the tests of the pickers that look at prompts."""

import json
import random

import case
from stream import exchange

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


class ConversationCase(case.Case):
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
