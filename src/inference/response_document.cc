#include "inference/response_document.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace evenkeel {
namespace {

constexpr std::uint64_t max_tokens = 1'000'000'000;  // of one request

constexpr std::string_view white_space = " \t\r";

}  // namespace

bool is_name_without_output(std::string_view name) {
  // Their output is in `delta`, wherever there is any.
  if (name.starts_with("response.") || name.starts_with("message_") ||
      name.starts_with("content_block_")) {
    return true;
  }
  name.remove_prefix(name.find_last_of('.') + 1);  // npos + 1 is 0
  static constexpr std::string_view names[] = {
      "ping",   "pong",     "keepalive",       "keep-alive",  "keep_alive", "heartbeat", "progress",
      "status", "metadata", "prompt_progress", "usage",       "created",    "queued",    "started",
      "start",  "pending",  "processing",      "in_progress", "error"};
  return std::ranges::find(names, name) != std::end(names);
}

ResponseDocument::ResponseDocument(InferenceResponse& into, bool repeats,
                                   const ResponseInterests& interests)
    : into_(into),
      repeats_(repeats),
      wants_id_(interests.id),
      finds_model_(interests.editor != nullptr && interests.editor->renames()) {}

void ResponseDocument::read(std::string_view bytes, std::size_t offset) {
  part_ = bytes;
  offset_ = offset;
  if (form_ == Form::blank || form_ == Form::list) note_form(bytes);
  if (form_ == Form::text) keep_text(bytes);
  if (fresh_ && !bytes.empty()) {
    fresh_ = false;
    has_known_key_ = false;
    if (!opening_.empty() && bytes.starts_with(opening_)) {
      has_known_key_ = has_dialect_ = true;
      walk_.restart_after(static_cast<std::uint8_t>(Key::choices));
      bytes.remove_prefix(opening_.size());
    } else {
      begin_ = bytes.data();
    }
  }
  walk_.read(bytes);
  begin_ = nullptr;
}

void ResponseDocument::remember_opening(std::string_view last_key) {
  const char* const end = last_key.data() + last_key.size() + 1;  // its quote
  const auto size = static_cast<std::size_t>(end - begin_);
  if (size <= max_opening) opening_.assign(begin_, size);
}

/// Returns the place of a key, with its opening quote, in the event.
std::size_t ResponseDocument::place_of(std::string_view key) const {
  const bool is_whole =
      key.data() >= part_.data() && key.data() + key.size() <= part_.data() + part_.size();
  // What is left of a key that has begun earlier ends with the first quote.
  const std::size_t end =
      is_whole ? static_cast<std::size_t>(key.data() - part_.data()) + key.size() : part_.find('"');
  return offset_ + end - key.size() - 1;
}

EventPlaces ResponseDocument::places() const {
  EventPlaces places = places_;
  places.is_usage = usage_is_object_ && no_choices_;
  return places;
}

/// True if the object that is read is the outermost one, or the response that an event is about.
bool ResponseDocument::is_about_response() const {
  if (outermost()) return walk_.depth() == 1;
  const bool is_inner = walk_.objects() == 2 && walk_.depth() == 2;
  return is_inner && (parent() == Key::response || parent() == Key::message);
}

/// The first byte tells what the document is; of a list the second one, whether there is anything
/// in it. `[DONE]` is none.
void ResponseDocument::note_form(std::string_view bytes) {
  constexpr std::string_view begins_value = "{[\"-0123456789";
  for (const char byte : bytes) {
    if (white_space.find(byte) != white_space.npos) continue;
    if (form_ == Form::blank && byte == '[') {
      form_ = Form::list;
      continue;
    }
    if (form_ == Form::blank) form_ = byte == '{' ? Form::object : Form::text;
    if (form_ == Form::list && begins_value.find(byte) != begins_value.npos) form_ = Form::values;
    return;
  }
}

/// Keeps its beginning.
void ResponseDocument::keep_text(std::string_view bytes) {
  if (text_size_ == 0)
    bytes.remove_prefix(std::min(bytes.find_first_not_of(white_space), bytes.size()));
  const std::size_t kept = std::min(bytes.size(), text_.size() - text_size_);
  std::copy_n(bytes.data(), kept, text_.data() + text_size_);
  text_size_ = static_cast<std::uint8_t>(text_size_ + kept);
}

