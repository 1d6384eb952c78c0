// Reads what a model's response reports while its bytes pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/pool_allocator.h"
#include "evenkeel/http/inference_info.h"

namespace evenkeel {

struct Request;
struct Response;
class EventEditor;

/// How a response is framed.
enum class ResponseFormat : std::uint8_t {
  events,       ///< server-sent events: OpenAI, Anthropic, TGI, SGLang, llama.cpp, Triton
  json_lines,   ///< Ollama
  json,         ///< one document, however large
  grpc_stream,  ///< messages of ModelStreamInfer
};

/// The format of a response with these fields; nothing if there is nothing to read in it.
/// `is_grpc_stream`: it belongs to a call whose response is a stream of messages.
std::optional<ResponseFormat> response_format_of(std::string_view content_type,
                                                 std::string_view content_encoding,
                                                 bool is_grpc_stream);
/// The same for the response to this request.
std::optional<ResponseFormat> response_format_of(const Request& request, const Response& response);

/// What is to be found in a response. Output and usage always are, unless `wants_output` turns that
/// off for a while.
struct ResponseInterests {
  bool id = false;      ///< of the response, where `/v1/responses` and `/v1/conversations` have it
  bool errors = false;  ///< events in which the server reports an error
  EventEditor* editor = nullptr;  ///< is told where events end, and what is in them
};

/// Reads one response. Bytes may be cut anywhere; nothing is kept of them. What is not understood
/// is passed over: the result then says less.
///
/// An event has output if it brings text, reasoning, a call of a tool, sound or tensors: not if it
/// brings the role alone, usage, progress, an error, or nothing. Comments and events such as `ping`
/// never do. An event of no known dialect has output if it has data. Of usage the last report
/// counts, each count by itself. An engine's own counts (`timings`, `eval_count`) count where it
/// gives no `usage`.
class ResponseReader : public Pooled {
 public:
  /// `into` outlives the reader.
  static std::unique_ptr<ResponseReader> create(ResponseFormat format, InferenceResponse& into,
                                                const ResponseInterests& interests = {});

  virtual ~ResponseReader() = default;
  /// The next bytes. Output in them was there at `now`: events that arrive together count as many
  /// events, but not as gaps.
  virtual void read(std::string_view bytes, Instant now) = 0;
  /// There are no more bytes; also of a response that was cut off.
  virtual void finish(Instant now) = 0;

  /// Whether output and usage matter in the events that begin from here on.
  virtual void wants_output(bool /*wants*/) {}
  /// True if an event has reported an error that was not the client's fault.
  virtual bool found_error() const { return false; }
  /// True if the next byte begins an event.
  virtual bool between_events() const { return true; }
};

}  // namespace evenkeel
