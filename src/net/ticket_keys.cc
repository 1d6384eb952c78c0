#include "net/ticket_keys.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>

namespace evenkeel {

/// Ensures that the newest key is of this hour, and drops expired ones.
bool TicketKeys::rotate() {
  const Instant now = clock_();
  while (!keys_.empty() && now - keys_.back().created >= lifetime) {
    OPENSSL_cleanse(keys_.back().encryption.data(), keys_.back().encryption.size());
    OPENSSL_cleanse(keys_.back().authentication.data(), keys_.back().authentication.size());
    keys_.pop_back();
  }
  if (!keys_.empty() && now - keys_.front().created < rotation_interval) return true;
  Key key{.created = now};
  const auto fill = [](auto& bytes) {
    return RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1;
  };
  if (!fill(key.name) || !fill(key.encryption) || !fill(key.authentication)) return false;
  keys_.insert(keys_.begin(), key);
  return true;
}

std::optional<TicketKeys::Key> TicketKeys::current() {
  std::lock_guard lock(mutex_);
  if (!rotate()) return std::nullopt;
  return keys_.front();
}

std::optional<TicketKeys::Found> TicketKeys::find(const unsigned char* name) {
  std::lock_guard lock(mutex_);
  if (!rotate()) return std::nullopt;
  const auto key = std::find_if(keys_.begin(), keys_.end(), [name](const Key& each) {
    return std::memcmp(each.name.data(), name, each.name.size()) == 0;
  });
  if (key == keys_.end()) return std::nullopt;
  return Found{*key, key != keys_.begin()};
}

}  // namespace evenkeel
