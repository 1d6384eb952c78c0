#include "evenkeel/audit/audit_log.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "audit/audit_file.h"
#include "evenkeel/base/log.h"
#include "evenkeel/base/rfc3339.h"
#include "evenkeel/base/signals_blocked.h"
#include "evenkeel/json/writer.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_queued_bytes = 1024 * 1024;
constexpr std::size_t max_client_bytes = max_queued_bytes / 2;  // where clients cause a record
constexpr std::size_t max_text_bytes = 512;
constexpr std::size_t max_members_bytes = max_audit_line_bytes - 512;
constexpr Duration retry_interval = std::chrono::milliseconds(250);
constexpr Duration refill_interval = std::chrono::seconds(1);
constexpr Duration close_deadline = std::chrono::seconds(5);
constexpr std::array<std::string_view, audit_refusals> refusal_names = {
    "unauthorized", "model_not_allowed", "admin"};

/// "2026-01-31T23:59:59.123Z"
std::string time_text(std::chrono::system_clock::time_point time) {
  const auto all = std::chrono::floor<std::chrono::milliseconds>(time);
  const auto whole = std::chrono::floor<std::chrono::seconds>(all);
  std::string text = rfc3339(whole);
  text.pop_back();
  return text + fmt::format(".{:03}Z", (all - whole).count());
}

/// A value whose text is not longer than it may be.
JsonValue shortened(JsonValue value) {
  if (!value.is_text() || value.text().size() <= max_text_bytes) return value;
  return value.text().substr(0, max_text_bytes) + "...";
}

std::string members_text(std::string_view event, AuditLog::Members members) {
  std::string text =
      fmt::format(R"("time":"{}","event":)", time_text(std::chrono::system_clock::now()));
  append_json_string(text, event);
  for (auto& [name, value] : members) {
    if (value.is_null() || (value.is_text() && value.text().empty())) continue;
    std::string member = ",";
    append_json_string(member, name);
    member += ':';
    append_json(member, shortened(std::move(value)));
    if (text.size() + member.size() <= max_members_bytes) text += member;
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<AuditLog>> AuditLog::open(std::string path, std::string key) {
  auto file = AuditFile::open(std::move(path), std::move(key));
  if (!file) return std::move(file.error());
  return std::unique_ptr<AuditLog>(new AuditLog(std::move(*file)));
}

AuditLog::AuditLog(AuditFile file) : file_(std::make_unique<AuditFile>(std::move(file))) {
  keys_.reserve(max_keys);
  const SignalsBlocked blocked;  // inherited by the thread
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "audit");
    run();
  });
}

AuditLog::~AuditLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void AuditLog::record(std::string_view event, Members members, AuditCause cause) {
  queue(members_text(event, std::move(members)),
        cause == AuditCause::clients ? max_client_bytes : max_queued_bytes);
}

void AuditLog::queue(std::string members, std::size_t max_bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (queued_bytes_ + members.size() > max_bytes) {
      lost_.fetch_add(1, std::memory_order_relaxed);
      ++unreported_;
      return;
    }
    queued_bytes_ += members.size();
    queued_.push_back(std::move(members));
  }
  wake_.notify_one();
}

bool AuditLog::admits(AuditRefusal kind) {
  Refusals& refusals = refusals_[static_cast<std::size_t>(kind)];
  const bool has_room = refusals.left.load(std::memory_order_relaxed) > 0 &&
                        refusals.left.fetch_sub(1, std::memory_order_relaxed) > 0;
  if (!has_room) {
    refusals.uncounted.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    if (refill_at_ == never) refill_at_ = Clock::now() + refill_interval;
  }
  wake_.notify_one();
  return true;
}

bool AuditLog::is_first_use(std::string_view key) {
  const std::lock_guard lock(keys_mutex_);
  return keys_.size() < max_keys && keys_.emplace(key).second;
}

void AuditLog::run() {
  std::unique_lock lock(mutex_);
  Instant retry_at{};
  Instant give_up_at = never;
  while (true) {
    const auto is_due = [&] {
      const Instant now = Clock::now();
      const bool may_write = !queued_.empty() && now >= retry_at;
      return stopping_ || may_write || now >= refill_at_;
    };
    const Instant next = queued_.empty() ? refill_at_ : std::min(refill_at_, retry_at);
    if (next == never) {
      wake_.wait(lock, is_due);
    } else {
      wake_.wait_until(lock, next, is_due);
    }
    const Instant now = Clock::now();
    const bool stops = stopping_;  // what came before is to be written, and counted
    if (now >= refill_at_ || stops) refill();
    if (now >= retry_at || stops) {
      const bool all_written = write_queued(lock);
      retry_at = all_written ? Instant{} : Clock::now() + retry_interval;
    }
    if (!stops) continue;
    if (give_up_at == never) give_up_at = Clock::now() + close_deadline;
    if (queued_.empty() || Clock::now() >= give_up_at) break;
    lock.unlock();
    std::this_thread::sleep_for(retry_interval);
    lock.lock();
  }
  if (queued_.empty()) return;
  log::admin.error(fmt::format("audit: the last {} records are lost: the disk did not take them",
                               queued_.size()));
}

/// Writes the records in order. False if one has to wait.
bool AuditLog::write_queued(std::unique_lock<std::mutex>& lock) {
  bool any = false;
  int error = 0;
  while (error == 0 && !queued_.empty()) {
    const std::string members = queued_.front();  // others append behind it
    lock.unlock();
    error = file_->append(members);
    lock.lock();
    if (error != 0) break;
    any = true;
    written_.fetch_add(1, std::memory_order_relaxed);
    last_sequence_.store(file_->head().sequence, std::memory_order_relaxed);
    queued_bytes_ -= members.size();
    queued_.pop_front();
    if (queued_.empty()) report_lost();
  }
  lock.unlock();
  if (any && error == 0) error = file_->sync();
  report(error);
  lock.lock();
  return queued_.empty();
}

/// Queues a record of those that are lost. REQUIRES: the mutex is held.
void AuditLog::report_lost() {
  if (unreported_ == 0) return;
  std::string members = members_text("records_lost", {{"count", std::exchange(unreported_, 0)}});
  queued_bytes_ += members.size();
  queued_.push_back(std::move(members));
}

/// Admits refusals again, and queues a record of those that were left out, as soon as there is room
/// for it. REQUIRES: the mutex is held.
void AuditLog::refill() {
  const bool has_room = queued_bytes_ < max_client_bytes;
  refill_at_ = has_room ? never : Clock::now() + refill_interval;
  Members members;
  for (std::size_t i = 0; i < audit_refusals; ++i) {
    Refusals& refusals = refusals_[i];
    refusals.left.store(refusals_per_second, std::memory_order_relaxed);
    if (!has_room) continue;
    const std::uint64_t count = refusals.uncounted.exchange(0, std::memory_order_relaxed);
    if (count > 0) members.emplace_back(refusal_names[i], count);
  }
  if (members.empty()) return;
  std::string text = members_text("refused_more", std::move(members));
  queued_bytes_ += text.size();
  queued_.push_back(std::move(text));
}

void AuditLog::report(int error) {
  const bool fails = error != 0;
  if (fails == failing_) return;
  failing_ = fails;
  if (fails) {
    log::admin.error(fmt::format(
        "audit: records cannot be written: {}; they are kept in memory, and lost once that is full",
        error == EWOULDBLOCK ? "another process holds the lock of the file"
                             : std::strerror(error)));
  } else {
    log::admin.info("audit: records are written again");
  }
}

}  // namespace evenkeel
