"""Models whose streams advance when the test says so, and pools that hold requests for them (`picker: expected-time`)."""

import json
import threading

from conversations import CHAT, QUIET
from reloading import ReloadCase
from stream import PATIENCE, Stream

POOL = {**QUIET, "picker": "expected-time"}
TOKEN = b'data: {"choices": [{"index": 0, "delta": {"content": "word "}}]}\n\n'
END = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
LONG = 80_000  # bytes of a prompt that takes seconds, as far as a balancer knows that has seen nothing


def prompt(name, size=100, stream=True, tokens=2):
    """The body of a chat completion whose prompt is unlike that of any other name."""
    words = (f"{name} " * (size // (len(str(name)) + 1) + 1))[:size]
    return json.dumps({"model": "llama", "stream": stream, "max_tokens": tokens,
                       "messages": [{"role": "user", "content": words}]}).encode()


def answer_at_once(request, name="hello"):
    """As a model does, streamed if the request says so; others get the name."""
    if request.target != CHAT:
        return request.answer(name.encode())
    if not json.loads(request.body)["stream"]:
        return request.answer(json.dumps({"server": name, "usage": {"prompt_tokens": 20, "completion_tokens": 2}}).encode(),
                              fields=[("content-type", "application/json"), ("x-server", name)])
    request.begin_chunks([("content-type", "text/event-stream"), ("x-server", name)])
    request.chunk(TOKEN)
    request.chunk(TOKEN + END)
    return request.end_chunks()


class Model:
    """A scripted server whose streams have their heads at once, their first tokens and their ends when the test says so."""

    def __init__(self, test):
        self.began = []  # streams, in order of arrival
        self.running = 0
        self.max_running = 0
        self._lock = threading.Lock()
        self._free = threading.Event()
        self.server = test.backend(self._serve)
        test.addCleanup(self.release_all)

    @property
    def address(self):
        return self.server.address

    def release_all(self):
        """From now on everything is answered at once."""
        self._free.set()
        for stream in list(self.began):
            stream.first_token.set()
            stream.end.set()

    def _serve(self, request):
        if request.target != CHAT:
            return request.answer(b"hello")
        request.first_token, request.end = threading.Event(), threading.Event()
        with self._lock:
            self.began.append(request)
            self.running += 1
            self.max_running = max(self.max_running, self.running)
        try:
            self._stream(request)
        finally:
            with self._lock:
                self.running -= 1
        request.end_chunks()  # last: the next one may come before this thread goes on

    def _stream(self, request):
        request.begin_chunks([("content-type", "text/event-stream")])
        self._wait(request.first_token)
        request.chunk(TOKEN)
        self._wait(request.end)
        request.chunk(TOKEN + END)

    def _wait(self, event):
        if not self._free.is_set():
            event.wait(3 * PATIENCE)


class HeldCase(ReloadCase):
    def models(self, count=1, pool=None, **config):
        self.models_ = [Model(self) for _ in range(count)]
        return self.running(*self.models_, pool={**POOL, **(pool or {})}, **config)

    @property
    def model(self):
        return self.models_[0]

    def begun(self):
        return sum(len(model.began) for model in self.models_)

    def waiting(self):
        return self.served.api("pools")[0]["waiting"]

    def ask(self, body, fields=()):
        stream = Stream.connect(self.served.address)
        self.addCleanup(stream.close)
        stream.ask("POST", CHAT, fields, body)
        return stream

    def send(self, body, fields=()):
        """A request that starts at once."""
        before = self.begun()
        stream = self.ask(body, fields)
        self.eventually(lambda: self.begun() == before + 1, "a request that starts")
        return stream

    def hold(self, body, fields=()):
        """A request that waits."""
        before, begun = self.waiting(), self.begun()
        stream = self.ask(body, fields)
        self.eventually(lambda: self.waiting() == before + 1, "one more in the queue")
        self.assertEqual(self.begun(), begun)
        return stream

    def assert_served(self, *streams):
        for stream in streams:
            answer = stream.read_response()
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual(answer.body, TOKEN + TOKEN + END)
