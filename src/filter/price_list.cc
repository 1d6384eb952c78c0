#include "evenkeel/filter/price_list.h"

#include <algorithm>
#include <cmath>

#include "evenkeel/base/glob.h"

namespace evenkeel {
namespace {

std::uint64_t millionths(double price) {
  return static_cast<std::uint64_t>(std::llround(price * 1e6));
}

void raise_to(Price& price, const Price* other) {
  if (other == nullptr) return;
  price.input = std::max(price.input, other->input);
  price.output = std::max(price.output, other->output);
  price.cached_input = std::max(price.cached_input, other->cached_input);
}

}  // namespace

Amount cost_of(const BilledTokens& tokens, const Price& price) {
  const std::uint64_t cached = std::min(tokens.cached.value_or(0), tokens.input);
  return Amount::of_tokens(tokens.input - cached, price.input) +
         Amount::of_tokens(cached, price.cached_input) +
         Amount::of_tokens(tokens.output, price.output);
}

PriceList::PriceList(const std::vector<ModelPrice>& prices) {
  for (const ModelPrice& each : prices) {
    entries_.push_back(
        {.model = each.model,
         .price = {.input = millionths(each.input),
                   .output = millionths(each.output),
                   .cached_input = millionths(each.cached_input.value_or(each.input))}});
  }
}

PriceList::PriceList(const Config& config) : PriceList(config.usage.prices) {
  if (entries_.empty()) return;
  for (const PoolConfig& pool : config.pools) {
    listed_.insert(pool.models.begin(), pool.models.end());
    for (const auto& [name, served] : pool.model_names) raise_to(renamed_[name], find(served));
    const Price* const price = pool.model.empty() ? nullptr : find(pool.model);
    if (price == nullptr) continue;
    raise_to(pool.models.empty() ? any_ : unlisted_, price);
    for (const std::string& name : pool.models) {
      if (!pool.model_names.contains(name)) raise_to(renamed_[name], price);
    }
  }
}

const Price* PriceList::find(const InferenceInfo& inference) const {
  if (!inference.served_model.empty()) {
    if (const Price* const served = find(inference.served_model)) return served;
  }
  return find(inference.request.model);
}

const Price* PriceList::find(std::string_view name) const {
  const auto entry = std::ranges::find_if(
      entries_, [name](const Entry& each) { return matches_glob(each.model, name); });
  return entry == entries_.end() ? nullptr : &entry->price;
}

Price PriceList::highest(std::string_view model) const {
  Price price = any_;
  raise_to(price, find(model));
  if (const auto found = renamed_.find(model); found != renamed_.end())
    raise_to(price, &found->second);
  if (!listed_.contains(model)) raise_to(price, &unlisted_);
  return price;
}

}  // namespace evenkeel
