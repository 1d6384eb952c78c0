#include "epp/http_heads.h"

#include <algorithm>
#include <array>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/base/host.h"
#include "evenkeel/base/priority.h"

namespace evenkeel {
namespace {

std::string_view value_of(const ext_proc::HeaderValue& header) {
  return header.raw_value().empty() ? header.value() : header.raw_value();
}

/// True for what the fields of a Request or a Response do not have: what frames a message and what
/// concerns one connection.
bool is_of_connection(std::string_view name) {
  constexpr std::array<std::string_view, 11> names = {
      "connection", "content-length", "expect",
      "host",       "keep-alive",     "proxy-connection",
      "te",         "trailer",        "transfer-encoding",
      "upgrade",    "http2-settings"};
  return name.starts_with(':') || std::ranges::find(names, name) != names.end();
}

/// True for the fields that the data plane itself sets and removes.
bool is_of_data_plane(std::string_view name) {
  constexpr std::array<std::string_view, 4> names = {"forwarded", "grpc-timeout", "via",
                                                     "x-real-ip"};
  return is_of_connection(name) || name.starts_with("x-forwarded-") ||
         name.starts_with("x-envoy-") || name.starts_with(endpoint_field) ||
         std::ranges::find(names, name) != names.end();
}

/// True for the fields in which only a picker names hosts to servers: clients must not.
bool is_of_picker(std::string_view name) {
  constexpr std::array<std::string_view, 3> names = {
      "x-encoder-hosts-ports", "x-kv-cache-source-host-port", "x-prefiller-host-port"};
  return name.starts_with(endpoint_field) || std::ranges::find(names, name) != names.end();
}

/// True for the fields by which gateways tell pickers and servers what to do.
bool is_of_gateway(std::string_view name) {
  return name.starts_with("x-llm-d-") || name.starts_with("x-gateway-") ||
         name == "x-data-parallel-rank";
}

bool is_valid(std::string_view name, std::string_view value) {
  return !name.empty() && std::ranges::all_of(name, is_token_char) &&
         value.find_first_of(std::string_view("\r\n\0", 3)) == value.npos;
}

Error bad_head(const char* detail) {
  return {.fault = Fault::bad_request, .side = Side::client, .detail = detail};
}

/// Sets a part of a head that has a name of its own; false: it is a field.
bool read_pseudo_header(std::string_view name, std::string_view value, Request& request) {
  if (name == ":method") {
    request.method = value;
  } else if (name == ":path") {
    request.path = value;
  } else if (name == ":scheme") {
    request.scheme = value;
  } else if (name == ":authority" || (name == "host" && request.authority.empty())) {
    request.authority = value;
  } else if (name == "te") {
    request.wants_trailers = equals_ignore_case(value, "trailers");
  } else {
    return false;
  }
  return true;
}

/// What the next header with that name has, from `at` on, which moves behind it.
const ext_proc::HeaderValue* next_of(const ext_proc::HeaderMap& head, std::string_view name,
                                     int& at) {
  while (at < head.headers_size()) {
    const ext_proc::HeaderValue& header = head.headers(at++);
    if (header.key() == name) return &header;
  }
  return nullptr;
}

/// True if the fields of that name are those of the head, in its order.
bool are_same(const ext_proc::HeaderMap& head, const Fields& fields, std::string_view name) {
  int at = 0;
  for (const Field& field : fields) {
    if (!equals_ignore_case(field.name(), name)) continue;
    const ext_proc::HeaderValue* const header = next_of(head, name, at);
    if (header == nullptr || value_of(*header) != field.value()) return false;
  }
  return next_of(head, name, at) == nullptr;
}

void add_header(ext_proc::HeaderMutation& changes, std::string_view name, std::string_view value,
                ext_proc::HeaderValueOption::HeaderAppendAction action) {
  ext_proc::HeaderValueOption& option = *changes.add_set_headers();
  option.mutable_header()->set_key(std::string(name));
  option.mutable_header()->set_raw_value(std::string(value));
  option.set_append_action(action);
}

bool concerns_body(std::string_view name) { return !name.starts_with("x-"); }

struct Alias {
  std::string_view name;
  std::string_view meaning;
};

/// The targets and priorities of llm-d, and those names of old.
constexpr std::array<Alias, 6> aliases = {{{"x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"},
                                           {"x-gateway-slo-ttft-ms", "x-slo-ttft-ms"},
                                           {"x-llm-d-slo-tpot-ms", "x-slo-tpot-ms"},
                                           {"x-gateway-slo-tpot-ms", "x-slo-tpot-ms"},
                                           {"x-llm-d-inference-objective", "x-priority"},
                                           {"x-gateway-inference-objective", "x-priority"}}};

void add_text(const ext_proc::Value& value, std::string& text) {
  if (value.kind_case() != ext_proc::Value::kStringValue) return;
  if (!text.empty()) text += ',';
  text += value.string_value();
}

}  // namespace

std::optional<std::string_view> find_header(const ext_proc::HeaderMap& head,
                                            std::string_view name) {
  int at = 0;
  const ext_proc::HeaderValue* const header = next_of(head, name, at);
  return header == nullptr ? std::nullopt : std::optional(value_of(*header));
}

std::optional<std::uint64_t> content_length_of(const ext_proc::HeaderMap& head) {
  const auto text = find_header(head, "content-length");
  return text ? parse_number<std::uint64_t>(*text) : std::nullopt;
}

bool is_larger(const ext_proc::HeaderMap& head, std::size_t fields, std::size_t bytes) {
  if (static_cast<std::size_t>(head.headers_size()) > fields) return true;
  std::size_t size = 0;
  for (const ext_proc::HeaderValue& header : head.headers())
    size += header.key().size() + value_of(header).size();
  return size > bytes;
}

Result<Done> read_request_head(const ext_proc::HeaderMap& head, Request& request) {
  for (const ext_proc::HeaderValue& header : head.headers()) {
    const std::string_view name = header.key();
    const std::string_view value = value_of(header);
    const bool is_pseudo = name.starts_with(':');
    if (!is_valid(is_pseudo ? name.substr(1) : name, value))
      return bad_head("the head has a field that is none");
    if (read_pseudo_header(name, value, request) || is_of_connection(name)) continue;
    request.fields.add(name, value);
  }
  if (request.method.empty() || request.path.empty())
    return bad_head("the head has no :method or no :path");
  return Done{};
}

Response read_response_head(const ext_proc::HeaderMap& head) {
  Response response{.status = 0};
  if (const auto status = find_header(head, ":status"))
    response.status = parse_number<int>(*status).value_or(0);
  for (const ext_proc::HeaderValue& header : head.headers()) {
    const std::string_view value = value_of(header);
    if (!is_of_connection(header.key()) && is_valid(header.key(), value))
      response.fields.add(header.key(), value);
  }
  return response;
}

void read_gateway_fields(Request& request, bool trusted) {
  Fields& fields = request.fields;
  for (const auto& [name, meaning] : aliases) {
    const auto value = fields.value(name);
    const bool is_read = value && (meaning != "x-priority" || parse_priority(*value));
    if (is_read && !fields.value(meaning)) fields.add(meaning, *value);
  }
  fields.remove_if([trusted](const Field& field) {
    return is_of_picker(field.name()) || (!trusted && is_of_gateway(field.name()));
  });
}

bool is_trusted(const ListenerConfig& listener, std::string_view address) {
  const auto ip = parse_ip(address);
  return ip && std::ranges::any_of(listener.trusted_proxies,
                                   [&](const Network& network) { return network.contains(*ip); });
}

void write_changes(const ext_proc::HeaderMap& before, const Fields& now, Changes which,
                   ext_proc::HeaderMutation& changes) {
  using Option = ext_proc::HeaderValueOption;
  const auto is_told = [which](std::string_view name) {
    return !is_of_data_plane(name) && (which == Changes::all || !concerns_body(name));
  };
  for (const Field* field = now.begin(); field != now.end(); ++field) {
    const auto has_name = [name = field->name()](const Field& other) {
      return equals_ignore_case(other.name(), name);
    };
    const std::string name = lower_case(field->name());
    const bool is_known = std::any_of(now.begin(), field, has_name);
    if (is_known || !is_told(name) || are_same(before, now, name)) continue;
    add_header(changes, name, field->value(), Option::OVERWRITE_IF_EXISTS_OR_ADD);
    for (const Field* other = field + 1; other != now.end(); ++other) {
      if (has_name(*other))
        add_header(changes, name, other->value(), Option::APPEND_IF_EXISTS_OR_ADD);
    }
  }
  for (const ext_proc::HeaderValue& header : before.headers()) {
    if (is_told(header.key()) && !now.value(header.key())) changes.add_remove_headers(header.key());
  }
}

void write_length(const ext_proc::HeaderMap& before, std::optional<std::uint64_t> now,
                  ext_proc::HeaderMutation& changes) {
  const auto announced = content_length_of(before);
  if (!announced || announced == now) return;
  if (now) {
    set_header(changes, "content-length", std::to_string(*now));
  } else {
    changes.add_remove_headers("content-length");
  }
}

void set_header(ext_proc::HeaderMutation& changes, std::string_view name, std::string_view value) {
  add_header(changes, name, value, ext_proc::HeaderValueOption::OVERWRITE_IF_EXISTS_OR_ADD);
}

std::optional<std::string> find_metadata(const ext_proc::Metadata& metadata, const char* space,
                                         std::string_view name) {
  const auto found = metadata.filter_metadata().find(space);
  if (found == metadata.filter_metadata().end()) return std::nullopt;
  const auto value = found->second.fields().find(std::string(name));
  if (value == found->second.fields().end()) return std::nullopt;
  std::string text;
  add_text(value->second, text);
  for (const ext_proc::Value& each : value->second.list_value().values()) add_text(each, text);
  return text;
}

void set_metadata(ext_proc::Struct& metadata, const char* space, std::string_view name,
                  std::string_view value) {
  ext_proc::Struct& inside = *(*metadata.mutable_fields())[space].mutable_struct_value();
  (*inside.mutable_fields())[std::string(name)].set_string_value(std::string(value));
}

}  // namespace evenkeel
