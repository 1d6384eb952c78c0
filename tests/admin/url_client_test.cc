#include "admin/url_client.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "evenkeel/base/owned_fd.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/listener.h"

namespace evenkeel {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

/// Answers one request on each connection, and closes it without having said so.
void answer_each(int listener, std::vector<std::string>& requests, int count) {
  for (int i = 0; i < count; ++i) {
    pollfd waiting{listener, POLLIN, 0};
    if (poll(&waiting, 1, 20'000) != 1) return;
    const OwnedFd client(accept(listener, nullptr, nullptr));
    char request[512];
    const ssize_t size = recv(client.get(), request, sizeof request, 0);
    requests.emplace_back(request, size < 0 ? 0 : static_cast<std::size_t>(size));
    constexpr std::string_view answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    (void)!send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  }
}

TEST(UrlClient, SendsARequestAgainWhoseConnectionWasClosed) {
  const OwnedFd listener(*Listener::bind(resolve("127.0.0.1", 0)->front()));
  std::vector<std::string> requests;
  std::thread server([&] { answer_each(listener.get(), requests, 2); });
  const std::string authority = Listener::local_endpoint(listener.get()).text();
  UrlClient client({.url = "http://" + authority + "/x?y=1", .ca = {}, .version = "7"});

  const auto first = client.get("a: b\r\n", seconds(20));
  const auto second = client.post("", "body", seconds(20));
  server.join();

  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(second->body, "ok");
  const std::string fields = "host: " + authority + "\r\nuser-agent: evenkeel/7\r\n";
  EXPECT_EQ(requests.at(0), "GET /x?y=1 HTTP/1.1\r\n" + fields + "a: b\r\n\r\n");
  EXPECT_EQ(requests.at(1), "POST /x?y=1 HTTP/1.1\r\n" + fields + "content-length: 4\r\n\r\nbody");
}

TEST(UrlClient, EndsWithWhatIsCancelled) {
  UrlClient client({.url = "http://127.0.0.1:1", .ca = {}, .version = "7"});
  client.cancel();
  EXPECT_FALSE(client.get("", minutes(1)).ok());
}

TEST(RetryAfter, IsANumberOfSecondsUpToALimit) {
  const auto of = [](std::optional<std::string> text) {
    return retry_after_of({.status = 503, .body = {}, .retry_after = std::move(text)}, minutes(1));
  };
  EXPECT_EQ(of({}), Duration());
  EXPECT_EQ(of("7"), seconds(7));
  EXPECT_EQ(of("3600"), minutes(1));
  EXPECT_EQ(of("Fri, 31 Dec 1999 23:59:59 GMT"), Duration());
}

}  // namespace
}  // namespace evenkeel
