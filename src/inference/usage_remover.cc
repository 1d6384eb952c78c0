#include "evenkeel/inference/usage_remover.h"

#include <algorithm>
#include <utility>

namespace evenkeel {
namespace {

constexpr std::string_view usage_key = R"("usage")";
constexpr std::string_view fingerprint_key = R"("system_fingerprint")";
constexpr std::string_view white_space = " \t\r\n";

std::size_t skip_space(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(white_space, at), text.size());
}

/// Where the value of a key begins. `size()`: there is none.
std::size_t value_after(std::string_view event, std::size_t key, std::string_view name) {
  if (key >= event.size() || !event.substr(key).starts_with(name)) return event.size();
  const std::size_t colon = skip_space(event, key + name.size());
  return colon < event.size() && event[colon] == ':' ? skip_space(event, colon + 1) : event.size();
}

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The member `"usage":null`, with the comma that separates it; empty: it has another value.
Range null_usage(std::string_view event, std::size_t key) {
  constexpr std::string_view null = "null";
  const std::size_t value = value_after(event, key, usage_key);
  if (!event.substr(value).starts_with(null)) return {};
  Range range{.begin = key, .end = value + null.size()};
  const std::size_t before = event.find_last_not_of(white_space, key - 1);
  if (before != event.npos && event[before] == ',') {
    range.begin = event.find_last_not_of(white_space, before - 1) + 1;
  } else if (const std::size_t after = skip_space(event, range.end);
             after < event.size() && event[after] == ',') {
    range.end = after + 1;
  }
  return range;
}

/// The string at this key, with its quotes.
std::string_view string_at(std::string_view event, std::size_t key, std::string_view name) {
  const std::size_t begin = value_after(event, key, name);
  const std::size_t end = begin < event.size() && event[begin] == '"' ? event.find('"', begin + 1)
                                                                      : std::string_view::npos;
  if (end == event.npos) return {};
  const std::string_view value = event.substr(begin, end + 1 - begin);
  return value.find('\\') == value.npos ? value : std::string_view();
}

}  // namespace

void UsageRemover::begin(std::string_view bytes) {
  bytes_ = bytes;
  passed_ = 0;
  edits_ = false;
}

void UsageRemover::end_event(std::size_t end, const EventUsage& usage) {
  const bool stays = usage.key == EventUsage::nowhere && !usage.ends_choice;
  if (stays && !edits_ && held_.empty() && final_.empty()) {
    passed_ = std::min(end, bytes_.size());
    too_long_ = dropped_ = false;
    return;
  }
  edit();
  std::string_view event = bytes_.substr(passed_, end - passed_);
  passed_ += event.size();
  if (!held_.empty()) event = held_.append(event);
  pass_event(event, usage);
  held_.clear();
}

void UsageRemover::end_line() {
  if (dropped_ || !final_.empty()) edit();
  if (!final_.empty()) final_ += bytes_.front();
  passed_ = 1;
}

std::string_view UsageRemover::pass(bool last) {
  const std::string_view rest = bytes_.substr(passed_);
  if (!last && !too_long_) held_ += rest;
  const bool passes_all = last || too_long_ || held_.size() > max_event;
  if (!passes_all) return edits_ ? std::string_view(edited_) : bytes_.substr(0, passed_);
  if (!edits_ && held_.empty() && final_.empty()) return bytes_;
  edit();
  pass_final();
  edited_ += held_;
  if (last || too_long_) edited_ += rest;
  held_.clear();
  too_long_ = !last;
  return edited_;
}

/// Collects the bytes for the client from here on.
void UsageRemover::edit() {
  if (!std::exchange(edits_, true)) edited_.assign(bytes_.substr(0, passed_));
}

void UsageRemover::pass_event(std::string_view event, const EventUsage& usage) {
  if (std::exchange(too_long_, false)) {
    dropped_ = false;
    pass_final();
    edited_ += event;
    return;
  }
  dropped_ = usage.is_all;
  if (dropped_) stamp_final(string_at(event, usage.fingerprint, fingerprint_key));
  pass_final();
  if (dropped_) return;
  const Range removed = removes_null_ ? null_usage(event, usage.key) : Range();
  std::string& to = usage.ends_choice ? final_ : edited_;
  to += event.substr(0, removed.begin);
  to += event.substr(removed.end);
}

/// Adds the fingerprint to the last event, which has it in a stream without usage.
void UsageRemover::stamp_final(std::string_view fingerprint) {
  const std::size_t end = final_.rfind('}');
  if (fingerprint.empty() || end == std::string::npos) return;
  if (final_.find(fingerprint_key) != std::string::npos) return;
  final_.insert(end, std::string(",").append(fingerprint_key).append(":").append(fingerprint));
}

void UsageRemover::pass_final() {
  edited_ += final_;
  final_.clear();
}

}  // namespace evenkeel
