#include "inference/json_request.h"

#include <algorithm>
#include <limits>

#include "evenkeel/http/fields.h"
#include "inference/lax_integer.h"

namespace evenkeel {
namespace {

using json::Token;

// Bytes that no string contains as it is sent. They keep the parts of a prompt apart in its hashes.
constexpr char message_mark = 0x1d;
constexpr char role_mark = 0x1e;
constexpr char text_mark = 0x1f;
constexpr char array_mark = 0x1c;
constexpr char media_mark = 0x1b;

// An escape takes six bytes at most for each byte that it stands for.
constexpr std::size_t max_escape_ratio = 6;

constexpr std::size_t max_model_values = 16;
constexpr std::size_t max_member_places = 64;
constexpr std::size_t max_member_name = 64;

bool is_prompt_text(Slot slot) {
  switch (slot) {
    case Slot::text:
    case Slot::content:
    case Slot::prompt:
    case Slot::tree:
    case Slot::messages: return true;
    default: return false;
  }
}

bool is_media(Slot slot) { return slot == Slot::media || slot == Slot::image; }

bool is_captured(Slot slot) {
  return RequestFacts::is_text(slot) || RequestFacts::is_integer(slot) || slot == Slot::role ||
         slot == Slot::part_type || slot == Slot::datatype;
}

bool is_of_prompt(Slot slot) { return is_prompt_text(slot) || slot == Slot::images; }

/// True for a number such as 0.0 and -0e1, with a fraction or an exponent.
bool is_zero(std::string_view number) {
  return number.substr(0, number.find_first_of("eE")).find_first_of("123456789") == number.npos;
}

/// True if some servers read another model, or an adapter, in the member: Ollama, SGLang, llama.cpp
/// and TGI.
bool is_disputed(Slot object, std::string_view key) {
  if (object == Slot::tgi_parameters || object == Slot::generate_parameters)
    return key == "adapter_id";
  if (object != Slot::root) return false;
  return (key != "model" && equals_ignore_case(key, "model")) || key == "lora_path" ||
         key == "lora" || key == "adapter_id";
}

/// Returns 0 if the number is negative, too large, or has a fraction.
std::uint32_t whole_number(const json::Number& number) {
  const bool fits = number.magnitude <= std::numeric_limits<std::uint32_t>::max();
  return number.integer && !number.negative && fits ? static_cast<std::uint32_t>(number.magnitude)
                                                    : 0;
}

}  // namespace

JsonRequest::JsonRequest(InferenceApi api, InferenceRequest& into,
                         std::optional<std::uint64_t> json_bytes,
                         const std::vector<std::string>* members)
    : api_(api),
      into_(into),
      json_bytes_left_(json_bytes),
      facts_(into),
      members_(members != nullptr && members->empty() ? nullptr : members) {
  slots_[0] = Slot::root;
  if (into.task == InferenceTask::completion) hash_.converse_by_first_block();
}

bool JsonRequest::read(std::string_view bytes) {
  if (settled_) return error_.detail.empty();
  if (json_bytes_left_) {
    bytes = bytes.substr(0, *json_bytes_left_);
    *json_bytes_left_ -= bytes.size();
  }
  for (;;) {
    const Token token = scanner_.next(bytes);
    if (token == Token::more) break;
    if (token == Token::malformed) return fail(scanner_.problem());
    on_token(token);
    // Each is a place where the body is changed.
    if (member_) [[unlikely]] {
      place_member(token);
      if (member_places_.size() > max_member_places) return fail("keys are given too often");
    }
    if (model_values_.size() > max_model_values)
      return fail("the key \"model\" is given too often");
  }
  return json_bytes_left_ != 0 || finish();
}

bool JsonRequest::finish() {
  if (settled_) return error_.detail.empty();
  if (!scanner_.finish()) return fail(scanner_.problem());
  if (json_bytes_left_.value_or(0) > 0) return fail("the body ends within its JSON");
  stop();
  into_.complete = true;
  return true;
}

void JsonRequest::stop() {
  if (settled_) return;
  settled_ = true;
  if (text_is_open_) count_text(scanner_.decoded_bytes());
  hash_.settle(into_);
}

bool JsonRequest::fail(std::string_view problem) {
  error_ = {.fault = Fault::bad_request,
            .side = Side::client,
            .detail = "invalid JSON at byte " + std::to_string(scanner_.offset()) + ": "};
  error_.detail += problem;
  stop();
  return false;
}

void JsonRequest::on_token(Token token) {
  switch (token) {
    case Token::object_begin: begin_container(true); break;
    case Token::array_begin: begin_container(false); break;
    case Token::object_end:
    case Token::array_end: end_container(); break;
    case Token::key_part: on_key_bytes(false); break;
    case Token::key: on_key_bytes(true); break;
    case Token::text_part: on_text(false); break;
    case Token::text: on_text(true); break;
    case Token::number: on_number(); break;
    case Token::literal_true: on_literal(true); break;
    case Token::literal_false: on_literal(false); break;
    default: end_plain_value(); break;  // null
  }
}

// ---- keys

void JsonRequest::on_key_bytes(bool ended) {
  const Slot object = slots_[scanner_.depth()];
  if (object == Slot::ignored) {
    value_slot_ = Slot::ignored;
    return;
  }
  if (object == Slot::tree) {
    if (scanner_.whole()) hash_.mark(section_, text_mark);
    hash_.add(section_, scanner_.text());
    if (ended) count_text(scanner_.decoded_bytes());
    value_slot_ = object;
    return;
  }
  const bool plain = ended && scanner_.whole() && !scanner_.escaped();
  if (!plain) capture(scanner_.text(), max_key() + 1);
  if (!ended) return;
  const std::string decoded = plain ? std::string() : json::decode_string(captured_, max_key() + 1);
  const std::string_view key = plain ? scanner_.text() : std::string_view(decoded);
  if (object == Slot::root) find_member(key);
  if (!is_go() && is_disputed(object, key)) into_.model_disputed = true;
  // Ollama's options are a map, whose keys are taken as they are.
  if (!is_go() || object == Slot::ollama_options) {
    begin_member(object, key);
  } else {
    begin_member(object, go_field_name(key));
  }
}

/// The longest key that matters, in bytes.
std::size_t JsonRequest::max_key() const {
  return members_ == nullptr ? max_key_bytes : max_member_name;
}

void JsonRequest::find_member(std::string_view key) {
  has_members_ = true;
  member_.reset();
  if (members_ == nullptr) return;
  auto found = std::ranges::find(*members_, key);
  member_is_exact_ = found != members_->end();
  if (!member_is_exact_) found = std::ranges::find(*members_, go_field_name(key));
  if (found != members_->end()) member_ = static_cast<std::uint32_t>(found - members_->begin());
}

/// Notes where the value of the member begins and ends.
void JsonRequest::place_member(Token token) {
  const std::size_t depth = scanner_.depth();
  std::uint32_t number = 0;
  switch (token) {
    case Token::key:
    case Token::key_part:
    case Token::text_part: return;
    case Token::object_begin:
    case Token::array_begin:
      if (depth == 2) member_begin_ = scanner_.offset() - 1;
      return;
    case Token::object_end:
    case Token::array_end:
      if (depth != 1) return;
      break;
    default:
      if (depth != 1) return;
      member_begin_ = scanner_.value_begin();
      if (token == Token::number) number = whole_number(scanner_.number());
  }
  member_places_.push_back({.name = *member_,
                            .number = number,
                            .value = {member_begin_, scanner_.offset()},
                            .is_exact = member_is_exact_});
  member_.reset();
}

void JsonRequest::begin_member(Slot object, std::string_view key) {
  if (object == Slot::root) {
    on_root_key(key);
  } else {
    value_slot_ = member_slot(object, key);
  }
  // In Go, null leaves the name that an earlier member gave.
  if (is_go() && value_slot_ == Slot::model) return;
  facts_.clear(value_slot_);
  tensor_.clear(value_slot_);
  if (value_slot_ == Slot::role) from_user_ = false;
}

void JsonRequest::on_root_key(std::string_view key) {
  const Member* member = find_root_member(api_, key);
  value_slot_ = member == nullptr ? Slot::ignored : member->slot;
  if (value_slot_ == Slot::stream_options) stream_options_.reset();
  if (value_slot_ == Slot::tensors) into_.tensor_bytes = 0;
  if (member == nullptr || !is_of_prompt(member->slot)) return;
  section_ = member->section;
  begin_prompt_member(*member);
}

void JsonRequest::begin_prompt_member(const Member& member) {
  contribution_ = std::ranges::find_if(contributions_, [&](const Contribution& each) {
    return each.member == nullptr || each.member == &member;
  });
  if (contribution_ == contributions_.end()) --contribution_;
  if (contribution_->member != nullptr) {
    into_.prompt_bytes -= contribution_->bytes;
    into_.prompt_tokens -= contribution_->tokens;
    into_.images -= contribution_->images;
    // Hashes cannot be taken back in part: if other members share the section, both stay in it.
    const bool alone = std::ranges::none_of(contributions_, [&](const Contribution& each) {
      return each.member != nullptr && each.member != &member && each.member->section == section_;
    });
    if (alone) hash_.restart(section_);
    if (member.slot == Slot::messages) hash_.forget_first_user_message();
  }
  *contribution_ = {.member = &member};
}

// ---- containers

void JsonRequest::begin_container(bool object) {
  const std::size_t depth = scanner_.depth();
  Slot slot = object ? object_slot(value_slot_) : array_slot(value_slot_);
  if (depth == 1 && object) {
    slot = Slot::root;
    object_begin_ = scanner_.offset();
  }
  slots_[depth] = slot;
  if (value_slot_ == Slot::stream_options) container_begin_ = scanner_.offset() - 1;
  if (value_slot_ == Slot::image && object) count_image();
  if (value_slot_ == Slot::model) into_.model_mistyped = true;
  switch (slot) {
    case Slot::message:
      from_user_ = false;
      hash_.mark(section_, message_mark);
      break;
    case Slot::prompt: hash_.mark(section_, array_mark); break;
    case Slot::media:
      if (slots_[depth - 1] != Slot::media) media_.reset();
      break;
    case Slot::tensor: tensor_.clear(slot); break;
    default: break;
  }
  value_slot_ = object ? Slot::ignored : element_slot(slot);
}

void JsonRequest::end_container() {
  const std::size_t depth = scanner_.depth();
  const Slot parent = slots_[depth];
  switch (slots_[depth + 1]) {
    case Slot::message:
      if (from_user_) hash_.end_first_user_message();
      break;
    case Slot::media:
      if (parent != Slot::media) end_media();
      break;
    case Slot::tensor: into_.tensor_bytes += tensor_.bytes(); break;
    case Slot::stream_options: stream_options_ = {container_begin_, scanner_.offset()}; break;
    default: break;
  }
  // Of an object's next value the key will tell.
  value_slot_ = element_slot(parent);
}

void JsonRequest::end_media() {
  const std::uint64_t digest = media_.value();
  hash_.mark(section_, media_mark);
  hash_.add(section_, {reinterpret_cast<const char*>(&digest), sizeof digest});
}

// ---- values

void JsonRequest::on_text(bool ended) {
  if (value_slot_ == Slot::ignored) return;
  const std::string_view raw = scanner_.text();
  if (is_prompt_text(value_slot_)) {
    if (scanner_.whole()) hash_.mark(section_, text_mark);
    hash_.add(section_, raw);
    text_is_open_ = !ended;
  } else if (is_media(value_slot_)) {
    if (scanner_.whole() && slots_[scanner_.depth()] != Slot::media) media_.reset();
    media_.add(raw);
  } else if (is_captured(value_slot_)) {
    if (!ended || !scanner_.whole()) capture(raw, InferenceRequest::max_name);
  }
  if (ended) end_text();
}

void JsonRequest::end_text() {
  if (is_prompt_text(value_slot_)) {
    count_text(scanner_.decoded_bytes());
    if (value_slot_ == Slot::messages) hash_.end_first_user_message();
  } else if (is_media(value_slot_)) {
    if (value_slot_ == Slot::image) count_image();
    if (slots_[scanner_.depth()] != Slot::media) end_media();
  } else if (is_captured(value_slot_)) {
    end_captured();
  } else if (value_slot_ == Slot::data) {
    tensor_.add_text(scanner_.decoded_bytes());
  } else {
    end_plain_value();
  }
}

void JsonRequest::end_captured() {
  const std::string_view sent = scanner_.whole() ? scanner_.text() : std::string_view(captured_);
  const std::string_view raw = sent.substr(0, InferenceRequest::max_name * max_escape_ratio);
  std::string text = json::decode_string(raw, InferenceRequest::max_name);
  switch (value_slot_) {
    case Slot::role:
      from_user_ = text == "user";
      hash_.mark(section_, role_mark);
      hash_.add(section_, raw);
      break;
    case Slot::part_type:
      if (text == "image") count_image();
      break;
    case Slot::datatype: tensor_.set_datatype(text); break;
    case Slot::model:
    case Slot::model_name:
      model_values_.push_back({scanner_.value_begin(), scanner_.offset()});
      [[fallthrough]];
    default: set_text(std::move(text));
  }
}

void JsonRequest::set_text(std::string text) {
  if (!RequestFacts::is_integer(value_slot_)) return facts_.set(value_slot_, std::move(text));
  const bool kept_whole = scanner_.decoded_bytes() == text.size();
  const auto number = kept_whole ? lax_integer_in_text(text) : std::nullopt;
  if (number) facts_.set(value_slot_, *number);
}

void JsonRequest::on_number() {
  if (value_slot_ == Slot::ignored) return;
  const json::Number& number = scanner_.number();
  if (value_slot_ == Slot::prompt && number.integer) {
    ++into_.prompt_tokens;
    ++contribution_->tokens;
    const auto id = static_cast<std::uint32_t>(number.magnitude);
    hash_.add(section_, {reinterpret_cast<const char*>(&id), sizeof id});
    return;
  }
  if (!number.integer && RequestFacts::is_integer(value_slot_)) {
    if (const auto whole = lax_integer(scanner_.text())) facts_.set(value_slot_, *whole);
    return;
  }
  if (value_slot_ == Slot::temperature) {
    into_.zero_temperature = number.integer ? number.magnitude == 0 : is_zero(scanner_.text());
  }
  facts_.set(value_slot_, number);
  tensor_.set(value_slot_, number);
  end_plain_value();
}

void JsonRequest::on_literal(bool truth) {
  facts_.set(value_slot_, truth);
  end_plain_value();
}

void JsonRequest::end_plain_value() {
  if (value_slot_ == Slot::stream_options) {
    stream_options_ = {scanner_.value_begin(), scanner_.offset()};
  }
}

// ---- counting

void JsonRequest::capture(std::string_view raw, std::size_t max_decoded) {
  if (scanner_.whole()) captured_.clear();
  const std::size_t room =
      max_decoded * max_escape_ratio - std::min(captured_.size(), max_decoded * max_escape_ratio);
  captured_ += raw.substr(0, room);
}

void JsonRequest::count_text(std::uint64_t bytes) {
  into_.prompt_bytes += bytes;
  contribution_->bytes += bytes;
}

void JsonRequest::count_image() {
  ++into_.images;
  ++contribution_->images;
}

}  // namespace evenkeel
