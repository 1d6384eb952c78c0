#include "evenkeel/net/batched_send.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/net/socket.h"
#include "wire/peer.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// Connections whose sends begin in one iteration of the loop, one after the other.
class BatchedSends : public testing::Test {
 protected:
  struct Connection {
    Connection(Loop& loop, SocketPair ends) : socket(loop, ends.ours), peer(loop, ends.theirs) {}
    Socket socket;
    Peer peer;
    bool was_batched = false;
    std::optional<Result<Done>> written;
  };

  ~BatchedSends() override { loop.drop_spawned(); }

  Connection& connect(int buffer_bytes = 0) {
    return *connections.emplace_back(
        std::make_unique<Connection>(loop, connected_pair(buffer_bytes)));
  }

  /// In the next iteration. Notes the number of the connection before and after the send.
  Task<void> send(std::size_t number, std::string bytes) {
    Connection& connection = *connections[number];
    co_await loop.yield();
    notes += std::to_string(number) + " ";
    connection.was_batched = BatchedSend::suits(connection.socket, bytes.size());
    if (!connection.was_batched) {
      connection.written = connection.socket.write(bytes, {}, {}, 1s).take();
      co_return;
    }
    const auto sent = co_await BatchedSend(connection.socket, bytes);
    auto written = co_await connection.socket.finish_write(sent, 20s);
    connection.written = std::move(written);
    notes += "(" + std::to_string(number) + ") ";
    if (on_written) on_written(number);
  }

  bool all_written() {
    return std::ranges::all_of(connections,
                               [](const auto& each) { return each->written.has_value(); });
  }

  Loop loop;
  std::vector<std::unique_ptr<Connection>> connections;
  std::string notes;
  std::function<void(std::size_t)> on_written;
};

TEST_F(BatchedSends, GoAfterTheWorkOfTheIteration) {
  for (int i = 0; i < 3; ++i) connect();
  for (std::size_t i = 0; i < 3; ++i) loop.spawn(send(i, "hello " + std::to_string(i)));

  ASSERT_TRUE(eventually(loop, [&] { return all_written(); }));

  EXPECT_EQ(notes, "0 1 2 (0) (1) ");
  EXPECT_FALSE(connections[2]->was_batched) << "nothing is left to do before it";
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(connections[i]->written->ok());
    EXPECT_EQ(connections[i]->peer.read_bytes(7), "hello " + std::to_string(i));
  }
}

TEST_F(BatchedSends, DoNotWaitForMoreThanABatch) {
  constexpr std::size_t count = 50;
  for (std::size_t i = 0; i < count; ++i) connect();
  for (std::size_t i = 0; i < count; ++i) loop.spawn(send(i, "x"));

  ASSERT_TRUE(eventually(loop, [&] { return all_written(); }));

  EXPECT_NE(notes.find("31 (0) (1) "), std::string::npos) << notes;
  EXPECT_LT(notes.find("(31) "), notes.find(" 32 ")) << notes;
}

TEST_F(BatchedSends, DoNotSuitManyBytes) {
  for (int i = 0; i < 3; ++i) connect();
  loop.spawn(send(0, std::string(40'000, 'a')));
  loop.spawn(send(1, std::string(40'000, 'b')));  // more than there is room for beside the first
  loop.spawn(send(2, "c"));

  ASSERT_TRUE(eventually(loop, [&] { return all_written(); }));

  EXPECT_TRUE(connections[0]->was_batched);
  EXPECT_FALSE(connections[1]->was_batched);
  EXPECT_EQ(connections[0]->peer.read_bytes(40'000), std::string(40'000, 'a'));
}

TEST_F(BatchedSends, WaitForAPeerThatReadsSlowly) {
  connect(4 * 1024);
  connect();
  const std::string filler(500'000, 'f');
  const std::size_t filled = connections[0]->socket.write_now(filler);
  const std::string bytes(30'000, 'b');
  loop.spawn(send(0, bytes));
  loop.spawn(send(1, "other"));
  ASSERT_TRUE(eventually(loop, [&] { return connections[1]->written.has_value(); }));
  EXPECT_FALSE(connections[0]->written);

  EXPECT_EQ(connections[0]->peer.read_bytes(filled + bytes.size()),
            filler.substr(0, filled) + bytes);

  ASSERT_TRUE(eventually(loop, [&] { return all_written(); }));
  EXPECT_TRUE(connections[0]->written->ok());
}

TEST_F(BatchedSends, ReportAPeerThatHasGone) {
  connect();
  connect();
  connections[0]->peer.reset();
  ASSERT_TRUE(eventually(loop, [&] { return connections[0]->socket.watch().broken(); }));
  loop.spawn(send(0, "lost"));
  loop.spawn(send(1, "sent"));

  ASSERT_TRUE(eventually(loop, [&] { return all_written(); }));

  EXPECT_TRUE(connections[0]->was_batched);
  EXPECT_EQ(connections[0]->written->error().fault, Fault::client_gone);
  EXPECT_EQ(connections[1]->peer.read_bytes(4), "sent");
}

TEST_F(BatchedSends, SendNothingOnceDropped) {
  for (int i = 0; i < 3; ++i) connect();
  Task<void> dropped = send(0, "dropped");
  loop.spawn(send(1, "kept"));
  const auto drop = [](Loop& on, Task<void>& task) -> Task<void> {
    co_await on.yield();
    task.drop();
  };
  loop.spawn(drop(loop, dropped));
  loop.spawn(send(2, "last"));

  ASSERT_TRUE(eventually(loop, [&] { return connections[1]->written && connections[2]->written; }));

  EXPECT_TRUE(connections[0]->was_batched);
  EXPECT_EQ(connections[1]->peer.read_bytes(4), "kept");
  drain_loop(loop);
  EXPECT_EQ(connections[0]->peer.seen(), "");
}

TEST_F(BatchedSends, MayEndEachOther) {
  for (int i = 0; i < 3; ++i) connect();
  Task<void> second;
  on_written = [&](std::size_t number) {
    if (number == 0) second.drop();
  };
  loop.spawn(send(0, "first"));
  second = send(1, "second");
  loop.spawn(send(2, "last"));

  ASSERT_TRUE(eventually(loop, [&] { return connections[0]->written && connections[2]->written; }));

  EXPECT_FALSE(connections[1]->written);
  EXPECT_EQ(connections[1]->peer.read_bytes(6), "second") << "all are sent before any goes on";
}

}  // namespace
}  // namespace evenkeel
