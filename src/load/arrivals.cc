#include "evenkeel/load/arrivals.h"

#include <cmath>

#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

Duration from_seconds(double seconds) {
  return std::chrono::round<Duration>(std::chrono::duration<double>(seconds));
}

class EvenArrivals : public Arrivals {
 public:
  explicit EvenArrivals(double rate) : rate_(rate) {}
  std::optional<Duration> next() override {
    // Not a sum of gaps, which would drift.
    return from_seconds(static_cast<double>(count_++) / rate_);
  }

 private:
  double rate_;
  std::uint64_t count_ = 0;
};

class PoissonArrivals : public Arrivals {
 public:
  PoissonArrivals(double rate, std::uint64_t seed) : rate_(rate), chance_(seed) {}
  std::optional<Duration> next() override {
    seconds_ -= std::log(1 - chance_.unit()) / rate_;
    return from_seconds(seconds_);
  }

 private:
  double rate_;
  Rng chance_;
  double seconds_ = 0;
};

class TraceArrivals : public Arrivals {
 public:
  TraceArrivals(const std::vector<TraceRow>& rows, double speed) : rows_(rows), speed_(speed) {}
  std::optional<Duration> next() override {
    if (next_ == rows_.size()) return std::nullopt;
    return from_seconds(seconds_of(rows_[next_++].due) / speed_);
  }

 private:
  const std::vector<TraceRow>& rows_;
  double speed_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Arrivals> make_constant_rate_arrivals(double rate) {
  return std::make_unique<EvenArrivals>(rate);
}

std::unique_ptr<Arrivals> make_poisson_arrivals(double rate, std::uint64_t seed) {
  return std::make_unique<PoissonArrivals>(rate, seed);
}

std::unique_ptr<Arrivals> make_trace_arrivals(const std::vector<TraceRow>& rows, double speed) {
  return std::make_unique<TraceArrivals>(rows, speed);
}

}  // namespace evenkeel
