#include "evenkeel/filter/forwarded_client.h"

#include <algorithm>

#include "evenkeel/base/ascii.h"

namespace evenkeel {
namespace {

std::string_view unquote(std::string_view text) {
  const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return quoted ? text.substr(1, text.size() - 2) : text;
}

/// The address of "192.0.2.1:80" or "[2001:db8::1]:80"; an address without a port stays.
std::string_view without_port(std::string_view address) {
  if (address.starts_with('[')) {
    const auto end = address.find(']');
    return end == std::string_view::npos ? std::string_view() : address.substr(1, end - 1);
  }
  const auto colon = address.find(':');
  const bool has_port = colon != std::string_view::npos && colon == address.rfind(':');
  return has_port ? address.substr(0, colon) : address;
}

/// The value of the `for` parameter of one element of Forwarded; empty without one.
std::string_view for_parameter(std::string_view element) {
  while (!element.empty()) {
    const auto semicolon = element.find(';');
    const std::string_view pair = trimmed(element.substr(0, semicolon));
    if (starts_with_ignore_case(pair, "for=")) return unquote(pair.substr(4));
    if (semicolon == std::string_view::npos) break;
    element.remove_prefix(semicolon + 1);
  }
  return {};
}

/// Looks through a list of addresses from its end, which the nearest proxy wrote.
class ClientSearch {
 public:
  explicit ClientSearch(const std::vector<Network>& trusted_proxies)
      : trusted_proxies_(trusted_proxies) {}

  /// Looks at the elements of one comma-separated field.
  void visit_field(std::string_view list, bool is_forwarded) {
    while (!done_) {
      const auto comma = list.rfind(',');
      const bool first = comma == std::string_view::npos;
      const std::string_view element = trimmed(first ? list : list.substr(comma + 1));
      if (!element.empty()) {
        visit_address(without_port(is_forwarded ? for_parameter(element) : element));
      }
      if (first) return;
      list = list.substr(0, comma);
    }
  }
  std::optional<std::string> client() const { return client_; }

 private:
  void visit_address(std::string_view address) {
    const auto ip = parse_ip(address);
    if (ip) client_ = ip_text(*ip);
    done_ = !ip || std::none_of(trusted_proxies_.begin(), trusted_proxies_.end(),
                                [&](const Network& network) { return network.contains(*ip); });
  }

  const std::vector<Network>& trusted_proxies_;
  std::optional<std::string> client_;
  bool done_ = false;
};

}  // namespace

std::optional<std::string> forwarded_client(const Fields& fields,
                                            const std::vector<Network>& trusted_proxies) {
  const bool is_forwarded = !fields.has(FieldId::x_forwarded_for);
  const FieldId id = is_forwarded ? FieldId::forwarded : FieldId::x_forwarded_for;
  ClientSearch search(trusted_proxies);
  for (const Field* field = fields.end(); field != fields.begin();) {
    --field;
    if (field->id == id) search.visit_field(field->value(), is_forwarded);
  }
  return search.client();
}

}  // namespace evenkeel
