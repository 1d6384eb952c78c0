"""The audit log: who has changed what, and what became of clients' keys; a chain that shows where it was tampered with."""

import contextlib
import hashlib
import json
import os
import pathlib
import signal
import subprocess

import case
from process import command
from reloading import ReloadCase
from stream import Closed, Stream, exchange
from upgrading import UpgradeCase

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
CHAT = "/v1/chat/completions"
KEY = "sk-acme-4711"
TENANTS = [{"name": "acme", "models": ["m"], "keys_sha256": [hashlib.sha256(KEY.encode()).hexdigest()]}]


def verify(*paths, key=None):
    """`evenkeel audit verify`: exit code and what it tells."""
    done = command("audit", "verify", *(["--key-file", str(key)] if key else []), *map(str, paths))
    return done.returncode, done.stdout + done.stderr


class Audited:
    """For test cases: a daemon whose audit log is at `self.path`."""

    def setUp(self):
        self.path = pathlib.Path(self.folder()) / "audit.jsonl"

    def audited(self, *backends, start=None, audit=None, **config):
        return (start or self.running)(*backends, pool=QUIET, audit={"path": str(self.path), **(audit or {})},
                                       **{"auth": {}, "tenants": TENANTS, **config})

    def records(self, event=None, path=None):
        found = []
        for line in (path or self.path).read_text().split("\n")[:-1]:
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        return [each for each in found if event in (None, each["event"])]

    def recorded(self, event, count=1):
        """The records of an event as soon as there are so many."""
        found = self.eventually(lambda: len(found := self.records(event)) >= count and found, f"{count} records of {event}")
        self.assertEqual(len(found), count)
        return found

    def ask(self, daemon, key=KEY, model="m"):
        fields = [("content-type", "application/json"), *([("authorization", f"Bearer {key}")] if key else [])]
        return exchange(daemon.address, "POST", CHAT, fields, json.dumps({"model": model, "messages": []}).encode()).status

    def change(self, daemon, target, body=b"", fields=()):
        with Stream.connect(daemon.admin) as stream:
            return stream.exchange("POST", target, fields, body, host=daemon.admin).status

    def assert_holds(self, *paths, key=None):
        code, told = verify(*(paths or (self.path,)), key=key)
        self.assertEqual(code, 0, told)
        return told


