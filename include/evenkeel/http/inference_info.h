// What a request asks of a model, and what the model's response reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/pool_allocator.h"

namespace evenkeel {

/// What a model is asked to do. `other`: nothing that is known.
enum class InferenceTask : std::uint8_t {
  other,
  chat,
  completion,
  embedding,
  rerank,
  score,
  audio,
  infer,  ///< KServe v2: tensors in, tensors out
};

inline constexpr int inference_task_count = static_cast<int>(InferenceTask::infer) + 1;

/// The stable word of a task, such as "chat".
const char* to_string(InferenceTask task);

/// What the body of a request says. Sizes and hashes are of what was read: all of the body, or its
/// beginning where the rest was passed on unread (`complete`).
struct InferenceRequest {
  /// The longest names and keys that are kept; of longer ones the beginning is.
  static constexpr std::size_t max_name = 256;
  /// Bytes of prompt behind each of `prefix_blocks`, and how many blocks there are at most.
  static constexpr std::size_t block_bytes = 1024;
  static constexpr std::size_t max_blocks = 256;

  InferenceTask task = InferenceTask::other;
  bool complete = false;  ///< the body was read to its end, and is well-formed
  bool stream = false;    ///< the client asks for a stream of events
  /// True if the client asks for usage at the end of the stream (OpenAI's `stream_options`).
  bool include_usage = false;
  std::string model;            ///< empty: none was given
  bool model_mistyped = false;  ///< it was given, but not as a string
  /// True if the body has a member in which some servers read another model: `model` in other
  /// letters (Go), an adapter (`lora_path`, `lora`, `adapter_id`).
  bool model_disputed = false;
  std::optional<std::uint32_t> max_tokens;  ///< the most that it may generate, for each choice
  std::uint32_t choices = 1;                ///< OpenAI's `n`
  bool zero_temperature = false;            ///< the likeliest token is asked for, each time
  bool has_seed = false;                    ///< its choice of tokens can be repeated
  std::uint64_t prompt_bytes = 0;           ///< text of the prompt in UTF-8, without JSON's escapes
  std::uint64_t prompt_tokens = 0;          ///< of the part that was given as token ids
  std::uint32_t images = 0;                 ///< their data does not count as text
  std::uint64_t tensor_bytes = 0;           ///< KServe: data of the input tensors
  /// The estimate for the whole prompt: see TokenEstimates.
  std::uint64_t estimated_prompt_tokens = 0;
  /// What names the session: `session_id`, else `prompt_cache_key`, else SGLang's `rid` without its
  /// turn, else KServe's `sequence_id`.
  std::string session;
  std::string previous_response;  ///< OpenAI's `previous_response_id`: this one goes on from it
  std::string conversation_id;    ///< OpenAI's `conversation`, which the server has
  bool starts_sequence = false;   ///< KServe's `sequence_start`
  std::string user;               ///< OpenAI's `user` or `safety_identifier`
  std::optional<std::int64_t> priority;  ///< vLLM's and SGLang's field: as the engine reads it
  /// The same for every turn of a conversation: a hash of the prompt up to the end of the first
  /// message of the user. 0: there is none.
  std::uint64_t conversation = 0;
  /// A hash for each whole block of the prompt, over all that precedes the block's end: prompts
  /// that share a prefix share hashes. `model` and the tools of a chat are part of each.
  std::vector<std::uint64_t> prefix_blocks;
};

/// What the response reported. Tokens are the engine's own counts; nothing where it gave none.
struct InferenceResponse {
  std::optional<std::uint64_t> prompt_tokens;
  std::optional<std::uint64_t> completion_tokens;
  std::optional<std::uint64_t> cached_tokens;  ///< of the prompt, found in the engine's cache
  std::string finish_reason;                   ///< of the first choice: "stop", "length"
  /// The longest id that is kept, in bytes; of a longer one its beginning is.
  static constexpr std::size_t max_id = 64;
  std::string id;                   ///< what the server calls it; only if `InferenceInfo::wants_id`
  std::uint32_t output_events = 0;  ///< events with output; an event may hold several tokens
  Instant first_output{};           ///< when the first of them arrived
  Instant last_output{};
  Duration max_gap{};  ///< the longest time between two of them

