#include "inference/request_facts.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace evenkeel {
namespace {

constexpr std::uint32_t max_count = std::numeric_limits<std::uint32_t>::max();

// The member of `values` for `slot`, whose slots follow each other from `first`; null: it is none
// of them.
template <class Values>
auto* value_for(Values& values, Slot slot, Slot first) {
  const int index = static_cast<int>(slot) - static_cast<int>(first);
  const bool inside = index >= 0 && index < static_cast<int>(values.size());
  return inside ? &values[static_cast<std::size_t>(index)] : nullptr;
}

std::string first_given(const auto& names) {
  const auto given =
      std::ranges::find_if(names, [](const std::string& name) { return !name.empty(); });
  return given == names.end() ? std::string() : *given;
}

/// Cuts `mark` and digits off the end. False: they are not there.
bool cut_number(std::string_view& text, std::string_view mark) {
  const std::size_t digits =
      text.size() - std::min(text.find_last_not_of("0123456789") + 1, text.size());
  const std::string_view before = text.substr(0, text.size() - digits);
  if (digits == 0 || !before.ends_with(mark)) return false;
  text = before.substr(0, before.size() - mark.size());
  return true;
}

/// The session in an id such as `chat-7_t2_r0`: of its third turn, the first try. Any other id is
/// that of one request.
std::string without_turn(std::string rid) {
  std::string_view session = rid;
  const bool has_turn = cut_number(session, "_r") && cut_number(session, "_t");
  return has_turn ? std::string(session) : std::string();
}

std::optional<std::uint32_t> count_of(const json::Number& number) {
  if (!number.integer || (number.negative && number.magnitude > 0)) return std::nullopt;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(number.magnitude, max_count));
}

std::optional<std::int64_t> integer_of(const json::Number& number) {
  constexpr auto max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!number.integer || number.magnitude > max) return std::nullopt;
  const auto magnitude = static_cast<std::int64_t>(number.magnitude);
  return number.negative ? -magnitude : magnitude;
}

}  // namespace

std::optional<std::uint32_t>* RequestFacts::limit(Slot slot) {
  return value_for(limits_, slot, Slot::max_completion_tokens);
}

std::string* RequestFacts::session(Slot slot) {
  return value_for(sessions_, slot, Slot::session_id);
}

std::string* RequestFacts::user(Slot slot) { return value_for(users_, slot, Slot::user); }

void RequestFacts::update_limit() {
  const auto given =
      std::ranges::find_if(limits_, [](const auto& limit) { return limit.has_value(); });
  into_.max_tokens = given == limits_.end() ? std::nullopt : *given;
}

bool RequestFacts::is_text(Slot slot) {
  return slot == Slot::model || slot == Slot::model_name ||
         (slot >= Slot::user && slot <= Slot::conversation);
}

bool RequestFacts::is_integer(Slot slot) {
  return slot >= Slot::max_completion_tokens && slot <= Slot::priority;
}

void RequestFacts::clear(Slot slot) {
  switch (slot) {
    case Slot::model:
      into_.model.clear();
      into_.model_mistyped = false;
      has_model_ = false;
      return;
    case Slot::stream: into_.stream = default_stream_; return;
    case Slot::stream_options:
    case Slot::include_usage: into_.include_usage = false; return;
    case Slot::choices: into_.choices = 1; return;
    case Slot::priority: into_.priority.reset(); return;
    case Slot::previous_response: into_.previous_response.clear(); return;
    case Slot::conversation: into_.conversation_id.clear(); return;
    case Slot::vllm_xargs: return clear(Slot::xargs_session_id);
    case Slot::metadata: return clear(Slot::metadata_user);
    case Slot::temperature: into_.zero_temperature = false; return;
    case Slot::seed: into_.has_seed = false; return;
    case Slot::ollama_options:
    case Slot::sampling_params:
    case Slot::tgi_parameters:
      into_.zero_temperature = into_.has_seed = false;
      return clear(slot == Slot::ollama_options ? Slot::num_predict : Slot::max_new_tokens);
    case Slot::sequence_start: into_.starts_sequence = false; return;
    case Slot::kserve_parameters: into_.starts_sequence = false; return clear(Slot::sequence_id);
    default: break;
  }
  if (auto* known_limit = limit(slot)) {
    known_limit->reset();
    update_limit();
  } else if (auto* name = session(slot)) {
    name->clear();
    into_.session = first_given(sessions_);
  } else if (auto* known_user = user(slot)) {
    known_user->clear();
    into_.user = first_given(users_);
  }
}

void RequestFacts::set(Slot slot, std::string text) {
  if (slot == Slot::model) {
    // As Go's `cmp.Or(model, name)`.
    if (text.empty() && !has_model_) return;
    has_model_ = !text.empty();
    into_.model = std::move(text);
  } else if (slot == Slot::model_name) {
    if (!has_model_) into_.model = std::move(text);
  } else if (slot == Slot::previous_response) {
    into_.previous_response = std::move(text);
  } else if (slot == Slot::conversation) {
    into_.conversation_id = std::move(text);
  } else if (auto* name = session(slot)) {
    *name = slot == Slot::rid ? without_turn(std::move(text)) : std::move(text);
    into_.session = first_given(sessions_);
  } else if (auto* known_user = user(slot)) {
    *known_user = std::move(text);
    into_.user = first_given(users_);
  }
}

void RequestFacts::set(Slot slot, const json::Number& number) {
  if (slot == Slot::model) {
    into_.model_mistyped = true;
  } else if (auto* known_limit = limit(slot)) {
    *known_limit = count_of(number);
    update_limit();
  } else if (slot == Slot::choices) {
    into_.choices = std::max<std::uint32_t>(1, count_of(number).value_or(1));
  } else if (slot == Slot::priority) {
    into_.priority = integer_of(number);
  } else if (slot == Slot::seed) {
    into_.has_seed = number.integer && !number.negative;  // llama.cpp: -1 is none
  } else if (slot == Slot::sequence_id && number.integer && !number.negative &&
             number.magnitude > 0) {  // Triton: 0 is no sequence
    set(slot, std::to_string(number.magnitude));
  }
}

void RequestFacts::set(Slot slot, bool truth) {
  if (slot == Slot::model) into_.model_mistyped = true;
  if (slot == Slot::stream) into_.stream = truth;
  if (slot == Slot::include_usage) into_.include_usage = truth;
  if (slot == Slot::sequence_start) into_.starts_sequence = truth;
  // In Python, truth is a number.
  if (is_integer(slot)) set(slot, json::Number{.magnitude = truth ? 1U : 0U});
}

}  // namespace evenkeel
