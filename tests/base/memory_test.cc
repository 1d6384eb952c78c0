#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "evenkeel/base/buffer.h"
#include "evenkeel/base/free_memory.h"
#include "evenkeel/base/pool_allocator.h"
#include "evenkeel/base/rng.h"
#include "sanitizers.h"

namespace evenkeel {
namespace {

TEST(PooledMemory, IsNeverAllocatedTwiceAndIsLargeEnough) {
  Rng rng(1);
  struct Piece {
    char* bytes;
    std::size_t size;
    char mark;
  };
  std::vector<Piece> pieces;
  for (int i = 0; i < 20'000; ++i) {
    if (pieces.size() > 600 || (!pieces.empty() && rng.below(2) == 0)) {
      const std::size_t at = rng.below(static_cast<std::uint32_t>(pieces.size()));
      const Piece piece = pieces[at];
      ASSERT_EQ(piece.bytes[0], piece.mark);
      ASSERT_EQ(piece.bytes[piece.size - 1], piece.mark);
      free_pooled(piece.bytes, piece.size);
      pieces[at] = pieces.back();
      pieces.pop_back();
      continue;
    }
    const std::size_t size = 1 + rng.below(rng.below(10) == 0 ? 20'000 : 500);
    auto* bytes = static_cast<char*>(allocate_pooled(size));
    const char mark = static_cast<char>(i);
    std::memset(bytes, mark, size);
    pieces.push_back({bytes, size, mark});
  }
  for (const Piece& piece : pieces) free_pooled(piece.bytes, piece.size);
}

TEST(PooledMemory, MayBeFreedOnAnotherThread) {
  std::vector<void*> taken;
  for (int i = 0; i < 1000; ++i) taken.push_back(allocate_pooled(100));
  std::thread other([&] {
    for (void* memory : taken) free_pooled(memory, 100);
    void* own = allocate_pooled(100);
    free_pooled(own, 100);
  });
  other.join();
}

struct Large : Pooled {
  char bytes[200];
};

// These objects outlive the thread's free lists, since the thread constructed their owners first.
TEST(PooledMemory, MayBeFreedWhileTheThreadExits) {
  std::thread other([] {
    thread_local std::vector<std::unique_ptr<Large>> late;
    thread_local std::vector<Block> late_blocks;
    late.reserve(300);
    late_blocks.reserve(50);
    for (int i = 0; i < 300; ++i) late.push_back(std::make_unique<Large>());
    for (int i = 0; i < 50; ++i) late_blocks.push_back(Block::take(Block::small));
    late.resize(150);  // some are in the free lists now
    late_blocks.erase(late_blocks.begin(), late_blocks.begin() + 25);
  });
  other.join();
}

TEST(Block, IsRecycled) {
#ifdef EVENKEEL_SANITIZED
  GTEST_SKIP() << "a sanitizer recycles no memory at once";
#endif
  char* first = nullptr;
  {
    Block block = Block::take(Block::small);
    EXPECT_TRUE(block);
    EXPECT_EQ(block.size(), Block::small);
    std::memset(block.data(), 1, block.size());
    first = block.data();
  }
  Block again = Block::take(Block::small);
  EXPECT_EQ(again.data(), first);
  Block other = Block::take(Block::large);
  EXPECT_NE(other.data(), first);
  std::memset(other.data(), 2, other.size());
}

TEST(PooledMemory, GoesBackToTheHeapOnRequest) {
#ifdef EVENKEEL_SANITIZED
  GTEST_SKIP() << "a sanitizer recycles no memory at once";
#endif
  free_pooled(allocate_pooled(1000), 1000);
  release_cached_objects();

  EXPECT_EQ(detail::free_lists.head[(1000 - 1) / 64], nullptr);
  void* again = allocate_pooled(1000);
  free_pooled(again, 1000);
  EXPECT_EQ(allocate_pooled(1000), again);  // and is recycled as before
  free_pooled(again, 1000);
}

TEST(Block, GoesBackToTheHeapOnRequest) {
  {
    const Block block = Block::take(Block::large);
  }
  release_cached_blocks();

  const Block first = Block::take(Block::large);
  EXPECT_NE(first.data(), nullptr);
}

TEST(Block, HasASingleOwnerAfterAMove) {
  Block first = Block::take(Block::small);
  char* bytes = first.data();
  Block second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): under test
  EXPECT_EQ(second.data(), bytes);
  Block third;
  third = std::move(second);
  EXPECT_EQ(third.data(), bytes);
}

TEST(ReadBuffer, ExposesItsPartsAndReleases) {
  ReadBuffer buffer;
  EXPECT_TRUE(buffer.empty());
  buffer.block = Block::take(Block::small);
  std::memcpy(buffer.free_begin(), "hello", 5);
  buffer.end += 5;
  buffer.begin += 1;
  EXPECT_EQ(buffer.bytes(), "ello");
  EXPECT_EQ(buffer.free_size(), Block::small - 5);
  buffer.release();
  EXPECT_TRUE(buffer.empty());
  EXPECT_FALSE(buffer.block);
}

}  // namespace
}  // namespace evenkeel
