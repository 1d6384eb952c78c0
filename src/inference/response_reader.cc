#include "evenkeel/inference/response_reader.h"

#include <algorithm>

#include "evenkeel/http/fields.h"
#include "evenkeel/http/media_type.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/event_editor.h"
#include "inference/event_reader.h"
#include "inference/response_document.h"

namespace evenkeel {
namespace {

/// A response that is one JSON document.
class DocumentReader final : public ResponseReader {
 public:
  DocumentReader(InferenceResponse& into, const ResponseInterests& interests)
      : editor_(interests.editor), document_(into, false, interests) {}
  void read(std::string_view bytes, Instant /*now*/) override {
    document_.read(bytes, size_);
    size_ += bytes.size();
  }
  void finish(Instant /*now*/) override {
    if (editor_ != nullptr) editor_->end_event(EventPlaces::nowhere, document_.places());
    document_.report();
  }

 private:
  EventEditor* const editor_;
  ResponseDocument document_;
  std::size_t size_ = 0;  // of what was read
};

/// Messages of a gRPC stream: only when they come.
class MessageReader final : public ResponseReader {
 public:
  explicit MessageReader(InferenceResponse& into) : into_(into) {}

  void read(std::string_view bytes, Instant now) override {
    std::uint32_t messages = 0;
    while (!bytes.empty()) {
      if (left_ > 0) {
        const std::size_t taken = std::min<std::size_t>(left_, bytes.size());
        left_ -= static_cast<std::uint32_t>(taken);
        bytes.remove_prefix(taken);
        continue;
      }
      if (prefix_size_ > 0) size_ = size_ << 8 | static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      if (++prefix_size_ < prefix_bytes) continue;
      left_ = size_;
      if (size_ > 0) ++messages;
      prefix_size_ = 0;
      size_ = 0;
    }
    add_output(into_, messages, now);
  }
  void finish(Instant /*now*/) override {}

 private:
  static constexpr std::size_t prefix_bytes = 5;  // a flag and a length

  InferenceResponse& into_;
  std::size_t prefix_size_ = 0;
  std::uint32_t size_ = 0;
  std::uint32_t left_ = 0;  // bytes of the current message
};

}  // namespace

std::optional<ResponseFormat> response_format_of(std::string_view content_type,
                                                 std::string_view content_encoding,
                                                 bool is_grpc_stream) {
  if (!content_encoding.empty() && !equals_ignore_case(content_encoding, "identity")) {
    return std::nullopt;
  }
  if (is_media_type(content_type, "text/event-stream")) return ResponseFormat::events;
  if (is_media_type(content_type, "application/x-ndjson")) return ResponseFormat::json_lines;
  if (is_media_type(content_type, "application/json")) return ResponseFormat::json;
  if (is_grpc_stream && is_media_type(content_type, "application/grpc")) {
    return ResponseFormat::grpc_stream;
  }
  return std::nullopt;
}

std::optional<ResponseFormat> response_format_of(const Request& request, const Response& response) {
  return response_format_of(response.fields.value(FieldId::content_type).value_or(""),
                            response.fields.value(FieldId::content_encoding).value_or(""),
                            request.path.ends_with("/ModelStreamInfer"));
}

std::unique_ptr<ResponseReader> ResponseReader::create(ResponseFormat format,
                                                       InferenceResponse& into,
                                                       const ResponseInterests& interests) {
  using Framing = EventSplitter::Framing;
  switch (format) {
    case ResponseFormat::events:
      return std::make_unique<EventReader>(Framing::events, into, interests);
    case ResponseFormat::json_lines:
      return std::make_unique<EventReader>(Framing::json_lines, into, interests);
    case ResponseFormat::json: return std::make_unique<DocumentReader>(into, interests);
    case ResponseFormat::grpc_stream: return std::make_unique<MessageReader>(into);
  }
  return nullptr;
}

}  // namespace evenkeel
