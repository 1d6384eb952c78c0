"""Credentials and names of tenants go where they are meant, however they are spelled."""

import hashlib

import case
import http2
from ports import refusing_address
from stream import Stream, exchange

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
NAMES = ["Authorization", "X-Api-Key", "api-key", "x-goog-api-key", "Proxy-Authorization", "Ocp-Apim-Subscription-Key",
         "X-LiteLLM-Api-Key", "apikey", "X-Auth-Token", "X-Amz-Security-Token"]
CREDENTIALS = [(name, "mine") for name in NAMES]
HEADERLESS = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"


class Credentials(case.Case):
    def setUp(self):
        self.key = self.folder() + "/key"
        with open(self.key, "w", encoding="ascii") as file:
            file.write("sesame")

    def values(self, request):
        return [value for _, value in [*request.head.fields, *request.head.trailers]]

    def over_http1(self, daemon, fields, trailers=()):
        with Stream.connect(daemon.address) as stream:
            head = "".join(f"{name}: {value}\r\n" for name, value in fields).encode()
            tail = "".join(f"{name}: {value}\r\n" for name, value in trailers).encode()
            stream.send(HEADERLESS + head + b"\r\n1\r\nx\r\n0\r\n" + tail + b"\r\n")
            return stream.read_response()

    def over_http2(self, daemon, fields, trailers=()):
        with http2.Wire.connect(daemon.address) as wire:
            wire.open()
            lower = [(name.lower(), value) for name, value in fields]
            wire.ask(1, "POST", "/", lower, end=False)
            wire.send(http2.data(1, b"x", end=not trailers))
            if trailers:
                wire.send(http2.headers(1, [(name.lower(), value) for name, value in trailers]))
            return wire.answer_to(1)

    def test_a_backend_with_a_key_gets_none_of_the_clients(self):
        for ask in (self.over_http1, self.over_http2):
            with self.subTest(ask.__name__):
                backend = self.backend()
                daemon = self.start_daemon({"address": backend.address, "api_key_file": self.key}, pool=QUIET)
                self.assertEqual(ask(daemon, [*CREDENTIALS, ("x-kept", "yes")], CREDENTIALS).status, 200)
                (request,) = backend.exchanges
                self.assertEqual(request.head.all("authorization"), ["Bearer sesame"])
                self.assertNotIn("mine", self.values(request))
                self.assertEqual(request.head.field("x-kept"), "yes")
                daemon.finish()

    def test_a_retry_on_a_backend_without_a_key_has_all_of_the_clients_again(self):
        backend = self.backend()
        daemon = self.start_daemon({"address": refusing_address(), "api_key_file": self.key}, backend, workers=1,
                                   pool={**QUIET, "picker": "round-robin"})
        for _ in range(2):
            exchange(daemon.address, fields=[*CREDENTIALS, ("x-kept", "yes")])
        self.assertIn(2, [len(line["attempts"]) for line in daemon.wait_access(2)], "one of them is a retry")
        for request in backend.exchanges:
            sent = [(name.lower(), value) for name, value in request.head.fields if value in ("mine", "yes", "Bearer sesame")]
            self.assertEqual(sorted(sent), sorted([(name.lower(), "mine") for name in NAMES] + [("x-kept", "yes")]))

    def test_other_spellings_reach_no_backend(self):
        spelled = [("X_Api_Key", "mine"), ("api_key", "mine"), ("X-Goog_Api_Key", "mine"), ("proxy_authorization", "mine")]
        for ask in (self.over_http1, self.over_http2):
            with self.subTest(ask.__name__):
                backend = self.backend()
                daemon = self.start_daemon(backend, pool=QUIET)
                ask(daemon, spelled, [*spelled, ("X-API-Key", "mine"), ("x-checksum", "kept")])
                (request,) = backend.exchanges
                self.assertNotIn("mine", self.values(request))
                self.assertEqual(request.head.trailers, [("x-checksum", "kept")])
                daemon.finish()

    def test_no_credential_is_in_the_table_of_a_shared_connection(self):
        backend = self.h2_backend()
        daemon = self.start_daemon(backend, workers=1, pool={**QUIET, "protocol": "h2"})
        for _ in range(3):
            exchange(daemon.address, fields=[*CREDENTIALS, ("x-kept", "yes")])
        for request in backend.exchanges:
            self.assertEqual(sorted(request.head.never_indexed), sorted(name.lower() for name in NAMES))

    QUERIES = ["key=mine", "api_key=mine", "api-key=mine", "%61pi_key=mine", "API_KEY=mine", "access_token=mine",
               "refresh_token=mine", "X-Amz-Security-Token=mine"]
    HIDDEN = ["password=mine", "pwd=mine", "secret=mine", "sig=mine", "X-Amz-Signature=mine", "X-Goog-Credential=mine"]

    def test_a_backend_with_a_key_gets_none_of_the_query(self):
        for protocol in ("http1", "h2"):
            backend = self.h2_backend() if protocol == "h2" else self.backend()
            daemon = self.start_daemon({"address": backend.address, "api_key_file": self.key}, workers=1,
                                       pool={**QUIET, "protocol": protocol})
            signed = "url=https%3A%2F%2Fb.example%2Fo%3FX-Amz-Signature%3Dmine"
            queries = [*self.QUERIES, *self.HIDDEN, signed]
            for query in queries:
                exchange(daemon.address, target=f"/v1/x?a=1&{query}&b=2")
            self.assertEqual([request.head.target for request in backend.exchanges],
                             ["/v1/x?a=1&b=2"] * len(self.QUERIES)
                             + [f"/v1/x?a=1&{query}&b=2" for query in [*self.HIDDEN, signed]])
            lines = daemon.wait_access(len(queries))
            self.assertEqual([line["path"] for line in lines],
                             [f"/v1/x?a=1&{query.partition('=')[0]}=***&b=2" for query in queries])
            daemon.finish()

    def test_a_key_in_the_query_goes_on_to_a_backend_without_one_and_into_no_table_and_no_log(self):
        backend = self.h2_backend()
        daemon = self.start_daemon(backend, workers=1, pool={**QUIET, "protocol": "h2"})
        queries = [*self.QUERIES, *self.HIDDEN]
        for query in [*queries, "a=1"] * 3:
            exchange(daemon.address, target="/v1/x?" + query)
        for request in backend.exchanges:
            secret = "mine" in request.head.target
            self.assertEqual(":path" in request.head.never_indexed, secret, request.head.target)
        self.assertEqual(sum("=mine" in request.head.target for request in backend.exchanges), 3 * len(queries))
        exchange(daemon.address, target="/a b?key=mine")
        daemon.wait_access(3 * len(queries) + 4)
        self.assertNotIn("mine", "\n".join(daemon.lines) + daemon.access_path.read_text())

    def test_a_key_among_the_subprotocols_is_a_credential(self):
        offered = "realtime, openai-insecure-api-key.mine, openai-beta.realtime-v1"
        backend = self.backend()
        daemon = self.start_daemon({"address": backend.address, "api_key_file": self.key}, pool=QUIET)
        exchange(daemon.address, fields=[("Sec-WebSocket-Protocol", offered)])
        (request,) = backend.exchanges
        self.assertEqual(request.head.all("sec-websocket-protocol"), ["realtime, openai-beta.realtime-v1"])

    def test_only_trusted_proxies_name_tenants_however_the_field_is_spelled(self):
        spelled = [("x-team", "acme"), ("X_Team", "acme"), ("x_team", "acme")]
        for trusted, proxies in ((False, "192.0.2.0/24"), (True, "127.0.0.0/8")):
            for ask in (self.over_http1, self.over_http2):
                with self.subTest(ask.__name__, trusted=trusted):
                    backend = self.backend()
                    daemon = self.start_daemon(
                        backend, pool=QUIET, tenants=[{"name": "acme", "keys_sha256": [hashlib.sha256(b"k").hexdigest()]}],
                        listeners=[{"name": "public", "trusted_proxies": [proxies], "tenant_header": "X-Team"}])
                    self.assertEqual(ask(daemon, spelled, [*spelled, ("x-checksum", "kept")]).status, 200)
                    (request,) = backend.exchanges
                    self.assertEqual(self.values(request).count("acme"), 1 if trusted else 0, request.head.raw
                                     if hasattr(request.head, "raw") else "")
                    self.assertEqual(request.head.field("x-team"), "acme" if trusted else None)
                    self.assertEqual(request.head.trailers, [("x-checksum", "kept")])
                    self.assertEqual(daemon.wait_access(1)[0].get("tenant"), "acme" if trusted else None)
                    daemon.finish()


if __name__ == "__main__":
    case.main()
