// Which requests the admin listener answers, beyond those that can connect to it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/message.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

/// A refusal of the admin listener.
struct AdminRefusal {
  int status = 403;
  std::string message;
};

/// True if `host` (with or without port) is localhost, an address, or matches one of `patterns`:
/// names, or globs where '*' stands for any text. `*` in a pattern counts only with `globs`.
bool is_known_host(std::string_view host, const std::vector<std::string>& patterns, bool globs);

/// Keeps pages in an operator's browser out of the API: a page whose name resolves to this listener
/// (DNS rebinding: Host is a name that `hosts` does not list in full), and a page of another
/// origin.
std::optional<AdminRefusal> check_origin(const AdminRequest& request,
                                         const std::vector<std::string>& hosts);

/// A change must besides not come from a page of another site, not even by a form, and must carry
/// the token of `admin.token_file` as `authorization: Bearer`, unless it comes from this machine
/// and `admin.token_for` leaves that out. The file is read each time, so that a new token counts at
/// once.
std::optional<AdminRefusal> authorize_change(const AdminRequest& request, const AdminConfig& admin);

/// What only reads needs the token with `token_for: all`.
std::optional<AdminRefusal> authorize_read(const AdminRequest& request, const AdminConfig& admin);

/// True if the request carries the token of the file.
bool carries_token(const AdminRequest& request, const std::string& token_file);

}  // namespace evenkeel
