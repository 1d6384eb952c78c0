"""Faults at random under load: servers that are killed, hang, are slow, answer wrongly; names, files, descriptors and clocks
that change. No request may fail that the fault did not make impossible, and at rest afterwards nothing may be left: no lease,
no descriptor, no memory, no child process.

    run.py --seconds 60        each fault once, in random order, in about that time
    run.py --minutes 30        faults at random, some of them two at a time
    run.py --seed 4711 --only Kill,Names
"""

import argparse
import collections
import json
import mmap
import os
import pathlib
import random
import resource
import struct
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import faults  # noqa: E402
from dns_server import NameServer  # noqa: E402
from ports import free_port  # noqa: E402
from process import SANITIZED, wait_until  # noqa: E402
from servers import HOSTS, NAME, Relay, Server  # noqa: E402
from traffic import OK, Answers, Traffic, summary  # noqa: E402
from upgradable import UpgradableDaemon  # noqa: E402

MEBI = 1 << 20
CALM_SECONDS = 0.5  # after each fault, in which nothing may fail


class World:
    """Four servers, a fifth backend behind a relay, the daemon and its clients."""

    PICKERS = ("least-connections", "round-robin", "weighted", "least-latency", "queue-depth", "gpu", "prefix-affinity",
               "expected-time")

    def __init__(self, folder, chance, slow_readers):
        self.slow_readers = slow_readers
        self.sanitized = SANITIZED
        port = free_port(HOSTS)
        self.servers = [Server(f"{host}:{port}") for host in HOSTS]
        self.behind_relay = Server("127.0.0.1:%d" % free_port())
        self.relay = Relay(self.behind_relay, chance.random())
        self.names = NameServer()
        self.names.say(NAME, *HOSTS)
        self._clock = folder / "clock"
        self._clock.write_bytes(bytes(8))
        self.config = {
            "listeners": [{"name": "public", "address": "127.0.0.1:0",
                           "timeouts": {"header": "2s", "body": "2s", "write": "20s"}}],
            "admin": {"address": "127.0.0.1:0"},
            "workers": 2,
            "access_log": {"path": str(folder / "access.log")},
            "dns": {"servers": [self.names.address], "min_ttl": "100ms", "max_ttl": "300ms"},
            # Named as in the files that the reloads bring: the counters of a route that is gone end.
            "routes": [{"pool": "fleet"}],
            "pools": [{
                "name": "fleet", "engine": "vllm", "picker": chance.choice(self.PICKERS),
                "backends": [f"{NAME}:{port}", self.relay.address],
                # The readers that hardly read leave room for the others.
                "limits": {"max_in_flight": max(300, slow_readers)},
                "stream_usage": "off",  # answers depend on the bytes of their requests
                "timeouts": {"connect": "500ms", "first_byte": "10s", "idle": "10s"},
                "keep_alive": {"idle": "1s"},
                "health": {"interval": "250ms", "timeout": "300ms", "fall": 2, "rise": 1},
                "retry": {"attempts": 3, "on": ["reset", "5xx", "overload"]},
            }],
        }
        self.daemon = UpgradableDaemon(folder, self.config, env=self._clock_environment())
        self.answers = Answers(self.servers[0].address)

    def _clock_environment(self):
        """The clock of the daemon's process is shifted by a library; that of the machine stays."""
        library = os.environ.get("EVENKEEL_CLOCK_SHIFT", "")
        if SANITIZED or not library:
            return {}
        return {"LD_PRELOAD": library, "CLOCK_SHIFT_FILE": str(self._clock)}

    @property
    def can_set_clock(self):
        return bool(self._clock_environment())

    def set_clock(self, seconds):
        """Shifts the daemon's wall clock."""
        with self._clock.open("r+b") as file, mmap.mmap(file.fileno(), 8) as shift:
            shift[:] = struct.pack("q", seconds)

    def write(self, config):
        """Replaces the file in one step, since a reload may read it at any moment."""
        path = self.daemon.config_path
        new = path.with_suffix(".new")
        new.write_text(json.dumps(config, indent=1))
        new.replace(path)

    def picks(self, server):
        return sum(each["picks_total"] for each in self.daemon.api("backends") if each["address"] == server.address)

    def all_up(self):
        states = [each["state"] for each in self.daemon.api("backends")]
        return len(states) == 5 and set(states) == {"up"}

    def close(self):
        self.daemon.finish()
        self.relay.close()
        for server in [*self.servers, self.behind_relay]:
            server.kill()
        self.names.close()


