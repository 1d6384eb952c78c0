#include "proxy/shared_answer.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace evenkeel {
namespace {

/// A body whose pieces the test gives one by one.
class Told final : public Body {
 public:
  struct Source {
    explicit Source(Loop& loop) : more(loop) {}
    std::deque<std::string> pieces;
    bool complete = false;
    bool broken = false;
    bool dropped = false;
    RequestOutcome outcome;  // when it was dropped
    std::size_t reads = 0;
    Signal more;
  };
  Told(Source& source, const RequestInfo& info) : source_(source), info_(info) {}
  ~Told() override {
    source_.dropped = true;
    source_.outcome = info_.outcome;
  }

  Task<Result<Chunk>> read() override {
    ++source_.reads;
    while (source_.pieces.empty() && !source_.complete && !source_.broken)
      co_await source_.more.wait();
    if (!source_.pieces.empty()) {
      piece_ = std::move(source_.pieces.front());
      source_.pieces.pop_front();
      co_return Chunk{.bytes = piece_};
    }
    if (source_.broken) co_return Error{.fault = Fault::backend_closed, .side = Side::backend};
    co_return Chunk{.last = true};
  }

 private:
  Source& source_;
  const RequestInfo& info_;
  std::string piece_;
};

/// A request that reads a shared answer.
struct Client {
  Request request;
  std::unique_ptr<SharedAnswer::Reader> reader;
  Task<void> reading;
  std::string got;
  bool complete = false;
  std::optional<Fault> fault;
  int status = 0;

  Task<void> read_all() {
    auto head = co_await reader->head();
    if (!head) {
      fault = head.error().fault;
      co_return;
    }
    status = head->status;
    while (true) {
      auto next = reader->read();
      auto chunk = co_await next;
      if (!chunk) {
        fault = chunk.error().fault;
        co_return;
      }
      got += chunk->bytes;
      if (chunk->last) break;
    }
    complete = true;
  }
};

class SharedAnswers : public testing::Test, private SharedAnswer::Owner {
 protected:
  Request request() const {
    Request request{.method = "POST", .path = "/v1/chat/completions"};
    request.info.inference = std::make_unique<InferenceInfo>();
    return request;
  }
  Task<Result<Response>> answer(const RequestInfo& info, bool fails) {
    co_await head_.wait();
    if (fails) co_return Error{.fault = Fault::no_backend};
    Response response;
    response.fields.add("set-cookie", "a=b");
    response.body = std::make_unique<Told>(source_, info);
    co_return response;
  }
  void begin(bool fails = false) {
    const Request asked = request();
    SharedAnswer::Owner& owner = *this;
    const auto shared =
        std::make_shared<SharedAnswer>(loop_, owner, AnswerKey(), asked, "the body");
    shared->request().info.outcome.backend = "b:1";
    shared->request().info.timings.head_sent = Clock::now();
    shared_ = shared;
    client(false, shared);
    shared->start(answer(shared->request().info, fails));
    if (!fails) head_.raise();
  }
  /// Another client that asks the same.
  Client& join() { return client(true, shared_.lock()); }
  Client& client(bool joins, std::shared_ptr<SharedAnswer> shared) {
    Client& made = clients_.emplace_back();
    made.request = request();
    made.reader =
        std::make_unique<SharedAnswer::Reader>(std::move(shared), made.request.info, joins);
    made.reading = made.read_all();
    return made;
  }
  void leave(Client& client) {
    client.reading.drop();
    client.reader.reset();
  }
  void tell(std::string piece) {
    source_.pieces.push_back(std::move(piece));
    source_.more.raise();
    settle();
  }
  void finish() {
    source_.complete = true;
    source_.more.raise();
    settle();
  }
  /// Lets all that can happen without the test happen.
  void settle() {
    int left = 50;
    loop_.run_until([&] {
      loop_.wake_soon(tick_);
      return --left == 0;
    });
  }
  bool memory_is_scarce() const override { return scarce_; }
  void on_closed(SharedAnswer&) override { ++closed_; }
  void nothing() {}