/// True if a document of no known dialect has output: unless it is empty, `[DONE]`, or says that it
/// is a sign of life.
bool ResponseDocument::is_unknown_output() const {
  if (has_dialect_ || form_ == Form::blank || form_ == Form::list) return false;
  if (form_ == Form::object || form_ == Form::values) return true;
  std::string_view text(text_.data(), text_size_);
  text.remove_suffix(text.size() - 1 - text.find_last_not_of(white_space));
  return !is_name_without_output(text);
}

bool ResponseDocument::end() {
  const bool has_output = has_output_ || is_unknown_output();
  walk_.restart();
  fresh_ = true;
  has_output_ = has_dialect_ = false;
  form_ = Form::blank;
  text_size_ = 0;
  has_item_ = false;
  choice_ = 0;
  places_ = {};
  usage_is_object_ = no_choices_ = false;
  return has_output;
}

std::uint8_t ResponseDocument::key(std::string_view name) {
  const Key known = response_key_of(name);
  if (known == Key::none) {
    if (name == "system_fingerprint" && outermost()) places_.fingerprint = place_of(name);
    if (finds_model_ && name == "model" && is_about_response()) places_.model = place_of(name);
    if (!wants_id_ || name != "id") return 0;
    has_known_key_ = true;  // no opening is worth remembering
    return static_cast<std::uint8_t>(Key::id);
  }
  if (known == Key::item_id) has_item_ = true;
  if (outermost() && (known == Key::choices || known == Key::usage || known == Key::progress ||
                      known == Key::error)) {
    has_dialect_ = true;
    if (known == Key::usage && walk_.depth() == 1) {
      places_.usage = place_of(name);
      usage_is_object_ = false;
    }
  }
  const bool is_first = !std::exchange(has_known_key_, true);
  const bool may_skip_opening = repeats_ && !finds_model_ && begin_ != nullptr;
  if (is_first && may_skip_opening && known == Key::choices && walk_.depth() == 1) {
    remember_opening(name);
  }
  return static_cast<std::uint8_t>(known);
}

void ResponseDocument::opened() {
  if (key() == Key::choices) no_choices_ = walk_.depth() == 2 && !walk_.in_object();
  if (key() == Key::usage && walk_.depth() == 2) usage_is_object_ = walk_.in_object();
  if (!walk_.in_object()) return;
  if (key() == Key::choices) choice_ = 0;
  // Tensors of a stream of KServe's.
  if (key() == Key::outputs && walk_.objects() == 2) has_output_ = true;
}

void ResponseDocument::string(std::string_view text) {
  if (key() == Key::none) return;
  if (is_output()) (text.empty() ? has_dialect_ : has_output_) = true;
  if (text.empty()) return;
  if (key() == Key::finish_reason) places_.ends_choice = true;
  if (is_id()) into_.id = text.substr(0, InferenceResponse::max_id);
  if (is_reason(text)) {
    into_.finish_reason = text.substr(0, decltype(walk_)::max_text);
    has_dialect_ = true;
  } else if (outermost() && (key() == Key::type || key() == Key::status)) {
    has_dialect_ = has_dialect_ || is_name_without_output(text);
  }
}

/// True for text, or a call of a tool, at a place where engines put it.
bool ResponseDocument::is_output() const {
  switch (key()) {
    // OpenAI's chat; Ollama's chat; llama.cpp's own completion.
    case Key::content: return parent() == Key::delta || parent() == Key::message || outermost();
    case Key::reasoning:
    case Key::refusal:
    case Key::partial_json: return parent() == Key::delta;
    case Key::thinking: return parent() == Key::delta || parent() == Key::message || outermost();
    // OpenAI's completions; Anthropic; TGI; SGLang. OpenAI's responses repeat a whole text there.
    case Key::text:
      return parent() == Key::choices || parent() == Key::delta || parent() == Key::token ||
             (parent() == Key::content && parent(1) == Key::delta) || (outermost() && !has_item_);
    case Key::data:
    case Key::transcript: return parent() == Key::audio && parent(1) == Key::delta;
    case Key::delta:        // OpenAI's responses
    case Key::response:     // Ollama's generate
    case Key::text_output:  // Triton's generate
      return outermost();
    case Key::name:
    case Key::arguments: return parent() == Key::function;
    default: return false;
  }
}

