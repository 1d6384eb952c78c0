"""One valid line of JSON for every request, whatever clients send."""

import json
import os
import pathlib
import re
import signal
import socket
import threading
import time
import unittest

import case
import http2
import process
from ports import refusing_address
from stream import Stream, exchange

FIELDS = ["time", "request_id", "client", "listener", "protocol", "method", "host", "path", "route",
          "pool", "backend", "status", "reason", "attempts", "bytes_in", "bytes_out", "duration_ms",
          "head_ms", "wait_ms", "connect_ms", "retry_ms", "overhead_ms", "backend_ms", "ttfb_ms", "aborted"]
# The duration is their sum.
PARTS = ["head_ms", "wait_ms", "connect_ms", "retry_ms", "overhead_ms", "backend_ms"]


# The format `combined` of nginx: what no value may hold stays outside of its group.
COMBINED = re.compile(
    r'(?P<client>\S+) - (?P<user>\S+) \[(?P<time>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] '
    r'"(?P<method>[^" \\]+) (?P<path>(?:[^" \\]|\\x[0-9A-F]{2})+) (?P<protocol>HTTP/[0-9.]+)" '
    r'(?P<status>\d{3}) (?P<bytes>\d+) '
    r'"(?P<referer>(?:[^"\\]|\\x[0-9A-F]{2})*)" "(?P<agent>(?:[^"\\]|\\x[0-9A-F]{2})*)"')


