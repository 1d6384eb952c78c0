"""Common HTTP/2 and TLS clients: nghttp, h2load, curl, openssl s_client; and nghttpd as a backend."""

import hashlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import unittest

import case
from certificates import Authority
from process import SANITIZED, wait_until

BODY = os.urandom(1 << 20)
SMALL = 1 if SANITIZED else 10  # divides the number of requests


def needs(tool):
    return unittest.skipUnless(shutil.which(tool), f"{tool} is not installed (./dev setup)")


def run(*arguments, data=None, code=0, timeout=60):
    """Runs a tool; returns its output."""
    ended = subprocess.run([str(each) for each in arguments], input=data, capture_output=True, timeout=timeout,
                           check=False)
    assert ended.returncode == code, (ended.returncode, ended.stdout[-2000:], ended.stderr[-2000:])
    return ended.stdout, ended.stderr.decode("latin-1")


class Tool(case.Case):
    def front(self, script=None, limits=None, **tls):
        """A daemon with a cleartext port and a TLS port."""
        self.files = pathlib.Path(self.folder())
        self.authority = Authority(self.files)
        own = self.authority.issue("127.0.0.1", "localhost")
        other = self.authority.issue("other.test")
        self.backend_ = self.backend(script or self.play)
        self.daemon_ = self.start_daemon(self.backend_, listeners=[
            {"name": "clear"},
            {"name": "tls", "tls": {"certificates": [own.config(), other.config()], **tls},
             "limits": limits or {}}])
        self.clear = self.daemon_.listening["clear"]
        self.tls = self.daemon_.listening["tls"]
        return self.daemon_

    @staticmethod
    def play(request):
        if request.target == "/large":
            return request.answer(BODY)
        request.answer(request.body or b"hello", fields=[("X-Seen", request.target)])

    def served(self, count):
        """The access log has this many requests, each with its protocol version."""
        return self.daemon_.wait_access(count)


@needs("nghttp")
class Nghttp(Tool):
    def check(self, *arguments):
        out, _ = run("nghttp", "--no-verify-peer", *arguments)
        return out

    def test_gets(self):
        self.front()
        self.assertEqual(self.check(f"http://{self.clear}/a"), b"hello")
        self.assertEqual(self.check(f"https://{self.tls}/a"), b"hello")

    def test_max_concurrent_streams_is_announced(self):
        self.front(limits={"max_streams": 3})
        out, _ = run("nghttp", "-v", f"http://{self.clear}/a")
        self.assertIn(b"SETTINGS_MAX_CONCURRENT_STREAMS(0x03):128", out)
        out, _ = run("nghttp", "-v", "--no-verify-peer", f"https://{self.tls}/a")
        self.assertIn(b"SETTINGS_MAX_CONCURRENT_STREAMS(0x03):3", out)

    def test_many_requests_on_one_connection(self):
        self.front()
        out = self.check("-n", "-s", "-m", 50, f"https://{self.tls}/large")
        self.assertEqual(len(re.findall(rb"\b200\b.*/large", out)), 50)

    def test_posts_with_trailers_and_padding(self):
        self.front()
        (self.files / "body").write_bytes(BODY)
        for address in (f"http://{self.clear}/up", f"https://{self.tls}/up"):
            out = self.check("-d", self.files / "body", "--trailer", "x-sum: 1", "-b", 200, address)
            self.assertEqual(hashlib.sha256(out).digest(), hashlib.sha256(BODY).digest())

    def test_small_windows_and_frames(self):
        self.front()
        out = self.check("-w", 10, "-W", 10, f"http://{self.clear}/large")
        self.assertEqual(out, BODY)

    def test_an_h2c_upgrade_is_ignored(self):
        """RFC 9113 removed the upgrade of RFC 7540, so the connection stays HTTP/1.1."""
        self.front()
        ended = subprocess.run(["curl", "-sv", "--http2", "-m", "20", f"http://{self.clear}/a"],
                               capture_output=True, timeout=60, check=True)
        self.assertEqual(ended.stdout, b"hello")
        self.assertNotIn(b"101", ended.stderr)


