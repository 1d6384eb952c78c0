#include "server/reloader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/busy_loops.h"
#include "evenkeel/base/memory_usage.h"
#include "evenkeel/net/listener.h"

namespace evenkeel {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using namespace std::chrono_literals;

constexpr unsigned workers = 2;

std::optional<std::string> no_variable(const std::string&) { return std::nullopt; }

std::string file_with(const std::string& backends, const std::string& more = "") {
  return "listeners: [{name: public, address: '127.0.0.1:0'}]\n"
         "pools: [{name: chat, health: {check: 'off'}, metrics: {scrape: 'off'}, backends: [" +
         backends + "]}]\n" + more;
}

/// A running set of workers with one file, and no daemon around it.
class Reloading : public testing::Test {
 protected:
  Reloading() {
    char path[] = "/tmp/evenkeel-reload-XXXXXX";
    close(mkstemp(path));
    file_ = path;
    write(file_with("'127.0.0.1:1', '127.0.0.1:2'"));
    group_.start();
    reloader_.emplace(
        Reloader::Process{.loop = loop_,
                          .inherited = inherited_,
                          .notifier = notifier_,
                          .workers = group_,
                          .status = status_,
                          .environment = environment(),
                          .take_over = [this](Binary which) { return take_over(which); },
                          .takeover_obstacle = {},
                          .move_admin = [this](int fd) { admin_ = OwnedFd(fd); }},
        file_, workers, DnsConfig{});
    PreparedReload first = wait_for(reloader_->prepare([this] { return load_config(file_, {}); }));
    EXPECT_THAT(first.file.problems, IsEmpty());
    wait_for_done(reloader_->commit(std::move(*first.change), 0s));
    loop_.spawn(reloader_->serve());
  }
  ~Reloading() override {
    std::remove(file_.c_str());
    loop_.drop_spawned();
  }

  void write(const std::string& text) { std::ofstream(file_) << text; }
  /// Files are recorded and right; the variable SECRET is set.
  Environment environment() {
    Environment environment;
    environment.variable = [](const std::string& name) -> std::optional<std::string> {
      if (name != "SECRET") return std::nullopt;
      return "gpu-hidden";
    };
    environment.file_error = [this](FileUse, const std::string& path) {
      if (path.starts_with('/')) looked_at_.push_back(path);  // not stdout
      return std::optional<std::string>();
    };
    environment.memory_limit = [this](const MemoryLimit&) { return memory_limit_; };
    return environment;
  }
  void wait_for_done(Task<void> task) {
    ASSERT_TRUE(loop_.run_until([&] { return task.ready(); }, Clock::now() + 20s));
  }
  Task<Result<ReloadPreview>> preview(std::string text) {
    return reloader_->preview({.text = std::move(text)});
  }
  template <class T>
  T wait_for(Task<T> task) {
    EXPECT_TRUE(loop_.run_until([&] { return task.ready(); }, Clock::now() + 20s));
    return task.take();
  }
  std::vector<std::string> backends() const {
    std::vector<std::string> ids;
    for (const BackendPtr& each : status_.snapshot()->pool_set->pools()[0].state->backends())
      ids.push_back(each->id() + " " + std::to_string(each->spec().config.weight));
    return ids;
  }
  Task<Result<Done>> take_over(Binary which) {
    takeovers_.push_back(which);
    if (takeover_blocked_) co_await takeover_released_.wait();
    if (!takeover_problem_.empty()) co_return Error{.detail = takeover_problem_};
    co_return Done{};
  }
  std::uint16_t port() const { return reloader_->listener_set().open()[0].endpoint.port(); }

