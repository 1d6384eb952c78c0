"""TLS policies, client certificates, tickets and the PROXY protocol, tested with curl and openssl."""

import hashlib
import os
import re
import resource
import socket
import ssl
import subprocess
import time

import case
import http2
from certificates import Authority, serving
from process import SANITIZED, command
from stream import PATIENCE, Closed, Stream


def fields_answer(exchange):
    """Responds with the fields that the backend received."""
    lines = "".join(f"{name.lower()}: {value}\n" for name, value in exchange.head.fields)
    exchange.answer(lines.encode())


class TlsCase(case.Case):
    def setUp(self):
        self.authority = Authority(self.folder())
        self.certificate = self.authority.issue("localhost", "127.0.0.1")

    def listener(self, **tls):
        return {"tls": {"certificates": [self.certificate.config()], **tls}}

    def serving(self, *listeners, script=fields_answer, **config):
        listeners = listeners or (self.listener(),)
        for number, listener in enumerate(listeners):
            listener.setdefault("name", f"port{number}")
        return self.start_daemon(self.backend(script), listeners=list(listeners), **config)

    def s_client(self, address, *arguments, request=None):
        """Connects, sends the request and reads until the server closes; with an empty request it closes at once. Returns
        openssl's output."""
        text = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" if request is None else request
        done = subprocess.run(["openssl", "s_client", "-connect", address, "-CAfile", self.authority.cert,
                               "-verify_return_error", *(["-ign_eof"] if text else []), *arguments], input=text.encode(),
                              capture_output=True, timeout=PATIENCE, check=False)
        return (done.stdout + done.stderr).decode("utf-8", "replace")

    def curl(self, address, *arguments, path="/"):
        port = address.rsplit(":", 1)[1]
        return subprocess.run(["curl", "-sS", "--max-time", str(PATIENCE), "--cacert", self.authority.cert,
                               "-w", "%{http_code} %{http_version}", *arguments,
                               f"https://localhost:{port}{path}"],
                              capture_output=True, text=True, timeout=2 * PATIENCE, check=False)

    def handshakes(self, daemon, result, **labels):
        return daemon.metric("evenkeel_tls_handshakes_total", result=result, **labels)


