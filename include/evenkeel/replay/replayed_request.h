// One request of a replay and what became of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/sim/engine.h"

namespace evenkeel {

struct ReplayedRequest : Sequence {
  Instant due{};
  std::vector<std::uint64_t> blocks;  ///< of trace_block_tokens each
  std::uint64_t tenant = 0;
  bool streams = true;
  std::uint64_t session = 0;  ///< that the client names; 0: none

  std::uint32_t backend = 0;
  Instant sent_at{};
  Instant last_token_at{};
  std::optional<Instant> first_token_at;
  std::optional<Instant> finished_at;
  bool refused = false;
  std::uint32_t ticket = 0;  ///< the dispatcher's own name of it
};

}  // namespace evenkeel