  Loop loop_;
  InheritedSockets inherited_{&no_variable};
  ServiceNotifier notifier_{&no_variable};
  MetricsRegistry metrics_registry_{workers};
  MemoryPressureLevel memory_pressure_;
  WorkerGroup group_{loop_,   workers, metrics_registry_, nullptr,
                     nullptr, nullptr, memory_pressure_};
  RuntimeStatusPublisher status_{RuntimeStatus{}};
  std::string file_;
  std::vector<Binary> takeovers_;
  std::string takeover_problem_;
  bool takeover_blocked_ = false;
  Signal takeover_released_{loop_};
  std::vector<std::string> looked_at_;
  std::optional<std::uint64_t> memory_limit_;
  OwnedFd admin_;
  std::optional<Reloader> reloader_;
};

TEST_F(Reloading, SwapsToTheFileThatItReads) {
  const std::uint16_t before = port();
  write(file_with("'127.0.0.1:2', {address: '127.0.0.1:3', weight: 5}"));

  EXPECT_THAT(wait_for(reloader_->reload()), IsEmpty());

  EXPECT_THAT(backends(), ElementsAre("127.0.0.1:2 1", "127.0.0.1:3 5"));
  EXPECT_EQ(port(), before) << "the listener keeps its socket";
  EXPECT_EQ(status_.snapshot()->config_hash, load_config(file_, {}).hash);
  EXPECT_THAT(status_.snapshot()->reload_problems, IsEmpty());
}

TEST_F(Reloading, RunsWorkThatTakesLocksOfWorkersWithTheirPriority) {
  const auto priority = [] { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); };
  int of_locks = 100;
  int of_other = 0;
  wait_for_done(reloader_->run_with_locks([&] { of_locks = priority(); }));
  wait_for_done(reloader_->run_blocking([&] { of_other = priority(); }));

  EXPECT_EQ(of_locks, priority());
  EXPECT_GE(of_other, of_locks);
}

TEST_F(Reloading, DecidesWhetherWorkersPollBeforeTheySleep) {
  BusyLoops loops(*group_.loops()[0], *group_.loops()[1]);
  EXPECT_TRUE(loops.look());
  write(file_with("'127.0.0.1:1'", "busy_polling: false\n"));

  EXPECT_THAT(wait_for(reloader_->reload()), IsEmpty());

  loops.take_turns(64);  // what the reload left to do
  EXPECT_LE(loops.looks_in(4'000), 2u) << "a poll is many; a timer that is due takes one";
}

TEST_F(Reloading, KeepsWhatRunsWhenTheFileIsWrong) {
  const auto before = status_.snapshot();
  write("pools: what\n");

  const auto problems = wait_for(reloader_->reload());

  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].path, "pools");
  EXPECT_EQ(status_.snapshot()->config, before->config);
  EXPECT_EQ(status_.snapshot()->pool_set, before->pool_set);
  EXPECT_EQ(status_.snapshot()->reload_problems, problems);
}

TEST_F(Reloading, AnotherProcessTakesOverForWhatThisOneCannotChange) {
  write(file_with("'127.0.0.1:1'", "workers: 7\n"));

  const auto preview = wait_for(this->preview(""));
  EXPECT_THAT(takeovers_, IsEmpty()) << "a preview changes nothing";
  const auto problems = wait_for(reloader_->reload());

  ASSERT_TRUE(preview.ok());
  EXPECT_THAT(preview->takeover, ElementsAre("workers"));
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_THAT(takeovers_, ElementsAre(Binary::running));
  EXPECT_THAT(backends(), SizeIs(2)) << "this process goes on as it was";
}

TEST_F(Reloading, IsRejectedWhenNoProcessTakesOver) {
  takeover_problem_ = "it exited with code 1";
  write(file_with("'127.0.0.1:1'", "workers: 7\n"));

  const auto problems = wait_for(reloader_->reload());

  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].path, "workers");
  EXPECT_THAT(problems[0].message, HasSubstr("it exited with code 1"));
  EXPECT_THAT(backends(), SizeIs(2));
}

TEST_F(Reloading, NoProcessTakesOverForAFileWithMistakes) {
  write("workers: 7\n" + file_with("'127.0.0.1:1'", "what: 1\n"));

  EXPECT_THAT(wait_for(reloader_->reload()), SizeIs(1));
  EXPECT_THAT(takeovers_, IsEmpty());
}

TEST_F(Reloading, AnUpgradeStartsTheInstalledProgram) {
  EXPECT_TRUE(wait_for(reloader_->upgrade()).ok());
  EXPECT_THAT(takeovers_, ElementsAre(Binary::installed));

  takeover_problem_ = "no such file";
  const auto failed = wait_for(reloader_->upgrade());

  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().detail, "no such file");
}

