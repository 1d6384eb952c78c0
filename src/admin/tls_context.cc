#include "admin/tls_context.h"

#include <memory>
#include <string>
#include <utility>

namespace evenkeel {
namespace {

using Context = asio::ssl::context;

Error unusable(const std::string& file, const ErrorCode& error) {
  return {.fault = Fault::tls_failed,
          .side = Side::proxy,
          .detail = "admin.tls: " + file + ": " + error.message()};
}

}  // namespace

Result<AdminStream::TlsContext> make_tls_context(const ListenerTlsConfig& config) {
  auto context = std::make_shared<Context>(Context::tls_server);
  Context::options options = Context::default_workarounds | Context::no_sslv2 | Context::no_sslv3 |
                             Context::no_tlsv1 | Context::no_tlsv1_1 | Context::no_compression;
  if (config.min_version == TlsVersion::tls1_3) options |= Context::no_tlsv1_2;
  context->set_options(options);
  // Connections are few: without resumption, a client's certificate is verified each time.
  SSL_CTX_set_session_cache_mode(context->native_handle(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context->native_handle(), 0);
  constexpr unsigned char session_id_context[] = "evenkeel admin";
  SSL_CTX_set_session_id_context(context->native_handle(), session_id_context,
                                 sizeof session_id_context - 1);

  ErrorCode error;
  for (auto certificate = config.certificates.rbegin(); certificate != config.certificates.rend();
       ++certificate) {  // OpenSSL keeps the last one of each type of key
    context->use_certificate_chain_file(certificate->cert, error);
    if (error) return unusable(certificate->cert, error);
    context->use_private_key_file(certificate->key, Context::pem, error);
    if (error) return unusable(certificate->key, error);
  }
  if (!config.client_ca.empty()) {
    context->load_verify_file(config.client_ca, error);
    if (error) return unusable(config.client_ca, error);
    const bool required = config.client_auth == ClientAuth::require;
    context->set_verify_mode(asio::ssl::verify_peer |
                             (required ? asio::ssl::verify_fail_if_no_peer_cert : 0));
  }
  return AdminStream::TlsContext(std::move(context));
}

}  // namespace evenkeel
