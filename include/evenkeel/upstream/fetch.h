// One GET and its whole answer: for what we want to know of a server, not for traffic.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/net/endpoint.h"

namespace evenkeel {

/// What is asked of whom.
struct FetchRequest {
  std::vector<Endpoint> addresses;  ///< of the server, tried in order
  std::string authority;            ///< "host:port"
  std::string path;
  std::vector<std::pair<std::string, std::string>> fields = {};  ///< `host` replaces the authority
  std::size_t max_bytes = std::size_t{1} << 20;  ///< of the body; the rest is not read
};

struct Fetched {
  int status = 0;
  std::string server;  ///< its `Server` field
  std::string body;
  bool complete = true;  ///< the body is; else it was longer than max_bytes
};

/// Asks over a connection of its own, which ends with the answer. Errors: those of dialling and of
/// a link, and first_byte_timeout when the answer is not here, to its last byte, by the deadline.
Task<Result<Fetched>> fetch(Loop& loop, FetchRequest request, Instant deadline);

/// The same for who has no loop. Blocks.
Result<Fetched> fetch_blocking(FetchRequest request, Duration timeout);

}  // namespace evenkeel
