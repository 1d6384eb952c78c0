"""What `cmake --install` puts where: what the files name is there.

    install_test.py CMAKE BUILD SOURCE
"""

import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

CMAKE, BUILD, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])


def install(root, prefix="/usr"):
    """Installs below a folder that stands for the file system."""
    subprocess.run([CMAKE, "--install", BUILD, "--prefix", prefix], env=os.environ | {"DESTDIR": str(root)},
                   stdout=subprocess.DEVNULL, check=True)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name)
        install(cls.root)
        cls.usr = cls.root / "usr"

    def text(self, path):
        return (self.root / path.lstrip("/")).read_text()

    def evenkeel(self, *arguments):
        return subprocess.run([self.usr / "bin" / "evenkeel", *arguments], capture_output=True, text=True, check=False)

    def test_every_path_that_the_units_and_the_configuration_name_is_there(self):
        for path in ("/usr/lib/systemd/system/evenkeel.service", "/etc/evenkeel/evenkeel.yaml"):
            named = re.findall(r"(?<![\w.])/(?:usr|etc/evenkeel)/[\w./-]*\w", self.text(path))
            self.assertTrue(named, path)
            for each in set(named) - {"/etc/evenkeel/tls.key", "/etc/evenkeel/admin.token"}:
                self.assertTrue((self.root / each.lstrip("/")).exists(), f"{path} names {each}")

    def test_each_alert_leads_to_its_section_of_an_installed_runbook(self):
        urls = re.findall(r"runbook_url: \"?file://(/[^#\s\"]+)#([\w-]+)", self.text("/usr/share/doc/evenkeel/observability/alert_rules.yml"))
        alerts = re.findall(r"- alert: ", self.text("/usr/share/doc/evenkeel/observability/alert_rules.yml"))
        self.assertEqual(len(urls), len(alerts))
        for path, anchor in urls:
            headings = re.findall(r"^#+ (.+)$", self.text(path), re.M)
            self.assertIn(anchor, [heading.lower().replace(" ", "-") for heading in headings])

    def test_every_page_and_artefact_of_the_documentation_is_there(self):
        for path in (SOURCE / "docs").rglob("*.*"):
            self.assertTrue((self.usr / "share/doc/evenkeel" / path.relative_to(SOURCE / "docs")).exists(), path)
        self.assertIn("Apache License", self.text("/usr/share/doc/evenkeel/copyright"))

    def test_the_configuration_is_right_and_so_are_the_examples_there(self):
        checked = self.evenkeel("check", "--strict", "-c", str(self.root / "etc/evenkeel/evenkeel.yaml"))
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        examples = {path.name for path in (self.usr / "share/doc/evenkeel/examples").iterdir()}
        self.assertEqual(examples, {path.name for path in (SOURCE / "config").glob("*.yaml")} - {"default.yaml"}
                         | {"evenkeel.schema.json", "envoy"})

    def test_pages_and_completions_are_those_that_the_program_prints(self):
        for path, arguments in (("man/man1/evenkeel.1", ["manual", "evenkeel"]),
                                ("man/man1/evenkeel-ctl.1", ["manual", "evenkeel-ctl"]),
                                ("man/man5/evenkeel.yaml.5", ["manual", "evenkeel.yaml"]),
                                ("bash-completion/completions/evenkeel", ["completion", "bash"]),
                                ("zsh/vendor-completions/_evenkeel", ["completion", "zsh"]),
                                ("fish/vendor_completions.d/evenkeel.fish", ["completion", "fish"])):
            self.assertEqual(self.text(f"/usr/share/{path}"), self.evenkeel(*arguments).stdout)

    def test_the_trace_of_the_benchmarks_can_be_read(self):
        self.assertTrue(gzip.open(self.usr / "share/evenkeel/traces/agents.jsonl.gz").readline())


class Elsewhere(unittest.TestCase):
    def test_files_name_another_prefix_and_a_configuration_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            config = root / "etc/evenkeel/evenkeel.yaml"
            config.parent.mkdir(parents=True)
            config.write_text("mine")

            install(root, "/opt/evenkeel")

            self.assertEqual(config.read_text(), "mine")
            for path in ("lib/systemd/system/evenkeel.service", "share/doc/evenkeel/observability/alert_rules.yml"):
                text = (root / "opt/evenkeel" / path).read_text()
                self.assertIn("/opt/evenkeel/", text)
                self.assertNotIn("/usr/", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
