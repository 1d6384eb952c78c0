// Gathers the plain facts of a request, some of which have several names.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/http/inference_info.h"
#include "evenkeel/json/scanner.h"
#include "inference/request_schema.h"

namespace evenkeel {

/// Writes what it is told into an InferenceRequest. Of a fact with several names, the first that
/// was given counts: `session_id`, vLLM's, `prompt_cache_key`, SGLang's, `sequence_id`; `user`,
/// `safety_identifier`, Anthropic's; of limits the newer name before `max_tokens`.
class RequestFacts {
 public:
  explicit RequestFacts(InferenceRequest& into) : into_(into), default_stream_(into.stream) {}

  /// True if the fact is given as a string.
  static bool is_text(Slot slot);
  /// True if the fact is a number that engines also take in other forms (lax_integer.h).
  static bool is_integer(Slot slot);
  /// Forgets a fact, or all of an object: its key was read, and a value of another type leaves it
  /// unset.
  void clear(Slot slot);
  /// Facts of other types, and slots that are no facts, stay as they are.
  void set(Slot slot, std::string text);
  void set(Slot slot, const json::Number& number);
  void set(Slot slot, bool truth);

 private:
  std::optional<std::uint32_t>* limit(Slot slot);
  void update_limit();
  std::string* session(Slot slot);
  std::string* user(Slot slot);

  InferenceRequest& into_;
  bool default_stream_;
  bool has_model_ = false;  // under its own name
  std::array<std::optional<std::uint32_t>, 6> limits_;
  std::array<std::string, 5> sessions_;
  std::array<std::string, 3> users_;
};

}  // namespace evenkeel
