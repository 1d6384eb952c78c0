// The simulated model's tokenizer and vocabulary: deterministic, about four bytes of English per
// token.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/openai_request.h"

namespace evenkeel {

/// A packed piece of up to seven bytes: equal ids are equal pieces. The highest bit marks ids
/// without text: those of the chat template, and ids that a client sent.
using TokenId = std::uint64_t;

/// Splits text into pieces: a word (with the space before it) in parts of at most six letters,
/// digits by three, runs of white space, anything else byte by byte; each byte of a UTF-8 character
/// is a letter. A word of `generated_word` is one piece with its space, so that a response sent
/// back as history has the tokens that it was generated with.
void append_tokens(std::string_view text, std::vector<TokenId>& tokens);

/// A prompt with the chat template applied: a begin mark; each message between marks with its role;
/// for a chat the marks that start the assistant's message.
std::vector<TokenId> tokenize_prompt(const Prompt& prompt, bool chat);

/// Word `index` of the text that a seed generates: lower case, at most six letters.
std::string_view generated_word(std::uint64_t seed, std::uint32_t index);

/// Hash of each full block of `block_tokens` and everything before it.
std::vector<std::uint64_t> hash_blocks(std::span<const TokenId> tokens, std::uint32_t block_tokens,
                                       std::string_view salt);

}  // namespace evenkeel
