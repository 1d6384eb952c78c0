// What the JSON of a response says: output, counts of tokens, why it ended.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/http/inference_info.h"
#include "evenkeel/inference/event_editor.h"
#include "evenkeel/inference/response_reader.h"
#include "evenkeel/json/walk.h"
#include "inference/response_keys.h"

namespace evenkeel {

/// Counts of tokens as engines name them, from all documents of a response.
struct TokenCounts {
  using Count = std::optional<std::uint64_t>;
  // Counts in `usage`, or in SGLang's `meta_info`.
  Count prompt;
  Count completion;
  Count total;
  Count cached;
  Count cache_read;      // Anthropic: not part of `prompt`
  Count cache_creation;  // the same
  // Counts in other places: llama.cpp, Ollama, TGI.
  Count own_prompt;
  Count own_completion;
  Count timed_prompt;  // without what was cached
  Count timed_cached;
};

/// True if events of this name, or with this `type` or `status`, come without output in any
/// dialect: "ping", "response.created", "message_start", "in_progress".
bool is_name_without_output(std::string_view name);

/// Reads the documents of one response, one after the other: events, lines, or the only one.
class ResponseDocument {
 public:
  static constexpr std::size_t max_opening = 512;  ///< that is remembered, in bytes

  /// `repeats`: a stream, whose documents are alike.
  ResponseDocument(InferenceResponse& into, bool repeats, const ResponseInterests& interests);

  /// `offset`: of these bytes in their event.
  void read(std::string_view bytes, std::size_t offset = 0);
  /// True if the document that ends had output: where engines put it or, if the document is of no
  /// dialect that is known, anything at all. The next byte begins another document.
  bool end();
  /// The document is an event of this name.
  void name_event(std::string_view name) { has_dialect_ |= is_name_without_output(name); }
  /// What is changed in the document, as far as it was read.
  EventPlaces places() const;
  /// Puts the counts so far into the response.
  void report() const;

  // The visitor of the JsonWalk.
  std::uint8_t key(std::string_view name);
  void string(std::string_view text);
  void number(std::uint64_t value);
  void opened();
  void closing() {}

 private:
  using Key = ResponseKey;
  enum class Form : std::uint8_t { blank, object, list, values, text };
  static constexpr std::size_t max_name = 32;  // one byte more than the longest known

  Key key() const { return static_cast<Key>(walk_.key()); }
  Key parent(std::size_t up = 0) const { return static_cast<Key>(walk_.parent(up)); }
  bool outermost() const { return walk_.objects() == 1; }
  bool is_about_response() const;
  void remember_opening(std::string_view last_key);
  std::size_t place_of(std::string_view key) const;
  void note_form(std::string_view bytes);
  void keep_text(std::string_view bytes);
  bool is_unknown_output() const;
  bool is_output() const;
  bool is_reason(std::string_view text) const;
  bool is_id() const;
  std::optional<std::uint64_t>* count_of();

  InferenceResponse& into_;
  const bool repeats_;
  const bool wants_id_;
  const bool finds_model_;
  JsonWalk<ResponseDocument> walk_{*this};
  TokenCounts counts_;
  // Events of a stream begin alike, up to their choices: with an id, a time and a model's name.
  std::string opening_;          // of an earlier document, in which no key before the last matters
  const char* begin_ = nullptr;  // of the document, if all of it is in the bytes that are read
  std::string_view part_;        // the bytes that are read
  std::size_t offset_ = 0;       // of these bytes in their event
  EventPlaces places_;
  bool usage_is_object_ = false;
  bool no_choices_ = false;     // there is a list of choices, which is empty
  bool fresh_ = true;           // the next byte is the document's first
  bool has_known_key_ = false;  // the document, so far
  std::uint64_t choice_ = 0;    // that is being read
  bool has_output_ = false;
  /// True if something shows that output, if any, is where is_output looks for it.
  bool has_dialect_ = false;
  Form form_ = Form::blank;
  std::uint8_t text_size_ = 0;
  std::array<char, max_name> text_;  // of a document that is no JSON: its beginning
  bool has_item_ = false;            // OpenAI's responses: an event about an item
};

}  // namespace evenkeel
