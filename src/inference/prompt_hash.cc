#include "inference/prompt_hash.h"

#include <algorithm>

namespace evenkeel {

static_assert(BlockHash::block_bytes == InferenceRequest::block_bytes);

void PromptHash::add(PromptSection which, std::string_view bytes) {
  Section& into = section(which);
  // Nothing more is asked of a long prompt: hashing the rest of it would be in vain.
  const bool conversation_known = by_first_block_ || first_user_message_ != 0;
  if (which == PromptSection::messages && conversation_known &&
      into.blocks.size() == InferenceRequest::max_blocks) {
    return;
  }
  into.hash.add(bytes, into.blocks, InferenceRequest::max_blocks);
}

void PromptHash::restart(PromptSection which) {
  section(which).hash.reset();
  section(which).blocks.clear();
}

void PromptHash::end_first_user_message() {
  if (first_user_message_ == 0) first_user_message_ = section(PromptSection::messages).hash.value();
}

std::uint64_t PromptHash::first_block() const {
  const Section& messages = sections_[static_cast<std::size_t>(PromptSection::messages)];
  return messages.blocks.empty() ? messages.hash.value() : messages.blocks.front();
}

void PromptHash::settle(InferenceRequest& into) {
  const std::uint64_t begin = by_first_block_ ? first_block() : first_user_message_;
  const std::uint64_t system = section(PromptSection::system).hash.value();
  if (begin != 0) into.conversation = std::max<std::uint64_t>(1, hash_of(system, begin));

  into.prefix_blocks.clear();
  const auto has_blocks = [](const Section& each) { return !each.blocks.empty(); };
  if (std::ranges::none_of(sections_, has_blocks)) return;
  std::uint64_t preceding = hash_of(into.model);
  for (const Section& each : sections_) {
    for (const std::uint64_t block : each.blocks) {
      if (into.prefix_blocks.size() == InferenceRequest::max_blocks) return;
      into.prefix_blocks.push_back(hash_of(preceding, block));
    }
    if (&each != &sections_.back()) preceding = hash_of(preceding, each.hash.value());
  }
}

}  // namespace evenkeel
