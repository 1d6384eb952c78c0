"""The backends of a chaos run: simulated inference servers, each a process that can be killed, and a relay that damages what it
carries."""

import contextlib
import json
import random
import signal
import socket
import struct
import threading
import time

from process import Process
from stream import Closed, Stream

MODEL = "m"
NAME = "fleet.test"
HOSTS = ["127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.14"]
PIECE = 65536


class Server:
    """A simulated vLLM on a fixed address. All servers answer the same request with the same bytes."""

    def __init__(self, address):
        self.address = address
        self.process = None
        self.start()

    def start(self):
        for _ in range(20):
            self.process = Process(["sim", "--listen", self.address, "--model", MODEL, "--speed", "20", "--seed", "7"])
            try:
                self.process.wait_line(r"^ready$")
                self._control = self.process.wait_line(r"listening name=sim-control address=(\S+)")[1]
                return
            except AssertionError:  # the port is still in use by connections of its predecessor
                self.process.kill()
                time.sleep(0.05)
        raise AssertionError(f"no server starts on {self.address}: {self.process.lines}")

    def kill(self):
        self.process.kill()

    def freeze(self):
        self.process.signal(signal.SIGSTOP)

    def thaw(self):
        self.process.signal(signal.SIGCONT)

    def set_fault(self, fault, **settings):
        body = json.dumps({"fault": fault, **settings}).encode()
        with Stream.connect(self._control) as stream:
            answer = stream.exchange("PUT", "/sim/v1/state", body=body)
        assert answer.status == 200, answer.body

    def report(self):
        with Stream.connect(self._control) as stream:
            return json.loads(stream.exchange(target="/sim/v1/report").body)["servers"][0]

    def idle(self):
        """No request is running or waiting."""
        report = self.report()
        return report["running"] == 0 and report["waiting"] == 0


class Relay:
    """Carries connections to a server, and damages some of them while `fault` is set: reset, truncate (closes in the middle of
    an answer), corrupt (changes bytes of the framing), stall (carries nothing), trickle (a few bytes at a time)."""

    def __init__(self, server, seed):
        self._server = server
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self.fault = None
        self.share = 0.5  # of the answers that a fault damages
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client):
        host, _, port = self._server.address.rpartition(":")
        try:
            server = socket.create_connection((host, int(port)), timeout=5)
        except OSError:
            return reset(client)
        server.settimeout(None)
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
        self._pump(server, client, True)

    def _pump(self, source, sink, answers):
        """Copies until either side ends. A pump that ends closes both for the other one, too."""
        try:
            while piece := source.recv(PIECE):
                if answers and self.fault is not None and self._draw() < self.share:
                    if not self._damage(piece, source, sink):
                        return
                else:
                    sink.sendall(piece)
        except OSError:
            pass
        finally:
            for sock in (source, sink):
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _draw(self):
        with self._lock:
            return self._random.random()

    def _damage(self, piece, source, sink):
        """Whether the connection goes on."""
        fault = self.fault
        if fault == "reset":
            reset(sink)
            return False
        if fault == "truncate":
            sink.sendall(piece[:int(len(piece) * self._draw())])
            return False
        if fault == "corrupt":
            # The first bytes of an answer are its status line, those of a later piece a chunk's size.
            sink.sendall(b"\x00\xff" + piece[2:])
            return True
        until = time.monotonic() + 2
        if fault == "stall":
            while self.fault == fault and time.monotonic() < until:
                time.sleep(0.02)
            sink.sendall(piece)
            return True
        for at in range(0, len(piece), 7):  # trickle
            sink.sendall(piece[at:at + 7])
            if self.fault == fault and time.monotonic() < until:
                time.sleep(0.002)
        return True


def reset(sock):
    """Closes the connection with a RST."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.shutdown(socket.SHUT_RD)  # ends a recv() on another thread, which would keep the connection open
    sock.close()


__all__ = ["HOSTS", "MODEL", "NAME", "Closed", "Relay", "Server", "reset"]