class Policies(TlsCase):
    def test_old_versions_are_refused_and_new_ones_accepted(self):
        daemon = self.serving()
        for version in ("-tls1", "-tls1_1"):
            # By default openssl does not offer them.
            said = self.s_client(daemon.address, version, "-cipher", "ALL:@SECLEVEL=0")
            self.assertIn("alert protocol version", said)
        self.assertEqual(self.handshakes(daemon, "version"), 2)
        for version, name in (("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")):
            said = self.s_client(daemon.address, version)
            self.assertIn(f"New, {name}", said)
            self.assertIn("HTTP/1.1 200", said)
            self.assertIn("x-forwarded-proto: https", said)
            self.assertIn("Compression: NONE", said)
        self.assertEqual(self.handshakes(daemon, "ok"), 2)

    def test_the_minimum_version_can_be_raised(self):
        daemon = self.serving(self.listener(min_version="1.3"))
        self.assertIn("alert protocol version", self.s_client(daemon.address, "-tls1_2"))
        self.assertIn("HTTP/1.1 200", self.s_client(daemon.address))

    def test_only_forward_secret_aead_suites_are_accepted(self):
        daemon = self.serving()
        for suite in ("ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES128-SHA256", "AES128-GCM-SHA256",
                      "DHE-RSA-AES128-GCM-SHA256"):
            said = self.s_client(daemon.address, "-tls1_2", "-cipher", f"{suite}:@SECLEVEL=0")
            self.assertIn("alert handshake failure", said, suite)
        for suite in ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
                      "ECDHE-ECDSA-CHACHA20-POLY1305"):
            said = self.s_client(daemon.address, "-tls1_2", "-cipher", suite)
            self.assertIn(f"Cipher is {suite}", said)
            self.assertIn("HTTP/1.1 200", said)

    def test_renegotiation_is_refused(self):
        daemon = self.serving()
        # A line with only "R" makes openssl renegotiate.
        process = subprocess.Popen(["openssl", "s_client", "-connect", daemon.address, "-tls1_2"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        received = b""
        while b"---\n" not in received.split(b"Verify return code", 1)[-1]:
            received += os.read(process.stdout.fileno(), 65536)
        process.stdin.write(b"R\n")
        process.stdin.flush()
        said, _ = process.communicate(timeout=PATIENCE)
        self.assertIn(b"no renegotiation", said)

    def test_alpn_is_negotiated_and_unknown_protocols_are_refused(self):
        daemon = self.serving()
        for offered, taken in (("h2", "h2"), ("http/1.1", "http/1.1"), ("http/1.1,h2", "h2"), ("foo,h2", "h2")):
            said = self.s_client(daemon.address, "-alpn", offered, request="")
            self.assertIn(f"ALPN protocol: {taken}", said, offered)
        self.assertIn("No ALPN negotiated", self.s_client(daemon.address))
        self.assertIn("alert no application protocol", self.s_client(daemon.address, "-alpn", "foo"))
        self.assertEqual(self.handshakes(daemon, "alpn"), 1)
        self.assertEqual(self.curl(daemon.address, "--http2").stdout[-5:], "200 2")
        self.assertEqual(self.curl(daemon.address, "--http1.1").stdout[-7:], "200 1.1")

    def test_the_certificate_is_chosen_by_name(self):
        other = self.authority.issue("other.test", "*.wild.test")
        daemon = self.serving(self.listener(certificates=[self.certificate.config(), other.config()]))
        for name, subject in (("localhost", "localhost"), ("other.test", "other.test"),
                              ("OTHER.test", "other.test"), ("a.wild.test", "other.test"),
                              ("a.b.wild.test", "localhost"), ("unknown.test", "localhost")):
            said = self.s_client(daemon.address, "-servername", name)
            self.assertIn(f"subject=CN = {subject}\n", said, name)
        self.assertIn("subject=CN = localhost\n", self.s_client(daemon.address, "-noservername"))

    def test_a_request_is_routed_by_its_host_whatever_the_server_name(self):
        daemon = self.serving(routes=[{"match": {"host": "other.test"}, "pool": "pool"}])
        for host, status in (("other.test", "200"), ("localhost", "404")):
            said = self.s_client(daemon.address, "-servername", "localhost",
                                 request=f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
            self.assertIn(f"HTTP/1.1 {status}", said)


class Tickets(TlsCase):
    def session(self, address, *arguments):
        path = os.path.join(self.folder(), "session")
        self.s_client(address, "-sess_out", path, *arguments)
        return path

    def test_sessions_are_resumed_only_for_their_name(self):
        daemon = self.serving()
        for version in ("-tls1_2", "-tls1_3"):
            session = self.session(daemon.address, version, "-servername", "localhost")
            said = self.s_client(daemon.address, version, "-sess_in", session, "-servername", "localhost")
            self.assertIn("Reused, TLS", said)
            self.assertIn("HTTP/1.1 200", said)
            said = self.s_client(daemon.address, version, "-sess_in", session, "-servername", "other.test")
            self.assertIn("New, TLS", said)
            self.assertIn("HTTP/1.1 200", said)
        self.assertEqual(self.handshakes(daemon, "resumed"), 2)

    def test_sessions_are_not_shared_between_policies(self):
        daemon = self.serving(self.listener(), self.listener(client_ca=self.authority.cert))
        open_port, closed_port = daemon.listening["port0"], daemon.listening["port1"]
        for version in ("-tls1_2", "-tls1_3"):
            session = self.session(open_port, version)
            said = self.s_client(closed_port, version, "-sess_in", session)
            self.assertNotIn("HTTP/1.1 200", said)
            self.assertNotIn("Reused, TLS", said)
        self.assertEqual(self.handshakes(daemon, "certificate", listener="port1"), 2)

    def test_no_early_data_is_offered(self):
        daemon = self.serving()
        said = self.s_client(daemon.address, "-tls1_3")
        self.assertIn("Max Early Data: 0", said)


class ClientCertificates(TlsCase):
    def test_client_certificates_are_required_verified_and_forwarded(self):
        daemon = self.serving(self.listener(client_ca=self.authority.cert))
        partner = self.authority.issue("partner.test")
        untrusted = Authority(self.folder()).issue("untrusted.test")
        with open(partner.cert) as file:
            der = ssl.PEM_cert_to_DER_cert(file.read())
        expected = f'x-forwarded-client-cert: Hash={hashlib.sha256(der).hexdigest()};Subject="CN=partner.test"'
        for protocol in ("--http1.1", "--http2"):
            answer = self.curl(daemon.address, protocol, "--cert", partner.cert, "--key", partner.key,
                               "-H", "x-forwarded-client-cert: Hash=forged")
            self.assertIn(expected, answer.stdout.splitlines())
            self.assertNotIn("forged", answer.stdout)
        for arguments in ((), ("--cert", untrusted.cert, "--key", untrusted.key)):
            answer = self.curl(daemon.address, *arguments)
            self.assertNotEqual(answer.returncode, 0)
            self.assertNotIn("200", answer.stdout)
        self.assertEqual(self.handshakes(daemon, "certificate"), 2)

    def test_client_certificates_are_optional_with_client_auth_request(self):
        daemon = self.serving(self.listener(client_ca=self.authority.cert, client_auth="request"))
        answer = self.curl(daemon.address, "-H", "x-forwarded-client-cert: Hash=forged")
        self.assertIn("200", answer.stdout)
        self.assertNotIn("x-forwarded-client-cert", answer.stdout)
        partner = self.authority.issue("partner.test")
        answer = self.curl(daemon.address, "--cert", partner.cert, "--key", partner.key)
        self.assertIn('Subject="CN=partner.test"', answer.stdout)
        untrusted = Authority(self.folder()).issue("untrusted.test")
        self.assertNotEqual(
            self.curl(daemon.address, "--cert", untrusted.cert, "--key", untrusted.key).returncode, 0)

    def test_an_expired_client_certificate_is_refused(self):
        daemon = self.serving(self.listener(client_ca=self.authority.cert))
        expired = self.authority.issue("partner.test", days=-1)
        self.assertNotEqual(self.curl(daemon.address, "--cert", expired.cert, "--key", expired.key).returncode, 0)
        self.eventually(lambda: self.handshakes(daemon, "certificate") == 1, "the refused handshake in the metrics")


    def test_a_revoked_client_certificate_is_refused_from_the_next_reload_on(self):
        partner, lost = self.authority.issue("partner.test"), self.authority.issue("lost.test")
        revoked = self.authority.revoke()
        daemon = self.serving(self.listener(client_ca=self.authority.cert, client_crl=revoked))

        def code(certificate, *arguments):
            return self.curl(daemon.address, "--cert", certificate.cert, "--key", certificate.key,
                             *arguments).stdout.splitlines()[-1:]

        self.assertEqual((code(partner), code(lost)), (["200 2"], ["200 2"]))
        self.authority.revoke(lost, file=revoked)
        self.assertEqual(daemon.ask_admin("/api/v1/reload", "POST").status, 200)
        self.assertEqual(code(partner), ["200 2"])
        for protocol in ("--http1.1", "--http2"):
            self.assertNotIn("200", "".join(code(lost, protocol)))
        self.eventually(lambda: self.handshakes(daemon, "certificate") == 2, "the refused handshakes in the metrics")


class UnexpectedConnections(TlsCase):
    def test_plain_http_on_a_tls_port_gets_an_explanation(self):
        daemon = self.serving()
        with Stream.connect(daemon.address) as stream:
            answer = stream.exchange("GET", "/")
            self.assertEqual((answer.status, answer.body), (400, b"this port speaks TLS\n"))
            stream.wait_closed()
        self.assertEqual(self.handshakes(daemon, "not_tls"), 1)

    def test_a_stalled_handshake_times_out_and_delays_no_other(self):
        listener = self.listener()
        listener["timeouts"] = {"handshake": "200ms"}
        daemon = self.serving(listener)
        stalled = [socket.create_connection(daemon.address.split(":"), PATIENCE) for _ in range(20)]
        for sock in stalled:
            self.addCleanup(sock.close)
            sock.sendall(b"\x16\x03\x01\x02\x00\x01")
        self.assertIn("200", self.curl(daemon.address).stdout)
        for sock in stalled:
            sock.settimeout(PATIENCE)
            self.assertEqual(sock.recv(100), b"")
        self.assertEqual(self.handshakes(daemon, "timeout"), 20)
        self.eventually(lambda: daemon.metric("evenkeel_connections") == 0)


    def test_unfinished_handshakes_and_heads_do_not_hold_a_drain(self):
        patient = {"timeouts": {"header": "60s", "handshake": "60s"}}
        daemon = self.serving(self.listener() | patient, {"proxy_protocol": ["127.0.0.0/8"]} | patient, dict(patient))
        begun = [("port0", b""), ("port0", b"\x16\x03\x01\x02\x00\x01"),
                 ("port1", b""), ("port1", b"PROXY TCP4 192.0"),
                 ("port2", b"GET / HTTP/1.1\r\nHo"), ("port2", b"PRI * HTT"),
                 ("port2", http2.PREFACE), ("port2", http2.PREFACE + http2.settings() + http2.headers(
                     1, http2.request_fields("GET", "/"), flags=0))]
        streams = [Stream.connect(daemon.listening[port]) for port, _ in begun]
        for stream, (_, sent) in zip(streams, begun):
            self.addCleanup(stream.close)
            stream.send(sent)
        self.eventually(lambda: daemon.api("status")["connections"] == len(begun))
        with Stream.connect(daemon.listening["port2"]) as other:  # answered after the daemon has read what was sent
            self.assertEqual(other.exchange("GET", "/").status, 200)
        began = time.monotonic()
        self.assertEqual(daemon.stop(), 0)
        self.assert_within(time.monotonic() - began, 10 if not SANITIZED else 30)
        for stream in streams:
            stream.wait_closed()

    def test_silent_connections_are_evicted_for_active_ones(self):
        cap = 1024
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        daemon = self.serving(workers=1)
        with Stream.connect(daemon.address, tls=self.authority.trust(), name="localhost") as before:
            self.assertEqual(before.exchange("GET", "/").status, 200)
            silent = [socket.create_connection(daemon.address.split(":"), PATIENCE) for _ in range(cap + 10)]
            for sock in silent:
                self.addCleanup(sock.close)
            self.eventually(lambda: self.handshakes(daemon, "overload") == 10)
            for sock in silent[:10]:  # the oldest ones
                self.assertEqual(sock.recv(1), b"")
            self.assertIn("200", self.curl(daemon.address).stdout)
            self.assertEqual(before.exchange("GET", "/").status, 200)
            for sock in silent:
                sock.close()
            self.eventually(lambda: daemon.metric("evenkeel_connections") == 1)

    def test_silent_connections_of_one_client_evict_no_other_s(self):
        cap = 1024
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        daemon = self.serving(workers=1)
        address = daemon.address.split(":")
        with socket.create_connection(address, PATIENCE) as slow:
            silent = [socket.create_connection(address, PATIENCE, ("127.0.0.2", 0)) for _ in range(cap + 10)]
            for sock in silent:
                self.addCleanup(sock.close)
            self.eventually(lambda: self.handshakes(daemon, "overload") == 11)
            with self.authority.trust().wrap_socket(slow, server_hostname="localhost") as tls:
                tls.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
                self.assertIn(b"200 OK", tls.recv(100))

    def test_the_client_address_is_taken_from_the_header(self):
        listeners = [{"proxy_protocol": ["127.0.0.0/8"], **self.listener()},
                     {"proxy_protocol": ["127.0.0.0/8"]}]
        daemon = self.serving(*listeners)
        answer = self.curl(daemon.listening["port0"], "--haproxy-protocol")
        self.assertIn("x-forwarded-for: 127.0.0.1", answer.stdout)
        header = b"PROXY TCP4 192.0.2.7 192.0.2.9 51000 443\r\n"
        binary = (b"\r\n\r\n\0\r\nQUIT\n\x21\x21\x00\x24" + socket.inet_pton(socket.AF_INET6, "2001:db8::7")
                  + socket.inet_pton(socket.AF_INET6, "2001:db8::9") + b"\xc7\x38\x01\xbb")
        for sent, client in ((header, "192.0.2.7"), (binary, "2001:db8::7")):
            with Stream.connect(daemon.listening["port1"]) as stream:
                stream.send(sent)
                answer = stream.exchange("GET", "/")
                self.assertIn(f"x-forwarded-for: {client}\n", answer.body.decode())
            with socket.create_connection(daemon.listening["port0"].split(":"), PATIENCE) as sock:
                sock.sendall(sent)
                with self.authority.trust().wrap_socket(sock, server_hostname="localhost") as tls:
                    tls.sendall(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
                    received = b""
                    while piece := tls.recv(65536):
                        received += piece
                self.assertIn(f"x-forwarded-for: {client}\n", received.decode())
        self.assertEqual(sorted(line["client"] for line in daemon.wait_access(5)),
                         ["127.0.0.1", "192.0.2.7", "192.0.2.7", "2001:db8::7", "2001:db8::7"])

    def test_the_header_is_required_from_trusted_peers_only(self):
        daemon = self.serving({"proxy_protocol": ["127.0.0.0/8"]}, {"proxy_protocol": ["192.0.2.0/24"]})
        with Stream.connect(daemon.listening["port0"]) as stream:
            stream.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            stream.wait_closed()
        with Stream.connect(daemon.listening["port1"]) as stream:
            stream.send(b"PROXY TCP4 192.0.2.7 192.0.2.9 51000 443\r\n")
            self.assertEqual(stream.exchange("GET", "/").status, 400)
        self.eventually(lambda: daemon.metric("evenkeel_connections") == 0)


class Backends(TlsCase):
    def in_front_of_tls(self, certificate, tls, name="localhost"):
        backend = self.backend(fields_answer, tls=serving(certificate))
        port = backend.port
        daemon = self.start_daemon(f"https://{name}:{port}", pool={"tls": tls})
        return daemon

    def test_the_backend_certificate_is_verified(self):
        good = {"ca": self.authority.cert}
        other = Authority(self.folder())
        cases = [
            (self.certificate, good, None),
            (self.authority.issue("elsewhere.test"), {**good, "server_name": "elsewhere.test"}, None),
            (self.authority.issue("elsewhere.test"), {"verify": False}, None),
            (self.authority.issue("elsewhere.test"), good, "host name does not match localhost"),
            (other.issue("localhost"), good, "unable to get local issuer certificate"),
            (self.authority.issue("localhost", days=-1), good, "certificate has expired"),
        ]
        for certificate, tls, why in cases:
            with self.subTest(why=why, tls=tls):
                daemon = self.in_front_of_tls(certificate, tls)
                with Stream.connect(daemon.address) as stream:
                    answer = stream.exchange("GET", "/")
                if why is None:
                    self.assertEqual(answer.status, 200, answer.body)
                    continue
                self.assertEqual(answer.status, 502)
                self.assertIn(("x-evenkeel-reason", "tls_failed"),
                              [(name.lower(), value) for name, value in answer.fields])
                self.assertIn(why, answer.body.decode())

    def test_links_are_kept_and_sessions_resumed(self):
        backend = self.backend(fields_answer, tls=serving(self.certificate))
        daemon = self.start_daemon(f"https://localhost:{backend.port}", workers=1,
                                  pool={"tls": {"ca": self.authority.cert}, "keep_alive": {"idle": "60s"}})
        with Stream.connect(daemon.address) as stream:
            for _ in range(10):  # session tickets arrive between them and must not close the connection
                self.assertEqual(stream.exchange("GET", "/").status, 200)
        self.assertEqual(backend.accepted, 1)

    def test_our_certificate_is_sent_on_request(self):
        context = serving(self.certificate)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.authority.cert)
        mine = self.authority.issue("evenkeel.test")
        backend = self.backend(fields_answer, tls=context)
        for pool_tls, status in (({"cert": mine.cert, "key": mine.key}, 200), ({}, 502)):
            daemon = self.start_daemon(f"https://localhost:{backend.port}",
                                      pool={"tls": {"ca": self.authority.cert, **pool_tls}})
            with Stream.connect(daemon.address) as stream:
                self.assertEqual(stream.exchange("GET", "/").status, status)

    def test_a_cleartext_backend_is_refused(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def answer_at_once():
                with listener.accept()[0] as sock:
                    sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
                    sock.settimeout(PATIENCE)
                    while sock.recv(65536):
                        pass

            self.spawn(answer_at_once)
            daemon = self.start_daemon("https://127.0.0.1:%d" % listener.getsockname()[1])
            with Stream.connect(daemon.address) as stream:
                answer = stream.exchange("GET", "/")
            self.assertEqual((answer.status, b"does not speak TLS" in answer.body), (502, True), answer.body)


class Truncation(TlsCase):
    """A connection that ends without close_notify may have been cut by someone else."""

    def tls_server(self, answer, before=b""):
        """Answers one connection: `before` in the clear, then `answer(connection)` after the handshake."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def serve():
            sock, _ = listener.accept()
            with sock:
                sock.sendall(before)
                try:
                    connection = serving(self.certificate).wrap_socket(sock, server_side=True)
                except OSError:  # the client has left the handshake
                    return
                with connection:
                    connection.recv(65536)
                    answer(connection)

        self.spawn(serve)
        return self.start_daemon("https://127.0.0.1:%d" % listener.getsockname()[1],
                                 pool={"tls": {"ca": self.authority.cert}})

    def test_a_response_without_close_notify_is_cut_off(self):
        for notified in (True, False):
            def answer(connection, notified=notified):
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nall of it")
                if notified:
                    connection.unwrap()
                else:
                    socket.socket(fileno=connection.detach()).close()

            daemon = self.tls_server(answer)
            with Stream.connect(daemon.address) as stream:
                stream.ask()
                head = stream.read_head()
                self.assertEqual((head.status, head.chunked()), (200, True))
                if notified:
                    self.assertEqual(stream.read_body(head).body, b"all of it")
                else:
                    with self.assertRaises((Closed, ConnectionError)):
                        stream.read_body(head)

    def test_cleartext_before_the_servers_hello_is_no_response(self):
        daemon = self.tls_server(lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine"),
                                 before=b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        with Stream.connect(daemon.address) as stream:
            answer = stream.exchange()
        self.assertEqual((answer.status, answer.reason), (502, "tls_failed"))

    def test_an_upload_without_its_end_is_aborted(self):
        begun, ended = [], []

        def script(request):
            begun.append(request)
            try:
                request.read_body()
                ended.append("complete")
            except (Closed, OSError):
                ended.append("aborted")

        daemon = self.start_daemon(self.backend(script, reads_body=False), listeners=[self.listener()])
        for number, fields in enumerate(("Content-Length: 100", "Transfer-Encoding: chunked"), 1):
            stream = Stream.connect(daemon.address, tls=self.authority.trust(), name="localhost")
            stream.send(f"POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n5\r\nhello\r\n".encode())
            self.eventually(lambda number=number: len(begun) == number, "the head of the request at the backend")
            stream.close()  # without close_notify
            self.eventually(lambda number=number: len(ended) == number, "its end")
        self.assertEqual(ended, ["aborted", "aborted"])


class Files(TlsCase):
    def check(self, tls):
        text = '{"listeners": [{"tls": {"certificates": [%s]}}], "pools": [{"name": "a", "backends": ["h:1"]}]}'
        pairs = ", ".join('{"cert": "%s", "key": "%s"}' % pair for pair in tls)
        path = os.path.join(self.folder(), "evenkeel.yaml")
        with open(path, "w") as file:
            file.write((text % pairs).replace('"h:1"', '"127.0.0.1:1"'))
        return command("check", "-c", path)

    def test_check_reports_position_file_and_solution(self):
        other = self.authority.issue("other.test")
        good = (self.certificate.cert, self.certificate.key)
        self.assertEqual(self.check([good]).returncode, 0)
        for pair, where, what in (
                (("/nowhere.pem", good[1]), "cert", "cannot read the certificate file '/nowhere.pem'"),
                ((good[0], other.key), "key", "does not belong to the certificate in"),
                ((good[1], good[1]), "cert", "holds no certificate in PEM form")):
            ended = self.check([good, pair])
            self.assertEqual(ended.returncode, 1)
            self.assertRegex(ended.stderr, re.escape(f"listeners[0].tls.certificates[1].{where}: ") + ".*"
                             + re.escape(what))
        expired = self.authority.issue("old.test", days=-1)
        ended = self.check([(expired.cert, expired.key)])
        self.assertEqual(ended.returncode, 0)
        self.assertIn("warning: listeners[0].tls.certificates[0].cert: ", ended.stderr)


if __name__ == "__main__":
    case.main()
