// Reader of Prometheus text pages. Properties: the result does not depend on how the bytes are
// split, and equals that of a simple reader that looks at every character.
#include "evenkeel/inference/exposition.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/inference/engine_metrics.h"
#include "evenkeel/inference/gpu_metrics.h"
#include "inference/plain_exposition.h"
#include "require.h"

namespace {

using namespace evenkeel;

bool same(double a, double b) { return a == b || (a != a && b != b); }

struct RecordedSample {
  std::string name;
  std::string labels;
  double value;
  bool operator==(const RecordedSample& other) const {
    return name == other.name && labels == other.labels && same(value, other.value);
  }
};

struct SampleRecorder final : SampleSink {
  explicit SampleRecorder(const std::vector<std::string_view>& all) : names(all) {}
  void sample(std::size_t name_index, const Sample& sample) override {
    require(names.at(name_index) == sample.name, "the name is a requested one");
    kept.push_back({std::string(sample.name), std::string(sample.labels), sample.value});
  }
  const std::vector<std::string_view>& names;
  std::vector<RecordedSample> kept;
};

std::vector<RecordedSample> read_in_pieces(const std::vector<std::string_view>& wanted,
                                           std::string_view text, std::size_t piece) {
  const MetricNames names(wanted);
  SampleRecorder keeper(wanted);
  ExpositionReader reader(names, keeper);
  while (!text.empty()) {
    const std::string here(
        text.substr(0, piece));  // a copy, so that the sanitizers detect reads beyond it
    reader.read(here);
    text.remove_prefix(here.size());
  }
  return std::move(keeper.kept);
}

void compare(const std::vector<std::string_view>& wanted, std::string_view text,
             const std::vector<PlainSample>& plain) {
  const auto kept = read_in_pieces(wanted, text, std::max<std::size_t>(text.size(), 1));
  require(kept == read_in_pieces(wanted, text, 1), "one byte at a time gives the same result");
  require(kept == read_in_pieces(wanted, text, 7), "seven bytes at a time give the same result");

  auto next = kept.begin();
  for (const PlainSample& sample : plain) {
    if (std::ranges::find(wanted, sample.name) == wanted.end()) continue;
    require(next != kept.end(), "finds everything that the simple reader finds");
    require(next->name == sample.name && same(next->value, sample.value), "the same sample");
    std::string scratch;
    for (const auto& [label, value] : sample.labels) {
      const auto found = find_label(next->labels, label, scratch);
      require(found && *found == sample.label(label), "the same label");
    }
    ++next;
  }
  require(next == kept.end(), "finds nothing that the simple reader does not");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plain = read_plainly(text);
  std::vector<std::string_view> all;
  for (const PlainSample& sample : plain) {
    if (std::ranges::find(all, sample.name) == all.end()) all.push_back(sample.name);
  }
  compare(all, text, plain);
  if (all.size() > 1) compare({all.back()}, text, plain);
  compare({"a", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"}, text, plain);

  EngineMetricsReader engine(engine_named("generic"));
  engine.read(text);
  const LoadSample reading = engine.reading();
  require(!(reading.running < 0) && !(reading.waiting < 0), "counts are not negative");
  require(!(reading.kv_cache_ratio < 0) && !(reading.kv_cache_ratio > 1),
          "ratios are between 0 and 1");
  GpuMetricsReader exporter;
  exporter.read(text);
  const LoadSample gpus = aggregate_gpus(exporter.gpus(), {});
  require(!(gpus.gpu_utilization_ratio < 0) && !(gpus.gpu_utilization_ratio > 1),
          "GPU utilization is between 0 and 1");
  require(!(gpus.gpu_memory_used_bytes < 0), "memory is not negative");
  return 0;
}
