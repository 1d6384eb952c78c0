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
    std::shared_ptr<const JwkSet> keys;
    if (!config.fetches_keys()) {
      auto read = read_keys(config.jwks);
      if (!read) {
        read.error().detail = "auth.jwt: '" + config.jwks + "' " + read.error().detail;
        return std::move(read.error());
      }
      keys = std::make_shared<const JwkSet>(std::move(*read));
    }
    issuers->issuers_.push_back(
        {.rules = {.issuer = config.issuer,
                   .audiences = config.audience,
                   .type = config.type,
                   .leeway = std::chrono::ceil<std::chrono::seconds>(config.leeway),
                   .tenant_claim = config.tenant_claim,
                   .tenants = config.tenants,
                   .models_claim = config.models_claim},
         .keys = std::move(keys),
         .url = config.fetches_keys() ? config.jwks : std::string(),
         .lacks_key = std::make_shared<std::atomic<bool>>(false)});
  }
  return std::shared_ptr<const TokenIssuers>(std::move(issuers));
}

std::shared_ptr<const TokenIssuers> TokenIssuers::with(const KeySets& fetched) const {
  auto issuers = std::make_shared<TokenIssuers>(*this);
  for (Issuer& each : issuers->issuers_) {
    const auto found = fetched.find(each.url);
    if (found != fetched.end()) each.keys = found->second;
  }
  return issuers;
}

std::vector<std::string> TokenIssuers::take_wanted() const {
  std::vector<std::string> urls;
  for (const Issuer& each : issuers_) {
    if (!each.lacks_key->load(std::memory_order_relaxed)) continue;
    each.lacks_key->store(false, std::memory_order_relaxed);
    urls.push_back(each.url);
  }
  return urls;
}

std::variant<JwtClaims, JwtRefusal> TokenIssuers::verify(std::string_view token, double now) const {
  const auto parsed = Jwt::parse(token);
  if (const auto* const refusal = std::get_if<JwtRefusal>(&parsed)) return *refusal;
  const Jwt& jwt = std::get<Jwt>(parsed);
  const auto issuer = std::ranges::find_if(
      issuers_, [&](const Issuer& each) { return each.rules.issuer == jwt.claimed_issuer(); });
  if (issuer == issuers_.end()) return JwtRefusal::issuer;
  const auto note_lack = [&issuer] {
    if (!issuer->url.empty()) issuer->lacks_key->store(true, std::memory_order_relaxed);
  };
  if (issuer->keys == nullptr) {
    note_lack();
    return JwtRefusal::no_keys;
  }
  auto verified = jwt.verify(*issuer->keys, issuer->rules, now);
  const auto* const refusal = std::get_if<JwtRefusal>(&verified);
  if (refusal != nullptr && *refusal == JwtRefusal::unknown_key) note_lack();
  if (auto* const claims = std::get_if<JwtClaims>(&verified))
    claims->expires += static_cast<double>(issuer->rules.leeway.count());
  return verified;
}

}  // namespace evenkeel
