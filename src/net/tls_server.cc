#include <openssl/core_names.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <array>
#include <cstring>
#include <ctime>
#include <map>

#include "evenkeel/base/host.h"
#include "evenkeel/net/sha256.h"
#include "net/certificate_contents.h"
#include "net/ticket_keys.h"
#include "net/tls_files.h"
#include "net/tls_state.h"

namespace evenkeel {

/// A certificate that nothing vouches for, and its key.
struct SelfSigned {
  OwnedX509 certificate;
  OwnedKey key;
};

/// A context per certificate; the first is for clients that name none of them.
struct TlsContexts {
  std::vector<OwnedContext> all;
  std::map<std::string, SSL_CTX*, std::less<>> by_name;
  std::map<std::string, SSL_CTX*, std::less<>> by_suffix;  // ".example.com" of "*.example.com"
  std::vector<PresentedCertificate> presented;
  std::shared_ptr<const SelfSigned> self_signed;  // null: those of files

  SSL_CTX* find(std::string_view name) const {
    if (const auto exact = by_name.find(name); exact != by_name.end()) return exact->second;
    const auto dot = name.find('.');
    if (dot == std::string_view::npos) return nullptr;
    const auto wild = by_suffix.find(name.substr(dot));
    return wild == by_suffix.end() ? nullptr : wild->second;
  }
};

namespace {

/// Less than 13 hours, at which the key of a ticket expires.
constexpr auto session_lifetime = std::chrono::duration_cast<std::chrono::seconds>(
    TicketKeys::lifetime - TicketKeys::rotation_interval);

/// The name in a server_name extension (RFC 6066); empty if it is malformed.
std::string_view name_in(const unsigned char* bytes, std::size_t size) {
  if (size < 5) return {};
  const std::size_t list = static_cast<std::size_t>(bytes[0]) << 8 | bytes[1];
  const std::size_t name = static_cast<std::size_t>(bytes[3]) << 8 | bytes[4];
  const bool host_name = bytes[2] == 0;
  if (!host_name || list + 2 != size || name + 5 > size || name > 255) return {};
  return {reinterpret_cast<const char*>(bytes) + 5, name};
}

/// Makes a certificate for P-256, valid for ten years: nothing verifies it, and a process must not
/// outlive it. Null if that fails.
std::shared_ptr<const SelfSigned> make_self_signed() {
  constexpr long lifetime_seconds = 10L * 365 * 24 * 3600;
  constexpr long clock_difference = 24L * 3600;
  auto made = std::make_shared<SelfSigned>();
  made->key.reset(EVP_EC_gen("P-256"));
  made->certificate.reset(X509_new());
  std::uint64_t serial = 0;
  if (made->key == nullptr || made->certificate == nullptr ||
      RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) != 1)
    return nullptr;
  X509* const certificate = made->certificate.get();
  X509_NAME* const name = X509_get_subject_name(certificate);
  const auto* const common_name = reinterpret_cast<const unsigned char*>("evenkeel");
  const bool is_made =
      X509_set_version(certificate, X509_VERSION_3) == 1 &&
      ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial) == 1 &&
      X509_gmtime_adj(X509_getm_notBefore(certificate), -clock_difference) != nullptr &&
      X509_gmtime_adj(X509_getm_notAfter(certificate), lifetime_seconds) != nullptr &&
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, common_name, -1, -1, 0) == 1 &&
      X509_set_issuer_name(certificate, name) == 1 &&
      X509_set_pubkey(certificate, made->key.get()) == 1 &&
      X509_sign(certificate, made->key.get(), EVP_sha256()) > 0;
  return is_made ? made : nullptr;
}

/// `verifiers`: the contents of the files that client certificates are verified by.
void load_verifiers(const ListenerTlsConfig& config, SSL_CTX* context, std::string& verifiers,
                    std::vector<TlsProblem>& problems) {
  if (config.client_ca.empty()) return;
  verifiers = load_ca_file(context, config.client_ca, "client_ca", problems);
  if (config.client_crl.empty()) return;
  verifiers += '\0';
  verifiers += load_crl_file(context, config.client_crl, "client_crl", problems);
}

/// Presents the predecessor's certificate, or a new one.
void use_self_signed(const ListenerTlsConfig& config, TlsContexts& contexts,
                     std::shared_ptr<const SelfSigned> kept, std::string& verifiers,
                     std::vector<TlsProblem>& problems) {
  OwnedContext context = make_context(TLS_server_method(), config.min_version);
  load_verifiers(config, context.get(), verifiers, problems);
  contexts.self_signed = kept != nullptr ? std::move(kept) : make_self_signed();
  const SelfSigned* const own = contexts.self_signed.get();
  if (own == nullptr || SSL_CTX_use_certificate(context.get(), own->certificate.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), own->key.get()) != 1) {
    problems.push_back(
        {"self_signed", "cannot make a certificate: " + openssl_error_text(), "name a file"});
  } else {
    contexts.presented.push_back(
        {.name = "evenkeel", .expires = expiry_of(own->certificate.get())});
  }
  contexts.all.push_back(std::move(context));
}

