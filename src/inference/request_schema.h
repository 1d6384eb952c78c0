// Where in the JSON of a request which fact stands: the shapes of all APIs in tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/inference/request_reader.h"
#include "inference/prompt_hash.h"

namespace evenkeel {

/// What the value at a place of the body means. It follows from the key and from the place of the
/// object that holds it, never from the key alone: a `"user"` in a prompt or a tool is no user.
enum class Slot : std::uint8_t {
  ignored,  ///< so is all that it holds
  root,     ///< the outermost object

  // Facts, each a plain value.
  model,
  model_name,  ///< Ollama: the model, where `model` does not name it
  stream,
  include_usage,
  sequence_start,
  max_completion_tokens,
  max_output_tokens,
  n_predict,    ///< llama.cpp
  num_predict,  ///< Ollama
  max_new_tokens,
  max_tokens,
  choices,
  priority,
  user,
  safety_identifier,
  metadata_user,
  session_id,
  xargs_session_id,
  prompt_cache_key,
  rid,  ///< SGLang
  sequence_id,
  previous_response,
  conversation,  ///< its id, or an object with that

  temperature,
  seed,

  // Objects with facts in them.
  stream_options,
  vllm_xargs,
  metadata,  ///< Anthropic
  ollama_options,
  sampling_params,  ///< SGLang
  tgi_parameters,
  kserve_parameters,  ///< of an inference request
  generate_parameters,

  // The prompt.
  messages,  ///< an array of messages; a string is a single one of the user
  message,
  role,
  content,  ///< text, or parts in an array
  part,
  part_type,
  text,
  tree,    ///< any JSON, of which each string and each key is text: tools, arguments of calls
  calls,   ///< calls of tools
  prompt,  ///< text, token ids, or arrays of them; an object is a part
  image,   ///< counted; its data is no text
  images,  ///< an array of them
  media,   ///< data that is no text and no image

  // KServe's tensors.
  tensors,
  tensor,
  datatype,
  shape,
  data,
  tensor_parameters,
  binary_data_size,
};

inline constexpr int slot_count = static_cast<int>(Slot::binary_data_size) + 1;

/// A member of an object.
struct Member {
  std::string_view key;
  Slot slot = Slot::ignored;
  /// Where the text of a member of the outermost object belongs.
  PromptSection section = PromptSection::messages;
};

/// The longest key that is looked for, in bytes.
inline constexpr std::size_t max_key_bytes = 24;

/// A key as Go's encoding/json compares it with the names of fields: in lower case, and with the
/// two characters outside ASCII that have an ASCII letter as their lower case (U+017F, U+212A).
std::string go_field_name(std::string_view key);

/// The member of the outermost object with that key; null: it is ignored.
const Member* find_root_member(InferenceApi api, std::string_view key);
/// The meaning of the member with that key of an object whose own meaning is `object`.
Slot member_slot(Slot object, std::string_view key);
/// The meaning of an element of an array whose own meaning is `array`.
Slot element_slot(Slot array);
/// The meaning of an object or an array at a place that is meant for `slot`.
Slot object_slot(Slot slot);
Slot array_slot(Slot slot);

}  // namespace evenkeel
