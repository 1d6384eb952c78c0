// What the plans of all workers share: pools with their backends and how to reach them, and the TLS
// settings of listeners.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"
#include "evenkeel/config/named_files.h"
#include "evenkeel/http/credentials.h"
#include "evenkeel/inference/token_estimates.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/tls.h"
#include "evenkeel/net/token_issuers.h"
#include "evenkeel/pool/pool.h"
#include "evenkeel/stats/canary_trial.h"
#include "evenkeel/tenancy/limits.h"
#include "evenkeel/upstream/link_pool.h"
#include "evenkeel/upstream/redis_client.h"

namespace evenkeel {

/// What a PoolSet is built from besides the file.
struct BuildInputs {
  /// The addresses of a host as known now, with ports; empty: its name has no address.
  std::function<std::vector<Endpoint>(const Address&)> find;
  /// Weights that operators have set instead of the file's, by pool and backend id.
  std::map<std::pair<std::string, std::string>, std::uint32_t> weights;
  /// Backends that operators have drained, by pool and backend id.
  std::set<std::pair<std::string, std::string>> drained;
  /// The ids that servers behind names had in the process before, by pool, `host:port` of the file,
  /// and address: so that what was set for a server holds although its name has lost others.
  std::map<std::array<std::string, 3>, std::string> ids;
  /// False if certificates and keys are taken from the predecessor, which has the same
  /// configuration.
  bool reload_files = true;
};

/// What a backend gets as Host.
struct BackendHost {
  std::string own;               ///< of evenkeel's own requests: its name, or a text of the file
  bool is_text = false;          ///< a text of the file, which holds for all its ports
  bool replaces_client = false;  ///< clients' requests have it too, in place of what they named
};
/// Unless the pool says: clients' requests to a server that is addressed by name over TLS have that
/// name, as its certificate and SNI; others keep what the client named.
BackendHost host_of_backend(const PoolConfig& pool, const BackendConfig& backend);

/// Immutable in shape. Thread: any.
class PoolSet {
 public:
  /// One backend of a pool. A name that stands for several servers gives as many, with equal
  /// `config`.
  struct ResolvedBackend {
    BackendConfig config;
    std::vector<Endpoint> addresses;  ///< tried in turn; empty: its name has none
    BackendCredential key;            ///< sent to it; empty: the client's credentials
    BackendHost host;
    bool drained = false;  ///< by an operator
  };
  struct PoolEntry {
    std::shared_ptr<PoolState> state;
    std::vector<ResolvedBackend> backends;        ///< in the order of `state`
    std::shared_ptr<const TlsClientContext> tls;  ///< for its backends; null: no TLS
  };

  /// A part of a route's split that is on trial.
  struct Canary {
    std::string route;
    CanaryConfig config;
    std::vector<RouteTarget> targets;
    std::shared_ptr<CanaryTrial> trial;  ///< the same object while none of these changes

    /// A number that depends on all of them, in every process alike.
    std::uint64_t key() const;
  };

  /// Reads certificates and keys; blocks. Changes nothing that is in use. With a predecessor, pools
  /// of the same name continue: backends with the same id keep their counters, signals and
  /// out-of-rotation reasons; a server keeps its id if its name gains or loses others; TLS settings
  /// whose files are unchanged are the same object; and session tickets of a listener stay valid.
  /// Errors name the backend or the file.
  static Result<std::shared_ptr<const PoolSet>> build(const Config& config,
                                                      const BuildInputs& build_inputs,
                                                      const PoolSet* predecessor = nullptr);

  /// Makes this the running set: applies its limits, and takes backends without address and drained
  /// ones out of rotation.
  void activate() const;
  /// The successor takes this one's place. Pools that pin no sessions there forget theirs.
  void leave(const PoolSet& successor) const;
  /// The memory of prefix indexes and pins that requests of this set no longer need, once every
  /// worker has the successor. Its release may take seconds.
  std::vector<std::shared_ptr<const void>> release_tables(const PoolSet& successor) const;
  /// Puts backends that have an address again back into rotation. Call it once every worker has the
  /// addresses.
  void reopen_resolved() const;

  /// What engines have taught of their tokenizers; the same object in all sets of the process.
  TokenEstimates& token_estimates() const { return *token_estimates_; }

  /// The use of limits; the same object in all sets of the process. Null: no file had limits yet.
  LimitUse* limit_use() const { return limit_use_.get(); }

  /// The issuers of tokens that the file names; null: none.
  const std::shared_ptr<const TokenIssuers>& token_issuers() const { return token_issuers_; }
  /// The contents of the files of error pages.
  const ErrorPageTexts& error_pages() const { return *error_pages_; }
  /// The server that replicas share; nothing: there is none.
  const std::optional<RedisOptions>& shared_state() const { return shared_state_; }

  /// The canaries of routes, in the order of the file.
  const std::vector<Canary>& canaries() const { return canaries_; }
  /// The canary of a route; null: it has none.
  const Canary* canary_of(std::string_view route) const;

  /// The pools in the order of the file.
  const std::vector<PoolEntry>& pools() const { return pools_; }
  /// The TLS settings of a listener; null: no TLS.
  std::shared_ptr<const TlsServerContext> tls_of(std::string_view listener) const;

 private:
  static Result<std::shared_ptr<const TlsServerContext>> tls_for(const ListenerConfig& listener,
                                                                 const BuildInputs& build_inputs,
                                                                 const PoolSet* predecessor);
  static Result<PoolEntry> build_entry(const PoolConfig& pool, std::vector<SubsetSpec> subsets,
                                       const BuildInputs& build_inputs, const PoolEntry* before);
  void add_canaries(const Config& config, const PoolSet* predecessor);
  const PoolEntry* find(std::string_view pool) const;

  std::shared_ptr<TokenEstimates> token_estimates_;
  std::shared_ptr<LimitUse> limit_use_;
  std::optional<RedisOptions> shared_state_;
  std::shared_ptr<const TokenIssuers> token_issuers_;
  std::vector<Canary> canaries_;
  std::shared_ptr<const ErrorPageTexts> error_pages_ = std::make_shared<const ErrorPageTexts>();
  std::vector<PoolEntry> pools_;
  std::unordered_map<std::string_view, std::size_t> numbers_;  // of pools, by name
  std::map<std::string, std::shared_ptr<const TlsServerContext>, std::less<>> listeners_;
};

/// The options of links to a backend. `tls`: of its pool. A link pool belongs to one backend and
/// one plan, so all its links have the same TLS settings, and none of these has to be part of a
/// key.
LinkPoolOptions link_options_of(const PoolConfig& pool, const BackendConfig& backend,
                                const std::shared_ptr<const TlsClientContext>& tls);

}  // namespace evenkeel
