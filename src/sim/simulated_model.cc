#include "sim/simulated_model.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"
#include "sim/tokenizer.h"

namespace evenkeel {
namespace {

/// Share of GPU memory above which an allocation fails sooner or later.
constexpr double memory_limit = 0.95;

/// How long ago the kernel received the peer's last acknowledgement: its close carries one.
double seconds_since_last_ack(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_last_ack_recv * 1e-3;
}

/// How many tokens the model writes when nothing limits it: log-normal, about 180.
std::uint32_t natural_length(std::uint64_t seed) {
  Rng rng(seed);
  const double u = std::max(rng.unit(), 1e-12);
  const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * rng.unit());
  return static_cast<std::uint32_t>(
      std::clamp(std::exp(std::log(180.0) + 0.7 * normal), 1.0, 4000.0));
}

ApiError too_long(std::uint32_t context, std::uint64_t output_tokens, std::uint32_t prompt_tokens) {
  return {
      .message = fmt::format(
          "This model's maximum context length is {} tokens. However, you requested {} output "
          "tokens and your prompt contains {} input tokens, for a total of {} tokens. "
          "Please reduce the length of the input prompt or the number of requested output tokens.",
          context, output_tokens, prompt_tokens, prompt_tokens + output_tokens),
      .param = "input_tokens"};
}

EngineSpec with_adapters(EngineSpec spec, const AdaptersSpec& adapters) {
  spec.adapters = static_cast<std::uint32_t>(adapters.names.size());
  spec.adapter_slots = adapters.slots;
  spec.adapter_load_seconds = adapters.load_seconds;
  return spec;
}

/// The prompt's tokens followed by those of the output that `plan` will generate.
std::vector<TokenId> whole_text(std::vector<TokenId> tokens, const ChoiceSpec& plan) {
  std::string output;
  for (std::uint32_t i = 0; i < plan.output_tokens; ++i) {
    if (i > 0) output += ' ';
    output += generated_word(plan.word_seed, i);
  }
  append_tokens(output, tokens);
  return tokens;
}

}  // namespace

SimulatedModel::SimulatedModel(Loop& loop, const SimulatorOptions& options, const Preset& preset,
                               const SimulatedEngine& traits)
    : loop_(loop),
      options_(options),
      preset_(preset),
      traits_(traits),
      name_(options.model.empty() ? preset.model : options.model),
      runner_(loop, with_adapters(preset.engine, options.adapters), traits, options.speed),
      batches_(loop, options.batching, options.speed, runner_.statistics()) {}

// ---- Faults ------------------------------------------------------------------------------------

void SimulatedModel::set_state(const SimState& state) {
  state_ = state;
  const bool hangs = state.fault == SimFault::hang || state.fault == SimFault::sleep;
  const double slow_factor = state.fault == SimFault::slow ? state.slow_factor : 1;
  runner_.set_slow_factor(slow_factor);
  runner_.freeze(hangs);
  batches_.set_slow_factor(slow_factor);
  batches_.freeze(hangs);
  const bool full = state.fault == SimFault::vram && state.gpu_memory_ratio > memory_limit;
  memory_full_since_ = full ? std::min(memory_full_since_, loop_.read_clock()) : never;
}

bool SimulatedModel::out_of_memory() const {
  return memory_full_since_ != never &&
         seconds_of(loop_.now() - memory_full_since_) >= state_.out_of_memory_after_seconds;
}

std::optional<ApiError> SimulatedModel::injected_failure() const {
  if (state_.fault == SimFault::error) {
    return ApiError{.status = state_.error_status, .message = "simulated failure"};
  }
  if (out_of_memory()) return ApiError{.status = 500, .message = "CUDA out of memory"};
  return std::nullopt;
}

void SimulatedModel::aborted(int client_fd) {
  if (restarting_) return;
  const Instant seen = loop_.now();
  const double seconds = seconds_since_last_ack(client_fd) + seconds_of(loop_.read_clock() - seen);
  ++runner_.statistics().aborted;
  ++aborts_.count;
  aborts_.last_seconds = seconds;
  aborts_.max_seconds = std::max(aborts_.max_seconds, seconds);
  aborts_.sum_seconds += seconds;
  aborts_.last_unix = unix_seconds();
}

// ---- Inference ---------------------------------------------------------------------------------

std::uint32_t SimulatedModel::adapter_named(std::string_view name) const {
  const auto& names = options_.adapters.names;
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? 0 : static_cast<std::uint32_t>(found - names.begin()) + 1;
}

