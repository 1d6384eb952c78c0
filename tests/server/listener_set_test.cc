#include "server/listener_set.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "evenkeel/net/listener.h"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr unsigned workers = 2;

std::optional<std::string> no_variable(const std::string&) { return std::nullopt; }

ListenerConfig listener(const std::string& name, const std::string& host = "127.0.0.1",
                        std::uint16_t port = 0) {
  ListenerConfig config;
  config.name = name;
  config.address = {host, port};
  return config;
}

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

bool accepts(const Endpoint& endpoint) {
  const int fd = socket(endpoint.family(), SOCK_STREAM, 0);
  const bool connected = connect(fd, endpoint.address(), endpoint.size) == 0;
  close(fd);
  return connected;
}

/// A socket of another process, as far as the set can tell.
class ForeignSocket {
 public:
  ForeignSocket() {
    auto endpoint = resolve("127.0.0.1", 0);
    fd_ = *Listener::bind(endpoint->front());
    const int off = 0;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEPORT, &off, sizeof off);
  }
  ~ForeignSocket() { close(fd_); }
  std::uint16_t port() const { return Listener::local_endpoint(fd_).port(); }

 private:
  int fd_;
};

class Listeners : public testing::Test {
 protected:
  ~Listeners() override {
    for (const int fd : fds_) close(fd);
  }

  std::vector<ListenerAssignment> commit(const std::vector<ListenerConfig>& configs) {
    auto prepared = set_.prepare(configs, {}, reached_);
    EXPECT_TRUE(prepared.ok()) << (prepared.ok() ? "" : prepared.error().detail);
    auto assignments = set_.commit(std::move(*prepared));
    for (const auto& each : assignments) {
      for (const auto& entry : each.entries) {
        fds_.insert(fds_.end(), entry.fds.begin(), entry.fds.end());
      }
    }
    return assignments;
  }
  std::uint16_t bound_port(std::size_t index) const { return set_.open()[index].endpoint.port(); }

  InheritedSockets inherited_{&no_variable};
  ListenerSet set_{workers, inherited_};
  std::size_t reached_ = 0;
  std::vector<int> fds_;  // as the workers would own them
};

TEST_F(Listeners, GivesEveryWorkerASocketOfItsOwnOnOnePort) {
  const auto assignments = commit({listener("public")});

  ASSERT_THAT(assignments, SizeIs(workers));
  const auto& first = assignments[0].entries[0];
  const auto& second = assignments[1].entries[0];
  EXPECT_NE(first.fds[0], second.fds[0]);
  EXPECT_EQ(first.id, second.id);
  EXPECT_EQ(Listener::local_endpoint(first.fds[0]), Listener::local_endpoint(second.fds[0]));
  EXPECT_EQ(bound_port(0), Listener::local_endpoint(first.fds[0]).port());
}

TEST_F(Listeners, KeepsTheSocketsOfAListenerWhoseAddressStays) {
  const auto before = commit({listener("public")});
  ListenerConfig changed = listener("public");
  changed.limits.max_connections = 7;

  const auto after = commit({changed, listener("inner")});

  EXPECT_EQ(after[0].entries[0].id, before[0].entries[0].id);
  EXPECT_THAT(after[0].entries[0].fds, IsEmpty()) << "the worker has it";
  EXPECT_EQ(after[0].entries[0].config, changed);
  EXPECT_NE(after[0].entries[1].id, before[0].entries[0].id);
  EXPECT_THAT(after[0].entries[1].fds, SizeIs(1));
}

/// Sockets of a replaced process that had this many workers.
class HandedOver : public Listeners {
 protected:
  std::vector<ListenerAssignment> take_over(unsigned count) {
    Endpoint endpoint = resolve("127.0.0.1", 0)->front();
    for (unsigned i = 0; i < count; ++i) {
      const int fd = *(i == 0 ? Listener::bind(endpoint) : Listener::bind_shared(endpoint));
      endpoint = Listener::local_endpoint(fd);
      inherited_.add(fd, "public", {"127.0.0.1", 0});
    }
    auto assignments = commit({listener("public")});
    EXPECT_EQ(set_.open()[0].endpoint, endpoint);
    return assignments;
  }
};

TEST_F(HandedOver, EverySocketHasAWorkerWhenThereAreFewerWorkers) {
  const auto assignments = take_over(workers * 2 + 1);

  EXPECT_THAT(assignments[0].entries[0].fds, SizeIs(3));
  EXPECT_THAT(assignments[1].entries[0].fds, SizeIs(2));
  EXPECT_THAT(set_.open()[0].fds, SizeIs(5));
}

