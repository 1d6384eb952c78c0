#include <array>

#include "evenkeel/http/message.h"

namespace evenkeel {

std::string_view to_string(AnswerSource source) {
  constexpr std::array<std::string_view, 5> words{"", "miss", "hit", "coalesced", "stale"};
  return words[static_cast<std::size_t>(source)];
}

}  // namespace evenkeel
