// Fetches the key sets of issuers of tokens (JWKS) that are named by a URL.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/jwk_set.h"

namespace evenkeel {

/// Fetches each set when it is new and every `refresh`, on a thread of its own, which blocks for
/// it: an issuer that does not answer holds up no other. What is fetched counts as the issuer has
/// published it, also if no key of it can be used. What cannot be fetched, or is no key set,
/// changes nothing: the last set stays, and the next try follows after 1 s, which doubles up to a
/// minute. Redirects are not followed.
///
/// Thread: one, but for `statuses`.
class KeySetFetcher {
 public:
  /// Receives, on a thread of the fetcher, one at a time, each set that differs from the one
  /// before; null: the first try has failed.
  using Sink = std::function<void(const std::string& url, std::shared_ptr<const JwkSet> keys)>;
  /// The least time from a fetch of a set to one for a key that it lacks.
  static constexpr Duration min_interval = std::chrono::seconds(30);

  /// `version`: of the daemon, for the servers.
  KeySetFetcher(std::string version, Sink sink);
  KeySetFetcher(const KeySetFetcher&) = delete;
  KeySetFetcher& operator=(const KeySetFetcher&) = delete;
  ~KeySetFetcher();

  /// Fetches the sets of these issuers from now on. Those that are fetched already stay.
  void apply(const std::vector<TokenIssuerConfig>& issuers);
  /// Fetches a set that lacks a key, but not earlier than `min_interval` after the last time.
  void fetch_soon(const std::string& url);

  /// What is known of the set of an issuer.
  struct Status {
    std::string issuer;
    std::optional<Duration> age;  ///< since it was last fetched; nothing: it never was
    std::uint64_t fetched = 0;    ///< how often it was
    std::uint64_t failed = 0;     ///< how often it could not be
    bool last_failed = false;
  };
  /// Thread: any.
  std::vector<Status> statuses() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // also of its threads
};

}  // namespace evenkeel
