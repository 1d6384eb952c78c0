#include "evenkeel/filter/forwarding_headers.h"

#include <algorithm>
#include <string>

#include "evenkeel/filter/forwarded_client.h"
#include "evenkeel/http/credentials.h"
#include "evenkeel/http/request_id.h"

namespace evenkeel {
namespace {

/// Fields that only a proxy in front of evenkeel may set: x-forwarded-port and its like, x-real-ip,
/// and evenkeel's own.
bool is_proxy_only_field(std::string_view name) {
  if (name.size() < 9 || (name.front() | 0x20) != 'x') return false;
  const auto begins = [name](std::string_view prefix) {
    return name.size() > prefix.size() && starts_with_ignore_case(name, prefix);
  };
  return begins("x-forwarded-") || begins("x-evenkeel-") || equals_ignore_case(name, "x-real-ip");
}

/// The values of all x-forwarded-for fields, and the peer at the end.
std::string_view extend_forwarded_for(Fields& fields, std::string_view peer) {
  thread_local std::string chain;  // keeps its memory
  chain.clear();
  for (const Field& field : fields) {
    if (field.id != FieldId::x_forwarded_for || field.value().empty()) continue;
    chain.append(field.value()).append(", ");
  }
  return fields.keep(chain.append(peer));
}

/// Writes the certificate as Envoy does: Hash=...;Subject="...".
void append_certificate(std::string& text, const RequestIdentity& identity) {
  text.append("Hash=").append(identity.certificate_hash).append(";Subject=\"");
  for (const char c : identity.certificate_subject) {
    if (c == '"' || c == '\\') text += '\\';
    text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  text += '"';
}

/// Appends the client's certificate to those that a trusted proxy named, as Envoy does.
void add_certificate(Fields& fields, const RequestIdentity& identity) {
  std::string chain;
  for (const Field& field : fields) {
    if (field.id != FieldId::x_forwarded_client_cert || field.value().empty()) continue;
    chain.append(field.value()).append(",");
  }
  fields.remove_if([](const Field& field) { return field.id == FieldId::x_forwarded_client_cert; });
  append_certificate(chain, identity);
  fields.add("x-forwarded-client-cert", fields.keep(chain), FieldId::x_forwarded_client_cert);
}

/// Which fields of a trusted proxy are kept.
struct Believed {
  bool proto = false;
  bool host = false;
};

/// Removes every field that the filter sets itself or that the peer may not set. Notes whether the
/// request asks for an explanation; whether it gets one depends on its pool.
void remove_forged(Fields& fields, bool trusted, const Believed& believed, bool& asks_why) {
  fields.remove_if([&](const Field& field) {
    switch (field.id) {
      case FieldId::x_request_id:
      case FieldId::x_forwarded_for: return true;
      case FieldId::x_forwarded_proto: return !believed.proto;
      case FieldId::x_forwarded_host: return !believed.host;
      case FieldId::forwarded:
      case FieldId::x_forwarded_client_cert: return !trusted;
      case FieldId::other: {
        if (!is_proxy_only_field(field.name())) return false;
        const bool asks = equals_ignore_case(field.name(), "x-evenkeel-explain");
        asks_why |= asks;
        return asks || !trusted;
      }
      default: return false;
    }
  });
}

/// Removes the fields in which only trusted proxies name tenants: another's, those that contradict
/// each other, and those that a backend may read as such because of how they are spelled.
void remove_forged_tenants(Fields& fields, bool trusted, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto has_name = [&](const Field& field) {
      return equals_ignore_case(field.name(), name);
    };
    const bool believed = trusted && std::count_if(fields.begin(), fields.end(), has_name) <= 1;
    fields.remove_if([&](const Field& field) {
      return is_spelling_of(field.name(), name) && !(believed && has_name(field));
    });
  }
}

std::vector<std::string> tenant_headers_of(const std::vector<ListenerConfig>& listeners) {
  std::vector<std::string> names;
  for (const ListenerConfig& listener : listeners) {
    const std::string& name = listener.tenant_header;
    const bool is_new = std::find(names.begin(), names.end(), name) == names.end();
    if (!name.empty() && is_new) names.push_back(name);
  }
  return names;
}

}  // namespace

ForwardingHeadersFilter::ForwardingHeadersFilter(std::uint64_t seed,
                                                 const std::vector<ListenerConfig>& listeners)
    : rng_(seed),
      listeners_(listeners),
      trusts_any_(std::any_of(
          listeners.begin(), listeners.end(),
          [](const ListenerConfig& listener) { return !listener.trusted_proxies.empty(); })),
      tenant_headers_(tenant_headers_of(listeners)) {}

const ListenerConfig* trusting_listener(const std::vector<ListenerConfig>& listeners,
                                        const RequestIdentity& identity) {
  const auto listener =
      std::find_if(listeners.begin(), listeners.end(),
                   [&](const ListenerConfig& each) { return each.name == identity.listener; });
  if (listener == listeners.end() || listener->trusted_proxies.empty()) return nullptr;
  const auto peer = parse_ip(identity.peer.empty() ? identity.client : identity.peer);
  const bool trusted =
      peer && std::any_of(listener->trusted_proxies.begin(), listener->trusted_proxies.end(),
                          [&](const Network& network) { return network.contains(*peer); });
  return trusted ? &*listener : nullptr;
}

std::optional<IpBytes> client_of(const Request& request,
                                 const std::vector<ListenerConfig>* listeners) {
  const RequestIdentity& identity = request.info.identity;
  if (!identity.peer.empty()) return parse_ip(identity.client);  // it is known already
  const ListenerConfig* const trusting =
      listeners == nullptr ? nullptr : trusting_listener(*listeners, identity);
  if (trusting == nullptr) return parse_ip(identity.client);
  const auto client = forwarded_client(request.fields, trusting->trusted_proxies);
  return parse_ip(client ? *client : identity.client);
}

void ForwardingHeadersFilter::identify_client(Request& request,
                                              const std::vector<Network>& trusted_proxies) {
  RequestIdentity& identity = request.info.identity;
  const auto client = forwarded_client(request.fields, trusted_proxies);
  if (!client || *client == identity.client) return;
  identity.peer = identity.client;
  identity.client = request.fields.keep(*client);
}

Task<Result<Response>> ForwardingHeadersFilter::handle(Request& request, Handler& next) {
  RequestIdentity& identity = request.info.identity;
  Fields& fields = request.fields;

  std::string_view id = fields.value(FieldId::x_request_id).value_or("");
  if (fields.count(FieldId::x_request_id) > 1 || !is_valid_request_id(id)) {
    const auto made = make_request_id(rng_);
    id = fields.keep({made.data(), made.size()});
  }
  identity.request_id = id;

  std::string_view chain = identity.client;
  Believed believed;
  const ListenerConfig* const listener =
      trusts_any_ ? trusting_listener(listeners_, identity) : nullptr;
  if (listener != nullptr) {
    if (fields.has(FieldId::x_forwarded_for)) chain = extend_forwarded_for(fields, identity.client);
    identify_client(request, listener->trusted_proxies);
    believed.proto = fields.count(FieldId::x_forwarded_proto) == 1;  // two contradict each other
    believed.host = fields.count(FieldId::x_forwarded_host) == 1;
  }
  bool asks_why = false;
  remove_forged(fields, listener != nullptr, believed, asks_why);
  if (asks_why) [[unlikely]] {
    identity.asker = listener != nullptr ? Asker::proxy : Asker::client;
  }
  if (!tenant_headers_.empty()) {
    remove_forged_tenants(fields, listener != nullptr, tenant_headers_);
    identity.reserved_fields = &tenant_headers_;
  }
  fields.add("x-request-id", id, FieldId::x_request_id);
  fields.add("x-forwarded-for", chain, FieldId::x_forwarded_for);
  if (!believed.proto) {
    fields.add("x-forwarded-proto", identity.secure ? "https" : "http", FieldId::x_forwarded_proto);
  }
  if (!believed.host && !request.authority.empty()) {
    fields.add("x-forwarded-host", request.authority, FieldId::x_forwarded_host);
  }
  if (!identity.certificate_hash.empty()) add_certificate(fields, identity);
  fields.add("via", identity.protocol == "HTTP/2" ? "2 evenkeel" : "1.1 evenkeel", FieldId::via);
  return next.handle(request);
}

}  // namespace evenkeel
