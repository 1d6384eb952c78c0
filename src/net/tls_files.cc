#include "net/tls_files.h"

#include <openssl/pem.h>
#include <openssl/sslerr.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <variant>

#include "evenkeel/base/file.h"
#include "evenkeel/base/out_of_memory.h"
#include "net/tls_state.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_file_size = 1024 * 1024;

std::optional<std::string> read_pem(const std::string& path, const std::string& key,
                                    const char* what, std::vector<TlsProblem>& problems) {
  const auto fail = [&](const char* why, std::string help) {
    problems.push_back(
        {key, std::string("cannot read the ") + what + " file '" + path + "': " + why, help});
    return std::nullopt;
  };
  auto read = read_file(path, max_file_size);
  if (auto* text = std::get_if<std::string>(&read)) return std::move(*text);
  const FileError& failure = std::get<FileError>(read);
  std::string help;
  if (failure.number == ENOENT) {
    help = path.starts_with('/')
               ? "check the path"
               : "check the path; it is relative to the directory evenkeel was started in";
  } else if (failure.number == EACCES) {
    help = "make it readable for the user that runs evenkeel";
  }
  return fail(failure.why.c_str(), help);
}

OwnedBio bio_of(const std::string& text) {
  return OwnedBio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string text_of(const ASN1_TIME* time) {
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(bio.get(), time);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &bytes);
  return size > 0 ? std::string(bytes, static_cast<std::size_t>(size)) : "an unreadable date";
}

void check_dates(const X509* certificate, const std::string& file, const std::string& key,
                 std::vector<TlsProblem>& problems) {
  const ASN1_TIME* end = X509_get0_notAfter(certificate);
  const ASN1_TIME* begin = X509_get0_notBefore(certificate);
  if (X509_cmp_current_time(end) < 0) {
    problems.push_back({key, "the certificate in '" + file + "' expired on " + text_of(end),
                        "renew it: clients refuse it", true});
  } else if (X509_cmp_current_time(begin) > 0) {
    problems.push_back({key,
                        "the certificate in '" + file + "' is not valid before " + text_of(begin),
                        "clients refuse it until then; check the clock", true});
  }
}

/// A daemon cannot prompt for a pass phrase.
int no_pass_phrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

OwnedKey load_key(const std::string& file, const std::string& key,
                  std::vector<TlsProblem>& problems) {
  const auto text = read_pem(file, key, "key", problems);
  if (!text) return nullptr;
  bool asked = false;
  OwnedKey loaded(PEM_read_bio_PrivateKey(bio_of(*text).get(), nullptr, &no_pass_phrase, &asked));
  ERR_clear_error();
  if (loaded != nullptr) return loaded;
  if (asked) {
    problems.push_back({key, "the key in '" + file + "' is protected by a pass phrase",
                        "remove it: openssl pkey -in '" + file + "' -out key.pem"});
  } else {
    problems.push_back({key, "'" + file + "' holds no private key in PEM form",
                        "it needs a line -----BEGIN PRIVATE KEY-----"});
  }
  return nullptr;
}

}  // namespace

OwnedX509 load_certificate_and_key(SSL_CTX* context, const std::string& cert,
                                   const std::string& key, const std::string& prefix,
                                   std::vector<TlsProblem>& problems) {
  OwnedX509 leaf;
  const std::string cert_key = prefix + "cert";
  const std::string key_key = prefix + "key";
  if (const auto text = read_pem(cert, cert_key, "certificate", problems)) {
    const OwnedBio bio = bio_of(*text);
    leaf.reset(PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr));
    if (leaf == nullptr) {
      problems.push_back({cert_key, "'" + cert + "' holds no certificate in PEM form",
                          "it needs a line -----BEGIN CERTIFICATE-----"});
    } else if (SSL_CTX_use_certificate(context, leaf.get()) != 1) {
      problems.push_back(
          {cert_key, "the certificate in '" + cert + "' cannot be used: " + openssl_error_text(),
           "use a key of at least 2048 bits (RSA) or on P-256"});
      leaf.reset();
    } else {
      SSL_CTX_clear_chain_certs(context);
      while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
        if (SSL_CTX_add0_chain_cert(context, next) != 1) X509_free(next);
      }
      check_dates(leaf.get(), cert, cert_key, problems);
    }
    ERR_clear_error();
  }
  const OwnedKey loaded = load_key(key, key_key, problems);
  if (leaf == nullptr || loaded == nullptr) return leaf;
  if (X509_check_private_key(leaf.get(), loaded.get()) != 1) {
    problems.push_back(
        {key_key, "the key in '" + key + "' does not belong to the certificate in '" + cert + "'",
         "use the key that the certificate was made with"});
  } else if (SSL_CTX_use_PrivateKey(context, loaded.get()) != 1) {
    problems.push_back(
        {key_key, "the key in '" + key + "' cannot be used: " + openssl_error_text(), {}});
  }
  ERR_clear_error();
  return leaf;
}

