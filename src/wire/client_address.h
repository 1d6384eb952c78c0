#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "evenkeel/wire/frontend.h"

namespace evenkeel {

/// The address of a client's connection, as text, and what its worker calls it.
class ClientAddress {
 public:
  explicit ClientAddress(const Endpoint& peer, ClientNumber number = 0) : number_(number) {
    const std::string name = peer.host();
    size_ = static_cast<std::uint8_t>(name.copy(text_.data(), text_.size()));
  }

  std::string_view text() const { return {text_.data(), size_}; }
  ClientNumber number() const { return number_; }

 private:
  ClientNumber number_;
  std::uint8_t size_ = 0;
  std::array<char, 46> text_;
};

/// Sets what a request's identity takes from its connection; `tls` null: cleartext.
inline void identify_connection(RequestIdentity& identity, const ListenerConfig& config,
                                const ClientAddress& client, const TlsConnectionInfo* tls,
                                std::string_view protocol) {
  identity.listener = config.name;
  identity.client = client.text();
  identity.protocol = protocol;
  if (tls == nullptr) return;
  identity.secure = true;
  if (!tls->verified) return;
  identity.certificate_subject = tls->certificate_subject;
  identity.certificate_hash = tls->certificate_hash;
  identity.certificate_names = &tls->certificate_names;
}

}  // namespace evenkeel