/// True for the first id of the document, or of the response that an event is about.
bool ResponseDocument::is_id() const {
  if (key() != Key::id || !into_.id.empty()) return false;
  return repeats_ ? parent() == Key::response && walk_.objects() == 2 : outermost();
}

/// True if the text says why the first choice ended.
bool ResponseDocument::is_reason(std::string_view text) const {
  switch (key()) {
    case Key::finish_reason:
      return parent() == Key::choices ? choice_ == 0 : parent() == Key::details;
    case Key::type: return parent() == Key::finish_reason;                // SGLang
    case Key::done_reason: return outermost();                            // Ollama
    case Key::stop_type: return outermost() && text != "none";            // llama.cpp
    case Key::stop_reason: return parent() == Key::delta || outermost();  // Anthropic
    case Key::reason: return parent() == Key::incomplete_details;         // OpenAI's responses
    case Key::status: return (parent() == Key::response || outermost()) && text == "completed";
    default: return false;
  }
}

void ResponseDocument::number(std::uint64_t value) {
  if (key() == Key::index && parent() == Key::choices) {
    choice_ = value;
    return;
  }
  if (value > max_tokens) return;  // a mistake, with which counters would overflow
  if (auto* count = count_of()) {
    *count = value;
    has_dialect_ = true;
  }
}

/// The count that a number at this place is.
std::optional<std::uint64_t>* ResponseDocument::count_of() {
  const Key in = parent();
  const bool in_usage = in == Key::usage || in == Key::meta_info;
  switch (key()) {
    case Key::prompt_tokens: return in_usage ? &counts_.prompt : nullptr;
    case Key::completion_tokens: return in_usage ? &counts_.completion : nullptr;
    case Key::total_tokens: return in == Key::usage ? &counts_.total : nullptr;
    case Key::cached_tokens:
      return in == Key::prompt_tokens_details || in == Key::meta_info ? &counts_.cached : nullptr;
    case Key::cache_read_input_tokens: return in == Key::usage ? &counts_.cache_read : nullptr;
    case Key::cache_creation_input_tokens:
      return in == Key::usage ? &counts_.cache_creation : nullptr;
    case Key::prompt_n: return in == Key::timings ? &counts_.timed_prompt : nullptr;
    case Key::cache_n: return in == Key::timings ? &counts_.timed_cached : nullptr;
    case Key::predicted_n: return in == Key::timings ? &counts_.own_completion : nullptr;
    case Key::input_length: return in == Key::details ? &counts_.own_prompt : nullptr;
    case Key::generated_tokens: return in == Key::details ? &counts_.own_completion : nullptr;
    case Key::tokens_evaluated:
    case Key::prompt_eval_count: return outermost() ? &counts_.own_prompt : nullptr;
    case Key::tokens_predicted:
    case Key::eval_count: return outermost() ? &counts_.own_completion : nullptr;
    default: return nullptr;
  }
}

void ResponseDocument::report() const {
  const TokenCounts& c = counts_;
  if (c.prompt) {
    into_.prompt_tokens = *c.prompt + c.cache_read.value_or(0) + c.cache_creation.value_or(0);
  } else if (c.own_prompt) {
    into_.prompt_tokens = c.own_prompt;
  } else if (c.timed_prompt) {
    into_.prompt_tokens = *c.timed_prompt + c.timed_cached.value_or(0);
  } else if (c.total) {  // of a task without completion, such as rerank
    into_.prompt_tokens = *c.total - std::min(*c.total, c.completion.value_or(0));
  }
  if (const auto& completion = c.completion ? c.completion : c.own_completion) {
    into_.completion_tokens = completion;
  }
  for (const auto& cached : {c.cached, c.cache_read, c.timed_cached}) {
    if (!cached) continue;
    into_.cached_tokens = cached;
    break;
  }
}

}  // namespace evenkeel
