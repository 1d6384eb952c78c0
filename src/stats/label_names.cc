#include "evenkeel/stats/label_names.h"

#include "evenkeel/stats/chunked_array.h"

namespace evenkeel {

std::uint32_t LabelNames::find(std::string_view name) const {
  const auto found = indices_.find(name);
  return found == indices_.end() ? 0 : found->second;
}

std::uint32_t LabelNames::add(std::string_view name) {
  if (const std::uint32_t known = find(name); known != 0) return known;
  if (free_.empty() && entries_.size() >= ChunkedArray<int>::limit) return 0;
  if (free_.empty()) {
    entries_.emplace_back();
    free_.push_back(static_cast<std::uint32_t>(entries_.size() - 1));
  }
  const std::uint32_t index = free_.back();
  entries_[index].name = indices_.emplace(name, index).first->first;
  free_.pop_back();
  return index;
}

void LabelNames::use(std::uint32_t index) {
  if (index == 0) return;
  ++entries_[index].uses;
  if (entries_[index].is_former) remove_former(index);
}

void LabelNames::release(std::uint32_t index) {
  if (index == 0) return;
  if (--entries_[index].uses == 0) append_former(index);
}

void LabelNames::append_former(std::uint32_t index) {
  Entry& ring = entries_[0];
  Entry& entry = entries_[index];
  entry.is_former = true;
  entry.previous = ring.previous;
  entries_[ring.previous].next = index;
  ring.previous = index;
  entry.next = 0;
  ++former_;
}

void LabelNames::remove_former(std::uint32_t index) {
  Entry& entry = entries_[index];
  entries_[entry.previous].next = entry.next;
  entries_[entry.next].previous = entry.previous;
  entry.is_former = false;
  --former_;
}

void LabelNames::forget(std::vector<std::uint32_t>& forgotten) {
  while (former_ > max_former) {
    const std::uint32_t oldest = entries_[0].next;
    forgotten.push_back(oldest);
    remove_former(oldest);
    indices_.erase(indices_.find(entries_[oldest].name));
    entries_[oldest] = {};
  }
}

void LabelNames::reuse(const std::vector<std::uint32_t>& forgotten) {
  free_.insert(free_.end(), forgotten.rbegin(), forgotten.rend());
}

std::string_view LabelNames::used_name(std::size_t index) const {
  const Entry& entry = entries_[index];
  return entry.is_former ? std::string_view() : entry.name;
}

}  // namespace evenkeel
