#include "evenkeel/sim/engine.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace evenkeel {

Sequence::~Sequence() {
  if (engine_ != nullptr) engine_->abort(*this);
}

StepEngine::StepEngine(const EngineSpec& spec)
    : spec_(spec), cache_(spec.kv_blocks - 1, spec.evict_empty_blocks_first) {
  // Each is loaded when the engine starts, in turn: the last ones stay.
  for (std::uint32_t adapter = spec.adapters;
       adapter > 0 && loaded_adapters_.size() < spec.adapter_slots; --adapter) {
    loaded_adapters_.push_back(adapter);
  }
}

StepEngine::~StepEngine() {
  for (Sequence* sequence : running_) sequence->engine_ = nullptr;
  for (Sequence* sequence : waiting_) sequence->engine_ = nullptr;
}

std::uint32_t StepEngine::max_tokens() const {
  const std::uint64_t held = std::uint64_t{cache_.size()} * spec_.block_tokens;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(spec_.max_model_tokens, held));
}

void StepEngine::submit(Sequence& sequence) {
  assert(sequence.engine_ == nullptr && sequence.prompt_tokens > 0 && sequence.output_tokens > 0);
  assert(sequence.prompt_tokens < max_tokens());
  assert(sequence.adapter == 0 || spec_.adapter_slots > 0);
  sequence.output_tokens = std::min(sequence.output_tokens, max_tokens() - sequence.prompt_tokens);
  sequence.engine_ = this;
  sequence.computed_ = sequence.generated_ = sequence.cached_tokens_ = sequence.preemptions_ = 0;
  sequence.running_ = sequence.admitted_ = false;
  waiting_.push_back(&sequence);
}

void StepEngine::abort(Sequence& sequence) {
  for (Token& token : tokens_) {
    if (token.sequence == &sequence) token.sequence = nullptr;
  }
  if (sequence.engine_ == nullptr) return;
  std::erase(yielding_, &sequence);
  if (sequence.running_) {
    std::erase(running_, &sequence);
  } else {
    std::erase(waiting_, &sequence);
  }
  remove(sequence);
}

void StepEngine::remove(Sequence& sequence) {
  cache_.release(sequence.blocks_);
  sequence.running_ = false;
  sequence.engine_ = nullptr;
}

std::uint32_t StepEngine::blocks_for(std::uint32_t tokens) const {
  return (tokens + spec_.block_tokens - 1) / spec_.block_tokens;
}

std::optional<StepEngine::Step> StepEngine::start_step() {
  assert(!stepping_);
  tokens_.clear();
  yielding_.clear();
  step_adapters_.clear();
  cost_ = 0;
  batched_ = 0;
  preempted_ = false;
  Step step;
  std::uint32_t budget = spec_.max_batched_tokens;

  // Preempting takes from the end of `running_`, so the index stays right.
  for (std::size_t i = 0; i < running_.size() && budget > 0; ++i) {
    Sequence& sequence = *running_[i];
    const std::uint32_t left = sequence.prompt_tokens + sequence.generated_ - sequence.computed_;
    const std::uint32_t tokens = std::min(left, budget);
    if (!reserve_blocks(sequence, tokens)) break;
    compute(sequence, tokens, step);
    budget -= tokens;
  }

  std::size_t next = 0;
  while (!preempted_ && budget > 0 && next < waiting_.size() &&
         running_.size() < spec_.max_sequences) {
    Sequence& sequence = *waiting_[next];
    if (!has_adapter_slot(sequence)) {
      ++next;
      continue;
    }
    std::uint32_t tokens = 0;
    if (!admit(sequence, budget, tokens)) break;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(next));
    running_.push_back(&sequence);
    compute(sequence, tokens, step);
    budget -= tokens;
    ++step.admitted;
  }

  if (batched_ == 0) return std::nullopt;
  const StepCost& cost = spec_.cost;
  step.seconds = std::max(cost.weights, batched_ * cost.per_token) + cost.overhead + cost_;
  ++totals_.steps;
  totals_.prefill_tokens += step.prefill_tokens;
  totals_.busy_seconds += step.seconds;
  stepping_ = true;
  return step;
}

bool StepEngine::has_adapter_slot(const Sequence& sequence) const {
  return sequence.adapter == 0 || step_adapters_.size() < spec_.adapter_slots ||
         std::ranges::find(step_adapters_, sequence.adapter) != step_adapters_.end();
}

std::size_t StepEngine::deferred() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      waiting_, [this](const Sequence* each) { return !has_adapter_slot(*each); }));
}

/// Loads an adapter where needed, in the place of the one that was not used for longest.
void StepEngine::use_adapter(std::uint32_t adapter) {
  if (std::ranges::find(step_adapters_, adapter) != step_adapters_.end()) return;
  step_adapters_.push_back(adapter);
  if (std::erase(loaded_adapters_, adapter) == 0) {
    cost_ += spec_.adapter_load_seconds;
    ++totals_.adapter_loads;
    if (loaded_adapters_.size() >= spec_.adapter_slots) loaded_adapters_.pop_back();
  }
  loaded_adapters_.insert(loaded_adapters_.begin(), adapter);
}

