"""A small and a large model, and a new version of the large one that gets 5 %: shares and conversations over 20 000
requests."""

import collections
import json
import random

import case
from reloading import ReloadCase
from stream import Stream

SMALL, LARGE = "llama-8b", "llama-70b"
CONVERSATIONS = 5000
TURNS = 4
CONNECTIONS = 4
BATCH = 50


def turn_of(conversation, turn, model=LARGE):
    """One turn of a chat, with all that was said before. Every other conversation names itself; the rest are known by how
    they begin."""
    messages = [{"role": "system", "content": "You answer in one word."}, {"role": "user", "content": "Who is there?"}]
    fields = b"x-session-id: chat-%d\r\n" % conversation
    if conversation % 2:
        messages[1]["content"] = f"What is {conversation} times 7?"
        fields = b""
    for said in range(turn):
        messages += [{"role": "assistant", "content": f"Answer {said}."}, {"role": "user", "content": f"And {said}?"}]
    body = json.dumps({"model": model, "max_tokens": 1, "messages": messages}).encode()
    return (b"POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n%s"
            b"content-length: %d\r\n\r\n%s" % (fields, len(body), body))


class Canary(ReloadCase):
    def start(self, pools, large):
        """A daemon with these pools, the first of them for the small model; `large` is the target of the other one."""
        self.config = {"listeners": [{"name": "public", "address": "127.0.0.1:0"}],
                       "admin": {"address": "127.0.0.1:0"}, "workers": 2,
                       "pools": [{"inspect": True, "debug_headers": True, **pool} for pool in pools],
                       "routes": [{"name": "small", "match": {"path": "/v1/**", "model": SMALL}, "pool": "small"},
                                  {"name": "large", "match": {"path": "/v1/**", "model": LARGE}, **large}]}
        self.served = self.daemon(self.config)
        self.config["access_log"] = {"path": str(self.served.access_path)}
        self.eventually(lambda: set(self.states().values()) == {"up"}, "backends that are up")

    def placed(self, requests):
        """Pool and backend of each of these requests, pipelined on several connections."""
        def ask(part):
            answers = []
            with Stream.connect(self.served.address) as stream:
                for first in range(0, len(part), BATCH):
                    batch = part[first:first + BATCH]
                    stream.send(b"".join(batch))
                    for _ in batch:
                        answer = stream.read_response()
                        assert answer.status == 200, answer.raw
                        answers.append((answer.field("x-evenkeel-pool"), answer.field("x-evenkeel-backend")))
            return answers

        clients = [self.spawn(lambda part=requests[number::CONNECTIONS]: ask(part)) for number in range(CONNECTIONS)]
        placed = [None] * len(requests)
        for number, client in enumerate(clients):
            placed[number::CONNECTIONS] = client.join()
        return placed

    def check(self, version_of):
        """`version_of`: of a pool and a backend. Returns the versions of all conversations."""
        order = random.Random(1)
        versions = collections.defaultdict(set)
        requests = collections.Counter()
        for turn in range(TURNS):
            conversations = list(range(CONVERSATIONS))
            order.shuffle(conversations)
            for conversation, where in zip(conversations, self.placed(
                    [turn_of(conversation, turn) for conversation in conversations])):
                versions[conversation].add(version_of(*where))
                requests[version_of(*where)] += 1
            small = self.placed([turn_of(conversation, turn, SMALL) for conversation in range(0, CONVERSATIONS, 25)])
            self.assertEqual({pool for pool, _ in small}, {"small"})
            self.config["pools"][1]["limits"] = {"max_in_flight": 1000 + turn}
            self.reload()

        self.assertEqual(sum(requests.values()), 20_000)
        self.assertEqual({conversation for conversation, seen in versions.items() if len(seen) > 1}, set())
        self.assertAlmostEqual(requests["canary"] / 20_000, 0.05, delta=0.01)
        self.assertAlmostEqual(requests["stable"] / 20_000, 0.95, delta=0.01)
        return {conversation: seen.pop() for conversation, seen in versions.items()}

    def servers(self, model, count):
        return self.simulators("--model", model, count=count, speed=10_000).addresses

    def test_of_two_pools(self):
        self.start([{"name": "small", "backends": self.servers(SMALL, 1)},
                    {"name": "large", "backends": self.servers(LARGE, 2)},
                    {"name": "large-canary", "backends": self.servers(LARGE, 1)}],
                   {"split": {"large": 95, "large-canary": 5}})
        self.check(lambda pool, _: {"large": "stable", "large-canary": "canary"}[pool])

    def test_of_two_versions_in_one_pool(self):
        stable, canary = self.servers(LARGE, 2), self.servers(LARGE, 1)
        self.start([{"name": "small", "backends": self.servers(SMALL, 1)},
                    {"name": "large", "backends": [
                        *({"address": each, "labels": {"version": "v1"}} for each in stable),
                        {"address": canary[0], "labels": {"version": "v2"}}]}],
                   {"pool": "large", "split": {"version=v1": 95, "version=v2": 5}})
        before = self.check(lambda _, backend: "canary" if backend in canary else "stable")
        self.assertEqual(self.served.metric("evenkeel_subset_fallbacks_total", pool="large", subset="version=v2"), 0)

        # Twice the share moves 5 % of the conversations to the canary, and none away from it.
        self.config["routes"][1]["split"] = {"version=v1": 90, "version=v2": 10}
        self.reload()
        after = self.placed([turn_of(conversation, TURNS) for conversation in range(CONVERSATIONS)])
        moved = [conversation for conversation, (_, backend) in enumerate(after)
                 if (backend in canary) != (before[conversation] == "canary")]
        self.assertEqual({before[conversation] for conversation in moved}, {"stable"})
        self.assertAlmostEqual(len(moved) / CONVERSATIONS, 0.05, delta=0.01)


if __name__ == "__main__":
    case.main()
