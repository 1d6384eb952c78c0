"""Whose requests they are, by client certificates: Python's ssl and curl as clients."""

import hashlib
import json
import subprocess

import case
from certificates import Authority
from reloading import ReloadCase
from stream import PATIENCE, Stream

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
KEY = "sk-beta-0815"
APP, JOB, HOST = "spiffe://prod/ns/acme/sa/app", "spiffe://prod/ns/acme/sa/job", "app.beta.internal"
ACME = {"name": "acme", "certificates": ["spiffe://prod/ns/acme/*"]}
BETA = {"name": "beta", "certificates": ["App.Beta.Internal"], "keys_sha256": [hashlib.sha256(KEY.encode()).hexdigest()]}


class Certified(ReloadCase):
    def setUp(self):
        self.authority = Authority(self.folder())
        self.server_certificate = self.authority.issue("localhost", "127.0.0.1")

    def certified(self, *tenants, client_auth="request", **config):
        self.server = self.backend()
        tls = {"certificates": [self.server_certificate.config()], "client_ca": self.authority.cert, "client_auth": client_auth}
        listeners = [{"name": "public", "address": "127.0.0.1:0", "tls": tls}]
        return self.running(self.server, pool=QUIET, tenants=list(tenants), listeners=listeners, **config)

    def connect(self, daemon, *names, authority=None):
        """A connection whose client has a certificate with these names; without names it has none."""
        certificate = (authority or self.authority).issue(*names) if names else None
        stream = Stream.connect(daemon.address, tls=self.authority.trust(certificate=certificate))
        self.addCleanup(stream.close)
        return stream

    def logged(self, daemon, count, *fields):
        lines = sorted(daemon.wait_access(count), key=lambda line: line["time"])
        return [tuple(line.get(field) for field in fields) for line in lines]

    def test_a_certificate_is_a_credential(self):
        daemon = self.certified(ACME, BETA, auth={})
        for names in ((APP,), (JOB, "unknown.internal"), ("unknown.internal", HOST.upper())):
            self.assertEqual(self.connect(daemon, *names).exchange().status, 200)
        unknown = self.connect(daemon, "app.acme.internal", "spiffe://prod/ns/acme2/sa/app").exchange()
        none = self.connect(daemon).exchange()

        for answer, text in ((unknown, "client certificate is no tenant's"), (none, "no API key or token: send")):
            self.assertEqual((answer.status, answer.field("x-evenkeel-reason")), (401, "unauthorized"))
            self.assertIn(text, json.loads(answer.body)["error"]["message"] if answer.body.startswith(b"{") else answer.body.decode())
        self.assertEqual(len(self.server.exchanges), 3)
        self.assertEqual(self.logged(daemon, 5, "tenant"), [("acme",), ("acme",), ("beta",), (None,), (None,)])

    def test_the_name_is_the_key_of_the_log_over_http1_and_http2(self):
        daemon = self.certified(ACME, auth={})
        self.config["access_log"]["fields"] = ["time", "tenant", "key", "protocol"]
        self.reload()
        client = self.authority.issue(APP)
        port = daemon.address.rsplit(":", 1)[1]
        for protocol in ("--http1.1", "--http2"):
            done = subprocess.run(["curl", "-sS", "--max-time", str(PATIENCE), "--cacert", self.authority.cert, protocol,
                                   "--cert", client.cert, "--key", client.key, "-w", "%{http_code}", "-o", "/dev/null",
                                   *[f"https://localhost:{port}/{number}" for number in range(2)]],
                                  capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
            self.assertIn("200", done.stdout, done.stderr)
        key = hashlib.sha256(APP.encode()).hexdigest()[:8]
        self.assertEqual({(tenant, kept) for tenant, kept, _ in self.logged(daemon, 4, "tenant", "key", "protocol")},
                         {("acme", key)})

    def test_a_key_goes_before_the_certificate_of_the_connection(self):
        daemon = self.certified(ACME, BETA, auth={})
        stream = self.connect(daemon, APP)
        for fields in ([], [("x-api-key", KEY)], [], [("authorization", "Bearer of-the-server")]):
            self.assertEqual(stream.exchange(fields=fields).status, 200)
        self.assertEqual(self.logged(daemon, 4, "tenant"), [("acme",), ("beta",), ("acme",), ("acme",)])
        self.assertEqual([each.head.field("x-api-key") for each in self.server.exchanges], [None] * 4)
        self.assertEqual(self.server.exchanges[3].head.field("authorization"), "Bearer of-the-server")

    def test_a_certificate_of_another_authority_is_refused(self):
        daemon = self.certified(ACME, auth={})
        with self.assertRaises(OSError):  # in TLS 1.3 the refusal comes with the first read
            self.connect(daemon, APP, authority=Authority(self.folder(), "another")).exchange()
        self.assertEqual(self.server.exchanges, [])

    def test_without_auth_requests_of_no_tenant_are_served_too(self):
        daemon = self.certified(ACME)
        for names in ((APP,), ("unknown.internal",), ()):
            self.assertEqual(self.connect(daemon, *names).exchange().status, 200)
        self.assertEqual(self.logged(daemon, 3, "tenant"), [("acme",), (None,), (None,)])

    def test_a_reload_changes_whose_open_connections_are(self):
        daemon = self.certified(ACME, BETA)
        stream = self.connect(daemon, APP)
        self.assertEqual(stream.exchange().status, 200)
        self.config["tenants"] = [{**BETA, "certificates": [APP]}]
        self.reload()
        self.assertEqual(stream.exchange().status, 200)
        self.config["tenants"] = [{**BETA, "certificates": [HOST]}]
        self.reload()
        self.assertEqual(stream.exchange().status, 200)
        self.assertEqual(self.logged(daemon, 3, "tenant"), [("acme",), ("beta",), (None,)])

    def test_a_file_that_gives_a_name_to_two_tenants_is_refused(self):
        self.certified(ACME, BETA)
        self.config["tenants"] = [ACME, {**BETA, "certificates": ACME["certificates"]}]
        told = self.refused()
        self.assertIn("tenants[1].certificates[0]", told)
        self.assertIn("of tenant 'acme' already, and not of 'beta'", told)


if __name__ == "__main__":
    case.main()
