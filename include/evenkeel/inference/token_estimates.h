// How many tokens a prompt has, before its engine has counted them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "evenkeel/http/inference_info.h"

namespace evenkeel {

/// Learns how many bytes of text a token of each model stands for, from prompts whose tokens the
/// engines have counted. Holds a fixed number of models: one that meets another's place takes it.
///
/// Thread: any; takes no lock.
class TokenEstimates {
 public:
  /// The value for a model that nothing is known of, in bytes.
  static constexpr double default_bytes_per_token = 4.0;
  /// What an image costs, in tokens: of the order of LLaVA's 576 and of OpenAI's 765.
  static constexpr std::uint64_t tokens_per_image = 600;
  /// Shorter prompts teach nothing: most of their tokens are the chat template's.
  static constexpr std::uint64_t min_learned_bytes = 64;

  double bytes_per_token(std::string_view model) const;
  /// Tokens of the whole prompt, of which `request` knows the bytes, the token ids and the images.
  std::uint64_t prompt_tokens_of(const InferenceRequest& request) const;
  /// The engine has counted the prompt's tokens. Only prompts teach that are known completely and
  /// are text alone.
  void learn(const InferenceRequest& request, std::uint64_t prompt_tokens);

  /// What was learned of one model, in a form that outlives the process.
  struct Learned {
    std::uint64_t model = 0;  ///< most of the bits of a hash of its name
    double bytes_per_token = 0;
    bool rough = false;  ///< only short prompts have taught it

    bool operator==(const Learned&) const = default;
  };
  std::vector<Learned> learned() const;
  /// Continues with it. Numbers that nothing can have taught are ignored.
  void restore(const std::vector<Learned>& learned);

 private:
  /// The upper half of a model's hash, and its bytes per token as a float, negative while only
  /// short prompts have taught it; 0: none.
  using Entry = std::atomic<std::uint64_t>;

  std::array<Entry, 256> entries_{};  // by the lower half of the hash
};

}  // namespace evenkeel
