// What the plans of all workers share: pools with their backends, where those are and how they are
// spoken to, and how listeners speak TLS.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/balance/pool.h"
#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/tls.h"
#include "evenkeel/upstream/link_pool.h"

namespace evenkeel {

/// What a fleet is built from besides the file.
struct BuildInputs {
  /// Where a host is, as far as it is known now; empty: its name has no address. The ports are set.
  std::function<std::vector<Endpoint>(const Address&)> find;
  /// Weights that operators have set in place of the file's, by pool and backend id.
  std::map<std::pair<std::string, std::string>, std::uint32_t> weights;
  /// Backends that operators drain, the same way: those that come back are drained still.
  std::set<std::pair<std::string, std::string>> drained;
  /// Certificates and keys are read; else they are the predecessor's, of the same configuration.
  bool reload_files = true;
};

/// Immutable in shape. Thread: any.
class PoolSet {
 public:
  /// One backend of a pool. A name with several addresses has as many: `config` is the same.
  struct ResolvedBackend {
    BackendConfig config;
    std::vector<Endpoint> addresses;  ///< tried in turn; empty: its name has none
    std::string authorization;        ///< what its `authorization` field says; empty: the client's
    bool drained = false;             ///< by an operator
  };
  struct PoolEntry {
    std::shared_ptr<PoolState> state;
    std::vector<ResolvedBackend> backends;  ///< of each backend of `state`
    std::shared_ptr<const TlsClientContext>
        tls;  ///< how its backends are spoken to; null: in the clear
  };

  /// Reads certificates and keys; blocks. Changes nothing that is in use. With a predecessor, pools
  /// of the same name go on: backends of the same id keep their counters, signals and closures, a
  /// server keeps its id when its name gets or loses others,
  /// TLS settings whose files say what they said are the same object, and tickets of a listener
  /// stay good. Errors name the backend or the file.
  static Result<std::shared_ptr<const PoolSet>> build(const Config& config,
                                                      const BuildInputs& build_inputs,
                                                      const PoolSet* predecessor = nullptr);
  /// Looks names up as it goes; one without address is an error.
  static Result<std::shared_ptr<const PoolSet>> build(const Config& config);

  /// From now on this is what runs: its limits hold, backends without address are closed, and those
  /// that operators drain.
  void activate() const;
  /// Every worker knows the addresses: backends that have one again are open to whoever waits.
  void reopen_resolved() const;

  /// In the order of the file.
  const std::vector<PoolEntry>& pools() const { return pools_; }
  /// How a listener speaks TLS; null: in the clear.
  std::shared_ptr<const TlsServerContext> tls_of(std::string_view listener) const;

 private:
  static Result<std::shared_ptr<const TlsServerContext>> tls_for(const ListenerConfig& listener,
                                                                 const BuildInputs& build_inputs,
                                                                 const PoolSet* predecessor);
  static Result<PoolEntry> build_entry(const PoolConfig& pool, const BuildInputs& build_inputs,
                                       const PoolEntry* before);
  const PoolEntry* find(std::string_view pool) const;

  std::vector<PoolEntry> pools_;
  std::map<std::string, std::shared_ptr<const TlsServerContext>, std::less<>> listeners_;
};

/// How a backend of a pool is spoken to, by whoever does. `tls`: of its pool. A pool of links is
/// one backend's and one plan's: whatever TLS settings a link was made with are those of every
/// request that may use it, without any of them being part of a key.
LinkPoolOptions link_options_of(const PoolConfig& pool, const BackendConfig& backend,
                                const std::shared_ptr<const TlsClientContext>& tls);

}  // namespace evenkeel
