// Owners of OpenSSL's objects, and its errors as text.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace evenkeel {

template <auto free_it>
struct OpensslDeleter {
  template <class T>
  void operator()(T* object) const {
    free_it(object);
  }
};

using OwnedBio = std::unique_ptr<BIO, OpensslDeleter<BIO_free_all>>;
using OwnedContext = std::unique_ptr<SSL_CTX, OpensslDeleter<SSL_CTX_free>>;
using OwnedKey = std::unique_ptr<EVP_PKEY, OpensslDeleter<EVP_PKEY_free>>;
using OwnedSsl = std::unique_ptr<SSL, OpensslDeleter<SSL_free>>;
using OwnedCrl = std::unique_ptr<X509_CRL, OpensslDeleter<X509_CRL_free>>;
using OwnedX509 = std::unique_ptr<X509, OpensslDeleter<X509_free>>;

/// The text of OpenSSL's first error; empties this thread's error queue.
inline std::string openssl_error_text() {
  const unsigned long code = ERR_peek_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  std::string text = reason != nullptr ? reason : code != 0 ? "unknown error" : "no reason given";
  ERR_clear_error();
  return text;
}

}  // namespace evenkeel
