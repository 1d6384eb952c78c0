// Certificates and keys in PEM files, and their problems.
#pragma once

#include <string>
#include <vector>

#include "evenkeel/net/tls.h"
#include "net/openssl.h"

namespace evenkeel {

/// Loads certificate, chain and key into a context. Adds problems to `problems`, whose keys begin
/// with `prefix` ("certificates[0]."). Returns the certificate, or null.
OwnedX509 load_certificate_and_key(SSL_CTX* context, const std::string& cert,
                                   const std::string& key, const std::string& prefix,
                                   std::vector<TlsProblem>& problems);

/// Trusts the authorities of a file. Returns the file's bytes, or nothing after adding a problem.
std::string load_ca_file(SSL_CTX* context, const std::string& file, const std::string& key,
                         std::vector<TlsProblem>& problems);

/// Refuses certificates that the revocation lists of a file name, and those of authorities of which
/// it has no current list. Returns the file's bytes, or nothing after adding a problem; a list that
/// is out of date is a warning.
std::string load_crl_file(SSL_CTX* context, const std::string& file, const std::string& key,
                          std::vector<TlsProblem>& problems);

/// The first problem that is not a warning, as an Error.
const TlsProblem* first_error(const std::vector<TlsProblem>& problems);

/// Settings for both directions: versions, cipher suites, modes.
OwnedContext make_context(const SSL_METHOD* method, TlsVersion min_version);

}  // namespace evenkeel
