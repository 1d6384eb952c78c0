#include "scheduler/output_lengths.h"

#include <algorithm>

namespace evenkeel {
namespace {

constexpr double min_class_outputs = 5;
constexpr double unknown_mean = 200;                        // tokens
constexpr double min_weight = 0.1;                          // of the last output of a class
constexpr double max_restored_outputs = min_class_outputs;  // that a class of before counts for
constexpr double max_tokens = 1e8;

}  // namespace

OutputLengths::OutputLengths() : classes_(max_classes) {
  sorted_.reserve(history);
  sums_above_.reserve(history + 1);
}

void OutputLengths::learn(std::uint64_t output_class, double tokens) {
  ClassMean& known =
      classes_.find_or_add(output_class, [](const ClassMean& each) { return each.outputs; });
  known.outputs += 1;
  known.mean += (tokens - known.mean) * std::max(min_weight, 1 / known.outputs);

  remember(tokens);
  if (learned_ == 1 || learned_ % refresh_after == 0) due_ = learned_;
}

void OutputLengths::remember(double tokens) {
  recent_sum_ += tokens - (learned_ >= history ? recent(learned_ - history) : 0);
  recent_[learned_ % recent_.size()] = tokens;
  ++learned_;
}

void OutputLengths::learned(LearnedTraffic& into) const {
  classes_.for_each([&into](std::uint64_t key, const ClassMean& known) {
    into.output_classes.push_back({.key = key, .outputs = known.outputs, .mean = known.mean});
  });
  const std::size_t count = std::min(learned_, history);
  for (std::size_t i = learned_ - count; i < learned_; ++i)
    into.output_lengths.push_back(recent(i));
}

void OutputLengths::restore(const LearnedTraffic& learned) {
  const auto is_length = [](double tokens) { return tokens >= 0 && tokens <= max_tokens; };
  for (const LearnedTraffic::OutputClass& each : learned.output_classes) {
    if (!(each.outputs >= 1) || !is_length(each.mean)) continue;
    ClassMean& known =
        classes_.find_or_add(each.key, [](const ClassMean& other) { return other.outputs; });
    known = {.outputs = std::min(each.outputs, max_restored_outputs), .mean = each.mean};
  }
  for (const double tokens : learned.output_lengths) {
    if (is_length(tokens)) remember(tokens);
  }
  due_ = learned_;
}

double OutputLengths::mean() const {
  if (learned_ == 0) return unknown_mean;
  return recent_sum_ / static_cast<double>(std::min(learned_, history));
}

double OutputLengths::remaining(std::uint64_t output_class, double generated) const {
  const ClassMean* const known = classes_.find(output_class);
  if (known != nullptr && known->outputs >= min_class_outputs && generated < 2 * known->mean) {
    if (generated >= known->mean) return std::max(1.0, known->mean / 2);
    return std::max(1.0, known->mean - generated);
  }
  if (sorted_at_ != due_) sort_recent();
  if (sorted_.empty()) return std::max(1.0, unknown_mean);
  const auto longer = std::upper_bound(sorted_.begin(), sorted_.end(), generated);
  const auto count = static_cast<double>(sorted_.end() - longer);
  if (count == 0) return std::max(1.0, generated / 2);
  const double sum = sums_above_[static_cast<std::size_t>(longer - sorted_.begin())];
  return std::max(1.0, sum / count - generated);
}

void OutputLengths::sort_recent() const {
  sorted_at_ = due_;
  sorted_.clear();
  for (std::size_t i = due_ - std::min(due_, history); i < due_; ++i) sorted_.push_back(recent(i));
  std::sort(sorted_.begin(), sorted_.end());
  sums_above_.assign(sorted_.size() + 1, 0);
  for (std::size_t i = sorted_.size(); i-- > 0;) sums_above_[i] = sums_above_[i + 1] + sorted_[i];
}

}  // namespace evenkeel
