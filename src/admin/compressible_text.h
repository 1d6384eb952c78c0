// A large body that several clients ask for.
#pragma once

#include <string>
#include <string_view>

#include "admin/message.h"

namespace evenkeel {

/// Is compressed once, when a client first takes that.
class CompressibleText {
 public:
  CompressibleText() = default;
  explicit CompressibleText(std::string text);

  /// Returns the text with status 200, compressed where the client takes it and it is large enough.
  AdminReply reply_to(const AdminRequest& request, std::string_view content_type);

 private:
  SharedText text_;
  SharedText gzipped_;  // null until it is first asked for
};

}  // namespace evenkeel
