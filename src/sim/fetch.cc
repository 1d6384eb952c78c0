#include "sim/fetch.h"

#include <memory>

#include "evenkeel/base/loop.h"
#include "evenkeel/net/socket.h"
#include "evenkeel/wire/link.h"

namespace evenkeel {
namespace {

constexpr std::size_t most_bytes = std::size_t{16} << 20;

using Answer = std::optional<std::string>;

Task<Answer> ask(Loop& loop, const Endpoint& endpoint, std::string_view authority,
                 std::string_view path, const LoadHeaders& headers, Duration patience) {
  auto fd = co_await dial(loop, endpoint, loop.now() + patience);
  if (!fd) co_return std::nullopt;
  const auto link = make_http1_link(std::make_unique<Socket>(loop, *fd),
                                    {.first_byte_timeout = patience, .idle_timeout = patience});
  Request request{.method = "GET", .authority = authority, .path = path};
  set_headers(headers, request);
  auto response = co_await link->send(request);
  if (!response || response->status != 200) co_return std::nullopt;
  std::string text;
  for (bool last = !response->body; !last;) {
    auto chunk = co_await response->body->read();
    if (!chunk || text.size() + chunk->bytes.size() > most_bytes) co_return std::nullopt;
    text += chunk->bytes;
    last = chunk->last;
  }
  co_return text;
}

}  // namespace

std::optional<std::string> fetch(const Endpoint& endpoint, std::string_view authority,
                                 std::string_view path, const LoadHeaders& headers,
                                 Duration patience) {
  Loop loop;
  auto asked = ask(loop, endpoint, authority, path, headers, patience);
  loop.run_until([&] { return asked.ready(); }, Clock::now() + patience);
  return asked.ready() ? asked.take() : std::nullopt;
}

}  // namespace evenkeel
