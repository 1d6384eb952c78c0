"""Shared by the tests of usage records: what clients ask, and what the file has."""

import hashlib
import json
import pathlib

from stream import exchange

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
CHAT = "/v1/chat/completions"
JSON = [("content-type", "application/json")]
PRICES = {"m": {"input": 0.6, "output": 1.8, "cached_input": 0.1}}
KEYS = {"acme": "sk-acme-4711", "beta": "sk-beta-0815"}
TENANTS = [{"name": name, "keys_sha256": [hashlib.sha256(key.encode()).hexdigest()]} for name, key in KEYS.items()]


def chat(**more):
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "Count to ten, slowly."}], **more}).encode()


def answer(request):
    request.answer(b'{"model": "m", "usage": {"prompt_tokens": 7, "completion_tokens": 3}}', fields=JSON)


def read_records(*paths):
    """The records of files, without what is torn."""
    records = []
    for path in paths:
        for line in pathlib.Path(path).read_text().split("\n") if pathlib.Path(path).exists() else []:
            try:
                records.append(json.loads(line))
            except ValueError:
                continue
    return records


class Usage:
    """For test cases: a daemon with usage records in `self.path`."""

    def path_of(self, name="usage.jsonl"):
        if not hasattr(self, "usage_folder"):
            self.usage_folder = pathlib.Path(self.folder())
        return self.usage_folder / name

    def usage(self, **more):
        return {"path": str(self.path_of()), "prices": PRICES, **more}

    def records(self, count, *paths):
        """The records of all files as soon as there are this many, in the order in which the requests ended."""
        paths = paths or (self.path_of(),)
        found = self.eventually(lambda: len(found := read_records(*paths)) >= count and found, f"{count} records")
        self.assertEqual(len(found), count)
        self.assertEqual(len({each["id"] for each in found}), count, "ids are unique")
        return [each["data"] for each in sorted(found, key=lambda each: each["time"])]

    def ask(self, daemon, body=None, fields=(), status=200):
        got = exchange(daemon.address, "POST", CHAT, [*JSON, *fields], body or chat())
        self.assertEqual(got.status, status, got.body)
        return got
