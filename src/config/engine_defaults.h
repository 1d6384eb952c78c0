#pragma once

#include <string_view>

// Texts of the reference that come from the table of engines.
namespace evenkeel::config_file {

// The defaults of keys by engine, for the reference.
std::string_view health_timeout_text();
std::string_view keep_alive_idle_text();

}  // namespace evenkeel::config_file
