// The simulated model's tokenizer and its words: deterministic, about four bytes of English a
// token.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "evenkeel/inference/openai_request.h"

namespace evenkeel {

/// A piece of up to seven bytes, packed: equal ids are equal pieces. The highest bit marks ids that
/// are no text: the chat template's, and ids that a client sent.
using TokenId = std::uint64_t;

/// Splits text into pieces: a word (with the space before it) in parts of at most six letters,
/// digits by three, runs of white space, all else byte by byte; a UTF-8 character is a letter per
/// byte. A word of `generated_word` is one piece with its space, so answers sent back as history
/// have the tokens that they were generated as.
void append_tokens(std::string_view text, std::vector<TokenId>& tokens);

/// A prompt as the model sees it: a begin mark; each message between marks with its role; for a
/// chat the marks that ask the assistant to speak.
std::vector<TokenId> tokenize_prompt(const Prompt& prompt, bool chat);

/// Which words a seed writes: lower-case, at most six letters.
std::string_view generated_word(std::uint64_t seed, std::uint32_t index);

/// Hash of each full block of `block_tokens` with all that stands before it.
std::vector<std::uint64_t> hash_blocks(std::span<const TokenId> tokens, std::uint32_t block_tokens,
                                       std::string_view salt);

}  // namespace evenkeel
