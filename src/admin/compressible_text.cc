#include "admin/compressible_text.h"

#include <cstddef>
#include <memory>
#include <utility>

#include "admin/gzip.h"
#include "evenkeel/http/preferences.h"

namespace evenkeel {
namespace {

constexpr std::size_t min_compressed_bytes = 1024;

}  // namespace

CompressibleText::CompressibleText(std::string text)
    : text_(std::make_shared<const std::string>(std::move(text))) {}

AdminReply CompressibleText::reply_to(const AdminRequest& request, std::string_view content_type) {
  AdminReply reply{.content_type = content_type, .body = text_};
  reply.fields.emplace_back("vary", "accept-encoding");
  const bool compressible = text_->size() >= min_compressed_bytes;
  const auto accepted = request.field("accept-encoding").value_or("");
  if (!compressible || weight_of_coding(accepted, "gzip") == 0) return reply;
  if (gzipped_ == nullptr) gzipped_ = std::make_shared<const std::string>(gzip(*text_));
  if (gzipped_->empty()) return reply;  // it could not be compressed
  reply.body = gzipped_;
  reply.gzipped = true;
  return reply;
}

}  // namespace evenkeel
