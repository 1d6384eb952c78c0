// TLS of the admin listener.
#pragma once

#include <memory>

#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"

namespace boost::asio::ssl {
class context;  // Boost's headers stay inside this room
}

namespace evenkeel {

/// Certificates and keys in use; null: the listener does not speak TLS.
using AdminTls = std::shared_ptr<boost::asio::ssl::context>;

/// Reads the files; blocks. Errors name the file. Of several certificates with keys of the same
/// type the first one counts. Thread: any.
Result<AdminTls> load_admin_tls(const AdminConfig& config);

}  // namespace evenkeel
