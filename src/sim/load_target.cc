#include "load_target.h"

#include <utility>

#include "evenkeel/base/loop.h"
#include "evenkeel/config/address.h"
#include "evenkeel/wire/link.h"
#include "load_answer.h"

namespace evenkeel {
namespace {

constexpr Duration patience = std::chrono::seconds(10);
constexpr std::size_t longest_list = 1 << 20;

Error unusable(std::string_view url, std::string_view why) {
  return Error{.fault = Fault::bad_request,
               .side = Side::us,
               .detail = "'" + std::string(url) + "': " + std::string(why)};
}

bool drop_suffix(std::string& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.resize(text.size() - suffix.size());
  return true;
}

Task<void> ask_for_models(Loop& loop, const LoadTarget& target, const LoadHeaders& headers,
                          std::string& list) {
  for (const Endpoint& endpoint : target.endpoints) {
    auto fd = co_await dial(loop, endpoint, loop.now() + patience);
    if (!fd) continue;
    auto link = make_http1_link(std::make_unique<Socket>(loop, *fd),
                                {.first_byte_timeout = patience, .idle_timeout = patience});
    Request request{.method = "GET", .authority = target.authority, .path = target.models_path};
    set_headers(headers, request);
    auto response = co_await link->send(request);
    if (!response || response->status != 200 || !response->body) co_return;
    for (bool last = false; !last && list.size() < longest_list;) {
      auto chunk = co_await response->body->read();
      if (!chunk) co_return;
      list += chunk->bytes;
      last = chunk->last;
    }
    co_return;
  }
}

}  // namespace

Result<LoadTarget> find_target(std::string_view url) {
  constexpr std::string_view scheme = "http://";
  if (url.starts_with("https://")) return unusable(url, "only http:// is spoken here");
  std::string_view rest = url;
  if (rest.starts_with(scheme)) rest.remove_prefix(scheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string host_and_port(rest.substr(0, slash));
  std::string base(rest.substr(slash));
  if (base.find_first_of("?# ") != std::string::npos) return unusable(url, "expected no query");

  std::string why;
  const auto address = parse_backend_address(std::string(scheme) + host_and_port, why);
  if (!address) return unusable(url, why);
  auto endpoints = resolve(address->host, address->port);
  if (!endpoints) return unusable(url, endpoints.error().detail);

  while (drop_suffix(base, "/")) {
  }
  drop_suffix(base, "/chat/completions");
  drop_suffix(base, "/v1");
  return LoadTarget{.authority = host_and_port,
                    .completions_path = base + "/v1/chat/completions",
                    .models_path = base + "/v1/models",
                    .endpoints = std::move(*endpoints)};
}

void set_headers(const LoadHeaders& headers, Request& request) {
  for (const auto& header : headers) request.fields.remove(header.first);
  for (const auto& [name, value] : headers) {
    const FieldId id = field_id(name);
    if (id == FieldId::host) {
      request.authority = value;
      continue;
    }
    request.fields.add(name, value, id);
  }
}

std::string find_model(const LoadTarget& target, const LoadHeaders& headers) {
  Loop loop;
  std::string list;
  const Task<void> asked = ask_for_models(loop, target, headers, list);
  loop.run_until([&] { return asked.ready(); }, Clock::now() + patience);
  return asked.ready() ? first_model_of(list) : std::string();
}

}  // namespace evenkeel
