// The live page at /ui/: files that CMake embeds, and a plain table of backends.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "admin/message.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

/// A file of src/admin/ui.
struct PageFile {
  std::string_view name;     ///< such as "page.js"
  std::string_view gzipped;  ///< its content
  std::string_view etag;     ///< of its content, whatever the coding
};

/// Returns the files of the page, as src/admin/ui/embed.cmake has written them.
std::span<const PageFile> page_files();

/// The path of the table that needs no script.
inline constexpr std::string_view plain_page_path = "/ui/plain";

/// Returns the file that the request is for, or a redirect to the page. Nothing: neither of them.
std::optional<AdminReply> page_reply(const AdminRequest& request);

/// Returns the backends as lines of text. `status`, `backends`: as the API has them.
AdminReply plain_page_reply(const JsonValue& status, const JsonValue::List& backends);

}  // namespace evenkeel
