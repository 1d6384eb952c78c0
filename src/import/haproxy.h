// HAProxy's files.
#pragma once

#include <string_view>

#include "evenkeel/import/import.h"

namespace evenkeel::import {

Import import_haproxy(std::string_view text, std::string_view listen);

}  // namespace evenkeel::import