TEST_F(Reloading, MovesTheAdminListener) {
  const std::string backends = "'127.0.0.1:1'";
  write(file_with(backends, "admin: {address: '127.0.0.3:0'}\n"));
  const auto preview = wait_for(this->preview(""));
  ASSERT_TRUE(preview.ok());
  EXPECT_THAT(preview->problems, IsEmpty());
  EXPECT_LT(admin_.get(), 0);

  EXPECT_THAT(wait_for(reloader_->reload()), IsEmpty());

  ASSERT_GE(admin_.get(), 0);
  EXPECT_EQ(Listener::local_endpoint(admin_.get()).host(), "127.0.0.3");
}

/// A port that is free at every address, below those that the kernel gives to other programs.
std::uint16_t port_free_everywhere() {
  for (auto port = static_cast<std::uint16_t>(20'000 + getpid() % 10'000);; ++port) {
    const auto fd = Listener::bind(resolve("0.0.0.0", port)->front());
    if (fd.ok() && close(*fd) == 0) return port;
  }
}

TEST_F(Reloading, MovesTheAdminListenerToAWiderAddressOnItsPort) {
  const std::string port = std::to_string(port_free_everywhere());
  write(file_with("'127.0.0.1:1'", "admin: {address: '127.0.0.3:" + port + "'}\n"));
  ASSERT_THAT(wait_for(reloader_->reload()), IsEmpty());
  const OwnedFd before = std::move(admin_);

  write(file_with("'127.0.0.1:1'", "admin: {address: '0.0.0.0:" + port + "'}\n"));
  const auto preview = wait_for(this->preview(""));

  ASSERT_TRUE(preview.ok());
  EXPECT_THAT(preview->problems, IsEmpty());
  EXPECT_THAT(wait_for(reloader_->reload()), IsEmpty());
  EXPECT_EQ(Listener::local_endpoint(admin_.get()).text(), "0.0.0.0:" + port);
}

TEST_F(Reloading, RefusesAnAdminListenerThatCannotBeOpened) {
  const int taken = *Listener::bind(resolve("127.0.0.2", 0)->front());
  const int off = 0;
  setsockopt(taken, SOL_SOCKET, SO_REUSEPORT, &off, sizeof off);
  write(file_with("'127.0.0.1:1'",
                  "admin: {address: '" + Listener::local_endpoint(taken).text() + "'}\n"));

  const auto problems = wait_for(reloader_->reload());

  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].path, "admin.address");
  EXPECT_THAT(backends(), SizeIs(2));
  close(taken);
}

TEST_F(Reloading, RefusesAListenerThatCannotBeOpened) {
  const int taken = *Listener::bind(resolve("127.0.0.2", 0)->front());
  const int off = 0;
  setsockopt(taken, SOL_SOCKET, SO_REUSEPORT, &off, sizeof off);
  const std::string address = Listener::local_endpoint(taken).text();
  write("listeners: [{name: other, address: '" + address +
        "'}]\npools: [{name: chat, backends: ['127.0.0.1:1']}]\n");

  const auto problems = wait_for(reloader_->reload());
  const auto preview = wait_for(this->preview(""));

  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_THAT(problems[0].message, HasSubstr("listener other: cannot listen on " + address));
  ASSERT_TRUE(preview.ok());
  EXPECT_EQ(preview->problems, problems);
  EXPECT_EQ(reloader_->listener_set().open()[0].name, "public");
  close(taken);
}

TEST_F(Reloading, APreviewSaysWhatWouldChangeAndChangesNothing) {
  const auto before = status_.snapshot();

  const auto preview = wait_for(this->preview(file_with("'127.0.0.1:2', '127.0.0.1:3'")));

  ASSERT_TRUE(preview.ok());
  EXPECT_THAT(preview->problems, IsEmpty());
  EXPECT_THAT(preview->changes, ElementsAre("pool chat: backend 127.0.0.1:3: added",
                                            "pool chat: backend 127.0.0.1:1: removed"));
  EXPECT_EQ(status_.snapshot(), before);
}

TEST_F(Reloading, APreviewOfNoTextReadsTheDaemonsFile) {
  EXPECT_THAT(wait_for(preview(""))->changes, IsEmpty());

  write("pools: what\n");

  EXPECT_THAT(wait_for(preview(""))->problems, SizeIs(1));
}