std::string load_ca_file(SSL_CTX* context, const std::string& file, const std::string& key,
                         std::vector<TlsProblem>& problems) {
  auto text = read_pem(file, key, "CA", problems);
  if (!text) return {};
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  const OwnedBio bio = bio_of(*text);
  int count = 0;
  while (OwnedX509 authority{PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr)}) {
    if (X509_STORE_add_cert(store, authority.get()) == 1) ++count;
    SSL_CTX_add_client_CA(context, authority.get());
  }
  ERR_clear_error();
  if (count > 0) return std::move(*text);
  problems.push_back({key, "'" + file + "' holds no certificate in PEM form",
                      "it must contain the certificates of the trusted authorities"});
  return {};
}

std::string load_crl_file(SSL_CTX* context, const std::string& file, const std::string& key,
                          std::vector<TlsProblem>& problems) {
  auto text = read_pem(file, key, "revocation list", problems);
  if (!text) return {};
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  const OwnedBio bio = bio_of(*text);
  int count = 0;
  bool all_added = true;
  ERR_clear_error();
  while (OwnedCrl list{PEM_read_bio_X509_CRL(bio.get(), nullptr, nullptr, nullptr)}) {
    all_added = X509_STORE_add_crl(store, list.get()) == 1 && all_added;
    ++count;
    const ASN1_TIME* next = X509_CRL_get0_nextUpdate(list.get());
    if (next != nullptr && X509_cmp_current_time(next) < 0) {
      problems.push_back({key,
                          "a revocation list in '" + file + "' is out of date since " +
                              text_of(next) + ": all certificates of its authority are refused",
                          "replace it with the authority's current list, then reload", true});
    }
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  if (count > 0 && at_end && all_added) return std::move(*text);
  if (count == 0 && at_end) {
    problems.push_back({key, "'" + file + "' holds no revocation list in PEM form",
                        "it needs a line -----BEGIN X509 CRL-----"});
  } else {
    problems.push_back({key,
                        "revocation list " + std::to_string(at_end ? count : count + 1) + " in '" +
                            file + "' cannot be read",
                        "replace the file; it may have been cut"});
  }
  return {};
}

const TlsProblem* first_error(const std::vector<TlsProblem>& problems) {
  const auto found = std::find_if(problems.begin(), problems.end(),
                                  [](const auto& each) { return !each.warning; });
  return found == problems.end() ? nullptr : &*found;
}

OwnedContext make_context(const SSL_METHOD* method, TlsVersion min_version) {
  OwnedContext context(SSL_CTX_new(method));
  if (context == nullptr) out_of_memory();
  SSL_CTX* ctx = context.get();
  SSL_CTX_set_min_proto_version(
      ctx, min_version == TlsVersion::tls1_3 ? TLS1_3_VERSION : TLS1_2_VERSION);
  // ECDHE with AEAD only: none of the suites that RFC 9113, appendix A forbids.
  SSL_CTX_set_cipher_list(ctx,
                          "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
                          "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
                          "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305");
  SSL_CTX_set_ciphersuites(
      ctx, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
  SSL_CTX_set1_groups_list(ctx, "X25519:P-256:P-384");
  SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                               SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_mode(
      ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_msg_callback(ctx, &TlsState::on_message);
  SSL_CTX_set_read_ahead(ctx, 1);  // one read per record, not two
  return context;
}

}  // namespace evenkeel
