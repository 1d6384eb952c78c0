// What pages of other origins may do: the parts of the Fetch standard (CORS) that servers play.
#pragma once

#include <string_view>

#include "evenkeel/http/message.h"

namespace evenkeel {

/// The method that a page's preflight asks for; empty: the request is no preflight.
std::string_view preflighted_method(const Request& request);

/// Lets a page of any origin read a response that evenkeel itself makes, as inference servers do
/// with theirs: it says nothing that depends on who asks. For a request of a page (`origin`). The
/// rules of its route (`cors`) take the place of this.
void allow_origin(const Request& request, Response& response);

/// Removes what a response says to pages of other origins.
void remove_cors_fields(Fields& fields);

}  // namespace evenkeel
