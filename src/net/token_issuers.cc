#include "evenkeel/net/token_issuers.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "evenkeel/base/file.h"

namespace evenkeel {
namespace {

Result<JwkSet> read_keys(const std::string& file) {
  const auto text = read_file(file, JwkSet::max_bytes);
  if (const auto* const error = std::get_if<FileError>(&text)) return Error{.detail = error->why};
  auto keys = JwkSet::parse(std::get<std::string>(text));
  if (!keys) keys.error().detail = "has no usable keys: " + keys.error().detail;
  return keys;
}

}  // namespace

std::optional<std::string> TokenIssuers::problem_of(const std::string& jwks) {
  auto keys = read_keys(jwks);
  return keys ? std::nullopt : std::optional(std::move(keys.error().detail));
}

Result<std::shared_ptr<const TokenIssuers>> TokenIssuers::read(
    const std::vector<TokenIssuerConfig>& configs) {
  auto issuers = std::make_shared<TokenIssuers>();
  for (const TokenIssuerConfig& config : configs) {
    auto keys = read_keys(config.jwks);
    if (!keys) {
      keys.error().detail = "auth.jwt: '" + config.jwks + "' " + keys.error().detail;
      return std::move(keys.error());
    }
    issuers->issuers_.push_back(
        {.rules = {.issuer = config.issuer,
                   .audiences = config.audience,
                   .type = config.type,
                   .leeway = std::chrono::ceil<std::chrono::seconds>(config.leeway),
                   .tenant_claim = config.tenant_claim,
                   .models_claim = config.models_claim},
         .keys = std::move(*keys)});
  }
  return std::shared_ptr<const TokenIssuers>(std::move(issuers));
}

std::variant<JwtClaims, JwtRefusal> TokenIssuers::verify(std::string_view token, double now) const {
  const auto parsed = Jwt::parse(token);
  if (const auto* const refusal = std::get_if<JwtRefusal>(&parsed)) return *refusal;
  const Jwt& jwt = std::get<Jwt>(parsed);
  const auto issuer = std::ranges::find_if(
      issuers_, [&](const Issuer& each) { return each.rules.issuer == jwt.claimed_issuer(); });
  if (issuer == issuers_.end()) return JwtRefusal::issuer;
  auto verified = jwt.verify(issuer->keys, issuer->rules, now);
  if (auto* const claims = std::get_if<JwtClaims>(&verified))
    claims->expires += static_cast<double>(issuer->rules.leeway.count());
  return verified;
}

}  // namespace evenkeel
