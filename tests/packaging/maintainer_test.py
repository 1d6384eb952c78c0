"""What the package's scripts do, with stand-ins for systemd's commands."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "debian"
COMMANDS = ("systemctl", "deb-systemd-helper", "deb-systemd-invoke", "adduser", "deluser", "chown", "evenkeel")
START = "deb-systemd-invoke start evenkeel.service"
UPGRADE = "evenkeel ctl upgrade -c /etc/evenkeel/evenkeel.yaml"
SIGNAL = "systemctl kill --kill-who=main -s USR2 evenkeel.service"


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for path in ("run/systemd/system", "var/lib/evenkeel", "var/log/evenkeel", "bin"):
            (self.root / path).mkdir(parents=True)
        for name in COMMANDS:
            self.answer(name, 0)

    def answer(self, command, status, to=""):
        """`command` notes that it was called, and ends with the status where its arguments have `to`."""
        path = self.root / "bin" / command
        path.write_text(f"#!/bin/sh\necho {command} \"$@\" >>{self.root}/calls\n"
                        f"case \"$*\" in *'{to}'*) exit {status} ;; esac\n")
        path.chmod(0o755)

    def run_script(self, name, *arguments):
        """What the script called."""
        calls = self.root / "calls"
        calls.write_text("")
        ended = subprocess.run(["sh", SCRIPTS / name, *arguments], capture_output=True, text=True, check=False,
                               env={"DPKG_ROOT": str(self.root), "PATH": f"{self.root}/bin:/usr/bin:/bin"})
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.said = ended.stderr
        return calls.read_text().splitlines()

    def test_what_is_installed_is_started(self):
        self.answer("systemctl", 3, "is-active")
        self.assertIn(START, self.run_script("postinst", "configure"))

    def test_what_was_stopped_is_not_started_by_an_upgrade(self):
        self.answer("systemctl", 3, "is-active")
        self.assertNotIn(START, self.run_script("postinst", "configure", "0.1.0"))

    def test_what_was_removed_is_started_when_it_comes_back(self):
        self.answer("systemctl", 3, "is-active")
        self.run_script("postrm", "remove")
        self.assertIn(START, self.run_script("postinst", "configure", "0.1.0"))
        self.assertNotIn(START, self.run_script("postinst", "configure", "0.1.0"), "it was removed once")

    def test_what_runs_upgrades_itself(self):
        calls = self.run_script("postinst", "configure", "0.1.0")
        self.assertIn(UPGRADE, calls)
        self.assertNotIn(START, calls)
        self.assertNotIn(SIGNAL, calls)

    def test_a_daemon_elsewhere_is_signalled_even_if_it_has_ended_since(self):
        self.answer("evenkeel", 5)
        for status in (0, 1):
            self.answer("systemctl", status, "kill")
            self.assertIn(SIGNAL, self.run_script("postinst", "configure", "0.1.0"))

    def test_a_refused_upgrade_is_told(self):
        self.answer("evenkeel", 1)
        self.assertNotIn(SIGNAL, self.run_script("postinst", "configure", "0.1.0"))
        self.assertIn("the old binary still runs", self.said)

    def test_a_purge_leaves_nothing(self):
        self.run_script("prerm", "remove")
        self.run_script("postrm", "remove")
        self.run_script("postrm", "purge")
        self.assertEqual([*(self.root / "var/lib").iterdir(), *(self.root / "var/log").iterdir()], [])


if __name__ == "__main__":
    unittest.main()