/// `kept`: the certificate that the predecessor has made; null: none. `verifiers`: see above.
void load_server(const ListenerTlsConfig& config, TlsContexts& contexts,
                 std::shared_ptr<const SelfSigned> kept, std::string& verifiers,
                 std::vector<TlsProblem>& problems) {
  if (config.self_signed)
    return use_self_signed(config, contexts, std::move(kept), verifiers, problems);
  for (std::size_t i = 0; i < config.certificates.size(); ++i) {
    const CertificateConfig& files = config.certificates[i];
    OwnedContext context = make_context(TLS_server_method(), config.min_version);
    const OwnedX509 leaf = load_certificate_and_key(
        context.get(), files.cert, files.key, "certificates[" + std::to_string(i) + "].", problems);
    std::vector<TlsProblem> found;
    load_verifiers(config, context.get(), verifiers, found);
    if (i == 0) problems.insert(problems.end(), found.begin(), found.end());
    if (leaf != nullptr) {
      const std::vector<std::string> names = server_names_of(leaf.get());
      contexts.presented.push_back(
          {.name = names.empty() ? "" : names.front(), .expires = expiry_of(leaf.get())});
      for (const std::string& name : names) {
        if (name.starts_with("*.")) {
          contexts.by_suffix.emplace(name.substr(1), context.get());
        } else {
          contexts.by_name.emplace(name, context.get());
        }
      }
    }
    contexts.all.push_back(std::move(context));
  }
}

}  // namespace

TlsServerContext::TlsServerContext() = default;
TlsServerContext::~TlsServerContext() = default;

std::vector<TlsProblem> TlsServerContext::check(const ListenerTlsConfig& config) {
  TlsContexts contexts;
  std::string verifiers;
  std::vector<TlsProblem> problems;
  load_server(config, contexts, nullptr, verifiers, problems);
  return problems;
}

Result<std::shared_ptr<const TlsServerContext>> TlsServerContext::build(
    const ListenerTlsConfig& config, const std::string& listener, Options options,
    const TlsServerContext* predecessor) {
  std::shared_ptr<TlsServerContext> server(new TlsServerContext);
  server->contexts_ = std::make_unique<TlsContexts>();
  server->http2_ = options.http2;
  server->tickets_ = predecessor != nullptr
                         ? predecessor->tickets_
                         : std::make_shared<TicketKeys>(std::move(options.clock));
  std::string verifiers;
  auto kept = predecessor == nullptr ? nullptr : predecessor->contexts_->self_signed;
  load_server(config, *server->contexts_, std::move(kept), verifiers, server->warnings_);
  if (const TlsProblem* problem = first_error(server->warnings_)) {
    return Error{.fault = Fault::internal,
                 .detail = "listener " + listener + ": tls." + problem->key + ": " +
                           problem->message + (problem->help.empty() ? "" : "; " + problem->help)};
  }

  server->certificates_ = std::move(server->contexts_->presented);
  const bool required = config.client_auth == ClientAuth::require;
  int verify = SSL_VERIFY_NONE;
  if (!config.client_ca.empty()) {
    verify = SSL_VERIFY_PEER | (required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0);
  }
  // A session vouches for a client certificate, verified by these authorities and
  // revocation lists on this listener.
  const auto policy = sha256(listener + '\0' + std::to_string(verify) + '\0' + verifiers);
  for (const OwnedContext& context : server->contexts_->all) {
    SSL_CTX* ctx = context.get();
    SSL_CTX_set_verify(ctx, verify, nullptr);
    SSL_CTX_set_session_id_context(ctx, policy.data(), policy.size());
    SSL_CTX_set_session_cache_mode(ctx,
                                   SSL_SESS_CACHE_OFF);  // tickets only: no state on the server
    SSL_CTX_set_timeout(ctx, session_lifetime.count());
    SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, &TlsState::on_ticket_key);
    SSL_CTX_set_session_ticket_cb(ctx, &TlsState::on_new_ticket, &TlsState::on_ticket,
                                  server.get());
    SSL_CTX_set_client_hello_cb(ctx, &TlsState::on_client_hello, server.get());
    SSL_CTX_set_alpn_select_cb(ctx, &TlsState::on_alpn, server.get());
  }
  return std::shared_ptr<const TlsServerContext>(std::move(server));
}

// ---- OpenSSL's callbacks during a handshake -----------------------------------------------------

