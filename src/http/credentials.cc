#include "evenkeel/http/credentials.h"

#include <algorithm>
#include <array>

namespace evenkeel {
namespace {

constexpr std::array<std::string_view, 12> endings = {
    "api-key",   "apikey",     "auth-key",     "subscription-key", "functions-key", "authorization",
    "api-token", "auth-token", "access-token", "security-token",   "private-token", "client-secret",
};

char folded(char c) {
  if (c == '_') return '-';
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}

}  // namespace

bool is_spelling_of(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char left, char right) { return folded(left) == folded(right); });
}

bool ends_as_credential(std::string_view name) {
  return std::any_of(endings.begin(), endings.end(), [name](std::string_view ending) {
    return name.size() >= ending.size() &&
           is_spelling_of(name.substr(name.size() - ending.size()), ending);
  });
}

}  // namespace evenkeel