@needs("h2load")
class H2load(Tool):
    def check(self, *arguments, count):
        out, _ = run("h2load", "-n", count, *arguments)
        text = out.decode()
        self.assertRegex(text, rf"{count} succeeded, 0 failed, 0 errored, 0 timeout", text)
        self.assertRegex(text, rf"status codes: {count} 2xx, 0 3xx, 0 4xx, 0 5xx", text)
        return text

    def test_many_cleartext_streams(self):
        self.front()
        self.check("-c", 10, "-m", 20, f"http://{self.clear}/", count=300 * SMALL)

    def test_many_streams_over_tls(self):
        self.front()
        text = self.check("-c", 10, "-m", 20, f"https://{self.tls}/", count=300 * SMALL)
        self.assertIn("Application protocol: h2", text)

    def test_many_small_posts(self):
        self.front()
        (self.files / "body").write_bytes(b"{}")
        self.check("-c", 4, "-m", 100, "-d", self.files / "body", f"https://{self.tls}/", count=200 * SMALL)

    def test_large_responses_with_small_windows(self):
        self.front()
        self.check("-c", 4, "-m", 4, "-w", 14, "-W", 15, f"http://{self.clear}/large", count=10 * SMALL)

    def test_http1_over_tls(self):
        self.front()
        text = self.check("--h1", "-c", 10, f"https://{self.tls}/", count=100 * SMALL)
        self.assertIn("Application protocol: http/1.1", text)

    @needs("nghttpd")
    def test_an_http2_backend(self):
        files = pathlib.Path(self.folder())
        (files / "index.html").write_bytes(BODY)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = subprocess.Popen(["nghttpd", "--no-tls", "-a", "127.0.0.1", "-d", str(files), str(port)])
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        wait_until(lambda: not socket.socket().connect_ex(("127.0.0.1", port)), what="nghttpd")
        daemon = self.start_daemon(f"127.0.0.1:{port}", pool={"protocol": "h2"})
        self.check("-c", 4, "-m", 32, f"http://{daemon.address}/index.html", count=20 * SMALL)


@needs("curl")
class Curl(Tool):
    def check(self, *arguments, version):
        out, _ = run("curl", "-sS", "-m", 30, "-w", "\n%{http_version}", *arguments)
        body, _, said = out.rpartition(b"\n")
        self.assertEqual(said.decode(), version)
        return body

    def over_tls(self, *arguments, version="2"):
        return self.check("--cacert", self.authority.cert, *arguments, version=version)

    def test_prior_knowledge(self):
        self.front()
        self.assertEqual(self.check("--http2-prior-knowledge", f"http://{self.clear}/a", version="2"), b"hello")

    def test_http2_over_tls_with_a_verified_certificate(self):
        self.front()
        self.assertEqual(self.over_tls("--http2", f"https://{self.tls}/a"), b"hello")

    def test_http1_over_tls(self):
        self.front()
        self.assertEqual(self.over_tls("--http1.1", f"https://{self.tls}/a", version="1.1"), b"hello")

    def test_a_name_chooses_its_certificate(self):
        self.front()
        port = self.tls.rpartition(":")[2]
        self.assertEqual(self.over_tls("--resolve", f"other.test:{port}:127.0.0.1", f"https://other.test:{port}/a"),
                         b"hello")

    def test_uploads_and_downloads(self):
        self.front()
        path = self.files / "body"
        path.write_bytes(BODY)
        self.assertEqual(self.over_tls("-T", path, f"https://{self.tls}/up"), BODY)
        self.assertEqual(self.over_tls("--data-binary", f"@{path}", "-H", "Expect: 100-continue",
                                       f"https://{self.tls}/up"), BODY)
        self.assertEqual(self.check("--http2-prior-knowledge", f"http://{self.clear}/large", version="2"), BODY)

    def test_requests_reach_the_backend_unchanged(self):
        self.front()
        self.over_tls("-H", "X-Twice: 1", "-H", "X-Twice: 2", "-H", "Cookie: a=b; c=d", "-X", "DELETE",
                      f"https://{self.tls}/a%20b?c=d")
        head = self.backend_.exchanges[0].head
        self.assertEqual((head.method, head.target), ("DELETE", "/a%20b?c=d"))
        self.assertEqual(head.all("x-twice"), ["1", "2"])
        self.assertEqual(head.all("cookie"), ["a=b; c=d"])
        self.assertEqual(head.all("host"), [self.tls])
        self.assertEqual(head.field("x-forwarded-proto"), "https")


