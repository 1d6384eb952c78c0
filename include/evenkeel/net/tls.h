// What TLS is spoken by: a listener's policy, a pool's policy, and what a handshake agreed upon.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/tls_outcome.h"
#include "evenkeel/config/config.h"
#include "evenkeel/config/tls_problem.h"

struct ssl_ctx_st;  // OpenSSL's own names: its headers stay inside this room
struct ssl_session_st;

namespace evenkeel {

/// Which protocols a connection to a backend offers (ALPN); in the clear nothing is offered.
enum class AlpnOffer : std::uint8_t { http1, http2, http2_or_http1 };

/// What a handshake agreed upon.
struct TlsConnectionInfo {
  std::string_view alpn;     ///< "h2", "http/1.1"; empty: nothing was said of it
  std::string_view version;  ///< "TLSv1.3"
  std::string_view cipher;   ///< "TLS_AES_128_GCM_SHA256"
  std::string sni;           ///< the name that the client asked for, lower case; empty: none
  bool resumed = false;
  bool verified = false;  ///< the peer showed a certificate, and it is good
  /// Of the peer's certificate, where it showed one: the subject as RFC 2253 writes it, and the
  /// SHA-256 of its DER form, 64 lower-case hexadecimal digits.
  std::string certificate_subject;
  std::string certificate_hash;
};

class TicketKeys;
struct TlsContexts;

/// How a listener speaks TLS: TLS 1.2 with ECDHE and AEAD, TLS 1.3; certificates by SNI; session
/// tickets with keys of its own, new ones every hour, old ones good for twelve more; no
/// compression, no renegotiation, no early data. A session is resumed under the policy and for the
/// server name that it was made for, and no other (CVE-2025-23419).
///
/// Immutable but for its ticket keys, shared by all workers. Thread: any.
class TlsServerContext {
 public:
  struct Options {
    bool http2 = true;                                             ///< offered before http/1.1
    std::function<Instant()> clock = [] { return Clock::now(); };  ///< ages ticket keys
  };

  /// What is wrong with the files, warnings included. Reads them; blocks.
  static std::vector<TlsProblem> check(const ListenerTlsConfig& config);
  /// `listener`: its name; one part of what a session is bound to. Tickets of a predecessor stay
  /// good, as far as the policy is still the same. Errors name file and cure.
  static Result<std::shared_ptr<const TlsServerContext>> build(
      const ListenerTlsConfig& config, const std::string& listener, Options options,
      const TlsServerContext* predecessor = nullptr);
  static Result<std::shared_ptr<const TlsServerContext>> build(const ListenerTlsConfig& config,
                                                               const std::string& listener) {
    return build(config, listener, Options{});
  }
  TlsServerContext(const TlsServerContext&) = delete;
  TlsServerContext& operator=(const TlsServerContext&) = delete;
  ~TlsServerContext();

  /// Certificates that have expired, or are not valid yet; for the log.
  const std::vector<TlsProblem>& warnings() const { return warnings_; }

 private:
  friend class TlsState;
  TlsServerContext();

  std::unique_ptr<TlsContexts> contexts_;
  std::shared_ptr<TicketKeys> tickets_;
  std::vector<TlsProblem> warnings_;
  bool http2_ = true;
};

/// The session that one backend gave last, to be resumed. Thread: one worker's.
class TlsSessionCache {
 public:
  TlsSessionCache() = default;
  TlsSessionCache(const TlsSessionCache&) = delete;
  TlsSessionCache& operator=(const TlsSessionCache&) = delete;
  ~TlsSessionCache();

 private:
  friend class TlsState;
  ssl_session_st* latest_ = nullptr;
};

/// How a pool's backends are spoken to in TLS: whom to believe and what to show.
/// Immutable, shared by all workers. Thread: any.
class TlsClientContext {
 public:
  static std::vector<TlsProblem> check(const PoolTlsConfig& config);
  /// The predecessor itself where neither the settings nor the files have changed, so that what was
  /// connected with it can go on. Errors name file and cure.
  static Result<std::shared_ptr<const TlsClientContext>> build(
      const PoolTlsConfig& config, std::shared_ptr<const TlsClientContext> predecessor = nullptr);
  TlsClientContext(const TlsClientContext&) = delete;
  TlsClientContext& operator=(const TlsClientContext&) = delete;
  ~TlsClientContext();

  /// What the backend's certificate must be for, if the file says so; else its host.
  const std::string& server_name() const { return config_.server_name; }

 private:
  friend class TlsState;
  TlsClientContext() = default;

  ssl_ctx_st* context_ = nullptr;
  PoolTlsConfig config_;
  std::string files_;  // their bytes
};

}  // namespace evenkeel
