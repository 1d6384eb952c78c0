"""Debian's Prometheus, scraping the daemon of a test once a second."""

import json
import pathlib
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

from ports import free_port
from stream import PATIENCE


class Prometheus:
    def __init__(self, test, target, rules=(), flags=()):
        folder = pathlib.Path(test.folder())
        (folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(each) for each in rules],
            "scrape_configs": [{"job_name": "evenkeel", "static_configs": [{"targets": [target]}]}]}))
        self.address = f"127.0.0.1:{free_port()}"
        self._log = open(folder / "log", "w", encoding="utf-8")
        test.addCleanup(self._log.close)
        self._process = subprocess.Popen(
            ["prometheus", f"--config.file={folder / 'prometheus.yml'}",
             f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={self.address}", *flags],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        test.addCleanup(self._end)

    def _end(self):
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def api(self, what, **arguments):
        """`data` of the answer."""
        try:
            with urllib.request.urlopen(f"http://{self.address}/api/v1/{what}?{urllib.parse.urlencode(arguments)}",
                                        timeout=PATIENCE) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refused:
            assert refused.code == 503, (what, arguments, refused.read())  # not ready yet
            raise

    def exemplars(self, expression, since):
        """Those since a time: [{"seriesLabels": ..., "exemplars": [...]}]; empty while it starts."""
        try:
            return self.api("query_exemplars", query=expression, start=since, end=time.time() + 60)
        except (urllib.error.URLError, ConnectionError):
            return []

    def series(self, expression):
        """[(labels, value)] of an expression, as of now."""
        return [(each["metric"], float(each["value"][1])) for each in self.api("query", query=expression)["result"]]

    def query(self, expression, at=None):
        """Its only value; None: there is none (yet)."""
        try:
            found = self.api("query", query=expression, **({"time": at} if at else {}))["result"]
        except (urllib.error.URLError, ConnectionError):
            return None
        assert len(found) <= 1, (expression, found)
        return float(found[0]["value"][1]) if found else None