std::unique_ptr<TlsState> TlsState::accepting(Watch& watch,
                                              std::shared_ptr<const TlsServerContext> server) {
  std::unique_ptr<TlsState> state(new TlsState(watch, server->contexts_->all.front().get()));
  state->server_ = std::move(server);
  SSL_set_accept_state(state->ssl_.get());
  return state;
}

/// Selects the certificate by the server name, before OpenSSL reads anything else, tickets
/// included.
int TlsState::on_client_hello(SSL* ssl, int*, void*) {
  TlsState& self = of(ssl);
  const unsigned char* extension = nullptr;
  std::size_t size = 0;
  self.info_.sni.clear();
  if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &extension, &size) == 1) {
    self.info_.sni = normal_host(name_in(extension, size));
  }
  SSL_CTX* context = self.server_->contexts_->find(self.info_.sni);
  if (context != nullptr) SSL_set_SSL_CTX(ssl, context);
  return SSL_CLIENT_HELLO_SUCCESS;
}

int TlsState::on_alpn(SSL* ssl, const unsigned char** chosen, unsigned char* chosen_size,
                      const unsigned char* offered, unsigned offered_size, void*) {
  static constexpr std::string_view http2 = "\x02h2";
  static constexpr std::string_view http1 = "\x08http/1.1";
  const std::string_view list(reinterpret_cast<const char*>(offered), offered_size);
  for (const std::string_view ours : {http2, http1}) {
    if (ours == http2 && !of(ssl).server_->http2_) continue;
    for (std::size_t at = 0; at < list.size(); at += 1 + static_cast<unsigned char>(list[at])) {
      if (!list.substr(at).starts_with(ours)) continue;
      *chosen = reinterpret_cast<const unsigned char*>(ours.data()) + 1;
      *chosen_size = static_cast<unsigned char>(ours.size() - 1);
      return SSL_TLSEXT_ERR_OK;
    }
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

int TlsState::on_ticket_key(SSL* ssl, unsigned char* name, unsigned char* iv,
                            EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac, int sealing) {
  TicketKeys& tickets = *of(ssl).server_->tickets_;
  constexpr int failed = -1;
  constexpr int unknown = 0;
  constexpr int good = 1;
  constexpr int good_but_old = 2;
  static EVP_CIPHER* const aes = EVP_CIPHER_fetch(nullptr, "AES-256-CBC", nullptr);

  const auto key_mac = [mac](TicketKeys::Key& key) {
    char digest[] = "SHA256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key.authentication.data(),
                                          key.authentication.size()),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    return EVP_MAC_CTX_set_params(mac, parameters) == 1;
  };

  if (sealing != 0) {
    auto key = tickets.current();
    if (!key || RAND_bytes(iv, EVP_CIPHER_get_iv_length(aes)) != 1) return failed;
    std::memcpy(name, key->name.data(), key->name.size());
    const bool ready =
        EVP_EncryptInit_ex2(cipher, aes, key->encryption.data(), iv, nullptr) == 1 && key_mac(*key);
    return ready ? good : failed;
  }
  auto found = tickets.find(name);
  if (!found) return unknown;
  const bool ready =
      EVP_DecryptInit_ex2(cipher, aes, found->key.encryption.data(), iv, nullptr) == 1 &&
      key_mac(found->key);
  if (!ready) return failed;
  return found->old ? good_but_old : good;
}

/// Binds a ticket to the server name that it was issued for.
int TlsState::on_new_ticket(SSL* ssl, void*) {
  const std::string& name = of(ssl).info_.sni;
  return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), name.data(), name.size());
}

SSL_TICKET_RETURN TlsState::on_ticket(SSL* ssl, SSL_SESSION* session, const unsigned char*,
                                      std::size_t, SSL_TICKET_STATUS status, void*) {
  if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW) {
    return SSL_TICKET_RETURN_IGNORE_RENEW;
  }
  void* name = nullptr;
  std::size_t size = 0;
  SSL_SESSION_get0_ticket_appdata(session, &name, &size);
  if (of(ssl).info_.sni != std::string_view(static_cast<const char*>(name), size)) {
    return SSL_TICKET_RETURN_IGNORE_RENEW;
  }
  // The client's certificate may have expired since then.
  const X509* certificate = SSL_SESSION_get0_peer(session);
  if (certificate != nullptr && X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    return SSL_TICKET_RETURN_IGNORE_RENEW;
  }
  // TLS 1.3 clients use a ticket once (RFC 8446, appendix C.4) and need another.
  const bool another = status == SSL_TICKET_SUCCESS_RENEW || SSL_version(ssl) == TLS1_3_VERSION;
  return another ? SSL_TICKET_RETURN_USE_RENEW : SSL_TICKET_RETURN_USE;
}

}  // namespace evenkeel
