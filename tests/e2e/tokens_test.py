"""Tenants that signed tokens name: PyJWT's and jwcrypto's, right and wrong ones."""

import base64
import json
import pathlib
import time
import unittest

import case
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
class Tokens(ReloadCase):
    @classmethod
    def setUpClass(cls):
        cls.keys = {"RS256": key_of("RSA", "rsa", size=2048), "ES256": key_of("EC", "ec", crv="P-256"),
                    "EdDSA": key_of("OKP", "ed", crv="Ed25519")}
        cls.other = key_of("RSA", "rsa", size=2048)

    def guarded(self, **issuer):
        self.key_set = pathlib.Path(self.folder()) / "keys.json"
        self.write_keys(self.keys.values())
        self.server = self.backend()
        return self.running(self.server, pool=QUIET, tenants=[{"name": "acme"}, {"name": "beta"}],
                            auth={"jwt": [{"issuer": ISSUER, "audience": AUDIENCE, "jwks": str(self.key_set), **issuer}]})

    def write_keys(self, keys):
        self.key_set.write_text(json.dumps({"keys": [key.export_public(as_dict=True) for key in keys]}))

    def token(self, algorithm="RS256", key=None, headers=None, **claims):
        key = key or self.keys[algorithm]
        payload = {"iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 600, "tenant": "acme", **claims}
        payload = {name: value for name, value in payload.items() if value is not None}
        return jwt.encode(payload, key.export_to_pem(private_key=True, password=None), algorithm,
                          headers={"kid": key["kid"], **(headers or {})})

    def ask(self, token):
        return exchange(self.served.address, "POST", "/x", [("authorization", f"Bearer {token}")], b"{}")

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
        for jwks, told in (("https://id.example.org/jwks", "not fetched"), ("/nonexistent/keys.json", "No such file"),
                           (str(private), "private key")):
            self.config["auth"]["jwt"][0]["jwks"] = jwks
            self.assertIn(told, self.refused())


if __name__ == "__main__":
    case.main()