@needs("openssl")
class Openssl(Tool):
    """Negotiation of TLS versions, ciphers and protocols."""

    def handshake(self, *arguments, code=0):
        out, said = run("openssl", "s_client", "-connect", self.tls, "-CAfile", self.authority.cert, *arguments,
                        data=b"", code=code)
        return out.decode("latin-1") + said

    def refused(self, *arguments):
        self.assertRegex(self.handshake(*arguments, code=1), r"alert|no protocols available|no ciphers|wrong version")

    def test_the_newest_version_and_a_verified_certificate(self):
        self.front()
        said = self.handshake("-verify_return_error")
        self.assertIn("Protocol  : TLSv1.3" if "Protocol  :" in said else "TLSv1.3", said)
        self.assertIn("Verification: OK", said)

    def test_alpn(self):
        self.front()
        for offered, chosen in (("h2,http/1.1", "ALPN protocol: h2"), ("http/1.1,h2", "ALPN protocol: h2"),
                                ("http/1.1", "ALPN protocol: http/1.1")):
            self.assertIn(chosen, self.handshake("-alpn", offered), offered)
        self.assertIn("No ALPN negotiated", self.handshake())

    def test_unsupported_protocols(self):
        """A handshake without a common protocol fails, which prevents cross-protocol attacks (ALPACA)."""
        self.front()
        self.refused("-alpn", "ftp")

    def test_tls_1_2_is_accepted(self):
        self.front()
        self.assertIn("TLSv1.2", self.handshake("-tls1_2"))

    def test_tls_1_2_is_rejected_where_1_3_is_required(self):
        self.front(min_version="1.3")
        self.refused("-tls1_2")
        self.assertIn("TLSv1.3", self.handshake())

    def test_older_versions_are_refused(self):
        self.front()
        for version in ("-tls1", "-tls1_1"):
            self.refused(version, "-cipher", "ALL:@SECLEVEL=0")

    def test_ciphers_without_forward_secrecy_or_aead_are_refused(self):
        self.front()
        for cipher in ("AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA384", "aNULL:eNULL",
                       "DHE-RSA-AES256-GCM-SHA384"):
            self.refused("-tls1_2", "-cipher", f"{cipher}:@SECLEVEL=0")

    def test_renegotiation_is_refused(self):
        self.front()
        ended = subprocess.run(["openssl", "s_client", "-connect", self.tls, "-tls1_2", "-alpn", "http/1.1"],
                               input=b"R\n", capture_output=True, timeout=30, check=False)
        self.assertRegex(ended.stdout + ended.stderr, rb"no renegotiation|handshake failure|alert")

    def test_sessions_are_resumed(self):
        self.front()
        for version in ("-tls1_2", "-tls1_3"):
            session = self.files / f"session{version}"
            request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            first, _ = run("openssl", "s_client", "-connect", self.tls, version, "-sess_out", session, "-ign_eof",
                           data=request)
            self.assertIn(b"hello", first)
            again, _ = run("openssl", "s_client", "-connect", self.tls, version, "-sess_in", session, "-ign_eof",
                           data=request)
            self.assertIn(b"hello", again)
            self.assertIn(b"Reused, TLS", again)

    def test_cleartext_on_the_tls_port(self):
        self.front()
        with socket.create_connection(self.tls.split(":"), timeout=20) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            received = b""
            try:
                while piece := sock.recv(4096):
                    received += piece
            except ConnectionError:
                pass
        self.assertNotIn(b"hello", received)
        self.assertEqual(self.backend_.exchanges, [])


if __name__ == "__main__":
    case.main()
