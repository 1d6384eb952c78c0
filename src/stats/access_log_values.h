// Passes the values of a request to what writes them, one field at a time.
#pragma once

#include <cstddef>
#include <optional>

#include "evenkeel/stats/access_log_format.h"
#include "evenkeel/stats/access_log_formatter.h"

namespace evenkeel::access_log_values {

// Maximum bytes of each value between its quotes. AccessLogBuffer must hold their sum.
inline constexpr std::size_t max_request_id_bytes = 128;
inline constexpr std::size_t max_trace_id_bytes = 32;
inline constexpr std::size_t max_client_bytes = 64;
inline constexpr std::size_t max_listener_bytes = 96;
inline constexpr std::size_t max_protocol_bytes = 16;
inline constexpr std::size_t max_method_bytes = 32;
inline constexpr std::size_t max_host_bytes = 255;
inline constexpr std::size_t max_path_bytes = 2048;
inline constexpr std::size_t max_route_bytes = 255;
inline constexpr std::size_t max_pool_bytes = 128;
inline constexpr std::size_t max_backend_bytes = 255;
inline constexpr std::size_t max_priority_bytes = 16;
inline constexpr std::size_t max_tenant_bytes = 64;
inline constexpr std::size_t max_key_bytes = 8;
inline constexpr std::size_t max_reason_bytes = 48;
inline constexpr std::size_t max_cache_bytes = 16;
inline constexpr std::size_t max_model_bytes = 256;
inline constexpr std::size_t max_task_bytes = 16;
inline constexpr std::size_t max_finish_reason_bytes = 64;
inline constexpr std::size_t max_user_agent_bytes = 512;
inline constexpr std::size_t max_referer_bytes = 1024;
inline constexpr std::size_t max_attempt_bytes =
    max_backend_bytes + max_reason_bytes + 80;  // with its keys and number
inline constexpr std::size_t max_keys_and_numbers_bytes = 1600;
static_assert(max_request_id_bytes + max_trace_id_bytes + 2 * max_client_bytes +
                  max_listener_bytes + 2 * max_protocol_bytes + 2 * max_method_bytes +
                  max_host_bytes + 2 * max_path_bytes + max_route_bytes + max_pool_bytes +
                  max_backend_bytes + max_priority_bytes + max_tenant_bytes + max_key_bytes +
                  max_reason_bytes + max_model_bytes + max_task_bytes + max_finish_reason_bytes +
                  max_user_agent_bytes + max_referer_bytes + max_template_bytes +
                  AttemptList::capacity * max_attempt_bytes + max_keys_and_numbers_bytes <=
              std::tuple_size_v<AccessLogBuffer>);

/// True if a line of JSON leaves the field out, instead of writing null.
constexpr bool is_absent(AccessLogField field, const AccessLogEntry& entry) {
  if (field >= AccessLogField::model && field <= AccessLogField::max_gap_ms) {
    return entry.inference == nullptr;
  }
  switch (field) {
    case AccessLogField::trace_id: return entry.trace_id.empty();
    case AccessLogField::peer: return entry.peer.empty();
    case AccessLogField::priority: return entry.priority.empty();
    case AccessLogField::tenant: return entry.tenant.empty();
    case AccessLogField::grpc_status: return !entry.grpc_status;
    case AccessLogField::cache: return entry.cache.empty();
    case AccessLogField::key: return entry.key.empty();
    default: return false;
  }
}

/// Calls the member of `out` that writes the value. REQUIRES: the field is of a model.
template <class Out>
[[gnu::always_inline]] inline void write_model_value(AccessLogField field,
                                                     const AccessLogInference& model, Out& out) {
  switch (field) {
    case AccessLogField::model: return out.string(model.model, max_model_bytes);
    case AccessLogField::task: return out.string(model.task, max_task_bytes);
    case AccessLogField::stream: return out.flag(model.stream);
    case AccessLogField::max_tokens: return out.number(model.max_tokens);
    case AccessLogField::prompt_bytes: return out.number(model.prompt_bytes);
    case AccessLogField::prompt_tokens: return out.number(model.prompt_tokens);
    case AccessLogField::completion_tokens: return out.number(model.completion_tokens);
    case AccessLogField::cached_tokens: return out.number(model.cached_tokens);
    case AccessLogField::finish_reason:
      return out.string(model.finish_reason, max_finish_reason_bytes);
    case AccessLogField::body_ms: return out.milliseconds(model.awaited_body);
    case AccessLogField::ttft_ms: return out.milliseconds(model.first_token);
    case AccessLogField::tpot_ms: return out.milliseconds(model.per_output_token);
    case AccessLogField::max_gap_ms: return out.milliseconds(model.max_gap);
    default: return;
  }
}

/// Calls the member of `out` that writes the value. REQUIRES: !is_absent(field, entry).
template <class Out>
[[gnu::always_inline]] inline void write_value(AccessLogField field, const AccessLogEntry& entry,
                                               Out& out) {
  switch (field) {
    case AccessLogField::time: return out.time();
    case AccessLogField::request_id: return out.string(entry.request_id, max_request_id_bytes);
    case AccessLogField::trace_id: return out.string(entry.trace_id, max_trace_id_bytes);
    case AccessLogField::client: return out.string(entry.client, max_client_bytes);
    case AccessLogField::peer: return out.string(entry.peer, max_client_bytes);
    case AccessLogField::listener: return out.string(entry.listener, max_listener_bytes);
    case AccessLogField::protocol: return out.string(entry.protocol, max_protocol_bytes);
    case AccessLogField::method: return out.string(entry.method, max_method_bytes);
    case AccessLogField::host: return out.string(entry.host, max_host_bytes);
    case AccessLogField::path: return out.string(entry.path, max_path_bytes);
    case AccessLogField::route: return out.string(entry.route, max_route_bytes);
    case AccessLogField::pool: return out.string(entry.pool, max_pool_bytes);
    case AccessLogField::backend: return out.string(entry.backend, max_backend_bytes);
    case AccessLogField::priority: return out.string(entry.priority, max_priority_bytes);
    case AccessLogField::tenant: return out.string(entry.tenant, max_tenant_bytes);
    case AccessLogField::key: return out.string(entry.key, max_key_bytes);
    case AccessLogField::status:
      if (entry.status <= 0) return out.null();
      return out.number(static_cast<std::uint64_t>(entry.status));
    case AccessLogField::grpc_status: return out.number(*entry.grpc_status);
    case AccessLogField::reason: return out.string(entry.reason, max_reason_bytes);
    case AccessLogField::attempts: return out.attempts(entry);
    case AccessLogField::bytes_in: return out.number(entry.bytes_in);
    case AccessLogField::bytes_out: return out.number(entry.bytes_out);
    case AccessLogField::duration_ms: return out.milliseconds(entry.duration);
    case AccessLogField::head_ms: return out.milliseconds(entry.head);
    case AccessLogField::wait_ms: return out.milliseconds(entry.waited);
    case AccessLogField::connect_ms: return out.milliseconds(entry.connect);
    case AccessLogField::retry_ms: return out.milliseconds(entry.retry);
    case AccessLogField::overhead_ms: return out.milliseconds(entry.overhead);
    case AccessLogField::backend_ms: return out.milliseconds(entry.backend_time);
    case AccessLogField::ttfb_ms: return out.milliseconds(entry.first_byte);
    case AccessLogField::cache: return out.string(entry.cache, max_cache_bytes);
    case AccessLogField::aborted: return out.flag(entry.aborted);
    case AccessLogField::request: return out.request(entry);
    case AccessLogField::time_local: return out.time_local();
    case AccessLogField::user_agent: return out.string(entry.user_agent, max_user_agent_bytes);
    case AccessLogField::referer: return out.string(entry.referer, max_referer_bytes);
    default: return write_model_value(field, *entry.inference, out);
  }
}

}  // namespace evenkeel::access_log_values
