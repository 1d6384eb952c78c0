#include "evenkeel/net/jwk_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "evenkeel/json/value.h"
#include "net/base64url.h"
#include "net/unique_names.h"

namespace evenkeel {
namespace {

/// The numbers of private keys (RFC 7518, sections 6.2.2 and 6.3.2; RFC 8037, section 2), and the
/// secret of a shared one.
constexpr std::array<std::string_view, 8> secret_members{"d",  "p",  "q",   "dp",
                                                         "dq", "qi", "oth", "k"};
constexpr std::size_t max_id_bytes = 1024;

Error refused(std::string detail) {
  return {.fault = Fault::bad_request, .side = Side::client, .detail = std::move(detail)};
}

/// True if the key says nothing against verifying signatures. Sets have keys for other uses, too.
bool verifies_signatures(const JsonValue& key) {
  const JsonValue& use = key["use"];
  if (!use.is_null() && use.text() != "sig") return false;
  const JsonValue& operations = key["key_ops"];
  if (operations.is_null()) return true;
  return std::ranges::any_of(operations.items(),
                             [](const JsonValue& each) { return each.text() == "verify"; });
}

/// The bytes of a member; an error if it has none.
Result<std::string> bytes_of(const JsonValue& key, std::string_view name) {
  auto bytes = decode_base64url(key[name].text());
  if (!bytes || bytes->empty()) return refused(fmt::format("`{}` is not base64url", name));
  return std::move(*bytes);
}

/// Reads the key; nothing if its type or its curve is not known.
std::optional<Result<PublicKey>> public_key_of(const JsonValue& key) {
  const std::string& type = key["kty"].text();
  const std::string& curve = key["crv"].text();
  const bool is_rsa = type == "RSA";
  const bool is_edwards = type == "OKP" && curve == "Ed25519";
  constexpr std::array<std::string_view, 3> curves{"P-256", "P-384", "P-521"};
  const auto* const known = std::ranges::find(curves, curve);
  if (!is_rsa && !is_edwards && (type != "EC" || known == curves.end())) return std::nullopt;
  auto first = bytes_of(key, is_rsa ? "n" : "x");
  if (!first) return Result<PublicKey>(std::move(first.error()));
  if (is_edwards) return PublicKey::ed25519(*first);
  auto second = bytes_of(key, is_rsa ? "e" : "y");
  if (!second) return Result<PublicKey>(std::move(second.error()));
  if (is_rsa) return PublicKey::rsa(*first, *second);
  return PublicKey::ec(static_cast<Curve>(known - curves.begin()), *first, *second);
}

/// A key of the set; nothing: it is not of use here.
Result<std::optional<Jwk>> read_key(const JsonValue& key) {
  const JsonValue& id = key["kid"];
  const JsonValue& algorithm = key["alg"];
  if (!key.is_object()) return refused("not an object");
  if (key["kty"].text() == "oct") return refused("a shared secret: tokens need public keys");
  if (std::ranges::any_of(secret_members, [&](auto name) { return !key[name].is_null(); }))
    return refused("a private key: give the public part alone");
  if (!id.is_null() && !id.is_text()) return refused("`kid` is not a text");
  if (id.text().size() > max_id_bytes)
    return refused(fmt::format("`kid` has more than {} bytes", max_id_bytes));
  if (!algorithm.is_null() && !algorithm.is_text()) return refused("`alg` is not a text");

  const auto known = signature_algorithm_of(algorithm.text());
  if (!verifies_signatures(key) || (!algorithm.is_null() && !known)) return std::optional<Jwk>();
  auto read = public_key_of(key);
  if (!read) return std::optional<Jwk>();
  if (!*read) return std::move(read->error());
  Jwk made{.id = id.text(), .algorithm = known, .key = std::move(**read)};
  if (known && !made.key.fits(*known))
    return refused(fmt::format("its type is not that of `alg: {}`", to_string(*known)));
  return std::optional<Jwk>(std::move(made));
}

}  // namespace

Result<JwkSet> JwkSet::parse(std::string_view text) {
  auto set = read(text);
  if (!set) return set;
  if (!set->first_problem_.empty()) return refused(set->first_problem_);
  if (set->keys_.empty()) return refused("the key set has no key that verifies signatures");
  return set;
}

Result<JwkSet> JwkSet::parse_published(std::string_view text) { return read(text); }

Result<JwkSet> JwkSet::read(std::string_view text) {
  if (text.size() > max_bytes)
    return refused(fmt::format("the key set has more than {} KiB", max_bytes / 1024));
  auto document = parse_json(text);
  if (!document) return std::move(document.error());
  if (!has_unique_names(*document)) return refused("the key set names a member twice");
  const JsonValue& keys = (*document)["keys"];
  if (!keys.is_array()) return refused("not a key set: a JSON object with a list `keys`");
  if (keys.items().size() > max_keys)
    return refused(fmt::format("the key set has more than {} keys", max_keys));
  JwkSet set;
  for (std::size_t i = 0; i < keys.items().size(); ++i) {
    auto key = read_key(keys.items()[i]);
    if (!key) {
      if (set.first_problem_.empty())
        set.first_problem_ = fmt::format("keys[{}]: {}", i, key.error().detail);
    } else if (*key) {
      set.keys_.push_back(std::move(**key));
    }
  }
  return set;
}

}  // namespace evenkeel
