"""Shared by the reload tests: a daemon whose file changes, and clients that send requests all the time."""

import json
import signal
import socket
import threading
import time

import case
from http2 import Peer
from stream import Stream

EVENTS = [b"data: %d %s\n\n" % (number, b"x" * (number * 37 % 500)) for number in range(12)]


def serve(exchange):
    """A small answer, or a short stream."""
    if exchange.target != "/sse":
        return exchange.answer(b"hello")
    exchange.begin_chunks([("content-type", "text/event-stream")])
    for event in EVENTS:
        exchange.chunk(event)
        time.sleep(0.005)  # time between two tokens
    return exchange.end_chunks()


def refuses(address):
    """Whether connections to this address are refused."""
    host, _, port = address.rpartition(":")
    with socket.socket() as sock:
        return sock.connect_ex((host, int(port))) != 0


class ReloadCase(case.Case):
    def running(self, *backends, pool=None, listeners=None, **config):
        """A daemon with these backends; `self.config` is its configuration from then on."""
        addresses = [each if isinstance(each, (str, dict)) else each.address for each in backends]
        self.config = {"listeners": listeners or [{"name": "public", "address": "127.0.0.1:0"}],
                       "admin": {"address": "127.0.0.1:0"}, "workers": 2,
                       "pools": [{"name": "pool", "backends": addresses, **(pool or {})}], **config}
        self.served = self.daemon(self.config)
        self.config["access_log"] = {"path": str(self.served.access_path)}
        return self.served

    @property
    def pool(self):
        return self.config["pools"][0]

    def write(self, text=None):
        """Writes the current `self.config`, or this text, to the file."""
        self.served.config_path.write_text(json.dumps(self.config, indent=1) if text is None else text)

    def post_reload(self, text=None):
        """Writes the file and reloads; returns status and document."""
        self.write(text)
        answer = self.served.ask_admin("/api/v1/reload", method="POST")
        return answer.status, json.loads(answer.body)

    def reload(self, text=None):
        status, told = self.post_reload(text)
        self.assertEqual(status, 200, told)
        return told

    def refused(self, text=None):
        """Reloads a file that must be rejected; returns the problems as one text."""
        status, told = self.post_reload(text)
        self.assertEqual(status, 422, told)
        self.assertTrue(told)
        return "\n".join(f"{each['path']}: {each['message']}; {each['help']}" for each in told)

    def reloads_logged(self, what="reloaded "):
        return sum(what in line for line in list(self.served.lines))

    def send_sighup(self, text=None):
        """Writes the file and reloads by SIGHUP."""
        self.write(text)
        before = self.reloads_logged()
        self.served.signal(signal.SIGHUP)
        self.eventually(lambda: self.reloads_logged() > before, "the reload")

    def states(self):
        return {each["id"]: each["state"] for each in self.served.api("backends")}


class Traffic:
    """Clients that send requests without pause until `end()`, which fails if any request failed."""

    def __init__(self, test, address, h1=3, h2=1, sse=2, tls=None, path="/"):
        self.address = address
        self.tls = tls
        self.path = path
        self.counts = {"h1": 0, "h2": 0, "sse": 0}
        self.connections = []  # HTTP/2 connections
        self._stop = threading.Event()
        kinds = [(self._ask_h1, h1), (self._ask_h2, h2), (self._ask_sse, sse)]
        self._clients = [test.spawn(work) for work, count in kinds for _ in range(count)]
        test.addCleanup(self._stop.set)  # of a test that fails: its backends end next

    def _ask_h1(self):
        with Stream.connect(self.address, tls=self.tls) as stream:
            while not self._stop.is_set():
                answer = stream.exchange(target=self.path)
                assert (answer.status, answer.body) == (200, b"hello"), (answer.raw, answer.body)
                self.counts["h1"] += 1

    def _ask_h2(self):
        with Peer.connect(self.address, tls=self.tls) as peer:
            self.connections.append(peer)
            while not self._stop.is_set():
                asked = [peer.request(path=self.path) for _ in range(4)]
                for stream in asked:
                    head = stream.read_response()
                    assert (head.status, head.body) == (200, b"hello"), (head.fields, head.body)
                self.counts["h2"] += 4
            assert peer.goaway is None, peer.transcript_text()
            assert not peer.violations, peer.violations

    def _ask_sse(self):
        with Stream.connect(self.address, tls=self.tls) as stream:
            while not self._stop.is_set():
                stream.ask("POST", "/sse", body=b"{}")
                head = stream.read_head()
                pieces = []
                while piece := stream.read_chunk(head):
                    pieces.append(piece)
                assert b"".join(pieces) == b"".join(EVENTS), pieces
                self.counts["sse"] += 1

    def asked(self):
        return sum(self.counts.values())

    def end(self):
        """Stops the clients; returns the number of requests."""
        self._stop.set()
        for client in self._clients:
            client.join()
        return self.asked()
