// TLS policies of listeners and pools, and what a handshake negotiated.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/certificate_names.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/tls_outcome.h"
#include "evenkeel/config/config.h"
#include "evenkeel/config/tls_problem.h"

struct ssl_ctx_st;  // OpenSSL's names; its headers stay inside this room
struct ssl_session_st;

namespace evenkeel {

/// Which protocols a connection to a backend offers (ALPN); in the clear nothing is offered.
enum class AlpnOffer : std::uint8_t { http1, http2, http2_or_http1 };

/// What a handshake negotiated.
struct TlsConnectionInfo {
  std::string_view alpn;     ///< "h2", "http/1.1"; empty: not negotiated
  std::string_view version;  ///< "TLSv1.3"
  std::string_view cipher;   ///< "TLS_AES_128_GCM_SHA256"
  std::string sni;           ///< the server name that the client sent, in lower case; or empty
  bool resumed = false;
  bool verified = false;  ///< the peer sent a certificate and it is valid
  /// The peer's certificate, if it sent one: the subject as RFC 2253 writes it, and the SHA-256 of
  /// its DER form as 64 lower-case hexadecimal digits.
  std::string certificate_subject;
  std::string certificate_hash;
  CertificateNames certificate_names;  ///< of a client; those of a backend are not recorded
};

class TicketKeys;
struct TlsContexts;

/// A certificate that a listener presents.
struct PresentedCertificate {
  std::string name;  ///< the first of its names; may be empty
  std::chrono::sys_seconds expires;
};

/// The TLS policy of a listener: TLS 1.3, and TLS 1.2 with ECDHE and AEAD; certificates by SNI;
/// session tickets with keys that rotate every hour and stay valid for twelve more; no compression,
/// no renegotiation, no early data. A session resumes only under the policy and for the server name
/// that it was created with (CVE-2025-23419).
///
/// Immutable except for its ticket keys; shared by all workers. Thread: any.
class TlsServerContext {
 public:
  struct Options {
    bool http2 = true;                                             ///< offered before http/1.1
    std::function<Instant()> clock = [] { return Clock::now(); };  ///< ages ticket keys
  };

  /// Reads the files and returns their problems, warnings included. Blocks.
  static std::vector<TlsProblem> check(const ListenerTlsConfig& config);
  /// `listener`: its name, to which sessions are bound. Tickets of `predecessor` stay valid while
  /// the policy is the same. Errors name the file and the remedy.
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

  /// Certificates that have expired or are not valid yet, for the log.
  const std::vector<TlsProblem>& warnings() const { return warnings_; }
  /// Returns what it presents, in the order of the file.
  const std::vector<PresentedCertificate>& certificates() const { return certificates_; }

 private:
  friend class TlsState;
  TlsServerContext();

  std::unique_ptr<TlsContexts> contexts_;
  std::shared_ptr<TicketKeys> tickets_;
  std::vector<TlsProblem> warnings_;
  std::vector<PresentedCertificate> certificates_;
  bool http2_ = true;
};

/// The latest session of one backend, for resumption. Thread: one worker's.
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

/// The TLS policy towards a pool's backends: trusted authorities and our own certificate.
/// Immutable; shared by all workers. Thread: any.
class TlsClientContext {
 public:
  static std::vector<TlsProblem> check(const PoolTlsConfig& config);
  /// Returns `predecessor` if neither the settings nor the files changed, so that its connections
  /// stay usable. Errors name the file and the remedy.
  static Result<std::shared_ptr<const TlsClientContext>> build(
      const PoolTlsConfig& config, std::shared_ptr<const TlsClientContext> predecessor = nullptr);
  TlsClientContext(const TlsClientContext&) = delete;
  TlsClientContext& operator=(const TlsClientContext&) = delete;
  ~TlsClientContext();

  /// The name that a backend's certificate must be valid for; empty: its host.
  const std::string& server_name() const { return config_.server_name; }

 private:
  friend class TlsState;
  TlsClientContext() = default;

  ssl_ctx_st* context_ = nullptr;
  PoolTlsConfig config_;
  std::string files_;  // their contents
};

}  // namespace evenkeel
