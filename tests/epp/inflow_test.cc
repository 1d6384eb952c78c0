#include "epp/inflow.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

struct InflowTest : testing::Test {
  Loop loop;
  Signal taken{loop};
  Inflow inflow{loop, taken};

  std::string read() {
    auto next = inflow.read();
    EXPECT_TRUE(
        loop.run_until([&] { return next.ready(); }, Clock::now() + std::chrono::seconds(20)));
    auto chunk = next.take();
    if (!chunk) return to_string(chunk.error().fault);
    return std::string(chunk->bytes) + (chunk->last ? "|" : "");
  }
};

TEST_F(InflowTest, GivesWhatHasComeAtOnce) {
  inflow.add("one ");
  inflow.add("two");
  EXPECT_EQ(inflow.waiting(), 7U);

  EXPECT_EQ(read(), "one two");

  EXPECT_EQ(inflow.waiting(), 0U);
  EXPECT_TRUE(taken.raised());
}

TEST_F(InflowTest, WaitsForBytes) {
  auto next = inflow.read();
  EXPECT_FALSE(next.ready());
  inflow.add("one");
  inflow.end();
  EXPECT_TRUE(
      loop.run_until([&] { return next.ready(); }, Clock::now() + std::chrono::seconds(20)));
  const auto chunk = next.take();
  ASSERT_TRUE(chunk);
  EXPECT_EQ(chunk->bytes, "one");
  EXPECT_TRUE(chunk->last);
}

TEST_F(InflowTest, EndsWithTheTrailers) {
  ext_proc::HeaderMap trailers;
  trailers.add_headers()->set_key("x-sum");
  trailers.mutable_headers(0)->set_raw_value("1");
  inflow.end(trailers);

  const auto chunk = inflow.read().take();

  ASSERT_TRUE(chunk);
  ASSERT_NE(chunk->trailers, nullptr);
  EXPECT_EQ(chunk->trailers->value("x-sum"), "1");
}

TEST_F(InflowTest, FailsBehindTheBytesThatHaveCome) {
  inflow.add("one");
  inflow.fail({.fault = Fault::client_gone});
  EXPECT_EQ(read(), "one");
  EXPECT_EQ(read(), "client_gone");
}

TEST_F(InflowTest, DoesNotEndOnceItHasFailed) {
  inflow.add("one");
  inflow.fail({.fault = Fault::body_too_large});
  inflow.add("three");
  inflow.end();
  EXPECT_EQ(read(), "one");
  EXPECT_EQ(read(), "body_too_large");
}

TEST_F(InflowTest, DoesNotFailOnceItHasEnded) {
  inflow.end();
  inflow.fail({.fault = Fault::client_gone});
  EXPECT_EQ(read(), "|");
}

}  // namespace
}  // namespace evenkeel
