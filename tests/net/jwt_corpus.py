"""Writes jwt_corpus.json: tokens that PyJWT and jwcrypto have signed, and attacks on verifiers (RFC 8725), each with
what is to come of it. The keys are new each time, and only their public parts are kept.

    python3 -m pip install pyjwt jwcrypto     # as in tests/e2e/requirements.txt
    python3 tests/net/jwt_corpus.py > tests/net/jwt_corpus.json
"""

import base64
import hashlib
import hmac
import json

import jwt as pyjwt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from jwcrypto import jwk
from jwcrypto import jwt as cryptojwt

NOW = 1_800_000_000
CLAIMS = {"iss": "https://idp.example", "aud": "gateway", "sub": "user-17", "iat": NOW - 60, "exp": NOW + 3600,
          "org": {"name": "acme"}, "scope": "llama-3 qwen-3"}
RSA = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]
CURVES = {"ES256": ("P-256", ec.SECP256R1(), hashes.SHA256(), 32), "ES384": ("P-384", ec.SECP384R1(), hashes.SHA384(), 48),
          "ES512": ("P-521", ec.SECP521R1(), hashes.SHA512(), 66)}
ORDER = {"ES256": 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551,
         "ES384": 0xffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973,
         "ES512": (1 << 521) - 0x5ae79787c40d069948033feb708f65a2fc44a36477663b851449048e16ec79bf7}

KEYS = {"rsa": jwk.JWK.generate(kty="RSA", size=2048, kid="rsa"),
        "ed": jwk.JWK.generate(kty="OKP", crv="Ed25519", kid="ed")}
for name, facts in CURVES.items():
    KEYS[name] = jwk.JWK.generate(kty="EC", crv=facts[0], kid=name)
UNKNOWN = jwk.JWK.generate(kty="RSA", size=2048, kid="rsa")
FOR_PSS = jwk.JWK.generate(kty="RSA", size=2048, kid="pss", alg="PS256", use="sig")

cases = []


def key_of(algorithm):
    return KEYS[algorithm] if algorithm in CURVES else KEYS["ed"] if algorithm == "EdDSA" else KEYS["rsa"]


def private_pem(key):
    return key.export_to_pem(private_key=True, password=None)


