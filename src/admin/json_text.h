// Boost.JSON values as text.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace evenkeel {

/// Written as every other JSON of evenkeel is: numbers in their shortest form (Boost.JSON 1.81
/// writes 0.5 as 5E-1), invalid UTF-8 replaced.
std::string to_text(const boost::json::value& value);

}  // namespace evenkeel
