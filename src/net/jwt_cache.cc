#include "evenkeel/net/jwt_cache.h"

#include <utility>

namespace evenkeel {

std::shared_ptr<const JwtClaims> JwtCache::find(const Sha256& token, double now) const {
  const auto found = places_.find(token);
  if (found == places_.end()) return nullptr;
  const auto& claims = entries_[found->second].claims;
  return now < claims->expires ? claims : nullptr;
}

void JwtCache::put(const Sha256& token, std::shared_ptr<const JwtClaims> claims) {
  const auto [place, is_new] = places_.try_emplace(token, entries_.size());
  if (!is_new) {
    entries_[place->second].claims = std::move(claims);
    return;
  }
  if (entries_.size() < capacity_) {
    entries_.push_back({token, std::move(claims)});
    return;
  }
  Entry& replaced = entries_[oldest_];
  place->second = oldest_;
  places_.erase(replaced.token);
  replaced = {token, std::move(claims)};
  oldest_ = (oldest_ + 1) % capacity_;
}

}  // namespace evenkeel
