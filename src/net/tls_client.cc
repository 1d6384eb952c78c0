
#include <string>
#include <variant>

#include "evenkeel/base/file.h"
#include "evenkeel/net/tls_errors.h"
#include "net/tls_files.h"
#include "net/tls_state.h"

namespace evenkeel {
namespace {

constexpr std::size_t largest_file = 1024 * 1024;

OwnedContext load_client(const PoolTlsConfig& config, std::vector<TlsProblem>& problems) {
  OwnedContext context = make_context(TLS_client_method(), TlsVersion::tls1_2);
  if (!config.cert.empty()) {
    load_certificate_and_key(context.get(), config.cert, config.key, "", problems);
  }
  if (!config.ca.empty()) {
    load_ca_file(context.get(), config.ca, "ca", problems);
  } else if (config.verify && SSL_CTX_set_default_verify_paths(context.get()) != 1) {
    problems.push_back({"ca", "the system's certificate authorities cannot be read",
                        "install ca-certificates, or give a file in 'ca'"});
  }
  ERR_clear_error();
  return context;
}

}  // namespace

TlsOutcome client_handshake_outcome(unsigned long code) {
  if (ERR_GET_LIB(code) != ERR_LIB_SSL) return TlsOutcome::error;
  switch (ERR_GET_REASON(code)) {
    case SSL_R_WRONG_VERSION_NUMBER: return TlsOutcome::not_tls;
    case SSL_R_CERTIFICATE_VERIFY_FAILED: return TlsOutcome::certificate;
    default: return TlsOutcome::error;
  }
}

std::vector<TlsProblem> TlsClientContext::check(const PoolTlsConfig& config) {
  std::vector<TlsProblem> problems;
  load_client(config, problems);
  return problems;
}

Result<std::shared_ptr<const TlsClientContext>> TlsClientContext::build(
    const PoolTlsConfig& config, std::shared_ptr<const TlsClientContext> predecessor) {
  std::string files;
  for (const std::string& path : {config.ca, config.cert, config.key}) {
    // Loading reports files that cannot be read.
    const auto read = read_file(path, largest_file);
    if (const auto* text = std::get_if<std::string>(&read)) files += *text;
    files += '\0';
  }
  if (predecessor != nullptr && predecessor->config_ == config && predecessor->files_ == files) {
    return predecessor;
  }
  std::vector<TlsProblem> problems;
  OwnedContext context = load_client(config, problems);
  if (const TlsProblem* problem = first_error(problems)) {
    return Error{.fault = Fault::internal,
                 .detail = "tls." + problem->key + ": " + problem->message +
                           (problem->help.empty() ? "" : "; " + problem->help)};
  }
  SSL_CTX_set_verify(context.get(), config.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context.get(), &TlsState::on_new_session);
  std::shared_ptr<TlsClientContext> client(new TlsClientContext);
  client->context_ = context.release();
  client->config_ = config;
  client->files_ = std::move(files);
  return std::shared_ptr<const TlsClientContext>(std::move(client));
}

TlsClientContext::~TlsClientContext() { SSL_CTX_free(context_); }

TlsSessionCache::~TlsSessionCache() { SSL_SESSION_free(latest_); }

std::unique_ptr<TlsState> TlsState::connecting(Watch& watch,
                                               std::shared_ptr<const TlsClientContext> client,
                                               const std::string& server_name, AlpnOffer offer,
                                               std::shared_ptr<TlsSessionCache> sessions) {
  std::unique_ptr<TlsState> state(new TlsState(watch, client->context_));
  SSL* ssl = state->ssl_.get();
  const bool is_address = parse_ip(server_name).has_value();
  if (!is_address) SSL_set_tlsext_host_name(ssl, server_name.c_str());
  if (client->config_.verify) {
    X509_VERIFY_PARAM* wanted = SSL_get0_param(ssl);
    if (is_address) {
      X509_VERIFY_PARAM_set1_ip_asc(wanted, server_name.c_str());
    } else {
      X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
      X509_VERIFY_PARAM_set1_host(wanted, server_name.data(), server_name.size());
    }
  }
  constexpr std::string_view both = "\x02h2\x08http/1.1";
  const std::string_view offered = offer == AlpnOffer::http1   ? both.substr(3)
                                   : offer == AlpnOffer::http2 ? both.substr(0, 3)
                                                               : both;
  SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(offered.data()),
                      static_cast<unsigned>(offered.size()));
  if (sessions != nullptr && sessions->latest_ != nullptr) {
    SSL_set_session(ssl, sessions->latest_);
  }
  state->expected_name_ = server_name;
  state->client_ = std::move(client);
  state->sessions_ = std::move(sessions);
  SSL_set_connect_state(ssl);
  return state;
}

/// Keeps the backend's latest session for the next connection.
int TlsState::on_new_session(SSL* ssl, SSL_SESSION* session) {
  TlsSessionCache* sessions = of(ssl).sessions_.get();
  if (sessions == nullptr) return 0;
  SSL_SESSION_free(sessions->latest_);
  sessions->latest_ = session;
  return 1;  // we own it now
}

}  // namespace evenkeel
