"""The Host that backends get, from clients' requests and from evenkeel's own (`pools[].host`)."""

import case
import http2
from certificates import Authority, serving
from stream import Stream

KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class Host(case.Case):
    def setUp(self):
        self.authority = Authority(self.folder())
        self.certificate = self.authority.issue("localhost", "127.0.0.1")
        self.hosts = []  # (path, Host, X-Forwarded-Host)

    def note(self, exchange):
        pseudo = getattr(exchange.head, "pseudo", {})
        self.hosts.append((exchange.target, pseudo.get(":authority", exchange.head.field("host")),
                           exchange.head.field("x-forwarded-host")))
        exchange.answer(b"{}")

    def get(self, daemon, path="/", fields=(), host="client.test"):
        with Stream.connect(daemon.address) as stream:
            lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
            stream.send(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n".encode())
            return stream.read_body(stream.read_head())

    def secure(self, name, host=None, server_name=None, backend=None, script=None):
        """A daemon in front of a server with TLS, and the server's port."""
        backend = backend or self.backend(script or self.note, tls=serving(self.certificate))
        tls = {"ca": self.authority.cert, **({"server_name": server_name} if server_name else {})}
        pool = {"tls": tls, "health": {"path": "/check", "interval": "100ms"}, **({"host": host} if host else {})}
        return self.start_daemon(f"https://{name}:{backend.port}", pool=pool), backend.port

    def expect(self, daemon, wanted, of_checks, forwarded="client.test"):
        self.assertEqual(self.get(daemon, "/asked").status, 200)
        self.assertIn(("/asked", wanted, forwarded), self.hosts)
        checked = {host for path, host, _ in self.hosts if path == "/check"}
        self.assertEqual(checked, {of_checks})

    def test_a_server_addressed_by_name_over_tls_gets_its_name_from_requests_and_checks(self):
        daemon, port = self.secure("localhost")
        self.expect(daemon, f"localhost:{port}", f"localhost:{port}")

    def test_a_server_addressed_by_ip_gets_what_the_client_sent(self):
        daemon, port = self.secure("127.0.0.1")
        self.expect(daemon, "client.test", f"127.0.0.1:{port}")

    def test_the_name_of_the_certificate_is_the_name_of_the_server(self):
        daemon, port = self.secure("127.0.0.1", server_name="localhost")
        self.expect(daemon, f"localhost:{port}", f"localhost:{port}")

    def test_client_keeps_what_the_client_sent(self):
        daemon, port = self.secure("localhost", host="client")
        self.expect(daemon, "client.test", f"localhost:{port}")

    def test_a_text_is_what_all_requests_have(self):
        daemon, _ = self.secure("localhost", host="api.example.com")
        self.expect(daemon, "api.example.com", "api.example.com")

    def test_backend_in_the_clear_is_its_address(self):
        backend = self.backend(self.note)
        for host, wanted in (("backend", backend.address), (None, "client.test"), ("a.test:81", "a.test:81")):
            self.hosts.clear()
            daemon = self.start_daemon(backend, pool={"host": host} if host else {})
            self.assertEqual(self.get(daemon, "/asked").status, 200)
            self.assertEqual(self.hosts, [("/asked", wanted, "client.test")])

    def test_http2_has_it_as_authority(self):
        backend = self.h2_backend(self.note, tls=serving(self.certificate, alpn=["h2"]))
        daemon, port = self.secure("localhost", backend=backend)
        self.expect(daemon, f"localhost:{port}", f"localhost:{port}")
        with http2.Peer.connect(daemon.address) as peer:
            self.assertEqual(peer.request(path="/h2").read_response().status, 200)
        self.assertIn(f"localhost:{port}", [host for path, host, _ in self.hosts if path == "/h2"])

    def test_an_upgrade_has_it(self):
        def script(exchange):
            if exchange.target != "/socket":
                return self.note(exchange)
            self.hosts.append((exchange.target, exchange.head.field("host"), None))
            return exchange.answer(b"", status=400)

        daemon, port = self.secure("localhost", script=script)
        self.get(daemon, "/socket", [("Connection", "upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", KEY),
                                     ("Sec-WebSocket-Version", "13")])
        self.assertIn(("/socket", f"localhost:{port}", None), self.hosts)

    def test_another_pool_gets_its_own(self):
        plain = self.backend(self.note)
        daemon = self.daemon({"pools": [
            {"name": "first", "backends": ["https://localhost:1"], "fallback": "second"},
            {"name": "second", "backends": [plain.address]}],
            "routes": [{"match": {"path": "/**"}, "pool": "first"}]})
        self.assertEqual(self.get(daemon, "/asked").status, 200)
        self.assertEqual(self.hosts, [("/asked", "client.test", "client.test")])

    def test_a_redirect_to_the_servers_own_name_leads_back_to_the_daemon(self):
        def script(exchange):
            if exchange.target == "/check":
                return exchange.answer(b"")
            own = exchange.head.field("host")
            location = {"/a": f"https://{own}/b?c=d", "/root": f"http://{own}", "/other": "https://other.test/b",
                        "/twice": f"https://{own}//evil.test/", "/relative": "b"}.get(exchange.target, "/")
            return exchange.answer(b"", status=307, fields=[("Location", location)])

        daemon, _ = self.secure("localhost", script=script)
        for path, wanted in (("/a", "/b?c=d"), ("/root", "/"), ("/other", "https://other.test/b"),
                             ("/twice", "/.//evil.test/"), ("/relative", "b")):
            self.assertEqual(self.get(daemon, path).field("location"), wanted, path)


if __name__ == "__main__":
    case.main()
