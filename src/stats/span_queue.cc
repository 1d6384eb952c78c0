#include "evenkeel/stats/span_queue.h"

namespace evenkeel {

SpanQueue::~SpanQueue() { delete waiting_.load(std::memory_order_relaxed); }

bool SpanQueue::has_room(std::uint64_t count) {
  if (!full_) [[likely]]
    return true;
  full_ = waiting_.load(std::memory_order_relaxed) != nullptr;
  if (full_) dropped_.add(count);
  return !full_;
}

void SpanQueue::append(std::string_view json, std::uint64_t count) {
  // Acquire and release: the exporter never sees a batch that is being written, nor this worker
  // one that is being read.
  std::unique_ptr<SpanBatch> batch(waiting_.exchange(nullptr, std::memory_order_acquire));
  if (batch == nullptr) batch = std::make_unique<SpanBatch>();
  full_ = batch->json.size() + json.size() >= max_bytes;
  if (full_) {
    dropped_.add(count);
  } else {
    if (batch->count > 0) batch->json += ',';
    batch->json += json;
    batch->count += count;
  }
  waiting_.store(batch.release(), std::memory_order_release);
}

std::unique_ptr<SpanBatch> SpanQueue::take() {
  return std::unique_ptr<SpanBatch>(waiting_.exchange(nullptr, std::memory_order_acq_rel));
}

const char* to_string(SpanLoss loss) {
  switch (loss) {
    case SpanLoss::queue_full: return "queue_full";
    case SpanLoss::unreachable: return "unreachable";
    case SpanLoss::rejected: return "rejected";
  }
  return "";
}

}  // namespace evenkeel
