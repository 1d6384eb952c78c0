#include "evenkeel/backend/backend_findings.h"

#include <fmt/format.h>

namespace evenkeel {

const char* to_string(SlowPart part) {
  switch (part) {
    case SlowPart::per_token: return "per_token";
    case SlowPart::first_token: return "first_token";
    case SlowPart::response: return "response";
  }
  return "response";
}

std::string describe_slowness(Slowness slowness) {
  const char* const part = slowness.part == SlowPart::per_token     ? "time per token"
                           : slowness.part == SlowPart::first_token ? "time to first token"
                                                                    : "time per request";
  return fmt::format("{} {:.{}f}x the pool's median", part, slowness.ratio,
                     slowness.ratio < 10 ? 1 : 0);
}

}  // namespace evenkeel