  /// The time between the first and the last output, divided by the tokens between them. Nothing
  /// without a stream of at least two outputs and the engine's count.
  std::optional<Duration> time_per_output_token() const {
    if (output_events < 2 || completion_tokens.value_or(0) < 2) return std::nullopt;
    if (last_output <= first_output) return std::nullopt;
    return (last_output - first_output) / static_cast<Duration::rep>(*completion_tokens - 1);
  }
};

/// A part of a body, in bytes from its start.
struct BodyRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// The value of a member of the outermost object.
struct MemberPlace {
  std::uint32_t name = 0;    ///< its position among the names that are looked for
  std::uint32_t number = 0;  ///< the value, if it is a whole number; 0: it is another one
  BodyRange value;
  bool is_exact = true;  ///< false: its name is in other letters, which servers in Go take for it
};

/// Where a JSON body can be changed. Of other bodies: nowhere.
struct JsonPlaces {
  bool is_json = false;
  /// True if the body may name the model. False: it is in the path (KServe), or none is given.
  bool names_model = true;
  std::vector<BodyRange> model_values;  ///< of each `model` of the outermost object, with quotes
  /// Where a member can be inserted: behind the brace that opens the object. Nothing if the object
  /// has no members, or there is none.
  std::optional<std::uint64_t> object_begin;
  bool takes_stream_options = false;  ///< true if the API has this member, and the request has not
  std::vector<MemberPlace> members;   ///< of the names that are looked for
  /// How the API calls the most tokens that a request may ask for, by its newest name; empty: no
  /// members of its bodies are changed.
  std::string_view max_tokens_name;
};

struct InferenceInfo;

/// Is told what a response reports while it passes. Thread: the worker's.
class ResponseListener : public Pooled {
 public:
  virtual ~ResponseListener() = default;
  /// More of the response was read. `before`: the number of its events with output until then, the
  /// last of which arrived at `last_output`.
  virtual void on_read(const InferenceInfo& info, std::uint32_t before, Instant last_output,
                       Instant now) = 0;
  /// The response is complete.
  virtual void on_end(const InferenceInfo& info, Instant now) = 0;
  /// The response is not read.
  virtual void on_unread() = 0;
};

/// The facts about a request to a model whose body is inspected.
struct InferenceInfo : Pooled {
  InferenceRequest request;
  JsonPlaces places;
  /// Random: tells its placements from those of others with the same x-request-id. 0: none yet.
  std::uint64_t number = 0;
  /// True if what was read of the body can be read again, as far as memory allows; no other copy is
  /// needed.
  bool body_is_held = false;
  /// True if memory for held bodies, or for decompressing this one, ran out before enough of it was
  /// read.
  bool cut_short = false;
  /// True if the rest of the body was not read, because the place of the request does not depend on
  /// it: conditions on what it may say count as met.
  bool rest_unread = false;
  bool is_empty = false;  ///< the body has no bytes: the request counts as one without a body
  /// True if the client did not ask for the stream's usage: evenkeel asks for it where the engine
  /// gives it.
  bool wants_usage = false;
  bool usage_added = false;  ///< the backend that has the request is asked for it
  /// True if, with `usage_added`, `"usage":null` in the stream's other events is the engine's
  /// habit.
  bool keeps_null_usage = false;
  bool wants_id = false;  ///< true if the id of the response is read
  /// True if the response has been read, or is not to be: it costs no backend anything.
  bool is_observed = false;
  /// The name of the model that backends get, of the pool that has the request; empty: as the
  /// client gave it. Valid as long as the plan.
  std::string_view served_model;
  InferenceResponse response;
  std::unique_ptr<ResponseListener> listener;  ///< null: none
  /// Why no backend got it, for a client that may know: the field `x-evenkeel-decision` of the
  /// error. In the request's fields.
  std::string_view refusal;
};

}  // namespace evenkeel
