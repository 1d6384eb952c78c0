"""What the tests share in which clients and servers misbehave at random. EVENKEEL_DISORDER_SECONDS sets the duration;
EVENKEEL_DISORDER_SEED repeats the random choices of a run."""

import collections
import os
import random
import time

import case

SECONDS = float(os.environ.get("EVENKEEL_DISORDER_SECONDS", "3"))
SEED = int(os.environ.get("EVENKEEL_DISORDER_SEED") or random.SystemRandom().randrange(10**6))


class ChaosCase(case.Case):
    def choices(self, name):
        """A source of random generators, one for each server and client of the run of that name."""
        print(f"\n  seed {SEED} ", end="", flush=True)
        seeds = random.Random(f"{SEED} {name}")
        return lambda: random.Random(seeds.random())

    def impatient_daemon(self, *backends, **pool):
        """Three workers whose timeouts are short."""
        limits = {"queue": {"size": 5, "timeout": "200ms"}, **pool.pop("limits")}
        return self.start_daemon(
            *backends, workers=3,
            listeners=[{"name": "public", "timeouts": {"header": "300ms", "body": "200ms", "idle": "500ms",
                                                       "write": "300ms"}}],
            pool={"keep_alive": {"idle": "100ms"}, "limits": limits,
                  "timeouts": {"first_byte": "200ms", "idle": "200ms", "connect": "200ms"}, **pool})

    def run_clients(self, clients, at_least):
        """Each has `run(until)`, and `count`: of its requests."""
        until = time.monotonic() + SECONDS / 2
        for each in [self.spawn(lambda client=client: client.run(until)) for client in clients]:
            each.join(60 + SECONDS)
        requests = sum(client.count for client in clients)
        self.assertGreater(requests, at_least)
        print(f"{requests} requests", end="", flush=True)

    def check_nothing_is_left(self, daemon):
        """All connections end; every request has a line in the access log, and every error is counted."""
        daemon.wait_at_rest()
        self.eventually(lambda: daemon.api("status")["connections"] == 0, "the end of all connections")
        self.eventually(lambda: daemon.metric("evenkeel_backend_links") == 0, "the end of idle links")
        total = daemon.metric("evenkeel_requests_total")
        lines = daemon.wait_access(total)
        self.assertEqual(len(lines), total)
        reasons = collections.Counter(line["reason"] for line in lines)
        print(f", {dict(reasons.most_common(5))} ", end="", flush=True)
        for reason in reasons:
            if reason is not None:
                self.assertEqual(daemon.metric("evenkeel_errors_total", reason=reason), reasons[reason], reason)
