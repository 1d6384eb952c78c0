"""`picker: prefix-affinity`: prompts that begin alike meet at one server, by what follows the beginning that all share."""

import math

import case
from conversations import CHAT, QUIET, ConversationCase, chat, text
from stream import Stream


class PrefixAffinity(ConversationCase):
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
