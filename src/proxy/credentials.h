// Which credentials a backend gets: the client's, or its own.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/http/credentials.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// Replaces the client's credentials by the backend's own key, whatever fields and parameters they
/// are in, and restores them for a backend that has none, and when the request has its answer.
class Credentials {
 public:
  void apply_to(Request& request, std::string_view key) {
    if (replaced_ || !key.empty()) [[unlikely]]
      replace(request, key);
  }
  /// The request leaves the pool, whose keys are no other's.
  void restore(Request& request) { apply_to(request, {}); }

 private:
  [[gnu::noinline]] void replace(Request& request, std::string_view key) {
    if (!std::exchange(replaced_, !key.empty())) {
      take_from(request);
    } else {
      request.fields.remove(FieldId::authorization);  // another backend's key
    }
    if (!key.empty()) return request.fields.add("authorization", key, FieldId::authorization);
    give_back_to(request);
  }
  void take_from(Request& request) {
    Fields& fields = request.fields;
    std::string subprotocols;
    fields.remove_if([&](const Field& field) {
      if (!holds_credential(field)) return false;
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

  bool replaced_ = false;
  Fields clients_;
  std::string_view clients_path_;  // empty: no credential is in it
  std::string_view subprotocols_;  // in place of a list with a key; empty: of none
};

}  // namespace evenkeel