/// `count` routes to the pool of the running file.
std::string file_with_routes(int count) {
  std::string routes = "routes:\n";
  for (int i = 0; i < count; ++i) {
    routes += "- {match: {path: /tenant-" + std::to_string(i) + "/**}, pool: chat}\n";
  }
  return file_with("'127.0.0.1:1'", routes);
}

TEST_F(Reloading, APreviewDoesNotWaitForAChange) {
  takeover_blocked_ = true;
  auto upgrade = reloader_->upgrade();
  ASSERT_TRUE(loop_.run_until([this] { return takeovers_.size() == 1; }, Clock::now() + 20s));

  EXPECT_TRUE(wait_for(preview(file_with("'127.0.0.1:2'"))).ok());

  EXPECT_FALSE(upgrade.ready());
  takeover_released_.raise();
  EXPECT_TRUE(wait_for(std::move(upgrade)).ok());
}

TEST_F(Reloading, AChangeDoesNotWaitForAPreview) {
  auto asked = preview(file_with_routes(10'000));
  write(file_with("'127.0.0.1:7'"));

  EXPECT_THAT(wait_for(reloader_->reload()), IsEmpty());

  EXPECT_FALSE(asked.ready());
  EXPECT_TRUE(wait_for(std::move(asked)).ok());
}

std::string file_with_indexes(const std::string& more = "") {
  return "listeners: [{name: public, address: '127.0.0.1:0'}]\n"
         "pools: [{name: chat, picker: {name: expected-time, index_memory: 4GiB}, "
         "health: {check: 'off'}, metrics: {scrape: 'off'}, backends: ['127.0.0.1:1']}]\n" +
         more;
}

TEST_F(Reloading, TablesThatDoNotFitBesideTheActiveOnesAreNotAllocated) {
  memory_limit_ = std::uint64_t{3} << 30;

  // The text may raise its own limit: what counts is the one of the running process.
  const auto asked = wait_for(preview(file_with_indexes("limits: {memory: 1TiB}\n")));
  write(file_with_indexes("limits: {memory: 1TiB}\n"));
  const auto problems = wait_for(reloader_->reload());

  ASSERT_TRUE(asked.ok());
  ASSERT_THAT(asked->problems, SizeIs(1));
  ASSERT_THAT(problems, SizeIs(1));
  for (const auto& message : {asked->problems[0].message, problems[0].message}) {
    EXPECT_THAT(message, HasSubstr("their tables take 4096 MiB beside "));
    EXPECT_THAT(message, HasSubstr("the limit of the process is 3072 MiB"));
  }
}

TEST_F(Reloading, APreviewBuildsNothing) {
  const std::uint64_t before = MemoryUsage().used().value();

  const auto asked = wait_for(preview(file_with_indexes()));

  ASSERT_TRUE(asked.ok());
  EXPECT_THAT(asked->problems, IsEmpty());
  EXPECT_LT(MemoryUsage().used().value(), before + (std::uint64_t{64} << 20));
}

TEST_F(Reloading, APreviewLooksAtNoFileThatOnlyItsTextNames) {
  const std::string text = file_with("{address: '127.0.0.1:1', api_key_file: /root/key}");

  const auto asked = wait_for(preview(text));
  EXPECT_THAT(looked_at_, IsEmpty());
  const auto authorized = wait_for(reloader_->preview({.text = text, .authorized = true}));

  ASSERT_TRUE(asked.ok());
  EXPECT_THAT(asked->unchecked, ElementsAre("/root/key"));
  ASSERT_TRUE(authorized.ok());
  EXPECT_THAT(authorized->unchecked, IsEmpty());
  EXPECT_THAT(looked_at_, ElementsAre("/root/key"));
}

TEST_F(Reloading, APreviewLooksAtFilesThatTheActiveOneNames) {
  const std::string text = file_with("{address: '127.0.0.1:1', api_key_file: /dev/null}");
  auto change = wait_for(reloader_->prepare([&] { return read_config(text, file_, {}); }));
  EXPECT_THAT(change.file.problems, SizeIs(1)) << "the file holds no key";

  write(file_with("'127.0.0.1:1'", "admin: {token_file: /dev/zero}\n"));
  ASSERT_THAT(wait_for(reloader_->reload()), IsEmpty());
  looked_at_.clear();
  ASSERT_TRUE(
      wait_for(preview(file_with("'127.0.0.1:1'", "admin: {token_file: /dev/zero}\n"))).ok());

  EXPECT_THAT(looked_at_, ElementsAre("/dev/zero"));
}

TEST_F(Reloading, MessagesShowNoValueFromTheEnvironment) {
  const std::string text = file_with("'${SECRET}:1', '${SECRET}:1'");
  const auto wrong = wait_for(preview(text));
  const auto changes = wait_for(preview(file_with("'${SECRET}:1'")));
  write(text);
  const auto rejected = wait_for(reloader_->reload());

  ASSERT_TRUE(wrong.ok());
  ASSERT_THAT(wrong->problems, SizeIs(1));
  EXPECT_THAT(wrong->problems[0].message, HasSubstr("${SECRET}"));
  EXPECT_THAT(wrong->problems[0].message, Not(HasSubstr("hidden")));
  EXPECT_EQ(rejected, wrong->problems);
  ASSERT_TRUE(changes.ok());
  EXPECT_THAT(changes->changes, Contains("pool chat: backend ${SECRET}:1: added"));
}

TEST_F(Reloading, APreviewLooksUpNamesOfListenersAtOnceAndNotForLong) {
  std::string text = "listeners:\n";
  for (int i = 0; i < 12; ++i) {
    text += "- {name: l" + std::to_string(i) + ", address: 'slow" + std::to_string(i) +
            ".invalid:80'}\n";
  }
  text += "pools: [{name: chat, backends: ['127.0.0.1:1']}]\n";
  const Instant begun = Clock::now();

  const auto asked = wait_for(preview(text));

  EXPECT_LT(Clock::now() - begun, 10s);
  ASSERT_TRUE(asked.ok());
  ASSERT_THAT(asked->problems, SizeIs(1));
  EXPECT_EQ(asked->problems[0].path, "listeners[0].address");
}

TEST_F(Reloading, APreviewLooksUpAFewNamesOnly) {
  std::string text = "listeners:\n";
  for (int i = 0; i < 200; ++i) {
    text += "- {name: l" + std::to_string(i) + ", address: 'many" + std::to_string(i) +
            ".invalid:80'}\n";
  }
  text += "pools: [{name: chat, backends: ['127.0.0.1:1']}]\n";

  const auto asked = wait_for(preview(text));

  ASSERT_TRUE(asked.ok());
  EXPECT_THAT(asked->problems, IsEmpty());
  EXPECT_THAT(asked->unchecked, SizeIs(1));
}

TEST_F(Reloading, APreviewEndsWhenItsClientHasLeft) {
  std::stop_source left;
  left.request_stop();

  const auto asked =
      wait_for(reloader_->preview({.text = file_with("'127.0.0.1:2'"), .left = left.get_token()}));

  ASSERT_FALSE(asked.ok());
  EXPECT_EQ(asked.error().fault, Fault::client_gone);
}

TEST_F(Reloading, ALargeFileDoesNotBlockTheControlLoop) {
  const std::string text = file_with_routes(10'000);
  Duration blocked = 1h;
  // Other processes take the processor away now and then: the best of a few attempts counts.
  for (int attempt = 0; attempt < 5 && blocked >= 50ms; ++attempt) {
    loop_.take_max_iteration_time();

    const auto preview = wait_for(this->preview(text));

    ASSERT_TRUE(preview.ok());
    EXPECT_THAT(preview->problems, IsEmpty());
    blocked = loop_.take_max_iteration_time();
  }
  EXPECT_LT(blocked, 50ms);
}

TEST_F(Reloading, RefusesASecondPreviewWhileOneIsInProgress) {
  auto first = preview(file_with_routes(1000));

  const auto second = wait_for(preview(""));

  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().detail, HasSubstr("another preview is in progress"));
  EXPECT_TRUE(wait_for(std::move(first)).ok());
  EXPECT_TRUE(wait_for(preview("")).ok());
}

TEST_F(Reloading, APreviewGoesOnWithoutItsClient) {
  {
    auto left = preview(file_with_routes(1000));
  }

  EXPECT_TRUE(loop_.run_until([this] { return wait_for(preview("")).ok(); }, Clock::now() + 20s));
}

TEST_F(Reloading, ReloadsThatAreQueuedMeanwhileEndWithTheNewestFile) {
  write(file_with("'127.0.0.1:7'"));
  reloader_->queue_reload();
  loop_.run_until([this] { return backends().front() == "127.0.0.1:7 1"; }, Clock::now() + 20s);
  write(file_with_routes(3000));
  reloader_->queue_reload();
  loop_.run_until([] { return true; });  // the reload has begun
  write(file_with("'127.0.0.1:8'"));
  reloader_->queue_reload();
  write(file_with("'127.0.0.1:9'"));
  reloader_->queue_reload();

  EXPECT_TRUE(loop_.run_until([this] { return backends().front() == "127.0.0.1:9 1"; },
                              Clock::now() + 20s));
}

TEST_F(Reloading, ABackendThatIsUndrainedDuringAReloadStaysInRotation) {
  const auto shared = [this]() -> SharedBackend& {
    return status_.snapshot()->pool_set->pools()[0].state->backends()[0]->shared();
  };
  shared().state.take_out(OutOfRotation::draining);
  auto reload = reloader_->reload();
  ASSERT_FALSE(reload.ready());

  status_.snapshot()->pool_set->pools()[0].state->backends()[0]->put_back(OutOfRotation::draining);

  EXPECT_THAT(wait_for(std::move(reload)), IsEmpty());
  EXPECT_FALSE(shared().state.is_out(OutOfRotation::draining));
}

TEST_F(Reloading, ADrainedBackendStaysDrained) {
  const auto shared = [this]() -> SharedBackend& {
    return status_.snapshot()->pool_set->pools()[0].state->backends()[0]->shared();
  };
  shared().state.take_out(OutOfRotation::draining);

  EXPECT_THAT(wait_for(reloader_->reload()), IsEmpty());

  EXPECT_TRUE(shared().state.is_out(OutOfRotation::draining));
}

TEST_F(Reloading, RefusesAnAdminKeyThatCannotBeRead) {
  const auto before = status_.snapshot();
  write(file_with(
      "'127.0.0.1:1'",
      "admin: {tls: {certificates: [{cert: /nowhere/cert.pem, key: /nowhere/key.pem}]}}\n"));

  const auto problems = wait_for(reloader_->reload());

  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].path, "admin.tls");
  EXPECT_THAT(problems[0].message, HasSubstr("/nowhere/cert.pem"));
  EXPECT_EQ(status_.snapshot()->config, before->config);
}

