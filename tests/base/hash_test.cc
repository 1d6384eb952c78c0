#include "evenkeel/base/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

std::string sample(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 131 >> 3);
  return text;
}

struct Hashed {
  std::vector<std::uint64_t> blocks;
  std::uint64_t value = 0;
};

Hashed hash_in_pieces(std::string_view text, std::size_t piece) {
  BlockHash hash;
  Hashed result;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
    hash.add(text.substr(0, piece), result.blocks, 100);
  }
  result.value = hash.value();
  return result;
}

TEST(WideHash, DependsOnEachByteAndOnTheSeed) {
  for (const std::size_t size : {1u, 16u, 17u, 100u, 300u, 2000u}) {
    std::string text = sample(size);
    const WideHash hash = wide_hash_of(text, 1);
    EXPECT_EQ(wide_hash_of(std::string(text), 1), hash) << size;
    EXPECT_NE(wide_hash_of(text, 2), hash) << size;
    EXPECT_NE(wide_hash_of(text + '\0', 1), hash) << size;
    text.back() = static_cast<char>(text.back() ^ 1);
    EXPECT_NE(wide_hash_of(text, 1), hash) << size;
  }
}

TEST(WideHasher, HashesAsTheBytesInOnePiece) {
  const std::string text = sample(5000);
  for (const std::size_t piece : {1u, 7u, 1023u, 5000u}) {
    WideHasher hasher(7);
    for (std::size_t at = 0; at < text.size(); at += piece)
      hasher.add(std::string_view(text).substr(at, piece));
    EXPECT_EQ(hasher.value(), wide_hash_of(text, 7)) << piece;
  }
}

TEST(BlockHash, DoesNotDependOnThePieces) {
  const std::string text = sample(5000);
  const Hashed whole = hash_in_pieces(text, text.size());

  EXPECT_EQ(whole.blocks.size(), 4u);
  for (const std::size_t piece : {1u, 7u, 1023u, 1024u, 1025u, 3000u}) {
    const Hashed cut = hash_in_pieces(text, piece);
    EXPECT_EQ(cut.blocks, whole.blocks) << piece;
    EXPECT_EQ(cut.value, whole.value) << piece;
  }
}

TEST(BlockHash, EachBlockCoversAllBeforeIt) {
  std::string text = sample(5000);
  const Hashed one = hash_in_pieces(text, text.size());
  text[1500] ^= 1;
  const Hashed other = hash_in_pieces(text, text.size());

  EXPECT_EQ(one.blocks[0], other.blocks[0]);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_NE(one.blocks[i], other.blocks[i]);
  EXPECT_NE(one.value, other.value);
}

TEST(BlockHash, CoversWhatIsBehindTheLastBlock) {
  BlockHash hash;
  EXPECT_EQ(hash.value(), 0u);
  hash.add("a");
  const std::uint64_t of_a = hash.value();
  hash.add("b");
  EXPECT_NE(hash.value(), of_a);
  hash.reset();
  hash.add("a");
  EXPECT_EQ(hash.value(), of_a);
}

TEST(BlockHash, KeepsNoMoreBlocksThanAllowed) {
  BlockHash hash;
  std::vector<std::uint64_t> blocks;
  hash.add(sample(5000), blocks, 2);
  EXPECT_EQ(blocks.size(), 2u);
}

TEST(Hash, OfTwoHashesDependsOnTheirOrder) {
  EXPECT_NE(hash_of(1, 2), hash_of(2, 1));
  EXPECT_EQ(hash_of(1, 2), hash_of(1, 2));
}

}  // namespace
}  // namespace evenkeel
