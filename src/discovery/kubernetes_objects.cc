#include "discovery/kubernetes_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "evenkeel/base/host.h"
#include "evenkeel/config/address.h"

namespace evenkeel {
namespace {

constexpr std::string_view zone_label = "topology.kubernetes.io/zone";
/// Annotations with this prefix are labels too.
constexpr std::string_view annotation_prefix = "llm-d.ai/";
/// Names, by commas, the ports of a pod whose ranks are active.
constexpr std::string_view active_ports = "llm-d.ai/active-ports";

Error unfit(std::string what) { return {.fault = Fault::bad_request, .detail = std::move(what)}; }

std::optional<std::uint16_t> port_number(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

bool is_true(const JsonValue& value, bool if_null) {
  return value.is_boolean() ? value.truth() : if_null;
}

void add_label(BackendLabels& labels, const std::string& name, const std::string& value) {
  if (!value.empty()) labels.emplace(name, value);
}

/// A port of a slice.
struct SlicePort {
  std::string name;
  std::uint16_t number = 0;
  bool secure = false;
};

std::vector<SlicePort> ports_of(const JsonValue& slice) {
  std::vector<SlicePort> ports;
  for (const JsonValue& port : slice["ports"].items()) {
    const auto number = port_number(port["port"].number_text());
    if (!number) continue;
    ports.push_back({.name = port["name"].text(),
                     .number = *number,
                     .secure = port["appProtocol"].text() == "https"});
  }
  return ports;
}

/// "8000 (http), 9090 (metrics)"
std::string text_of(const std::vector<SlicePort>& ports) {
  std::string text;
  for (const SlicePort& port : ports) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", port.number);
    if (!port.name.empty()) text += fmt::format(" ({})", port.name);
  }
  return text;
}

/// The wanted port of a slice. Errors: why there is none.
Result<SlicePort> choose_port(const std::vector<SlicePort>& ports, std::string_view wanted) {
  const auto number = port_number(wanted);
  if (wanted.empty()) {
    if (ports.size() == 1) return ports.front();
    return unfit(ports.empty()
                     ? "its endpoints have no port: give `port`"
                     : "its endpoints have several ports: give one as `port`: " + text_of(ports));
  }
  // Without ports in the slice, endpoints serve on whatever the client knows.
  if (ports.empty() && number) return SlicePort{.name = {}, .number = *number};
  for (const SlicePort& port : ports) {
    if (number ? port.number == *number : port.name == wanted) return port;
  }
  return unfit(fmt::format("its endpoints have no port '{}', but {}", wanted,
                           ports.empty() ? "none" : text_of(ports)));
}

/// The labels of the Service, which are those of the slice, without what Kubernetes keeps there.
BackendLabels labels_of_service(const JsonValue& metadata) {
  BackendLabels labels;
  for (const auto& [name, value] : metadata["labels"].members()) {
    const bool is_own =
        name.starts_with("kubernetes.io/") || name.starts_with("endpointslice.kubernetes.io/") ||
        name.starts_with("service.kubernetes.io/") || name.starts_with("endpoints.kubernetes.io/");
    if (!is_own) add_label(labels, name, value.text());
  }
  return labels;
}

ServiceEndpoint read_endpoint(const JsonValue& endpoint, const SlicePort& port,
                              const BackendLabels& labels) {
  const JsonValue& conditions = endpoint["conditions"];
  const bool ready = is_true(conditions["ready"], true);
  const JsonValue& target = endpoint["targetRef"];
  // More addresses of an endpoint are the same server: clients use the first.
  ServiceEndpoint read{.backend = {.address = {.host = endpoint["addresses"].items().front().text(),
                                               .port = port.number,
                                               .secure = port.secure},
                                   .zone = endpoint["zone"].text(),
                                   .labels = labels},
                       .pod = target["uid"].text(),
                       .serving = is_true(conditions["serving"], ready),
                       .terminating = is_true(conditions["terminating"], false)};
  if (read.pod.empty()) read.pod = target["name"].text();
  if (target["kind"].text() == "Pod") add_label(read.backend.labels, "pod", target["name"].text());
  return read;
}

bool is_v6(const BackendConfig& backend) {
  return backend.address.host.find(':') != std::string::npos;
}

}  // namespace

Result<EndpointSlice> read_endpoint_slice(const JsonValue& object, std::string_view port) {
  const JsonValue& metadata = object["metadata"];
  const JsonValue& type = object["addressType"];
  EndpointSlice slice{.name = metadata["name"].text(), .endpoints = {}, .problem = {}};
  if (slice.name.empty() || type.text().empty()) return unfit("what is no EndpointSlice");
  const JsonValue::List& endpoints = object["endpoints"].items();
  if (endpoints.empty()) return slice;
  auto chosen = choose_port(ports_of(object), port);
  if (!chosen) {
    slice.problem = std::move(chosen.error().detail);
    return slice;
  }
  const BackendLabels labels = labels_of_service(metadata);
  for (const JsonValue& endpoint : endpoints) {
    const JsonValue::List& addresses = endpoint["addresses"].items();
    if (addresses.empty() || addresses.front().text().empty()) continue;
    if (type.text() != "FQDN" && !parse_ip(addresses.front().text())) continue;
    slice.endpoints.push_back(read_endpoint(endpoint, *chosen, labels));
  }
  return slice;
}

std::vector<BackendConfig> backends_of(const std::map<std::string, EndpointSlice>& slices) {
  std::map<std::string, ServiceEndpoint> endpoints;  // by address
  std::set<std::string> v4_pods;
  for (const auto& [name, slice] : slices) {
    for (const ServiceEndpoint& each : slice.endpoints) {
      if (!is_v6(each.backend) && !each.pod.empty()) v4_pods.insert(each.pod);
      const auto [known, added] = endpoints.emplace(to_string(each.backend.address), each);
      if (added) continue;
      known->second.serving |= each.serving;
      known->second.terminating |= each.terminating;
    }
  }
  std::vector<BackendConfig> backends;
  for (auto& [address, endpoint] : endpoints) {
    if (!endpoint.serving || endpoint.terminating) continue;
    if (is_v6(endpoint.backend) && v4_pods.contains(endpoint.pod)) continue;
    backends.push_back(std::move(endpoint.backend));
  }
  return backends;
}

Result<InferencePool> read_inference_pool(const JsonValue& object) {
  constexpr std::size_t max_ports = 8;
  const JsonValue& spec = object["spec"];
  InferencePool pool;
  for (const auto& [name, value] : spec["selector"]["matchLabels"].members()) {
    if (!pool.selector.empty()) pool.selector += ',';
    pool.selector += name + "=" + value.text();
  }
  for (const JsonValue& port : spec["targetPorts"].items()) {
    const auto number = port_number(port["number"].number_text());
    if (number && pool.ports.size() < max_ports) pool.ports.push_back(*number);
  }
  if (pool.selector.empty()) return unfit("an InferencePool without `selector.matchLabels`");
  if (pool.ports.empty()) return unfit("an InferencePool without `targetPorts`");
  return pool;
}

namespace {

bool is_ready(const JsonValue& pod) {
  if (!pod["metadata"]["deletionTimestamp"].is_null()) return false;
  return std::ranges::any_of(pod["status"]["conditions"].items(), [](const JsonValue& condition) {
    return condition["type"].text() == "Ready" && condition["status"].text() == "True";
  });
}

/// True if a list such as "8000,8001" has the port.
bool lists_port(std::string_view list, std::uint16_t port) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (port_number(item) == port) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

}  // namespace

std::vector<BackendConfig> backends_of(const JsonValue& pod,
                                       const std::vector<std::uint16_t>& ports) {
  const std::string& host = pod["status"]["podIP"].text();
  if (!is_ready(pod) || !parse_ip(host)) return {};
  const JsonValue& metadata = pod["metadata"];
  BackendLabels labels;
  for (const auto& [name, value] : metadata["labels"].members())
    add_label(labels, name, value.text());
  for (const auto& [name, value] : metadata["annotations"].members()) {
    if (name.starts_with(annotation_prefix)) add_label(labels, name, value.text());
  }
  add_label(labels, "pod", metadata["name"].text());
  const auto zone = labels.find(std::string(zone_label));
  const std::string& active = metadata["annotations"][active_ports].text();
  std::vector<BackendConfig> backends;
  for (std::size_t rank = 0; rank < ports.size(); ++rank) {
    if (!active.empty() && !lists_port(active, ports[rank])) continue;
    BackendConfig backend{.address = {.host = host, .port = ports[rank]},
                          .zone = zone == labels.end() ? std::string() : zone->second,
                          .labels = labels};
    if (ports.size() > 1) add_label(backend.labels, "rank", std::to_string(rank));
    backends.push_back(std::move(backend));
  }
  return backends;
}

}  // namespace evenkeel