class Formats(case.Case):
    def logged(self, count, daemon):
        def lines():
            found = daemon.access_path.read_bytes().splitlines()
            return len(found) >= count and [each.decode("ascii") for each in found]
        return self.eventually(lines, f"{count} lines")

    def start(self, access_log, *backends, **config):
        path = pathlib.Path(self.folder()) / "access.log"
        daemon = self.start_daemon(*backends, access_log={"path": str(path), **access_log}, **config)
        daemon.access_path = path
        return daemon

    def test_combined_is_what_readers_of_nginx_logs_take(self):
        daemon = self.start({"format": "combined"}, self.backend(lambda ask: ask.answer(b"x" * 321)),
                            workers=1)
        exchange(daemon.address, "POST", "/v1/x?q=1", [
            ("User-Agent", 'evil" 200 1 "-" "x\\'), ("Referer", "https://a.example/?api_key=secret")])
        for target in ('/"] 200', '/a"b[c]'):
            self.assertEqual(exchange(daemon.address, target=target).status, 400)
        lines = self.logged(3, daemon)
        found = [COMBINED.fullmatch(line) for line in lines]
        self.assertTrue(all(found), lines)
        self.assertEqual(found[0].group("client", "user", "method", "path", "protocol", "status", "bytes"),
                         ("127.0.0.1", "-", "POST", "/v1/x?q=1", "HTTP/1.1", "200", "321"))
        self.assertEqual(found[0]["agent"], r'evil\x22 200 1 \x22-\x22 \x22x\x5C')
        self.assertNotIn("secret", lines[0])
        self.assertEqual(found[2].group("path", "status"), (r"/a\x22b[c]", "400"))
        self.assertEqual(len(lines), 3)

    def test_logfmt_quotes_what_needs_it(self):
        daemon = self.start({"format": "logfmt", "fields": ["status", "path", "user_agent", "attempts"]},
                            backend := self.backend())
        exchange(daemon.address, target="/a?b=c", fields=[("User-Agent", 'curl "x" status=500')])
        self.assertEqual(self.logged(1, daemon),
                         [rf'status=200 path="/a?b=c" user_agent="curl \"x\" status=500" '
                          rf'attempts="{backend.address}/answered"'])

    def test_a_template_and_a_reload_that_changes_it(self):
        daemon = self.start({"format": "$method $path $status"}, self.backend(), workers=1)
        exchange(daemon.address, target="/a")
        self.assertEqual(self.logged(1, daemon), ["GET /a 200"])
        config = json.loads(daemon.config_path.read_text())
        config["access_log"]["format"] = "json"
        config["access_log"]["fields"] = ["path", "status"]
        daemon.config_path.write_text(json.dumps(config))
        daemon.signal(signal.SIGHUP)
        daemon.wait_line("reloaded ")
        exchange(daemon.address, target="/b")
        self.assertEqual(self.logged(2, daemon)[1], '{"path":"/b","status":200}')
        self.assertIn("fields: [path, status]", daemon.api("config")["yaml"])

    def test_a_reload_under_load_changes_path_and_format_at_the_same_line(self):
        daemon = self.start({}, self.backend(), self.backend(), workers=4)
        stop, sent = threading.Event(), []

        def ask():
            with Stream.connect(daemon.address) as stream:
                count = 0
                while not stop.is_set():
                    self.assertEqual(stream.exchange("GET", "/").status, 200)
                    count += 1
                sent.append(count)

        clients = [threading.Thread(target=ask) for _ in range(8)]
        for client in clients:
            client.start()
        folder, files = pathlib.Path(self.folder()), [daemon.access_path]
        config = json.loads(daemon.config_path.read_text())
        for number in range(1, 7):
            time.sleep(0.2)
            files.append(folder / f"{number}.log")
            config["access_log"] = {"path": str(files[-1]), "format": "combined" if number % 2 else "json"}
            daemon.config_path.write_text(json.dumps(config))
            self.assertEqual(daemon.ask_admin("/api/v1/reload", method="POST").status, 200)
        time.sleep(0.2)
        stop.set()
        for client in clients:
            client.join()
        self.assertEqual(daemon.stop(), 0)
        lines = [file.read_text().splitlines() for file in files]
        for number, each in enumerate(lines):
            self.assertGreater(len(each), 0, files[number])
            wrong = [line for line in each if line.startswith("{") == bool(number % 2)]
            self.assertEqual(wrong, [], f"{files[number]}: {len(wrong)} of {len(each)}")
        self.assertEqual(sum(len(each) for each in lines), sum(sent))

    def test_only_failures_and_slow_requests_are_logged(self):
        def answer(ask):
            if ask.target == "/slow":
                time.sleep(0.5)
            ask.answer(b"x", status=503 if ask.target == "/fails" else 200)

        daemon = self.start({"sample": 0, "slow": "400ms", "format": "$path $status"},
                            self.backend(answer), workers=1, pool={"retry": {"attempts": 1}})
        for target in ("/one", "/fails", "/two", "/slow", "/three"):
            exchange(daemon.address, target=target)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(daemon.access_path.read_text().splitlines(), ["/fails 503", "/slow 200"])

    def test_a_sample_of_the_rest_is_logged(self):
        daemon = self.start({"sample": "50%"}, self.backend())
        for _ in range(60):
            exchange(daemon.address)
        self.assertEqual(daemon.stop(), 0)
        count = len(daemon.access_path.read_text().splitlines())
        self.assertTrue(5 < count < 55, count)

    def test_syslog_gets_each_line(self):
        where = pathlib.Path(self.folder()) / "log"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
            syslog.bind(str(where))
            syslog.settimeout(20)
            daemon = self.start_daemon(self.backend(), access_log={"path": f"syslog:{where}", "format": "$path $status"})
            exchange(daemon.address, target="/a")
            self.assertRegex(syslog.recv(65536).decode(),
                             r"^<190>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d evenkeel\[\d+\]: /a 200$")

    def test_a_syslog_may_come_after_the_daemon(self):
        where = pathlib.Path(self.folder()) / "log"
        daemon = self.start_daemon(self.backend(), access_log={"path": f"syslog:{where}", "format": "$path $status"})
        daemon.wait_line(f"the access log cannot be written: {where}: No such file or directory; lines are kept")
        exchange(daemon.address, target="/a")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
            syslog.bind(str(where))
            syslog.settimeout(20)
            self.assertTrue(syslog.recv(65536).endswith(b"]: /a 200"))
        daemon.wait_line("the access log is written again")

    def test_a_syslog_that_is_not_there_is_a_warning_with_its_cure(self):
        done = process.command("check", "-c", self.config_file({
            "access_log": {"path": "syslog:/nowhere/log"},
            "pools": [{"name": "p", "backends": ["127.0.0.1:1"]}]}))
        self.assertEqual(done.returncode, 0)
        self.assertIn("warning: access_log.path: 'syslog:/nowhere/log' cannot be reached: No such file", done.stderr)
        self.assertIn("start the local syslog or journal", done.stderr)

    def config_file(self, config):
        path = pathlib.Path(self.folder()) / "file.yaml"
        path.write_text(json.dumps(config))
        return str(path)


