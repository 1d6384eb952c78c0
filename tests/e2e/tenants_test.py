"""Whose requests they are: by the hash of the API key, or as a trusted proxy says."""

import hashlib
import threading

import case
from reloading import ReloadCase
from stream import Stream, exchange

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
CHAT = "/v1/chat/completions"
KEY, OTHER_KEY = "sk-acme-4711", "sk-beta-0815"


def sha256(key):
    return hashlib.sha256(key.encode()).hexdigest()


def tenant(name, *keys, **more):
    return {"name": name, "keys_sha256": [sha256(key) for key in keys], **more}


def bearer(key):
    return [("authorization", f"Bearer {key}")]


class Tenants(ReloadCase):
    def tenants(self, *tenants, listeners=None, **pool):
        self.server = self.backend(lambda request: request.answer(
            b'{"model": "m", "usage": {"prompt_tokens": 7, "completion_tokens": 3}}',
            fields=[("content-type", "application/json")]))
        return self.running(self.server, pool={**QUIET, **pool}, tenants=list(tenants), listeners=listeners)

    def logged(self, daemon, count):
        """The tenants of all requests, in the order in which they began: each worker writes lines of its own."""
        return [line.get("tenant") for line in sorted(daemon.wait_access(count), key=lambda line: line["time"])]

    def test_are_in_the_log_the_metrics_and_the_last_requests(self):
        daemon = self.tenants(tenant("acme", KEY, "sk-acme-2"), tenant("beta", OTHER_KEY), inspect=True, engine="vllm")
        for fields in (bearer(KEY), [("x-api-key", OTHER_KEY)], [("api-key", "sk-acme-2")], bearer("sk-unknown"), []):
            answer = exchange(daemon.address, "POST", CHAT, fields, b'{"model": "m", "messages": []}')
            self.assertEqual(answer.status, 200)

        self.assertEqual(self.logged(daemon, 5), ["acme", "beta", "acme", None, None])
        recent = sorted(daemon.api("requests/recent"), key=lambda each: each["time"])
        self.assertEqual(sorted(str(each["tenant"]) for each in recent), ["None", "None", "acme", "acme", "beta"])
        for name, count in (("acme", 2), ("beta", 1), ("other", 2)):
            self.assertEqual(daemon.metric("evenkeel_tenant_requests_total", tenant=name), count)
            self.assertEqual(daemon.metric("evenkeel_tenant_tokens_total", tenant=name, direction="input"), 7 * count)
        self.assertEqual(self.server.exchanges[0].head.field("authorization"), f"Bearer {KEY}")

    def test_what_they_use_is_shown_while_requests_run_and_wait(self):
        permits = threading.Semaphore(0)
        server = self.backend(lambda request: permits.acquire() and request.answer())
        self.addCleanup(permits.release, 100)
        daemon = self.running(server, pool={**QUIET, "limits": {"max_in_flight": 1, "queue": {"size": 9, "timeout": "60s"}}},
                              tenants=[tenant("acme", KEY, weight=2), tenant("beta", OTHER_KEY)])

        def use():
            return [(each["name"], each["running"], each["waiting"], each["requests_total"]) for each in daemon.api("tenants")]

        streams = []
        for keys, expected in ((bearer(KEY), [("acme", 1, 0, 0), ("beta", 0, 0, 0), ("other", 0, 0, 0)]),
                               (bearer(OTHER_KEY), [("acme", 1, 0, 0), ("beta", 0, 1, 0), ("other", 0, 0, 0)]),
                               ([], [("acme", 1, 0, 0), ("beta", 0, 1, 0), ("other", 0, 1, 0)])):
            stream = Stream.connect(daemon.address)
            self.addCleanup(stream.close)
            stream.ask("POST", "/x", keys, body=b"{}")
            streams.append(stream)
            self.eventually(lambda expected=expected: use() == expected, expected)
        self.assertEqual(daemon.metric("evenkeel_tenant_requests_waiting", tenant="beta"), 1)
        self.assertEqual(daemon.metric("evenkeel_tenant_requests_in_flight", tenant="acme"), 1)
        streams[2].close()  # one that leaves the queue waits no more
        self.eventually(lambda: use()[2] == ("other", 0, 0, 1), "none of other")
        permits.release(2)
        self.eventually(lambda: use() == [("acme", 0, 0, 1), ("beta", 0, 0, 1), ("other", 0, 0, 1)], "an end of all")

    def test_no_key_is_logged_or_shown(self):
        daemon = self.tenants(tenant("acme", KEY), inspect=True, engine="vllm")
        with Stream.connect(daemon.address) as stream:
            for key in (KEY, "sk-unknown"):
                self.assertEqual(stream.exchange(fields=bearer(key)).status, 200)
            self.assertEqual(stream.exchange(target="/%", fields=bearer(KEY)).status, 400)
        for key in (KEY, "sk-unknown"):
            for fields in (bearer(key), [("x-api-key", key)]):
                answer = exchange(daemon.address, "POST", CHAT, fields, b'{"model": "m", "messages": []}')
                self.assertEqual(answer.status, 200)
        daemon.wait_access(7)
        shown = {page: daemon.ask_admin(page).body.decode()
                 for page in ("/metrics", "/api/v1/requests/recent", "/api/v1/status")}
        daemon.stop()

        shown |= {"access log": daemon.access_path.read_text(), "log": "\n".join(daemon.lines)}
        for page in ("/metrics", "/api/v1/requests/recent", "access log"):
            self.assertIn("acme", shown[page], page)
        for page, text in shown.items():
            self.assertTrue(text, page)
            for part in ("sk-", sha256(KEY)):
                self.assertNotIn(part, text, page)

    def test_each_request_of_a_connection_has_its_own(self):
        daemon = self.tenants(tenant("acme", KEY), tenant("beta", OTHER_KEY))
        with Stream.connect(daemon.address) as stream:
            for key in (KEY, KEY, OTHER_KEY, "sk-unknown", KEY):
                self.assertEqual(stream.exchange(fields=bearer(key)).status, 200)
        self.assertEqual(self.logged(daemon, 5), ["acme", "acme", "beta", None, "acme"])

    def test_requests_without_a_route_have_one(self):
        daemon = self.tenants(tenant("acme", KEY))
        self.config["routes"] = [{"match": {"path": "/v1/**"}, "pool": "pool"}]
        self.reload()
        self.assertEqual(exchange(daemon.address, "GET", "/x", bearer(KEY)).status, 404)
        self.assertEqual(self.logged(daemon, 1), ["acme"])

    def test_a_reload_changes_them_at_once(self):
        daemon = self.tenants(tenant("acme", KEY))
        with Stream.connect(daemon.address) as stream:
            self.assertEqual(stream.exchange(fields=bearer(KEY)).status, 200)
            self.config["tenants"] = [tenant("beta", KEY), tenant("gamma", OTHER_KEY)]
            self.reload()
            self.assertEqual(stream.exchange(fields=bearer(KEY)).status, 200)
            self.assertEqual(stream.exchange(fields=bearer(OTHER_KEY)).status, 200)
            del self.config["tenants"]
            self.reload()
            self.assertEqual(stream.exchange(fields=bearer(KEY)).status, 200)
        self.assertEqual(self.logged(daemon, 4), ["acme", "beta", "gamma", None])
        self.eventually(lambda: not [series for series, _ in daemon.metrics() if "tenant" in series],
                        "metrics without tenants")

    def test_trusted_proxies_name_them(self):
        listener = {"name": "public", "address": "127.0.0.1:0", "tenant_header": "X-Tenant"}
        daemon = self.tenants(tenant("acme", KEY), {"name": "beta"},
                              listeners=[{**listener, "trusted_proxies": ["127.0.0.1"]}])
        for fields in ([("x-tenant", "beta")], [("x-tenant", "beta"), *bearer(KEY)], [("x-tenant", "gamma")],
                       [("x-tenant", "gamma"), *bearer(KEY)]):
            self.assertEqual(exchange(daemon.address, fields=fields).status, 200)
        self.config["listeners"][0]["trusted_proxies"] = ["10.0.0.0/8"]
        self.reload()
        self.assertEqual(exchange(daemon.address, fields=[("x-tenant", "beta")]).status, 200)
        self.assertEqual(self.logged(daemon, 5), ["beta", "beta", None, "acme", None])
        self.assertEqual([each.head.field("x-tenant") for each in self.server.exchanges],
                         ["beta", "beta", "gamma", "gamma", None])

    def test_a_file_with_a_key_that_is_not_hashed_is_refused(self):
        self.tenants(tenant("acme", KEY))
        self.config["tenants"] = [{"name": "acme", "keys_sha256": [KEY]}]
        told = self.refused()
        self.assertIn("not a SHA-256", told)
        self.assertNotIn(KEY, told)


if __name__ == "__main__":
    case.main()
