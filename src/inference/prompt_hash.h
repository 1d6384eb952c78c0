// The hashes by which prompts are recognised: of their prefixes, and of their conversation.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "evenkeel/base/hash.h"
#include "evenkeel/http/inference_info.h"

namespace evenkeel {

/// The parts of a prompt in the order in which engines put them together, whatever their order in
/// the body is.
enum class PromptSection : std::uint8_t { tools, system, messages };

/// Hashes the sections of a prompt as they arrive, each by itself, and joins them in the end.
class PromptHash {
 public:
  void add(PromptSection section, std::string_view bytes);
  /// A single byte that no text contains as it was sent: it keeps parts apart.
  void mark(PromptSection section, char mark) { add(section, {&mark, 1}); }
  /// Begins the section anew: its key was given twice.
  void restart(PromptSection section);
  /// What was added to the messages so far is the beginning of the conversation. Later calls do
  /// nothing.
  void end_first_user_message();
  void forget_first_user_message() { first_user_message_ = 0; }
  /// There are no messages: the first block of the prompt stands for the conversation, or all of a
  /// shorter one.
  void converse_by_first_block() { by_first_block_ = true; }
  /// Sets `prefix_blocks` and `conversation`; `model` is part of the former.
  void settle(InferenceRequest& into);

 private:
  struct Section {
    BlockHash hash;
    std::vector<std::uint64_t> blocks;
  };
  Section& section(PromptSection which) { return sections_[static_cast<std::size_t>(which)]; }
  std::uint64_t first_block() const;

  std::array<Section, 3> sections_;
  std::uint64_t first_user_message_ = 0;
  bool by_first_block_ = false;
};

}  // namespace evenkeel
