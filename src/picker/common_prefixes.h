// Which blocks at the beginning of prompts are in so many of a pool's requests that they say
// nothing about where a request belongs: a system prompt that all clients share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace evenkeel {

/// Estimates what share of the recent requests contain a block, in bounded memory.
///
/// A table of sets of eight blocks; a new block takes the place of the one in its set with the
/// smallest count. Counts decay by 1 / window with every request, by forward decay: later requests
/// count for more, so that nothing has to be swept (Cormode et al., Forward decay, 2009), and of
/// blocks that were seen once the oldest goes first. Everything is allocated by the constructor.
///
/// Its estimates depend on the requests only, not on time or chance: two that see samples of the
/// same traffic agree, except on blocks whose share is close to the limit.
///
/// Thread: one at a time.
class CommonPrefixes {
 public:
  /// Sizes the table for limits of about 1 / `backends`.
  explicit CommonPrefixes(std::size_t backends);

  /// A request begins: what is counted from here on is of it.
  void begin_request();
  /// Counts the block for the request, which has not counted it yet. True if it is in more than the
  /// share `limit`, 0..1, of the recent requests; one that was remains so down to three quarters
  /// of the limit, so that its requests do not move to and fro. Never in the first few requests.
  bool count(std::uint64_t block, double limit);

  /// Memory of the table; does not change.
  std::size_t bytes() const { return sets_.size() * sizeof(Set); }

 private:
  struct Entry {
    std::uint64_t block = 0;
    float count = 0;  // 0: free
    bool common = false;
  };
  struct alignas(64) Set {
    std::array<Entry, 8> entries;
  };

  void scale_down();

  std::vector<Set> sets_;
  unsigned shift_;
  float growth_;         // of what a request counts for, from one to the next
  float increment_ = 1;  // what this request counts for
  float total_ = 0;      // of all requests
};

}  // namespace evenkeel
