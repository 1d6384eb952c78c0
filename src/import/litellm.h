// LiteLLM's `config.yaml`.
#pragma once

#include <string_view>

#include "evenkeel/import/import.h"

namespace evenkeel::import {

Import import_litellm(std::string_view text);

}  // namespace evenkeel::import
