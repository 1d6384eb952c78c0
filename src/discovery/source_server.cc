#include "discovery/source_server.h"

#include <utility>

#include "evenkeel/base/host.h"
#include "evenkeel/config/address.h"
#include "evenkeel/net/tls.h"

namespace evenkeel {

SourceServer::SourceServer(Loop& loop, NameResolver resolve, std::string url, std::string ca,
                           const LinkOptions& options)
    : loop_(loop), resolve_(std::move(resolve)), url_(std::move(url)), ca_(std::move(ca)) {
  const std::size_t scheme_end = url_.find("://");
  const std::size_t slash = url_.find('/', scheme_end == url_.npos ? 0 : scheme_end + 3);
  origin_ = url_.substr(0, slash);
  path_ = slash == url_.npos ? "/" : url_.substr(slash);
  access_.links.link = options;
}

Task<Result<std::shared_ptr<BackendClient>>> SourceServer::connect() {
  std::string why;
  const auto address = parse_backend_address(origin_, why);
  if (!address) co_return Error{.fault = Fault::bad_request, .detail = why};
  auto addresses = co_await resolve_(address->host, address->port);
  if (!addresses) co_return std::move(addresses.error());
  ServerAccess access = access_;
  access.addresses = std::move(*addresses);
  access.authority = authority_of(normal_host(address->host), address->port, address->secure);
  if (address->secure) {
    const PoolTlsConfig config{.ca = ca_};
    auto tls = TlsClientContext::build(config, access.links.connector.tls);
    if (!tls) co_return std::move(tls.error());
    access.links.connector.tls = std::move(*tls);
    access.links.connector.server_name = normal_host(address->host);
  }
  if (client_ == nullptr || access != access_) {
    access_ = access;
    client_ = std::make_shared<BackendClient>(loop_, std::move(access));
  }
  co_return client_;
}

}  // namespace evenkeel
