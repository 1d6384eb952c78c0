#include "evenkeel/upstream/connector.h"

#include <utility>

namespace evenkeel {

Connector::Connector(Loop& loop, std::vector<Endpoint> addresses, ConnectorOptions options)
    : loop_(loop), addresses_(std::move(addresses)), options_(std::move(options)) {
  if (options_.tls != nullptr) sessions_ = std::make_shared<TlsSessionCache>();
}

Task<Result<std::unique_ptr<Socket>>> Connector::connect(AlpnOffer alpn) {
  const Instant deadline = loop_.now() + options_.connect_timeout;
  Error last{.fault = Fault::connect_failed, .side = Side::backend, .not_processed = true};
  if (addresses_.empty()) last.detail = "its name has no address";
  const std::size_t first = preferred_;
  for (std::size_t i = 0; i < addresses_.size(); ++i) {
    const std::size_t index = (first + i) % addresses_.size();
    const auto left = static_cast<Duration::rep>(addresses_.size() - i);
    const Instant share = loop_.now() + (deadline - loop_.now()) / left;
    auto dialled = co_await dial(loop_, addresses_[index], share);
    if (!dialled) {
      // The error of an address that did respond says more than that of one that did not.
      if (last.fault != Fault::tls_failed) last = std::move(dialled.error());
      continue;
    }
    auto socket = Socket::adopt(loop_, *dialled);
    if (socket == nullptr) {
      last = {.fault = Fault::overloaded,
              .side = Side::proxy,
              .not_processed = true,
              .detail = "epoll cannot watch more descriptors"};
      break;
    }
    if (options_.tls != nullptr) {
      auto secured =
          co_await socket->connect_tls(options_.tls, options_.server_name, alpn, sessions_, share);
      if (!secured) {
        last = std::move(secured.error());
        continue;
      }
    }
    preferred_ = index;
    co_return std::move(socket);
  }
  co_return last;
}

}  // namespace evenkeel
