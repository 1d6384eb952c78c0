"""Changing a running daemon: the admin API, `evenkeel ctl` and `evenkeel top`."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import time

import case
from ports import refusing_address
from process import BINARY, command
from stream import PATIENCE, Stream, exchange


class Driven(case.Case):
    def ctl(self, daemon, *arguments, code=0):
        done = command("ctl", *arguments, "--admin", daemon.admin)
        self.assertEqual(done.returncode, code, (arguments, done.stdout, done.stderr))
        return done

    def post(self, daemon, target, body=None, fields=(), host=None):
        with Stream.connect(daemon.admin) as stream:
            answer = stream.exchange("POST", target, fields=fields, body=body,
                                     host=host or daemon.admin)
        return answer.status, json.loads(answer.body)

    def answering(self, count):
        """Backends that respond with their own number."""
        return [self.backend(lambda ask, i=i: ask.answer(b"%d" % i)) for i in range(count)]

    def answers(self, daemon, count=20):
        with Stream.connect(daemon.address) as stream:
            return [stream.exchange().body for _ in range(count)]


class Changes(Driven):
    def test_a_drained_backend_finishes_its_requests_and_gets_no_new_ones(self):
        first, second = self.answering(2)
        held = []

        def hold(ask):
            ask.begin_chunks()
            ask.chunk(b"begun")
            held.append(ask)

        first.script = hold
        daemon = self.start_daemon(first, second, pool={"picker": "round-robin"})
        with Stream.connect(daemon.address) as stream:
            stream.ask()
            head = stream.read_head()
            while not head.chunked():
                stream.read_body(head)
                stream.ask()
                head = stream.read_head()
            self.eventually(lambda: held)
            status, answer = self.post(daemon, f"/api/v1/backends/{first.address}/drain")
            self.assertEqual((status, answer["id"], answer["state"], answer["in_flight"]),
                             (200, first.address, "draining", 1))
            self.assertEqual(self.answers(daemon), [b"1"] * 20)
            waiting = self.spawn(
                lambda: self.ctl(daemon, "drain", first.address, "--wait", "--json"))
            held[0].chunk(b", ended")
            held[0].end_chunks()
            self.assertEqual(stream.read_chunk(head), b"begun")
            self.assertEqual(stream.read_chunk(head), b", ended")
            self.assertEqual(json.loads(waiting.join().stdout)["in_flight"], 0)
        self.assertEqual(daemon.metric("evenkeel_backend_state", backend=first.address,
                                       state="draining"), 1)
        self.assertEqual(daemon.metric("evenkeel_backend_up", backend=first.address), 0)

        first.script = lambda ask: ask.answer(b"0")
        self.ctl(daemon, "undrain", first.address)
        self.assertIn(b"0", self.answers(daemon))

    def test_a_drain_that_waits_posts_once_and_gives_up_after_its_timeout(self):
        backend, = self.answering(1)
        held = []

        def hold(ask):
            ask.begin_chunks()
            ask.chunk(b"begun")
            held.append(ask)

        backend.script = hold
        daemon = self.start_daemon(backend)
        with Stream.connect(daemon.address) as stream:
            stream.ask()
            head = stream.read_head()
            self.assertEqual(stream.read_chunk(head), b"begun")

            late = self.ctl(daemon, "drain", backend.address, "--wait", "--timeout", "600ms", code=3)

            self.assertIn(f"{backend.address} of pool pool still has 1 requests in flight", late.stderr)
            self.assertIn("keeps draining", late.stderr)
            self.assertEqual(daemon.backend(backend.address)["state"], "draining")
            self.assertEqual(sum("drain" in line for line in daemon.lines), 1, daemon.lines)

            waiting = self.spawn(lambda: self.ctl(daemon, "drain", backend.address, "--wait", code=1))
            self.eventually(lambda: sum("drain" in line for line in daemon.lines) == 2)
            self.ctl(daemon, "undrain", backend.address)
            self.assertIn("no longer draining", waiting.join().stderr)
            held[0].end_chunks()
            self.assertEqual(stream.read_chunk(head), b"")

    def test_a_drain_outlasts_reloads(self):
        first, second = self.answering(2)
        daemon = self.start_daemon(first, second)
        self.ctl(daemon, "drain", first.address)
        since = daemon.backend(first.address)["since"]

        self.ctl(daemon, "reload")

        self.assertEqual(daemon.backend(first.address)["state"], "draining")
        self.assertEqual(daemon.backend(first.address)["since"], since)
        self.assertEqual(self.answers(daemon), [b"1"] * 20)

    def test_with_every_backend_drained_requests_are_refused_at_once(self):
        backend, = self.answering(1)
        daemon = self.start_daemon(backend)
        self.ctl(daemon, "drain", backend.address)
        answer = exchange(daemon.address)
        self.assertEqual((answer.status, answer.reason), (503, "no_backend"))
        self.assertIn(b"its only backend is drained", answer.body)
        self.assertRegex(self.ctl(daemon, "status").stdout, r"(?m)^pool .* its only backend is drained$")

    def test_several_backends_or_a_pool_are_drained_at_once(self):
        first, second = self.answering(2)
        daemon = self.start_daemon(first, second)
        self.ctl(daemon, "drain", first.address, second.address)
        self.assertEqual({each["state"] for each in daemon.api("backends")}, {"draining"})
        self.ctl(daemon, "undrain", "--pool", "pool")
        self.assertEqual({each["state"] for each in daemon.api("backends")}, {"up"})
        half = self.ctl(daemon, "drain", "nowhere:1", first.address, code=1)
        self.assertIn("no pool has a backend 'nowhere:1'", half.stderr)
        self.assertEqual(daemon.backend(first.address)["state"], "draining")
        self.assertIn("did you mean 'pool'?", self.ctl(daemon, "drain", "--pool", "pol", code=1).stderr)

    def test_a_drain_for_a_time_ends_by_itself_also_after_a_reload(self):
        first, second = self.answering(2)
        daemon = self.start_daemon(first, second)
        self.ctl(daemon, "drain", first.address, "--for", "3s")
        self.assertIn("drained by an operator until 20", daemon.backend(first.address)["reason"])
        self.ctl(daemon, "reload")
        self.assertEqual(daemon.backend(first.address)["state"], "draining")
        self.eventually(lambda: daemon.backend(first.address)["state"] == "up", "the end of the drain")
        daemon.wait_line("undrained, the time of its drain is over")

    def test_a_weight_shifts_the_traffic_until_the_file_sets_another(self):
        first, second = self.answering(2)
        daemon = self.start_daemon(first, second, pool={"picker": "weighted"}, workers=1)
        self.assertEqual(sorted(self.answers(daemon)), [b"0"] * 10 + [b"1"] * 10)

        answer = self.ctl(daemon, "weight", first.address, "4").stdout
        self.assertIn("weight 4", answer)
        self.assertEqual(sorted(self.answers(daemon)), [b"0"] * 16 + [b"1"] * 4)

        self.ctl(daemon, "reload")
        self.assertEqual(daemon.backend(first.address)["weight"], 4, "the file sets the same weight as before")
        self.assertEqual(sorted(self.answers(daemon)), [b"0"] * 16 + [b"1"] * 4)

        config = json.loads(daemon.config_path.read_text())
        config["pools"][0]["backends"][0] = {"address": first.address, "weight": 3}
        daemon.config_path.write_text(json.dumps(config))
        self.ctl(daemon, "reload")
        self.assertEqual(daemon.backend(first.address)["weight"], 3)

    def test_counters_and_averages_stay_when_a_weight_changes(self):
        first, second = self.answering(2)
        daemon = self.start_daemon(first, second)
        self.answers(daemon)
        daemon.wait_at_rest()
        before = daemon.backend(first.address)
        self.ctl(daemon, "weight", first.address, "9")
        after = daemon.backend(first.address)
        self.assertEqual((after["picks_total"], after["latency"]),
                         (before["picks_total"], before["latency"]))

    def test_a_backend_of_two_pools_is_named_with_its_pool(self):
        backend, = self.answering(1)
        daemon = self.daemon({
            "pools": [{"name": name, "backends": [backend.address]} for name in ("one", "two")],
            "routes": [{"match": {"path": "/one"}, "pool": "one"},
                       {"match": {"path": "/**"}, "pool": "two"}]})
        status, answer = self.post(daemon, f"/api/v1/backends/{backend.address}/drain")
        self.assertEqual(status, 409)
        self.assertIn("one, two", answer["error"])
        unclear = self.ctl(daemon, "drain", backend.address, code=1)
        self.assertIn("--pool NAME", unclear.stderr)

        self.ctl(daemon, "drain", backend.address, "--pool", "two")
        self.assertEqual({each["pool"]: each["state"] for each in daemon.api("backends")},
                         {"one": "up", "two": "draining"})
        self.assertEqual(exchange(daemon.address, target="/one").status, 200)
        self.assertEqual(exchange(daemon.address, target="/two").status, 503)

    def test_a_rejected_reload_reports_what_check_reports(self):
        daemon = self.start_daemon(self.backend())
        status, answer = self.post(daemon, "/api/v1/reload")
        self.assertEqual((status, answer["config"]["last_reload_ok"]), (200, True))

        good = daemon.config_path.read_text()
        daemon.config_path.write_text(good.replace('"pools"', '"poools"'))
        status, answer = self.post(daemon, "/api/v1/reload")
        self.assertEqual(status, 422)
        checked = command("check", "-c", str(daemon.config_path), "--json")
        self.assertEqual(answer, json.loads(checked.stdout))
        self.assertEqual(daemon.api("status")["config"]["errors"], answer)
        self.assertFalse(daemon.api("status")["config"]["last_reload_ok"])
        self.assertEqual(daemon.metric("evenkeel_config_last_reload_successful"), 0)
        refused = self.ctl(daemon, "reload", "--wait", code=1)
        self.assertRegex(refused.stderr, r"evenkeel.yaml:\d+:\d+: error: poools: unknown key; did you")
        self.assertIn("last reload was rejected", self.ctl(daemon, "status").stdout)
        self.assertEqual(exchange(daemon.address).status, 200, "the previous configuration stays active")

        daemon.config_path.write_text(good)
        self.ctl(daemon, "reload", "--wait")
        self.assertEqual(daemon.metric("evenkeel_config_last_reload_successful"), 1)

    def test_pages_of_other_sites_change_nothing(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)
        drain = f"/api/v1/backends/{backend.address}/drain"
        form = ("Content-Type", "application/x-www-form-urlencoded")
        for fields, host in (([("Origin", "https://evil.example"), form], None),
                             ([("Origin", "null"), form], None),
                             ([("Origin", "http://192.0.2.1"), form], None),
                             ([("Referer", "https://evil.example/"), form], None),
                             ([("Sec-Fetch-Site", "cross-site"), form], None),
                             ([], "evil.example:9901")):
            status, answer = self.post(daemon, drain, body=b"a=b", fields=fields, host=host)
            self.assertEqual((status, set(answer)), (403, {"error"}), fields)
        self.assertEqual(daemon.backend(backend.address)["state"], "up")
        status, _ = self.post(daemon, drain, body=b"{}", fields=[form])
        self.assertEqual(status, 200, "curl sends forms without an origin")

    def test_bodies_are_bounded(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)
        weight = f"/api/v1/backends/{backend.address}/weight"
        self.assertEqual(self.post(daemon, weight, b'{"weight": 2}' + b" " * 20_000)[0], 413)
        with Stream.connect(daemon.admin) as stream:
            stream.send(f"POST {weight} HTTP/1.1\r\nHost: {daemon.admin}\r\n"
                        "Content-Length: 4000000000\r\n\r\n".encode())
            self.assertEqual(stream.read_response().status, 413)
        self.assertEqual(daemon.backend(backend.address)["weight"], 1)

    def test_other_machines_need_the_token(self):
        here = address_of_this_machine()
        if here is None:
            self.skipTest("this machine has no address but loopback")
        backend = self.backend()
        token_file = os.path.join(self.folder(), "token")
        with open(token_file, "w", encoding="ascii") as file:
            file.write("0123456789abcdef0123456789abcdef\n")
        daemon = self.start_daemon(backend, admin={"address": "0.0.0.0:0", "token_file": token_file})
        away = f"{here}:{daemon.admin.rpartition(':')[2]}"

        def ctl(*arguments):
            return command("ctl", *arguments, "--admin", away)

        self.assertEqual(ctl("status").returncode, 0, "reading needs no token")
        refused = ctl("drain", backend.address)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--token-file", refused.stderr)
        self.assertEqual(ctl("drain", backend.address, "--token-file", token_file).returncode, 0)
        self.assertEqual(daemon.backend(backend.address)["state"], "draining")


def address_of_this_machine():
    """An address that is not loopback, or None. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = sock.getsockname()[0]
    return None if address.startswith("127.") else address


