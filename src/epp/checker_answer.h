// What a picker has answered on one stream, taken together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "epp/checker_stream.h"
#include "epp/messages.h"

namespace evenkeel {

/// The header and the key of metadata that name the endpoint.
inline constexpr std::string_view destination_header = "x-gateway-destination-endpoint";

/// The kinds of messages of a picker.
enum class AnswerPart : std::uint8_t {
  head,
  body,
  trailers,
  response_head,
  response_body,
  response_trailers,
  immediate,
  nothing,  ///< none of these
};

/// A body as it came back, piece by piece.
struct EchoedBody {
  std::string bytes;
  std::size_t pieces = 0;
  std::size_t largest = 0;     ///< piece
  std::size_t ends = 0;        ///< pieces with end_of_stream
  std::size_t after_end = 0;   ///< pieces
  std::size_t unstreamed = 0;  ///< answers without streamed_response

  void add(const ext_proc::BodyResponse& response);
};

struct ImmediateAnswer {
  int status = 0;
  std::string body;
};

struct PickerAnswer {
  std::vector<AnswerPart> parts;
  std::optional<std::string> header;    ///< the destination in the header
  std::optional<std::string> metadata;  ///< and in the metadata that came with it
  bool has_two_values = false;          ///< true if the header has a value and a raw_value
  bool picks_with_body = false;         ///< true if an answer to the body names a destination
  bool clears_route_cache = false;
  std::optional<std::string> content_length;
  bool removes_content_length = false;
  EchoedBody body;
  EchoedBody response_body;
  std::optional<ImmediateAnswer> immediate;
  std::optional<GrpcStatus> end;
  std::string end_text;
  std::string failure;  ///< how the stream broke, or what did not come in time; empty: neither

  void add(const StreamEvent& event);
  std::size_t count(AnswerPart part) const;
  /// True if nothing more is to come.
  bool over() const { return immediate.has_value() || end.has_value() || !failure.empty(); }
  bool picked() const { return header.has_value() || metadata.has_value(); }
  /// The endpoints that were picked, in order.
  std::vector<std::string> endpoints() const;
  /// What came, for people: "127.0.0.1:8000", or "ImmediateResponse 503: no endpoint".
  std::string summary() const;

 private:
  void add(const ext_proc::ProcessingResponse& message);
  void add_head(const ext_proc::ProcessingResponse& message);
};

}  // namespace evenkeel