class Resources:
    """What the daemon holds at rest."""

    def __init__(self, daemon):
        self._daemon = daemon
        self.descriptors = daemon.descriptors()
        self.resident = daemon.resident_bytes()

    def check_same(self, patience):
        daemon = self._daemon
        # Connections for health checks and polls: two per backend, closed and opened again all the time.
        wait_until(lambda: daemon.descriptors() <= self.descriptors + 10, patience,
                   f"the end of descriptors: {self.descriptors} before, {daemon.descriptors()} after")
        limit = self.resident * 1.5 + 48 * MEBI
        if not SANITIZED:
            wait_until(lambda: daemon.resident_bytes() < limit, patience,
                       f"memory to be given back: {self.resident / MEBI:.0f} MiB before, "
                       f"{daemon.resident_bytes() / MEBI:.0f} after")
        children = pathlib.Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
        assert not children, f"processes left: {children}"
        print(f"at rest: {self.descriptors} -> {daemon.descriptors()} descriptors, "
              f"{self.resident / MEBI:.0f} -> {daemon.resident_bytes() / MEBI:.0f} MiB")


class Run:
    def __init__(self, world, seed):
        self._world = world
        self._seed = seed
        self._totals = collections.Counter()
        self._traffic = None
        self._before = None
        self._lines = 0  # in the access log, of former processes

    def play(self, plan):
        """`plan`: pairs of a fault and the seconds that it lasts."""
        world = self._world
        self._begin()
        for fault, seconds in plan:
            upgrades = isinstance(fault, faults.Upgrade)
            if upgrades:  # the process that has the faults so far behind it ends
                self._end()
                self._begin()
            began = time.monotonic()
            fault.run(world, seconds)
            self._recover()
            self._judge(fault.name, fault.allowed, time.monotonic() - began)
            time.sleep(CALM_SECONDS)
            self._judge(f"after {fault.name}", {}, 0)
            if upgrades:
                self._stop_traffic()
                self._begin()
        self._end()

    def _begin(self):
        """Takes what the process at rest has as the measure, and starts the clients."""
        world = self._world
        self._rest()
        time.sleep(CALM_SECONDS)  # the access log is behind by 50 ms at most
        self._lines = len(world.daemon.access_lines()) - world.daemon.metric("evenkeel_requests_total")
        self._before = Resources(world.daemon)
        self._traffic = Traffic(world.daemon.address, world.answers, self._seed)
        time.sleep(1)
        self._judge("warm-up", {}, 0)

    def _stop_traffic(self):
        self._traffic.end()
        self._judge("the end", {}, 0)

    def _end(self):
        self._stop_traffic()
        self._check_rest()

    def _recover(self):
        """Every backend is up again, and requests that were sent during the fault have ended."""
        wait_until(self._world.all_up, 30, "all backends to be up again")
        time.sleep(CALM_SECONDS)

    def _judge(self, name, allowed, seconds):
        outcomes = self._traffic.outcomes()
        self._totals.update(each.kind for each in outcomes)
        assert self._world.daemon.running(), "the daemon has ended:\n" + "\n".join(self._world.daemon.lines[-20:])
        if seconds:
            print(f"{name:24} {seconds:4.1f} s: {summary(outcomes)}", flush=True)
        counts = collections.Counter(each.kind for each in outcomes)
        assert counts[OK] > 0 or not seconds, f"{name}: no request was answered"
        for kind, count in counts.items():
            if kind != OK and count > allowed.get(kind, 0):
                samples = [f"  {each.detail} (after {each.ended - each.began:.2f} s)"
                           for each in outcomes if each.kind == kind]
                raise AssertionError(f"{name}: {count} {kind}, {allowed.get(kind, 0)} allowed:\n" +
                                     "\n".join(samples[:8]) + "\n" + self._last_failures())

    def _last_failures(self):
        """The access log's last lines of requests that failed, and what was left of the budget for retries."""
        time.sleep(0.2)  # the log is behind by 50 ms at most
        daemon = self._world.daemon
        lines = [line for line in daemon.access_lines() if (line["status"] or 0) >= 500]
        exhausted = daemon.metric("evenkeel_retry_budget_exhausted_total")
        return "\n".join(f"  {json.dumps(line)}" for line in lines[-3:]) + f"\n  retries beyond the budget: {exhausted:.0f}"

    def _rest(self):
        world = self._world
        world.daemon.wait_at_rest()
        wait_until(lambda: world.daemon.api("status")["connections"] == 0, what="the end of all connections")
        wait_until(lambda: world.daemon.metric("evenkeel_backend_links") == 0, what="the end of idle links")
        wait_until(lambda: all(each.idle() for each in [*world.servers, world.behind_relay]),
                   what="the end of all generations")

    def _check_rest(self):
        world = self._world
        self._rest()
        total = world.daemon.metric("evenkeel_requests_total")
        dropped = world.daemon.metric("evenkeel_access_log_dropped_total")
        lines = len(world.daemon.wait_access(self._lines + total - dropped)) - self._lines
        assert lines <= total, f"{lines} lines in the access log for {total} requests"
        self._before.check_same(patience=60)
        print(f"{total:.0f} requests, {dict(self._totals)}")


