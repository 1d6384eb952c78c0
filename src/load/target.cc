#include "evenkeel/load/target.h"

#include <utility>

#include "evenkeel/config/address.h"
#include "evenkeel/load/response_parser.h"
#include "evenkeel/upstream/backend_client.h"

namespace evenkeel {
namespace {

constexpr Duration model_list_timeout = std::chrono::seconds(5);
constexpr std::size_t max_model_list_bytes = std::size_t{16} << 20;

Error invalid(std::string_view url, std::string_view why) {
  return Error{.fault = Fault::bad_request,
               .side = Side::proxy,
               .detail = "'" + std::string(url) + "': " + std::string(why)};
}

bool drop_suffix(std::string& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.resize(text.size() - suffix.size());
  return true;
}

}  // namespace

Result<LoadTarget> resolve_target(std::string_view url) {
  constexpr std::string_view scheme = "http://";
  if (url.starts_with("https://"))
    return invalid(url, "expected http://; https:// is not supported");
  std::string_view rest = url;
  if (rest.starts_with(scheme)) rest.remove_prefix(scheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const std::string host_and_port(rest.substr(0, slash));
  std::string base(rest.substr(slash));
  if (base.find_first_of("?# ") != std::string::npos) return invalid(url, "expected no query");

  std::string why;
  const auto address = parse_backend_address(std::string(scheme) + host_and_port, why);
  if (!address) return invalid(url, why);
  auto endpoints = resolve(address->host, address->port);
  if (!endpoints) return invalid(url, endpoints.error().detail);

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

std::string discover_model(const LoadTarget& target, const LoadHeaders& headers) {
  FetchRequest request{.authority = target.authority,
                       .path = target.models_path,
                       .fields = headers,
                       .max_bytes = max_model_list_bytes};
  for (const Endpoint& endpoint : target.endpoints) {
    request.addresses = {endpoint};
    const auto list = fetch_blocking(request, model_list_timeout);
    if (list && list->status == 200 && list->complete) return parse_first_model(list->body);
  }
  return {};
}

}  // namespace evenkeel
