// TLS of the admin listener.
#pragma once

#include "admin/stream.h"
#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

/// Reads the files; blocks. Errors name the file. Of several certificates with keys of the same
/// type the first one counts.
Result<AdminStream::TlsContext> make_tls_context(const ListenerTlsConfig& config);

}  // namespace evenkeel
