"""What a check of a file by the running daemon costs and tells: no more than reading it."""

import json
import os
import pathlib

from case import Case
from certificates import Authority
from process import Daemon, command
from stream import exchange

SECRET = "hunter2-of-the-daemon"


class Admitted(Daemon):
    """Asks with the token."""

    def ask_admin(self, target, method="GET", fields=()):
        return super().ask_admin(target, method, [*fields, ("authorization", "Bearer correct-horse-battery")])


class Preview(Case):
    def serving(self, kind=Daemon, **config):
        folder = self.folder()
        daemon = kind(folder, {"pools": [{"name": "pool", "backends": [self.backend().address]}], **config},
                        env={"SECRET_OF_THE_DAEMON": SECRET})
        self.addCleanup(daemon.finish)
        return daemon

    def check(self, daemon, text, fields=()):
        return exchange(daemon.admin, "POST", "/api/v1/check", body=text.encode(), host=daemon.admin, fields=fields)

    def test_it_allocates_nothing_that_the_text_asks_for(self):
        daemon = self.serving()
        pools = [{"name": f"p{number}", "picker": {"name": "expected-time", "index_memory": "512MiB"},
                  "backends": ["127.0.0.1:1"]} for number in range(2)]
        routes = [{"match": {"path": f"/{pool['name']}"}, "pool": pool["name"]} for pool in pools]
        peak = self.peak_memory(daemon)
        answer = self.check(daemon, json.dumps({"pools": pools, "routes": routes}))
        self.assertEqual(answer.status, 200, answer.body)
        self.assertLess(self.peak_memory(daemon) - peak, 100 << 20)

    def peak_memory(self, daemon):
        status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    def test_it_tells_no_variable_of_the_daemon(self):
        daemon = self.serving()
        pool = {"name": "pool", "backends": ["127.0.0.1:1"]}
        value = "${SECRET_OF_THE_DAEMON}"
        for config in ({"pools": [{**pool, "picker": value}]}, {"pools": [{**pool, "name": value + " "}]},
                       {"pools": [{**pool, "name": value}]}, {"pools": [{**pool, "model": value}]},
                       {"pools": [pool], "workers": value}, {"pools": [pool], "shutdown": {"drain": value}},
                       {"pools": [{**pool, "backends": [value]}]}, {"pools": [{**pool, "backends": [value + ":1"]}]},
                       {"pools": [pool], "admin": {"token_file": value}}):
            answer = self.check(daemon, json.dumps(config))
            self.assertEqual(answer.status, 200, answer.body)
            found = json.loads(answer.body)
            self.assertTrue(found["problems"] or found["changes"] or found["unchecked"], config)
            self.assertNotIn(SECRET, answer.body.decode())

    def test_it_tells_no_variable_in_another_form_and_no_key(self):
        daemon = Daemon(self.folder(), {"pools": [{"name": "pool", "backends": [self.backend().address]}]}, env={"NUMBER": "00017"})
        self.addCleanup(daemon.finish)
        pool = {"name": "pool", "backends": ["127.0.0.1:1"]}
        answer = self.check(daemon, json.dumps({"pools": [pool], "workers": "${NUMBER}"}))
        self.assertIn("${NUMBER}", json.dumps(json.loads(answer.body)["changes"]), answer.body)
        self.assertNotRegex(answer.body.decode(), r"\b0*17\b")  # a free port may have these digits in it
        for key in ("api_key", "api_key_file"):
            backend = {"address": "127.0.0.1:1", key: "sk-live-hunter2"}
            answer = self.check(daemon, json.dumps({"pools": [{**pool, "backends": [backend]}]}))
            self.assertNotIn("hunter2", answer.body.decode())
            pathlib.Path(daemon.config_path).write_text(json.dumps({"pools": [{**pool, "backends": [backend]}]}))
            answer = exchange(daemon.admin, "POST", "/api/v1/reload", host=daemon.admin)
            self.assertEqual(answer.status, 422)
            self.assertNotIn("hunter2", answer.body.decode() + json.dumps(daemon.api("status")) + "\n".join(daemon.lines))
            checked = command("check", "-c", str(daemon.config_path))
            self.assertEqual(checked.returncode, 1)
            self.assertNotIn("hunter2", checked.stdout + checked.stderr)

    def test_a_rejected_reload_tells_none_either(self):
        daemon = self.serving()
        config = {"pools": [{"name": "pool", "picker": "${SECRET_OF_THE_DAEMON}", "backends": ["127.0.0.1:1"]}]}
        pathlib.Path(daemon.config_path).write_text(json.dumps(config))
        answer = exchange(daemon.admin, "POST", "/api/v1/reload", host=daemon.admin)
        self.assertEqual(answer.status, 422)
        self.assertIn("SECRET_OF_THE_DAEMON", answer.body.decode())
        self.assertNotIn(SECRET, answer.body.decode() + json.dumps(daemon.api("status")) + "\n".join(daemon.lines))

    def test_it_does_not_tell_which_files_there_are(self):
        folder = pathlib.Path(self.folder())
        token = folder / "token"
        token.write_text("correct-horse-battery")
        key = Authority(str(folder)).issue("localhost")
        daemon = self.serving(admin={"address": "127.0.0.1:0", "token_file": str(token)})

        def answers(name, fields=()):
            pool = {"name": "pool", "backends": [{"address": "127.0.0.1:1", "api_key_file": name}],
                    "tls": {"ca": name}}
            answer = self.check(daemon, json.dumps({"pools": [pool], "access_log": {"path": name}}), fields)
            return json.loads(answer.body)["problems"]

        there, missing = str(key), str(folder / "missing")
        self.assertEqual(answers(there), answers(missing))
        with_token = [("authorization", "Bearer correct-horse-battery")]
        self.assertIn("No such file", json.dumps(answers(missing, with_token)))

    def test_the_token_may_be_wanted_on_this_machine_too(self):
        token = os.path.join(self.folder(), "token")
        pathlib.Path(token).write_text("correct-horse-battery")
        for token_for, reads in (("changes", 200), ("all", 401)):
            daemon = self.serving(Admitted, admin={"address": "127.0.0.1:0", "token_file": token, "token_for": token_for})
            for path in ("/metrics", "/readyz?verbose", "/api/v1/status", "/api/v1/backends"):
                self.assertEqual(exchange(daemon.admin, "GET", path, host=daemon.admin).status, reads, path)
                self.assertEqual(daemon.ask_admin(path).status, 200, path)
            for path in ("/healthz", "/readyz"):
                self.assertEqual(exchange(daemon.admin, "GET", path, host=daemon.admin).status, 200)
            for path in ("/api/v1/check", "/api/v1/reload"):
                self.assertEqual(exchange(daemon.admin, "POST", path, host=daemon.admin).status, 401)
                self.assertEqual(daemon.ask_admin(path, method="POST").status, 200, path)
            denied = command("top", "-1", "--admin", daemon.admin)
            self.assertEqual(denied.returncode, 0 if reads == 200 else 1)
            if reads == 401:
                self.assertRegex(denied.stderr, r"refused by .*TOKEN \(--token-file FILE\)")
            status = command("ctl", "status", "-c", str(daemon.config_path), "--admin", daemon.admin)
            self.assertEqual(status.returncode, 0, status.stderr)
            top = command("top", "-1", "--admin", daemon.admin, "--token-file", token)
            self.assertEqual(top.returncode, 0, top.stderr)



if __name__ == "__main__":
    import case
    case.main()
