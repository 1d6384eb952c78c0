// What objects of Kubernetes say of backends; no I/O.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

/// An endpoint of a Service.
struct ServiceEndpoint {
  BackendConfig backend;
  std::string pod;  ///< its unique id, or its name; empty: it is no pod
  bool serving = true;
  bool terminating = false;

  bool operator==(const ServiceEndpoint&) const = default;
};

/// A part of the endpoints of a Service.
struct EndpointSlice {
  std::string name;
  std::vector<ServiceEndpoint> endpoints;
  std::string problem;  ///< why it has none; empty: it does not lack any
};

/// Reads a slice of discovery.k8s.io/v1. `port`: name or number of the wanted port; empty: the only
/// one. Errors: this is no slice.
Result<EndpointSlice> read_endpoint_slice(const JsonValue& object, std::string_view port);

/// The backends of all slices of a Service: what serves and is not about to end. An address that is
/// in two slices for a while, since one is taken apart, counts once; so does a pod that has an IPv4
/// and an IPv6 address, by the first.
std::vector<BackendConfig> backends_of(const std::map<std::string, EndpointSlice>& slices);

/// Which pods an InferencePool has, and where they serve.
struct InferencePool {
  std::string selector;              ///< of labels: "app=llama,tier=gold"
  std::vector<std::uint16_t> ports;  ///< one for each rank

  bool operator==(const InferencePool&) const = default;
};

/// Reads a pool of inference.networking.k8s.io/v1. Errors: this is none, or it lacks what is
/// needed.
Result<InferencePool> read_inference_pool(const JsonValue& object);

/// The backends of a pod: one for each of these ports, if the pod is ready and is not about to end.
std::vector<BackendConfig> backends_of(const JsonValue& pod,
                                       const std::vector<std::uint16_t>& ports);

}  // namespace evenkeel
