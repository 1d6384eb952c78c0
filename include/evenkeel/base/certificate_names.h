// The names in a client's certificate.
#pragma once

#include <string>
#include <vector>

namespace evenkeel {

/// What a certificate that was verified says of its holder, and until when.
struct CertificateNames {
  /// The subject alternative names, in the certificate's order: URIs, such as SPIFFE IDs, as they
  /// are, and names of DNS in lower case. Only URIs have a colon.
  std::vector<std::string> names;
  double expires = 0;  ///< seconds since 1970
};

}  // namespace evenkeel