bool StepEngine::reserve_blocks(Sequence& sequence, std::uint32_t tokens) {
  const std::uint32_t needed = blocks_for(sequence.computed_ + tokens);
  const auto held = static_cast<std::uint32_t>(sequence.blocks_.size());
  if (needed <= held) return true;
  while (!cache_.allocate(needed - held, sequence.blocks_)) {
    const bool itself = running_.back() == &sequence;
    preempt_youngest();
    if (itself) return false;
  }
  return true;
}

void StepEngine::preempt_youngest() {
  Sequence& sequence = *running_.back();
  running_.pop_back();
  cache_.release(sequence.blocks_);
  sequence.computed_ = 0;
  sequence.running_ = false;
  ++sequence.preemptions_;
  ++totals_.preemptions;
  preempted_ = true;
  waiting_.push_front(&sequence);
}

bool StepEngine::admit(Sequence& sequence, std::uint32_t budget, std::uint32_t& tokens) {
  const std::uint32_t total = sequence.prompt_tokens + sequence.generated_;
  // The last token is always computed, since its output is the next token.
  const std::size_t lookable =
      std::min<std::size_t>(sequence.block_hashes.size(), (total - 1) / spec_.block_tokens);
  const std::span<const std::uint64_t> hashes(sequence.block_hashes.data(), lookable);
  const KvCache::PrefixMatch hit = cache_.find(hashes);
  const std::uint32_t cached = hit.blocks * spec_.block_tokens;

  const auto spare =
      running_.empty()
          ? 0u
          : static_cast<std::uint32_t>(std::ceil(spec_.watermark_ratio * cache_.size()));
  const std::uint32_t whole_prompt = blocks_for(total) - hit.blocks;
  if (whole_prompt + hit.unreferenced + spare > cache_.free()) return false;

  tokens = std::min(total - cached, budget);
  cache_.pin(hashes.first(hit.blocks), sequence.blocks_);
  const std::uint32_t allocated = spec_.allocate_whole_prompts ? total : cached + tokens;
  cache_.allocate(blocks_for(allocated) - hit.blocks, sequence.blocks_);
  sequence.computed_ = cached;
  sequence.running_ = true;
  if (!sequence.admitted_) {
    sequence.admitted_ = true;
    sequence.cached_tokens_ = cached;
  }
  return true;
}

void StepEngine::compute(Sequence& sequence, std::uint32_t tokens, Step& step) {
  const std::uint32_t before = sequence.computed_;
  const std::uint32_t after = before + tokens;
  const std::uint32_t total = sequence.prompt_tokens + sequence.generated_;
  const bool decodes = tokens == 1 && sequence.generated_ > 0 && after == total && before > 0;

  if (sequence.adapter != 0) use_adapter(sequence.adapter);
  const StepCost& cost = spec_.cost;
  batched_ += tokens;
  if (decodes) {
    ++step.decodes;
    cost_ += cost.per_decode + after * cost.per_context_token;
  } else {
    step.prefill_tokens += tokens;
    cost_ += tokens * cost.per_prefill_token + after * cost.per_prefill_context_token +
             tokens * (before + tokens * 0.5) * cost.per_attention_pair;
  }

  // Published before it is computed, as in vLLM: a request admitted in the same step shares it.
  const std::size_t full =
      std::min<std::size_t>(after / spec_.block_tokens, sequence.block_hashes.size());
  for (std::size_t i = before / spec_.block_tokens; i < full; ++i) {
    cache_.publish(sequence.blocks_[i], sequence.block_hashes[i]);
  }
  sequence.computed_ = after;
  if (after == total) yielding_.push_back(&sequence);
}

std::span<const StepEngine::Token> StepEngine::finish_step() {
  assert(stepping_);
  stepping_ = false;
  bool ended = false;
  for (Sequence* sequence : yielding_) {
    const std::uint32_t index = sequence->generated_++;
    const bool last = sequence->generated_ == sequence->output_tokens;
    tokens_.push_back({sequence, index, last});
    if (last) {
      remove(*sequence);
      ended = true;
    }
  }
  totals_.generated_tokens += yielding_.size();
  yielding_.clear();
  if (ended) std::erase_if(running_, [](const Sequence* sequence) { return !sequence->running_; });
  return tokens_;
}

std::uint64_t StepEngine::context_tokens() const {
  std::uint64_t tokens = 0;
  for (const Sequence* sequence : running_) tokens += sequence->computed_;
  return tokens;
}

std::uint64_t StepEngine::reserved_tokens() const {
  std::uint64_t tokens = 0;
  for (const Sequence* sequence : running_) {
    tokens += sequence->prompt_tokens + sequence->output_tokens;
  }
  return tokens;
}

std::uint32_t StepEngine::cached_tokens(const Sequence& sequence) const {
  return cache_.find(sequence.block_hashes).blocks * spec_.block_tokens;
}

double StepEngine::kv_cache_ratio() const {
  return 1.0 - static_cast<double>(cache_.free()) / static_cast<double>(cache_.size());
}

}  // namespace evenkeel
