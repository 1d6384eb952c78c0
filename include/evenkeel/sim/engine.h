// The step loop of an inference engine as arithmetic: no clock, no I/O. After vLLM V1's scheduler:
// continuous batching, a token budget, chunked prefill, KV blocks with a prefix cache, preemption.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/sim/kv_cache.h"

namespace evenkeel {

class StepEngine;

/// How long one step takes, in seconds:
///   max(weights, tokens * per_token) + overhead
///   + prefill tokens * per_prefill_token + decodes * per_decode
///   + (context tokens read) * per_context_token + attention pairs * per_attention_pair.
/// The first line and `per_context_token` model measured GPUs (T_mem, T_lin, T_ovh, T_kv); the
/// other terms are for measurements that were fitted in that form.
struct StepCost {
  double weights = 0;                    ///< reading all weights once
  double per_token = 0;                  ///< arithmetic of one token, prefill or decode
  double overhead = 0;                   ///< kernel launches, sampling, all-reduce
  double per_context_token = 0;          ///< reading one token's keys and values, for a decode
  double per_prefill_context_token = 0;  ///< the same for a chunk of a prompt
  double per_prefill_token = 0;
  double per_decode = 0;
  double per_attention_pair = 0;  ///< a token of a prompt attending to an earlier one
};

/// vLLM's options and the GPU's speed.
struct EngineSpec {
  std::uint32_t max_batched_tokens = 8192;  ///< of a step: `max_num_batched_tokens`
  std::uint32_t max_sequences = 1024;       ///< running at once: `max_num_seqs`
  std::uint32_t block_tokens = 16;
  std::uint32_t kv_blocks = 25'272;  ///< total, including the null block, as vLLM counts
  std::uint32_t max_model_tokens = 131'072;
  double watermark_ratio = 0;  ///< share of the blocks that admitting another request keeps free
  bool evict_empty_blocks_first = false;  ///< see KvCache
  /// True if an admitted request gets the blocks of its whole prompt; not, as in vLLM, those of
  /// each chunk when it is computed.
  bool allocate_whole_prompts = false;
  std::uint32_t adapters = 0;       ///< LoRA adapters that it offers: 1, 2 and so on
  std::uint32_t adapter_slots = 0;  ///< that it keeps loaded, and that one step has: `max_loras`
  double adapter_load_seconds = 0;  ///< of one that is not loaded: the whole step waits for it
  StepCost cost;
};

/// A request inside an engine. The submitter owns it; destroying it aborts it.
class Sequence {
 public:
  Sequence() = default;
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  ~Sequence();

  std::uint32_t prompt_tokens = 1;
  std::uint32_t output_tokens = 1;  ///< ends after this many
  /// Hash of each full block and everything before it, of the prompt and, where known, of the
  /// output that will follow. Empty: shares nothing.
  std::vector<std::uint64_t> block_hashes;
  std::uint32_t adapter = 0;  ///< that its tokens are computed with, of EngineSpec; 0: none

  std::uint32_t generated() const { return generated_; }
  /// Tokens of the prompt that were in the cache when it was first admitted.
  std::uint32_t cached_tokens() const { return cached_tokens_; }
  std::uint32_t preemptions() const { return preemptions_; }
  bool admitted() const { return admitted_; }
  bool active() const { return engine_ != nullptr; }

 private:
  friend class StepEngine;

  StepEngine* engine_ = nullptr;
  std::vector<KvCache::Block> blocks_;
  std::uint32_t computed_ = 0;  // tokens whose keys and values are in blocks
  std::uint32_t generated_ = 0;
  std::uint32_t cached_tokens_ = 0;
  std::uint32_t preemptions_ = 0;
  bool running_ = false;
  bool admitted_ = false;
};

/// One engine. The caller owns time: it calls `start_step`, waits `seconds`, calls `finish_step`.
///
///   engine.submit(sequence);
///   while (auto step = engine.start_step()) {
///     now += step->seconds;
///     for (const auto& token : engine.finish_step()) ...
///   }
class StepEngine {
 public:
  explicit StepEngine(const EngineSpec& spec);
  StepEngine(const StepEngine&) = delete;
  ~StepEngine();

