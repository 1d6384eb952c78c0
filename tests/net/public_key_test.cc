#include "evenkeel/net/public_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>

#include <string>

#include "evenkeel/net/jwk_set.h"
#include "net/base64url.h"

namespace evenkeel {
namespace {

using testing::HasSubstr;

struct Vector {
  const char* source;
  SignatureAlgorithm algorithm;
  const char* key;
  std::string_view token;
};

// The examples of the standards.
constexpr Vector vectors[] = {
    {"RFC 7515, A.2", SignatureAlgorithm::rs256,
     "{\"kty\":\"RSA\",\"n\":\"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-"
     "Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_"
     "7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb"
     "3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FR"
     "WyuXpoQ\",\"e\":\"AQAB\"}",
     "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmN"
     "vbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuH"
     "Im4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK"
     "5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7no"
     "OPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"},
    {"RFC 7515, A.3", SignatureAlgorithm::es256,
     "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\",\""
     "y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}",
     "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmN"
     "vbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQ"
     "xfKTUJqPP3-Kg6NU1Q"},
    {"RFC 7520, 4.1", SignatureAlgorithm::rs256,
     "{\"kty\":\"RSA\",\"n\":\"n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojd"
     "NhxJWTDvNd7nqQ0VEiZQHz_AJmSCpMaJMRBSFKrKb2wqVwGU_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3"
     "RBordaZ6Aj-oBHqFEHYpPe7Tpe-OfVfHd1E6cS6M1FZcD1NNLYD5lFHpPI9bTwJlsde3uhGqC0ZCuEHg8lhzwOHrtI"
     "QbS0FVbb9k3-tVTU4fg_3L_vniUFAKwuCLqKnS2BYwdq_mzSnbLY7h_qixoR7jig3__kRhuaxwUkRz5iaiQkqgc5gH"
     "drNP5zw\",\"e\":\"AQAB\"}",
     "eyJhbGciOiJSUzI1NiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9.SXTigJlzIGEgZGFuZ2V"
     "yb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN0ZXAgb250byB0aGUgcm9hZCwgYW5"
     "kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dpbmcgd2hlcmUgeW91IG1pZ2h0IGJ"
     "lIHN3ZXB0IG9mZiB0by4.MRjdkly7_-oTPTS3AXP41iQIGKa80A0ZmTuV5MEaHoxnW2e5CZ5NlKtainoFmKZopdHM1O2"
     "U4mwzJdQx996ivp83xuglII7PNDi84wnB-BDkoBwA78185hX-Es4JIwmDLJK3lfWRa-XtL0RnltuYv746iYTh_qHRD68"
     "BNt1uSNCrUCTJDt5aAE6x8wW1Kt9eRo4QPocSadnHXFxnt8Is9UzpERV0ePPQdLuW3IS_de3xyIrDaLGdjluPxUAhb6L"
     "2aXic1U12podGU0KLUQSE_oI-ZnmKJ3F4uOZDnd6QZWJushZ41Axf_fcIe8u9ipH84ogoree7vjbU5y18kDquDg"},
    {"RFC 7520, 4.2", SignatureAlgorithm::ps384,
     "{\"kty\":\"RSA\",\"n\":\"n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojd"
     "NhxJWTDvNd7nqQ0VEiZQHz_AJmSCpMaJMRBSFKrKb2wqVwGU_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3"
     "RBordaZ6Aj-oBHqFEHYpPe7Tpe-OfVfHd1E6cS6M1FZcD1NNLYD5lFHpPI9bTwJlsde3uhGqC0ZCuEHg8lhzwOHrtI"
     "QbS0FVbb9k3-tVTU4fg_3L_vniUFAKwuCLqKnS2BYwdq_mzSnbLY7h_qixoR7jig3__kRhuaxwUkRz5iaiQkqgc5gH"
     "drNP5zw\",\"e\":\"AQAB\"}",
     "eyJhbGciOiJQUzM4NCIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9.SXTigJlzIGEgZGFuZ2V"
     "yb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN0ZXAgb250byB0aGUgcm9hZCwgYW5"
     "kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dpbmcgd2hlcmUgeW91IG1pZ2h0IGJ"
     "lIHN3ZXB0IG9mZiB0by4.cu22eBqkYDKgIlTpzDXGvaFfz6WGoz7fUDcfT0kkOy42miAh2qyBzk1xEsnk2IpN6-tPid6"
     "VrklHkqsGqDqHCdP6O8TTB5dDDItllVo6_1OLPpcbUrhiUSMxbbXUvdvWXzg-UD8biiReQFlfz28zGWVsdiNAUf8ZnyP"
     "EgVFn442ZdNqiVJRmBqrYRXe8P_ijQ7p8Vdz0TTrxUeT3lm8d9shnr2lfJT8ImUjvAA2Xez2Mlp8cBE5awDzT0qI0n6u"
     "iP1aCN_2_jLAeQTlqRHtfa64QQSUmFAAjVKPbByi7xho0uTOcbH510a6GYmJUAfmWjwZ6oD4ifKo8DYM-X72Eaw"},
    {"RFC 7520, 4.3", SignatureAlgorithm::es512,
     "{\"kty\":\"EC\",\"crv\":\"P-521\",\"x\":\"AHKZLLOsCOzz5cY97ewNUajB957y-C-U88c3v13nmGZx6sYl"
     "_oJXu9A5RkTKqjqvjyekWF-7ytDyRXYgCF5cj0Kt\",\"y\":\"AdymlHvOiLxXkEhayXQnNCvDX4h9htZaCJN34kf"
     "mC6pV5OhQHiraVySsUdaQkAgDPrwQrJmbnX9cwlGfP-HqHZR1\"}",
     "eyJhbGciOiJFUzUxMiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9.SXTigJlzIGEgZGFuZ2V"
     "yb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN0ZXAgb250byB0aGUgcm9hZCwgYW5"
     "kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dpbmcgd2hlcmUgeW91IG1pZ2h0IGJ"
     "lIHN3ZXB0IG9mZiB0by4.AE_R_YZCChjn4791jSQCrdPZCNYqHXCTZH0-JZGYNlaAjP2kqaluUIIUnC9qvbu9Plon7KR"
     "TzoNEuT4Va2cmL1eJAQy3mtPBu_u_sDDyYjnAMDxXPn7XrT0lw-kvAD890jl8e2puQens_IEKBpHABlsbEPX6sFY8OcG"
     "DqoRuBomu9xQ2"},
    {"RFC 8037, A.4", SignatureAlgorithm::eddsa,
     "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\""
     "}",
     "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvM"
     "g3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"},
};

Jwk key_of(const Vector& vector) {
  auto set = JwkSet::parse(R"({"keys":[)" + std::string(vector.key) + "]}");
  EXPECT_TRUE(set.ok()) << vector.source << ": " << set.error().detail;
  return set->keys().front();
}

TEST(PublicKey, VerifiesTheExamplesOfTheStandards) {
  for (const Vector& vector : vectors) {
    const std::size_t dot = vector.token.rfind('.');
    const auto signature = decode_base64url(vector.token.substr(dot + 1));
    const Jwk jwk = key_of(vector);
    ASSERT_TRUE(signature);
    ASSERT_TRUE(jwk.fits(vector.algorithm)) << vector.source;

    EXPECT_TRUE(jwk.key.verifies(vector.algorithm, vector.token.substr(0, dot), *signature))
        << vector.source;
    EXPECT_FALSE(jwk.key.verifies(vector.algorithm, vector.token.substr(0, dot - 1), *signature))
        << vector.source;
    std::string changed = *signature;
    changed[changed.size() / 2] ^= 1;
    EXPECT_FALSE(jwk.key.verifies(vector.algorithm, vector.token.substr(0, dot), changed))
        << vector.source;
  }
}

TEST(PublicKey, LeavesNoErrorBehindForTheNextConnection) {
  for (const Vector& vector : vectors) {
    EXPECT_FALSE(key_of(vector).key.verifies(vector.algorithm, "message", "signature"));
    EXPECT_EQ(ERR_peek_error(), 0U) << vector.source;
  }
  EXPECT_FALSE(PublicKey::ec(Curve::p256, std::string(32, 'x'), std::string(32, 'y')));
  EXPECT_EQ(ERR_peek_error(), 0U);
}

TEST(PublicKey, FitsTheAlgorithmsOfItsKind) {
  const auto fits = [](const Vector& vector) {
    std::string names;
    for (std::size_t i = 0; i < signature_algorithm_count; ++i) {
      const auto algorithm = static_cast<SignatureAlgorithm>(i);
      if (key_of(vector).fits(algorithm)) names += std::string(to_string(algorithm)) + " ";
    }
    return names;
  };
  EXPECT_EQ(fits(vectors[0]), "RS256 RS384 RS512 PS256 PS384 PS512 ");
  EXPECT_EQ(fits(vectors[1]), "ES256 ");
  EXPECT_EQ(fits(vectors[4]), "ES512 ");
  EXPECT_EQ(fits(vectors[5]), "EdDSA ");
}

TEST(PublicKey, AlgorithmsHaveTheNamesOfTheRegistry) {
  EXPECT_EQ(signature_algorithm_of("EdDSA"), SignatureAlgorithm::eddsa);
  for (std::size_t i = 0; i < signature_algorithm_count; ++i) {
    const auto algorithm = static_cast<SignatureAlgorithm>(i);
    EXPECT_EQ(signature_algorithm_of(to_string(algorithm)), algorithm);
  }
  for (const char* name : {"none", "None", "HS256", "HS384", "HS512", "rs256", "ES256K", ""})
    EXPECT_FALSE(signature_algorithm_of(name)) << name;
}

TEST(PublicKey, RefusesWeakNumbersOfRsa) {
  const auto refusal = [](const std::string& modulus, const std::string& exponent) {
    auto key = PublicKey::rsa(modulus, exponent);
    return key ? std::string("none") : key.error().detail;
  };
  const std::string good = "\x80" + std::string(254, 'x') + "\x01";
  const std::string usual("\x01\x00\x01", 3);
  EXPECT_EQ(refusal(good, usual), "none");
  EXPECT_THAT(refusal("\x7f" + good.substr(1), usual), HasSubstr("the key has 2047 bits"));
  EXPECT_THAT(refusal(good.substr(128), usual), HasSubstr("bits, at least 2048 are safe"));
  EXPECT_THAT(refusal("\x01" + std::string(1023, 'x') + "\x01", usual),
              HasSubstr("the key has 8193 bits, at most 8192"));
  EXPECT_THAT(refusal(good.substr(0, 255) + "\x02", usual),
              HasSubstr("modulus of the key is even"));
  EXPECT_THAT(refusal(std::string(1, '\0') + good, usual), HasSubstr("begins with zeros"));
  EXPECT_THAT(refusal("", usual), HasSubstr("empty"));
  EXPECT_THAT(refusal(good, ""), HasSubstr("empty"));
  for (const char* exponent : {"\x01", "\x02", "\x01\x01\x01\x01\x01"})
    EXPECT_THAT(refusal(good, exponent), HasSubstr("not an odd number from 3"));
}

TEST(PublicKey, RefusesWhatIsNoPoint) {
  const auto refusal = [](Curve curve, const std::string& x, const std::string& y) {
    auto key = PublicKey::ec(curve, x, y);
    return key ? std::string("none") : key.error().detail;
  };
  EXPECT_EQ(refusal(Curve::p256, std::string(32, '\0'), std::string(32, '\0')),
            "not a point of P-256");
  EXPECT_EQ(refusal(Curve::p384, std::string(48, '\xff'), std::string(48, '\xff')),
            "not a point of P-384");
  EXPECT_EQ(refusal(Curve::p521, std::string(65, 'x'), std::string(66, 'y')),
            "a coordinate of P-521 has 66 bytes");
  EXPECT_FALSE(PublicKey::ed25519(std::string(31, 'x')));
  EXPECT_FALSE(PublicKey::ed25519(std::string(33, 'x')));
}

TEST(Base64Url, HasOneTextForEachBytes) {
  EXPECT_EQ(decode_base64url(""), "");
  EXPECT_EQ(decode_base64url("Zg"), "f");
  EXPECT_EQ(decode_base64url("Zm8"), "fo");
  EXPECT_EQ(decode_base64url("Zm9v"), "foo");
  EXPECT_EQ(decode_base64url("-_8"), "\xfb\xff");
  for (const char* bad :
       {"Z", "Zm9vZ", "Zh", "Zm9", "Zg==", "Zg=", "+/8", "Zm 9v", "Zm9v\n", "Zm9\xc3"})
    EXPECT_FALSE(decode_base64url(bad)) << bad;
}

}  // namespace
}  // namespace evenkeel
