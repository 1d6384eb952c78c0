#include "evenkeel/base/hash.h"

#define XXH_STATIC_LINKING_ONLY  // for the size of its state
#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
// There if the library was built with it. XXH3_64bits is then the one for this CPU's vectors.
#include <xxh_x86dispatch.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>

namespace evenkeel {
namespace {

/// The library's first call chooses by the CPU, and writes down what it chose: it is made before
/// there are threads.
[[maybe_unused]] const std::uint64_t first_call = [] {
  constexpr std::array<char, 1024> bytes{};
  return XXH3_64bits(bytes.data(), bytes.size());
}();

}  // namespace

std::uint64_t hash_of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

WideHash wide_hash_of(std::string_view bytes, std::uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed);
  return {.low = hash.low64, .high = hash.high64};
}

namespace {

XXH3_state_t* state_in(std::byte* memory) { return reinterpret_cast<XXH3_state_t*>(memory); }

}  // namespace

WideHasher::WideHasher(std::uint64_t seed) {
  static_assert(sizeof(XXH3_state_t) <= sizeof state_ && alignof(XXH3_state_t) <= 64);
  XXH3_INITSTATE(new (state_.data()) XXH3_state_t);
  XXH3_128bits_reset_withSeed(state_in(state_.data()), seed);
}

void WideHasher::add(std::string_view bytes) {
  XXH3_128bits_update(state_in(state_.data()), bytes.data(), bytes.size());
}

WideHash WideHasher::value() const {
  const XXH128_hash_t hash =
      XXH3_128bits_digest(reinterpret_cast<const XXH3_state_t*>(state_.data()));
  return {.low = hash.low64, .high = hash.high64};
}

std::uint64_t hash_of(std::uint64_t first, std::uint64_t second) {
  std::array<char, 2 * sizeof(std::uint64_t)> bytes;
  const auto put = [&bytes](std::size_t at, std::uint64_t value) {
    // The same on machines of either byte order.
    if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  };
  put(0, first);
  put(sizeof first, second);
  return hash_of(std::string_view(bytes.data(), bytes.size()));
}

void BlockHash::add_block(const char* block) {
  chain_ = hash_of(chain_, hash_of(std::string_view(block, block_bytes)));
}

void BlockHash::add(std::string_view bytes, std::vector<std::uint64_t>& blocks,
                    std::size_t max_blocks) {
  if (bytes.size() < block_bytes - partial_bytes_) {  // most pieces end no block
    if (!bytes.empty()) std::memcpy(&partial_[partial_bytes_], bytes.data(), bytes.size());
    partial_bytes_ += bytes.size();
    return;
  }
  const auto block_ended = [&] {
    if (blocks.size() < max_blocks) blocks.push_back(chain_);
  };
  if (partial_bytes_ > 0) {
    const std::size_t count = block_bytes - partial_bytes_;
    std::copy_n(bytes.data(), count, partial_.data() + partial_bytes_);
    bytes.remove_prefix(count);
    add_block(partial_.data());
    block_ended();
    partial_bytes_ = 0;
  }
  for (; bytes.size() >= block_bytes; bytes.remove_prefix(block_bytes)) {
    add_block(bytes.data());
    block_ended();
  }
  std::copy_n(bytes.data(), bytes.size(), partial_.data());
  partial_bytes_ = bytes.size();
}

void BlockHash::add(std::string_view bytes) {
  std::vector<std::uint64_t> none;
  add(bytes, none, 0);
}

void BlockHash::reset() {
  chain_ = 0;
  partial_bytes_ = 0;
}

std::uint64_t BlockHash::value() const {
  if (partial_bytes_ == 0) return chain_;
  return hash_of(chain_, hash_of(std::string_view(partial_.data(), partial_bytes_)));
}

}  // namespace evenkeel