  Loop loop_;
  MethodWaiter<&SharedAnswers::nothing> tick_{*this};
  Signal head_{loop_};
  Told::Source source_{loop_};
  std::weak_ptr<SharedAnswer> shared_;
  std::deque<Client> clients_;
  int closed_ = 0;
  bool scarce_ = false;
};

TEST_F(SharedAnswers, AreReadByAllWhoJoinHoweverLate) {
  begin();
  tell("one ");
  Client& late = join();
  settle();
  EXPECT_EQ(clients_[0].got, "one ");
  EXPECT_EQ(late.got, "one ");
  tell("two");
  finish();
  Client& first = clients_[0];
  for (const Client* const each : {&first, &late}) {
    EXPECT_EQ(each->got, "one two");
    EXPECT_TRUE(each->complete);
  }
  EXPECT_TRUE(source_.dropped) << "the backend is free while they read";
  EXPECT_EQ(closed_, 1);
}

TEST_F(SharedAnswers, EndWithTheirLastReader) {
  begin();
  Client& second = join();
  tell("one ");
  leave(clients_[0]);
  settle();
  EXPECT_FALSE(source_.dropped);
  tell("two");
  EXPECT_EQ(second.got, "one two");
  leave(second);
  EXPECT_TRUE(source_.dropped);
  EXPECT_TRUE(shared_.expired());
  EXPECT_EQ(closed_, 1);
}

TEST_F(SharedAnswers, CountForTheOldestOfThoseThatStay) {
  begin();
  Client& second = join();
  Client& third = join();
  tell("one");
  leave(clients_[0]);
  EXPECT_TRUE(is_reused(clients_[0].request.info.outcome.source));
  finish();
  leave(third);
  leave(second);
  EXPECT_EQ(second.request.info.outcome.source, AnswerSource::miss);
  EXPECT_EQ(second.request.info.outcome.backend, "b:1");
  EXPECT_NE(second.request.info.timings.head_sent, Instant{});
  EXPECT_EQ(third.request.info.outcome.source, AnswerSource::coalesced);
  EXPECT_EQ(third.request.info.timings.head_sent, Instant{});
}

TEST_F(SharedAnswers, TellAllReadersOfAnError) {
  begin(true);
  Client& second = join();
  head_.raise();
  settle();
  EXPECT_EQ(clients_[0].fault, Fault::no_backend);
  EXPECT_EQ(second.fault, Fault::no_backend);
}

TEST_F(SharedAnswers, BreakOffForAllReaders) {
  begin();
  Client& second = join();
  tell("one");
  source_.broken = true;
  source_.more.raise();
  settle();
  for (const Client* const each : {&clients_[0], &second}) {
    EXPECT_EQ(each->got, "one");
    EXPECT_EQ(each->fault, Fault::backend_closed);
  }
}

TEST_F(SharedAnswers, TellTheBackendsCountersHowTheyEnd) {
  begin();
  tell("one");
  finish();
  EXPECT_EQ(source_.outcome.status, 200);
  EXPECT_EQ(source_.outcome.fault, std::nullopt);
}

TEST_F(SharedAnswers, CountAsAbortedWhenTheirLastReaderLeaves) {
  begin();
  tell("one");
  leave(clients_[0]);
  EXPECT_TRUE(source_.dropped);
  EXPECT_EQ(source_.outcome.fault, Fault::client_gone);
}

TEST_F(SharedAnswers, CountAsBrokenWhenTheirBackendBreaksThem) {
  begin();
  tell("one");
  source_.broken = true;
  source_.more.raise();
  settle();
  EXPECT_TRUE(source_.dropped);
  EXPECT_EQ(source_.outcome.fault, Fault::backend_closed);
}

TEST_F(SharedAnswers, LeaveTheirPlanToTheRequestThatPays) {
  begin();
  auto plan = std::make_shared<int>();
  const std::weak_ptr<int> kept = plan;
  shared_.lock()->request().info.plan = std::move(plan);
  finish();
  leave(clients_[0]);
  EXPECT_TRUE(shared_.expired());
  EXPECT_FALSE(kept.expired()) << "the name of its backend is the plan's";
  clients_.clear();
  EXPECT_TRUE(kept.expired());
}

TEST_F(SharedAnswers, GiveACookieToTheFirstAlone) {
  begin();
  auto shared = shared_.lock();
  Request other = request();
  settle();
  SharedAnswer::Reader reader(shared, other.info, true);
  auto head = reader.head().take();
  ASSERT_TRUE(head);
  EXPECT_EQ(head->fields.find("set-cookie"), nullptr);
}

TEST_F(SharedAnswers, AreReadNoFasterThanTheirFastestReader) {
  begin();
  settle();
  leave(join());
  clients_[0].reading.drop();  // it reads no more
  for (int i = 0; i < 10; ++i) tell("more");
  EXPECT_LE(source_.reads, 2u);
}

TEST_F(SharedAnswers, LeaveBehindAReaderThatIsTooSlow) {
  begin();
  auto shared = shared_.lock();
  Request slow = request();
  SharedAnswer::Reader reader(shared, slow.info, true);
  settle();
  const std::string piece(1024 * 1024, 'x');
  for (int i = 0; i < 10; ++i) tell(piece);
  finish();
  EXPECT_TRUE(clients_[0].complete);
  EXPECT_EQ(clients_[0].got.size(), 10 * piece.size());
  EXPECT_EQ(closed_, 1);
  const auto chunk = reader.read().take();
  ASSERT_FALSE(chunk);
  EXPECT_EQ(chunk.error().fault, Fault::write_timeout);
}

TEST_F(SharedAnswers, LeaveNoLoneReaderBehindWhoseAnswerComesInLargePieces) {
  begin();
  scarce_ = true;
  const std::string piece(4 * SharedAnswer::scarce_held_bytes, 'x');
  for (int i = 0; i < 3; ++i) tell(piece);
  finish();
  EXPECT_TRUE(clients_[0].complete);
  EXPECT_EQ(clients_[0].got.size(), 3 * piece.size());
}

TEST_F(SharedAnswers, LeaveBehindMoreReadersWhileMemoryIsScarce) {
  begin();
  Request slow = request();
  SharedAnswer::Reader reader(shared_.lock(), slow.info, true);
  settle();
  const std::string piece(SharedAnswer::scarce_held_bytes, 'x');
  for (int i = 0; i < 3; ++i) tell(piece);
  settle();
  EXPECT_EQ(closed_, 0);
  scarce_ = true;
  tell(piece);
  finish();
  EXPECT_TRUE(clients_[0].complete);
  EXPECT_EQ(closed_, 1);
  const auto chunk = reader.read().take();
  ASSERT_FALSE(chunk);
  EXPECT_EQ(chunk.error().fault, Fault::write_timeout);
}

}  // namespace
}  // namespace evenkeel
