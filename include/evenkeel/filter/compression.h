// Which responses are compressed, as the `compression` of their routes says.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/config/config.h"
#include "evenkeel/filter/by_route.h"
#include "evenkeel/filter/compressed_body.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// The rules of one route. Immutable.
class CompressionRules {
 public:
  explicit CompressionRules(const CompressionConfig& config);

  /// True if clients that accept it get the response compressed. Never one of several messages
  /// (event streams, lines of JSON, gRPC), a part of a document, one that has a coding, or one that
  /// must not be transformed.
  bool cover(const Response& response) const;
  /// The coding that a client likes best, by its `accept-encoding` (RFC 9110, section 12.5.3), and
  /// of those that it likes equally, the first of the file. Nothing: the response stays as it is.
  std::optional<ContentCoding> coding_for(std::string_view accept_encoding) const;

 private:
  bool has_type(std::string_view content_type) const;

  std::vector<ContentCoding> codings_;
  std::vector<std::string> types_;  // in lower case
  std::uint64_t min_bytes_;
};

/// Changes what the header section says of the content to what holds once it is compressed.
void mark_compressed(Fields& fields, ContentCoding coding);

/// Compresses the responses of routes that say so, as they pass.
class CompressionFilter final : public Filter {
 public:
  /// The routes outlive the filter, and it outlives the bodies of its responses.
  CompressionFilter(Loop& loop, const std::vector<RouteConfig>& routes);
  bool is_needed() const { return !rules_.empty(); }
  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  Task<Result<Response>> compress(Request& request, std::string_view accept_encoding,
                                  Handler& next);

  Loop& loop_;
  ByRoute<CompressionRules> rules_;
  CompressorPool compressors_;
};

}  // namespace evenkeel
