// Which credentials a backend gets: the client's, or its own.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/http/credentials.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// True for a field that tells a server of clients, of the proxies between, or of their traces.
bool tells_of_client(const Field& field, const RequestIdentity& identity);

/// Replaces the client's credentials by the backend's own key, whatever fields and parameters they
/// are in, and restores them for a backend that has none, and when the request has its answer. What
/// else tells of the client is kept from a hosted service in the same way.
class Credentials {
 public:
  /// `key` null: the backend has none. It outlives the request's stay in the pool.
  void apply_to(Request& request, const BackendCredential* key, bool is_hosted = false) {
    if (key_ != nullptr || key != nullptr) [[unlikely]]
      replace(request, key, is_hosted);
  }
  /// The request leaves the pool, whose keys are no other's.
  void restore(Request& request) { apply_to(request, nullptr); }

 private:
  [[gnu::noinline]] void replace(Request& request, const BackendCredential* key, bool is_hosted) {
    const BackendCredential* const before = std::exchange(key_, key);
    if (before == nullptr) {
      take_from(request, is_hosted);
    } else {
      request.fields.remove_if([before](const Field& field) {
        return field.value_begin == before->value.data();  // another backend's key
      });
    }
    if (key == nullptr) return give_back_to(request);
    request.fields.add(key->field, key->value, field_id(key->field), true);
  }
  void take_from(Request& request, bool is_hosted) {
    Fields& fields = request.fields;
    std::string subprotocols;
    // A field of the key's own name is the client's, whatever it is called.
    fields.remove_if([&](const Field& field) {
      const bool is_taken = holds_credential(field) ||
                            equals_ignore_case(field.name(), key_->field) ||
                            (is_hosted && tells_of_client(field, request.info.identity));
      if (!is_taken) return false;
      clients_.add(field);
      if (lists_credential(field.name(), field.value()))
        add_other_subprotocols(field.value(), subprotocols);
      return true;
    });
    if (!subprotocols.empty()) {
      subprotocols_ = fields.keep(subprotocols);
      fields.add(subprotocol_field, subprotocols_);
    }
    if (target_holds_credential(request.path)) {
      clients_path_ = request.path;
      request.path = fields.keep(target_without_credentials(request.path));
    }
  }
  void give_back_to(Request& request) {
    if (!subprotocols_.empty()) {
      request.fields.remove_if(
          [this](const Field& field) { return field.value_begin == subprotocols_.data(); });
      subprotocols_ = {};
    }
    for (const Field& field : clients_) request.fields.add(field);
    clients_.clear();
    if (!clients_path_.empty()) request.path = std::exchange(clients_path_, {});
  }

  const BackendCredential* key_ = nullptr;  // in place of the client's; null: those are there
  Fields clients_;
  std::string_view clients_path_;  // empty: no credential is in it
  std::string_view subprotocols_;  // in place of a list with a key; empty: of none
};

}  // namespace evenkeel
