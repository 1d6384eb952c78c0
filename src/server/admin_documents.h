// What the daemon knows, as the JSON documents of the admin API.
#pragma once

#include <string>

#include "server/overview.h"

namespace evenkeel {

std::string status_document(const Overview& overview);
std::string pools_document(const Overview& overview);
std::string backends_document(const Overview& overview);

}  // namespace evenkeel
