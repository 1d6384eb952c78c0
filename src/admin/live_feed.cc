#include "admin/live_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <charconv>
#include <chrono>
#include <map>
#include <utility>

#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

/// How long events go on without a subscriber, for one that comes back.
constexpr Duration linger = std::chrono::seconds(30);

using Identity = std::vector<std::string_view>;  // names of the fields that identify an item

/// The fields of `after` that differ from those of `before`.
JsonValue::Object changed_fields(const JsonValue& before, const JsonValue& after) {
  JsonValue::Object changed;
  for (const JsonValue::Member& field : after.members()) {
    const auto old = std::ranges::find(before.members(), field.first, &JsonValue::Member::first);
    if (old == before.members().end() || old->second != field.second) changed.push_back(field);
  }
  return changed;
}

JsonValue::Object identity_of(const JsonValue& item, const Identity& identity) {
  JsonValue::Object key;
  for (const std::string_view name : identity) key.emplace_back(name, item[name]);
  return key;
}

std::string key_of(const JsonValue& item, const Identity& identity) {
  std::string key;
  for (const std::string_view name : identity) {
    key += item[name].text();
    key += '\n';  // part of no name
  }
  return key;
}

struct ListDiff {
  JsonValue::List changed;
  JsonValue::List removed;
};

ListDiff list_diff(const JsonValue& before, const JsonValue& after, const Identity& identity) {
  std::map<std::string, const JsonValue*> old;
  for (const JsonValue& item : before.items()) old[key_of(item, identity)] = &item;
  ListDiff diff;
  for (const JsonValue& item : after.items()) {
    const auto found = old.find(key_of(item, identity));
    if (found == old.end()) {
      diff.changed.push_back(item);
      continue;
    }
    const JsonValue::Object fields = changed_fields(*found->second, item);
    old.erase(found);
    if (fields.empty()) continue;
    JsonValue::Object entry = identity_of(item, identity);
    entry.insert(entry.end(), fields.begin(), fields.end());
    diff.changed.push_back(std::move(entry));
  }
  for (const auto& [key, item] : old) diff.removed.push_back(identity_of(*item, identity));
  return diff;
}

std::string new_epoch() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("{:x}", std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

}  // namespace

JsonValue live_diff(const JsonValue& before, const JsonValue& after) {
  JsonValue diff = JsonValue::Object();
  JsonValue::Object removed;
  for (const char* const name : {"status", "overview"}) {
    JsonValue::Object changed = changed_fields(before[name], after[name]);
    if (!changed.empty()) diff.add(name, std::move(changed));
  }
  const std::pair<const char*, Identity> lists[] = {{"pools", {"name"}},
                                                    {"backends", {"pool", "id"}}};
  for (const auto& [name, identity] : lists) {
    ListDiff list = list_diff(before[name], after[name], identity);
    if (!list.changed.empty()) diff.add(name, std::move(list.changed));
    if (!list.removed.empty()) removed.emplace_back(name, std::move(list.removed));
  }
  if (!removed.empty()) diff.add("removed", std::move(removed));
  return diff;
}

LiveFeed::LiveFeed(IoContextPtr io, ReadState read_state)
    : io_(std::move(io)),
      read_state_(std::move(read_state)),
      epoch_(new_epoch()),
      advanced_(io_->get_executor()),
      tick_(io_->get_executor()) {
  advanced_.expires_at(never);  // once: setting it again would wake all subscribers
}

LiveFeed::Subscription::Subscription(LiveFeed& feed, std::string_view last_event_id) : feed_(feed) {
  feed_.subscribe();
  last_ = feed_.number_of(last_event_id);
}

LiveFeed::Subscription::~Subscription() {
  --feed_.subscribers_;
  feed_.last_subscriber_left_ = Clock::now();
}

Awaitable<SharedText> LiveFeed::Subscription::next() {
  while (last_ && *last_ == feed_.number_ && !feed_.stopped_) {
    ErrorCode ignored;
    co_await feed_.advanced_.async_wait(or_error(ignored));
  }
  if (feed_.stopped_) co_return nullptr;
  const bool resumes = last_ && feed_.number_ - *last_ <= max_backlog && !feed_.diffs_.empty() &&
                       *last_ + 1 >= feed_.diffs_.front().number;
  if (!resumes) {
    last_ = feed_.number_;
    co_return feed_.snapshot();
  }
  ++*last_;
  co_return feed_.diffs_[*last_ - feed_.diffs_.front().number].text;
}

void LiveFeed::stop() {
  stopped_ = true;
  advanced_.cancel();
  tick_.cancel();
}

void LiveFeed::subscribe() {
  if (!running_) {
    advance();
    asio::co_spawn(*io_, run(), asio::detached);
    running_ = true;
  }
  ++subscribers_;
}

Awaitable<void> LiveFeed::run() {
  while (!stopped_) {
    ErrorCode error;
    tick_.expires_after(interval);
    co_await tick_.async_wait(or_error(error));
    if (error || stopped_) break;
    if (subscribers_ == 0 && Clock::now() - last_subscriber_left_ > linger) break;
    advance();
  }
  running_ = false;
  forget();
}

/// Reads the state, and makes of it the event that leads from the one before to it.
void LiveFeed::advance() {
  JsonValue next = read_state_();
  const std::uint64_t number = number_ + 1;
  if (!state_.is_null()) {
    std::string diff = event(number, "diff", live_diff(state_, next));
    diffs_.push_back({number, std::make_shared<const std::string>(std::move(diff))});
    diff_bytes_ += diffs_.back().text->size();
  }
  number_ = number;
  snapshot_ = nullptr;
  state_ = std::move(next);
  while (diffs_.size() > history || (diff_bytes_ > max_history_bytes && diffs_.size() > 1)) {
    diff_bytes_ -= diffs_.front().text->size();
    diffs_.pop_front();
  }
  advanced_.cancel();
}

/// The numbers go on: an id that was given out never means another event.
void LiveFeed::forget() {
  state_ = {};
  snapshot_ = nullptr;
  diffs_.clear();
  diff_bytes_ = 0;
}

SharedText LiveFeed::snapshot() {
  if (snapshot_ == nullptr) {
    snapshot_ = std::make_shared<const std::string>(event(number_, "snapshot", state_));
  }
  return snapshot_;
}

/// Returns nothing for an id that is not of this process, or yet to come.
std::optional<std::uint64_t> LiveFeed::number_of(std::string_view event_id) const {
  const std::string prefix = epoch_ + "-";
  if (!event_id.starts_with(prefix)) return std::nullopt;
  event_id.remove_prefix(prefix.size());
  std::uint64_t number = 0;
  const char* end = event_id.data() + event_id.size();
  const auto parsed = std::from_chars(event_id.data(), end, number);
  if (parsed.ec != std::errc{} || parsed.ptr != end || number > number_) return std::nullopt;
  return number;
}

std::string LiveFeed::event(std::uint64_t number, std::string_view kind,
                            const JsonValue& data) const {
  return fmt::format("id: {}-{}\nevent: {}\ndata: {}\n\n", epoch_, number, kind, json_text(data));
}

}  // namespace evenkeel
