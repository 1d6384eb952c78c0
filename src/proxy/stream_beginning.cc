#include "proxy/stream_beginning.h"

namespace evenkeel {

std::unique_ptr<StreamBeginning> StreamBeginning::of(const Request& request,
                                                     const Response& response) {
  const auto format =
      response_format_of(response.fields.value(FieldId::content_type).value_or(""),
                         response.fields.value(FieldId::content_encoding).value_or(""),
                         request.path.ends_with("/ModelStreamInfer"));
  if (!format || *format == ResponseFormat::json) return nullptr;
  return std::make_unique<StreamBeginning>(*format);
}

bool StreamBeginning::read(std::string_view bytes, bool last, Instant now) {
  reader_->read(bytes, now);
  if (last) reader_->finish(now);
  return response_.output_events > 0;
}

}  // namespace evenkeel