TEST_F(Reloading, AWeightHoldsUntilTheFileBringsAnother) {
  EXPECT_TRUE(wait_for(reloader_->set_weight("chat", "127.0.0.1:1", 9)).ok());
  EXPECT_THAT(backends(), ElementsAre("127.0.0.1:1 9", "127.0.0.1:2 1"));

  EXPECT_THAT(wait_for(reloader_->reload()), IsEmpty());
  EXPECT_THAT(backends(), ElementsAre("127.0.0.1:1 9", "127.0.0.1:2 1"));

  write(file_with("{address: '127.0.0.1:1', weight: 4}, '127.0.0.1:2'"));
  EXPECT_THAT(wait_for(reloader_->reload()), IsEmpty());
  EXPECT_THAT(backends(), ElementsAre("127.0.0.1:1 4", "127.0.0.1:2 1"));
}

TEST_F(Reloading, ChangesNothingDuringTheShutdown) {
  const auto before = backends();
  int passed_on = 0;
  reloader_->begin_shutdown({.reason = "the daemon is shutting down",
                             .help = "start it again",
                             .pass_on_reload = [&] { ++passed_on; }});

  const auto problems = wait_for(reloader_->reload());
  const auto weight = wait_for(reloader_->set_weight("chat", "127.0.0.1:1", 9));
  reloader_->queue_reload();
  loop_.run_until([&] { return passed_on > 0; }, Clock::now() + 20s);

  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_THAT(problems[0].message, HasSubstr("shutting down"));
  EXPECT_THAT(problems[0].help, HasSubstr("start it again"));
  ASSERT_FALSE(weight.ok());
  EXPECT_EQ(weight.error().fault, Fault::draining);
  EXPECT_EQ(passed_on, 1);
  EXPECT_EQ(backends(), before);
}

}  // namespace
}  // namespace evenkeel
