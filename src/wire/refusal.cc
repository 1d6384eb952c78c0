#include "refusal.h"

#include <utility>

#include "evenkeel/http/request_id.h"

namespace evenkeel {
namespace {

std::string size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kib = 1024;
  constexpr std::uint64_t mib = 1024 * kib;
  if (bytes >= mib && bytes % mib == 0) return std::to_string(bytes / mib) + " MiB";
  if (bytes >= kib && bytes % kib == 0) return std::to_string(bytes / kib) + " KiB";
  return std::to_string(bytes) + " bytes";
}

/// A refused request never reaches the filter that assigns ids. It is rare, so that a generator of
/// its own, seeded from the clock and an address, is cheap enough.
RequestIdText make_refused_request_id(const RequestInfo& info) {
  const auto now = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
  Rng rng(mix(now) ^ reinterpret_cast<std::uintptr_t>(&info));
  return make_request_id(rng);
}

}  // namespace

std::string describe_limit(MessageLimit limit, const ListenerConfig& config) {
  switch (limit) {
    case MessageLimit::header:
      return "the request head exceeds " + size_text(config.limits.header_bytes) +
             " (limits.header)";
    case MessageLimit::header_fields:
      return "the request has more than " + std::to_string(config.limits.header_fields) +
             " header fields (limits.header_fields)";
    case MessageLimit::uri:
      return "the request target exceeds " + size_text(config.limits.uri_bytes) + " (limits.uri)";
    case MessageLimit::body:
      return "the request body exceeds " + size_text(config.limits.body_bytes) + " (limits.body)";
    case MessageLimit::none: break;
  }
  return {};
}

std::string_view path_of_target(std::string_view target) {
  if (target.starts_with('/')) return target;
  const auto scheme_end = target.find("://");
  if (scheme_end == std::string_view::npos) return target;
  const auto slash = target.find('/', scheme_end + 3);
  return slash == std::string_view::npos ? target : target.substr(slash);
}

Response refusal_response(const Error& error, ErrorFormat format, const Fields& fields,
                          RequestInfo& info) {
  Response response = error_response(error, format);
  std::string_view id = fields.value(FieldId::x_request_id).value_or("");
  if (fields.count(FieldId::x_request_id) > 1 || !is_valid_request_id(id)) {
    const RequestIdText made = make_refused_request_id(info);
    id = response.fields.keep({made.data(), made.size()});
  } else {
    id = response.fields.keep(id);
  }
  response.fields.add("x-request-id", id, FieldId::x_request_id);
  info.identity.request_id = id;
  info.outcome.status = response.status;
  info.outcome.fault = error.fault;
  info.outcome.detail = response.fields.keep(error.detail);
  return response;
}

Response failure_response(const Error& error, Request& request) {
  Response response = error_response(error, error_format_of(request));
  const std::string_view id = request.info.identity.request_id;
  if (!id.empty()) response.fields.add("x-request-id", id, FieldId::x_request_id);
  request.info.outcome.fault = error.fault;
  request.info.outcome.detail = request.fields.keep(error.detail);
  return response;
}

RefusalReport::~RefusalReport() {
  info_.outcome.fault = error_.fault;
  info_.outcome.detail = error_.detail;
  info_.outcome.status = status_;
  callbacks_.refused({error_.fault, status_, error_.detail, method_, host_, path_, info_});
}

}  // namespace evenkeel
