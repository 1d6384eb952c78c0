#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "discovery/kubernetes_api.h"
#include "discovery/kubernetes_objects.h"
#include "discovery/reflector.h"
#include "discovery/source.h"
#include "evenkeel/base/path.h"
#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

/// "namespace/name", apart.
struct NamespacedName {
  explicit NamespacedName(const std::string& text)
      : space(text.substr(0, text.find('/'))), name(text.substr(text.find('/') + 1)) {}
  std::string space;
  std::string name;
};

/// The EndpointSlices of a Service.
class ServiceSource final : public DiscoverySource, private ObjectListener {
 public:
  ServiceSource(const SourceParts& parts, const KubernetesDiscoverConfig& discover,
                const KubernetesConfig& api)
      : found_(parts.found),
        service_(discover.service),
        port_(discover.port),
        api_(parts.loop, parts.environment, api),
        reflector_(parts.loop, api_, query_of(discover.service), *this, found_, true, parts.seed) {}

 private:
  static ObjectQuery query_of(const std::string& service) {
    const NamespacedName name(service);
    return {
        .path = "/apis/discovery.k8s.io/v1/namespaces/" + percent_encoded(name.space) +
                "/endpointslices",
        .filter = "labelSelector=" + percent_encoded("kubernetes.io/service-name=" + name.name)};
  }

  bool listed(const JsonValue::List& objects) override {
    std::map<std::string, EndpointSlice> slices;
    for (const JsonValue& object : objects) {
      auto slice = read_endpoint_slice(object, port_);
      if (!slice) continue;
      std::string name = slice->name;
      slices.insert_or_assign(std::move(name), std::move(*slice));
    }
    if (!found_.offer(backends_of(slices))) return false;
    slices_ = std::move(slices);
    report_problems();
    return true;
  }

  std::optional<std::string> changed(const JsonValue& object, bool deleted) override {
    auto slice = read_endpoint_slice(object, port_);
    if (!slice) return std::move(slice.error().detail);
    std::string name = slice->name;
    if (deleted) {
      slices_.erase(name);
    } else {
      slices_.insert_or_assign(std::move(name), std::move(*slice));
    }
    found_.take(backends_of(slices_));
    report_problems();
    return std::nullopt;
  }

  void report_problems() {
    std::string first;
    for (const auto& [name, slice] : slices_) {
      if (first.empty() && !slice.problem.empty())
        first = fmt::format("the Service {}: {}", service_, slice.problem);
    }
    found_.complain(std::move(first));
  }

  FoundList& found_;
  std::string service_;
  std::string port_;
  std::map<std::string, EndpointSlice> slices_;  // by name
  KubernetesApi api_;
  Reflector reflector_;
};

/// The pods that an InferencePool selects.
class SelectedPods final : private ObjectListener {
 public:
  SelectedPods(const SourceParts& parts, KubernetesApi& api, const std::string& space,
               InferencePool pool, std::uint64_t seed)
      : found_(parts.found),
        pool_(std::move(pool)),
        reflector_(parts.loop, api, query_of(space, pool_.selector), *this, found_, true, seed) {}

  const InferencePool& pool() const { return pool_; }

 private:
  using Pods = std::map<std::string, std::vector<BackendConfig>>;  // by name

  static ObjectQuery query_of(const std::string& space, const std::string& selector) {
    return {.path = "/api/v1/namespaces/" + percent_encoded(space) + "/pods",
            .filter = "labelSelector=" + percent_encoded(selector)};
  }

  static std::vector<BackendConfig> all_of(const Pods& pods) {
    std::vector<BackendConfig> all;
    for (const auto& [name, backends] : pods)
      all.insert(all.end(), backends.begin(), backends.end());
    return all;
  }

  bool listed(const JsonValue::List& objects) override {
    Pods pods;
    for (const JsonValue& pod : objects)
      pods.insert_or_assign(pod["metadata"]["name"].text(), backends_of(pod, pool_.ports));
    if (!found_.offer(all_of(pods))) return false;
    pods_ = std::move(pods);
    return true;
  }

  std::optional<std::string> changed(const JsonValue& pod, bool deleted) override {
    const std::string& name = pod["metadata"]["name"].text();
    if (name.empty()) return "a pod without a name";
    if (deleted) {
      pods_.erase(name);
    } else {
      pods_.insert_or_assign(name, backends_of(pod, pool_.ports));
    }
    found_.take(all_of(pods_));
    return std::nullopt;
  }

  FoundList& found_;
  InferencePool pool_;
  Pods pods_;
  Reflector reflector_;
};

/// An InferencePool, whose selector and ports may change.
class InferencePoolSource final : public DiscoverySource, private ObjectListener {
 public:
  InferencePoolSource(const SourceParts& parts, const KubernetesDiscoverConfig& discover,
                      const KubernetesConfig& api)
      : parts_(parts),
        rng_(parts.seed),
        full_name_(discover.inference_pool),
        name_(discover.inference_pool),
        api_(parts.loop, parts.environment, api),
        reflector_(parts.loop, api_, query_of(name_), *this, parts.found, false, rng_()) {}

 private:
  static ObjectQuery query_of(const NamespacedName& name) {
    return {.path = "/apis/inference.networking.k8s.io/v1/namespaces/" +
                    percent_encoded(name.space) + "/inferencepools",
            .filter = "fieldSelector=" + percent_encoded("metadata.name=" + name.name)};
  }

  bool listed(const JsonValue::List& objects) override {
    for (const JsonValue& object : objects) {
      if (object["metadata"]["name"].text() != name_.name) continue;
      adopt(object);
      return true;
    }
    if (!parts_.found.offer({})) return false;
    pods_.reset();
    parts_.found.complain("there is no InferencePool " + full_name_);
    return true;
  }

  std::optional<std::string> changed(const JsonValue& object, bool deleted) override {
    if (object["metadata"]["name"].text() != name_.name) return std::nullopt;
    if (!deleted) {
      adopt(object);
      return std::nullopt;
    }
    pods_.reset();
    parts_.found.take({});
    parts_.found.complain("there is no InferencePool " + full_name_ + " any more");
    return std::nullopt;
  }

  /// Follows the pods of the pool; one that lacks what is needed changes nothing.
  void adopt(const JsonValue& object) {
    auto pool = read_inference_pool(object);
    if (!pool) return parts_.found.complain(full_name_ + " is " + pool.error().detail);
    parts_.found.complain({});
    if (pods_ != nullptr && pods_->pool() == *pool) return;
    pods_ = std::make_unique<SelectedPods>(parts_, api_, name_.space, std::move(*pool), rng_());
  }

  SourceParts parts_;
  Rng rng_;
  std::string full_name_;
  NamespacedName name_;
  KubernetesApi api_;
  std::unique_ptr<SelectedPods> pods_;  // null: the pool is not known
  Reflector reflector_;
};

}  // namespace

DiscoverySourcePtr make_kubernetes_source(const SourceParts& parts,
                                          const KubernetesDiscoverConfig& discover,
                                          const KubernetesConfig& api) {
  if (!discover.service.empty()) return std::make_unique<ServiceSource>(parts, discover, api);
  return std::make_unique<InferencePoolSource>(parts, discover, api);
}

}  // namespace evenkeel
