// PROXY header. Properties: the result does not depend on how the bytes are split, a header never
// extends beyond the input, and the client that it names is a printable address.
#include "evenkeel/net/proxy_header.h"

#include <arpa/inet.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "require.h"

using evenkeel::parse_proxy_header;
using evenkeel::ProxyHeader;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const ProxyHeader whole = parse_proxy_header(bytes);
  for (std::size_t cut = 0; cut < size; ++cut) {
    const ProxyHeader part = parse_proxy_header(bytes.substr(0, cut));
    switch (part.step) {
      case ProxyHeader::Step::more: break;
      case ProxyHeader::Step::done:
        require(whole.step == ProxyHeader::Step::done && part.size == whole.size,
                "what follows a header does not change it");
        require(part.size <= cut, "a header lies within the input");
        break;
      case ProxyHeader::Step::failed:
        require(whole.step == ProxyHeader::Step::failed, "an error stays an error");
        break;
    }
  }
  if (whole.step != ProxyHeader::Step::done) return 0;
  require(whole.size > 0 && whole.size <= size, "a header has a size within the input");
  if (!whole.source) return 0;
  const std::string host = whole.source->host();
  in6_addr address;
  require(inet_pton(AF_INET, host.c_str(), &address) == 1 ||
              inet_pton(AF_INET6, host.c_str(), &address) == 1,
          "a source has an address");
  return 0;
}
