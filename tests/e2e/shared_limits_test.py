"""Limits that several replicas share through Redis, and what holds while it is away."""

import concurrent.futures
import hashlib
import json
import pathlib
import shutil
import threading
import time
import unittest

import case
from redis import Redis
from stream import exchange

CHAT = "/v1/chat/completions"
KEY = "sk-acme-4711"
JSON = ("content-type", "application/json")
FIELDS = [JSON, ("authorization", f"Bearer {KEY}")]


def chat(**more):
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **more}).encode()


@unittest.skipIf(shutil.which("redis-server") is None, "redis-server is not installed (./dev setup)")
class SharedLimits(case.Case):
    def setUp(self):
        self.served = 0
        self.lock = threading.Lock()

    def script(self, request):
        with self.lock:
            self.served += 1
        request.answer(b'{"model": "m", "usage": {"prompt_tokens": 7, "completion_tokens": 3}}', fields=[JSON])

    def replicas(self, redis, limits, count=4, **shared):
        backend = self.backend(self.script)
        config = {"listeners": [{"name": "public", "address": "127.0.0.1:0"}], "admin": {"address": "127.0.0.1:0"},
                  "workers": 2, "shared_state": {"redis": redis.url, "replicas": count, "timeout": "1s", **shared},
                  "tenants": [{"name": "acme", "keys_sha256": [hashlib.sha256(KEY.encode()).hexdigest()], "limits": limits}],
                  "pools": [{"name": "pool", "engine": "vllm", "backends": [backend.address], "health": {"check": "off"},
                             "metrics": {"scrape": "off"}}]}
        daemons = [self.daemon(config) for _ in range(count)]
        for daemon in daemons:  # until both workers are connected, limits hold as without Redis
            self.eventually(lambda: redis.command("CLIENT", "LIST").count("cmd=script|load") +
                            redis.command("CLIENT", "LIST").count("cmd=evalsha") >= 2 * count, "connections of all workers")
        return daemons

    def ask(self, daemon, **more):
        return exchange(daemon.address, "POST", CHAT, FIELDS, chat(**more))

    def ask_all(self, daemons, count, **more):
        """The statuses of so many requests at the same time, spread over the replicas."""
        with concurrent.futures.ThreadPoolExecutor(40) as clients:
            return list(clients.map(lambda number: self.ask(daemons[number % len(daemons)], **more).status, range(count)))

    def test_hold_for_all_replicas_together(self):
        daemons = self.replicas(Redis(self), {"requests": "50/day"})
        statuses = self.ask_all(daemons, 200)
        self.assertEqual((statuses.count(200), statuses.count(429)), (50, 150))
        self.assertEqual(self.served, 50)
        refused = self.ask(daemons[0])
        self.assertEqual((refused.status, refused.field("x-ratelimit-remaining-requests")), (429, "0"))

    def test_are_settled_with_what_was_used_at_any_replica(self):
        redis = Redis(self)
        daemons = self.replicas(redis, {"tokens": ["200/day", "100000/min"]})
        for number in range(19):  # each takes 10
            self.assertEqual(self.ask(daemons[number % 4], max_tokens=5).status, 200, number)
        long = [{"role": "user", "content": "x" * 400}]
        self.eventually(lambda: self.ask(daemons[1], messages=long).field("x-ratelimit-remaining-tokens") == "10",
                        "the settlement of all")
        (key,) = [each for each in redis.command("KEYS", "*").split() if not each.endswith(":0")]
        self.assertEqual(redis.command("GET", key).strip(), "190")

    def test_are_shares_of_each_replica_while_redis_is_away(self):
        redis = Redis(self)
        daemons = self.replicas(redis, {"requests": "40/day"})
        redis.kill()
        statuses = self.ask_all(daemons, 160)
        self.assertEqual((statuses.count(200), statuses.count(429)), (40, 120))
        self.assertTrue(daemons[0].wait_line("no limits are shared"))
        redis.start()
        self.eventually(lambda: self.ask(daemons[0]).field("x-ratelimit-limit-requests") == "40" and
                        redis.command("KEYS", "*").strip(), "shared limits again")
        # One of the workers tells it, once it has an answer.
        self.eventually(lambda: self.ask(daemons[0]) and "limits are shared through Redis again" in "\n".join(daemons[0].lines),
                        "the line of the log")

    def test_a_hanging_redis_delays_no_request_beyond_its_timeout(self):
        redis = Redis(self)
        (daemon,) = self.replicas(redis, {"requests": "1000/day"}, count=1, timeout="20ms")
        redis.pause()
        self.addCleanup(redis.resume)
        times = []
        for _ in range(50):
            begin = time.monotonic()
            self.assertEqual(self.ask(daemon).status, 200)
            times.append(time.monotonic() - begin)
        # One in 100 ms tries it again, the others do not wait for it at all.
        self.assertLess(sorted(times)[len(times) // 2], 0.02)
        self.assertLess(sorted(times)[-3], 1)
        redis.resume()
        before = redis.command("INFO", "commandstats")

        def used():
            self.ask(daemon)
            return redis.command("INFO", "commandstats") != before

        self.eventually(used, "calls again")

    def test_closed_refuses_while_redis_is_away_and_open_does_not(self):
        redis = Redis(self)
        (closed,) = self.replicas(redis, {"requests": "1/day"}, count=1, on_failure="closed")
        (opened,) = self.replicas(redis, {"requests": "1/day"}, count=1, on_failure="open")
        redis.kill()
        for daemon in (closed, opened):
            daemon.wait_line("no limits are shared")
        refused = self.ask(closed)
        self.assertEqual((refused.status, refused.field("x-evenkeel-reason")), (503, "overloaded"))
        self.assertEqual([self.ask(opened).status for _ in range(3)], [200] * 3)

    def test_logs_in_with_the_password_of_a_file(self):
        redis = Redis(self, "--requirepass", "s3cret")
        password = pathlib.Path(self.folder()) / "password"
        password.write_text("s3cret\n")
        password.chmod(0o600)
        backend = self.backend(self.script)
        config = {"admin": {"address": "127.0.0.1:0"}, "listeners": [{"name": "public", "address": "127.0.0.1:0"}],
                  "shared_state": {"redis": f"{redis.url}/3", "password_file": str(password), "timeout": "1s"},
                  "rate_limits": [{"by": "address", "requests": "5/day"}],
                  "pools": [{"name": "pool", "backends": [backend.address], "health": {"check": "off"}}]}
        daemon = self.daemon(config)

        def keys():
            exchange(daemon.address)
            return redis.command("-a", "s3cret", "-n", "3", "KEYS", "*").strip()

        self.eventually(keys, "a key in database 3")
        self.assertNotIn("s3cret", daemon.ask_admin("/api/v1/status").body.decode() + "\n".join(daemon.lines))


if __name__ == "__main__":
    case.main()
