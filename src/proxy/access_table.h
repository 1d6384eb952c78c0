// What a plan knows of who may use it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/filter/auth.h"
#include "evenkeel/http/message.h"
#include "proxy/route_table.h"
#include "proxy/tenants.h"

namespace evenkeel {

/// The rules of the routes, and the credentials of tenants. Thread: one worker's.
class AccessTable final : public AccessRules {
 public:
  /// What is passed outlives the table. REQUIRES: the file has `auth`.
  AccessTable(const Config& config, const RouteTable& routes, Tenants& tenants);

  AuthRule rule_of(const Request& request) const override;
  CredentialState credential_of(const Request& request) const override;
  std::string denial_of(const Request& request) const override;
  void remove_credential(Request& request) const override { tenants_.remove_credential(request); }

  const AuthFilter& filter() const { return filter_; }
  AuthFilter& filter() { return filter_; }

 private:
  struct Rule {
    AuthRule auth;
    bool by_body;  // the route looks into bodies
  };

  /// What a tenant is limited to.
  struct Scope {
    std::vector<bool> routes;                           // by number; empty: all
    const std::vector<std::string>* methods = nullptr;  // never null; empty: all
  };

  AuthRule least_strict(const Request& request) const;
  std::optional<std::size_t> route_of(const Request& request) const;

  const RouteTable& routes_;
  Tenants& tenants_;
  std::vector<Rule> rules_;                   // of the routes
  std::map<std::string_view, Scope> scopes_;  // of tenants that are limited, by name
  AuthFilter filter_{*this};
};

}  // namespace evenkeel
