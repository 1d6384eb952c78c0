#pragma once

#include <string>

namespace evenkeel {

// One thing that is wrong with the certificate files that a part of the configuration names.
struct TlsProblem {
  std::string key;       // below `tls`: "certificates[0].cert", "ca"
  std::string message;   // names the file
  std::string help;      // the cure; may be empty
  bool warning = false;  // usable, but some peers will reject it
};

}  // namespace evenkeel
