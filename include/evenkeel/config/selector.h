// How the file names backends by their labels: "gpu=h100,version=v7".
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace evenkeel {

using BackendLabels = std::map<std::string, std::string>;

/// "gpu=h100,version=v7", in the order of the labels.
std::string selector_of(const BackendLabels& labels);

/// The labels that a selector asks for; blanks beside ',' and '=' do not count. Nothing unless it
/// is LABEL=VALUE, or several of these with different labels.
std::optional<BackendLabels> labels_of(std::string_view selector);

/// True if each label of `wanted` is among these, with its value.
bool has_labels(const BackendLabels& labels, const BackendLabels& wanted);

}  // namespace evenkeel
