#pragma once

#include <chrono>
#include <string_view>

#include "config/compound_forms.h"
#include "config/engine_defaults.h"
#include "config/forms.h"

// The part of the field table (fields.h) for backends, and for how they are watched.
namespace evenkeel::config_file {

using namespace std::chrono_literals;

void each_key(Of<BackendConfig>, const auto& visit) {
  using T = BackendConfig;
  visit(Key{"address",
            "The address of the server: `host:port`, `http://host:port`, or `https://host:port` "
            "for TLS.",
            required},
        &T::address, backend_address());
  visit(Key{"weight",
            "Its share of the requests relative to the others of the pool. `round-robin` ignores "
            "it; `expected-time` looks at it only for requests that generate no text."},
        &T::weight, CountForm{1, 1'000});
  visit(Key{"zone", "Its location, shown in the admin API.", "unknown"}, &T::zone,
        TextForm{"a zone", check_not_empty});
  visit(Key{"labels", "Labels shown in the admin API, such as `{gpu: h100}`.", "none"}, &T::labels,
        TextMapForm{"a mapping of labels to values", check_not_empty});
  visit(Key{"standby", "A standby backend: gets requests only while others are down or saturated."},
        &T::standby, FlagForm{});
  visit(Key{"api_key_file",
            "File with the API key of the server. Requests and checks carry it as `authorization: "
            "Bearer KEY`, in place of the client's own credentials: its `authorization`, "
            "`x-api-key`, `api-key` and the like do not reach this server.",
            "none"},
        &T::api_key_file, SecretFileForm{});
  visit(Key{"api_key_header",
            "The field that carries the key of `api_key_file`, and nothing else: `api-key`, "
            "`x-api-key`.",
            "`authorization`, as `Bearer KEY`"},
        &T::api_key_header, TextForm{"the name of a header field", check_key_field});
  visit(Key{"metrics",
            "URL of its metrics, if it differs from the pool's `metrics`: `http://host:port/path`.",
            "as in the pool"},
        &T::metrics, url);
  visit(Key{"gpus",
            "Its GPUs, as the GPU exporter labels them: `0`, a UUID, or `Hostname/0` if the "
            "exporter covers several hosts.",
            "all GPUs of the exporter"},
        &T::gpus, ListForm<TextForm>{TextForm{"a GPU", check_not_empty}, "a list of GPUs"});
}

void each_key(Of<HealthConfig>, const auto& visit) {
  using T = HealthConfig;
  visit(Key{"check",
            "The kind of check: `http`, `grpc` (grpc.health.v1), `tcp` (connect only), `off`, or "
            "`auto`: the check that suits the engine, and none for `generic` unless `path` is "
            "given."},
        &T::check, EnumForm<HealthCheckKind>{"check", {"auto", "http", "grpc", "tcp", "off"}});
  visit(Key{"path", "Path that `http` requests; any status but 200 is a failure.", "by engine"},
        &T::path, plain_path);
  visit(Key{"port", "Port that is checked; 0: the port of the backend."}, &T::port,
        IntegerForm<std::uint16_t>{0, 65'535});
  visit(Key{"service", "Service that `grpc` checks.", "the whole server"}, &T::service,
        TextForm{"a gRPC service", check_not_empty});
  visit(Key{"interval", "Time between two checks of a backend, plus or minus a tenth."},
        &T::interval, DurationForm{100ms, 1h, "s", "`check: off` turns the checks off"});
  visit(Key{"timeout", "Maximum time for a check; then it has failed.", health_timeout_text()},
        &T::timeout, DurationForm{10ms, 10min});
  visit(Key{"fall", "Consecutive failures that make a backend `down`."}, &T::fall,
        CountForm{1, 1'000});
  visit(Key{"rise",
            "Consecutive successes that make it `up` again; before it was first `up`, one is "
            "enough."},
        &T::rise, CountForm{1, 1'000});
  visit(Key{"model",
            "`required`: the server must also list every model in `models`. `generate`: in "
            "addition each model must generate a token within 10s, requested every 10s while the "
            "backend is up."},
        &T::model, EnumForm<ModelCheck>{"model", {"off", "required", "generate"}});
  visit(Key{"latency",
            "A check that takes longer counts as failed, for servers that pass checks but serve "
            "users badly. 0s: no limit."},
        &T::latency, DurationForm{0ms, 10min, "ms"});
}

void each_key(Of<MetricsConfig>, const auto& visit) {
  using T = MetricsConfig;
  visit(Key{"scrape",
            "Whether the backends' metrics are polled: `auto`, if the engine is known to have any, "
            "or `off`."},
        &T::scrape, EnumForm<Scrape>{"scrape", {"auto", "off"}});
  visit(Key{"interval",
            "Time between two polls of a backend; longer if its engine is slow to answer."},
        &T::interval, DurationForm{50ms, 1h, "ms", "`scrape: off` turns the polling off"});
  visit(Key{"timeout", "Maximum time for a poll."}, &T::timeout, DurationForm{10ms, 10min});
  visit(Key{"path", "Path of the metrics.", "by engine"}, &T::path, plain_path);
  visit(Key{"port",
            "Port of the metrics; 0: the engine's metrics port, otherwise the backend's port."},
        &T::port, IntegerForm<std::uint16_t>{0, 65'535});
  visit(Key{"gpu",
            "URL of a GPU exporter (DCGM, nvidia_gpu_exporter, AMD's), such as "
            "`http://host:9400/metrics`.",
            "none"},
        &T::gpu, url);
  visit(Key{"orca",
            "Requests ask for a report of the engine's load with their response (ORCA), as vLLM "
            "and Triton with TensorRT-LLM give it. It is not passed on to clients that did not ask "
            "for it."},
        &T::orca, FlagForm{});
}

}  // namespace evenkeel::config_file
