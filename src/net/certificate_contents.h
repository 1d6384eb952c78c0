// What certificates say.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "evenkeel/base/certificate_names.h"
#include "net/openssl.h"

namespace evenkeel {

/// When the certificate ends to be valid; 1970 if it has no readable date.
std::chrono::sys_seconds expiry_of(const X509* certificate);

/// The DNS names of a server's certificate in lower case, or its common name if it has none.
std::vector<std::string> server_names_of(const X509* certificate);

/// The names by which a client's certificate may be known. One that is no text, or could be taken
/// for one of the other kind, is left out.
CertificateNames client_names_of(const X509* certificate);

}  // namespace evenkeel
