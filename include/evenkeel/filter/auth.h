// Who may use what: refuses requests without a credential, and those to models that theirs is not
// for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// What became of the credentials of a request.
enum class CredentialState : std::uint8_t {
  accepted,
  missing,
  unknown,       ///< it has some, and none counts
  expired,       ///< it has one that counted once
  unnamed,       ///< it has none but a client certificate, which is no tenant's
  unverifiable,  ///< it has a token, and the keys of its issuer are not there yet
};

/// Knows the credentials of requests, and what the route of each wants.
class AccessRules {
 public:
  virtual ~AccessRules() = default;
  /// What the route of the request wants; of one that is open: what the least strict of those wants
  /// that it may still get.
  virtual AuthRule rule_of(const Request& request) const = 0;
  virtual CredentialState credential_of(const Request& request) const = 0;
  /// Why the tenant of the request may not use its route or its method; empty: it may, or its route
  /// is not known yet.
  virtual std::string denial_of(const Request& request) const = 0;
  /// Takes away from the request what was accepted.
  virtual void remove_credential(Request& request) const = 0;
};

/// Refuses requests whose route wants a credential that they have not (unauthorized), or is not for
/// their tenant (tenant_not_allowed), before anything of their bodies is read.
///
/// Thread: one worker's. REQUIRES: the rules outlive it.
class AuthFilter final : public Filter {
 public:
  explicit AuthFilter(const AccessRules& rules) : rules_(rules) {}

  Task<Result<Response>> handle(Request& request, Handler& next) override;

  /// Why a request that is routed as far as it can be is not let in; nothing: it is, and its
  /// credential is removed. Whatever its model.
  std::optional<Error> admit(Request& request) const;

 private:
  std::optional<Error> refusal_of(const Request& request) const;

  const AccessRules& rules_;
};

/// Lets a request into its pool: with a credential if its route wants one, which is checked again,
/// since the body may have chosen the route, and only to models that tenant and key may use
/// (model_not_allowed). No backend gets the credential.
///
/// Thread: one worker's. REQUIRES: what is passed outlives it.
class AuthorizationFilter final : public Filter {
 public:
  AuthorizationFilter(const AuthFilter& auth, const AccessRules& rules)
      : auth_(auth), rules_(rules) {}

  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  const AuthFilter& auth_;
  const AccessRules& rules_;
};

}  // namespace evenkeel
