#include "evenkeel/admin/client.h"

#include <chrono>

#include "admin/running_admin.h"

namespace evenkeel::testing {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

class Client : public RunningAdmin {
 protected:
  std::unique_ptr<AdminClient> open(const std::string& address) {
    auto client = AdminClient::open({.address = address});
    EXPECT_TRUE(client.ok());
    return std::move(*client);
  }
};

/// Accepts one connection and answers it with these bytes, then closes.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::string reply)
      : fd_(*Listener::bind(resolve("127.0.0.1", 0)->front())),
        address_(Listener::local_endpoint(fd_).text()),
        thread_([this, reply = std::move(reply)] { serve(reply); }) {}
  ~ScriptedServer() {
    thread_.join();
    close(fd_);
  }
  const std::string& address() const { return address_; }

 private:
  void serve(const std::string& reply) const {
    pollfd waiting{fd_, POLLIN, 0};
    poll(&waiting, 1, RawClient::patience_ms);
    const int client = accept(fd_, nullptr, nullptr);
    char request[4096];
    (void)!recv(client, request, sizeof(request), 0);
    (void)!send(client, reply.data(), reply.size(), MSG_NOSIGNAL);
    close(client);
  }

  int fd_;
  std::string address_;
  std::thread thread_;
};

TEST_F(Client, GetsAndPostsOverOneClient) {
  start();
  const auto client = open(host());
  for (int i = 0; i < 3; ++i) {
    auto pools = client->get("/api/v1/pools", seconds(10));
    ASSERT_TRUE(pools.ok());
    EXPECT_EQ(pools->status, 200);
    EXPECT_THAT(pools->body, HasSubstr(R"("name":"chat")"));
  }
  auto weight =
      client->post("/api/v1/backends/127.0.0.1:8001/weight", R"({"weight": 2})", seconds(10));
  ASSERT_TRUE(weight.ok());
  EXPECT_EQ(weight->status, 200);
}

TEST_F(Client, ConnectsAgainWhenAKeptConnectionHasClosed) {
  start(two_pools, {.idle = std::chrono::milliseconds(1)});
  const auto client = open(host());
  ASSERT_TRUE(client->get("/readyz", seconds(10)).ok());
  RawClient(port_).ends();  // closed at the same sweep as the client's connection, or a later one

  EXPECT_TRUE(client->get("/readyz", seconds(10)).ok());
}

TEST_F(Client, ReportsADaemonThatCannotBeReached) {
  start();
  const std::string address = host();
  server_.reset();

  auto reply = open(address)->get("/readyz", seconds(10));

  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().fault, Fault::connect_failed);
}

TEST_F(Client, GivesUpOnADaemonThatDoesNotAnswerInTime) {
  const int fd = *Listener::bind(resolve("127.0.0.1", 0)->front());

  auto reply =
      open(Listener::local_endpoint(fd).text())->get("/readyz", std::chrono::milliseconds(50));

  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().fault, Fault::first_byte_timeout);
  close(fd);
}

TEST_F(Client, RefusesResponsesThatAreTooLargeOrIncomplete) {
  const std::pair<std::string, Fault> cases[] = {
      {"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\nx", Fault::backend_protocol},
      {"HTTP/1.1 200 OK\r\nx: " + std::string(100'000, 'x'), Fault::backend_protocol},
      {"SSH-2.0-OpenSSH\r\n", Fault::backend_closed},
      {"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", Fault::backend_closed},
      {"", Fault::backend_closed},
  };
  for (const auto& [bytes, fault] : cases) {
    const ScriptedServer server(bytes);
    auto reply = open(server.address())->get("/", seconds(10));
    ASSERT_FALSE(reply.ok()) << bytes.substr(0, 60);
    EXPECT_EQ(reply.error().fault, fault) << bytes.substr(0, 60);
  }
}

TEST_F(Client, NamesWhatIsWrongWithItsOptions) {
  EXPECT_EQ(AdminClient::open({.address = "nonsense"}).error().fault, Fault::bad_request);
  EXPECT_EQ(AdminClient::open({.address = "127.0.0.1:0"}).error().fault, Fault::bad_request);
  const auto no_token =
      AdminClient::open({.address = "127.0.0.1:1", .token_file = "/nowhere/token"});
  EXPECT_THAT(no_token.error().detail, HasSubstr("--token-file /nowhere/token: "));
}

}  // namespace
}  // namespace evenkeel::testing
