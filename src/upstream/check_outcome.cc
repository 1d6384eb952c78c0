#include "upstream/check_outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "evenkeel/base/utf8.h"
#include "evenkeel/inference/kserve_grpc.h"
#include "evenkeel/upstream/redirect.h"

namespace evenkeel {
namespace {

/// The first line of a response, as it can be shown.
std::string excerpt(std::string_view said) {
  constexpr std::size_t max_length = 120;
  std::string_view line = said.substr(0, said.find_first_of("\r\n"));
  if (line.size() > max_length) {
    std::size_t end = max_length;  // not within a character
    while (end > max_length - 3 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;
    line = line.substr(0, end);
  }
  return printable_utf8(line);
}

}  // namespace

CheckOutcome failed_check(CheckResult result, std::string reason, bool loading) {
  return {.result = result, .reason = std::move(reason), .loading = loading};
}

CheckOutcome failed_check(const Error& error, std::string_view what) {
  std::string reason = fmt::format("{}: {}", what, error.detail);
  if (error.side == Side::proxy) return {.result = std::nullopt, .reason = std::move(reason)};
  switch (error.fault) {
    case Fault::connect_failed:
      return failed_check(CheckResult::refused,
                          error.detail.empty() ? "its name has no address" : error.detail);
    case Fault::connect_timeout:
    case Fault::tls_failed: return failed_check(CheckResult::unreachable, error.detail);
    case Fault::first_byte_timeout:
    case Fault::idle_timeout: return failed_check(CheckResult::timeout, std::move(reason));
    default: return failed_check(CheckResult::broken, std::move(reason));
  }
}

std::string describe_response(std::string_view what, const Fetched& fetched) {
  if (!fetched.location.empty()) {
    return fmt::format("{}: {}", what, describe_status(fetched.status, fetched.location));
  }
  const std::string said = excerpt(fetched.body);
  return said.empty() ? fmt::format("{}: {}", what, fetched.status)
                      : fmt::format("{}: {} {}", what, fetched.status, said);
}

CheckOutcome outcome_of(Readiness readiness, std::string reason) {
  switch (readiness) {
    case Readiness::ready: return {};
    case Readiness::loading: return failed_check(CheckResult::not_ready, std::move(reason), true);
    case Readiness::not_ready: return failed_check(CheckResult::not_ready, std::move(reason));
    case Readiness::model_missing:
      return failed_check(CheckResult::model_missing, std::move(reason));
    case Readiness::failing: break;
  }
  return failed_check(CheckResult::error, std::move(reason));
}

CheckOutcome outcome_of(const GrpcReply& reply, std::string_view method) {
  const std::string said = excerpt(reply.text);
  const std::string reason =
      fmt::format("{}: gRPC status {}{}{}", method, grpc_status_digits(reply.status),
                  said.empty() ? "" : " ", said);
  return failed_check(
      reply.status == GrpcStatus::unavailable ? CheckResult::not_ready : CheckResult::error,
      reason);
}

CheckOutcome outcome_of_grpc_health(const GrpcReply& reply, const std::string& method) {
  if (reply.status != GrpcStatus::ok) return outcome_of(reply, method);
  const auto status = decode_health_check_response(reply.message);
  if (!status) return failed_check(CheckResult::broken, method + ": malformed message");
  if (*status == ServingStatus::serving) return {};
  if (*status == ServingStatus::not_serving) {
    return failed_check(CheckResult::not_ready, method + ": NOT_SERVING");
  }
  return failed_check(CheckResult::error, method + ": neither SERVING nor NOT_SERVING");
}

}  // namespace evenkeel
