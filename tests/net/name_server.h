// A DNS server on loopback that answers as the test says.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/config/address.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/resolver.h"

namespace evenkeel {

/// Answers queries for A, AAAA and SRV records over UDP. A name that was not set does not exist.
/// Runs on the test's loop.
class NameServer {
 public:
  enum class Mode : std::uint8_t { answers, fails, silent };
  struct Records {
    std::vector<std::string> v4;
    std::vector<std::string> v6;
    std::uint32_t ttl_seconds = 60;
    Mode v4_mode = Mode::answers;
    Mode v6_mode = Mode::answers;
    std::vector<Resolver::Service> services = {};
  };

  explicit NameServer(Loop& loop) {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    Endpoint any = resolve("127.0.0.1", 0)->front();
    bind(fd, any.address(), any.size);
    getsockname(fd, reinterpret_cast<sockaddr*>(&any.storage), &any.size);
    port_ = any.port();
    watch_.open(loop, fd);
    watch_.on_readable(&readable_);
  }
  NameServer(const NameServer&) = delete;
  ~NameServer() {
    const int fd = watch_.fd();
    watch_.release();
    close(fd);
  }

  Address address() const { return {.host = "127.0.0.1", .port = port_}; }

  std::map<std::string, Records> names;
  int queries = 0;

 private:
  static constexpr std::uint16_t type_a = 1;
  static constexpr std::uint16_t type_aaaa = 28;
  static constexpr std::uint16_t type_srv = 33;
  static constexpr std::size_t header_size = 12;

  void answer_all() {
    char query[512];
    sockaddr_storage peer{};
    socklen_t peer_size = sizeof peer;
    ssize_t size = 0;
    while ((size = recvfrom(watch_.fd(), query, sizeof query, 0, reinterpret_cast<sockaddr*>(&peer),
                            &peer_size)) > static_cast<ssize_t>(header_size)) {
      ++queries;
      const std::string response = respond({query, static_cast<std::size_t>(size)});
      if (response.empty()) continue;
      sendto(watch_.fd(), response.data(), response.size(), 0,
             reinterpret_cast<const sockaddr*>(&peer), peer_size);
    }
    watch_.mark_not_readable();
  }

  /// The response to a query with one question (RFC 1035, section 4); empty: none.
  std::string respond(std::string_view query) const {
    std::string name;
    std::size_t at = header_size;
    while (at < query.size() && query[at] != 0) {
      const auto length = static_cast<std::size_t>(query[at]);
      name.append(name.empty() ? "" : ".").append(query.substr(at + 1, length));
      at += length + 1;
    }
    const auto type = static_cast<std::uint16_t>(static_cast<unsigned char>(query[at + 2]));
    const std::string_view question = query.substr(header_size, at + 5 - header_size);

    const auto found = names.find(name);
    const bool exists = found != names.end();
    const Records records = exists ? found->second : Records{};
    const Mode mode = type == type_aaaa ? records.v6_mode : records.v4_mode;
    if (mode == Mode::silent) return {};
    const auto& addresses = type == type_aaaa ? records.v6 : records.v4;
    const bool fails = mode == Mode::fails;
    const int code = fails ? 2 : exists ? 0 : 3;  // SERVFAIL, NOERROR, NXDOMAIN

    std::string response(query.substr(0, 2));
    response += static_cast<char>(0x85);  // a response, authoritative, recursion desired
    response += static_cast<char>(0x80 | code);
    append_u16(response, 1);
    const bool srv = type == type_srv;
    append_u16(response, fails ? 0 : srv ? records.services.size() : addresses.size());
    append_u16(response, 0);
    append_u16(response, 0);
    response += question;
    if (fails) return response;
    if (srv) {
      for (const Resolver::Service& each : records.services)
        append_service(response, records, each);
      return response;
    }
    for (const std::string& text : addresses) append_record(response, type, records, text);
    return response;
  }

  static void append_record(std::string& response, std::uint16_t type, const Records& records,
                            const std::string& text) {
    char bytes[16];
    const bool v6 = type == type_aaaa;
    inet_pton(v6 ? AF_INET6 : AF_INET, text.c_str(), bytes);
    append_u16(response, 0xc000 | header_size);  // the name of the question
    append_u16(response, v6 ? type_aaaa : type_a);
    append_u16(response, 1);  // IN
    append_u16(response, records.ttl_seconds >> 16);
    append_u16(response, records.ttl_seconds & 0xffff);
    append_u16(response, v6 ? 16 : 4);
    response.append(bytes, v6 ? 16 : 4);
  }

  static void append_service(std::string& response, const Records& records,
                             const Resolver::Service& service) {
    std::string target;
    for (std::string_view rest = service.host; !rest.empty();) {
      const std::size_t dot = std::min(rest.find('.'), rest.size());
      target += static_cast<char>(dot);
      target += rest.substr(0, dot);
      rest.remove_prefix(std::min(dot + 1, rest.size()));
    }
    target += '\0';
    append_u16(response, 0xc000 | header_size);
    append_u16(response, type_srv);
    append_u16(response, 1);  // IN
    append_u16(response, records.ttl_seconds >> 16);
    append_u16(response, records.ttl_seconds & 0xffff);
    append_u16(response, 6 + target.size());
    append_u16(response, service.priority);
    append_u16(response, service.weight);
    append_u16(response, service.port);
    response += target;
  }

  static void append_u16(std::string& out, std::size_t value) {
    out += static_cast<char>(value >> 8);
    out += static_cast<char>(value & 0xff);
  }

  std::uint16_t port_ = 0;
  Watch watch_;
  MethodWaiter<&NameServer::answer_all> readable_{*this};
};

}  // namespace evenkeel
