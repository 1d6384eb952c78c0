"""What docs/observability and the recipes ask for is what the running daemon exports: with Debian's Prometheus, under load."""

import json
import pathlib
import re
import shutil
import subprocess
import unittest

import yaml

import case
from certificates import Authority
from process import BINARY, SANITIZED
from prometheus import Prometheus
from slowness import slowness
from stream import exchange

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARTEFACTS = ROOT / "docs" / "observability"
RULES = [ARTEFACTS / "recording_rules.yml", ARTEFACTS / "alert_rules.yml"]
KEY = ("test", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
TARGET = {"job", "instance"}


def board_queries():
    """(title, query, labels of its legend) of the dashboard, for all instances and pools and a short interval."""
    board = json.loads((ARTEFACTS / "dashboard.json").read_text())
    for panel in board["panels"]:
        for each in panel.get("targets", ()):
            query = each["expr"].replace("$__rate_interval", "10s").replace("$job", "evenkeel")
            for variable in ("$instance", "$pool"):
                query = query.replace(variable, ".*")
            assert "$" not in query, query
            yield panel["title"], query, set(re.findall(r"{{(\w+)}}", each["legendFormat"]))


def rules():
    return [each for file in RULES for group in yaml.safe_load(file.read_text())["groups"] for each in group["rules"]]


def recipes():
    """The queries below `Recipes`, each behind the comment that says what it answers."""
    blocks = re.search(r"### Recipes\n\n```promql\n(.*?)```", (ROOT / "docs" / "observability.md").read_text(), re.S)[1]
    return blocks.strip().split("\n\n")


def runbook_queries():
    return [each for each in re.findall(r"`([^`]*\b(?:evenkeel|process)_[^`]*)`", (ARTEFACTS / "runbooks.md").read_text())]


def selectors(query):
    """(metric, [(label, operator, value)]) of each selector of a series that the daemon exports."""
    for name, matchers in re.findall(r"(?<![\w:])((?:evenkeel|process)_\w+)(?![\w:])(?:\{([^}]*)\})?", query):
        yield name, re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', matchers)


def unknown(query, series):
    """What a query names and the daemon does not export: metrics, labels, and their values."""
    for name, matchers in selectors(query):
        if name not in series:
            yield name
            continue
        for label, operator, values in matchers:
            if label in TARGET:
                continue
            if label not in series[name]:
                yield f"{name}{{{label}}}"
            elif "~" not in operator or re.fullmatch(r"[\w|]+", values):
                yield from (f'{name}{{{label}="{value}"}}' for value in values.split("|")
                            if value and value not in series[name][label])
    grouped = {label.strip() for labels in re.findall(r"\b(?:by|on|ignoring) \(([^)]*)\)", query)
               for label in labels.split(",")}
    known = {label for name, _ in selectors(query) for label in series.get(name, ())} | TARGET
    if ":" in query:  # of a recording rule
        known |= {"pool", "backend"}
    yield from (f"by ({label}) in {query}" for label in grouped - known)


class Observability(case.Case):
    maxDiff = None

    def start(self):
        language = self.simulators("--engine", "vllm", "--model", "m", count=2, speed=2)
        images = self.simulators("--engine", "triton")
        authority = Authority(self.folder())
        tls = {"certificates": [authority.issue("localhost").config()]}
        picker = {"name": "expected-time", "shadow_picker": "least-connections"}
        self.daemon_ = self.daemon({
            "listeners": [{"name": "public"}, {"name": "tls", "tls": tls}], "limits": {"memory": "4GiB"},
            "tenants": [{"name": "search", "keys_sha256": [KEY[1]]}],
            "usage": {"path": str(pathlib.Path(self.folder()) / "usage.jsonl"), "http": {"url": f"http://{self.backend().address}/v1"}},
            "pools": [{"name": "language", "engine": "vllm", "picker": picker, "backends": language.addresses},
                      {"name": "images", "engine": "triton", "backends": images.addresses}],
            "routes": [{"name": "language", "match": {"path": "/v1/**"}, "pool": "language"},
                       {"name": "images", "match": {"path": "/v2/**"}, "pool": "images"}]})
        self.prometheus = Prometheus(self, self.daemon_.admin, RULES)
        self.eventually(lambda: self.prometheus.query("up") == 1, "the first scrape")

    def exported(self):
        """{metric: {label: its values}} of the daemon."""
        series = {}
        for name, labels in self.daemon_.metrics():
            known = series.setdefault(name, {})
            for label, value in labels:
                known.setdefault(label, set()).add(value)
        return series

    def load(self):
        load = subprocess.Popen(
            [BINARY, "load", f"http://{self.daemon_.address}", "--rate", "20", "--duration", "10m", "--stream", "--model", "m",
             "--header", f"authorization: Bearer {KEY[0]}", "--output-tokens", "40"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.addCleanup(load.wait)
        self.addCleanup(load.kill)
        return load

    @unittest.skipUnless(shutil.which("prometheus"), "no prometheus here")
    def test_all_of_it_has_data_of_a_daemon_under_load(self):
        self.start()
        load = self.load()
        wanted = [*board_queries()]
        wanted += [("recipe", each, set()) for each in recipes()]
        wanted += [(each["record"], each["record"], {"pool"}) for each in rules() if "record" in each]

        def without_data():
            self.assertEqual(exchange(self.daemon_.address, target="/nowhere").status, 404)
            self.assertIsNone(load.poll())
            found = {query: self.prometheus.series(query) for _, query, _ in wanted}
            return [(title, query) for title, query, legend in wanted
                    if not any(value == value and legend <= set(labels) for labels, value in found[query])]

        missing = []

        def has_data():
            missing[:] = without_data()
            return not missing

        self.eventually(has_data, missing, interval=0.5)

        exported = self.exported()
        named = [*(query for _, query, _ in board_queries()), *(each["expr"] for each in rules()), *recipes(), *runbook_queries()]
        self.assertGreater(len(named), 150)
        self.assertEqual([each for query in named for each in unknown(query, exported)], [])
        for each in rules():
            labels = set(re.findall(r"\$labels\.(\w+)", str(each.get("annotations"))))
            known = {label for name, _ in selectors(each["expr"]) for label in exported[name]} | TARGET | {"pool"}
            self.assertEqual(labels - known, set(), each)

        for group in self.prometheus.api("rules")["groups"]:
            for each in group["rules"]:
                self.assertEqual((each["health"], each.get("lastError", "")), ("ok", ""), each["name"])
        budgets = 'alertname!~"Evenkeel(FirstToken|TokenTime)BudgetBurn",' if SANITIZED or slowness() > 1 else ""
        self.assertEqual(self.prometheus.series(f'ALERTS{{{budgets}alertstate="firing"}}'), [], "alerts without a cause")
        load.kill()

    def test_the_check_finds_what_is_wrong(self):
        series = {"evenkeel_errors_total": {"reason": {"internal"}, "pool": {"a"}}}
        for wrong, found in (("evenkeel_error_total", ["evenkeel_error_total"]),
                             ('evenkeel_errors_total{cause="x"}', ["evenkeel_errors_total{cause}"]),
                             ('evenkeel_errors_total{reason=~"internal|gone"}', ['evenkeel_errors_total{reason="gone"}']),
                             ("sum by (side) (evenkeel_errors_total)", ["by (side) in sum by (side) (evenkeel_errors_total)"]),
                             ('sum by (pool) (evenkeel_errors_total{reason!="internal", job="x"})', [])):
            self.assertEqual(list(unknown(wrong, series)), found)


if __name__ == "__main__":
    case.main()
