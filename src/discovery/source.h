// The kinds of sources, each with what reads it.
#pragma once

#include <memory>
#include <string>

#include "discovery/found_list.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/config/config.h"
#include "evenkeel/discovery/discovery.h"

namespace evenkeel {

/// Reads a source into its list, until it is destroyed.
class DiscoverySource {
 public:
  DiscoverySource() = default;
  DiscoverySource(const DiscoverySource&) = delete;
  DiscoverySource& operator=(const DiscoverySource&) = delete;
  virtual ~DiscoverySource() = default;
};
using DiscoverySourcePtr = std::unique_ptr<DiscoverySource>;

/// What sources are made from; all of it outlives them.
struct SourceParts {
  Loop& loop;
  const DiscoveryEnvironment& environment;
  FoundList& found;
  std::uint64_t seed;
};

/// The endpoints of a Service, or the pods of an InferencePool.
DiscoverySourcePtr make_kubernetes_source(const SourceParts& parts,
                                          const KubernetesDiscoverConfig& discover,
                                          const KubernetesConfig& api);
/// The SRV records of a name.
DiscoverySourcePtr make_srv_source(const SourceParts& parts, const std::string& name,
                                   const DnsConfig& dns);
/// A list at a URL.
DiscoverySourcePtr make_http_source(const SourceParts& parts, const std::string& url,
                                    milliseconds interval);
/// A list in a file.
DiscoverySourcePtr make_file_source(const SourceParts& parts, const std::string& file);

}  // namespace evenkeel
