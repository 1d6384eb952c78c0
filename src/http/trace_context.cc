#include "evenkeel/http/trace_context.h"

#include <algorithm>
#include <cstring>

namespace evenkeel {
namespace {

constexpr std::size_t field_size = 55;

bool is_lower_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_id(std::string_view text) {
  return is_lower_hex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

std::optional<TraceParent> parse_traceparent(std::string_view field) {
  if (field.size() < field_size) return std::nullopt;
  if (field[2] != '-' || field[35] != '-' || field[52] != '-') return std::nullopt;
  const std::string_view version = field.substr(0, 2);
  const std::string_view flags = field.substr(53, 2);
  if (!is_lower_hex(version) || version == "ff" || !is_lower_hex(flags)) return std::nullopt;
  // A later version may add parts behind another dash.
  const bool ends = field.size() == field_size;
  if (!ends && (version == "00" || field[field_size] != '-')) return std::nullopt;
  const TraceParent parent{.trace_id = field.substr(3, 32),
                           .span_id = field.substr(36, 16),
                           .sampled = (hex_value(flags[1]) & 1) != 0};
  if (!is_id(parent.trace_id) || !is_id(parent.span_id)) return std::nullopt;
  return parent;
}

RequestTrace::RequestTrace(Rng& rng, const TraceSampler& sampler) {
  const std::uint64_t low = rng() | 1;  // never all zero
  put_hex(put_hex(field_.data() + trace_id_at, rng()), low);
  finish(rng, sampler.takes(low));
}

RequestTrace::RequestTrace(Rng& rng, const TraceParent& parent) : has_parent_(true) {
  std::memcpy(field_.data() + trace_id_at, parent.trace_id.data(), parent.trace_id.size());
  std::memcpy(parent_.data(), parent.span_id.data(), parent_.size());
  finish(rng, parent.sampled);
}

/// Fills in all but the trace's id.
void RequestTrace::finish(Rng& rng, bool sampled) {
  span_ = (rng() >> 1) | 1;
  std::memcpy(field_.data(), "00-", 3);
  field_[span_id_at - 1] = '-';
  put_hex(field_.data() + span_id_at, span_);
  std::memcpy(field_.data() + span_id_at + 16, sampled ? "-01" : "-00", 3);
}

}  // namespace evenkeel