std::optional<ApiError> SimulatedModel::plan(const OpenAiRequest& request, const Prompt& prompt,
                                             const CompletionHead& head,
                                             std::vector<ChoiceSpec>& plans) {
  const std::vector<TokenId> tokens =
      tokenize_prompt(prompt, head.api == OpenAiApi::chat_completions);
  const auto prompt_tokens = static_cast<std::uint32_t>(std::min<std::size_t>(tokens.size(), ~0u));
  const std::uint32_t context = runner_.max_tokens();
  const std::uint64_t output_tokens = request.max_tokens.value_or(0);
  if (prompt_tokens >= context || prompt_tokens + output_tokens > context) {
    return too_long(context, output_tokens, prompt_tokens);
  }
  const std::uint32_t limit = request.max_tokens.value_or(context - prompt_tokens);
  // Adapters share no prefixes.
  const std::uint32_t adapter = adapter_named(request.model);
  const std::string salt =
      adapter == 0 ? request.cache_salt : request.model + '\n' + request.cache_salt;
  const auto prompt_hash = hash_blocks(tokens, prompt_tokens, salt)[0];
  const std::uint64_t seed = mix(prompt_hash ^ hash_of(request.seed)) + options_.seed;

  for (std::uint32_t i = 0; i < request.n; ++i) {
    ChoiceSpec plan{.adapter = adapter,
                    .prompt_tokens = prompt_tokens,
                    .max_tokens = request.max_tokens.value_or(0),
                    .word_seed = mix(seed + i)};
    const std::uint32_t natural = std::max(natural_length(plan.word_seed), request.min_tokens);
    plan.stops_naturally = !request.ignore_eos && natural <= limit;
    plan.output_tokens = plan.stops_naturally ? natural : limit;
    if (request.stream) plan.shape = event_template(head, static_cast<std::uint32_t>(plans.size()));
    plan.block_hashes = hash_blocks(whole_text(tokens, plan), preset_.engine.block_tokens, salt);
    plans.push_back(std::move(plan));
  }
  return std::nullopt;
}

std::unique_ptr<Completion> SimulatedModel::start(std::vector<ChoiceSpec> plans, bool streams,
                                                  int client_fd) {
  ++runner_.statistics().requests;
  CompletionObserver& observer = *this;
  return std::make_unique<Completion>(loop_, runner_, observer, client_fd, std::move(plans),
                                      streams);
}

/// Counts a batched request as completed, or as aborted when its task is dropped before.
class SimulatedModel::BatchOutcome {
 public:
  BatchOutcome(CompletionObserver& observer, int client_fd)
      : observer_(&observer), client_fd_(client_fd) {}
  BatchOutcome(const BatchOutcome&) = delete;
  ~BatchOutcome() {
    if (observer_ != nullptr) observer_->aborted(client_fd_);
  }
  void complete() { std::exchange(observer_, nullptr)->completed(); }
  void disregard() { observer_ = nullptr; }

 private:
  CompletionObserver* observer_;
  int client_fd_;
};

Task<bool> SimulatedModel::run_batch(std::uint32_t items, int client_fd) {
  BatchOutcome outcome(*this, client_fd);
  BatchedRequest execution(batches_, items);
  if (execution.rejected()) {
    outcome.disregard();
    co_return false;
  }
  ++runner_.statistics().requests;
  while (!execution.finished()) {
    co_await execution.progress().wait();
  }
  outcome.complete();
  co_return true;
}

// ---- What is shown -----------------------------------------------------------------------------

EngineSnapshot SimulatedModel::snapshot() {
  Gauges gauges = runner_.gauges();
  gauges.running += batches_.running();
  gauges.waiting += batches_.waiting();
  GpuSnapshot gpu = runner_.gpu();
  const double busy = gpu.utilization_ratio + batches_.busy_ratio(loop_.now());
  gpu.utilization_ratio = std::min(1.0, busy);
  gpu.busy_seconds += batches_.busy_seconds();
  if (state_.fault == SimFault::vram) {
    gpu.memory_ratio = state_.gpu_memory_ratio;
    gauges.kv_cache_ratio = std::max(gauges.kv_cache_ratio, state_.gpu_memory_ratio);
  }
  return {.preset = preset_,
          .model = name_,
          .gpu_seed = hash_of(options_.name) + options_.seed,
          .started_unix = runner_.started_unix(),
          .sleeping = sleeping(),
          .gauges = gauges,
          .statistics = runner_.statistics(),
          .gpu = gpu,
          .adapters = options_.adapters,
          .adapter_uses = runner_.adapter_uses()};
}

SimTotals SimulatedModel::totals() {
  const ServerStatistics& s = runner_.statistics();
  return {.requests = previous_totals_.requests + s.requests,
          .failed = previous_totals_.failed + s.failed,
          .prompt_tokens = previous_totals_.prompt_tokens + s.prompt_tokens,
          .cached_tokens = previous_totals_.cached_tokens + s.cached_tokens,
          .generated_tokens = previous_totals_.generated_tokens + s.generated_tokens,
          .preemptions = previous_totals_.preemptions + s.preemptions,
          .adapter_loads = previous_totals_.adapter_loads + s.adapter_loads,
          .steps = previous_totals_.steps + s.steps};
}

}  // namespace evenkeel
