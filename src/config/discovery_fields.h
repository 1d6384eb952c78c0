#pragma once

#include <chrono>
#include <string>

#include "config/compound_forms.h"
#include "config/forms.h"

// The part of the field table (fields.h) for backends that are found, and for their number.
namespace evenkeel::config_file {

using namespace std::chrono_literals;

// The number or the name of a port, kept as a text.
struct PortOrNameForm : ScalarForm {
  using Value = std::string;

  void read(const Node& node, Value& value) const {
    const auto scalar = node.scalar("the number or the name of a port");
    if (scalar && scalar->text.empty())
      return node.fail("is empty", "leave it out for the only one");
    if (scalar) value = scalar->text;
  }
  Tree tree(const Value& value, const Value*) const {
    if (value.empty()) return Tree{};
    const bool is_number = value.find_first_not_of("0123456789") == std::string::npos;
    return is_number ? Tree::raw(value) : Tree::text(value);
  }
  Tree schema() const {
    const Tree name = Tree::map({{"type", Tree::text("string")}, {"minLength", Tree::raw("1")}});
    const Tree number = Tree::map({{"type", Tree::text("integer")},
                                   {"minimum", Tree::raw("1")},
                                   {"maximum", Tree::raw("65535")}});
    return Tree::map({{"anyOf", Tree::list({name, number})}});
  }
  std::string type() const { return "number or name"; }
};

void each_key(Of<KubernetesDiscoverConfig>, const auto& visit) {
  using T = KubernetesDiscoverConfig;
  visit(Key{"service", "A Service, whose EndpointSlices list the backends: `namespace/name`.",
            "none: `inference_pool` names them"},
        &T::service, namespaced_name);
  visit(Key{"inference_pool",
            "An InferencePool (inference.networking.k8s.io/v1), whose pods are the backends: "
            "`namespace/name`.",
            "none: `service` names them"},
        &T::inference_pool, namespaced_name);
  visit(Key{"port", "The port of the Service's endpoints: its number or its name.", "the only one"},
        &T::port, PortOrNameForm{});
}
void finish(Of<KubernetesDiscoverConfig>, Node& node, KubernetesDiscoverConfig& kubernetes);

void each_key(Of<DiscoverConfig>, const auto& visit) {
  using T = DiscoverConfig;
  visit(Key{"kubernetes", "What Kubernetes knows of: `{service: default/llama, port: 8000}`.",
            "none"},
        &T::kubernetes, OptionalForm<StructForm<KubernetesDiscoverConfig>>{});
  visit(Key{"srv", "The name of SRV records, such as `_http._tcp.llama.internal`.", "none"},
        &T::srv, TextForm{"the name of SRV records", check_not_empty});
  visit(Key{"http_sd", "URL of a list of targets, in the format of Prometheus' HTTP SD.", "none"},
        &T::http_sd, url);
  visit(Key{"file",
            "A file with a list of targets, in the format of Prometheus' file SD, or with a list "
            "of backends as in `backends`. It is read again when it changes.",
            "none"},
        &T::file, file_path);
  visit(Key{"interval", "How often the list at `http_sd` is requested."}, &T::interval,
        DurationForm{1s, 1h});
}
void finish(Of<DiscoverConfig>, Node& node, DiscoverConfig& discover);

void each_key(Of<KubernetesConfig>, const auto& visit) {
  using T = KubernetesConfig;
  visit(Key{"api", "URL of the API server.", "in a pod: its cluster's"}, &T::api, url);
  visit(Key{"token_file",
            "File with the token that requests to it have; it is read again when it changes.",
            "the pod's service account"},
        &T::token_file, SecretFileForm{});
  visit(Key{"ca", "PEM file with the authorities that the API server is verified by.",
            "the pod's service account"},
        &T::ca, file_path);
}

void each_key(Of<ScalingConfig>, const auto& visit) {
  using T = ScalingConfig;
  visit(Key{"min", "The fewest replicas that are asked for; 0 lets the pool sleep."}, &T::min,
        CountForm{0, 10'000});
  visit(Key{"max", "The most replicas that are asked for."}, &T::max, CountForm{1, 10'000});
  visit(Key{"target", "The share of its capacity that a replica is planned to use."}, &T::target,
        PercentForm{0.05, 1});
  visit(Key{"start_time", "How long a new replica takes until it serves."}, &T::start_time,
        DurationForm{0ms, 2h});
}
void finish(Of<ScalingConfig>, Node& node, ScalingConfig& scaling);

}  // namespace evenkeel::config_file
