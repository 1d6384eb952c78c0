#include "admin/http_client.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <initializer_list>
#include <string_view>
#include <thread>

#include "evenkeel/base/owned_fd.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/listener.h"

namespace evenkeel {
namespace {

using std::chrono::seconds;

/// An address that answers no SYN: its queue of connections is full.
class SilentServer {
 public:
  SilentServer() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const Endpoint any = resolve("127.0.0.1", 0)->front();
    EXPECT_EQ(bind(fd_.get(), any.address(), any.size), 0);
    EXPECT_EQ(listen(fd_.get(), 0), 0);
    for (OwnedFd& client : clients_) {
      client = OwnedFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const Endpoint to = endpoint();
      (void)!connect(client.get(), to.address(), to.size);
    }
  }
  Endpoint endpoint() const { return Listener::local_endpoint(fd_.get()); }

 private:
  OwnedFd fd_;
  OwnedFd clients_[4];
};

/// Waits for a connection, reads its request and sends these bytes, each by a write of its own.
void answer_next(int listener, std::initializer_list<std::string_view> parts) {
  pollfd waiting{listener, POLLIN, 0};
  if (poll(&waiting, 1, 20'000) != 1) return;
  const OwnedFd client(accept(listener, nullptr, nullptr));
  char request[512];
  (void)!recv(client.get(), request, sizeof request, 0);
  for (const std::string_view part : parts)
    (void)!send(client.get(), part.data(), part.size(), MSG_NOSIGNAL);
}

TEST(HttpClient, GoesOnToTheNextAddressAndKeepsIt) {
  const SilentServer silent;
  const OwnedFd listener(*Listener::bind(resolve("127.0.0.1", 0)->front()));
  std::thread server([&] {
    for (int i = 0; i < 2; ++i)
      answer_next(listener.get(),
                  {"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"});
  });
  HttpClient client(1024);
  client.server().host = "127.0.0.1";
  client.server().endpoints = {silent.endpoint(), Listener::local_endpoint(listener.get())};
  for (int i = 0; i < 2; ++i) {
    const Instant begin = Clock::now();
    const auto answer = client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n", seconds(20));
    ASSERT_TRUE(answer.ok()) << answer.error().detail;
    EXPECT_EQ(answer->body, "ok");
    if (i == 1) {
      EXPECT_LT(Clock::now() - begin, seconds(2)) << "it tried the silent one first";
    }
    client.disconnect();
  }
  server.join();
}

TEST(HttpClient, SkipsInterimResponses) {
  const OwnedFd listener(*Listener::bind(resolve("127.0.0.1", 0)->front()));
  std::thread server([&] {
    answer_next(listener.get(),
                {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n", "\r\n",
                 "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"});
  });
  HttpClient client(1024);
  client.server().host = "127.0.0.1";
  client.server().endpoints = {Listener::local_endpoint(listener.get())};
  const auto answer = client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n", seconds(20));
  server.join();
  ASSERT_TRUE(answer.ok()) << answer.error().detail;
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "ok");
}

}  // namespace
}  // namespace evenkeel
