// Simulated inference servers in this process, on threads of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"
#include "evenkeel/config/address.h"
#include "evenkeel/net/endpoint.h"

namespace evenkeel {

/// How a model is run in batches, after Triton's config.pbtxt, and what a batch costs.
struct BatchingSpec {
  std::uint32_t max_batch_size = 8;            ///< items; 0: each request is run by itself
  std::vector<std::uint32_t> preferred_sizes;  ///< items; a batch of such a size starts at once
  Duration max_queue_delay{};  ///< how long a request waits for others while an instance is free
  std::uint32_t max_queue_size = 0;  ///< waiting requests; 0: no limit
  std::uint32_t instances = 1;       ///< batches at a time
  double batch_seconds = 2e-3;       ///< compute time of a batch,
  double item_seconds = 0.5e-3;      ///< plus this for each of its items
};

/// The LoRA adapters of a simulated server, as vLLM's options name them.
struct AdaptersSpec {
  std::vector<std::string> names;  ///< `lora-modules`, in the order in which they are loaded
  std::uint32_t slots = 1;         ///< `max-loras`
  double load_seconds = 0.5;       ///< of one that is not loaded
};

/// When a server sends the head of a stream. Real servers differ: docs/simulator.md.
enum class StreamHead : std::uint8_t {
  as_engine,         ///< as the real engine does
  early,             ///< at once, before any work on the request
  with_first_token,  ///< with the first token
};

/// One server.
struct SimulatorOptions {
  std::string name = "sim-0";
  Address listen{"127.0.0.1", 0};  ///< port 0: the kernel chooses
  std::string engine = "vllm";     ///< vllm, sglang, triton, tgi, llamacpp or generic
  std::string preset = "llama-3-8b-h100";
  std::string model;                   ///< empty: the preset's
  double speed = 1;                    ///< 10: ten times real time
  std::uint64_t seed = 1;              ///< of the generated text and its length
  bool prompt_tokens_details = false;  ///< as vLLM's flag: `cached_tokens` in usage
  StreamHead stream_head = StreamHead::as_engine;
  BatchingSpec batching;  ///< of `infer` and ModelInfer
  /// True if embeddings run in these batches too, not in the engine's steps: with `max_batch_size`
  /// 0, each request by itself, as in servers that do not batch.
  bool batches_embeddings = false;
  AdaptersSpec adapters;  ///< shown as vLLM does
};

/// The engines that `SimulatorOptions::engine` may name.
std::vector<std::string> simulated_engine_names();

/// Servers that serve while this object lives. One control listener reads and changes the state of
/// all of them, also while they refuse connections: `GET /sim/v1/servers`,
/// `GET|PUT /sim/v1/state[?server=NAME]`, `GET /sim/v1/report[?server=NAME]`.
class Simulators {
 public:
  /// An error names the unknown engine or preset, or the address that is in use.
  static Result<std::unique_ptr<Simulators>> start(const std::vector<SimulatorOptions>& servers,
                                                   unsigned threads = 1,
                                                   std::optional<Address> control = std::nullopt);
  ~Simulators();
  Simulators(const Simulators&) = delete;

  /// The address of each server, in the order of the options.
  const std::vector<Endpoint>& endpoints() const;
  std::optional<Endpoint> control() const;

 private:
  struct Parts;
  explicit Simulators(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace evenkeel