class Commands(Driven):
    def test_status_and_backends_are_tables(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)
        self.answers(daemon, 5)
        status = self.ctl(daemon, "status").stdout
        self.assertIn(str(daemon.config_path), status)
        self.assertRegex(status, r"pool +least-connections +1 +1 ")
        rows = self.ctl(daemon, "backends").stdout.splitlines()
        self.assertEqual(rows[0].split()[:3], ["POOL", "BACKEND", "STATE"])
        self.assertEqual(rows[1].split()[:3], ["pool", backend.address, "up"])

    def test_sessions_and_tenants_are_tables_without_their_credentials(self):
        (server,) = self.answering(1)
        daemon = self.start_daemon(server, pool={"affinity": {"by": ["header:x-session"]}},
                                   tenants=[{"name": "acme", "weight": 2, "keys_sha256": ["ab" * 32]}])
        for session in ("s-secret", 's-"quoted"'):
            exchange(daemon.address, fields=[("x-session", session)])
        shown = self.ctl(daemon, "sessions", "--pool", "pool", "--limit", "1").stdout
        self.assertRegex(shown, r"^pool pool: 2 sessions of at most 200k, hard, ")
        self.assertRegex(shown, rf"\n{server.address} +2\n")
        self.assertEqual(len(re.findall(r"^[0-9a-f]{16} ", shown, re.M)), 1)
        self.assertEqual([word for word in ("secret", "quoted") if word in shown], [])
        self.assertIn("there is no pool 'other'", self.ctl(daemon, "sessions", "--pool", "other", code=1).stderr)
        shown = self.ctl(daemon, "tenants").stdout
        self.assertRegex(shown, r"(?m)^acme +2 +- +0 +0 ")
        self.assertRegex(shown, r"(?m)^other +1 +standard +0 +0 ")
        self.assertNotIn("abab", shown)

    def test_filters_that_let_no_request_pass_say_why(self):
        backend = self.backend()
        daemon = self.start_daemon(backend, pool={"inspect": True})
        self.assertIn("inspect: true", self.ctl(daemon, "requests", "--errors").stdout)
        for _ in range(3):
            exchange(daemon.address, "POST", "/v1/chat/completions", (), b'{"model": "m", "messages": []}')
        self.eventually(lambda: "m" in self.ctl(daemon, "requests").stdout)
        self.assertEqual(self.ctl(daemon, "requests", "--errors").stdout, "no request matches, of the last 3\n")
        self.assertEqual(self.ctl(daemon, "requests", "--model", "x", "--pool", "pool", "--json").stdout, "[]\n")
        self.assertEqual(len(self.ctl(daemon, "requests", "--backend", backend.address).stdout.splitlines()), 4)
        unknown = self.ctl(daemon, "requests", "--pool", "pol", code=1)
        self.assertEqual((unknown.stdout, unknown.stderr), ("", "evenkeel ctl: there is no pool 'pol'; did you mean 'pool'?\n"))
        unknown = self.ctl(daemon, "requests", "--backend", backend.address + "9", "--json", code=1)
        self.assertIn(f"there is no backend '{backend.address}9'; did you mean '{backend.address}'?", unknown.stderr)

    def test_a_backend_that_is_not_what_clients_ask_for_says_so(self):
        backend = self.backend(lambda ask: ask.answer(b"{}", status=404, phrase="Not Found"))
        daemon = self.start_daemon(backend)
        self.answers(daemon, 9)
        self.assertNotIn("404", self.ctl(daemon, "backends").stdout)
        self.answers(daemon, 3)
        self.assertRegex(self.ctl(daemon, "backends").stdout, r" up .* answers 404 to each request: 12 in a row")
        self.assertEqual(daemon.backend(backend.address)["state"], "up")
        backend.script = lambda ask: ask.answer(b"{}")
        self.answers(daemon, 1)
        self.assertIsNone(daemon.backend(backend.address)["reason"])

    def test_options_may_stand_before_or_after_the_command(self):
        daemon = self.start_daemon(self.backend())
        for arguments in (("--admin", daemon.admin, "--json", "status"),
                          ("--json", "status", "--admin", daemon.admin),
                          ("status", "--json", "--admin", daemon.admin)):
            answer = command("ctl", *arguments)
            self.assertEqual((answer.returncode, json.loads(answer.stdout)["workers"]), (0, 2))

    def test_json_is_the_api_s_own(self):
        daemon = self.start_daemon(self.backend())
        self.assertEqual(set(json.loads(self.ctl(daemon, "status", "--json").stdout)),
                         set(daemon.api("status")))
        answer = json.loads(self.ctl(daemon, "backends", "--json").stdout)
        self.assertEqual(answer[0]["id"], daemon.api("backends")[0]["id"])

    def test_exit_codes(self):
        daemon = self.start_daemon(self.backend())
        gone = refusing_address()
        for arguments, code in (
                (("ctl", "status", "--admin", gone), 5), (("top", "--admin", gone), 5),
                (("top", "-1", "--admin", gone), 5), (("ctl", "reload", "--admin", gone), 5),
                (("ctl", "drain", "nowhere:1", "--admin", daemon.admin), 1),
                (("ctl", "weight", "nowhere:1", "3", "--admin", daemon.admin), 1),
                (("ctl", "status", "--admin", "no port"), 2), (("ctl",), 2),
                (("ctl", "weight", "a:1", "0"), 2), (("ctl", "weight", "a:1"), 2),
                (("ctl", "drain"), 2), (("ctl", "explode"), 2),
                (("ctl", "reload", "--token-file", "/nonexistent", "--admin", daemon.admin), 2)):
            done = command(*arguments)
            self.assertEqual(done.returncode, code, (arguments, done.stderr))
            self.assertTrue(done.stderr.strip(), arguments)
        self.assertIn(f"no answer from {gone}: Connection refused",
                      command("ctl", "status", "--admin", gone).stderr)

    def test_a_non_admin_listener_is_reported_as_such(self):
        backend = self.backend(lambda ask: ask.answer(b"<html>", status=404))
        done = command("ctl", "status", "--admin", backend.address)
        self.assertEqual(done.returncode, 5)
        self.assertIn("it is not the admin listener of an evenkeel", done.stderr)


