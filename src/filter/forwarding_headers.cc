#include "evenkeel/filter/forwarding_headers.h"

#include <string>

#include "evenkeel/http/request_id.h"

namespace evenkeel {
namespace {

/// Fields that only a proxy in front of us may set: x-forwarded-port and its like, x-real-ip, and
/// our own.
bool is_proxy_only_field(std::string_view name) {
  if (name.size() < 9 || (name.front() | 0x20) != 'x') return false;
  const auto begins = [name](std::string_view prefix) {
    return name.size() > prefix.size() && equals_ignore_case(name.substr(0, prefix.size()), prefix);
  };
  return begins("x-forwarded-") || begins("x-evenkeel-") || equals_ignore_case(name, "x-real-ip");
}

/// The way that trusted proxies tell, over however many fields, and the last one of them.
std::string_view extend_forwarded_for(Fields& fields, std::string_view client) {
  std::string chain;
  for (const Field& field : fields) {
    if (field.id != FieldId::x_forwarded_for || field.value().empty()) continue;
    chain.append(field.value()).append(", ");
  }
  return fields.keep(chain.append(client));
}

/// As Envoy writes it: Hash=...;Subject="...".
void append_certificate(std::string& text, const RequestInfo& info) {
  text.append("Hash=").append(info.identity.certificate_hash).append(";Subject=\"");
  for (const char c : info.identity.certificate_subject) {
    if (c == '"' || c == '\\') text += '\\';
    text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  text += '"';
}

}  // namespace

Task<Result<Response>> ForwardingHeadersFilter::handle(Request& request, Handler& next) {
  RequestInfo& info = request.info;
  Fields& fields = request.fields;

  std::string_view id = fields.value(FieldId::x_request_id).value_or("");
  if (fields.count(FieldId::x_request_id) > 1 || !is_valid_request_id(id)) {
    const auto made = make_request_id(rng_);
    id = fields.keep({made.data(), made.size()});
  }
  info.identity.request_id = id;

  std::string_view chain = info.identity.client;
  bool proto_known = false;
  bool host_known = false;
  if (info.identity.trusted) {
    if (fields.has(FieldId::x_forwarded_for))
      chain = extend_forwarded_for(fields, info.identity.client);
    proto_known = fields.count(FieldId::x_forwarded_proto) == 1;  // two would be a choice
    host_known = fields.count(FieldId::x_forwarded_host) == 1;
  }
  fields.remove_if([&](const Field& field) {
    switch (field.id) {
      case FieldId::x_request_id:
      case FieldId::x_forwarded_for: return true;
      case FieldId::x_forwarded_proto: return !proto_known;
      case FieldId::x_forwarded_host: return !host_known;
      case FieldId::forwarded:
      case FieldId::x_forwarded_client_cert: return !info.identity.trusted;
      case FieldId::other: return !info.identity.trusted && is_proxy_only_field(field.name());
      default: return false;
    }
  });
  fields.add("x-request-id", id, FieldId::x_request_id);
  fields.add("x-forwarded-for", chain, FieldId::x_forwarded_for);
  if (!proto_known) {
    fields.add("x-forwarded-proto", info.identity.secure ? "https" : "http",
               FieldId::x_forwarded_proto);
  }
  if (!host_known && !request.authority.empty()) {
    fields.add("x-forwarded-host", request.authority, FieldId::x_forwarded_host);
  }
  if (!info.identity.certificate_hash.empty()) {
    // Behind a trusted proxy that named its own client, ours comes after: the chain of Envoy's.
    std::string chain_of_certificates;
    for (const Field& field : fields) {
      if (field.id != FieldId::x_forwarded_client_cert || field.value().empty()) continue;
      chain_of_certificates.append(field.value()).append(",");
    }
    fields.remove_if(
        [](const Field& field) { return field.id == FieldId::x_forwarded_client_cert; });
    append_certificate(chain_of_certificates, info);
    fields.add("x-forwarded-client-cert", fields.keep(chain_of_certificates),
               FieldId::x_forwarded_client_cert);
  }
  fields.add("via", info.identity.protocol == "HTTP/2" ? "2 evenkeel" : "1.1 evenkeel",
             FieldId::via);
  return next.handle(request);
}

}  // namespace evenkeel
