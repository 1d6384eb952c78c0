#include "evenkeel/upstream/backend_status.h"

#include <algorithm>
#include <utility>

namespace evenkeel {

const BackendStatus* MonitorSnapshot::find(std::string_view pool, std::string_view backend) const {
  using Key = std::pair<std::string_view, std::string_view>;
  const auto key_of = [](const Entry& entry) { return Key(entry->pool, entry->backend); };
  const auto found = std::ranges::lower_bound(backends_, Key(pool, backend), {}, key_of);
  if (found == backends_.end() || key_of(*found) != Key(pool, backend)) return nullptr;
  return found->get();
}

}  // namespace evenkeel
