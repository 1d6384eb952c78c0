// Reads a form (multipart/form-data, RFC 7578), in which audio is sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "inference/read_only_request.h"
#include "inference/request_facts.h"

namespace evenkeel {

/// Keeps the values of a few fields; files are skipped. A form that is malformed is no error: the
/// engine's own is the better one.
class FormRequest final : public ReadOnlyRequest {
 public:
  /// The boundary that a content type names; empty: it is no form.
  static std::string boundary_of(std::string_view content_type);

  FormRequest(std::string_view boundary, InferenceRequest& into);

  bool read(std::string_view bytes) override;
  bool finish() override;
  void stop() override { state_ = State::ended; }
  bool done() const override { return state_ == State::ended; }
  const Error& error() const override { return error_; }

 private:
  enum class State : std::uint8_t {
    content,    // of a part, or what precedes the first one
    delimiter,  // behind a delimiter: another part follows, or the form ends
    header,     // a line of a part's header
    ended,
  };

  void read_content(std::string_view& bytes);
  void read_delimiter_end(std::string_view& bytes);
  void read_header(std::string_view& bytes);
  void end_header_line();
  void add_content(std::string_view bytes);
  void end_part();
  void lose();

  InferenceRequest& into_;
  RequestFacts facts_;
  const std::string delimiter_;
  State state_ = State::content;
  std::size_t matched_ = 2;  // bytes of the delimiter
  bool first_dash_ = false;
  bool complete_ = false;
  bool lost_ = false;      // servers may read it differently
  bool has_name_ = false;  // the part that is read
  std::string line_;       // of a header
  std::string name_;       // of the part; empty: its content does not matter
  std::string value_;      // its content
  Error error_;
};

}  // namespace evenkeel