class CheckRunning(Driven):
    def check(self, daemon, *arguments):
        return command("check", "-c", str(daemon.config_path), "--running", "--admin", daemon.admin, *arguments)

    def test_it_reports_what_a_reload_would_change_and_changes_nothing(self):
        first, second = self.answering(2)
        daemon = self.start_daemon(first)
        nothing = self.check(daemon)
        self.assertEqual((nothing.returncode, nothing.stderr), (0, ""))
        self.assertIn("a reload would change nothing", nothing.stdout)

        config = json.loads(daemon.config_path.read_text())
        config["pools"][0]["backends"].append(second.address)
        daemon.config_path.write_text(json.dumps(config))
        some = self.check(daemon)
        self.assertEqual((some.returncode, some.stderr), (0, ""))
        self.assertRegex(some.stdout, rf"would change this:\n  .*{re.escape(second.address)}")
        changes = json.loads(self.check(daemon, "--json").stdout)
        self.assertEqual((changes["problems"], len(changes["changes"])), ([], 1))
        self.assertEqual([each["id"] for each in daemon.api("backends")], [first.address])

    def test_it_reports_why_a_reload_would_be_refused(self):
        daemon = self.start_daemon(self.backend())
        config = json.loads(daemon.config_path.read_text())
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            config["admin"] = {"address": "127.0.0.1:%d" % taken.getsockname()[1]}
            daemon.config_path.write_text(json.dumps(config))
            refused = command("check", "-c", str(daemon.config_path), "--running", "--admin", daemon.admin)
        self.assertEqual(refused.returncode, 1)
        self.assertRegex(refused.stderr, r"a reload would be rejected:\n.*admin.address: .*Address already in use")
        self.assertTrue(daemon.api("status")["config"]["last_reload_ok"])

        daemon.config_path.write_text("pools: what")
        mistaken = self.check(daemon)
        self.assertEqual(mistaken.returncode, 1)
        self.assertEqual(mistaken.stderr, command("check", "-c", str(daemon.config_path)).stderr)

    def test_a_daemon_that_does_not_answer_has_its_own_exit_code(self):
        daemon = self.start_daemon(self.backend())
        gone = command("check", "-c", str(daemon.config_path), "--running", "--admin",
                       refusing_address())
        self.assertEqual(gone.returncode, 5)
        self.assertIn("Connection refused", gone.stderr)


