#include "evenkeel/pool/subset.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evenkeel/base/log.h"
#include "evenkeel/config/selector.h"

namespace evenkeel {

std::uint64_t completed_by(const Backends& backends) {
  std::uint64_t active = 0;
  std::uint64_t picks = 0;
  for (const BackendPtr& backend : backends) {
    active += backend->slots().in_flight();
    picks += backend->slots().picks_total();
  }
  return picks - std::min(active, picks);
}

bool SubsetSpec::contains(const BackendSpec& backend) const {
  if (is_whole_pool()) return true;
  return std::ranges::any_of(
      any_of, [&](const auto& labels) { return has_labels(backend.config.labels, labels); });
}

bool SubsetSpec::is_whole_pool() const {
  return any_of.empty() ||
         std::ranges::any_of(any_of, [](const auto& labels) { return labels.empty(); });
}

std::string SubsetSpec::name() const {
  std::string text;
  for (const auto& labels : any_of) {
    if (!text.empty()) text += " or ";
    text += selector_of(labels);
  }
  return text;
}

Subset::Subset(SubsetSpec spec, const PickerOptions& options, const Subset* predecessor)
    : spec_(std::move(spec)),
      name_(spec_.name()),
      backends_(std::make_shared<Backends>()),
      history_(predecessor != nullptr ? predecessor->history_ : std::make_shared<History>()) {
  for (const BackendPtr& backend : *options.backends) {
    contained_.push_back(spec_.contains(backend->spec()));
    if (contained_.back()) backends_->push_back(backend);
  }
  if (!spec_.is_choice()) return;
  PickerOptions own = options;
  own.backends = backends_;
  picker_factory_ = picker_factory(std::move(own));
}

std::size_t Subset::in_rotation() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      *backends_, [](const BackendPtr& backend) { return backend->state().in_rotation(); }));
}

void Subset::tick(std::string_view pool, Instant now) const {
  if (!spec_.is_choice()) return;
  // The sum of another version may be of other backends.
  if (std::exchange(history_->ticked, this) != this) history_->forecast.forget_sample();
  history_->forecast.tick(completed_by(*backends_), now);
  const bool serves = std::ranges::any_of(*backends_, [](const BackendPtr& backend) {
    return backend->state().other_reasons(OutOfRotation::starting) == 0;
  });
  if (serves == std::exchange(history_->serves, serves)) return;
  if (serves) {
    log::affinity.info(fmt::format("pool {}: a backend with {} is back", pool, name_));
  } else {
    log::affinity.warning(
        fmt::format("pool {}: no backend with {} is in rotation, its requests go to the other "
                    "backends",
                    pool, name_));
  }
}

}  // namespace evenkeel