def drawn(chance, minutes):
    """Faults at random, one or two at a time."""
    until = time.monotonic() + minutes * 60
    while time.monotonic() < until:
        seconds = chance.choice([3, 5, 10])
        if chance.random() < 0.3:
            first, second = chance.sample(faults.COMBINABLE, 2)
            yield faults.Together(first(chance), second(chance)), seconds
        else:
            fault = chance.choice(faults.ALL)(chance)
            yield fault, 60 if isinstance(fault, faults.Kill) and minutes > 5 else seconds


def each_once(chance, kinds, seconds):
    kinds = kinds.copy()
    chance.shuffle(kinds)
    recovery = 1.2
    each = seconds / len(kinds) - recovery
    return [(kind(chance), max(each, kind.least)) for kind in kinds]


def arguments():
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="each fault once, in about this time (60)")
    parser.add_argument("--minutes", type=float, help="faults at random for this time")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="repeats the choices")
    parser.add_argument("--slow-readers", type=int, help="how many at a time; default 60, with --minutes 1000")
    parser.add_argument("--only", default="", metavar="FAULT[,FAULT...]",
                        help="of " + " ".join(kind.__name__ for kind in faults.ALL))
    given = parser.parse_args()
    kinds = {kind.__name__: kind for kind in faults.ALL}
    unknown = [name for name in given.only.split(",") if name and name not in kinds]
    if unknown:
        parser.error(f"unknown fault: {', '.join(unknown)}; known: {' '.join(kinds)}")
    given.slow_readers = given.slow_readers or (1000 if given.minutes else 60)
    given.kinds = [kinds[name] for name in given.only.split(",") if name] or faults.ALL
    return given


def main():
    given = arguments()
    print(f"seed {given.seed}", flush=True)
    chance = random.Random(given.seed)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory(prefix="evenkeel-chaos-") as folder:
        world = World(pathlib.Path(folder), chance, given.slow_readers)
        kinds = [kind for kind in given.kinds if kind is not faults.Clock or world.can_set_clock]
        plan = drawn(chance, given.minutes) if given.minutes else each_once(chance, kinds, given.seconds)
        try:
            Run(world, given.seed).play(plan)
        except BaseException:
            print(f"failed; repeat the choices with --seed {given.seed}", flush=True)
            world.daemon.kill()
            raise
        finally:
            world.close()


if __name__ == "__main__":
    main()
