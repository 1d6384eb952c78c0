#include "evenkeel/inference/response_reader.h"

#include <algorithm>
#include <array>

#include "evenkeel/base/line_cutter.h"
#include "evenkeel/http/fields.h"
#include "inference/response_document.h"

namespace evenkeel {
namespace {

/// Records output that arrived at `now`.
void add_output(InferenceResponse& into, std::uint32_t events, Instant now) {
  if (events == 0) return;
  if (into.output_events == 0) {
    into.first_output = now;
  } else {
    into.max_gap = std::max(into.max_gap, now - into.last_output);
  }
  into.output_events += events;
  into.last_output = now;
}

/// A response that is one JSON document.
class DocumentReader final : public ResponseReader {
 public:
  DocumentReader(InferenceResponse& into, bool wants_id) : document_(into, false, wants_id) {}
  void read(std::string_view bytes, Instant /*now*/) override { document_.read(bytes); }
  void finish(Instant /*now*/) override { document_.report(); }

 private:
  ResponseDocument document_;
};

/// Server-sent events, or JSON lines.
class LineReader final : public ResponseReader {
 public:
  LineReader(bool events, InferenceResponse& into, bool wants_id)
      : into_(into),
        document_(into, true, wants_id),
        prefix_(events ? data_prefix : std::string_view()) {}

  void read(std::string_view bytes, Instant now) override {
    std::uint32_t with_output = 0;
    while (!bytes.empty()) {
      const auto [part, whole] = lines_.cut(bytes);
      read_part(part);
      if (whole) with_output += end_line();
    }
    add_output(into_, with_output, now);
  }
  void finish(Instant now) override {
    add_output(into_, document_.end() ? 1 : 0, now);
    document_.report();
  }

 private:
  static constexpr std::string_view data_prefix = "data:";
  static constexpr std::string_view event_prefix = "event:";
  static constexpr std::size_t not_data = data_prefix.size() + 1;

  /// Bytes of one line, which may have begun earlier.
  void read_part(std::string_view part) {
    if (!part.empty()) blank_ = false;
    if (matched_ == not_data) return keep_field(part);
    while (matched_ < prefix_.size() && !part.empty()) {
      if (part.front() != prefix_[matched_]) {
        matched_ = not_data;
        return keep_field(part);
      }
      ++matched_;
      part.remove_prefix(1);
    }
    if (matched_ == prefix_.size()) document_.read(part);
  }

  /// Keeps the beginning of a line without data, which may name the event.
  void keep_field(std::string_view part) {
    const std::size_t kept = std::min(part.size(), field_.size() - field_size_);
    std::copy_n(part.data(), kept, field_.data() + field_size_);
    field_size_ += kept;
  }
  void end_field() {
    std::string_view field(field_.data(), field_size_);
    field_size_ = 0;
    if (!field.starts_with(event_prefix)) return;
    field.remove_prefix(event_prefix.size());
    if (field.starts_with(' ')) field.remove_prefix(1);
    document_.name_event(field);
  }

  /// A blank line ends an event, and any line a document of JSON lines. True: it had output.
  bool end_line() {
    if (field_size_ > 0) end_field();
    const bool ends = blank_ || prefix_.empty();
    matched_ = 0;
    blank_ = true;
    return ends && document_.end();
  }

  InferenceResponse& into_;
  ResponseDocument document_;
  LineCutter lines_;
  std::string_view prefix_;  // of the lines that hold JSON
  std::size_t matched_ = 0;  // bytes of the prefix that the current line begins with
  bool blank_ = true;        // the current line, as far as it was read
  std::size_t field_size_ = 0;
  std::array<char, 48> field_;  // of a line without data: its beginning
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

bool is_media_type(std::string_view value, std::string_view type) {
  return equals_ignore_case(value.substr(0, type.size()), type) &&
         (value.size() == type.size() || value[type.size()] == ';' || value[type.size()] == ' ' ||
          value[type.size()] == '+');
}

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

std::unique_ptr<ResponseReader> ResponseReader::create(ResponseFormat format,
                                                       InferenceResponse& into, bool wants_id) {
  switch (format) {
    case ResponseFormat::events: return std::make_unique<LineReader>(true, into, wants_id);
    case ResponseFormat::json_lines: return std::make_unique<LineReader>(false, into, wants_id);
    case ResponseFormat::json: return std::make_unique<DocumentReader>(into, wants_id);
    case ResponseFormat::grpc_stream: return std::make_unique<MessageReader>(into);
  }
  return nullptr;
}

}  // namespace evenkeel
