#include "proxy/batch_choice.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace evenkeel {

BatchSize BatchSize::operator+(const BatchSize& other) const {
  return {.rows = rows + other.rows,
          .max_input_tokens = std::max(max_input_tokens, other.max_input_tokens)};
}

std::vector<std::size_t> choose_batch(std::span<const BatchSize> waiting, std::size_t first,
                                      const BatchingConfig& config) {
  std::vector<std::size_t> order(waiting.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const BatchSize all = std::accumulate(waiting.begin(), waiting.end(), BatchSize(), std::plus<>());
  if (all.fits(config)) return order;
  const std::uint64_t wanted = waiting[first].max_input_tokens;
  std::swap(order.front(), order[first]);
  // Those that came first, if they are as close.
  const auto distance = [&](std::size_t each) {
    const std::uint64_t tokens = waiting[each].max_input_tokens;
    return std::pair(std::max(tokens, wanted) - std::min(tokens, wanted), each);
  };
  std::ranges::sort(order.begin() + 1, order.end(), {}, distance);
  BatchSize size;
  std::vector<std::size_t> chosen;
  for (const std::size_t each : order) {
    const BatchSize larger = size + waiting[each];
    if (!larger.fits(config)) continue;
    size = larger;
    chosen.push_back(each);
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace evenkeel