  /// The most tokens, prompt and output together, that one request may have.
  std::uint32_t max_tokens() const;

  /// Appends a request to the queue; cuts an output that does not fit. REQUIRES: not active in any
  /// engine, prompt_tokens and output_tokens > 0, prompt_tokens < max_tokens().
  void submit(Sequence& sequence);
  /// Removes a request and frees its blocks. Does nothing to one that has ended.
  void abort(Sequence& sequence);

  /// The work of one step.
  struct Step {
    double seconds = 0;
    std::uint32_t prefill_tokens = 0;
    std::uint32_t decodes = 0;
    std::uint32_t admitted = 0;  ///< from the queue
  };
  /// Composes a step. First the running requests, oldest first: a token or the next chunk of the
  /// prompt each; one that finds no free block preempts the youngest, which later recomputes
  /// everything from the head of the queue. Then, if none was preempted, the queue in its order,
  /// while budget, sequences and blocks for a whole prompt last; a request whose adapter finds no
  /// slot is deferred, and others pass it. Nothing: there is no work.
  /// REQUIRES: the previous step is finished.
  std::optional<Step> start_step();

  /// A token that a step generated.
  struct Token {
    Sequence* sequence;   ///< null: aborted meanwhile
    std::uint32_t index;  ///< in its output, from 0
    bool last;            ///< the sequence has ended and is no longer active
  };
  /// Ends the step: every request whose prompt is computed gets one token. The result is valid
  /// until the next `start_step`.
  std::span<const Token> finish_step();

  bool stepping() const { return stepping_; }
  std::size_t running() const { return running_.size(); }
  std::size_t waiting() const { return waiting_.size(); }
  /// The number of waiting requests for whose adapters the last step had no slot.
  std::size_t deferred() const;
  /// The running requests in order of admission, the last step's at the end.
  std::span<Sequence* const> running_sequences() const { return running_; }
  const std::deque<Sequence*>& waiting_sequences() const { return waiting_; }
  /// Tokens of the running requests whose keys and values are in the cache.
  std::uint64_t context_tokens() const;
  /// Tokens that the running requests have when they end.
  std::uint64_t reserved_tokens() const;
  /// Leading tokens of a prompt whose keys and values are in the cache, in full blocks.
  std::uint32_t cached_tokens(const Sequence& sequence) const;
  /// Share of the blocks that requests use, 0..1; a block that is only cached counts as free.
  double kv_cache_ratio() const;
  const EngineSpec& spec() const { return spec_; }

  struct Totals {
    std::uint64_t steps = 0;
    std::uint64_t prefill_tokens = 0;  ///< computed, including recomputed ones
    std::uint64_t generated_tokens = 0;
    std::uint64_t preemptions = 0;
    std::uint64_t adapter_loads = 0;  ///< for requests
    double busy_seconds = 0;
  };
  const Totals& totals() const { return totals_; }

 private:
  bool reserve_blocks(Sequence& sequence, std::uint32_t tokens);
  void preempt_youngest();
  bool admit(Sequence& sequence, std::uint32_t budget, std::uint32_t& tokens);
  void compute(Sequence& sequence, std::uint32_t tokens, Step& step);
  std::uint32_t blocks_for(std::uint32_t tokens) const;
  void remove(Sequence& sequence);
  bool has_adapter_slot(const Sequence& sequence) const;
  void use_adapter(std::uint32_t adapter);

  EngineSpec spec_;
  KvCache cache_;
  std::vector<Sequence*> running_;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> yielding_;  // get a token when the step ends
  std::vector<Token> tokens_;
  std::vector<std::uint32_t> loaded_adapters_;  // the last used first
  std::vector<std::uint32_t> step_adapters_;    // of the step's requests
  Totals totals_;
  double cost_ = 0;            // of the step so far, without the first line of StepCost
  std::uint32_t batched_ = 0;  // tokens of the step so far
  bool preempted_ = false;     // this step preempted a request
  bool stepping_ = false;
};

}  // namespace evenkeel
