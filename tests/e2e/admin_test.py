"""What the admin listener tells, in the shapes that scripts hold on to."""

import datetime
import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import time
import unittest
import urllib.error
import urllib.request

import case
from certificates import Authority
from ports import free_port, refusing_address
from process import command
from stream import PATIENCE, Stream, exchange


class Admin(case.Case):
    def test_health_and_readiness_are_one_word(self):
        daemon = self.start_daemon(self.backend())
        health, ready = daemon.ask_admin("/healthz"), daemon.ask_admin("/readyz")
        self.assertEqual((health.status, health.body), (200, b"ok\n"))
        self.assertEqual((ready.status, ready.body), (200, b"ready\n"))
        self.assertEqual(ready.field("cache-control"), "no-store")

    def test_readiness_in_full_lists_the_pools(self):
        daemon = self.start_daemon(self.backend(), refusing_address(), pool={
            "picker": "round-robin"}, workers=1)
        for _ in range(2):
            exchange(daemon.address)
        self.assertEqual(daemon.ask_admin("/readyz?verbose").body,
                         b"ready\npool pool: 1 of 2 backends up\n")

    def test_status(self):
        daemon = self.start_daemon(self.backend())
        with Stream.connect(daemon.address) as stream:
            stream.exchange()
            self.eventually(lambda: daemon.api("status")["requests_in_flight"] == 0)
            status = daemon.api("status")
        self.assertEqual(set(status), {"version", "uptime_seconds", "config", "workers", "cpu_quota",
                                       "busy_polling", "connections", "requests_in_flight", "draining",
                                       "upgrade_problem",
                                       "state_file_problem", "taken_over_by"})
        self.assertIn(status["version"], command("version").stdout)
        self.assertGreater(status["uptime_seconds"], 0)
        self.assertEqual((status["workers"], status["connections"], status["draining"]), (2, 1, False))
        config = status["config"]
        self.assertEqual(set(config), {"file", "hash", "loaded_at", "last_reload_ok", "errors"})
        self.assertEqual(config["file"], str(daemon.config_path))
        self.assertTrue(config["hash"])
        self.assertRegex(config["loaded_at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual((config["last_reload_ok"], config["errors"]), (True, []))

    def test_the_hash_tells_files_apart(self):
        backend = self.backend()
        one, same, other = (self.start_daemon(backend, pool=pool, admin={"address": "127.0.0.1:0"},
                                             access_log={"path": "off"})
                            for pool in ({}, {}, {"picker": "weighted"}))
        hashes = [each.api("status")["config"]["hash"] for each in (one, same, other)]
        self.assertEqual(hashes[0], hashes[1])
        self.assertNotEqual(hashes[0], hashes[2])

    def test_pools(self):
        daemon = self.start_daemon(self.backend(), self.backend(),
                                  pool={"picker": "consistent-hash", "limits": {"max_in_flight": 5}})
        exchange(daemon.address)
        daemon.wait_at_rest()
        self.assertEqual(daemon.api("pools"), [{
            "name": "pool", "unavailable": None, "picker": "consistent-hash", "waiting": 0, "in_flight": 0,
            "backends": {"up": 2, "total": 2}, "saturation": 0, "sessions": None, "subsets": [], "discovery": None,
            "scheduler": None, "budget": []}])

    def test_backends(self):
        backend = self.backend()
        daemon = self.start_daemon(
            {"address": backend.address, "weight": 3, "zone": "rack-1", "labels": {"gpu": "h100"}},
            pool={"engine": "vllm", "models": ["llama-8b", "llama-8b-lora"]})
        exchange(daemon.address)
        daemon.wait_at_rest()
        listed = daemon.api("backends")[0]
        latency = listed.pop("latency")
        since = datetime.datetime.fromisoformat(listed.pop("since"))
        self.assertAlmostEqual(since.timestamp(), time.time(), delta=60)
        reading = listed["polled"].pop("engine")  # the test's server has no metrics
        self.assertEqual(set(reading), {"state", "reason", "interval_seconds", "took_seconds"})
        self.assertIsNone(listed["polled"].pop("gpu_exporter"))
        self.assertEqual(listed.pop("engine_state")["restarts_total"], 0)
        self.assertEqual(listed, {
            "id": backend.address, "pool": "pool", "address": backend.address, "engine": "vllm",
            "models": ["llama-8b", "llama-8b-lora"], "zone": "rack-1", "labels": {"gpu": "h100"},
            "weight": 3, "standby": False, "state": "up", "reason": None,
            "in_flight": 0, "replaced_in_flight": 0, "waiting": None, "picks_total": 1, "errors_total": 0,
            "slow": None, "forecast": None,
            "polled": {"age_seconds": None, "running": None, "waiting": None, "kv_cache_ratio": None,
                       "gpu_utilization_ratio": None, "gpu_memory_used_bytes": None,
                       "gpu_memory_total_bytes": None}})
        self.assertEqual(set(latency), {"ttft_seconds", "ttft_p99_seconds", "tpot_seconds", "tpot_p99_seconds",
                                        "e2e_seconds", "e2e_p99_seconds", "failures_per_second"})
        self.assertTrue(0 < latency["ttft_seconds"] <= latency["e2e_seconds"] < 5, latency)
        self.assertEqual(latency["failures_per_second"], 0)

    def test_what_is_not_known_is_null_and_not_zero(self):
        daemon = self.start_daemon(self.backend())
        listed = daemon.api("backends")[0]
        self.assertEqual(listed["latency"], {"ttft_seconds": None, "ttft_p99_seconds": None, "tpot_seconds": None,
                                             "tpot_p99_seconds": None, "e2e_seconds": None,
                                             "e2e_p99_seconds": None, "failures_per_second": 0})
        self.assertIsNone(listed["waiting"])

    def test_requests_under_way_are_counted(self):
        backend = self.backend(lambda ask: ask.stream.wait_closed())
        daemon = self.start_daemon(backend)
        with Stream.connect(daemon.address) as stream:
            stream.ask()
            self.eventually(lambda: backend.exchanges)
            self.assertEqual(daemon.api("status")["requests_in_flight"], 1)
            self.assertEqual(daemon.api("pools")[0]["in_flight"], 1)
            self.assertEqual(daemon.api("backends")[0]["in_flight"], 1)
            self.assertEqual(daemon.metric("evenkeel_requests_in_flight", pool="pool"), 1)
            self.assertEqual(daemon.metric("evenkeel_backend_in_flight", backend=backend.address), 1)
            self.assertEqual(daemon.metric("evenkeel_backend_links", state="busy"), 1)

    def test_foreign_hosts_and_origins_learn_nothing(self):
        """A page in the operator's browser, under a name that resolves to loopback."""
        daemon = self.start_daemon(self.backend())

        def ask(**kwargs):
            with Stream.connect(daemon.admin) as stream:
                answer = stream.exchange(target="/api/v1/status", **kwargs)
            self.assertIn(b"error" if answer.status == 403 else b"uptime", answer.body)
            return answer.status

        self.assertEqual(ask(host="evil.example"), 403)
        self.assertEqual(ask(host="127.0.0.1.evil.example:9901"), 403)
        self.assertEqual(ask(host="localhost", fields=[("Origin", "https://evil.example")]), 403)
        self.assertEqual(ask(host="localhost", fields=[("Origin", "null")]), 403)
        self.assertEqual(ask(host="localhost:9901"), 200)
        self.assertEqual(ask(host="[::1]:9901"), 200)
        self.assertEqual(ask(host=daemon.admin, fields=[("Origin", f"http://{daemon.admin}")]), 200)

    def test_what_is_not_there_says_so_in_json(self):
        daemon = self.start_daemon(self.backend())
        missing = daemon.ask_admin("/api/v1/nothing")
        self.assertEqual((missing.status, missing.field("content-type")), (404, "application/json"))
        self.assertEqual(set(json.loads(missing.body)), {"error"})
        wrong = daemon.ask_admin("/api/v1/status", method="DELETE")
        self.assertEqual((wrong.status, wrong.field("allow")), (405, "GET, HEAD"))
        self.assertEqual(set(json.loads(wrong.body)), {"error"})

    def test_head_gives_the_head_alone(self):
        daemon = self.start_daemon(self.backend())
        with Stream.connect(daemon.admin) as stream:
            head = stream.exchange("HEAD", "/api/v1/pools", host=daemon.admin)
            self.assertGreater(head.length(), 10)
            self.assertEqual(stream.exchange("GET", "/healthz", host=daemon.admin).status, 200)

    def test_the_admin_is_not_to_be_had_where_clients_connect(self):
        backend = self.backend(lambda ask: ask.answer(b"the backend's own"))
        daemon = self.start_daemon(backend)
        for target in ("/metrics", "/api/v1/status", "/healthz", "/readyz"):
            self.assertEqual(exchange(daemon.address, target=target).body, b"the backend's own")


class Secrets(case.Case):
    def test_no_page_shows_keys_or_tokens(self):
        folder = pathlib.Path(self.folder())
        secrets = {"token": "sesame-opens-the-admin-listener", "key": "sk-the-key-of-the-engine"}
        for name, text in secrets.items():
            (folder / name).write_text(text + "\n")
        daemon = self.start_daemon({"address": self.backend().address, "api_key_file": str(folder / "key")}, pool={"engine": "vllm"},
                                  admin={"address": "127.0.0.1:0", "token_file": str(folder / "token")})
        exchange(daemon.address)
        pages = [daemon.ask_admin(target).raw + daemon.ask_admin(target).body for target in (
            "/metrics", "/readyz?verbose", "/api/v1/status", "/api/v1/pools", "/api/v1/backends")]
        with Stream.connect(daemon.admin) as stream:
            stream.ask(target="/api/v1/live", host=daemon.admin)
            head = stream.read_head()
            pages.append(stream.read_chunk(head) if head.chunked() else stream.read_some())
        pages += [line.encode() for line in daemon.lines]
        for secret in secrets.values():
            self.assertFalse([page for page in pages if secret.encode() in page])


class Tls(case.Case):
    def setUp(self):
        self.authority = Authority(self.folder())
        self.server = self.authority.issue("127.0.0.1")

    def start(self, **tls):
        config = {"address": "127.0.0.1:0", "tls": {"certificates": [self.server.config()], **tls}}
        daemon = self.start_daemon(self.backend(), admin=config)
        daemon.admin_tls = self.authority.trust(certificate=self.authority.issue("operator"))
        return daemon

    def status(self, daemon, context):
        return urllib.request.urlopen(f"https://{daemon.admin}/readyz", context=context,
                                      timeout=PATIENCE).status

    def test_the_admin_listener_speaks_tls(self):
        daemon = self.start()
        self.assertEqual(self.status(daemon, self.authority.trust()), 200)
        with self.assertRaises(urllib.error.URLError):
            self.status(daemon, ssl.create_default_context())

    def test_a_client_without_a_certificate_is_refused_where_one_is_required(self):
        daemon = self.start(client_ca=self.authority.cert)
        self.assertEqual(self.status(daemon, daemon.admin_tls), 200)
        with self.assertRaises(OSError):
            self.status(daemon, self.authority.trust())

    def test_a_revoked_certificate_is_refused(self):
        operator, lost = self.authority.issue("operator"), self.authority.issue("lost")
        daemon = self.start(client_ca=self.authority.cert, client_crl=self.authority.revoke(lost))
        self.assertEqual(self.status(daemon, self.authority.trust(certificate=operator)), 200)
        with self.assertRaises(OSError):
            self.status(daemon, self.authority.trust(certificate=lost))

    def test_the_verbs_speak_tls(self):
        daemon = self.start()
        told = command("ctl", "status", "--admin", f"https://{daemon.admin}",
                       env={"SSL_CERT_FILE": self.authority.cert})
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("requests in flight 0", told.stdout)

    def test_the_verbs_present_a_client_certificate(self):
        daemon = self.start(client_ca=self.authority.cert)
        operator = self.authority.issue("operator")
        combined = pathlib.Path(self.folder()) / "operator.pem"
        combined.write_text(pathlib.Path(operator.cert).read_text() + pathlib.Path(operator.key).read_text())
        target = ["--admin", f"https://{daemon.admin}", "--ca-file", self.authority.cert]

        for words in (["ctl", "status"], ["top", "--once"], ["check", "-c", str(daemon.config_path), "--running"]):
            refused = command(*words, *target)
            self.assertEqual((refused.returncode, refused.stdout), (5, ""), words)
            for identity in (["--cert", operator.cert, "--key", operator.key], ["--cert", str(combined)]):
                done = command(*words, *target, *identity)
                self.assertEqual(done.returncode, 0, (words, identity, done.stderr))
        wrong = command("ctl", "status", *target, "--cert", operator.cert, "--key", self.server.key)
        self.assertEqual(wrong.returncode, 2, wrong.stderr)
        self.assertIn(f"--key {self.server.key}: ", wrong.stderr)

    def test_commands_reach_a_daemon_that_has_not_read_the_tls_of_its_file_yet(self):
        daemon = self.start_daemon(self.backend(), admin={"address": f"127.0.0.1:{free_port()}"})
        plain = json.loads(daemon.config_path.read_text())
        secure = {**plain, "admin": {**plain["admin"], "tls": {"certificates": [self.server.config()]}}}

        def run(*arguments):
            done = command(*arguments, "-c", str(daemon.config_path), env={"SSL_CERT_FILE": self.authority.cert})
            self.assertEqual(done.returncode, 0, (arguments, done.stderr))
            return done.stdout

        for config in (secure, plain):
            daemon.config_path.write_text(json.dumps(config, indent=1))
            self.assertIn("  admin.tls", run("check", "--running"))
            run("ctl", "status")
            self.assertIn("reloaded ", run("ctl", "reload", "--wait"))
            self.assertIn("would change nothing", run("check", "--running"))

    def test_a_scheme_that_is_given_is_the_only_one_that_is_spoken(self):
        daemon = self.start()
        told = command("ctl", "status", "--admin", f"http://{daemon.admin}", "-c", str(daemon.config_path),
                       env={"SSL_CERT_FILE": self.authority.cert})
        self.assertEqual(told.returncode, 5, told.stdout)

    def test_a_token_is_not_sent_in_the_clear_where_the_file_has_tls(self):
        daemon = self.start_daemon(self.backend(), admin={"address": f"127.0.0.1:{free_port()}"})
        config = json.loads(daemon.config_path.read_text())
        token = pathlib.Path(self.folder()) / "token"
        token.write_text("0123456789abcdef")
        heads = []
        with socket.create_server(("127.0.0.1", 0)) as server:
            def serve():
                for _ in range(2):  # the first connection begins with a TLS handshake
                    with server.accept()[0] as connection:
                        heads.append(connection.recv(65536))
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}")

            serving = self.spawn(serve)
            config["admin"] = {"address": f"127.0.0.1:{server.getsockname()[1]}", "token_file": str(token),
                               "tls": {"certificates": [self.server.config()]}}
            daemon.config_path.write_text(json.dumps(config))
            command("ctl", "reload", "-c", str(daemon.config_path), env={"SSL_CERT_FILE": self.authority.cert})
            serving.join()
        self.assertTrue(heads[1].startswith(b"POST /api/v1/reload"), heads)
        self.assertNotIn(b"authorization", heads[1].lower())


class Metrics(case.Case):
    FAMILIES = {
        "requests_total": {"pool", "route", "code"}, "request_duration_seconds": {"pool"},
        "time_to_first_byte_seconds": {"pool"}, "wait_seconds": {"pool"},
        "requests_in_flight": {"pool"}, "requests_waiting": {"pool"},
        "cache_hits_total": {"pool"}, "cache_stale_total": {"pool"}, "cache_misses_total": {"pool"}, "coalesced_total": {"pool"},
        "errors_total": {"pool", "reason", "side"}, "fallbacks_total": {"pool"}, "picker_moved_total": {"pool"}, "retries_total": {"pool", "reason"}, "retry_budget_exhausted_total": {"pool"},
        "tokens_total": {"pool", "model", "direction"}, "backend_tokens_total": {"pool", "backend", "direction"},
        "time_to_first_token_seconds": {"pool", "model"}, "time_per_output_token_seconds": {"pool", "model"},
        "inter_token_gap_seconds": {"pool", "model"}, "inspected_requests_total": {"result"},
        "replay_bytes": set(), "replay_overflows_total": set(),
        "overhead_seconds": set(), "request_bytes_total": set(), "response_bytes_total": set(),
        "connections": {"listener"}, "connections_total": {"listener"}, "connections_shed_total": {"listener", "reason"},
        "backend_up": {"pool", "backend"}, "backend_state": {"pool", "backend", "state"},
        "backend_in_flight": {"pool", "backend"}, "backend_picks_total": {"pool", "backend"},
        "backend_engine_restarts_total": {"pool", "backend"},
        "backend_errors_total": {"pool", "backend", "reason"},
        "backend_links": {"pool", "backend", "state"}, "backend_latency_seconds": {"pool", "backend"},
        "backend_requests_total": {"pool", "backend", "code_class"},
        "backend_time_to_first_byte_seconds": {"pool", "backend"},
        "backend_time_per_output_token_seconds": {"pool", "backend"}, "backend_slow": {"pool", "backend", "part"},
        "pick_duration_seconds": set(), "event_loop_lag_seconds": set(), "control_loop_lag_seconds": set(),
        "access_log_dropped_total": set(), "log_dropped_total": set(),
        "trace_spans_exported_total": set(), "trace_spans_dropped_total": {"reason"}, "trace_export_failures_total": set(),
        "config_last_reload_successful": set(),
        "last_upgrade_successful": set(), "last_state_write_successful": set(),
        "config_last_reload_success_timestamp_seconds": set(),
        "build_info": {"version", "compiler"}, "memory_limit_bytes": set(), "memory_used_bytes": set(),
        "pool_panic": {"pool"}, "affinity_sessions": {"pool"},
        "affinity_requests_total": {"pool", "result"}, "affinity_evictions_total": {"pool"},
        "subset_in_rotation": {"pool", "subset"}, "subset_fallbacks_total": {"pool", "subset"},
        "backend_ejections_total": {"pool", "backend", "reason"},
        "backend_health_checks_total": {"pool", "backend", "result"},
        **{f"backend_{value}": {"pool", "backend"} for value in (
            "polled_age_seconds", "running_requests", "waiting_requests", "kv_cache_usage_ratio",
            "gpu_utilization_ratio", "gpu_memory_used_bytes", "gpu_memory_total_bytes")}}
    PROCESS = {"cpu_seconds_total", "open_fds", "max_fds", "virtual_memory_bytes",
               "resident_memory_bytes", "start_time_seconds"}

    def busy(self):
        """A daemon that has served some requests."""
        def script(ask):
            ask.answer(b"x" * 1000, status=int(ask.target[1:] or 200))

        self.server = self.backend(script)
        backend = {"address": self.server.address, "labels": {"version": "v7"}}
        daemon = self.daemon({"pools": [{"name": "pool", "affinity": {}, "backends": [backend]}],
                              "routes": [{"name": "all", "match": {"path": "/*"}, "pool": "pool",
                                          "split": {"version=v7": 1}}],
                              "limits": {"memory": "64GiB"}})
        with Stream.connect(daemon.address) as stream:
            for target in ["/200"] * 5 + ["/404"] * 3 + ["/503"] * 2:
                stream.exchange("POST", target, body=b"y" * 100)
            stream.exchange(target="/no/such/route")
        daemon.wait_at_rest()
        self.eventually(lambda: daemon.metric("evenkeel_requests_total") == 11)
        return daemon

    def test_the_page_has_every_family_with_its_labels(self):
        daemon = self.busy()
        page = daemon.ask_admin("/metrics")
        self.assertTrue(page.field("content-type").startswith("text/plain; version=0.0.4"))
        text = page.body.decode()
        announced = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
        for name in self.FAMILIES:
            self.assertIn(f"evenkeel_{name}", announced)
        for name in self.PROCESS:
            self.assertIn(f"process_{name}", announced)

        for (series, labels), _ in daemon.metrics().items():
            family = re.sub(r"_(bucket|sum|count)$", "", series.removeprefix("evenkeel_"))
            if family not in self.FAMILIES:
                family = series.removeprefix("evenkeel_")
            if series.startswith("evenkeel_"):
                self.assertEqual({name for name, _ in labels} - {"le"}, self.FAMILIES[family], series)

    @unittest.skipUnless(shutil.which("promtool"), "no promtool here")
    def test_promtool_has_nothing_to_say(self):
        daemon = self.busy()
        page = daemon.ask_admin("/metrics").body
        judged = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True,
                                check=False, timeout=30)
        self.assertEqual((judged.returncode, judged.stdout + judged.stderr), (0, b""))

    def test_counters_add_up_with_what_the_client_did(self):
        daemon = self.busy()
        for code, count in (("200", 5), ("404", 3), ("503", 2)):
            self.assertEqual(daemon.metric("evenkeel_requests_total", pool="pool", route="all",
                                           code=code), count)
        self.assertEqual(daemon.metric("evenkeel_requests_total", pool="", route="", code="404"), 1)
        self.assertEqual(daemon.metric("evenkeel_errors_total"), 1)
        self.assertEqual(daemon.metric("evenkeel_errors_total", reason="no_route"), 1)
        self.assertEqual(daemon.metric("evenkeel_request_bytes_total"), 1000)
        ours = len(exchange(daemon.address, target="/no/such/route").body)
        self.eventually(lambda: daemon.metric("evenkeel_requests_total") == 12)
        self.assertEqual(daemon.metric("evenkeel_response_bytes_total"), 10 * 1000 + 2 * ours)
        for family in ("request_duration_seconds", "time_to_first_byte_seconds", "wait_seconds"):
            self.assertEqual(daemon.metric(f"evenkeel_{family}_count", pool="pool"), 10, family)
        self.assertEqual(daemon.metric("evenkeel_backend_picks_total"), 10)
        self.assertEqual(daemon.metric("evenkeel_backend_latency_seconds_count"), 10)
        self.assertEqual(daemon.metric("evenkeel_backend_errors_total"), 2)
        self.assertEqual(daemon.metric("evenkeel_backend_errors_total", reason="status_5xx"), 2)
        for code_class, count in (("2xx", 5), ("4xx", 3), ("5xx", 2)):
            self.assertEqual(daemon.metric("evenkeel_backend_requests_total", code_class=code_class), count)
        self.assertEqual(daemon.metric("evenkeel_backend_time_to_first_byte_seconds_count"), 5)
        self.assertEqual(daemon.metric("evenkeel_overhead_seconds_count"), 10)
        self.assertEqual(daemon.metric("evenkeel_backend_up"), 1)
        self.assertEqual(daemon.metric("evenkeel_backend_state", state="up"), 1)
        self.assertEqual(daemon.metric("evenkeel_backend_state"), 1, "in one state at a time")

    def test_what_alerts_divide_by_is_there_before_the_first_request(self):
        backend = self.backend()
        daemon = self.daemon({
            "listeners": [{"name": "public", "address": "127.0.0.1:0"}],
            "pools": [{"name": "pool", "engine": "vllm", "inspect": True, "models": ["llama"],
                       "backends": [backend.address], "metrics": {"scrape": "off"}, "fallback": "spare"},
                      {"name": "spare", "backends": [backend.address], "health": {"check": "off"}}],
            "routes": [{"name": "all", "match": {"model": "qwen"}, "pool": "pool"}]})
        route = {"pool": "pool", "route": "all"}
        server = {"pool": "pool", "backend": backend.address}
        series = daemon.metrics()
        for family, labels in (
                *(("requests_total", {**route, "code": code}) for code in ("200", "400", "429", "499", "500", "503")),
                ("requests_total", {"pool": "spare", "route": "all", "code": "200"}),
                ("requests_total", {"pool": "", "route": "", "code": "404"}),
                ("errors_total", {"pool": "pool", "reason": "connect_failed", "side": "backend"}),
                ("errors_total", {"pool": "pool", "reason": "client_gone", "side": "client"}),
                ("errors_total", {"pool": "pool", "reason": "queue_full", "side": "proxy"}),
                ("retries_total", {"pool": "pool", "reason": "server_error"}),
                ("backend_errors_total", {**server, "reason": "backend_closed"}),
                ("backend_requests_total", {**server, "code_class": "5xx"}),
                ("backend_health_checks_total", {**server, "result": "timeout"}),
                ("backend_tokens_total", {**server, "direction": "output"}),
                ("backend_slow", {**server, "part": "per_token"}),
                *(("tokens_total", {"pool": "pool", "model": model, "direction": "output"})
                  for model in ("llama", "qwen")),
                ("time_to_first_token_seconds_count", {"pool": "pool", "model": "llama"})):
            values = [value for (name, have), value in series.items()
                      if name == f"evenkeel_{family}" and labels.items() <= set(have)]
            self.assertEqual(values, [0], (family, labels))

    def test_one_pick_in_sixteen_is_timed(self):
        daemon = self.start_daemon(self.backend(), workers=1)
        with Stream.connect(daemon.address) as stream:
            for _ in range(64):
                stream.exchange()
        self.assertEqual(daemon.metric("evenkeel_pick_duration_seconds_count"), 4)
        self.assertLess(daemon.metric("evenkeel_pick_duration_seconds_sum") / 4, 0.001)

    def test_connections_are_counted_as_they_come_and_go(self):
        daemon = self.start_daemon(self.backend())
        streams = [Stream.connect(daemon.address) for _ in range(7)]
        self.eventually(lambda: daemon.metric("evenkeel_connections", listener="public") == 7)
        for stream in streams:
            stream.close()
        self.eventually(lambda: daemon.metric("evenkeel_connections", listener="public") == 0)
        self.assertEqual(daemon.metric("evenkeel_connections_total", listener="public"), 7)
        self.assertEqual(daemon.api("status")["connections"], 0)

    def test_histograms_are_sound(self):
        page = self.busy().metrics()
        buckets = {}
        for (series, labels), value in page.items():
            if series.endswith("_bucket"):
                labels = dict(labels)
                bound = float(labels.pop("le"))
                buckets.setdefault((series, frozenset(labels.items())), []).append((bound, value))
        self.assertTrue(buckets)
        for (series, labels), series_buckets in buckets.items():
            counts = [count for _, count in sorted(series_buckets)]
            self.assertEqual(counts, sorted(counts), series)
            self.assertEqual(sorted(series_buckets)[-1], (
                float("inf"), page[(series.replace("_bucket", "_count"), labels)]))

    def test_links_are_kept_for_less_long_than_the_server_keeps_them(self):
        backend = self.backend()
        daemon = self.start_daemon(backend, pool={"keep_alive": {"idle": "300ms"}})
        exchange(daemon.address)
        self.eventually(lambda: daemon.metric("evenkeel_backend_links", state="idle") == 1)
        self.eventually(lambda: backend.connections() == 0, "the end of the idle link")
        self.assertEqual(daemon.metric("evenkeel_backend_links"), 0)

    def test_the_process_is_described(self):
        daemon = self.start_daemon(self.backend())
        page = {series: value for (series, _), value in daemon.metrics().items()}
        self.assertAlmostEqual(page["process_start_time_seconds"], time.time(), delta=60)
        self.assertAlmostEqual(page["process_resident_memory_bytes"], daemon.resident_bytes(),
                               delta=8e6)
        self.assertAlmostEqual(page["process_open_fds"], daemon.descriptors(), delta=3)
        self.assertGreaterEqual(page["process_max_fds"], 1024)
        self.assertGreater(page["process_cpu_seconds_total"], 0)


if __name__ == "__main__":
    case.main()
