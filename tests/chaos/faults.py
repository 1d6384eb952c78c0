"""What can go wrong, and what it may cost the clients. Each fault is a class with `run(world, seconds)`; when it returns, the
fault is over. `allowed` says which results it may cause, and how many at most; everything else fails the run."""

import contextlib
import json
import resource
import signal
import threading
import time

from dns_server import A, AAAA
from servers import HOSTS, MODEL, NAME
from stream import Closed, Stream
from traffic import BROKEN, FAILED, JSON, PATH, SLOW

ANY = float("inf")


class Fault:
    allowed = {}
    least = 1.0  # seconds that it takes to show

    def __init__(self, chance):
        self.chance = chance

    @property
    def name(self):
        return type(self).__name__


class Kill(Fault):
    """SIGKILL of one of the four servers every second. Only answers that had begun may be lost."""

    allowed = {BROKEN: ANY}
    least = 6.0

    def run(self, world, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.monotonic()
            victim = self.chance.choice(world.servers)
            victim.kill()
            time.sleep(0.3)
            victim.start()
            time.sleep(max(0, began + 1 - time.monotonic()))


class Hang(Fault):
    """SIGSTOP: connections are accepted by the kernel, and nothing answers. Its streams may be given up."""

    allowed = {BROKEN: ANY}
    least = 3.5

    def run(self, world, seconds):
        victim = self.chance.choice(world.servers)
        began = time.monotonic()
        victim.freeze()
        try:
            time.sleep(2)
            picks = world.picks(victim)
            time.sleep(max(1, began + seconds - time.monotonic()))
            late = world.picks(victim) - picks
            # A trial request now and then is how a pool finds out that a server is back.
            assert late <= 3, f"{late} requests went to a server that had been hanging for 2 s"
        finally:
            victim.thaw()


class Slow(Fault):
    """A server takes ten times as long."""

    def run(self, world, seconds):
        with sick(self.chance.choice(world.servers), "slow", slow_factor=10):
            time.sleep(seconds)


class Pause(Fault):
    """A server stops for a moment in the middle of its streams, and goes on."""

    def run(self, world, seconds):
        with sick(self.chance.choice(world.servers), "hang"):
            time.sleep(min(seconds, 1))


class Errors(Fault):
    """A server whose health checks pass answers every request with 500, or that it is overloaded."""

    def run(self, world, seconds):
        with sick(self.chance.choice(world.servers), "error", error_status=self.chance.choice([500, 502, 503])):
            time.sleep(seconds)


class Refuse(Fault):
    """A server closes its port and finishes what it has begun."""

    def run(self, world, seconds):
        with sick(self.chance.choice(world.servers), "refuse"):
            time.sleep(seconds)


@contextlib.contextmanager
def sick(server, fault, **settings):
    server.set_fault(fault, **settings)
    try:
        yield
    finally:
        server.set_fault("none")


class Relayed(Fault):
    """The connections to one backend are damaged on their way."""

    fault = ""
    share = 0.5

    def run(self, world, seconds):
        world.relay.share = self.share
        world.relay.fault = self.fault
        try:
            time.sleep(seconds)
        finally:
            world.relay.fault = None


class Reset(Relayed):
    fault = "reset"
    allowed = {BROKEN: ANY}


class Truncate(Relayed):
    fault = "truncate"
    allowed = {BROKEN: ANY}


class Corrupt(Relayed):
    """Answers that are not HTTP. The server may have begun, so a few requests fail before the backend is out of rotation."""

    fault = "corrupt"
    allowed = {BROKEN: ANY, FAILED: 40}


class Stall(Relayed):
    fault = "stall"
    share = 0.2
    allowed = {BROKEN: ANY}


class Trickle(Relayed):
    fault = "trickle"
    share = 0.3


class Names(Fault):
    """The addresses of the pool's name change all the time, and its name server fails now and then."""

    def run(self, world, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            hosts = self.chance.sample(HOSTS, self.chance.randint(1, 4))
            how = self.chance.choice([{}, {}, {}, {"failing": (A, AAAA)}, {"silent": (A, AAAA)}, {"delay": 0.2},
                                      {"raw": lambda query, question: query[:2] + self.chance.randbytes(20)}])
            world.names.say(NAME, *hosts, **how)
            time.sleep(0.3)
        world.names.say(NAME, *HOSTS)


class Reloads(Fault):
    """SIGHUP and reload requests as fast as they go; a third of the files are rejected."""

    def run(self, world, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            config = json.loads(json.dumps(world.config))
            pool = config["pools"][0]
            change = self.chance.randrange(6)
            if change == 0:
                pool["limits"]["max_in_flight"] = self.chance.randint(200, 400)
            if change == 1:
                pool["picker"] = self.chance.choice(world.PICKERS)
            if change == 2:
                pool["timeouts"]["idle"] = f"{self.chance.randint(10, 20)}s"
            if change == 3:
                config["pools"].append({"name": "other", "backends": [HOSTS[0] + ":1"]})
                config["routes"] = [{"match": {"path": "/other"}, "pool": "other"}, {"pool": "fleet"}]
            if change == 4:
                pool["backends"] = "not a list"
            if change == 5:
                pool["backends"] = pool["backends"][:1]
            world.write(config)
            if self.chance.random() < 0.5:
                world.daemon.signal(signal.SIGHUP)
            else:
                world.daemon.ask_admin("/api/v1/reload", method="POST")
            time.sleep(self.chance.random() * 0.1)
        world.write(world.config)
        answer = world.daemon.ask_admin("/api/v1/reload", method="POST")
        assert answer.status == 200, answer.body


class Descriptors(Fault):
    """The daemon may open no further descriptor for a while. Requests may fail then, and not afterwards."""

    allowed = {FAILED: ANY, BROKEN: ANY, SLOW: ANY}

    def run(self, world, seconds):
        pid = world.daemon.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (world.daemon.descriptors() + 2, before[1]))
        connections = []
        try:
            with contextlib.suppress(OSError):
                for _ in range(60):
                    connections.append(Stream.connect(world.daemon.address))
            time.sleep(min(seconds, 2))
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            for each in connections:
                each.close()


class SlowReaders(Fault):
    """Clients that request long answers and hardly read them."""

    body = json.dumps({"model": MODEL, "stream": True, "max_tokens": 1500, "ignore_eos": True,
                       "messages": [{"role": "user", "content": "go on"}]}).encode()

    def run(self, world, seconds):
        readers = []
        before = world.daemon.resident_bytes()
        until = time.monotonic() + seconds
        try:
            for _ in range(world.slow_readers):
                readers.append(Stream.connect(world.daemon.address, receive_buffer=4096))
                readers[-1].ask("POST", PATH, JSON, self.body)
            while time.monotonic() < until:
                for each in readers:
                    each.socket.setblocking(False)
                    with contextlib.suppress(BlockingIOError, ConnectionError):  # closed after `timeouts.write`
                        each.socket.recv(100)
                time.sleep(0.1)
            each = (world.daemon.resident_bytes() - before) / len(readers)
            assert each < 512 * 1024 or world.sanitized, f"a slow reader costs {each:.0f} bytes"
        finally:
            for each in readers:
                each.close()


class Visitors(Fault):
    """Bursts of clients that send half a request, nonsense or nothing."""

    def run(self, world, seconds):
        until = time.monotonic() + seconds
        starts = [b"", b"POST / HT", b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1",
                  b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\1\1"]
        while time.monotonic() < until:
            visitors = [Stream.connect(world.daemon.address) for _ in range(50)]
            for each in visitors:
                with contextlib.suppress(Closed, OSError):
                    each.send(self.chance.choice(starts))
            time.sleep(self.chance.random() * 0.2)
            for each in visitors:
                self.chance.choice([each.close, each.reset])()


class Frozen(Fault):
    """The daemon itself stops for longer than its timeouts, as under `docker pause`. What arrives meanwhile is served."""

    def run(self, world, seconds):
        world.daemon.signal(signal.SIGSTOP)
        time.sleep(min(seconds, 2.5))
        world.daemon.signal(signal.SIGCONT)
        time.sleep(1)


class Upgrade(Fault):
    """SIGUSR2: a new process takes over, and the old one drains."""

    least = 2.0

    def run(self, world, seconds):
        until = time.monotonic() + seconds
        while True:
            world.daemon.upgrade()
            if time.monotonic() > until:
                return


class Clock(Fault):
    """The wall clock jumps by hours, back and forth."""

    def run(self, world, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            world.set_clock(self.chance.choice([-86400, -3600, -1, 1, 3600, 86400 * 400]))
            time.sleep(0.3)
        world.set_clock(0)


class Together(Fault):
    """Two faults at the same time, with what both may cost."""

    def __init__(self, first, second):
        super().__init__(first.chance)
        self._faults = [first, second]
        kinds = {kind for fault in self._faults for kind in fault.allowed}
        self.allowed = {kind: sum(fault.allowed.get(kind, 0) for fault in self._faults) for kind in kinds}
        self.allowed[FAILED] = self.allowed.get(FAILED, 0) + 10  # a request may meet more faults than it has attempts

    @property
    def name(self):
        return " + ".join(fault.name for fault in self._faults)

    def run(self, world, seconds):
        failures = []

        def run(fault):
            try:
                fault.run(world, seconds)
            except BaseException as failure:  # raised again below
                failures.append(failure)

        threads = [threading.Thread(target=run, args=(fault,)) for fault in self._faults]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]


ALL = [Kill, Hang, Slow, Pause, Errors, Refuse, Reset, Truncate, Corrupt, Stall, Trickle, Names, Reloads, Descriptors,
       SlowReaders, Visitors, Frozen, Upgrade, Clock]
# Those that may run beside another one: they neither stop what the other needs nor judge numbers that it changes.
COMBINABLE = [Kill, Slow, Errors, Reset, Truncate, Trickle, Names, Reloads, Visitors, Clock]
