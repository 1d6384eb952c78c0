// The trace that a request belongs to (W3C Trace Context).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/hex.h"
#include "evenkeel/base/pool_allocator.h"
#include "evenkeel/base/rng.h"

namespace evenkeel {

/// What a valid `traceparent` field says. Views are into the field.
struct TraceParent {
  std::string_view trace_id;  ///< 32 lower-case hexadecimal digits, not all zero
  std::string_view span_id;   ///< 16 of them, not all zero
  bool sampled = false;
};

/// Reads a `traceparent`, of version 00 or a later one. Nothing if it is not valid.
std::optional<TraceParent> parse_traceparent(std::string_view field);

/// A share of traces, chosen by their ids: others that sample the same share choose the same ones.
class TraceSampler {
 public:
  /// `share`: 0 to 1.
  explicit TraceSampler(double share)
      : threshold_(static_cast<std::uint64_t>(share * static_cast<double>(range))) {}
  /// True if the trace whose id ends with these 64 bits is sampled; the last 56 of them count.
  bool takes(std::uint64_t low) const { return low % range < threshold_; }

 private:
  static constexpr std::uint64_t range = std::uint64_t{1} << 56;
  std::uint64_t threshold_;
};

/// The trace of one request: the ids of its spans, and the field that tells them to backends.
///
/// The span of the request itself has the number `span`, that of its wait the next one, and those
/// of its attempts the following ones.
class RequestTrace : public Pooled {
 public:
  /// Begins a trace.
  RequestTrace(Rng& rng, const TraceSampler& sampler);
  /// Goes on with the trace of the client.
  RequestTrace(Rng& rng, const TraceParent& parent);

  /// 32 hexadecimal digits.
  std::string_view trace_id() const { return {field_.data() + trace_id_at, 32}; }
  /// The span of the client in 16 hexadecimal digits; empty: the trace began here.
  std::string_view parent() const { return has_parent_ ? text_of(parent_) : std::string_view(); }
  std::uint64_t span() const { return span_; }
  /// True if the trace was chosen in advance: the spans are exported whatever comes of the request.
  bool is_sampled() const { return field_.back() == '1'; }

  /// The value of `traceparent` for the current attempt. The view stays valid and follows
  /// `begin_attempt`.
  std::string_view traceparent() const { return {field_.data(), field_.size()}; }
  /// Makes the attempt the parent of what its backend does. `number`: from 0.
  void begin_attempt(std::size_t number) {
    put_hex(field_.data() + span_id_at, span_ + spans_before_attempts + number);
  }

  static constexpr std::uint64_t spans_before_attempts = 2;

  Duration slow = Duration::max();  ///< its spans are exported if its response begins later
  bool uses_gen_ai_names = false;   ///< of OpenTelemetry, for attributes of models
  std::string_view picker;          ///< of the last attempt's pool; empty: there was none

 private:
  static constexpr std::size_t trace_id_at = 3;
  static constexpr std::size_t span_id_at = 36;

  static std::string_view text_of(const std::array<char, 16>& text) {
    return {text.data(), text.size()};
  }
  void finish(Rng& rng, bool sampled);

  std::array<char, 55> field_;  // "00-TRACE-SPAN-01"
  bool has_parent_ = false;
  std::array<char, 16> parent_;
  std::uint64_t span_;  // never 0, nor are the next ones
};

}  // namespace evenkeel
