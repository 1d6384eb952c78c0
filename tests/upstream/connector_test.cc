#include "evenkeel/upstream/connector.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/net/listener.h"
#include "net/certificates.h"
#include "wire/peer.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// A server with a port of its own: speaks TLS, or accepts connections and stays silent.
class TlsTestServer {
 public:
  TlsTestServer(Loop& loop, std::shared_ptr<const TlsServerContext> tls)
      : loop_(loop), tls_(std::move(tls)), fd_(*Listener::bind(resolve("127.0.0.1", 0)->front())) {
    endpoint_ = Listener::local_endpoint(fd_);
    listener_.emplace(loop, fd_, [this](int fd, const Endpoint&) {
      ++accepted;
      auto socket = std::make_unique<Socket>(loop_, fd);
      if (tls_ != nullptr) {
        loop_.spawn(greet(std::move(socket), tls_));
      } else {
        silent_.push_back(std::move(socket));
      }
    });
  }
  const Endpoint& endpoint() const { return endpoint_; }

  int accepted = 0;

 private:
  static Task<void> greet(std::unique_ptr<Socket> socket,
                          std::shared_ptr<const TlsServerContext> tls) {
    auto secured = co_await socket->accept_tls(std::move(tls), Clock::now() + 20s);
    if (!secured) co_return;
    auto written = co_await socket->write("hello", {}, {}, 1s);
    static_cast<void>(written);
  }

  Loop& loop_;
  std::shared_ptr<const TlsServerContext> tls_;
  int fd_;
  Endpoint endpoint_;
  std::optional<Listener> listener_;
  std::vector<std::unique_ptr<Socket>> silent_;
};

class Connectors : public testing::Test {
 protected:
  ~Connectors() override { loop.drop_spawned(); }

  std::shared_ptr<const TlsServerContext> showing(const IdentityFiles& files) {
    return *TlsServerContext::build({.certificates = {{files.cert, files.key}}}, "test");
  }
  ConnectorOptions options(Duration timeout = 20s) {
    return {.connect_timeout = timeout,
            .tls = *TlsClientContext::build({.ca = authority.file()}),
            .server_name = "gpu1.internal"};
  }
  Result<std::unique_ptr<Socket>> connect(Connector& connector) {
    auto connecting = connector.connect();
    EXPECT_TRUE(eventually(loop, [&] { return connecting.ready(); }));
    return connecting.take();
  }

  CertificateDirectory folder;
  Authority authority{folder, "authority"};
  IdentityFiles good =
      authority.issue("good", {.common_name = "g", .alternatives = "DNS:gpu1.internal"});
  IdentityFiles wrong =
      authority.issue("wrong", {.common_name = "w", .alternatives = "DNS:gpu2.internal"});
  Loop loop;
};

TEST_F(Connectors, TryTheNextAddressIfACertificateIsInvalid) {
  TlsTestServer first(loop, showing(wrong));
  TlsTestServer second(loop, showing(good));
  Connector connector(loop, {first.endpoint(), second.endpoint()}, options());

  auto socket = connect(connector);
  ASSERT_TRUE(socket) << socket.error().detail;
  EXPECT_TRUE((*socket)->tls()->verified);
  EXPECT_EQ(first.accepted, 1);

  auto another = connect(connector);  // starts with the one that worked
  EXPECT_TRUE(another);
  EXPECT_EQ(first.accepted, 1);
  EXPECT_EQ(second.accepted, 2);
}

TEST_F(Connectors, ReportTheErrorOfTheLastAddress) {
  TlsTestServer server(loop, showing(wrong));
  Connector connector(loop, {server.endpoint()}, options());

  auto socket = connect(connector);
  ASSERT_FALSE(socket);
  EXPECT_EQ(socket.error().fault, Fault::tls_failed);
  EXPECT_EQ(socket.error().detail, "host name does not match gpu1.internal");
  EXPECT_TRUE(socket.error().not_processed);
}

TEST_F(Connectors, IncludeTheHandshakeInTheConnectTimeout) {
  TlsTestServer silent(loop, nullptr);
  Connector connector(loop, {silent.endpoint()}, options(100ms));

  auto socket = connect(connector);
  ASSERT_FALSE(socket);
  EXPECT_EQ(socket.error().fault, Fault::connect_timeout);
  EXPECT_EQ(silent.accepted, 1);
}

TEST_F(Connectors, ResumeTheLastTlsSession) {
  TlsTestServer server(loop, showing(good));
  Connector connector(loop, {server.endpoint()}, options());
  for (int i = 0; i < 3; ++i) {
    auto socket = connect(connector);
    ASSERT_TRUE(socket);
    EXPECT_EQ((*socket)->tls()->resumed, i > 0) << i;
    char word[5];
    ASSERT_TRUE(eventually(loop, [&] {  // the session arrives before the data
      return (*socket)->read_some(word, sizeof word).status == Socket::ReadStatus::bytes;
    }));
  }
}

}  // namespace
}  // namespace evenkeel
