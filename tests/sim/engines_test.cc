#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "evenkeel/sim/simulators.h"
#include "sim/dcgm.h"
#include "sim/engine_api.h"
#include "sim/simulated_model.h"

namespace evenkeel {
namespace {

// Parses Prometheus text 0.0.4 strictly; anything malformed fails the test.
class StrictText {
 public:
  explicit StrictText(const std::string& text) {
    EXPECT_TRUE(text.ends_with('\n'));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) read(line);
    for (const auto& [name, type] : types_)
      EXPECT_TRUE(seen_.contains(name)) << name << " has no sample";
  }
  double value(const std::string& series) const {
    const auto found = samples_.find(series);
    return found == samples_.end() ? -1 : found->second;
  }
  bool has_family(const std::string& name) const { return types_.contains(name); }
  const std::map<std::string, double>& samples() const { return samples_; }

 private:
  static bool is_name(const std::string& text, bool colon) {
    if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
    for (const char c : text) {
      const bool good =
          std::isalnum(static_cast<unsigned char>(c)) || c == '_' || (colon && c == ':');
      if (!good) return false;
    }
    return true;
  }

  void read(const std::string& line) {
    if (line.starts_with("# HELP ")) {
      const std::string name = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(helped_.insert(name).second) << "second HELP: " << line;
    } else if (line.starts_with("# TYPE ")) {
      std::istringstream words(line.substr(7));
      std::string name;
      std::string type;
      words >> name >> type;
      EXPECT_TRUE(is_name(name, true)) << line;
      EXPECT_TRUE(type == "gauge" || type == "counter" || type == "histogram") << line;
      EXPECT_TRUE(types_.emplace(name, type).second) << "second TYPE: " << line;
      family_ = name;
    } else {
      read_sample(line);
    }
  }

  void read_sample(const std::string& line) {
    const std::size_t brace = line.find('{');
    const std::size_t space = line.rfind(' ');
    const std::string name = line.substr(0, std::min(brace, line.find(' ')));
    ASSERT_NE(space, std::string::npos) << line;
    EXPECT_TRUE(is_name(name, true)) << line;
    std::string base = name;
    if (types_[family_] == "histogram") {
      for (const char* suffix : {"_bucket", "_sum", "_count"}) {
        if (name == family_ + suffix) base = family_;
      }
    }
    EXPECT_EQ(base, family_) << "outside its family: " << line;
    seen_.insert(base);
    if (brace < space) read_labels(line.substr(brace, space - brace));
    char* end = nullptr;
    const std::string number = line.substr(space + 1);
    const double value = std::strtod(number.c_str(), &end);
    EXPECT_EQ(*end, '\0') << line;
    EXPECT_TRUE(samples_.emplace(line.substr(0, space), value).second) << "twice: " << line;
  }

  void read_labels(const std::string& labels) {
    std::set<std::string> names;
    std::size_t at = 1;
    while (at < labels.size() && labels[at] != '}') {
      const std::size_t equals = labels.find("=\"", at);
      ASSERT_NE(equals, std::string::npos) << labels;
      const std::string name = labels.substr(at, equals - at);
      EXPECT_TRUE(is_name(name, false)) << labels;
      EXPECT_TRUE(names.insert(name).second) << labels;
      at = equals + 2;
      while (at < labels.size() && labels[at] != '"') at += labels[at] == '\\' ? 2 : 1;
      ++at;
      ASSERT_LT(at, labels.size()) << labels;
      if (labels[at] == ',') {
        ++at;
        EXPECT_NE(labels[at], '}') << "trailing comma: " << labels;
      }
    }
    EXPECT_EQ(at + 1, labels.size()) << labels;
  }

