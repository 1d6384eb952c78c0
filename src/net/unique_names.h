// Objects that name nothing twice: readers differ in which of two values they take.
#pragma once

#include "evenkeel/json/value.h"

namespace evenkeel {

/// True if no object of the document, at any depth, has two members of the same name.
bool has_unique_names(const JsonValue& document);

}  // namespace evenkeel
