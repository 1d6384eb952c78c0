// A link of HTTP/1 to a scripted backend.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/wire/link.h"
#include "wire/peer.h"
#include "wire/scripted_body.h"

namespace evenkeel {

/// The progress of an exchange on a link.
struct Exchange {
  std::optional<Result<Response>> head;
  Collected body;
  bool collects = true;

  int status() const { return head && *head ? (*head)->status : 0; }
  const Error* error() const {
    if (head && !*head) return &head->error();
    return body.error ? &*body.error : nullptr;
  }
  bool failed(Fault fault) const { return error() != nullptr && error()->fault == fault; }
};

inline Task<void> run(Link& link, Request& request, Exchange& exchange) {
  auto head = co_await link.send(request);
  exchange.head.emplace(std::move(head));
  if (!*exchange.head || !exchange.collects) co_return;
  co_await collect(*(*exchange.head)->body, exchange.body);
  (*exchange.head)->body.reset();
}
/// A link whose backend the test scripts.
class Http1LinkTest : public testing::Test {
 protected:
  ~Http1LinkTest() override { loop.drop_spawned(); }

  void connect(int buffer_bytes = 0) {
    const SocketPair ends = connected_pair(buffer_bytes);
    link = make_http1_link(std::make_unique<Socket>(loop, ends.ours), options);
    backend = std::make_unique<Peer>(loop, ends.theirs);
  }
  static Request get(std::string_view path = "/") {
    return Request{.method = "GET", .authority = "a", .path = path};
  }
  static Request post(std::string body) {
    return Request{
        .method = "POST", .authority = "a", .path = "/", .body = make_body(std::move(body))};
  }
  /// Its body comes as it is fed.
  static Request post(const std::shared_ptr<BodyFeed>& feed) {
    return Request{.method = "POST",
                   .authority = "a",
                   .path = "/",
                   .body = std::make_unique<ScriptedBody>(feed)};
  }
  void start(Request& request, Exchange& exchange) { loop.spawn(run(*link, request, exchange)); }
  bool ends(const Exchange& exchange) {
    return eventually(loop, [&] { return exchange.error() != nullptr || exchange.body.done; });
  }
  /// A whole exchange with the given response bytes.
  std::unique_ptr<Exchange> answered(std::string_view bytes, std::string_view method = "GET") {
    Request request = get();
    request.method = method;
    auto exchange = std::make_unique<Exchange>();
    start(request, *exchange);
    backend->read_head();
    backend->send(bytes);
    EXPECT_TRUE(ends(*exchange)) << bytes;
    return exchange;
  }
  /// The fault that these response bytes cause, on a link of their own; the backend then closes.
  std::optional<Fault> fault_of(std::string_view bytes, std::string_view method = "GET") {
    connect();
    Request request = get();
    request.method = method;
    Exchange exchange;
    start(request, exchange);
    backend->read_head();
    backend->send(bytes);
    backend->finish_sending();
    EXPECT_TRUE(ends(exchange)) << bytes;
    EXPECT_EQ(link->available_capacity(), 0u)
        << "a link that failed may not be used again: " << bytes;
    if (exchange.error() == nullptr) return std::nullopt;
    EXPECT_EQ(exchange.error()->side, Side::backend);
    EXPECT_FALSE(exchange.error()->idle_close_race);
    return exchange.error()->fault;
  }

  /// Lives as long as the link, whose upload may wait for it.
  std::shared_ptr<BodyFeed> new_feed() {
    return feeds_.emplace_back(std::make_shared<BodyFeed>(loop));
  }

  Loop loop;
  LinkOptions options;

 private:
  std::vector<std::shared_ptr<BodyFeed>> feeds_;

 protected:
  std::unique_ptr<Link> link;
  std::unique_ptr<Peer> backend;
};

}  // namespace evenkeel