  std::string family_;
  std::set<std::string> helped_;
  std::set<std::string> seen_;
  std::map<std::string, std::string> types_;
  std::map<std::string, double> samples_;
};

/// Figures of a server at work.
struct Busy {
  explicit Busy(const SimulatedEngine& engine) : statistics(engine.buckets, 131'072) {
    statistics.requests = 20;
    statistics.finished_stop = 12;
    statistics.finished_length = 3;
    statistics.aborted = 2;
    statistics.prompt_tokens = 5000;
    statistics.cached_tokens = 1000;
    statistics.generated_tokens = 900;
    for (const double ttft : {0.05, 0.05, 0.3, 3000.0})
      statistics.time_to_first_token.observe(ttft);
    snapshot.gauges = {.running = 7, .waiting = 4, .kv_cache_ratio = 0.25};
    snapshot.gpu = {.utilization_ratio = 0.5, .uptime_seconds = 100, .busy_seconds = 40};
  }
  ServerStatistics statistics;
  AdaptersSpec adapters;
  std::map<AdapterUse, double> adapter_uses;
  EngineSnapshot snapshot{.preset = *find_preset("llama-3-70b-a100-tp4"),
                          .model = "meta-llama/\"x\"\\y",
                          .gpu_seed = 3,
                          .statistics = statistics,
                          .adapters = adapters,
                          .adapter_uses = adapter_uses};
};

std::unique_ptr<EngineApi> make_api(SimulatedModel& model) { return model.traits().make(model); }

/// An engine's API in front of an idle model.
struct Idle {
  explicit Idle(std::string_view engine)
      : model(loop, options, *find_preset(options.preset), *find_simulated_engine(engine)),
        api(make_api(model)) {}
  Loop loop;
  SimulatorOptions options;
  SimulatedModel model;
  std::unique_ptr<EngineApi> api;
};

std::string text_of(std::string_view engine) {
  const Busy busy(*find_simulated_engine(engine));
  return Idle(engine).api->metrics_page(busy.snapshot);
}

std::string dcgm_text() { return render_dcgm(Busy(*find_simulated_engine("vllm")).snapshot); }

TEST(SimulatedEngines, EachIsFoundByItsName) {
  std::vector<std::string> names;
  for (const SimulatedEngine* engine : simulated_engines()) {
    EXPECT_EQ(find_simulated_engine(engine->name), engine);
    names.emplace_back(engine->name);
  }
  EXPECT_EQ(simulated_engine_names(), names);
  EXPECT_EQ(find_simulated_engine("none"), nullptr);
}

TEST(SimulatedEngines, EveryExpositionIsStrictPrometheusText) {
  for (const SimulatedEngine* engine : simulated_engines()) {
    SCOPED_TRACE(engine->name);
    const StrictText text(text_of(engine->name));
    EXPECT_GT(text.samples().size(), 10u);
  }
  const StrictText dcgm(dcgm_text());
}

TEST(SimulatedEngines, PromtoolReadsEveryExposition) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) GTEST_SKIP() << "no promtool here";
  std::vector<std::string> texts{dcgm_text()};
  for (const SimulatedEngine* engine : simulated_engines()) texts.push_back(text_of(engine->name));

  for (const std::string& text : texts) {
    std::string path = testing::TempDir() + "exposition-XXXXXX";
    const int fd = mkstemp(path.data());
    ASSERT_GE(fd, 0);
    close(fd);
    std::ofstream(path) << text;
    FILE* pipe = popen(("promtool check metrics < " + path + " 2>&1").c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string output;
    std::array<char, 512> part;
    while (fgets(part.data(), part.size(), pipe) != nullptr) output += part.data();
    pclose(pipe);
    unlink(path.c_str());
    // The engines' own names violate promtool's naming rules; only parse errors count.
    EXPECT_EQ(output.find("pars"), std::string::npos) << output;
  }
}

TEST(SimulatedEngines, TheSameFactsHaveEachEnginesNames) {
  const std::string escaped = R"(meta-llama/\"x\"\\y)";
  const StrictText vllm(text_of("vllm"));
  const StrictText sglang(text_of("sglang"));
  const StrictText triton(text_of("triton"));
  const StrictText tgi(text_of("tgi"));
  const StrictText llamacpp(text_of("llamacpp"));

  const std::string of_vllm = "{engine=\"0\",model_name=\"" + escaped + "\"}";
  EXPECT_EQ(vllm.value("vllm:num_requests_running" + of_vllm), 7);
  EXPECT_EQ(vllm.value("vllm:num_requests_waiting" + of_vllm), 4);
  EXPECT_EQ(vllm.value("vllm:kv_cache_usage_perc" + of_vllm), 0.25);
  EXPECT_EQ(vllm.value("vllm:prefix_cache_hits_total" + of_vllm), 1000);
  const std::string of_sglang = "{engine_type=\"unified\",model_name=\"" + escaped +
                                "\",moe_ep_rank=\"0\",pp_rank=\"0\",tp_rank=\"0\"}";
  EXPECT_EQ(sglang.value("sglang:num_running_reqs" + of_sglang), 7);
  EXPECT_EQ(sglang.value("sglang:num_queue_reqs" + of_sglang), 4);
  EXPECT_EQ(sglang.value("sglang:token_usage" + of_sglang), 0.25);
  EXPECT_EQ(
      triton.value("nv_inference_pending_request_count{model=\"" + escaped + "\",version=\"1\"}"),
      4);
  EXPECT_TRUE(triton.has_family("nv_gpu_memory_used_bytes"));
  EXPECT_EQ(tgi.value("tgi_batch_current_size"), 7);
  EXPECT_EQ(tgi.value("tgi_queue_size"), 4);
  EXPECT_EQ(llamacpp.value("llamacpp:requests_processing"), 7);
  EXPECT_EQ(llamacpp.value("llamacpp:requests_deferred"), 4);
}

