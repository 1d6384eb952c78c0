#include "evenkeel/pool/answer_cache.h"

#include <utility>

#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

/// What an entry takes beside its bytes: nodes of the list and the table, and their allocations.
constexpr std::size_t entry_overhead = 384;
constexpr std::size_t field_overhead = 32;

/// How many answers of the largest size fit.
constexpr std::uint64_t least_answers = 64;

}  // namespace

std::size_t KeptAnswer::size() const {
  std::size_t size = entry_overhead + body.size();
  for (const Field& field : fields) size += field_overhead + field.name.size() + field.value.size();
  return size;
}

AnswerCache::Seeds AnswerCache::new_seeds() { return {random_seed(), random_seed()}; }

AnswerCache::AnswerCache() : seeds_(new_seeds()) {}

void AnswerCache::set_capacity(std::uint64_t bytes) {
  capacity_.store(bytes, std::memory_order_relaxed);
}

std::uint64_t AnswerCache::part_capacity() const {
  return capacity_.load(std::memory_order_relaxed) / part_count;
}

std::uint64_t AnswerCache::max_answer_bytes() const {
  return capacity_.load(std::memory_order_relaxed) / least_answers;
}

void AnswerCache::Part::move_out(Entries::iterator entry, Entries& to) {
  bytes -= entry->answer->size();
  by_key.erase(entry->key);
  to.splice(to.end(), entries, entry);
}

KeptAnswerPtr AnswerCache::find(const AnswerKey& key, Instant now) {
  Entries dropped;  // freed behind the lock
  Part& part = part_of(key);
  const std::lock_guard lock(part.mutex);
  const auto found = part.by_key.find(key);
  if (found == part.by_key.end()) return nullptr;
  const auto entry = found->second;
  if (now >= entry->answer->stale_until) {
    part.move_out(entry, dropped);
    return nullptr;
  }
  part.entries.splice(part.entries.begin(), part.entries, entry);
  return entry->answer;
}

void AnswerCache::keep(const AnswerKey& key, KeptAnswerPtr answer, std::uint64_t age) {
  const std::uint64_t size = answer->size();
  if (size > max_answer_bytes()) return;
  Entries dropped;
  Part& part = part_of(key);
  const std::lock_guard lock(part.mutex);
  if (age != this->age()) return;
  if (const auto found = part.by_key.find(key); found != part.by_key.end())
    part.move_out(found->second, dropped);
  while (!part.entries.empty() && part.bytes + size > part_capacity())
    part.move_out(std::prev(part.entries.end()), dropped);
  part.entries.push_front({.key = key, .answer = std::move(answer)});
  part.by_key.emplace(key, part.entries.begin());
  part.bytes += size;
}

std::size_t AnswerCache::clear() {
  age_.fetch_add(1, std::memory_order_relaxed);  // before any part is locked: see keep
  std::size_t count = 0;
  for (Part& part : parts_) {
    Entries dropped;
    const std::lock_guard lock(part.mutex);
    count += part.entries.size();
    dropped.swap(part.entries);
    part.by_key.clear();
    part.bytes = 0;
  }
  return count;
}

AnswerCache::Stats AnswerCache::stats() const {
  Stats stats;
  for (const Part& part : parts_) {
    const std::lock_guard lock(part.mutex);
    stats.bytes += part.bytes;
    stats.answers += part.entries.size();
  }
  return stats;
}

}  // namespace evenkeel
