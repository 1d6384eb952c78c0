#include "sim/engine_page.h"

namespace evenkeel {

void EnginePage::add(double value, std::initializer_list<Label> labels) {
  Labels all = common_;
  for (const Label& label : labels) all.add(label);
  page_.add(all, value);
}

void EnginePage::histogram(std::string_view name, std::string_view help,
                           const PrometheusHistogram& values) {
  page_.histograms(name, help);
  page_.add_histogram(common_, values.bounds(), values.counts(), values.sum());
}

}  // namespace evenkeel