class AccessLog(case.Case):
    def test_a_line_describes_its_request(self):
        backend = self.backend(lambda ask: ask.answer(b"x" * 321, status=201))
        daemon = self.start_daemon(backend, routes=[{"name": "chat", "match": {"path": "/v1/**"},
                                                    "pool": "pool"}])
        exchange(daemon.address, "POST", "/v1/x?q=1", [("X-Request-Id", "r-1")], b"y" * 123,
                 host="API.Example.:80")

        line = daemon.wait_access(1)[0]
        self.assertEqual(list(line), FIELDS)
        self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
        measured = {name: line.pop(name) for name in
                    ("time", "duration_ms", "ttfb_ms", *PARTS)}
        (attempt,) = line.pop("attempts")
        self.assertEqual(list(attempt), ["backend", "outcome", "connect_ms"])
        self.assertEqual((attempt["backend"], attempt["outcome"]), (backend.address, "answered"))
        self.assertEqual(line, {
            "request_id": "r-1", "client": "127.0.0.1", "listener": "public", "protocol": "HTTP/1.1",
            "method": "POST", "host": "api.example", "path": "/v1/x?q=1", "route": "chat",
            "pool": "pool", "backend": backend.address, "status": 201, "reason": None,
            "bytes_in": 123, "bytes_out": 321, "aborted": False})
        self.assertEqual(measured["wait_ms"], 0)
        self.assertTrue(0 < measured["backend_ms"] <= measured["duration_ms"] < 10_000, measured)
        self.assertTrue(0 < measured["ttfb_ms"] <= measured["duration_ms"], measured)

    def test_an_unknown_value_is_null(self):
        daemon = self.start_daemon(self.backend(), routes=[{"match": {"path": "/v1/**"}, "pool": "pool"}])
        exchange(daemon.address, target="/elsewhere")
        line = daemon.wait_access(1)[0]
        self.assertEqual([line[name] for name in ("route", "pool", "backend", "ttfb_ms", "backend_ms")],
                         [None] * 5)
        self.assertEqual((line["status"], line["attempts"]), (404, []))

    def test_hostile_input_cannot_break_a_line_nor_forge_another(self):
        daemon = self.start_daemon(self.backend(), workers=1)  # lines in the order of requests
        targets = [b'/"},{"status":200,"', b"/\\u0000\\n", b"/\xff\xfe\xc3\x28", b"/\xe2\x80\xa8\xc2\x85",
                   b"/" + b"a" * 7000, b"/%0d%0a%1b[31m", b"/<script>", b"/\xf0\x9f\x90\x9f"]
        for target in targets:
            with Stream.connect(daemon.address) as stream:
                stream.send(b"GET " + target + b" HTTP/1.1\r\nHost: test\r\n"
                            b"X-Request-Id: \"}\\\r\nUser-Agent: \x1b]0;x\r\n\r\n")
                stream.read_head()

        lines = daemon.wait_access(len(targets))
        self.assertEqual(len(lines), len(targets))
        raw = daemon.access_path.read_bytes()
        self.assertEqual(raw.count(b"\n"), len(targets))
        for byte in raw:
            self.assertTrue(byte == 0x0a or byte >= 0x20 and byte != 0x7f, byte)
        raw.decode("utf-8")
        self.assertEqual(lines[0]["path"], '/"},{"status":200,"')
        self.assertTrue(all(line["status"] in (200, 400) for line in lines))

    def test_invalid_requests_have_a_line_too(self):
        daemon = self.start_daemon(self.backend())
        for raw in (b"\x00\x01\x02\x03\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
                    b"G\"ET / HTTP/1.1\r\nHost: a\r\n\r\n",
                    b"GET / HTTP/1.1\r\nHost: example.com\r\nContent-Length: x\r\n\r\n"):
            with Stream.connect(daemon.address) as stream:
                stream.send(raw)
                stream.wait_closed()
        lines = daemon.wait_access(4)
        self.assertEqual([line["reason"] for line in lines], ["bad_request"] * 4)
        self.assertEqual([line["status"] for line in lines], [400] * 4)
        self.assertEqual(sorted(str(line["host"]) for line in lines), ["None"] * 3 + ["example.com"])

    def test_under_load_every_request_has_its_line(self):
        daemon = self.start_daemon(self.backend(), self.backend())
        clients, each = 8, 250

        def ask(name):
            with Stream.connect(daemon.address) as stream:
                for number in range(each):
                    stream.exchange(fields=[("X-Request-Id", f"{name}-{number}")])

        for client in [self.spawn(lambda name=name: ask(name)) for name in range(clients)]:
            client.join()

        lines = daemon.wait_access(clients * each)
        self.assertEqual(len(lines), clients * each)
        self.assertEqual({line["request_id"] for line in lines},
                         {f"{name}-{number}" for name in range(clients) for number in range(each)})
        self.assertEqual(daemon.metric("evenkeel_access_log_dropped_total"), 0)

    def test_sigusr1_opens_the_file_anew_and_no_line_is_lost(self):
        daemon = self.start_daemon(self.backend())
        stop = threading.Event()

        def ask():
            count = 0
            with Stream.connect(daemon.address) as stream:
                while not stop.is_set():
                    count += 1
                    stream.exchange(fields=[("X-Request-Id", str(count))])
            return count

        load = self.spawn(ask)
        parts = []
        for turn in range(3):
            daemon.wait_access(50)
            moved = daemon.access_path.with_suffix(f".{turn}")
            os.rename(daemon.access_path, moved)
            daemon.signal(signal.SIGUSR1)
            self.eventually(daemon.access_path.exists, "the new file")
            parts.append(moved)
        daemon.wait_access(1)
        stop.set()
        count = load.join()

        def read():
            return [json.loads(line) for path in [*parts, daemon.access_path]
                    for line in path.read_text().split("\n")[:-1]]

        self.eventually(lambda: len(read()) >= count, "every line in one of the files")
        self.assertEqual([int(line["request_id"]) for line in read()], list(range(1, count + 1)))

    def test_to_stdout(self):
        daemon = self.start_daemon(self.backend(), access_log={"path": "stdout"})
        exchange(daemon.address)
        self.eventually(lambda: daemon.stdout, "a line on stdout")
        self.assertEqual(json.loads(daemon.stdout[0])["status"], 200)

    def test_off_means_no_line_at_all(self):
        daemon = self.start_daemon(self.backend(), access_log={"path": "off"})
        self.assertEqual(exchange(daemon.address).status, 200)
        daemon.wait_at_rest()
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(daemon.stdout, [])
        self.assertTrue(all(re.match(r"listening |ready$|\d{4}-", line) for line in daemon.lines))

    def test_the_last_lines_are_written_before_the_exit(self):
        daemon = self.start_daemon(self.backend())
        for _ in range(20):
            exchange(daemon.address)
        daemon.wait_at_rest()
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(len(daemon.access_lines()), 20)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_the_daemons_log_says_that_a_disk_is_full(self):
        path = os.path.join(self.folder(), "full.log")
        os.symlink("/dev/full", path)
        daemon = self.start_daemon(self.backend(), access_log={"path": path})
        exchange(daemon.address)
        daemon.wait_line("the access log cannot be written: No space left on device")
        exchange(daemon.address)
        self.assertEqual(daemon.metric("evenkeel_access_log_dropped_total"), 0, "they are kept")

        os.remove(path)
        daemon.signal(signal.SIGUSR1)
        daemon.wait_line("the access log is written again")
        daemon.wait_at_rest()
        self.eventually(lambda: open(path, encoding="utf-8").read().count("\n") == 2, "both lines")
        self.assertEqual(sum("cannot be written" in line for line in daemon.lines), 1)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_lines_that_are_lost_at_the_exit_are_reported(self):
        daemon = self.start_daemon(self.backend(), access_log={"path": "/dev/full"})
        for _ in range(3):
            exchange(daemon.address)
        daemon.wait_line("the access log cannot be written: No space left on device")
        self.assertEqual(daemon.stop(), 0)
        self.assertTrue(any("the last 3 lines of the access log are lost" in line for line in daemon.lines))

    def test_a_write_that_fails_for_good_is_reported_once_and_its_lines_are_counted(self):
        path = os.path.join(self.folder(), "pipe")
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        daemon = self.start_daemon(self.backend(), access_log={"path": path})
        os.close(reader)
        for count in (1, 2):
            exchange(daemon.address)
            self.eventually(lambda count=count: daemon.metric("evenkeel_access_log_dropped_total") == count,
                            "the lost line")
        daemon.wait_line("the access log cannot be written: Broken pipe; lines are lost")
        self.assertEqual(sum("cannot be written" in line for line in daemon.lines), 1)

    def test_several_attempts_are_one_line(self):
        backend = self.backend()
        dead = refusing_address()
        daemon = self.start_daemon(dead, backend, pool={"picker": "round-robin"}, workers=1)
        for _ in range(2):
            exchange(daemon.address)
        lines = daemon.wait_access(2)
        self.assertEqual([line["backend"] for line in lines], [backend.address] * 2)
        self.assertEqual([line["status"] for line in lines], [200] * 2)
        outcomes = [[(attempt["backend"], attempt["outcome"]) for attempt in line["attempts"]] for line in lines]
        answered = [(backend.address, "answered")]
        self.assertIn([(dead, "connect_failed"), *answered], outcomes)
        self.assertIn(answered, outcomes)  # the dead backend is in back-off by then
        self.assertEqual(daemon.metric("evenkeel_backend_errors_total", backend=dead, reason="connect_failed"), 1)

    def check_parts(self, line):
        """The parts of a line sum up to its duration; each is cut to a microsecond."""
        parts = sum(line[name] or 0 for name in PARTS)
        self.assertTrue(0 <= line["duration_ms"] - parts + 0.0005 < 0.001 * len(PARTS) + 0.001, line)

    def test_a_failed_connect_is_in_the_line(self):
        address = self.unresponsive_server()
        backend = self.backend()
        daemon = self.start_daemon(address, backend, workers=1,
                                   pool={"picker": "round-robin", "timeouts": {"connect": "200ms"}})
        for _ in range(2):
            self.assertEqual(exchange(daemon.address).status, 200)

        line = max(daemon.wait_access(2), key=lambda each: len(each["attempts"]))
        first, second = line["attempts"]
        self.assertEqual((first["backend"], first["outcome"]), (address, "connect_timeout"))
        self.assertGreaterEqual(first["connect_ms"], 190)
        self.assertEqual(second["outcome"], "answered")
        self.assertGreaterEqual(line["connect_ms"], first["connect_ms"])
        self.assertLess(line["backend_ms"], line["duration_ms"] - 180)
        self.check_parts(line)

        def reported():
            exchange(daemon.address)  # after the back-off it tries the backend again
            state = next(each for each in daemon.api("backends") if each["address"] == address)
            return (state["state"], state["reason"]) == ("down", "connect_timeout")

        self.eventually(reported, "the same word as the state's reason")
        self.assertGreaterEqual(
            daemon.metric("evenkeel_backend_errors_total", backend=address, reason="connect_timeout"), 1)

    def test_a_failed_attempt_that_was_sent_is_in_the_line(self):
        def script(ask):
            if ask.target == "/dies" and ask.connection == 1:
                return ask.stream.close()
            ask.answer(b"answer")

        daemon = self.start_daemon(self.backend(script), workers=1)
        exchange(daemon.address, target="/lives")
        exchange(daemon.address, "POST", "/dies", body=b"once")

        for line in daemon.wait_access(2):
            self.check_parts(line)
        self.assertEqual([each["outcome"] for each in line["attempts"]], ["backend_closed", "answered"])
        self.assertGreater(line["retry_ms"], 0)

    def test_a_refusal_by_the_only_backend_is_its_time(self):
        def play(wire, _):
            wire.send(http2.settings())
            while True:
                received = wire.take()
                if received.kind == http2.HEADERS:
                    time.sleep(0.05)
                    wire.send(http2.rst_stream(received.stream, http2.REFUSED_STREAM))

        daemon = self.start_daemon(self.hostile(play), pool={"protocol": "h2"})
        exchange(daemon.address)

        line = daemon.wait_access(1)[0]
        self.check_parts(line)
        self.assertEqual(len(line["attempts"]), 1)
        self.assertEqual(line["retry_ms"], 0)
        self.assertGreater(line["backend_ms"], 40)

    def test_a_refused_request_keeps_its_reason_when_its_client_resets(self):
        daemon = self.start_daemon(self.backend(), listeners=[{"name": "public", "limits": {"uri": "1KiB"}}])
        with http2.Wire.connect(daemon.address) as wire:
            wire.open({http2.INITIAL_WINDOW_SIZE: 0})  # no byte of the response's body fits
            wire.send(http2.headers(1, http2.request_fields(path="/" + "a" * 1100, authority="example.com")))
            while wire.read().kind != http2.HEADERS:
                pass
            self.assertEqual(daemon.access_lines(), [])
            wire.send(http2.rst_stream(1))
            line = daemon.wait_access(1)[0]
        self.assertEqual((line["status"], line["reason"], line["host"]), (414, "uri_too_long", "example.com"))

    def test_a_stream_that_is_reset_together_with_its_head(self):
        daemon = self.start_daemon(self.backend(), workers=1)
        with http2.Wire.connect(daemon.address).open() as wire:
            wire.send(http2.headers(1, http2.request_fields(path="/left", authority="example.com")) + http2.rst_stream(1))
            line = daemon.wait_access(1)[0]
        self.assertEqual((line["status"], line["reason"], line["aborted"]), (499, "client_gone", True))
        self.assertEqual((line["method"], line["host"], line["path"]), ("GET", "example.com", "/left"))
        self.assertEqual(daemon.metric("evenkeel_requests_total", code="499"), 1)

    def test_a_grpc_call_that_is_refused_has_a_whole_answer(self):
        daemon = self.start_daemon(refusing_address(), pool={"protocol": "h2"})
        fields = [*http2.request_fields("POST", "/a.B/C"), ("content-type", "application/grpc"), ("te", "trailers")]
        with http2.Wire.connect(daemon.address).open() as wire:
            wire.send(http2.headers(1, fields))
            line = daemon.wait_access(1)[0]
        self.assertEqual((line["status"], line["grpc_status"], line["reason"], line["aborted"]),
                         (200, 14, "connect_failed", False))

    def test_the_client_is_the_one_that_trusted_proxies_name(self):
        cases = [({}, "127.0.0.1", None), ({"X-Forwarded-For": "198.51.100.1, 203.0.113.9"}, "203.0.113.9", "127.0.0.1"),
                 ({"Forwarded": 'for="[2001:db8::1]:47"'}, "2001:db8::1", "127.0.0.1"),
                 ({"X-Forwarded-For": "nonsense"}, "127.0.0.1", None)]
        trusting = self.start_daemon(self.backend(), workers=1, listeners=[
            {"name": "public", "trusted_proxies": ["127.0.0.0/8"]}])
        for fields, client, peer in cases:
            exchange(trusting.address, fields=list(fields.items()))
        lines = trusting.wait_access(len(cases))
        self.assertEqual([(line["client"], line.get("peer")) for line in lines],
                         [(client, peer) for _, client, peer in cases])

        wary = self.start_daemon(self.backend())
        exchange(wary.address, fields=[("X-Forwarded-For", "203.0.113.9")])
        line = wary.wait_access(1)[0]
        self.assertEqual((line["client"], line.get("peer")), ("127.0.0.1", None))

    def test_a_fault_has_one_word_everywhere(self):
        dead = refusing_address()
        daemon = self.start_daemon(dead)
        answer = exchange(daemon.address)

        (line,) = daemon.wait_access(1)
        self.assertEqual(answer.reason, "connect_failed")
        self.assertEqual(line["reason"], "connect_failed")
        self.assertEqual([each["outcome"] for each in line["attempts"]], ["connect_failed"])
        for name in ("evenkeel_errors_total", "evenkeel_backend_errors_total"):
            self.assertEqual(daemon.metric(name, reason="connect_failed"), 1)


if __name__ == "__main__":
    case.main()