class Records(Audited, ReloadCase):
    def test_tell_who_has_changed_what(self):
        server = self.backend()
        daemon = self.audited(server)
        backend = f"/api/v1/backends/{server.address}"
        self.assertEqual(self.change(daemon, f"{backend}/drain", b'{"for_seconds": 60}'), 200)
        self.assertEqual(self.change(daemon, f"{backend}/undrain"), 200)
        self.assertEqual(self.change(daemon, f"{backend}/weight", b'{"weight": 7}'), 200)
        self.assertEqual(self.change(daemon, "/api/v1/log", b'{"level": "debug"}'), 200)
        self.assertEqual(self.change(daemon, f"{backend}/weight", b'{"weight": 0}'), 422)
        daemon.api("status")
        self.assertEqual(self.change(daemon, "/api/v1/check"), 200)
        records = self.recorded("admin", 5)
        self.assertEqual([(each["path"].rpartition("/")[2], each.get("body"), each["status"]) for each in records],
                         [("drain", '{"for_seconds": 60}', 200), ("undrain", None, 200), ("weight", '{"weight": 7}', 200),
                          ("log", '{"level": "debug"}', 200), ("weight", None, 422)])
        self.assertEqual({(each["client"], each["token"]) for each in records}, {("127.0.0.1", "none")})
        self.assertRegex(records[0]["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assert_holds()

    def test_tell_of_changes_that_were_refused_and_of_tokens(self):
        token = pathlib.Path(self.folder()) / "token"
        token.write_text("0123456789abcdef0123456789abcdef")
        server = self.backend()
        daemon = self.audited(server, admin={"address": "127.0.0.1:0", "token_file": str(token), "token_for": "changes"})
        drain = f"/api/v1/backends/{server.address}/drain"
        self.assertEqual(self.change(daemon, drain), 401)
        self.assertEqual(self.change(daemon, drain, fields=[("authorization", "Bearer 0123456789abcdef-wrong")]), 403)
        self.assertEqual(self.change(daemon, drain, fields=[("authorization", f"Bearer {token.read_text()}")]), 200)
        refused = self.recorded("admin_refused", 2)
        self.assertEqual([(each["status"], each["token"]) for each in refused], [(401, "none"), (403, "wrong")])
        self.assertEqual(self.recorded("admin")[0]["token"], "right")
        wrong = [("authorization", "Bearer 0123456789abcdef-wrong")]
        for count, (method, target) in enumerate((("GET", "/api/v1/access"), ("POST", "/api/v1/check"), ("GET", "/nothing")), 3):
            with Stream.connect(daemon.admin) as stream:
                stream.exchange(method, target, wrong, host=daemon.admin)
            self.assertEqual(self.recorded("admin_refused", count)[-1]["path"], target)
        with Stream.connect(daemon.admin) as stream:
            stream.exchange("GET", "/api/v1/access", [("authorization", f"Bearer {token.read_text()}")], host=daemon.admin)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual(len(self.records("admin_refused")), 5)
        self.assertNotIn("0123456789abcdef", self.path.read_text())

    def test_tell_of_reloads_with_the_files_hashes(self):
        daemon = self.audited(self.backend())
        before = daemon.api("status")["config"]["hash"]
        self.config["shutdown"] = {"drain": "33s"}
        self.reload()
        self.refused("pools: 7")
        good, bad = self.recorded("reload", 2)
        self.assertEqual((good["ok"], good["changes"], bad["ok"]), (True, 1, False))
        self.assertNotEqual(good["before"], good["after"])
        self.assertEqual(good["after"], bad["before"])
        self.assertNotEqual(bad["after"], bad["before"])
        self.assertTrue(bad["problem"])
        self.assertEqual(self.recorded("start")[0]["config"], good["before"])
        self.assertEqual(good["before"], before)

    def test_tell_of_keys_once_and_of_refusals_without_any_secret(self):
        daemon = self.audited(self.backend())
        for _ in range(5):
            self.assertEqual(self.ask(daemon), 200)
        for count, (asked, status) in enumerate((({"key": "sk-wrong-secret"}, 401), ({"key": None}, 401),
                                                 ({"model": "other"}, 403)), 1):
            self.assertEqual(self.ask(daemon, **asked), status)
            self.recorded("refused", count)
        used = self.recorded("key_first_used")[0]
        key_id = hashlib.sha256(KEY.encode()).hexdigest()[:8]
        self.assertEqual((used["key"], used["tenant"], used["client"]), (key_id, "acme", "127.0.0.1"))
        wrong, missing, model = self.recorded("refused", 3)
        self.assertEqual([(each["reason"], each["status"], each["path"]) for each in (wrong, missing, model)],
                         [("unauthorized", 401, CHAT), ("unauthorized", 401, CHAT), ("model_not_allowed", 403, CHAT)])
        self.assertIn("not known", wrong["detail"])
        self.assertEqual((model["tenant"], model["key"]), ("acme", key_id))
        self.assertNotIn("sk-", self.path.read_text())
        self.assert_holds()

    def test_of_refusals_are_few_and_the_others_are_counted(self):
        daemon = self.audited(self.backend())
        with Stream.connect(daemon.address) as stream:
            for _ in range(300):
                self.assertEqual(stream.exchange("GET", "/x?api_key=secret").status, 401)

        def all_counted():
            more = sum(each["unauthorized"] for each in self.records("refused_more"))
            return more > 0 and more + len(self.records("refused")) == 300

        self.eventually(all_counted, "all refusals, as records or in a count")
        self.assertNotIn("secret", self.path.read_text())
        self.assert_holds()

    def test_begin_with_the_start_and_end_with_the_stop(self):
        daemon = self.audited(self.backend())
        pid = daemon.pid
        self.eventually(lambda: daemon.metric("evenkeel_audit_last_sequence") == 1, "the record of the start")
        self.assertEqual(daemon.metric("evenkeel_audit_records_total"), 1)
        self.assertEqual(daemon.stop(), 0)
        self.assertEqual([each["event"] for each in self.records()], ["start", "stopping", "stop"])
        self.assertEqual({each["pid"] for each in self.records()}, {pid})
        self.assertEqual(self.records("stop")[0]["exit_code"], 0)

    def test_of_a_file_that_cannot_be_written_refuse_the_reload(self):
        self.audited(self.backend())
        self.config["audit"]["path"] = str(self.path.parent / "no" / "audit.jsonl")
        self.assertIn("audit.path", self.refused())
        self.config["audit"] = {"key_file": str(self.path)}
        self.assertIn("missing key 'path'", self.refused())


class Chain(Audited, ReloadCase):
    def some(self, daemon, count=5):
        for _ in range(count):
            self.assertEqual(self.change(daemon, "/api/v1/log", b'{"level": "info"}'), 200)

    def written(self, **audit):
        """The lines of a log of eight records, whose daemon has stopped."""
        daemon = self.audited(self.backend(), audit=audit)
        self.some(daemon)
        self.assertEqual(daemon.stop(), 0)
        lines = self.path.read_text().splitlines(keepends=True)
        self.assertEqual(len(lines), 8)
        return lines

    def told(self, lines, key=None):
        self.path.write_text("".join(lines))
        code, told = verify(self.path, key=key)
        self.assertEqual(code, 1, told)
        return told

    def test_shows_where_it_was_tampered_with(self):
        good = self.written()
        self.assertIn("8 records", self.assert_holds())
        changed = [*good[:3], good[3].replace("127.0.0.1", "127.0.0.2"), *good[4:]]
        self.assertIn(f"{self.path}:4: record 4 was changed", self.told(changed))
        self.assertIn(f"{self.path}:4: record 5 follows record 3", self.told(good[:3] + good[4:]))
        self.assertIn(f"{self.path}:3: record 4 follows record 2",
                      self.told([*good[:2], good[3], good[2], *good[4:]]))
        self.assertIn(f"{self.path}:2: is no record", self.told([good[0], "{}\n", *good[1:]]))

    def test_does_not_show_that_its_end_or_its_beginning_is_missing(self):
        """So the number and the hash of its last record are told."""
        good = self.written()
        last = json.loads(good[-1])
        self.assertIn(last["hash"], self.assert_holds())
        self.path.write_text("".join(good[:-2]))
        told = self.assert_holds()
        self.assertNotIn(last["hash"], told)
        self.assertIn("1 to 6", told)
        self.path.write_text("".join(good[2:]))
        self.assertIn("begins with record 3", self.assert_holds())

    def test_without_a_key_can_be_made_anew_and_with_one_not(self):
        key = pathlib.Path(self.folder()) / "key"
        key.write_text("0123456789abcdef0123456789abcdef\n")
        good = self.written(key_file=str(key))
        self.assert_holds(key=key)
        self.assertIn("--key-file", self.told(good))
        forged, previous = [], "0" * 64
        for line in good:
            hashed = line[:line.rindex(',"prev"')].replace("127.0.0.1", "192.0.2.1") + f',"prev":"{previous}"'
            previous = hashlib.sha256(hashed.encode()).hexdigest()
            forged.append(f'{hashed},"hash":"{previous}"}}\n')
        self.assertIn(":1: record 1 was changed", self.told(forged, key=key))
        self.assertEqual(verify(self.path)[0], 0, "anyone can make a chain without a key")

    def test_shows_what_was_cut_off_while_the_daemon_runs(self):
        daemon = self.audited(self.backend())
        self.some(daemon)
        self.recorded("admin", 5)
        lines = self.path.read_text().splitlines(keepends=True)
        os.truncate(self.path, sum(map(len, lines[:4])))
        self.some(daemon, 1)
        self.eventually(lambda: len(self.records()) > 4, "another record")
        code, told = verify(self.path)
        self.assertEqual(code, 1)
        self.assertIn(f"{self.path}:5: record 7 follows record 4", told)

    def test_goes_on_after_a_restart_and_a_rotation(self):
        moved = []

        def rotate(number):
            moved.append(self.path.with_name(f"audit.jsonl.{number}"))
            self.path.rename(moved[-1])

        daemon = self.audited(self.backend())
        self.some(daemon, 2)
        self.recorded("admin", 2)
        rotate(1)
        daemon.signal(signal.SIGUSR1)
        self.eventually(lambda: self.path.exists() and self.records("logs_reopened"), "a new file, by the signal")
        rotate(2)
        self.some(daemon, 1)
        self.eventually(self.path.exists, "a new file, by the next record")
        self.assertEqual(daemon.stop(), 0)
        daemon = self.audited(self.backend())
        self.assertEqual(daemon.stop(), 0)
        rotate(3)
        self.path.touch()
        daemon = self.audited(self.backend())
        self.assertEqual(daemon.stop(), 0)
        self.assertIn("the chain holds: 13 records, 1 to 13", self.assert_holds(*moved, self.path))
        code, told = verify(moved[0], moved[2], self.path)
        self.assertEqual(code, 1)
        self.assertIn(f"{moved[2]}:1: record 5 follows record 3", told)

    def test_goes_on_behind_a_record_that_a_killed_process_has_not_finished(self):
        good = self.written()
        self.path.write_text("".join(good)[:-70])
        self.assertIn(":8: the last line is not complete", self.assert_holds())
        self.assertEqual(self.audited(self.backend()).stop(), 0)
        self.assertIn(f"{self.path}:8:", self.assert_holds())
        self.assertEqual([each["seq"] for each in self.records()], [*range(1, 8), 8, 9, 10])

    def test_holds_after_a_kill_amid_records(self):
        daemon = self.audited(self.backend())
        for _ in range(3):
            writing = self.spawn(lambda running=daemon: self.until_killed(running))
            self.eventually(lambda: len(self.records()) % 50 > 20, "some records")
            daemon.kill()
            writing.join()
            daemon = self.audited(self.backend())
        self.some(daemon, 1)
        self.assertEqual(daemon.stop(), 0)
        self.assert_holds()

    def until_killed(self, daemon):
        with contextlib.suppress(OSError, Closed):
            with Stream.connect(daemon.admin) as stream:
                while True:
                    stream.exchange("POST", "/api/v1/log", body=b'{"level": "info"}', host=daemon.admin)

    def test_holds_behind_a_full_disk_which_stops_no_request(self):
        folder = self.folder()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("needs root, to mount a small disk")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False)
        self.path, ballast = pathlib.Path(folder, "audit.jsonl"), pathlib.Path(folder, "ballast")
        daemon = self.audited(self.backend())
        self.recorded("start")
        ballast.write_bytes(b"x" * 56 * 1024)
        self.some(daemon, 40)
        daemon.wait_line("audit: records cannot be written: No space left on device")
        self.assertEqual(self.ask(daemon), 200)
        ballast.unlink()
        daemon.wait_line("audit: records are written again")
        self.recorded("admin", 40)
        self.assertEqual(daemon.metric("evenkeel_audit_lost_total"), 0)
        self.assert_holds()
        self.assertEqual(daemon.stop(), 0)


class Upgrades(Audited, UpgradeCase):
    def test_continue_one_chain(self):
        daemon = self.audited(self.backend(), start=self.start)
        with Stream.connect(daemon.address) as kept:
            self.assertEqual(kept.exchange("GET", "/x").status, 401)
            self.upgrade()
            self.assertEqual(self.ask(daemon), 200)
            self.assertEqual(kept.exchange("GET", "/x").status, 401)  # by the former process
        self.recorded("refused", 2)
        self.recorded("key_first_used")
        self.assertEqual(len(self.recorded("start", 2)), 2)
        self.assertTrue(self.recorded("upgrade")[0]["ok"])
        self.assert_holds()

    def test_are_how_it_is_turned_on(self):
        daemon = self.start(self.backend(), pool=QUIET)
        self.config["audit"] = {"path": str(self.path)}
        self.write()
        daemon.signal(signal.SIGHUP)
        daemon.wait_line("upgrade: process (\\d+) has taken over")
        self.main = int(daemon.wait_line("upgrade: process (\\d+) has taken over")[1])
        self.recorded("start")


if __name__ == "__main__":
    case.main()
