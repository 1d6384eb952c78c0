#include "evenkeel/inference/engine_metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "evenkeel/base/decimal.h"
#include "evenkeel/base/hash.h"
#include "inference/valid_values.h"

namespace evenkeel {
namespace {

constexpr double max_tokens = 0x1p50;
constexpr double max_time = 0x1p40;  // in seconds

constexpr std::size_t max_adapters = 32;

std::vector<std::string_view> distinct_names(const std::vector<Series>& series) {
  std::vector<std::string_view> names;
  for (const Series& each : series) {
    if (std::ranges::find(names, each.name) == names.end()) names.push_back(each.name);
  }
  return names;
}

SeriesIndex any_series() {
  std::vector<Series> all;
  for (const Engine* engine : engines()) {
    all.insert(all.end(), engine->metrics.series.begin(), engine->metrics.series.end());
  }
  return SeriesIndex(std::move(all));
}

std::map<const Engine*, SeriesIndex> own_series() {
  std::map<const Engine*, SeriesIndex> by_engine;
  for (const Engine* engine : engines()) {
    const auto& series = engine->metrics.series;
    by_engine.emplace(engine, SeriesIndex({series.begin(), series.end()}));
  }
  return by_engine;
}

/// Appends the hashes of the names in `list`, which are separated by commas, each once.
void append_names(std::string_view list, std::vector<std::uint64_t>& hashes) {
  while (!list.empty() && hashes.size() < max_adapters) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view name = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (name.empty()) continue;
    const std::uint64_t hash = hash_of(name);
    if (std::ranges::find(hashes, hash) == hashes.end()) hashes.push_back(hash);
  }
}

}  // namespace

SeriesIndex::SeriesIndex(std::vector<Series> all)
    : series(std::move(all)), names(distinct_names(series)) {
  for (const Series& each : series) name_indices.push_back(names.find(each.name));
}

const SeriesIndex& series_of(const Engine& engine) {
  static const SeriesIndex any = any_series();
  static const std::map<const Engine*, SeriesIndex> by_engine = own_series();
  return engine.metrics.any_series ? any : by_engine.at(&engine);
}

std::uint16_t metrics_port_of(const Engine& engine, std::uint16_t port) {
  const auto found = std::ranges::find(engine.metrics.ports, port, &MetricsPort::port);
  return found == engine.metrics.ports.end() ? port : found->metrics_port;
}

bool is_consumed_by_scrape(const Engine& engine, std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const std::string_view consumed = engine.metrics.consumed_path;
  return !consumed.empty() && path.substr(0, path.find('?')) == consumed;
}

void EngineMetricsReader::sample(std::size_t name_index, const Sample& sample) {
  const auto allowed = [&](const LabelMatcher& rule) {
    const auto value = find_label(sample.labels, rule.label, scratch_);
    return value ? *value == rule.value : !rule.required;
  };
  for (std::size_t i = 0; i < index_.series.size(); ++i) {
    const Series& series = index_.series[i];
    if (index_.name_indices[i] != name_index || !std::ranges::all_of(series.matchers, allowed))
      continue;
    add(series, sample);
  }
}

void EngineMetricsReader::add(const Series& series, const Sample& sample) {
  if (series.adapters != nullptr) return read_adapters(*series.adapters, sample);
  const auto own = value_of(series, sample);
  if (!own) return;
  const double value = *own * series.scale;
  Accumulator& accumulator =
      accumulators_[static_cast<std::size_t>(series.quantity)][series.preference];
  accumulator.aggregation = series.aggregation;
  if (series.group_by.empty()) return add(accumulator, value);
  const auto group = find_label(sample.labels, series.group_by, scratch_);
  const auto [known, first] =
      accumulator.groups.try_emplace(std::string(group.value_or("")), value);
  if (!first && (std::isnan(value) || value > known->second)) known->second = value;
}

std::optional<double> EngineMetricsReader::value_of(const Series& series, const Sample& sample) {
  if (series.factors.empty()) return sample.value;
  double product = 1;
  for (const std::string_view label : series.factors) {
    const auto text = find_label(sample.labels, label, scratch_);
    const auto factor = text ? parse_number<double>(*text) : std::nullopt;
    if (!factor) return std::nullopt;
    product *= *factor;
  }
  return product;
}

/// Keeps the adapters that were used last.
void EngineMetricsReader::note_use(std::uint64_t adapter, double at) {
  auto use = std::ranges::find(adapter_uses_, adapter, &AdapterUse::adapter);
  if (use == adapter_uses_.end()) {
    if (adapter_uses_.size() < max_adapters) {
      adapter_uses_.push_back({adapter, at});
      return;
    }
    use = std::ranges::min_element(adapter_uses_, {}, &AdapterUse::at);
  }
  if (at > use->at) *use = {adapter, at};
}

