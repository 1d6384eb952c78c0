// Tokens that were verified before.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "evenkeel/net/jwt.h"
#include "evenkeel/net/sha256.h"

namespace evenkeel {

/// What verified tokens say, by the SHA-256 of their text, until they expire: clients send a token
/// with each request, and a signature takes far longer than a hash. Holds `max_tokens`; a new one
/// replaces the one that has been there for longest. Belongs to one version of keys and rules: a
/// new version begins with an empty one. Thread: its worker's.
class JwtCache {
 public:
  static constexpr std::size_t max_tokens = 10'000;

  explicit JwtCache(std::size_t capacity = max_tokens) : capacity_(capacity) {}

  /// Returns what the token says; null: it is not here, or has expired. `now`: seconds since 1970.
  std::shared_ptr<const JwtClaims> find(const Sha256& token, double now) const;
  /// Keeps what a token says that was verified.
  void put(const Sha256& token, std::shared_ptr<const JwtClaims> claims);

  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Sha256 token;
    std::shared_ptr<const JwtClaims> claims;
  };
  struct FirstBytes {  // of a hash that no one can choose, for tokens that are signed
    std::size_t operator()(const Sha256& token) const {
      std::size_t first = 0;
      std::memcpy(&first, token.data(), sizeof first);
      return first;
    }
  };

  std::size_t capacity_;
  std::vector<Entry> entries_;
  std::size_t oldest_ = 0;  // of the entries, once they are as many as fit
  std::unordered_map<Sha256, std::size_t, FirstBytes> places_;
};

}  // namespace evenkeel
