// Which requests may get the same answer, and which answers may be kept.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/batch_body.h"
#include "evenkeel/pool/answer_cache.h"
#include "evenkeel/pool/pool.h"

namespace evenkeel {

/// Which answers of a pool are used again.
struct ReuseRules {
  CoalesceRule coalesce = CoalesceRule::off;
  bool keeps_embeddings = false;
  bool keeps_deterministic = false;
  const BodyConfig& body;  ///< what the pool changes in bodies

  /// The configuration outlives it.
  explicit ReuseRules(const PoolConfig& pool);
  /// True if an answer to the request, as backends get it, may be kept. `of_route`: what its route
  /// changes in bodies.
  bool may_keep(const InferenceInfo& info, const BodyConfig& of_route) const;
  bool may_coalesce(const InferenceInfo& info, const BodyConfig& of_route) const;
};

/// True if the request was read whole, can be read again, and its answer depends on nothing but
/// what AnswerKeys looks at: no session at a server, no tunnel, no gRPC call.
bool is_repeatable(const Request& request);

/// Makes the keys of requests. Their parts: tenant and credentials, pool, route and subset, the
/// name of the model that backends get, what the file changes in bodies, method, host, target, the
/// fields by which servers choose a form of their answer, and each byte of the body. All of them
/// mean the same after a reload.
class AnswerKeys {
 public:
  /// `subsets`: the names of the pool's, by their numbers.
  AnswerKeys(const PoolConfig& pool, std::vector<std::string> subsets,
             const AnswerCache::Seeds& seeds)
      : pool_(pool), subsets_(std::move(subsets)), seeds_(seeds) {}

  /// Reads the body, and goes back to its start. `of_route`: what the request's route changes in
  /// bodies. Nothing: it could not be read. REQUIRES: is_repeatable(request).
  std::optional<AnswerKey> key_of(Request& request, const BodyConfig& of_route) const;
  /// The key of requests that may go to a backend as one: instead of each byte of the body, what
  /// such bodies have in common; besides, the priority, and whether it is a mirror's copy.
  AnswerKey key_of(const Request& request, const BodyConfig& of_route, const BatchBody& body) const;

 private:
  class Writer;

  void write_head(Writer& key, const Request& request, const BodyConfig& of_route) const;
  std::string_view served_model(std::string_view asked) const;

  const PoolConfig& pool_;
  const std::vector<std::string> subsets_;
  const AnswerCache::Seeds seeds_;
};

/// The names of the pool's subsets, by their numbers.
std::vector<std::string> subset_names(const PoolState& pool);

/// All bytes of a body, which is then at its start again. REQUIRES: it is rewindable.
std::optional<std::string> read_whole(Body& body);

/// True if a field `cache-control` has this directive, in lower case.
bool has_cache_directive(const Fields& fields, std::string_view directive);

/// How long an answer may be used.
struct Lifetime {
  Duration fresh{};
  Duration stale{};  ///< beyond that, while no backend answers
  Duration age{};    ///< of the answer when it came: another cache had it
};

/// What the cache allows, as far as the answer's own fields do. Nothing: it may not be kept.
std::optional<Lifetime> lifetime_of(const Response& response, const CacheConfig& cache);

}  // namespace evenkeel
