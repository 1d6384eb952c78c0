#include "evenkeel/admin/admin_tls.h"

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>
#include <utility>

namespace evenkeel {
namespace {

using Context = boost::asio::ssl::context;
using ErrorCode = boost::system::error_code;

Error unusable(const std::string& file, const std::string& why) {
  return {.fault = Fault::tls_failed, .side = Side::proxy, .detail = "'" + file + "': " + why};
}

/// A daemon cannot prompt for a pass phrase.
int no_pass_phrase(char*, int, int, void* wanted) {
  *static_cast<bool*>(wanted) = true;
  return -1;
}

Result<Done> use_certificate(Context& context, const CertificateConfig& certificate) {
  ErrorCode error;
  bool is_protected = false;
  SSL_CTX* const native = context.native_handle();
  SSL_CTX_set_default_passwd_cb(native, &no_pass_phrase);
  SSL_CTX_set_default_passwd_cb_userdata(native, &is_protected);
  context.use_certificate_chain_file(certificate.cert, error);
  const bool has_certificate = !error;
  if (has_certificate) context.use_private_key_file(certificate.key, Context::pem, error);
  SSL_CTX_set_default_passwd_cb_userdata(native, nullptr);  // Asio would delete it
  if (is_protected) {
    return unusable(certificate.key,
                    "the key is protected by a pass phrase; remove it with openssl pkey -in FILE "
                    "-out key.pem");
  }
  if (error) return unusable(has_certificate ? certificate.key : certificate.cert, error.message());
  return Done{};
}

Result<Done> use_revocation_lists(Context& context, const std::string& file) {
  X509_STORE* const store = SSL_CTX_get_cert_store(context.native_handle());
  X509_LOOKUP* const reader = X509_STORE_add_lookup(store, X509_LOOKUP_file());
  if (reader == nullptr || X509_load_crl_file(reader, file.c_str(), X509_FILETYPE_PEM) < 1) {
    ERR_clear_error();
    return unusable(file, "it cannot be read, or holds no revocation list in PEM form");
  }
  X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  return Done{};
}

}  // namespace

Result<AdminTls> load_admin_tls(const AdminConfig& admin) {
  if (!admin.tls) return AdminTls();
  const ListenerTlsConfig& config = *admin.tls;
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

  for (auto certificate = config.certificates.rbegin(); certificate != config.certificates.rend();
       ++certificate) {  // OpenSSL keeps the last one of each type of key
    auto used = use_certificate(*context, *certificate);
    if (!used) return std::move(used.error());
  }
  if (!config.client_ca.empty()) {
    ErrorCode error;
    context->load_verify_file(config.client_ca, error);
    if (error) return unusable(config.client_ca, error.message());
    if (!config.client_crl.empty()) {
      auto used = use_revocation_lists(*context, config.client_crl);
      if (!used) return std::move(used.error());
    }
    namespace ssl = boost::asio::ssl;
    const bool required = config.client_auth == ClientAuth::require;
    context->set_verify_mode(ssl::verify_peer | (required ? ssl::verify_fail_if_no_peer_cert : 0));
  }
  return AdminTls(std::move(context));
}

}  // namespace evenkeel
