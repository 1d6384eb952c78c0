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
  const BatchSize all =
      std::accumulate(waiting.begin(), waiting.end(), BatchSize(), std::plus<BatchSize>());
  if (all.fits(config)) return order;
  const std::uint64_t wanted = waiting[first].max_input_tokens;
  std::swap(order.front(), order[first]);
  std::stable_sort(order.begin() + 1, order.end(), [&](std::size_t one, std::size_t other) {
    const auto distance = [&](std::size_t each) {
      const std::uint64_t tokens = waiting[each].max_input_tokens;
      return std::max(tokens, wanted) - std::min(tokens, wanted);
    };
    return distance(one) < distance(other);
  });
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
