// A client of the server that a URL names.
#pragma once

#include <memory>
#include <string>

#include "evenkeel/base/loop.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/monitor_spec.h"

namespace evenkeel {

/// Connects to the server of a URL, wherever its name leads and whatever its authorities are at the
/// time. Thread: the loop's. Outlives its tasks.
class SourceServer {
 public:
  /// `ca`: file with the authorities; empty: the system's. `url` is one that a file may have.
  SourceServer(Loop& loop, NameResolver resolve, std::string url, std::string ca,
               const LinkOptions& options);

  /// The client for the next request: the last one, while address and authorities are the same.
  Task<Result<std::shared_ptr<BackendClient>>> connect();
  /// The access of the last client. REQUIRES: there was one.
  const ServerAccess& access() const { return access_; }

  const std::string& url() const { return url_; }
  /// What comes after the host in the URL; at least "/".
  const std::string& path() const { return path_; }

 private:
  Loop& loop_;
  NameResolver resolve_;
  std::string url_;
  std::string origin_;  // the URL without its path
  std::string path_;
  std::string ca_;
  ServerAccess access_;
  std::shared_ptr<BackendClient> client_;  // with `access_`; null: none yet
};

}  // namespace evenkeel