TEST_F(HandedOver, EveryWorkerHasASocketWhenThereAreMoreWorkers) {
  const auto assignments = take_over(1);

  EXPECT_THAT(assignments[0].entries[0].fds, SizeIs(1));
  EXPECT_THAT(assignments[1].entries[0].fds, SizeIs(1));
}

TEST_F(Listeners, KeepsTheSocketsOfARenamedListenerOnAFixedPort) {
  commit({listener("public")});
  const std::uint16_t port = bound_port(0);
  const auto fixed = commit({listener("public", "127.0.0.2", port)});

  const auto renamed = commit({listener("front", "127.0.0.2", port)});

  EXPECT_EQ(renamed[0].entries[0].id, fixed[0].entries[0].id);
  EXPECT_EQ(set_.open()[0].name, "front");
}

TEST_F(Listeners, NeverUsesAHandleAgain) {
  const auto first = commit({listener("public")});
  commit({});

  const auto second = commit({listener("public")});

  EXPECT_NE(second[0].entries[0].id, first[0].entries[0].id);
}

TEST_F(Listeners, ClosesTheNewSocketsOfAChangeThatIsDropped) {
  int fd = -1;
  Endpoint endpoint;
  {
    const int next_free = dup(0);
    close(next_free);
    auto prepared = set_.prepare({listener("public")}, {}, reached_);
    ASSERT_TRUE(prepared.ok());
    fd = next_free;
    ASSERT_TRUE(is_open(fd)) << "the lowest free descriptor";
    endpoint = Listener::local_endpoint(fd);
    ASSERT_TRUE(accepts(endpoint));
  }

  EXPECT_FALSE(is_open(fd));
  EXPECT_FALSE(accepts(endpoint));
  EXPECT_THAT(set_.open(), IsEmpty());
}

TEST_F(Listeners, NamesTheListenerThatCannotBeOpened) {
  const ForeignSocket foreign;

  const auto prepared =
      set_.prepare({listener("good"), listener("bad", "127.0.0.1", foreign.port())}, {}, reached_);

  ASSERT_FALSE(prepared.ok());
  EXPECT_THAT(prepared.error().detail, HasSubstr("listener bad: cannot listen on 127.0.0.1:"));
  EXPECT_EQ(reached_, 1u);
  EXPECT_THAT(set_.open(), IsEmpty());
}

TEST_F(Listeners, ACheckFindsWhatPrepareWouldFailWith) {
  const ForeignSocket foreign;

  const auto checked = set_.check({listener("bad", "127.0.0.1", foreign.port())}, {}, reached_);

  ASSERT_FALSE(checked.ok());
  EXPECT_THAT(checked.error().detail, HasSubstr("listener bad: cannot listen on 127.0.0.1:"));
  EXPECT_TRUE(set_.check({listener("good")}, {}, reached_).ok());
}

TEST_F(Listeners, LooksUpNoHostNameItself) {
  const std::vector<ListenerConfig> named = {listener("named", "localhost"), listener("public")};

  EXPECT_FALSE(set_.prepare(named, {}, reached_).ok());
  ASSERT_THAT(set_.hosts_to_resolve(named), testing::ElementsAre("localhost"));

  const ListenerHosts hosts = resolve_listener_hosts(set_.hosts_to_resolve(named));
  EXPECT_TRUE(set_.check(named, hosts, reached_).ok());
  const auto prepared = set_.prepare(named, hosts, reached_);
  EXPECT_TRUE(prepared.ok()) << prepared.error().detail;
}

TEST_F(Listeners, ACheckTakesNoConnectionsFromAnOpenListener) {
  commit({listener("public", "0.0.0.0")});
  const ListenerConfig narrower = listener("public", "127.0.0.1", bound_port(0));

  EXPECT_TRUE(set_.check({narrower}, {}, reached_).ok());

  auto endpoint = resolve("127.0.0.1", bound_port(0));
  EXPECT_TRUE(accepts(endpoint->front()));
}

TEST_F(Listeners, AnAddressMayGetWiderWhileTheNarrowerOneIsOpen) {
  commit({listener("public")});

  const auto wider = commit({listener("public", "0.0.0.0", bound_port(0))});

  EXPECT_THAT(wider[0].entries[0].fds, SizeIs(1));
}

}  // namespace
}  // namespace evenkeel
