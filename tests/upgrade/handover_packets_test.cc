#include "evenkeel/upgrade/handover_packets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "evenkeel/net/listener.h"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

/// The two ends of a channel.
class HandoverChannel : public testing::Test {
 protected:
  HandoverChannel() {
    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends_.data());
  }
  ~HandoverChannel() override {
    for (const int fd : ends_) close(fd);
    for (const int fd : fds_) close(fd);
  }

  int open(const std::string& host = "127.0.0.1") {
    const int fd = *Listener::bind(resolve(host, 0)->front());
    fds_.push_back(fd);
    return fd;
  }
  std::vector<HandedOverListener> receive() {
    auto received = receive_listeners(ends_[1]);
    EXPECT_TRUE(received.ok()) << (received.ok() ? "" : received.error().detail);
    if (!received) return {};
    for (const HandedOverListener& each : *received)
      fds_.insert(fds_.end(), each.fds.begin(), each.fds.end());
    return *received;
  }
  std::string error() {
    auto received = receive_listeners(ends_[1]);
    return received ? "" : received.error().detail;
  }

  std::array<int, 2> ends_{-1, -1};
  std::vector<int> fds_;
};

TEST_F(HandoverChannel, PassesSocketsWithTheirListeners) {
  const std::vector<int> sockets{open(), open("::1"), open()};

  ASSERT_TRUE(send_listeners(ends_[0], {{"public", {"127.0.0.1", 0}, {sockets[0], sockets[1]}},
                                        {"inner", {"::1", 8080}, {sockets[2]}}})
                  .ok());

  const auto received = receive();
  ASSERT_THAT(received, SizeIs(2));
  EXPECT_EQ(received[0].name, "public");
  EXPECT_EQ(received[0].address, (Address{"127.0.0.1", 0}));
  EXPECT_EQ(received[1].address, (Address{"::1", 8080}));
  ASSERT_THAT(received[0].fds, SizeIs(2));
  ASSERT_THAT(received[1].fds, SizeIs(1));
  EXPECT_EQ(Listener::local_endpoint(received[0].fds[1]), Listener::local_endpoint(sockets[1]));
  EXPECT_EQ(Listener::local_endpoint(received[1].fds[0]), Listener::local_endpoint(sockets[2]));
}

TEST_F(HandoverChannel, PassesMoreSocketsThanFitIntoOnePacket) {
  const std::vector<int> many(600, open());

  ASSERT_TRUE(send_listeners(ends_[0], {{"one", {"a", 1}, many}, {"two", {"b", 2}, many}}).ok());

  std::size_t count = 0;
  for (const HandedOverListener& each : receive()) count += each.fds.size();
  EXPECT_EQ(count, 1200u);
}

TEST_F(HandoverChannel, PassesStateOfAnySizeAfterTheListeners) {
  const std::string state(300'000, 'x');
  ASSERT_TRUE(send_listeners(ends_[0], {}).ok());
  ASSERT_TRUE(send_state(ends_[0], state).ok());

  EXPECT_THAT(receive(), SizeIs(0));
  EXPECT_EQ(receive_state(ends_[1]), state);
  EXPECT_EQ(receive_state(ends_[1]), std::nullopt);
}

TEST_F(HandoverChannel, ReadsAStateAfterOneThatCannotBeRead) {
  const std::string without_file = "evenkeel state\n";
  send(ends_[0], without_file.data(), without_file.size(), 0);
  ASSERT_TRUE(send_state(ends_[0], "later").ok());

  EXPECT_EQ(receive_state(ends_[1]), "");
  EXPECT_EQ(receive_state(ends_[1]), "later");
  EXPECT_EQ(receive_state(ends_[1]), std::nullopt);
}

TEST_F(HandoverChannel, RejectsAnotherFormat) {
  const std::string text = "evenkeel sockets 2\n";
  send(ends_[0], text.data(), text.size(), 0);

  EXPECT_THAT(error(), HasSubstr("a version with another format"));
}

TEST_F(HandoverChannel, RejectsWhatIsNotComplete) {
  EXPECT_THAT(error(), HasSubstr("not complete"));

  const std::string text = "evenkeel sockets 1\n2 80 127.0.0.1 public\n";
  send(ends_[0], text.data(), text.size(), 0);
  EXPECT_THAT(error(), HasSubstr("malformed"));
}

}  // namespace
}  // namespace evenkeel
