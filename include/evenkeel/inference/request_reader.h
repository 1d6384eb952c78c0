// Reads what the body of a request asks of a model while its bytes arrive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/pool_allocator.h"
#include "evenkeel/base/result.h"
#include "evenkeel/coding/window_budget.h"
#include "evenkeel/http/inference_info.h"
#include "evenkeel/inference/api_paths.h"

namespace evenkeel {

struct Request;

/// True if a body of this type must be JSON where an API takes JSON. Servers also take it without a
/// type, and with the one that curl gives data by default; some take it with any.
bool is_json_type(std::string_view content_type);

/// Bodies in this `content-encoding` are decompressed: gzip, deflate and zstd.
bool is_read_encoding(std::string_view encoding);

/// The head of a request, as far as it decides how its body is read.
struct RequestHead {
  std::string_view method;
  std::string_view path;  ///< normalised, without the query
  std::string_view content_type;
  std::string_view content_encoding;  ///< what the head says, true or not
  /// KServe's binary-data extension: `inference-header-content-length`; empty: none.
  std::string_view inference_header_length;
  bool is_grpc = false;
};

/// The facts that decide whether a body is read. `path` is that of the request, normalised.
RequestHead head_of(const Request& request, std::string_view path);

/// The API of a request with a body that is read; nothing for other requests (GET, other gRPC
/// calls). A known path counts behind a prefix, too.
std::optional<InferenceApi> inference_api_of(const RequestHead& head);
/// True if a request of such an API is not complete without a body that names its model. False for
/// `other`, `path_model` and `ollama_model`.
bool needs_body(InferenceApi api);

/// The model that a path names: /v1/models/M[/versions/V|/labels/L][/metadata] and, if it is posted
/// to, .../models/M[/versions/V|/labels/L]:VERB (OpenAI, TensorFlow Serving, KServe v1, Gemini);
/// /v2/models/M/... and /v2/repository/models/M/load (KServe v2). `path` is normalised. Empty:
/// none.
std::string model_in_path(std::string_view method, std::string_view path);
/// The `model` in the query of a target, as of /v1/realtime. Empty: none, or several that differ.
std::string model_in_query(std::string_view target);

/// Reads one body. Bytes may be cut anywhere; nothing is kept of them but what InferenceRequest
/// holds, and nothing is changed. JSON is checked as RFC 8259 defines it, except that the values of
/// a key that is given twice follow each other, and the last one counts, as in Python's `json`.
/// A field of a wrong type is left unset: the engine's own error is the better one.
class RequestReader : public Pooled {
 public:
  /// `into` outlives the reader, and gets what the head says of the request; so does the budget of
  /// `windows`, which limits the memory of zstd. Null: the body cannot be read, because
  /// of its form. One that does not have the encoding that its head names is read as it is.
  /// `members`: names of members of the outermost object whose places are looked for; outlives the
  /// reader; null: none.
  static std::unique_ptr<RequestReader> create(const RequestHead& head, InferenceRequest& into,
                                               WindowShare windows = {},
                                               const std::vector<std::string>* members = nullptr);

  /// How much of what was read could be decompressed; `all` of a body that is not compressed.
  enum class Decoded : std::uint8_t { all, some, none };

  virtual ~RequestReader() = default;
  /// Reads the next bytes. False if the body is malformed; what follows is not read. Only JSON is
  /// ever found malformed: of other forms the engine reports what is wrong.
  virtual bool read(std::string_view bytes) = 0;
  /// Ends the body. False if it is malformed, or not complete.
  virtual bool finish() = 0;
  /// The rest of the body will not be read: `into` then says what its beginning does. Hashes are
  /// complete only after `stop` or `finish`. Further calls of them do nothing.
  virtual void stop() = 0;
  /// True if nothing that follows in the body matters, so that nothing has to wait for it: behind
  /// the first message of a gRPC stream, and behind the JSON of a request with binary tensors.
  virtual bool done() const = 0;
  /// bad_request; `detail` names the byte, counted from 0: "invalid JSON at byte 17: ...". Of a
  /// compressed body, it is a byte of the text.
  /// REQUIRES: `read` or `finish` returned false.
  virtual const Error& error() const = 0;

  virtual Decoded decoded() const { return Decoded::all; }
  /// True if reading has ended because `windows` has too little left.
  virtual bool lacks_memory() const { return false; }

  /// Each value of the key `model` of the outermost object, its quotes included. Empty where the
  /// body is not JSON (a form, gRPC, a compressed body). REQUIRES: nothing more is read.
  virtual std::vector<BodyRange> take_model_values() = 0;
  /// The value of OpenAI's `stream_options`, the last one; nothing if it was not given.
  virtual std::optional<BodyRange> stream_options() const = 0;
  /// The place behind the outermost object's opening brace; nothing if the body is no JSON object.
  virtual std::optional<std::uint64_t> object_begin() const = 0;
  /// True if the outermost object has a member.
  virtual bool has_members() const { return false; }
  /// Each value of the members that were looked for, in the order of the body. REQUIRES: nothing
  /// more is read.
  virtual std::vector<MemberPlace> take_members() { return {}; }
};

}  // namespace evenkeel
