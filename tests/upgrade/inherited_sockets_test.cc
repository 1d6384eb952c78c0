#include "evenkeel/upgrade/inherited_sockets.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/net/listener.h"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

Endpoint loopback(std::uint16_t port = 0) { return resolve("127.0.0.1", port)->front(); }

std::optional<std::string> no_variable(const std::string&) { return std::nullopt; }

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

/// Opens listening sockets as a supervisor would, and describes them in variables.
class Activation : public testing::Test {
 protected:
  int add(const std::string& name) {
    const int fd = *Listener::bind(loopback());
    names_[fd] = name;
    return fd;
  }
  InheritedSockets::Variable variables(pid_t pid = getpid()) const {
    const int last = names_.empty() ? 2 : names_.rbegin()->first;
    std::string names;
    for (int fd = 3; fd <= last; ++fd) {
      const auto found = names_.find(fd);
      names += (fd > 3 ? ":" : "") + (found == names_.end() ? "" : found->second);
    }
    return [=, count = std::to_string(last - 2)](
               const std::string& variable) -> std::optional<std::string> {
      if (variable == "LISTEN_PID") return std::to_string(pid);
      if (variable == "LISTEN_FDS") return count;
      if (variable == "LISTEN_FDNAMES") return names;
      return std::nullopt;
    };
  }
  static std::vector<int> fds(const std::vector<InheritedSockets::Handle>& handles) {
    std::vector<int> numbers;
    for (const auto& each : handles) numbers.push_back(each.fd);
    return numbers;
  }

  std::map<int, std::string> names_;  // by descriptor; the sockets are the InheritedSockets' own
};

TEST_F(Activation, FindsASocketByNameWhereverItIsBound) {
  const int fd = add("public");
  add("other");
  const InheritedSockets sockets(variables());

  EXPECT_THAT(fds(sockets.find("public", loopback(1))), ElementsAre(fd));
  EXPECT_THAT(sockets.find("missing", loopback(1)), IsEmpty());
}

TEST_F(Activation, FindsASocketByItsEndpointWhateverItsName) {
  const int fd = add("public");
  const InheritedSockets sockets(variables());

  EXPECT_THAT(fds(sockets.find("front", Listener::local_endpoint(fd))), ElementsAre(fd));
}

TEST_F(Activation, GivesAClaimedSocketOnlyForItsEndpoint) {
  const int fd = add("public");
  InheritedSockets sockets(variables());

  sockets.claim(sockets.find("public", loopback(1)).front());

  EXPECT_THAT(sockets.find("public", loopback(1)), IsEmpty());
  EXPECT_THAT(sockets.find("public", Listener::local_endpoint(fd)), SizeIs(1));
}

TEST_F(Activation, ClosesAndNamesTheSocketsThatAreNotUsed) {
  const int used = add("public");
  const int unused = add("old");
  InheritedSockets sockets(variables());

  const auto closed = sockets.close_unused(sockets.find("public", loopback(1)));

  EXPECT_THAT(closed, ElementsAre(StartsWith("old at 127.0.0.1:")));
  EXPECT_TRUE(is_open(used));
  EXPECT_FALSE(is_open(unused));
}

TEST_F(Activation, KeepsATakenSocketOpenForGood) {
  const int fd = add("admin");
  InheritedSockets sockets(variables());

  const int taken = sockets.take("admin", loopback(1));

  EXPECT_EQ(Listener::local_endpoint(taken), Listener::local_endpoint(fd));
  EXPECT_THAT(sockets.close_unused({}), IsEmpty());
  EXPECT_TRUE(is_open(fd));
  EXPECT_EQ(sockets.take("admin", loopback(1)), -1) << "claimed";
  close(taken);
}

TEST_F(Activation, GivesASocketOfTheReplacedProcessToTheListenerWithItsAddress) {
  InheritedSockets sockets(&no_variable);
  const int fixed = *Listener::bind(loopback());
  const int chosen = *Listener::bind(loopback());
  const Address fixed_address{"localhost", 8080};
  sockets.add(fixed, "public", fixed_address);
  sockets.add(chosen, "inner", {"127.0.0.1", 0});

  EXPECT_THAT(fds(sockets.find("renamed", loopback(1), fixed_address)), ElementsAre(fixed));
  EXPECT_THAT(fds(sockets.find("x", Listener::local_endpoint(fixed))), ElementsAre(fixed));
  EXPECT_THAT(sockets.find("public", loopback(1), {"localhost", 8081}), IsEmpty());
  EXPECT_THAT(fds(sockets.find("inner", loopback(), {"127.0.0.1", 0})), ElementsAre(chosen));
  EXPECT_THAT(sockets.find("other", loopback(), {"127.0.0.1", 0}), IsEmpty());
  EXPECT_TRUE(sockets.shares_port(Listener::local_endpoint(fixed).port()));
  EXPECT_FALSE(sockets.shares_port(1));
}

TEST_F(Activation, IgnoresTheSocketsOfAnotherProcess) {
  const int fd = add("public");

  const InheritedSockets sockets(variables(1));

  EXPECT_THAT(sockets.find("public", Listener::local_endpoint(fd)), IsEmpty());
  close(fd);
}

}  // namespace
}  // namespace evenkeel
