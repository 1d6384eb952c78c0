"""Clients of the servers and of the daemon in front of them, and observers of what both say."""

import collections
import contextlib
import http.client
import json
import socket
import threading
import time
import urllib.error
import urllib.request

import servers

try:
    import numpy
    import tritonclient.grpc
except ImportError:
    tritonclient = None

GONE = (http.client.HTTPException, OSError)


def tally(words):
    counted = collections.Counter(words)
    return ", ".join(f"{count} x {word}" for word, count in counted.most_common())


# ---- observers -----------------------------------------------------------------------------------


class BackgroundThread:
    """Repeats `turn()` on a thread within a `with` block."""

    pause = 0.02

    def __init__(self):
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join(30)

    def _run(self):
        while not self._end.wait(self.pause):
            self.turn()

    def turn(self):
        raise NotImplementedError


class Changes(list):
    """(time, value) whenever the value changes."""

    def see(self, what):
        if not self or self[-1][1] != what:
            self.append((time.monotonic(), what))

    def first(self, what, since=0.0):
        return next((when for when, seen in self if seen == what and when >= since), None)

    def words(self):
        return [what for _, what in self]


class Watch(BackgroundThread):
    """Records what the admin API shows of each backend."""

    def __init__(self, daemon):
        super().__init__()
        self._daemon = daemon
        self.states = collections.defaultdict(Changes)  # by pool and address
        self.polled = collections.defaultdict(list)  # by address, of the pool "http"

    def turn(self):
        for each in self._daemon.api("backends"):
            self.states[each["pool"], each["address"]].see(each["state"])
            if each["pool"] == "http":
                self.polled[each["address"]].append(each["polled"])


class Probe(BackgroundThread):
    """Records what a server's own readiness endpoint answers."""

    def __init__(self, server):
        super().__init__()
        self._server = server
        self.words = Changes()

    def turn(self):
        self.words.see(readiness_of(self._server))


def readiness_of(server):
    try:
        with urllib.request.urlopen(f"http://{server.address}{server.readiness}", timeout=2) as answer:
            return str(answer.status)
    except urllib.error.HTTPError as failure:
        return str(failure.code)
    except OSError as failure:
        refused = isinstance(getattr(failure, "reason", failure), ConnectionRefusedError)
        return "refused" if refused else "no answer"


# ---- clients -------------------------------------------------------------------------------------


class Outcome:
    """The outcome of one request."""

    def __init__(self):
        self.began = time.monotonic()
        self.ended = None
        self.status = None
        self.backend = None
        self.failure = None

    @property
    def good(self):
        return self.failure is None


def ask(connection, wanted):
    """Sends one request and reads its whole response."""
    outcome = Outcome()
    try:
        connection.request(wanted.method, wanted.target, wanted.payload(), servers.JSON)
        answer = connection.getresponse()
        outcome.status = answer.status
        outcome.backend = answer.headers.get("x-evenkeel-backend")
        body = answer.read()
        if answer.status != 200:
            said = body.decode(errors="replace")[:60].strip()
            outcome.failure = f"{answer.status} {answer.headers.get('x-evenkeel-reason') or said}"
        elif not body.endswith(wanted.ends):
            outcome.failure = "half an answer"
    except GONE as failure:
        outcome.failure = type(failure).__name__
        connection.close()
    outcome.ended = time.monotonic()
    return outcome


class Clients:
    """Concurrent clients; each sends its next request when the last one is answered, or a little later."""

    def __init__(self, address, wanted, count, later=0.0):
        self.outcomes = []
        self._later = later
        self._address = address
        self._wanted = wanted
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]

    def __enter__(self):
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        for each in self._threads:
            each.join(120)

    def _run(self):
        connection = http.client.HTTPConnection(self._address, timeout=60)
        while not self._end.is_set():
            outcome = ask(connection, self._wanted)
            self.outcomes.append(outcome)
            self._end.wait(self._later if outcome.good else 0.05)
        connection.close()

    def failed(self):
        return [each for each in self.outcomes if not each.good]

    def served_by(self, server, since=0.0):
        return sum(each.backend == server.address and each.began >= since for each in list(self.outcomes))


class Rpcs(Clients):
    """The same over gRPC, with Triton's client library."""

    def _run(self):
        with tritonclient.grpc.InferenceServerClient(self._address) as client:
            seconds = tritonclient.grpc.InferInput("seconds", [1], "FP32")
            seconds.set_data_from_numpy(numpy.array([0.005], numpy.float32))
            while not self._end.is_set():
                outcome = Outcome()
                try:
                    client.infer("work", [seconds], client_timeout=30)
                except tritonclient.utils.InferenceServerException as failure:
                    outcome.failure = f"{failure.status()} {failure.message()}"
                    self._end.wait(0.05)
                self.outcomes.append(outcome)
                self._end.wait(self._later)


class Stream:
    """A streamed response, read on a thread."""

    def __init__(self, address, wanted):
        self.wanted = wanted
        self.connection = http.client.HTTPConnection(address, timeout=60)
        self.connection.request(wanted.method, wanted.target, wanted.payload(), servers.JSON)
        self._socket = self.connection.sock
        self.answer = self.connection.getresponse()
        self.backend = self.answer.headers.get("x-evenkeel-backend")
        self.body = b""
        self.pieces = 0
        self.head = self.first_piece = self.last_piece = time.monotonic()
        self.silence = 0.0  # the longest time between two pieces, or before the end
        self.ended = None
        self.end = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        try:
            while piece := self.answer.read1(65536):
                self.body += piece
                self.take(time.monotonic())
            whole = self.body.endswith(self.wanted.ends)
            self.end = "ended" if b'"error"' in self.body else "complete" if whole else "ended cleanly but incomplete"
        except (*GONE, AttributeError):  # AttributeError: another thread has closed it
            self.end = "cut off"
        if b'"error"' in self.body:
            self.end += " with an error event"
        self.ended = time.monotonic()
        self.silence = max(self.silence, self.ended - self.last_piece)

    def take(self, now):
        """Times a piece. How long the first one took is not silence."""
        if self.pieces:
            self.silence = max(self.silence, now - self.last_piece)
        else:
            self.first_piece = now
        self.last_piece = now
        self.pieces += 1

    def wait(self, within):
        self._thread.join(within)
        return self.ended is not None

    def leave(self):
        """Closes the connection, whatever is read from it at the moment."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self.close()

    def close(self):
        with contextlib.suppress(OSError):
            self.connection.close()
