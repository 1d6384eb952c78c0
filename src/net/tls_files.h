// Certificates and keys in PEM files, and what can be wrong with them.
#pragma once

#include <string>
#include <vector>

#include "evenkeel/net/tls.h"
#include "net/openssl.h"

namespace evenkeel {

/// Loads certificate, chain and key into a context; what is wrong is added to `problems`, with keys
/// that begin with `prefix` ("certificates[0]."). The certificate, where there is one.
OwnedX509 load_certificate_and_key(SSL_CTX* context, const std::string& cert,
                                   const std::string& key, const std::string& prefix,
                                   std::vector<TlsProblem>& problems);

/// Believes the authorities of a file. Their bytes, or nothing with a problem added.
std::string load_ca_file(SSL_CTX* context, const std::string& file, const std::string& key,
                         std::vector<TlsProblem>& problems);

/// The first problem that is no warning, as an Error.
const TlsProblem* first_error(const std::vector<TlsProblem>& problems);

/// What both directions have in common: versions, suites, modes.
OwnedContext make_context(const SSL_METHOD* method, TlsVersion min_version);

}  // namespace evenkeel
