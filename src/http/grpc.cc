#include "evenkeel/http/grpc.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "evenkeel/base/decimal.h"
#include "evenkeel/base/path.h"
#include "evenkeel/http/media_type.h"

namespace evenkeel {
namespace {

using std::chrono::nanoseconds;

constexpr std::array<std::string_view, grpc_status_count> numbers = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"};

struct Unit {
  char letter;
  std::int64_t nanoseconds;
};

constexpr std::array<Unit, 6> units = {{{'n', 1},
                                        {'u', 1'000},
                                        {'m', 1'000'000},
                                        {'S', 1'000'000'000},
                                        {'M', 60'000'000'000},
                                        {'H', 3'600'000'000'000}}};

constexpr std::size_t max_digits = 8;
constexpr std::int64_t max_units = 99'999'999;

constexpr bool unescaped(char c) { return c >= ' ' && c <= '~' && c != '%'; }

}  // namespace

std::string_view grpc_status_digits(GrpcStatus status) {
  return numbers[static_cast<std::size_t>(status)];
}

std::optional<GrpcStatus> parse_grpc_status(std::string_view value) {
  const auto number = parse_number<int>(value);
  if (!number || *number < 0 || *number >= grpc_status_count) return std::nullopt;
  return static_cast<GrpcStatus>(*number);
}

bool is_grpc_content(std::string_view content_type) {
  return is_media_type(content_type, "application/grpc");
}

bool is_grpc(const Request& request) {
  const Field* type = request.fields.find(FieldId::content_type);
  return type != nullptr && is_grpc_content(type->value());
}

GrpcStatus grpc_status_of_http(int status) {
  switch (status) {
    case 400: return GrpcStatus::internal;
    case 401: return GrpcStatus::unauthenticated;
    case 403: return GrpcStatus::permission_denied;
    case 404: return GrpcStatus::unimplemented;
    case 429:
    case 502:
    case 503:
    case 504: return GrpcStatus::unavailable;
    default: return GrpcStatus::unknown;
  }
}

/// PROTOCOL-HTTP2.md, "HTTP2 Transport Mapping": "Errors".
GrpcStatus grpc_status_of_reset(std::uint32_t code) {
  switch (code) {
    case 0x0:  // NO_ERROR
    case 0x1:  // PROTOCOL_ERROR
    case 0x2:  // INTERNAL_ERROR
    case 0x3:  // FLOW_CONTROL_ERROR
    case 0x4:  // SETTINGS_TIMEOUT
    case 0x6:  // FRAME_SIZE_ERROR
    case 0x9:  // COMPRESSION_ERROR
    case 0xa:  // CONNECT_ERROR
      return GrpcStatus::internal;
    case 0x7: return GrpcStatus::unavailable;         // REFUSED_STREAM
    case 0x8: return GrpcStatus::cancelled;           // CANCEL
    case 0xb: return GrpcStatus::resource_exhausted;  // ENHANCE_YOUR_CALM
    case 0xc: return GrpcStatus::permission_denied;   // INADEQUATE_SECURITY
    default: return GrpcStatus::unknown;
  }
}

std::optional<Duration> parse_grpc_timeout(std::string_view value) {
  if (value.size() < 2 || value.size() > max_digits + 1) return std::nullopt;
  const auto unit = std::find_if(units.begin(), units.end(),
                                 [&](const Unit& each) { return each.letter == value.back(); });
  if (unit == units.end()) return std::nullopt;
  std::int64_t amount = 0;
  for (const char c : value.substr(0, value.size() - 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    amount = amount * 10 + (c - '0');
  }
  if (amount > nanoseconds::max().count() / unit->nanoseconds) return Duration::max();
  return nanoseconds(amount * unit->nanoseconds);
}

std::string_view write_grpc_timeout(Duration timeout, GrpcTimeoutText& text) {
  const std::int64_t left = std::max<std::int64_t>(nanoseconds(timeout).count(), 1);
  for (const Unit& unit : units) {
    const std::int64_t amount = left / unit.nanoseconds + (left % unit.nanoseconds != 0 ? 1 : 0);
    if (amount > max_units) continue;
    char* end = std::to_chars(text.data(), text.data() + max_digits, amount).ptr;
    *end++ = unit.letter;
    return {text.data(), static_cast<std::size_t>(end - text.data())};
  }
  return {};  // unreachable: the longest Duration is 2.6 million hours
}

void rewrite_grpc_timeout(Request& request, Instant now) {
  GrpcTimeoutText text;
  const std::string_view left =
      request.fields.keep(write_grpc_timeout(request.info.timings.deadline - now, text));
  request.fields.remove(
      "grpc-timeout");  // all of them: the backend might use another one than we do
  request.fields.add("grpc-timeout", left);
}

void append_grpc_message(std::string& out, std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    // HTTP would trim a leading or trailing space.
    const bool at_edge = i == 0 || i + 1 == text.size();
    if (unescaped(c) && !(c == ' ' && at_edge)) {
      out += c;
    } else {
      append_percent_encoded(out, c);
    }
  }
}

}  // namespace evenkeel