/// vLLM keeps a sample for each state that it was ever in, with the time when it last was: together
/// they tell when each adapter was last used.
void EngineMetricsReader::read_adapters(const AdapterLabels& labels, const Sample& sample) {
  if (std::isnan(sample.value)) return;  // no time: it has no place in the order
  std::vector<std::uint64_t> running;
  append_names(find_label(sample.labels, labels.running, scratch_).value_or(""), running);
  for (const std::uint64_t adapter : running) note_use(adapter, sample.value);
  if (adapters_ && sample.value <= adapters_updated_) return;
  adapters_updated_ = sample.value;
  AdapterReport& report = adapters_.emplace();
  report.in_use = std::move(running);
  append_names(find_label(sample.labels, labels.waiting, scratch_).value_or(""), report.in_use);
  const auto slots =
      parse_number<double>(find_label(sample.labels, labels.slots, scratch_).value_or(""));
  if (slots) {
    report.slots = static_cast<std::uint32_t>(std::clamp<double>(*slots, 0, max_adapters));
  }
}

void EngineMetricsReader::add(Accumulator& accumulator, double value) {
  if (accumulator.samples == 0 || std::isnan(value)) {
    accumulator.value = value;
  } else if (accumulator.aggregation == Aggregation::max) {
    accumulator.value = std::max(accumulator.value, value);
  } else {
    accumulator.value += value;
  }
  ++accumulator.samples;
}

double EngineMetricsReader::value_of(Quantity quantity) const {
  for (Accumulator accumulator : accumulators_[static_cast<std::size_t>(quantity)]) {
    for (const auto& [group, value] : accumulator.groups) add(accumulator, value);
    if (accumulator.samples == 0) continue;
    return accumulator.aggregation == Aggregation::mean ? accumulator.value / accumulator.samples
                                                        : accumulator.value;
  }
  return LoadSample::unknown;
}

LoadSample EngineMetricsReader::reading() const {
  LoadSample reading{
      .running = valid_or_unknown(value_of(Quantity::running), max_requests),
      .waiting = valid_or_unknown(value_of(Quantity::waiting), max_requests),
      .kv_cache_ratio = valid_ratio(value_of(Quantity::kv_cache_ratio)),
      .gpu_utilization_ratio = valid_ratio(value_of(Quantity::gpu_utilization_ratio)),
      .gpu_memory_used_bytes =
          valid_or_unknown(value_of(Quantity::gpu_memory_used_bytes), max_memory_bytes),
      .gpu_memory_total_bytes =
          valid_or_unknown(value_of(Quantity::gpu_memory_total_bytes), max_memory_bytes),
  };
  const double capacity = value_of(Quantity::kv_cache_capacity);
  if (std::isnan(reading.kv_cache_ratio) && capacity > 0) {
    reading.kv_cache_ratio = valid_ratio(value_of(Quantity::kv_cache_used) / capacity);
  }
  const double used_ratio = value_of(Quantity::gpu_memory_ratio);
  if (std::isnan(reading.gpu_memory_total_bytes) && used_ratio > 0) {
    reading.gpu_memory_total_bytes =
        valid_or_unknown(reading.gpu_memory_used_bytes / used_ratio, max_memory_bytes);
  }
  return reading;
}

EngineReport EngineMetricsReader::report() const {
  EngineReport report{
      .start_time = valid_or_unknown(value_of(Quantity::start_time), max_time),
      .work_done = value_of(Quantity::work_done),
      .kv_tokens = valid_or_unknown(value_of(Quantity::kv_tokens), max_tokens),
      .step_tokens = valid_or_unknown(value_of(Quantity::step_tokens), max_tokens),
      .prefix_queried = valid_or_unknown(value_of(Quantity::prefix_queried), max_tokens),
      .prefix_hit = valid_or_unknown(value_of(Quantity::prefix_hit), max_tokens),
      .awake = value_of(Quantity::awake),
      .adapter_slots = valid_or_unknown(value_of(Quantity::adapter_slots), max_requests),
      .adapters = adapters_,
  };
  if (std::isnan(report.kv_tokens)) {
    const double blocks = value_of(Quantity::kv_blocks);
    report.kv_tokens =
        valid_or_unknown(blocks * value_of(Quantity::kv_tokens_per_block), max_tokens);
  }
  if (report.adapters) {
    std::vector<AdapterUse> uses = adapter_uses_;
    std::ranges::sort(uses, [](const AdapterUse& a, const AdapterUse& b) {
      return a.at != b.at ? a.at > b.at : a.adapter < b.adapter;
    });
    const std::vector<std::uint64_t>& in_use = report.adapters->in_use;
    for (const AdapterUse& use : uses) {
      if (std::ranges::find(in_use, use.adapter) == in_use.end())
        report.adapters->used_before.push_back(use.adapter);
    }
  }
  // An engine that has no such cache, or has not sized it yet.
  if (report.kv_tokens == 0) report.kv_tokens = EngineReport::unknown;
  if (report.step_tokens == 0) report.step_tokens = EngineReport::unknown;
  if (report.adapter_slots == 0) report.adapter_slots = EngineReport::unknown;
  return report;
}

}  // namespace evenkeel
