"""Answers that replicas share through Redis, and what becomes of requests while it is away."""

import hashlib
import itertools
import json
import pathlib
import shutil
import threading
import unittest

import case
from ports import refusing_address
from process import command
from redis import Redis
from stream import PATIENCE, exchange

CHAT = "/v1/chat/completions"
JSON = [("content-type", "application/json")]
QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
PASSWORD = "a-password-of-redis"
KEYS = {"acme": "sk-acme-4711", "beta": "sk-beta-0815"}


def chat(text="Count.", **more):
    return json.dumps({"model": "m", "temperature": 0, "messages": [{"role": "user", "content": text}], **more}).encode()


@unittest.skipIf(shutil.which("redis-server") is None, "redis-server is not installed (./dev setup)")
class SharedAnswers(case.Case):
    def setUp(self):
        self.answers = 0
        self.stream = False
        self.size = 1
        self.fields = []

    def script(self, request):
        self.answers += 1
        if self.stream:
            request.begin_chunks([("content-type", "text/event-stream")])
            request.chunk(b'data: {"choices": [{"index": 0, "delta": {"content": "1"}, "finish_reason": "stop"}]}\n\n')
            request.chunk(b"data: [DONE]\n\n")
            return request.end_chunks()
        choice = {"index": 0, "message": {"role": "assistant", "content": "1" * self.size}, "finish_reason": "stop"}
        body = {"answer": self.answers, "choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
        return request.answer(json.dumps(body).encode(), fields=[*JSON, *self.fields])

    def redis(self):
        return Redis(self, "--requirepass", PASSWORD)

    def config(self, redis, backend=None, cache=None, **config):
        password = pathlib.Path(self.folder()) / "password"
        password.write_text(PASSWORD + "\n")
        password.chmod(0o600)
        return {"listeners": [{"name": "public", "address": "127.0.0.1:0"}], "admin": {"address": "127.0.0.1:0"}, "workers": 1,
                "shared_state": {"redis": redis.url, "password_file": str(password), "timeout": "1s"},
                "pools": [{"name": "pool", "engine": "vllm", **QUIET, "backends": [backend or self.backend(self.script).address],
                           "cache": {"shared": True, **(cache or {})}}], **config}

    def replica(self, redis, *args, **config):
        daemon = self.daemon(self.config(redis, *args, **config))
        self.eventually(lambda: self.redis_command(redis, "CLIENT", "LIST").count("cmd=script|load") +
                        self.redis_command(redis, "CLIENT", "LIST").count("cmd=evalsha") >= 1, "the connection")
        return daemon

    def redis_command(self, redis, *words):
        return redis.command("-a", PASSWORD, "--no-auth-warning", *words)

    def kept(self, redis):
        return [key for key in self.redis_command(redis, "KEYS", "evenkeel:*").split() if key.rpartition(":")[0].count(":") > 2]

    def ask(self, daemon, body=None, fields=()):
        got = exchange(daemon.address, "POST", CHAT, [*JSON, *fields], body or chat())
        self.assertEqual(got.status, 200, got.body)
        return json.loads(got.body)["answer"], got.field("x-evenkeel-cache")

    def wait_kept(self, redis, count=1):
        self.eventually(lambda: len(self.kept(redis)) == count, f"{count} answers in Redis")

    def test_one_replica_gives_what_another_has_kept(self):
        redis = self.redis()
        first, second = self.replica(redis), self.replica(redis)
        self.assertEqual(self.ask(first), (1, "miss"))
        self.wait_kept(redis)
        self.assertEqual(self.ask(second), (1, "hit"))
        self.assertEqual(self.answers, 1)
        redis.kill()
        self.assertEqual(self.ask(second), (1, "hit"))  # it has it in its memory now
        self.assertEqual(second.metric("evenkeel_cache_hits_total", pool="pool"), 2)
        self.assertEqual(second.metric("evenkeel_cache_misses_total", pool="pool"), 0)

    def test_an_answer_outlives_its_replica(self):
        redis = self.redis()
        first = self.replica(redis)
        self.ask(first)
        self.wait_kept(redis)
        self.assertEqual(first.stop(), 0)
        self.assertEqual(self.ask(self.replica(redis)), (1, "hit"))

    def test_streams_are_shared_byte_by_byte(self):
        redis = self.redis()
        self.stream = True
        first, second = self.replica(redis), self.replica(redis)
        got = [exchange(daemon.address, "POST", CHAT, JSON, chat(stream=True)) for daemon in (first,)]
        self.wait_kept(redis)
        got.append(exchange(second.address, "POST", CHAT, JSON, chat(stream=True)))
        self.assertEqual(got[0].body, got[1].body)
        self.assertEqual([each.field("x-evenkeel-cache") for each in got], ["miss", "hit"])
        self.assertEqual(got[1].field("content-type"), "text/event-stream")
        self.assertIsNone(got[1].field("content-length"))

    def test_tenants_share_none(self):
        redis = self.redis()
        tenants = [{"name": name, "keys_sha256": [hashlib.sha256(key.encode()).hexdigest()]} for name, key in KEYS.items()]
        first, second = self.replica(redis, tenants=tenants), self.replica(redis, tenants=tenants)
        acme, beta = ([("authorization", f"Bearer {KEYS[name]}")] for name in ("acme", "beta"))
        self.assertEqual(self.ask(first, fields=acme), (1, "miss"))
        self.wait_kept(redis)
        self.assertEqual(self.ask(second, fields=beta), (2, "miss"))
        self.assertEqual(self.ask(second, fields=acme), (1, "hit"))

    def test_another_password_has_other_keys(self):
        redis = self.redis()
        self.ask(self.replica(redis))
        self.wait_kept(redis)
        [key] = self.kept(redis)
        other = Redis(self, "--requirepass", "another")
        config = self.config(other)
        pathlib.Path(config["shared_state"]["password_file"]).write_text("another")
        daemon = self.daemon(config)
        self.eventually(lambda: other.command("-a", "another", "CLIENT", "LIST").count("cmd=script|load") >= 1)
        self.ask(daemon)
        self.eventually(lambda: len(other.command("-a", "another", "KEYS", "evenkeel:*").split()) == 1)
        self.assertNotIn(key, other.command("-a", "another", "KEYS", "evenkeel:*"))

    def test_requests_go_on_while_redis_is_away_slow_or_has_nonsense(self):
        redis = self.redis()
        daemon = self.replica(redis)
        self.ask(daemon)
        self.wait_kept(redis)
        [key] = self.kept(redis)
        self.redis_command(redis, "SET", key, "nonsense")
        self.assertEqual(self.ask(self.replica(redis)), (2, "miss"))
        redis.pause()
        self.assertEqual(self.ask(daemon, chat("While it hangs.")), (3, "miss"))
        redis.resume()
        redis.kill()
        self.assertEqual(self.ask(daemon, chat("While it is dead.")), (4, "miss"))
        self.eventually(lambda: any("no kept answers are shared: Redis" in line for line in daemon.lines))
        redis.start()
        texts = (chat(f"Number {number}.") for number in itertools.count())
        self.eventually(lambda: self.ask(daemon, next(texts)) and
                        any("kept answers are shared through Redis again" in line for line in daemon.lines), "the connection")

    def test_a_purge_drops_them_for_all_that_do_not_have_them(self):
        redis = self.redis()
        first, second = self.replica(redis), self.replica(redis)
        self.ask(first)
        self.wait_kept(redis)
        done = command("ctl", "--admin", first.admin, "purge")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.ask(first), (2, "miss"))
        self.wait_kept(redis, 2)  # the old one, which expires, and its successor
        self.assertEqual(self.ask(second), (2, "hit"))

    def test_a_purge_holds_for_all_workers_and_after_a_restart(self):
        redis = self.redis()
        first = self.replica(redis, workers=4)
        self.ask(first)
        self.wait_kept(redis)
        self.assertEqual(first.ask_admin("/api/v1/cache/purge", method="POST").status, 200)
        self.assertEqual(first.stop(), 0)
        second = self.replica(redis, workers=4)
        self.assertEqual({self.ask(second)[0] for _ in range(20)}, {2})

    def test_an_answer_that_was_asked_for_before_a_purge_is_not_kept(self):
        redis = self.redis()
        asked, go = threading.Event(), threading.Event()
        self.addCleanup(go.set)

        def wait(request):
            asked.set()
            go.wait(10 * PATIENCE)
            self.script(request)

        backend = self.backend(wait)
        first, second = self.replica(redis, backend.address), self.replica(redis, backend.address)
        waiting = self.spawn(lambda: self.ask(second))
        self.assertTrue(asked.wait(PATIENCE))
        self.assertEqual(first.ask_admin("/api/v1/cache/purge", method="POST").status, 200)
        go.set()
        self.assertEqual(waiting.join(), (1, "miss"))
        self.assertEqual(self.ask(first), (2, "miss"))

    def test_a_purge_says_so_if_redis_is_away(self):
        redis = self.redis()
        daemon = self.replica(redis)
        redis.kill()
        self.assertEqual(daemon.ask_admin("/api/v1/cache/purge", method="POST").status, 503)

    def test_they_expire_and_are_not_used_beyond_their_time(self):
        redis = self.redis()
        first, second = (self.replica(redis, cache={"ttl": "1s", "stale_if_error": "0s"}) for _ in range(2))
        self.ask(first)
        self.eventually(lambda: not self.kept(redis), "the end of its time")
        self.assertEqual(self.ask(second), (2, "miss"))

    def test_another_replica_has_it_where_no_backend_answers(self):
        redis = self.redis()
        cache = {"ttl": "1s", "stale_if_error": "1h"}
        first = self.replica(redis, cache=cache)
        self.ask(first)
        self.wait_kept(redis)
        second = self.replica(redis, refusing_address(), cache=cache)
        self.eventually(lambda: exchange(second.address, "POST", CHAT, JSON, chat()).field("x-evenkeel-cache") == "stale",
                        "an answer that is no longer fresh")

    def test_long_ones_are_not_shared(self):
        redis = self.redis()
        self.size = 1024 * 1024
        first, second = self.replica(redis), self.replica(redis)
        self.assertEqual(self.ask(first), (1, "miss"))
        self.assertEqual(self.ask(first), (1, "hit"))
        self.assertEqual(self.ask(second), (2, "miss"))
        self.assertEqual(self.kept(redis), [])

    def test_a_reload_begins_and_ends_it(self):
        redis = self.redis()
        daemon = self.replica(redis)
        self.ask(daemon)
        self.wait_kept(redis)
        config = json.loads(daemon.config_path.read_text())
        config["pools"][0]["cache"]["shared"] = False
        daemon.config_path.write_text(json.dumps(config))
        self.assertEqual(daemon.ask_admin("/api/v1/reload", method="POST").status, 200)
        self.assertEqual(self.ask(daemon, chat("Alone."))[1], "miss")
        self.assertEqual(len(self.kept(redis)), 1)
        config["pools"][0]["cache"]["shared"] = True
        daemon.config_path.write_text(json.dumps(config))
        self.assertEqual(daemon.ask_admin("/api/v1/reload", method="POST").status, 200)
        self.eventually(lambda: self.ask(daemon, chat("Shared.")) and len(self.kept(redis)) == 2, "an answer that is shared")

    def test_the_file_needs_a_server_with_a_password(self):
        redis = self.redis()
        config = self.config(redis)
        for missing in ("password_file", None):
            if missing:
                del config["shared_state"][missing]
            else:
                del config["shared_state"]
            file = pathlib.Path(self.folder()) / "evenkeel.yaml"
            file.write_text(json.dumps(config))
            done = command("check", "-c", str(file))
            self.assertEqual(done.returncode, 1)
            self.assertIn("'cache.shared' needs a server that replicas share, with a password", done.stdout + done.stderr)


if __name__ == "__main__":
    case.main()