class Top(Driven):
    def test_once_prints_and_exits(self):
        daemon = self.start_daemon(self.backend())
        plain = command("top", "-1", "--admin", daemon.admin)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        self.assertNotIn("\x1b", plain.stdout)
        self.assertIn("BACKEND", plain.stdout)
        answer = json.loads(command("top", "-1", "--json", "--admin", daemon.admin).stdout)
        self.assertEqual(set(answer), {"status", "pools", "backends"})

    def test_without_a_terminal_it_prints_until_the_reader_closes(self):
        daemon = self.start_daemon(self.backend())
        top = subprocess.Popen([BINARY, "top", "--json", "--admin", daemon.admin],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.addCleanup(top.kill)
        snapshots = [json.loads(top.stdout.readline()) for _ in range(2)]
        self.assertGreater(snapshots[1]["status"]["uptime_seconds"], snapshots[0]["status"]["uptime_seconds"])
        top.stdout.close()
        self.assertEqual(top.wait(PATIENCE), 0)

    def test_a_signal_ends_it(self):
        daemon = self.start_daemon(self.backend())
        top = subprocess.Popen([BINARY, "top", "--admin", daemon.admin], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, text=True)
        self.addCleanup(top.kill)
        self.assertIn("evenkeel", top.stdout.readline())
        top.send_signal(signal.SIGTERM)
        self.assertEqual(top.wait(PATIENCE), 0)
        top.stdout.close()

    def test_on_a_terminal_it_follows_the_daemon_and_the_window_size(self):
        backend = self.backend()
        daemon = self.start_daemon(backend, pool={"name": "pool-with-a-name"})
        screen = Screen(self, rows=40, columns=200)
        top = screen.run("top", "--admin", daemon.admin)
        screen.wait_for(r"pool-with-a-name.*" + re.escape(backend.address) + " +up ")
        self.assertTrue(screen.text.startswith("\x1b[?1049h"), "the alternate screen")

        self.ctl(daemon, "drain", backend.address)
        screen.wait_for(r"draining.*drained by an operator")

        screen.text = ""
        screen.resize(rows=40, columns=70)
        screen.wait_for(r"BACKEND +STATE.* WHY\x1b")
        screen.wait_for(re.escape(backend.address) + r" +draining .*drained by an op")
        screen.type("s")
        screen.wait_for(r"by in-flight")

        screen.text = ""
        screen.resize(rows=5, columns=30)
        screen.wait_for(r"\.\.\. and \d+ more\x1b\[K\x1b\[J")
        drawn = screen.text.rpartition(" more\x1b[K\x1b[J")[0].rpartition("\x1b[H")[2] + " more"
        shown = [line.rstrip("\r").removesuffix("\x1b[K") for line in drawn.split("\n")]
        self.assertLessEqual(len(shown), 5)
        self.assertLessEqual(max(map(len, shown)), 30)

        screen.type("q")
        self.assertEqual(top.wait(PATIENCE), 0)
        screen.wait_for(r"\x1b\[\?1049l")
        self.assertEqual(screen.settings()[3], screen.settings_before[3], "echo and line mode are restored")

    def test_on_a_terminal_it_shows_the_last_requests_to_models(self):
        backend = self.backend(lambda request: request.answer(
            b'{"choices":[{"index":0,"finish_reason":"stop"}],"usage":{"prompt_tokens":321,"completion_tokens":4}}',
            fields=[("content-type", "application/json")]))
        daemon = self.start_daemon(backend, pool={"inspect": True})
        screen = Screen(self, rows=40, columns=200)
        top = screen.run("top", "--admin", daemon.admin)
        screen.wait_for(re.escape(backend.address) + " +up ")
        screen.type("r")
        screen.wait_for(r"no requests: pools with `inspect: true`")

        exchange(daemon.address, "POST", "/v1/chat/completions", (), b'{"model": "a-model", "messages": []}')
        screen.wait_for(r"a-model +- +chat +200 +321 .* stop +" + re.escape(backend.address))
        screen.type("r")
        screen.wait_for(r"by state \(s: next, r: requests, q: quit\)")

        screen.type("q")
        self.assertEqual(top.wait(PATIENCE), 0)

    def test_on_a_terminal_it_waits_for_a_daemon_that_stopped(self):
        daemon = self.start_daemon(self.backend())
        screen = Screen(self, rows=40, columns=200)
        top = screen.run("top", "--admin", daemon.admin)
        screen.wait_for("BACKEND")
        self.assertEqual(daemon.stop(), 0)
        screen.wait_for("no answer from " + re.escape(daemon.admin))
        top.send_signal(signal.SIGINT)
        self.assertEqual(top.wait(PATIENCE), 0)


class Screen:
    """A terminal, from the side of its program and of its user."""

    def __init__(self, test, rows, columns):
        self._master, self._slave = pty.openpty()
        test.addCleanup(os.close, self._master)
        test.addCleanup(os.close, self._slave)
        self._test = test
        self.text = ""
        self._process = None
        self.resize(rows, columns)
        self.settings_before = self.settings()

    def run(self, *arguments):
        self._process = subprocess.Popen([BINARY, *arguments], stdin=self._slave,
                                         stdout=self._slave, stderr=self._slave)
        self._test.addCleanup(self._process.wait)
        self._test.addCleanup(self._process.kill)
        return self._process

    def resize(self, rows, columns):
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if self._process:  # without a controlling terminal, the kernel does not signal it
            self._process.send_signal(signal.SIGWINCH)

    def settings(self):
        return termios.tcgetattr(self._slave)

    def type(self, keys):
        os.write(self._master, keys.encode())

    def wait_for(self, pattern):
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.text)):
            self._test.assertLess(time.monotonic(), deadline, f"no {pattern!r} in {self.text!r}")
            if select.select([self._master], [], [], 0.1)[0]:
                self.text += os.read(self._master, 65536).decode()
        return found


if __name__ == "__main__":
    case.main()
