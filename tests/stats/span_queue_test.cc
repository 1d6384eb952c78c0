#include "evenkeel/stats/span_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace evenkeel {
namespace {

TEST(SpanQueue, HandsOverWhatWasAppended) {
  SpanQueue queue;
  EXPECT_EQ(queue.take(), nullptr);
  queue.append("{1},{2}", 2);
  queue.append("{3}", 1);
  const auto batch = queue.take();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->json, "{1},{2},{3}");
  EXPECT_EQ(batch->count, 3u);
  EXPECT_EQ(queue.take(), nullptr);
}

TEST(SpanQueue, HoldsALimitedNumberOfBytes) {
  SpanQueue queue;
  const std::string large(SpanQueue::max_bytes / 2, 'x');
  EXPECT_TRUE(queue.has_room(2));
  queue.append(large, 2);
  queue.append(large, 2);
  EXPECT_EQ(queue.dropped(), 2u);
  EXPECT_FALSE(queue.has_room(3));
  EXPECT_EQ(queue.dropped(), 5u);

  EXPECT_EQ(queue.take()->count, 2u);
  EXPECT_TRUE(queue.has_room(3));
  queue.append("{}", 1);
  EXPECT_EQ(queue.take()->count, 1u);
  EXPECT_EQ(queue.dropped(), 5u);
}

TEST(SpanQueue, LosesNothingBetweenTwoThreads) {
  SpanQueue queue;
  constexpr std::uint64_t appended = 100'000;
  std::thread worker([&queue] {
    for (std::uint64_t i = 0; i < appended; ++i) queue.append("{}", 1);
  });
  std::uint64_t count = 0;
  std::size_t bytes = 0;
  std::uint64_t batches = 0;
  while (count + queue.dropped() < appended) {
    const auto batch = queue.take();
    if (batch == nullptr) continue;
    count += batch->count;
    bytes += batch->json.size();
    ++batches;
  }
  worker.join();
  EXPECT_EQ(queue.take(), nullptr);
  EXPECT_EQ(count + queue.dropped(), appended);
  EXPECT_EQ(bytes, 3 * count - batches);  // each "{}", and commas between them
}

}  // namespace
}  // namespace evenkeel
