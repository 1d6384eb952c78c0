#include "admin/url_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "evenkeel/net/resolver.h"

namespace evenkeel {

UrlClient::UrlClient(Options options)
    : options_(std::move(options)), client_(options_.max_answer_bytes) {
  const std::string& url = options_.url;
  const std::size_t path_at = std::min(url.find('/', url.find("://") + 3), url.size());
  path_ = path_at < url.size() ? url.substr(path_at) : "/";
  const auto address = parse_backend_address(std::string_view(url).substr(0, path_at), problem_);
  address_ = address.value_or(Address());
  fields_ =
      fmt::format("host: {}\r\nuser-agent: evenkeel/{}\r\n", to_string(address_), options_.version);
}

Result<HttpAnswer> UrlClient::get(std::string_view fields, Duration timeout) {
  return send(fmt::format("GET {} HTTP/1.1\r\n{}{}\r\n", path_, fields_, fields), timeout);
}

Result<HttpAnswer> UrlClient::post(std::string_view fields, std::string_view body,
                                   Duration timeout) {
  return send(fmt::format("POST {} HTTP/1.1\r\n{}{}content-length: {}\r\n\r\n{}", path_, fields_,
                          fields, body.size(), body),
              timeout);
}

/// The server closes a connection that has been idle for long: then it gets the request again.
Result<HttpAnswer> UrlClient::send(const std::string& request, Duration timeout) {
  const bool reused = client_.is_connected();
  auto answer = send_once(request, timeout);
  if (!answer && reused && answer.error().fault == Fault::backend_closed)
    return send_once(request, timeout);
  return answer;
}

Result<HttpAnswer> UrlClient::send_once(const std::string& request, Duration timeout) {
  if (!client_.is_connected()) {
    auto prepared = prepare();
    if (!prepared) return std::move(prepared.error());
  }
  return client_.send(request, timeout);
}

Result<Done> UrlClient::prepare() {
  if (!problem_.empty()) return Error{.fault = Fault::internal, .detail = problem_};
  HttpServer& server = client_.server();
  auto endpoints = resolve(address_.host, address_.port);
  if (!endpoints) return std::move(endpoints.error());
  server.endpoints = std::move(*endpoints);
  server.host = address_.host;
  if (!address_.secure) return Done{};
  auto context = verifying_tls_context(options_.ca);
  if (!context) return std::move(context.error());
  server.tls = std::move(*context);
  return Done{};
}

std::string without_query(const std::string& url) { return url.substr(0, url.find('?')); }

Duration retry_after_of(const HttpAnswer& answer, Duration limit) {
  if (!answer.retry_after) return {};
  unsigned seconds = 0;
  const std::string& text = *answer.retry_after;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (parsed.ec != std::errc()) return {};
  return std::min<Duration>(std::chrono::seconds(seconds), limit);
}

}  // namespace evenkeel
