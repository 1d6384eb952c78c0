"""Tenants that signed tokens name: PyJWT's and jwcrypto's, right and wrong ones."""

import base64
import json
import pathlib
import socket
import time
import unittest

import case
from certificates import Authority, serving
from ports import refusing_address
from reloading import ReloadCase
from stream import exchange

try:
    import jwt
    from jwcrypto import jwk
except ImportError:
    jwt = None

QUIET = {"health": {"check": "off"}, "metrics": {"scrape": "off"}}
ISSUER, AUDIENCE = "https://id.example.org", "models"


def key_of(kind, kid, **parameters):
    return jwk.JWK.generate(kty=kind, kid=kid, **parameters)


@unittest.skipIf(jwt is None, "PyPI's pyjwt and jwcrypto are not installed (./dev setup)")
class TokenCase(ReloadCase):
    @classmethod
    def setUpClass(cls):
        cls.keys = {"RS256": key_of("RSA", "rsa", size=2048), "ES256": key_of("EC", "ec", crv="P-256"),
                    "EdDSA": key_of("OKP", "ed", crv="Ed25519")}
        cls.other = key_of("RSA", "rsa", size=2048)

    def token(self, algorithm="RS256", key=None, headers=None, **claims):
        key = key or self.keys[algorithm]
        payload = {"iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 600, "tenant": "acme", **claims}
        payload = {name: value for name, value in payload.items() if value is not None}
        return jwt.encode(payload, key.export_to_pem(private_key=True, password=None), algorithm,
                          headers={"kid": key["kid"], **(headers or {})})

    def ask(self, token):
        return exchange(self.served.address, "POST", "/x", [("authorization", f"Bearer {token}")], b"{}")


class Tokens(TokenCase):
    def guarded(self, **issuer):
        self.key_set = pathlib.Path(self.folder()) / "keys.json"
        self.write_keys(self.keys.values())
        self.server = self.backend()
        return self.running(self.server, pool=QUIET, tenants=[{"name": "acme"}, {"name": "beta"}],
                            auth={"jwt": [{"issuer": ISSUER, "audience": AUDIENCE, "jwks": str(self.key_set), **issuer}]})

    def write_keys(self, keys):
        self.key_set.write_text(json.dumps({"keys": [key.export_public(as_dict=True) for key in keys]}))

    def test_name_the_tenant_and_reach_no_backend(self):
        daemon = self.guarded()
        for algorithm in self.keys:
            token = self.token(algorithm)
            for _ in range(2):
                self.assertEqual(self.ask(token).status, 200, algorithm)
        self.assertEqual(self.ask(self.token(tenant=["none", "beta"])).status, 200)
        self.assertEqual([each.head.field("authorization") for each in self.server.exchanges], [None] * 7)
        lines = daemon.wait_access(7)
        self.assertEqual(sorted(line["tenant"] for line in lines), ["acme"] * 6 + ["beta"])
        shown = daemon.access_path.read_text() + "\n".join(daemon.lines)
        self.assertNotIn("eyJ", shown)

    def test_that_are_wrong_are_refused(self):
        self.guarded()
        now = time.time()
        good = self.token()
        head, body, signature = good.split(".")

        def encoded(document):
            return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()

        public = self.keys["RS256"].export_to_pem()
        wrong = {
            "another key": self.token(key=self.other), "another issuer": self.token(iss="https://evil.example"),
            "another audience": self.token(aud="mail"), "no audience": self.token(aud=None), "no end": self.token(exp=None),
            "not yet valid": self.token(nbf=now + 300), "no tenant": self.token(tenant=None),
            "an unknown tenant": self.token(tenant="gamma"), "critical": self.token(headers={"crit": ["x"], "x": 1}),
            "alg none": f"{encoded({'alg': 'none', 'kid': 'rsa'})}.{body}.",
            "another body": f"{head}.{encoded({'iss': ISSUER, 'aud': AUDIENCE, 'exp': now + 600, 'tenant': 'beta'})}.{signature}",
            "no signature": f"{head}.{body}.", "not a token": "ey.ey.ey",
            "HS256 with the public key": jwt.api_jws.PyJWS().encode(
                json.dumps({"iss": ISSUER, "aud": AUDIENCE, "exp": now + 600, "tenant": "acme"}).encode(),
                base64.b64encode(public), "HS256", headers={"kid": "rsa"}),
        }
        for what, token in wrong.items():
            answer = self.ask(token)
            self.assertEqual((answer.status, answer.field("x-evenkeel-reason")), (401, "unauthorized"), what)
        expired = self.ask(self.token(exp=now - 60))
        self.assertEqual(expired.status, 401)
        self.assertIn("has expired", json.loads(expired.body)["error"]["message"] if expired.body[:1] == b"{"
                      else expired.body.decode())
        self.assertEqual(self.server.exchanges, [])
        self.assertEqual(self.ask(good).status, 200)

    def test_count_until_they_expire(self):
        self.guarded(leeway="0s")
        token = self.token(exp=time.time() + 3)
        self.assertEqual(self.ask(token).status, 200)
        self.eventually(lambda: self.ask(token).status == 401, "the end of the token")

    def test_say_which_models_their_holder_may_use(self):
        self.guarded(models_claim="models", type="at+jwt")

        def ask(model, **claims):
            token = self.token(headers={"typ": "at+jwt"}, **claims)
            return exchange(self.served.address, "POST", "/v1/chat/completions",
                            [("authorization", f"Bearer {token}"), ("content-type", "application/json")],
                            json.dumps({"model": model, "messages": []}).encode()).status

        self.assertEqual([ask("llama-8b", models=["llama-*"]), ask("qwen", models=["llama-*"]), ask("qwen", models=[]),
                          ask("qwen", models="tiny qwen"), ask("qwen")], [200, 403, 403, 200, 200])
        self.assertEqual(self.ask(self.token()).status, 401)  # its `typ` is JWT

    def test_name_only_the_tenants_of_their_issuer(self):
        self.guarded(tenants=["beta"])
        self.assertEqual([self.ask(self.token(tenant=name)).status for name in ("beta", "acme", ["acme", "beta"])],
                         [200, 401, 200])

    def test_count_as_one_key_for_each_subject(self):
        self.guarded()
        self.config["rate_limits"] = [{"by": "key", "requests": "1/day"}]
        self.reload()
        statuses = [self.ask(self.token(sub=subject)).status for subject in ("ann", "ann", "ben", "ben")]
        self.assertEqual(statuses, [200, 429, 200, 429])

    def test_follow_the_keys_of_a_reload(self):
        daemon = self.guarded()
        token = self.token()
        self.assertEqual(self.ask(token).status, 200)
        self.write_keys([self.other, self.keys["ES256"]])
        self.reload()
        self.assertEqual(self.ask(token).status, 401)
        self.assertEqual(self.ask(self.token(key=self.other)).status, 200)
        self.key_set.write_text("{}")
        self.assertIn("jwks", self.refused())
        self.assertEqual(self.ask(self.token(key=self.other)).status, 200)
        self.assertEqual(daemon.metric("evenkeel_config_last_reload_successful"), 0)

    def test_need_keys_that_can_be_read(self):
        self.guarded()
        private = pathlib.Path(self.folder()) / "private.json"
        private.write_text(json.dumps({"keys": [self.keys["ES256"].export(as_dict=True)]}))
        for jwks, told in (("http://id.example.org/jwks", "no https:// URL"), ("/nonexistent/keys.json", "No such file"),
                           (str(private), "private key")):
            self.config["auth"]["jwt"][0]["jwks"] = jwks
            self.assertIn(told, self.refused())
        self.config["auth"]["jwt"][0].update(jwks=str(self.key_set), ca=str(private))
        self.assertIn("'ca' is for a URL", self.refused())


class Fetched(TokenCase):
    """With keys that are fetched from a server of the issuer."""

    def setUp(self):
        self.authority = Authority(self.folder())
        self.answer = None  # of the issuer; None: its keys
        self.published = [*self.keys.values()]
        self.issuer = self.backend(self.serve, tls=serving(self.authority.issue("127.0.0.1")))

    def serve(self, request):
        if self.answer is not None:
            return self.answer(request)
        return request.answer(self.document(self.published), fields=[("content-type", "application/json")])

    @staticmethod
    def document(keys):
        return json.dumps({"keys": [key.export_public(as_dict=True) for key in keys]}).encode()

    def fetching(self, **more):
        self.server = self.backend()
        return self.running(self.server, pool=QUIET, tenants=[{"name": "acme"}, {"name": "beta"}],
                            auth={"jwt": [{"issuer": ISSUER, "audience": AUDIENCE, "ca": self.authority.cert,
                                           "jwks": f"https://{self.issuer.address}/keys.json?secret=s3cr3t", **more}]})

    def fetched(self, daemon, result="ok"):
        return daemon.metric("evenkeel_key_set_fetches_total", issuer=ISSUER, result=result)

    def test_count_from_the_start(self):
        daemon = self.fetching()
        self.assertEqual(self.ask(self.token()).status, 200)
        self.assertEqual(self.ask(self.token(key=self.other)).status, 401)
        self.assertEqual(self.issuer.exchanges[0].target, "/keys.json?secret=s3cr3t")
        self.assertEqual(daemon.metric("evenkeel_key_set_last_fetch_successful"), 1)
        self.assertLess(daemon.metric("evenkeel_key_set_age_seconds"), 60)
        shown = "\n".join(daemon.lines) + daemon.ask_admin("/metrics").body.decode()
        self.assertNotIn("s3cr3t", shown)

    def test_follow_the_keys_that_the_issuer_changes(self):
        self.fetching(refresh="1s")
        token = self.token()
        self.assertEqual(self.ask(token).status, 200)
        self.published = [self.other, self.keys["ES256"]]
        self.eventually(lambda: self.ask(token).status == 401, "the end of a withdrawn key, also for a token that was verified")
        self.assertEqual(self.ask(self.token(key=self.other)).status, 200)
        self.assertEqual(self.ask(self.token("ES256")).status, 200)

    def test_follow_a_set_with_odd_keys_and_one_without_keys(self):
        daemon = self.fetching(refresh="1s")
        self.assertEqual(self.ask(self.token()).status, 200)
        self.answer = lambda request: request.answer(json.dumps(
            {"keys": [{"kty": "oct", "k": "AQ"}, self.keys["ES256"].export_public(as_dict=True)]}).encode())
        self.eventually(lambda: self.ask(self.token()).status == 401, "the end of a key that is withdrawn")
        self.assertEqual(self.ask(self.token("ES256")).status, 200)
        daemon.wait_line(r"cannot be used are left out: keys\[0\]: a shared secret")
        self.answer = lambda request: request.answer(b'{"keys": []}')
        self.eventually(lambda: self.ask(self.token("ES256")).status == 401, "the end of all keys")
        self.answer = None
        self.published = [*self.keys.values()]
        self.eventually(lambda: self.ask(self.token()).status == 200, "the keys")

    def test_with_an_unknown_key_have_the_keys_fetched_but_not_often(self):
        daemon = self.fetching(refresh="24h")
        self.assertEqual(self.ask(self.token()).status, 200)
        new = key_of("EC", "new", crv="P-256")
        self.published.append(new)
        began = time.monotonic()
        for number in range(50):
            self.assertEqual(self.ask(self.token(headers={"kid": f"unknown-{number}"})).status, 401)
        self.assertEqual(self.fetched(daemon), 1)
        self.eventually(lambda: self.ask(self.token("ES256", key=new)).status == 200, "the new key", within=60, interval=0.5)
        self.assertGreater(time.monotonic() - began, 20)
        self.assertEqual(self.fetched(daemon), 2)

    def test_with_a_key_that_is_late_are_taken_as_soon_as_it_is_there(self):
        self.fetching(refresh="24h")
        self.assertEqual(self.ask(self.token()).status, 200)
        late = self.token("ES256", key=(new := key_of("EC", "new", crv="P-256")))
        self.assertEqual(self.ask(late).status, 401)
        self.eventually(lambda: len(self.issuer.exchanges) == 2, "a fetch for an unknown key", within=60)
        self.published.append(new)
        self.eventually(lambda: self.ask(late).status == 200, "another fetch", within=60, interval=0.5)

    def test_count_on_while_the_issuer_is_away(self):
        daemon = self.fetching(refresh="1s")
        self.assertEqual(self.ask(self.token()).status, 200)
        for answer in (lambda request: request.answer(b"<html>maintenance</html>"),
                       lambda request: request.answer(b"oops", status=500),
                       lambda request: request.answer(b'{"keys": {}}'),
                       lambda request: request.answer(b" " * 300_000 + self.document(self.published)),
                       lambda request: request.answer(b"", status=302, fields=[("location", f"https://{self.issuer.address}/x")]),
                       lambda request: request.abort()):
            self.answer = answer
            before = self.fetched(daemon, "failed")
            self.eventually(lambda before=before: self.fetched(daemon, "failed") > before, "a failed fetch")
            self.assertEqual(daemon.metric("evenkeel_key_set_last_fetch_successful"), 0)
            self.assertEqual(self.ask(self.token()).status, 200)
            self.answer = None
            before = self.fetched(daemon)
            self.eventually(lambda before=before: self.fetched(daemon) > before, "a fetch")
        self.assertEqual({each.target for each in self.issuer.exchanges}, {"/keys.json?secret=s3cr3t"}, "no redirect")
        told = "\n".join(daemon.lines)
        for text in ("is no key set", "status 500", "status 302, and redirects are not followed", "those fetched last count on"):
            self.assertIn(text, told)

    def test_of_an_issuer_that_is_away_at_the_start_are_refused_until_it_is_there(self):
        self.answer = lambda request: request.answer(b"not yet", status=503)
        daemon = self.fetching()
        refused = self.ask(self.token())
        self.assertEqual(refused.status, 401)
        self.assertIn("not been fetched yet", refused.body.decode())
        daemon.wait_line("tokens of this issuer are refused until they can")
        self.answer = None
        self.eventually(lambda: self.ask(self.token()).status == 200, "the keys")
        self.assertEqual(self.ask(self.token(tenant="beta")).status, 200)

    def test_of_one_issuer_wait_for_no_other(self):
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        away = {"issuer": "https://away.example.org", "audience": AUDIENCE, "jwks": f"https://0.0.0.0:{silent.getsockname()[1]}/k"}
        good = {"issuer": ISSUER, "audience": AUDIENCE, "ca": self.authority.cert, "jwks": f"https://{self.issuer.address}/keys.json"}
        daemon = self.running(self.backend(), pool=QUIET, tenants=[{"name": "acme"}], auth={"jwt": [away, good]})
        self.assertEqual(self.ask(self.token()).status, 200)
        self.assertEqual(self.fetched(daemon), 1)
        self.assertEqual(daemon.metric("evenkeel_key_set_fetches_total", issuer=away["issuer"], result="failed"), 0)
        self.assertEqual(daemon.stop(), 0)

    def test_of_a_server_without_a_right_certificate_or_without_an_answer_are_refused(self):
        daemon = self.fetching(ca=Authority(self.folder()).cert)
        self.assertEqual(self.ask(self.token()).status, 401)
        daemon.wait_line("keys cannot be fetched from https://.*certificate verify failed")
        self.config["auth"]["jwt"][0]["ca"] = self.authority.cert
        self.reload()
        self.eventually(lambda: self.ask(self.token()).status == 200, "the keys")
        self.config["auth"]["jwt"][0]["jwks"] = f"https://{refusing_address()}/keys.json"
        self.reload()
        self.assertEqual(self.ask(self.token()).status, 401)
        self.config["auth"]["jwt"][0]["jwks"] = f"https://{self.issuer.address}/keys.json"
        self.reload()
        self.assertEqual(self.ask(self.token()).status, 200)
        self.assertEqual(self.issuer.exchanges[-1].target, "/keys.json")


if __name__ == "__main__":
    case.main()
