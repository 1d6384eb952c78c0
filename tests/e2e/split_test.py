"""A split gives each version its share, and keeps a conversation on its version."""

import collections

import case
from reloading import ReloadCase
from stream import Stream

BATCH = 100


def answers(address, sessions, field="x-session-id"):
    """The body of the answer to one request of each session, in that order; pipelined on one connection."""
    bodies = []
    with Stream.connect(address) as stream:
        for first in range(0, len(sessions), BATCH):
            batch = sessions[first:first + BATCH]
            stream.send(b"".join(b"GET / HTTP/1.1\r\nhost: test\r\n%s: %s\r\n\r\n"
                                 % (field.encode(), session.encode()) for session in batch))
            bodies += [stream.read_response().body.decode() for _ in batch]
    return bodies


class Splits(ReloadCase):
    def running_split(self, shares, **route):
        backends = {name: self.backend(lambda request, name=name: request.answer(name.encode()))
                    for name in shares}
        self.config = {"listeners": [{"name": "public", "address": "127.0.0.1:0"}],
                       "admin": {"address": "127.0.0.1:0"}, "workers": 2,
                       "pools": [{"name": name, "backends": [backend.address]}
                                 for name, backend in backends.items()],
                       "routes": [{"name": "chat", "split": shares, **route}]}
        self.served = self.daemon(self.config)
        self.config["access_log"] = {"path": str(self.served.access_path)}
        return self.served

    def test_a_conversation_never_changes_its_version(self):
        daemon = self.running_split({"stable": 95, "canary": 5})
        sessions = [f"user-{number}" for number in range(5000)]

        before = [answers(daemon.address, sessions) for _ in range(2)]
        self.config["pools"][0]["limits"] = {"max_in_flight": 100}
        self.reload()
        after = [answers(daemon.address, sessions) for _ in range(2)]
        # Another process, with another number of workers.
        self.config["workers"] = 1
        self.config.pop("access_log")
        other = answers(self.daemon(self.config).address, sessions)

        for versions in (*before, *after, other):
            self.assertEqual(versions, before[0])
        self.assertAlmostEqual(collections.Counter(before[0])["canary"] / len(sessions), 0.05, delta=0.01)

    def test_a_larger_share_moves_only_what_it_gains(self):
        daemon = self.running_split({"stable": 95, "canary": 5})
        sessions = [f"user-{number}" for number in range(5000)]

        before = answers(daemon.address, sessions)
        self.config["routes"][0]["split"] = {"stable": 90, "canary": 10}
        self.reload()
        after = answers(daemon.address, sessions)

        moved = [new for old, new in zip(before, after) if old != new]
        self.assertEqual(set(moved), {"canary"})
        self.assertAlmostEqual(len(moved) / len(sessions), 0.05, delta=0.01)

    def test_requests_of_no_conversation_are_spread(self):
        daemon = self.running_split({"a": 50, "b": 50})
        same = ["one"] * 200

        self.assertEqual(len(set(answers(daemon.address, same))), 1)
        self.assertEqual(set(answers(daemon.address, same, field="x-other")), {"a", "b"})


if __name__ == "__main__":
    case.main()
