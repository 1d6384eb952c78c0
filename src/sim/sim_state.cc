#include "sim/sim_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "sim/json_fields.h"

namespace evenkeel {
namespace {

constexpr std::array<std::string_view, 10> fault_names = {
    "none", "refuse", "hang", "slow", "error", "die", "loading", "stale-metrics", "vram", "sleep"};

/// A field that holds a number.
struct NumberField {
  std::string_view key;
  double low;
  double high;
  const char* range;
  void (*set)(SimState& state, double value);
};

constexpr NumberField number_fields[] = {
    {"slow_factor", std::numeric_limits<double>::min(), 1e6, "above 0",
     [](SimState& state, double value) { state.slow_factor = value; }},
    {"error_status", 400, 599, "400 to 599",
     [](SimState& state, double value) { state.error_status = static_cast<int>(value); }},
    {"die_after_tokens", 0, 1e15, "0 or more",
     [](SimState& state, double value) {
       state.die_after_tokens = static_cast<std::uint64_t>(value);
     }},
    {"gpu_memory_ratio", 0, 1, "0 to 1",
     [](SimState& state, double value) { state.gpu_memory_ratio = value; }},
    {"out_of_memory_after_seconds", 0, 1e6, "0 or more",
     [](SimState& state, double value) { state.out_of_memory_after_seconds = value; }},
};

Result<Done> set_fault(SimState& state, const JsonValue& value) {
  const auto found = std::ranges::find(fault_names, value.text());
  if (found == fault_names.end()) {
    return bad_request(fmt::format("fault should be one of {}", fmt::join(fault_names, ", ")));
  }
  state.fault = static_cast<SimFault>(found - fault_names.begin());
  return Done{};
}

Result<Done> set_number(SimState& state, std::string_view key, const JsonValue& value) {
  const auto field = std::ranges::find(number_fields, key, &NumberField::key);
  if (field == std::end(number_fields)) {
    return bad_request(
        fmt::format("unknown field '{}'; known: fault, slow_factor, error_status, "
                    "die_after_tokens, gpu_memory_ratio, out_of_memory_after_seconds",
                    key));
  }
  const std::optional<double> number = value.number();
  if (!number || !(*number >= field->low && *number <= field->high)) {
    return bad_request(fmt::format("{} should be {}", key, field->range));
  }
  field->set(state, *number);
  return Done{};
}

}  // namespace

std::string_view to_string(SimFault fault) { return fault_names[static_cast<std::size_t>(fault)]; }

Result<SimState> read_state(SimState state, std::string_view json) {
  const auto document = parse_json_object(json);
  if (!document) return document.error();
  for (const auto& [key, value] : document->members()) {
    auto set = key == "fault" ? set_fault(state, value) : set_number(state, key, value);
    if (!set) return std::move(set.error());
  }
  return state;
}

std::string state_members(const SimState& state) {
  return fmt::format(R"("fault":"{}","slow_factor":{},"error_status":{},"die_after_tokens":{},)"
                     R"("gpu_memory_ratio":{},"out_of_memory_after_seconds":{})",
                     to_string(state.fault), state.slow_factor, state.error_status,
                     state.die_after_tokens, state.gpu_memory_ratio,
                     state.out_of_memory_after_seconds);
}

}  // namespace evenkeel
