#include "evenkeel/net/jwt.h"

#include <algorithm>
#include <array>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "net/base64url.h"
#include "net/unique_names.h"

namespace evenkeel {
namespace {

constexpr std::array<std::string_view, jwt_refusal_count> texts{
    "the token is too long",
    "not a well-formed token",
    "the token's algorithm is not allowed",
    "the token has a critical extension",
    "the token is of another type",
    "the keys of the token's issuer are not there yet",
    "the token is signed by an unknown key",
    "the token's signature is wrong",
    "the token is of another issuer",
    "the token is for another audience",
    "the token has expired",
    "the token is not valid yet",
};

/// The JSON object in a part of a token.
std::optional<JsonValue> object_in(std::string_view part) {
  const auto text = decode_base64url(part);
  if (!text) return std::nullopt;
  auto document = parse_json(*text);
  if (!document || !document->is_object() || !has_unique_names(*document)) return std::nullopt;
  return std::move(*document);
}

bool is_absent_or_text(const JsonValue& value) { return value.is_null() || value.is_text(); }

/// The media type as RFC 7515, section 4.1.9, compares it.
std::string media_type(std::string_view text) {
  constexpr std::string_view prefix = "application/";
  const std::string lower = lower_case(text);
  return lower.starts_with(prefix) ? lower.substr(prefix.size()) : lower;
}

/// A text, or the texts of a list; nothing if it is neither.
std::optional<std::vector<std::string>> texts_of(const JsonValue& value) {
  if (value.is_text()) return std::vector<std::string>{value.text()};
  if (!value.is_array()) return std::nullopt;
  std::vector<std::string> all;
  for (const JsonValue& item : value.items()) {
    if (!item.is_text()) return std::nullopt;
    all.push_back(item.text());
  }
  return all;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

/// The claim at a path; null if there is none. Names with dots, as in "https://example.com/tenant",
/// go before objects in objects.
const JsonValue* claim_at(const JsonValue& claims, std::string_view path) {
  for (std::size_t dot = path.size();; dot = path.rfind('.', dot - 1)) {
    if (dot == path.npos) return nullptr;
    const JsonValue& found = claims[path.substr(0, dot)];
    const JsonValue* claim = &found;
    if (dot < path.size() && !found.is_null()) claim = claim_at(found, path.substr(dot + 1));
    if (claim != nullptr && !claim->is_null()) return claim;
    if (dot == 0) return nullptr;
  }
}

/// Reads a NumericDate; false if the claim is of another type.
bool read_date(const JsonValue& claim, std::optional<double>& date) {
  if (claim.is_null()) return true;
  date = claim.number();
  return date.has_value();
}

/// Adds what the rules ask for; false if a claim is of another type.
bool read_claims(const JsonValue& payload, const JwtRules& rules, JwtClaims& claims) {
  if (!is_absent_or_text(payload["sub"])) return false;
  claims.issuer = rules.issuer;
  claims.subject = payload["sub"].text();
  claims.expires = payload["exp"].number().value_or(0);
  const auto* const tenant =
      rules.tenant_claim.empty() ? nullptr : claim_at(payload, rules.tenant_claim);
  if (tenant != nullptr) {
    auto tenants = texts_of(*tenant);
    if (!tenants) return false;
    claims.tenants = std::move(*tenants);
    std::erase_if(claims.tenants, [&rules](const std::string& name) {
      return !rules.tenants.empty() &&
             std::ranges::find(rules.tenants, name) == rules.tenants.end();
    });
  }
  const auto* const models =
      rules.models_claim.empty() ? nullptr : claim_at(payload, rules.models_claim);
  if (models == nullptr) return true;
  claims.models = models->is_text() ? words_of(models->text()) : texts_of(*models);
  return claims.models.has_value();
}

}  // namespace

std::string_view to_string(JwtRefusal refusal) { return texts[static_cast<std::size_t>(refusal)]; }

std::variant<Jwt, JwtRefusal> Jwt::parse(std::string_view text) {
  if (text.size() > max_bytes) return JwtRefusal::too_long;
  const std::size_t first_dot = text.find('.');
  const std::size_t last_dot = text.rfind('.');
  if (first_dot == last_dot) return JwtRefusal::malformed;
  Jwt jwt;
  jwt.signed_text_ = text.substr(0, last_dot);
  auto header = object_in(text.substr(0, first_dot));
  auto payload = object_in(text.substr(first_dot + 1, last_dot - first_dot - 1));
  auto signature = decode_base64url(text.substr(last_dot + 1));
  if (!header || !payload || !signature) return JwtRefusal::malformed;
  jwt.header_ = std::move(*header);
  jwt.payload_ = std::move(*payload);
  jwt.signature_ = std::move(*signature);
  const auto algorithm = signature_algorithm_of(jwt.header_["alg"].text());
  if (!algorithm) return JwtRefusal::algorithm;
  jwt.algorithm_ = *algorithm;
  return jwt;
}

std::variant<JwtClaims, JwtRefusal> Jwt::verify(const JwkSet& keys, const JwtRules& rules,
                                                double now) const {
  if (const auto refusal = check_header(rules)) return *refusal;
  if (const auto refusal = check_signature(keys)) return *refusal;
  if (const auto refusal = check_claims(rules, now)) return *refusal;
  JwtClaims claims;
  if (!read_claims(payload_, rules, claims)) return JwtRefusal::malformed;
  return claims;
}

std::optional<JwtRefusal> Jwt::check_header(const JwtRules& rules) const {
  const auto is_named = [](std::string_view name) {
    return [name](const JsonValue::Member& member) { return member.first == name; };
  };
  if (std::ranges::any_of(header_.members(), is_named("crit"))) return JwtRefusal::critical;
  const JsonValue& type = header_["typ"];
  if (!is_absent_or_text(type)) return JwtRefusal::malformed;
  const bool fits = rules.type.empty() || media_type(type.text()) == media_type(rules.type);
  return fits ? std::nullopt : std::optional(JwtRefusal::type);
}

/// Keys come from the set alone: what the header has of them (`jwk`, `jku`, `x5c`, `x5u`) is of the
/// one that wrote the token.
std::optional<JwtRefusal> Jwt::check_signature(const JwkSet& keys) const {
  const JsonValue& id = header_["kid"];
  if (!is_absent_or_text(id)) return JwtRefusal::malformed;
  std::size_t tried = 0;
  for (const Jwk& each : keys.keys()) {
    const bool is_named = id.is_null() || (!each.id.empty() && each.id == id.text());
    if (!is_named || !each.fits(algorithm_)) continue;
    if (tried++ == max_tried_keys) break;
    if (each.key.verifies(algorithm_, signed_text_, signature_)) return std::nullopt;
  }
  return tried == 0 ? JwtRefusal::unknown_key : JwtRefusal::signature;
}

std::optional<JwtRefusal> Jwt::check_claims(const JwtRules& rules, double now) const {
  std::optional<double> expires;
  std::optional<double> begins;
  std::optional<double> issued;
  const bool are_dates = read_date(payload_["exp"], expires) &&
                         read_date(payload_["nbf"], begins) && read_date(payload_["iat"], issued);
  const JsonValue& issuer = payload_["iss"];
  const JsonValue& audience = payload_["aud"];
  const auto audiences = texts_of(audience);
  if (!are_dates || !expires || !is_absent_or_text(issuer) || (!audience.is_null() && !audiences))
    return JwtRefusal::malformed;
  if (!issuer.is_text() || issuer.text() != rules.issuer) return JwtRefusal::issuer;
  const auto is_ours = [&](const std::string& name) {
    return std::ranges::find(rules.audiences, name) != rules.audiences.end();
  };
  if (!rules.audiences.empty() && (!audiences || std::ranges::none_of(*audiences, is_ours)))
    return JwtRefusal::audience;
  const auto leeway = static_cast<double>(rules.leeway.count());
  if (now >= *expires + leeway) return JwtRefusal::expired;
  const auto is_future = [&](const std::optional<double>& date) {
    return date && now < *date - leeway;
  };
  if (is_future(begins) || is_future(issued)) return JwtRefusal::not_yet_valid;
  return std::nullopt;
}

std::variant<JwtClaims, JwtRefusal> verify_jwt(std::string_view token, const JwkSet& keys,
                                               const JwtRules& rules, double now) {
  auto parsed = Jwt::parse(token);
  if (const auto* refusal = std::get_if<JwtRefusal>(&parsed)) return *refusal;
  return std::get<Jwt>(parsed).verify(keys, rules, now);
}

}  // namespace evenkeel
