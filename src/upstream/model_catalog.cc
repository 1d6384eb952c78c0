#include "evenkeel/upstream/model_catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evenkeel/config/spelling.h"
#include "evenkeel/inference/engine.h"

namespace evenkeel {
namespace {

/// The most of a name that an error repeats.
constexpr std::size_t max_quoted = 100;

/// True if the backend's models can be requested. A standby one counts, as it joins when needed.
bool counts(const BackendState& state, const BackendStatus* status) {
  if (state.other_reasons(OutOfRotation::standby) != 0) return false;
  // Without checks, failed connections are what there is to go by.
  const bool unchecked = status == nullptr || status->health.state == HealthState::unchecked;
  return !unchecked || state.connect_failures() == 0;
}

bool names(const ModelCard& card, std::string_view model, std::string_view implied_tag) {
  const std::string_view id = card.id;
  if (id == model) return true;
  return !implied_tag.empty() && id.size() == model.size() + implied_tag.size() &&
         id.starts_with(model) && id.ends_with(implied_tag);
}

const ModelCard* find_card(const std::vector<ModelCard>& cards, std::string_view model,
                           std::string_view implied_tag) {
  const auto same =
      std::ranges::find_if(cards, [&](const ModelCard& card) { return card.id == model; });
  if (same != cards.end()) return &*same;
  const auto tagged = std::ranges::find_if(
      cards, [&](const ModelCard& card) { return names(card, model, implied_tag); });
  return tagged == cards.end() ? nullptr : &*tagged;
}

/// The name between backticks, without what could break a line or a terminal, and not too long.
std::string quoted(std::string_view name) {
  std::size_t size = std::min(name.size(), max_quoted);
  const auto continues = [&](std::size_t at) {
    return (static_cast<unsigned char>(name[at]) & 0xc0) == 0x80;
  };
  while (size > 0 && size < name.size() && continues(size)) --size;
  std::string text = "`";
  for (const char c : name.substr(0, size)) {
    const auto byte = static_cast<unsigned char>(c);
    text += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  if (size < name.size()) text += "...";
  return text += '`';
}

}  // namespace

const ModelCard* PoolModels::find(std::string_view model) const {
  return find_card(models, model, implied_tag);
}

const PoolModels* ModelCatalog::find(std::string_view pool) const {
  const auto found = pools_.find(pool);
  return found == pools_.end() ? nullptr : found->second.get();
}

std::shared_ptr<const ModelCatalog> ModelCatalogBuilder::update(
    const Config& config, const PoolSet& pool_set, const MonitorSnapshot& monitored,
    const std::set<std::string>& covered) {
  bool changed = false;
  std::map<std::string, Known, std::less<>> now;
  for (std::size_t i = 0; i < config.pools.size() && !covered.empty(); ++i) {
    const PoolConfig& pool = config.pools[i];
    if (!covered.contains(pool.name)) continue;
    Inputs inputs = inputs_of(pool, pool_set.pools()[i], monitored);
    auto before = known_.find(pool.name);
    if (before != known_.end() && before->second.inputs == inputs) {
      now.insert(known_.extract(before));
      continue;
    }
    changed = true;
    auto models = std::make_shared<const PoolModels>(models_of(inputs));
    now.emplace(pool.name, Known{.inputs = std::move(inputs), .models = std::move(models)});
    if (before != known_.end()) known_.erase(before);
  }
  changed = changed || !known_.empty();  // pools that are gone
  known_ = std::move(now);
  if (!changed) return nullptr;
  ModelCatalog::Pools pools;
  for (const auto& [name, known] : known_) pools.emplace(name, known.models);
  return std::make_shared<const ModelCatalog>(std::move(pools));
}

ModelCatalogBuilder::Inputs ModelCatalogBuilder::inputs_of(const PoolConfig& pool,
                                                           const PoolSet::PoolEntry& entry,
                                                           const MonitorSnapshot& monitored) {
  Inputs inputs{.named = pool.models, .served = pool.model};
  for (const BackendPtr& backend : entry.state->backends()) {
    const BackendStatus* const status = monitored.find(pool.name, backend->id());
    if (status != nullptr) {
      inputs.own_api |= status->has_own_models_api;
      const std::string_view tag = engine_named(status->engine).health.implied_model_tag;
      if (!tag.empty()) inputs.implied_tag = tag;
    }
    if (!counts(backend->state(), status)) continue;
    inputs.available = true;
    const bool read = status != nullptr && status->models != nullptr;
    if (!read || !status->models_problem.empty()) inputs.listed = false;
    if (status == nullptr) continue;
    if (status->cards != nullptr) {
      inputs.cards.push_back(status->cards);
    } else if (status->models != nullptr) {
      inputs.lists.push_back(status->models);
    }
  }
  return inputs;
}

PoolModels ModelCatalogBuilder::models_of(const Inputs& inputs) {
  PoolModels pool{.available = inputs.available,
                  .listed = inputs.listed,
                  .own_api = inputs.own_api,
                  .implied_tag = inputs.implied_tag};
  const bool reported = !inputs.cards.empty() || !inputs.lists.empty();
  pool.known = !inputs.available || (reported && inputs.listed) || !inputs.named.empty();
  if (!inputs.available) return pool;

  std::map<std::string, ModelCard, std::less<>> cards;  // the first backend's of each
  for (const ModelCards& list : inputs.cards) {
    for (const ModelCard& card : *list) cards.emplace(card.id, card);
  }
  for (const ModelList& list : inputs.lists) {
    for (const std::string& id : *list) cards.emplace(id, ModelCard{.id = id});
  }
  std::vector<ModelCard> by_name;
  by_name.reserve(cards.size());
  for (auto& [id, card] : cards) by_name.push_back(std::move(card));
  if (inputs.named.empty()) {
    pool.models = std::move(by_name);
    return pool;
  }
  for (const std::string& name : inputs.named) {
    if (find_card(pool.models, name, {}) != nullptr) continue;  // named twice
    const std::string& listed_as = inputs.served.empty() ? name : inputs.served;
    const ModelCard* const card = find_card(by_name, listed_as, inputs.implied_tag);
    ModelCard& added = pool.models.emplace_back(card == nullptr ? ModelCard{} : *card);
    added.id = name;
  }
  return pool;
}

Error model_not_found(std::string_view model, std::span<const std::string_view> names,
                      std::string_view list) {
  std::string detail = fmt::format("The model {} does not exist.", quoted(model));
  std::vector<std::string_view> others(names.begin(), names.end());
  std::erase(others, model);  // found by another rule than the one that refuses it
  const std::vector<std::string_view> near = near_names(model, others);
  for (std::size_t i = 0; i < near.size(); ++i) {
    detail += i == 0 ? " Did you mean " : i + 1 < near.size() ? ", " : " or ";
    detail += quoted(near[i]);
  }
  if (!near.empty()) detail += '?';
  detail.append(" GET ").append(list).append(" lists the models.");
  return {.fault = Fault::model_not_found, .side = Side::client, .detail = std::move(detail)};
}

}  // namespace evenkeel