def text_of(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def compact(value):
    return text_of(value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode())


def sign(algorithm, message, key=None):
    """The signature in the form of RFC 7518."""
    key = pyjwt.PyJWK(json.loads((key or key_of(algorithm)).export()), algorithm)
    return key.Algorithm.sign(message.encode(), key.key)


def token(algorithm="ES256", header=None, claims=None, key=None, raw_header=None, raw_claims=None, **changed):
    body = {name: value for name, value in ((claims or CLAIMS) | changed).items() if value is not None}
    head = {"alg": algorithm, "kid": key_of(algorithm)["kid"], "typ": "JWT"} | (header or {})
    head = {name: value for name, value in head.items() if value is not None}
    signed = compact(raw_header or head) + "." + compact(raw_claims or body)
    return signed + "." + text_of(sign(algorithm, signed, key))


def add(name, text, outcome="accepted", **more):
    cases.append({"name": name, "token": text, "outcome": outcome} | more)


def add_good():
    for algorithm in [*RSA, *CURVES, "EdDSA"]:
        key = key_of(algorithm)
        add(f"PyJWT {algorithm}", pyjwt.encode(CLAIMS, private_pem(key), algorithm=algorithm, headers={"kid": key["kid"]}))
        made = cryptojwt.JWT(header={"alg": algorithm, "kid": key["kid"]}, claims=CLAIMS,
                             algs=[algorithm])
        made.make_signed_token(key)
        add(f"jwcrypto {algorithm}", made.serialize())
        add(f"{algorithm} without kid", token(algorithm, {"kid": None}))
    add("audience in a list", token(aud=["other", "gateway"]))
    add("fractions of seconds", token(exp=NOW + 0.5, iat=NOW - 0.25))
    add("within the leeway", token(exp=NOW - 29, nbf=NOW + 29, iat=NOW + 29))
    add("exponents in dates", token(raw_claims=b'{"iss":"https://idp.example","aud":"gateway","exp":1.8000036e9}'))
    add("type of an access token", token(header={"typ": "application/AT+jwt"}), type="at+jwt")


def add_claims():
    add("expired", token(exp=NOW - 30), "expired")
    add("expires now", token(exp=NOW - 30.0), "expired")
    add("without exp", token(exp=None), "malformed")
    add("exp is a text", token(exp=str(NOW + 60)), "malformed")
    add("exp is too large for a double", token(raw_claims=b'{"iss":"https://idp.example","aud":"gateway","exp":1e999}'),
        "malformed")
    add("exp is negative", token(exp=-1), "expired")
    add("exp is null", token(raw_claims=b'{"iss":"https://idp.example","aud":"gateway","exp":null}'), "malformed")
    add("not valid yet", token(nbf=NOW + 31), "not_yet_valid")
    add("nbf is a list", token(nbf=[NOW]), "malformed")
    add("issued in the future", token(iat=NOW + 3600), "not_yet_valid")
    add("iat is true", token(iat=True), "malformed")
    add("without iss", token(iss=None), "issuer")
    add("iss with a slash more", token(iss="https://idp.example/"), "issuer")
    add("iss in a list", token(iss=["https://idp.example"]), "malformed")
    add("without aud", token(aud=None), "audience")
    add("aud of another", token(aud="gateway2"), "audience")
    add("aud list of others", token(aud=["a", "b"]), "audience")
    add("aud list is empty", token(aud=[]), "audience")
    add("aud list with a number", token(aud=["gateway", 1]), "malformed")
    add("aud is an object", token(aud={"gateway": True}), "malformed")
    add("sub is a number", token(sub=17), "malformed")
    add("tenant is a number", token(org={"name": 17}), "malformed")
    add("models are an object", token(scope={"llama-3": True}), "malformed")
    add("claims twice", token(raw_claims=json.dumps(CLAIMS)[:-1].encode() + b',"sub":"admin"}'), "malformed")
    add("claims twice, once escaped", token(raw_claims=json.dumps(CLAIMS)[:-1].encode() + b',"s\\u0075b":"admin"}'),
        "malformed")
    add("claims within twice", token(raw_claims=json.dumps(CLAIMS)[:-1].encode() + b',"x":[{"a":1,"a":2}]}'), "malformed")
    add("claims are a list", token(raw_claims=json.dumps([CLAIMS]).encode()), "malformed")
    add("claims are no JSON", token(raw_claims=b"{'sub':'admin'}"), "malformed")
    add("claims are not UTF-8", token(raw_claims=json.dumps(CLAIMS)[:-1].encode() + b',"x":"\xff"}'), "malformed")
    add("claims go on after their end", token(raw_claims=json.dumps(CLAIMS).encode() + b"{}"), "malformed")


def add_given():
    def given(name, claims, tenants, models, tenant_claim="org.name", models_claim="scope"):
        add(f"given: {name}", token(claims={key: CLAIMS[key] for key in ("iss", "aud", "exp")} | claims), tenants=tenants,
            models=models, tenant_claim=tenant_claim, models_claim=models_claim)
    given("nothing", {}, [], None)
    given("null", {"org": None, "scope": None}, [], None)
    given("a list of tenants", {"org": {"name": ["acme", "beta"]}}, ["acme", "beta"], None)
    given("a tenant with spaces", {"org": {"name": "acme inc"}}, ["acme inc"], None)
    given("a path that ends early", {"org": "acme"}, [], None)
    given("a name with dots", {"https://idp.example/tenant": "acme"}, ["acme"], None, "https://idp.example/tenant")
    given("a name with dots, and within", {"a.b": {"c.d": "acme"}}, ["acme"], None, "a.b.c.d")
    given("a longer name first", {"a": {"b": "beta"}, "a.b": "acme"}, ["acme"], None, "a.b")
    given("another where the longer name ends early", {"a": {"b": {"c": "beta"}}, "a.b": "acme"}, ["beta"], None, "a.b.c")
    given("odd paths", {"": {"": "acme"}}, ["acme"], None, ".", ".x.")
    given("a list of models", {"models": ["a b", "c"]}, [], ["a b", "c"], models_claim="models")
    given("a list of no models", {"scope": []}, [], [])
    given("a text of no models", {"scope": "  "}, [], [])
    given("spaces around models", {"scope": " a  b "}, [], ["a", "b"])
    given("nothing asked for", {"scope": "a", "": "b"}, [], None, "", "")


def add_headers():
    own = jwk.JWK.generate(kty="EC", crv="P-256", kid="ES256")
    public = json.loads(own.export_public())
    add("own key as jwk", token(key=own, header={"jwk": public, "kid": None}), "signature")
    add("own key as jwk and kid", token(key=own, header={"jwk": public}), "signature")
    for field in ("jku", "x5u"):
        add(f"own key by {field}", token(key=own, header={field: "https://evil.example/keys.json"}), "signature")
    add("own key as x5c", token(key=own, header={"x5c": ["MIIB"]}), "signature")
    add("jku of a good token is ignored", token(header={"jku": "https://evil.example/keys.json"}))
    for kid in ("../../dev/null", "ES256\0", "ES256' OR 1=1 --", "", "es256"):
        add(f"kid {kid!r}", token(header={"kid": kid}), "unknown_key")
    add("kid is a number", token(header={"kid": 1}), "malformed")
    add("kid is an object", token(header={"kid": {"$ne": ""}}), "malformed")
    add("critical b64", token(header={"crit": ["b64"], "b64": False}), "critical")
    add("critical exp", token(header={"crit": ["exp"]}), "critical")
    add("critical nothing", token(header={"crit": []}), "critical")
    add("critical null", token(raw_header=b'{"alg":"ES256","kid":"ES256","crit":null}'), "critical")
    add("alg twice", token(raw_header=b'{"alg":"none","kid":"ES256","alg":"ES256"}'), "malformed")
    add("header is a list", token(raw_header=b'[{"alg":"ES256"}]'), "malformed")
    add("header is a text", token(raw_header=b'"ES256"'), "malformed")
    add("without alg", token(header={"alg": None}), "algorithm")
    add("alg in a list", token(header={"alg": ["ES256"]}), "algorithm")
    for alg in ("none", "None", "NONE", "", "es256", "ES256K", "HS256", "RSA1_5"):
        add(f"alg {alg!r} with the signature of another", token(header={"alg": alg}), "algorithm")
    add("type of no access token", token(), "type", type="at+jwt")
    add("no type where one is asked for", token(header={"typ": None}), "type", type="JWT")
    add("type is a list", token(header={"typ": ["JWT"]}), "malformed")


def add_algorithms():
    body = compact(CLAIMS)
    add("alg none without a signature", compact({"alg": "none", "kid": "rsa"}) + f".{body}.", "algorithm")
    for algorithm, digest in (("HS256", hashlib.sha256), ("HS384", hashlib.sha384), ("HS512", hashlib.sha512)):
        signed = compact({"alg": algorithm, "kid": "rsa"}) + "." + body
        for form, secret in (("PEM", KEYS["rsa"].export_to_pem()), ("JSON", KEYS["rsa"].export_public().encode())):
            mac = hmac.new(secret, signed.encode(), digest).digest()
            add(f"{algorithm} with the public key in {form} as its secret", f"{signed}.{text_of(mac)}", "algorithm")
    add("RS256 by an unknown key", token("RS256", key=UNKNOWN), "signature")
    add("RS256 as PS256", token("RS256", header={"alg": "PS256"}), "signature")
    add("PS256 as RS256", token("PS256", header={"alg": "RS256"}), "signature")
    add("PS384 as PS256", token("PS384", header={"alg": "PS256"}), "signature")
    add("ES256 as ES384", token("ES256", header={"alg": "ES384"}), "unknown_key")
    add("ES256 as ES384, with its kid", token("ES256", header={"alg": "ES384", "kid": "ES384"}), "signature")
    add("ES256 as RS256", token("ES256", header={"alg": "RS256"}), "unknown_key")
    add("EdDSA as ES256", token("EdDSA", header={"alg": "ES256"}), "unknown_key")
    add("PS256 by a key for PS256", token("PS256", header={"kid": "pss"}, key=FOR_PSS))
    add("RS256 by a key for PS256", token("RS256", header={"kid": "pss"}, key=FOR_PSS), "unknown_key")
    unusual = KEYS["rsa"].get_op_key("sign")
    signed = compact({"alg": "PS256", "kid": "rsa"}) + "." + body
    salted = unusual.sign(signed.encode(), padding.PSS(padding.MGF1(hashes.SHA256()), 20), hashes.SHA256())
    add("PS256 with a salt of another length", f"{signed}.{text_of(salted)}", "signature")
    other = unusual.sign(signed.encode(), padding.PSS(padding.MGF1(hashes.SHA1()), 32), hashes.SHA256())
    add("PS256 with another hash in its mask", f"{signed}.{text_of(other)}", "signature")


def add_signatures():
    for algorithm, (_, _, digest, size) in CURVES.items():
        signed = compact({"alg": algorithm, "kid": algorithm}) + "." + compact(CLAIMS)
        order = ORDER[algorithm]
        der = KEYS[algorithm].get_op_key("sign").sign(signed.encode(), ec.ECDSA(digest))
        r, s = decode_dss_signature(der)
        good = r.to_bytes(size, "big") + s.to_bytes(size, "big")
        add(f"{algorithm} by hand", f"{signed}.{text_of(good)}")
        bad = {"r and s 0": bytes(2 * size), "r 0": bytes(size) + good[size:], "s 0": good[:size] + bytes(size),
               "r is n": order.to_bytes(size, "big") + good[size:], "s is n": good[:size] + order.to_bytes(size, "big"),
               "all bits": b"\xff" * 2 * size, "s and r": good[size:] + good[:size], "DER": der,
               "a byte less": good[:-1], "a byte more": good + b"\0", "a byte more before": b"\0" + good,
               "zeros before each": b"\0" + good[:size] + b"\0" + good[size:], "empty": b"", "r alone": good[:size]}
        if s + order < 1 << 8 * size:
            bad["s plus n"] = good[:size] + (s + order).to_bytes(size, "big")
        for name, signature in bad.items():
            add(f"{algorithm} {name}", f"{signed}.{text_of(signature)}", "signature")
    for algorithm in ("RS256", "PS512", "EdDSA"):
        signed, _, signature = token(algorithm).rpartition(".")
        good = base64.urlsafe_b64decode(signature + "==")
        bad = {"empty": b"", "a byte less": good[:-1], "a byte more": good + b"\0", "a byte more before": b"\0" + good,
               "zeros": bytes(len(good)), "ones": b"\xff" * len(good), "a bit": good[:-1] + bytes([good[-1] ^ 1])}
        for name, changed in bad.items():
            add(f"{algorithm} {name}", f"{signed}.{text_of(changed)}", "signature")


def add_texts():
    good = token("EdDSA")
    head, body, signature = good.split(".")
    add("another payload", ".".join((head, compact(CLAIMS | {"sub": "admin"}), signature)), "signature")
    add("another header", ".".join((compact({"alg": "EdDSA", "kid": "ed"}), body, signature)), "signature")
    for name, text in {"empty": "", "dots": "..", "one part": head, "two parts": f"{head}.{body}", "four parts": good + ".",
                       "five parts": f"{good}.{head}.{body}", "space before": " " + good, "space behind": good + " ",
                       "line end behind": good + "\n", "padding": f"{head}.{body}.{signature}==",
                       "a NUL": good + "\0", "alphabet of base64": f"{head}.{body}.{signature[:-4]}+/AA",
                       "Bearer": "Bearer " + good, "no header": f".{body}.{signature}",
                       "no claims": f"{head}..{signature}"}.items():
        add(f"text: {name}", text, "malformed")
    # The last character of 64 bytes carries 4 bits that must be 0.
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    stray = letters[letters.index(signature[-1]) | 1]
    add("text: one character more", good + "A", "signature")
    add("text: stray bits", f"{head}.{body}.{signature[:-1]}{stray}", "malformed")
    add("9 KiB", token("EdDSA", x="x" * 6912), "too_long")
    add("just not 8 KiB", token("EdDSA", x="x" * 5700))


def main():
    for step in (add_good, add_claims, add_given, add_headers, add_algorithms, add_signatures, add_texts):
        step()
    keys = [json.loads(key.export_public()) for key in (*KEYS.values(), FOR_PSS)]
    lines = ",\n".join("  " + json.dumps(case) for case in cases)
    print(f'{{"now": {NOW}, "keys": {json.dumps({"keys": keys})},\n"cases": [\n{lines}\n]}}')


main()
