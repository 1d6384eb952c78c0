"""Clients that send requests without pause and classify every result. They know the right answer byte for byte."""

import collections
import json
import random
import threading
import time

import http2
from http2 import Peer
from servers import MODEL
from stream import Closed, Stream

PATH = "/v1/chat/completions"
JSON = [("content-type", "application/json")]

# What became of a request.
OK = "ok"              # the right answer, whole
FAILED = "failed"      # an error before any byte of the backend's answer
BROKEN = "broken"      # an answer that began and ended visibly before its end
WRONG = "wrong"        # an answer that looks whole and is not the right one: never allowed
SLOW = "slow"          # took longer than a client waits

Outcome = collections.namedtuple("Outcome", "kind detail began ended")


def prompts():
    """Bodies of requests: half are streamed. Few enough to know all answers, enough to spread over the servers."""
    for number in range(8):
        for stream in (False, True):
            yield json.dumps({"model": MODEL, "stream": stream, "max_tokens": 4 + number * 5,
                              "messages": [{"role": "user", "content": f"say {number} " + "word " * number * 9}]}).encode()


class Answers:
    """The right answers, from a server without a balancer."""

    def __init__(self, address):
        self._bodies = {}
        for prompt in prompts():
            with Stream.connect(address) as stream:
                answer = stream.exchange("POST", PATH, JSON, prompt)
                assert answer.status == 200, answer.body
                self._bodies[prompt] = answer.body
        self.prompts = list(self._bodies)

    def judge(self, prompt, status, reason, body):
        """Kind and detail of a complete answer."""
        if status != 200:
            # The head of an answer and its breakage may arrive at once. Nothing has gone to the client then, which gets a 502.
            began = status == 502 and b"within its response" in body
            return BROKEN if began else FAILED, f"{status} {reason} {body[:300]}"
        if body == self._bodies[prompt]:
            return OK, ""
        return WRONG, f"{len(body)} of {len(self._bodies[prompt])} bytes, ends with {body[-60:]!r}"


class Traffic:
    """`h1` clients with one request at a time, `h2` connections with several, and one client that leaves in the middle."""

    def __init__(self, address, answers, seed, h1=10, h2=2):
        self.address = address
        self._answers = answers
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._outcomes = []
        self._violations = []
        self._failures = []
        self.count = 0
        kinds = [self._http1] * h1 + [self._http2] * h2 + [self._leaver]
        self._threads = [threading.Thread(target=self._run, args=(kind, random.Random(f"{seed} {number}")), daemon=True)
                         for number, kind in enumerate(kinds)]
        for thread in self._threads:
            thread.start()

    def outcomes(self):
        """Those since the last call."""
        with self._lock:
            outcomes, self._outcomes = self._outcomes, []
        assert not self._violations, self._violations[:3]
        assert not self._failures, self._failures[:3]
        return outcomes

    def end(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a client waits for ever"

    def _run(self, kind, chance):
        try:
            while not self._stop.is_set():
                try:
                    kind(chance)
                except (Closed, OSError):
                    time.sleep(0.05)  # the daemon does not accept connections at the moment
        except Exception as failure:  # reported by outcomes()
            self._failures.append(repr(failure))
            raise

    def _note(self, kind, detail, began):
        with self._lock:
            self.count += 1
            self._outcomes.append(Outcome(kind, detail, began, time.monotonic()))

    def _think(self, chance):
        self._stop.wait(chance.random() * 0.03)

    def _http1(self, chance):
        with Stream.connect(self.address) as stream:
            while not self._stop.is_set():
                prompt = chance.choice(self._answers.prompts)
                began = time.monotonic()
                head = None
                try:
                    stream.ask("POST", PATH, JSON, prompt)
                    head = stream.read_head()
                    stream.read_body(head)
                except TimeoutError:
                    return self._note(SLOW, "no answer" if head is None else "no end", began)
                except (Closed, OSError, ValueError, AssertionError) as end:
                    return self._note(FAILED if head is None else BROKEN, repr(end)[:120], began)
                self._note(*self._answers.judge(prompt, head.status, head.reason, head.body), began)
                if (head.field("connection") or "").lower() == "close":
                    return
                self._think(chance)

    def _http2(self, chance):
        with Peer.connect(self.address, violations=self._violations) as peer:
            while not self._stop.is_set() and peer.goaway is None:
                began = time.monotonic()
                asked = [(prompt, peer.request("POST", PATH, JSON, prompt))
                         for prompt in chance.choices(self._answers.prompts, k=4)]
                for prompt, stream in asked:
                    self._read_http2(peer, prompt, stream, began)
                self._think(chance)

    def _read_http2(self, peer, prompt, stream, began):
        try:
            head = stream.read_response()
        except TimeoutError:
            return self._note(SLOW, "no end", began)
        except http2.Reset as end:
            return self._note(FAILED if stream.head is None else BROKEN, repr(end), began)
        except Closed:
            if peer.goaway is not None and stream.number > peer.goaway[0]:
                return None  # refused in a way that says: send it again
            return self._note(FAILED if stream.head is None else BROKEN, "connection ended", began)
        return self._note(*self._answers.judge(prompt, head.status, head.reason, head.body), began)

    def _leaver(self, chance):
        """Requests a long answer and closes after a while."""
        body = json.dumps({"model": MODEL, "stream": True, "max_tokens": 3000, "ignore_eos": True,
                           "messages": [{"role": "user", "content": "go on"}]}).encode()
        with Stream.connect(self.address) as stream:
            stream.ask("POST", PATH, JSON, body)
            self._stop.wait(chance.random() * 0.5)
            chance.choice([stream.close, stream.reset])()


def summary(outcomes):
    kinds = collections.Counter(each.kind for each in outcomes)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
