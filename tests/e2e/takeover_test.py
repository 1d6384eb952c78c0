"""Reloads of what a running process cannot change, `ctl upgrade`, and upgrades with TLS and under a service manager."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import unittest

import case
import process
from certificates import Authority
from dns_server import NameServer
from ports import free_port
from process import BINARY, command
from reloading import ReloadCase, refuses, serve
from service_test import Manager
from stream import Stream, exchange
from upgrade_test import ReconnectingTraffic
from upgrading import UpgradeCase, taken_over


class Takeover(UpgradeCase):
    def follow(self, count):
        """Waits until `count` processes have been replaced."""
        self.eventually(lambda: len(taken_over(self.served)) >= count, "the takeover")
        self.main = taken_over(self.served)[-1]
        self.eventually(lambda: self.served.ask_admin("/readyz").status == 200, "a ready process")

    def test_a_reload_changes_the_number_of_workers_without_a_lost_request(self):
        self.start(self.backend(serve), self.backend(serve), workers=3)
        traffic = ReconnectingTraffic(self, self.served.address)
        self.eventually(lambda: traffic.asked() > 100, "traffic")
        for count, workers in enumerate((1, 4), 1):
            self.config["workers"] = workers
            told = self.reload()
            self.follow(count)
            self.assertEqual(told["taken_over_by"], self.main)
            self.assertEqual(self.served.api("status")["workers"], workers)
            self.assertIsNone(self.served.api("status")["taken_over_by"])
            counts = dict(traffic.counts)
            self.eventually(lambda: all(traffic.counts[kind] > counts[kind] for kind in counts), "traffic")
        traffic.end()

    def test_a_process_that_takes_over_has_the_name_of_the_one_before(self):
        self.start(self.backend(serve))
        self.config["workers"] = 1
        self.reload()
        self.follow(1)
        process_folder = pathlib.Path(f"/proc/{self.main}")
        self.assertEqual((process_folder / "comm").read_text(), "evenkeel\n")
        self.assertEqual((process_folder / "cmdline").read_text().split("\0")[0], str(self.binary))

    def test_auto_is_a_worker_for_each_cpu_of_the_affinity_mask(self):
        allowed = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, allowed)
        os.sched_setaffinity(0, {min(allowed)})
        self.start(self.backend(serve), workers="auto")
        self.assertEqual(self.served.api("status")["workers"], 1)

    def test_commands_say_that_another_process_takes_over(self):
        self.start(self.backend(serve))
        self.config["workers"] = 1
        self.write()
        path = str(self.served.config_path)
        checked = command("check", "-c", path, "--running", "--admin", self.served.admin)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn("workers cannot change in a running process: a reload would start another one", checked.stdout)
        self.assertEqual(taken_over(self.served), [])
        reloaded = command("ctl", "reload", "--admin", self.served.admin)
        self.follow(1)
        self.assertEqual((reloaded.returncode, reloaded.stdout),
                         (0, f"reloaded {path}: process {self.main} has taken over\n"))

    def test_the_access_log_can_be_turned_off_and_on(self):
        self.start(self.backend(serve))
        path = self.config["access_log"]["path"]
        for count, destination in enumerate(("off", path), 1):
            self.config["access_log"] = {"path": destination}
            self.reload()
            exchange(self.served.address, target=f"/with-{count}")  # by the new process, from the answer on
            self.follow(count)
        self.eventually(lambda: "/with-2" in pathlib.Path(path).read_text(), "the line")
        self.assertNotIn("/with-1", pathlib.Path(path).read_text())

    def test_the_running_binary_takes_over_for_a_reload_and_the_installed_one_for_an_upgrade(self):
        self.start(self.backend(serve))
        new = self.binary.with_name("new")
        new.write_text(f'#!/bin/sh\necho "this is the new file" >&2\nexec {BINARY} "$@"\n')
        new.chmod(0o755)
        new.rename(self.binary)
        self.config["workers"] = 1
        self.reload()
        self.follow(1)
        self.assertFalse([line for line in self.served.lines if "this is the new file" in line])
        upgraded = command("ctl", "upgrade", "--admin", self.served.admin)
        self.follow(2)
        self.assertEqual((upgraded.returncode, upgraded.stdout),
                         (0, f"upgraded: process {self.main} has taken over\n"))
        self.served.wait_line("^this is the new file$")

    def test_ctl_upgrade_says_why_it_failed(self):
        self.start(self.backend(serve))
        good = self.binary.read_bytes()
        self.binary.unlink()
        failed = command("ctl", "upgrade", "--admin", self.served.admin)
        self.assertEqual(failed.returncode, 1)
        self.assertRegex(failed.stderr, "cannot run .*: No such file")
        self.binary.write_bytes(good)
        self.binary.chmod(0o755)
        self.write("pools: what")
        self.assertIn("exited with code 1", command("ctl", "upgrade", "--admin", self.served.admin).stderr)
        self.assertEqual(exchange(self.served.address).status, 200)
        self.write()

    def test_a_file_with_mistakes_starts_no_process(self):
        self.start(self.backend(serve))
        self.config["workers"] = 1
        self.config["pools"][0]["what"] = 1
        self.assertIn("what", self.refused())
        self.assertFalse([line for line in self.served.lines if "upgrade: starting" in line])

    def test_the_service_manager_follows_a_reload(self):
        name = os.path.join(self.folder(), "notify")
        manager = Manager(self, name)
        self.config = {"pools": [{"name": "pool", "backends": [self.backend(serve).address]}], "workers": 2,
                       "listeners": [{"name": "public", "address": "127.0.0.1:0"}],
                       "admin": {"address": "127.0.0.1:0"}}
        self.served = self.daemon(self.config, env={"NOTIFY_SOCKET": name})
        self.main = self.served.pid
        self.addCleanup(self.end_main)
        at, _ = manager.wait("READY=1")
        self.config["workers"] = 1
        self.config["access_log"] = {"path": str(self.served.access_path)}
        self.reload()
        self.follow(1)
        _, told = manager.wait("MAINPID=", after=at)
        self.assertTrue(told.startswith(f"MAINPID={self.main}\nREADY=1\n"), told)
        self.assertFalse([text for _, text in manager.heard if "STOPPING" in text])


class Tls(UpgradeCase):
    def test_clients_over_tls_lose_no_request(self):
        authority = Authority(self.folder())
        certificates = {"certificates": [authority.issue("127.0.0.1").config()]}
        self.start(self.backend(serve), listeners=[
            {"name": "public", "address": "127.0.0.1:0", "tls": certificates}])
        http1 = authority.trust(alpn=["http/1.1"])

        class TlsTraffic(ReconnectingTraffic):
            """HTTP/1 only: each connection says when it closes."""

            def _connections(self):
                while not self._stop.is_set():
                    with Stream.connect(self.address, tls=http1) as stream:
                        yield stream

            def _ask_on_new_connections(self):
                while not self._stop.is_set():
                    with Stream.connect(self.address, tls=http1) as stream:
                        assert stream.exchange().status == 200
                        self.counts["new"] += 1

        traffic = TlsTraffic(self, self.served.address, h2=0)
        self.eventually(lambda: traffic.asked() > 50, "traffic")
        before = self.upgrade()
        counts = dict(traffic.counts)
        self.eventually(lambda: all(traffic.counts[kind] > counts[kind] for kind in ("h1", "sse", "new")), "traffic")
        self.wait_drained(before)
        traffic.end()

    def test_the_admin_listener_keeps_tls(self):
        authority = Authority(self.folder())
        self.config = {"pools": [{"name": "pool", "backends": [self.backend(serve).address]}],
                       "admin": {"address": "127.0.0.1:0",
                                 "tls": {"certificates": [authority.issue("127.0.0.1").config()],
                                         "client_ca": authority.cert}}}
        self.served = self.daemon(self.config)
        self.served.admin_tls = authority.trust(certificate=authority.issue("operator"))
        self.main = self.served.pid
        self.addCleanup(self.end_main)
        before = self.upgrade()
        self.wait_drained(before)
        self.assertEqual(self.served.api("status")["draining"], False)
        with self.assertRaises(OSError), Stream.connect(self.served.admin, tls=authority.trust()) as unknown:
            unknown.exchange(target="/readyz")
        answer = self.served.ask_admin("/api/v1/upgrade", method="POST")
        self.assertEqual(answer.status, 200, answer.body)
        self.main = json.loads(answer.body)["taken_over_by"]
        self.eventually(lambda: self.served.ask_admin("/readyz").status == 200)


class AdminAddress(ReloadCase):
    def move(self, address):
        """Reloads a file with another address of the admin listener; the answer comes over the old one."""
        self.config["admin"] = {"address": address}
        before = sum("listening name=admin" in line for line in self.served.lines)
        self.reload()
        self.eventually(lambda: sum("listening name=admin" in line for line in list(self.served.lines)) > before)
        line = [line for line in self.served.lines if "listening name=admin" in line][-1]
        old, self.served.admin = self.served.admin, line.rpartition("=")[2]
        return old

    def test_it_moves_and_the_old_one_closes(self):
        self.running(self.backend(serve))
        with Stream.connect(self.served.admin) as kept:
            self.assertEqual(kept.exchange(target="/readyz", host=self.served.admin).status, 200)
            old = self.move("127.0.0.2:0")
            self.assertEqual(self.served.ask_admin("/readyz").status, 200)
            self.eventually(lambda: refuses(old), "the end of the old listener")
            self.assertEqual(kept.exchange(target="/readyz", host=old).status, 200, "open connections stay")
        self.assertEqual(self.served.api("status")["config"]["last_reload_ok"], True)
        again = self.move("127.0.0.1:0")
        self.eventually(lambda: refuses(again), "the end of the second listener")

    def test_it_widens_on_its_port_while_it_is_used(self):
        port = free_port()
        self.running(self.backend(serve))
        self.move(f"127.0.0.1:{port}")
        stop = threading.Event()
        asked = [0]
        reset = []

        def probe():
            while not stop.is_set():
                try:
                    with Stream.connect(f"127.0.0.1:{port}") as stream:
                        self.assertEqual(stream.exchange(target="/healthz").status, 200)
                    asked[0] += 1
                except ConnectionResetError as error:  # its handshake ended between the last accept and the close
                    reset.append(error)

        probes = [self.spawn(probe) for _ in range(3)]
        for address in (f"0.0.0.0:{port}", f"127.0.0.1:{port}") * 3:
            count = asked[0]
            self.eventually(lambda: asked[0] > count + 5, "probes")
            self.move(address)
            self.served.admin = f"127.0.0.1:{port}"
        stop.set()
        for each in probes:
            each.join()
        self.assertLessEqual(len(reset), 3)

    def test_an_address_in_use_changes_nothing(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.running(self.backend(serve))
            self.config["admin"] = {"address": "127.0.0.1:%d" % taken.getsockname()[1]}
            said = self.refused()
            self.assertRegex(said, "admin.address: cannot listen on .*: Address already in use")
            preview = self.served.ask_admin("/api/v1/check", method="POST")
            self.assertIn("Address already in use", preview.body.decode())
        self.assertEqual(self.served.ask_admin("/readyz").status, 200)


class NameServers(ReloadCase):
    def test_a_reload_asks_other_name_servers(self):
        first, second = NameServer(), NameServer()
        self.addCleanup(first.close)
        self.addCleanup(second.close)
        one = self.backend(lambda each: each.answer(b"one"), host="127.0.0.2")
        two = self.backend(lambda each: each.answer(b"two"), host="127.0.0.3", port=one.port)
        first.say("models.test", "127.0.0.2")
        second.say("models.test", "127.0.0.3")
        self.running(f"models.test:{one.port}", dns={"servers": [first.address], "max_ttl": "1h"})
        self.assertEqual(exchange(self.served.address).body, b"one")
        self.config["dns"]["servers"] = [second.address]
        self.reload()
        self.eventually(lambda: exchange(self.served.address).body == b"two", "the other server's answer")
        self.assertEqual(two.port, one.port)


class FileOfTheDaemon(ReloadCase):
    """`ctl -c FILE` with a file whose mistakes may hide the daemon's address."""

    def ctl_reload(self):
        return command("ctl", "reload", "-c", str(self.served.config_path))

    def test_the_daemon_decides_where_it_answers(self):
        self.running(self.backend(serve))
        self.config["admin"]["address"] = self.served.admin = f"127.0.0.1:{free_port()}"
        with Stream.connect(self.served.listening["admin"]) as stream:
            self.write()
            self.assertEqual(stream.exchange("POST", "/api/v1/reload", host=self.served.admin).status, 200)
        for text in (json.dumps({**self.config, "admin": {**self.config["admin"], "what": 1}}, indent=1),
                     f"admin: {{address: '{self.served.admin}'}}\npools: [{{name: pool, backends: ['h:1'\n"):
            self.reload()
            self.write(text)
            ended = self.ctl_reload()
            self.assertEqual(ended.returncode, 1)
            self.assertIn("reload rejected; the previous configuration stays active", ended.stderr)
            self.assertFalse(self.served.api("status")["config"]["last_reload_ok"])

    def test_another_daemon_is_not_asked(self):
        self.running(self.backend(serve))  # with another file
        mistaken = pathlib.Path(self.folder()) / "other.yaml"
        mistaken.write_text(json.dumps({**self.config, "admin": {"address": self.served.admin, "what": 1}}))
        ended = command("ctl", "reload", "-c", str(mistaken))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("admin.what: unknown key", ended.stderr)
        self.assertTrue(self.served.api("status")["config"]["last_reload_ok"])


class FirstProcess(case.Case):
    """In a container whose process 1 is evenkeel."""

    def test_it_says_that_no_process_can_take_over(self):
        unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
        if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
            raise unittest.SkipTest("no PID namespaces here")

        class First(process.Daemon):
            def popen(self, command_, **kwargs):
                return subprocess.Popen([*unshare, *command_], **kwargs)

        served = First(self.folder(), {"pools": [{"name": "pool", "backends": [self.backend(serve).address]}]})
        self.addCleanup(served.kill)
        upgrade = command("ctl", "upgrade", "--admin", served.admin)
        self.assertEqual(upgrade.returncode, 1)
        self.assertIn("this is process 1 of a container", upgrade.stderr)
        config = json.loads(served.config_path.read_text())
        config["workers"] = 1
        served.config_path.write_text(json.dumps(config))
        reload = command("ctl", "reload", "--admin", served.admin)
        self.assertEqual(reload.returncode, 1)
        self.assertRegex(reload.stderr, "workers: cannot change while the daemon runs, .*process 1 of a container")
        self.assertEqual(exchange(served.address).status, 200)


if __name__ == "__main__":
    case.main()
