"""Dashboard, rules, runbooks, recipes and the files of docker/ fit together, and promtool takes them. That the daemon exports
what they ask for is tests/e2e/observability_test.py's."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARTEFACTS = ROOT / "docs" / "observability"
RULES = [ARTEFACTS / "recording_rules.yml", ARTEFACTS / "alert_rules.yml"]
ROWS = ["Summary", "Balance across backends", "Latency", "Queue and overload", "Failures by reason, and retries",
        "States of the backends", "Tenants", "Process"]
needs_promtool = unittest.skipUnless(shutil.which("promtool"), "no promtool here")


def rules(file):
    return [each for group in yaml.safe_load(file.read_text())["groups"] for each in group["rules"]]


def promtool(*arguments):
    judged = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=300)
    return "" if judged.returncode == 0 else judged.stdout + judged.stderr


class Rules(unittest.TestCase):
    @needs_promtool
    def test_promtool_takes_them(self):
        self.assertEqual(promtool("check", "rules", *RULES), "")

    @needs_promtool
    def test_alerts_fire_when_they_should_and_not_else(self):
        scenarios = pathlib.Path(__file__).with_name("alerts.yml")
        fired = set(re.findall(r'alertname="(\w+)", severity="(\w+)"', scenarios.read_text()))
        self.assertEqual(fired, {(each["alert"], each["labels"]["severity"]) for each in rules(RULES[1])})
        self.assertEqual(promtool("test", "rules", scenarios), "")

    def test_each_alert_says_what_happens_and_has_its_section_in_the_runbooks(self):
        page = (ARTEFACTS / "runbooks.md").read_text()
        sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", page, re.M | re.S))
        alerts = {each["alert"]: each for each in rules(RULES[1])}
        self.assertEqual(set(sections), set(alerts))
        for name, text in sections.items():
            self.assertEqual(re.findall(r"^- \*\*(\w+)\*\*: ", text, re.M), ["Means", "Look", "Cure"], name)
        for each in rules(RULES[1]):
            self.assertIn(each["labels"]["severity"], ("critical", "warning", "info"))
            self.assertEqual(set(each["annotations"]), {"summary", "description", "runbook_url"}, each["alert"])
            self.assertTrue(each["annotations"]["runbook_url"].endswith(f"/observability/runbooks.md#{each['alert'].lower()}"))

    def test_series_with_colons_are_recorded(self):
        recorded = {each["record"] for each in rules(RULES[0])}
        for path in (*ARTEFACTS.iterdir(), ROOT / "docs" / "observability.md"):
            self.assertEqual(set(re.findall(r"\b(?:pool|backend):\w+:\w+", path.read_text())) - recorded, set(), path.name)

    @needs_promtool
    def test_queries_of_recipes_and_runbooks_are_promql(self):
        recipes = re.search(r"### Recipes\n\n```promql\n(.*?)```", (ROOT / "docs" / "observability.md").read_text(), re.S)
        queries = recipes[1].strip().split("\n\n")
        self.assertEqual(len(queries), 10)
        for each in queries:
            self.assertTrue(each.startswith("# "), each)
        queries += re.findall(r"`([^`]*\b(?:evenkeel|process)_[^`]*)`", (ARTEFACTS / "runbooks.md").read_text())
        self.assertGreater(len(queries), 30)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "rules.yml")
            file.write_text(json.dumps({"groups": [{"name": "all", "rules": [
                {"record": f"query:{number}", "expr": each} for number, each in enumerate(queries)]}]}))
            self.assertEqual(promtool("check", "rules", file), "")


class Dashboard(unittest.TestCase):
    def setUp(self):
        self.board = json.loads((ARTEFACTS / "dashboard.json").read_text())
        self.panels = self.board["panels"]

    def test_it_can_be_imported_and_provisioned(self):
        self.assertEqual((self.board["schemaVersion"], self.board["uid"], self.board["id"]), (39, "evenkeel", None))
        self.assertNotIn("__inputs", self.board)
        variables = {each["name"]: each for each in self.board["templating"]["list"]}
        self.assertEqual(variables["DS_PROMETHEUS"]["type"], "datasource")
        self.assertEqual(set(variables), {"DS_PROMETHEUS", "job", "instance", "pool"})
        for name, each in variables.items():
            if name != "DS_PROMETHEUS":
                self.assertRegex(each["query"]["query"], rf"^label_values\(evenkeel_.*, {name}\)$")
        sources = re.findall(r'"uid": "([^"]*)"', json.dumps(self.board["panels"]))
        self.assertEqual(set(sources), {"${DS_PROMETHEUS}"})

    def test_every_panel_is_explained_and_follows_the_variables(self):
        self.assertEqual([each["title"] for each in self.panels if each["type"] == "row"], ROWS)
        for panel in self.panels:
            if panel["type"] == "row":
                continue
            self.assertTrue(panel["description"], panel["title"])
            self.assertTrue(panel["targets"], panel["title"])
            references = [each["refId"] for each in panel["targets"]]
            self.assertEqual(len(set(references)), len(references))
            for each in panel["targets"]:
                self.assertIn('job="$job"', each["expr"])
                self.assertNotRegex(each["expr"], r"\[\d", "an interval that does not follow the scrapes'")

    def test_panels_do_not_overlap(self):
        taken = {}
        for panel in self.panels:
            grid = panel["gridPos"]
            self.assertLessEqual(grid["x"] + grid["w"], 24)
            for cell in ((x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])):
                self.assertEqual(taken.setdefault(cell, panel["id"]), panel["id"], panel["title"])
        self.assertEqual(len({each["id"] for each in self.panels}), len(self.panels))


class Compose(unittest.TestCase):
    """docker/compose.yaml, with each service's mounts laid out as its container sees them."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        docker = ROOT / "docker"
        self.services = yaml.safe_load((docker / "compose.yaml").read_text())["services"]
        for name, service in self.services.items():
            for volume in service.get("volumes", ()):
                source, target, mode = volume.split(":")
                self.assertEqual(mode, "ro")
                inside = pathlib.Path(made.name, name, target.lstrip("/"))
                inside.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if (docker / source).is_dir() else shutil.copy)(docker / source, inside)
        self.root = pathlib.Path(made.name)

    def test_what_services_name_exists(self):
        self.assertEqual(set(self.services), {"evenkeel", "simulators", "traffic", "prometheus", "grafana"})
        for service in self.services.values():
            self.assertLessEqual(set(service.get("depends_on", ())), set(self.services))

    @needs_promtool
    def test_prometheus_has_its_rules_and_scrapes_the_daemon(self):
        file = self.root / "prometheus" / "etc/prometheus/prometheus.yml"
        self.assertEqual(promtool("check", "config", file), "")
        config = yaml.safe_load(file.read_text())
        found = {each.name for pattern in config["rule_files"] for each in file.parent.glob(pattern)}
        self.assertEqual(found, {each.name for each in RULES})
        admin = yaml.safe_load((ROOT / "docker" / "evenkeel.yaml").read_text())["admin"]["address"]
        self.assertEqual([(each["job_name"], each["static_configs"][0]["targets"]) for each in config["scrape_configs"]],
                         [("evenkeel", ["evenkeel:" + admin.rpartition(":")[2]])])

    def test_grafana_is_provisioned_with_the_dashboard_and_its_source(self):
        inside = self.root / "grafana"
        provisioning = inside / "etc/grafana/provisioning"
        source, = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())["datasources"]
        self.assertEqual((source["type"], source["url"], source["isDefault"]), ("prometheus", "http://prometheus:9090", True))
        provider, = yaml.safe_load((provisioning / "dashboards/evenkeel.yml").read_text())["providers"]
        boards = list((inside / provider["options"]["path"].lstrip("/")).glob("*.json"))
        home = self.services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        self.assertEqual(boards, [inside / home.lstrip("/")])


if __name__ == "__main__":
    unittest.main()