TEST(SimulatedEngines, HistogramsCountUpToTheirBounds) {
  const StrictText vllm(text_of("vllm"));
  const std::string labels = R"(engine="0",model_name="meta-llama/\"x\"\\y")";
  const std::string name = "vllm:time_to_first_token_seconds";

  EXPECT_EQ(vllm.value(name + "_bucket{" + labels + ",le=\"0.04\"}"), 0);
  EXPECT_EQ(vllm.value(name + "_bucket{" + labels + ",le=\"0.06\"}"), 2);
  EXPECT_EQ(vllm.value(name + "_bucket{" + labels + ",le=\"0.5\"}"), 3);
  EXPECT_EQ(vllm.value(name + "_bucket{" + labels + ",le=\"2560\"}"), 3);
  EXPECT_EQ(vllm.value(name + "_bucket{" + labels + ",le=\"+Inf\"}"), 4);
  EXPECT_EQ(vllm.value(name + "_count{" + labels + "}"), 4);
}

TEST(SimulatedEngines, DcgmReportsPercentMebibytesAndMillijoulesPerGpu) {
  const StrictText dcgm(dcgm_text());
  std::map<std::string, std::vector<double>> values;
  for (const auto& [series, value] : dcgm.samples()) {
    values[series.substr(0, series.find('{'))].push_back(value);
  }

  EXPECT_EQ(values["DCGM_FI_DEV_GPU_UTIL"], std::vector<double>(4, 50));
  const double memory = values["DCGM_FI_DEV_FB_USED"][0] + values["DCGM_FI_DEV_FB_FREE"][0] +
                        values["DCGM_FI_DEV_FB_RESERVED"][0];
  EXPECT_NEAR(memory, 80 * 1024, 2);
  EXPECT_NEAR(values["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"][0], (60 * 100 + 340 * 40) * 1e3, 1);
}

TEST(SimulatedEngines, ErrorsHaveEachEnginesShape) {
  const ApiError error{
      .status = 404, .message = "The model `\"m\"` does not exist.", .param = "model"};

  EXPECT_EQ(
      Idle("vllm").api->error_body(error),
      R"({"error":{"message":"The model `\"m\"` does not exist.","type":"NotFoundError","param":"model","code":404}})");
  EXPECT_EQ(
      Idle("sglang").api->error_body(error),
      R"({"object":"error","message":"The model `\"m\"` does not exist.","type":"NotFoundError","param":"model","code":404})");
  EXPECT_EQ(
      Idle("llamacpp").api->error_body(error),
      R"({"error":{"code":404,"message":"The model `\"m\"` does not exist.","type":"not_found_error"}})");
  EXPECT_EQ(Idle("tgi").api->error_body({.status = 429, .message = "Model is overloaded"}),
            R"({"error":"Model is overloaded","error_type":"overloaded"})");
}

TEST(Utilization, IsTheBusyShareOfTheLastSecond) {
  const Instant start{};
  const auto at = [&](int ms) { return start + std::chrono::milliseconds(ms); };
  Utilization utilization(start);

  for (int ms = 0; ms < 2000; ms += 10) utilization.busy(at(ms), at(ms + 5));

  EXPECT_NEAR(utilization.ratio(at(2000)), 0.5, 0.01);
  EXPECT_LT(utilization.ratio(at(3500)), 0.25);
  EXPECT_NEAR(utilization.ratio(at(5000)), 0, 0.01);
  EXPECT_NEAR(seconds_of(utilization.total()), 1.0, 1e-9);
}

}  // namespace
}  // namespace evenkeel
