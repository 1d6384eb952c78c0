#include "evenkeel/http/trace_context.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace evenkeel {
namespace {

constexpr const char* trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr const char* span_id = "00f067aa0ba902b7";
const std::string valid = std::string("00-") + trace_id + "-" + span_id + "-01";

TEST(TraceParent, ReadsTheIdsAndTheFlag) {
  const auto parent = parse_traceparent(valid);
  ASSERT_TRUE(parent);
  EXPECT_EQ(parent->trace_id, trace_id);
  EXPECT_EQ(parent->span_id, span_id);
  EXPECT_TRUE(parent->sampled);

  std::string other = valid;
  other.replace(53, 2, "fe");  // flags that are not defined yet
  ASSERT_TRUE(parse_traceparent(other));
  EXPECT_FALSE(parse_traceparent(other)->sampled);
}

TEST(TraceParent, OfALaterVersionMayBeLonger) {
  std::string later = valid;
  later.replace(0, 2, "cc");
  EXPECT_TRUE(parse_traceparent(later));
  EXPECT_TRUE(parse_traceparent(later + "-what-follows"));
  EXPECT_FALSE(parse_traceparent(later + ".what-follows"));
  EXPECT_FALSE(parse_traceparent(valid + "-what-follows"));
}

TEST(TraceParent, AnyWrongCharacterMakesItInvalid) {
  for (std::size_t i = 0; i < valid.size(); ++i) {
    for (const char wrong : {'g', 'A', ' ', '\0', '\xff', '/'}) {
      std::string text = valid;
      text[i] = wrong;
      EXPECT_FALSE(parse_traceparent(text)) << text;
    }
  }
}

TEST(TraceParent, IsInvalidIfItIsShortOrAnIdIsZero) {
  for (std::size_t size = 0; size < valid.size(); ++size) {
    EXPECT_FALSE(parse_traceparent(valid.substr(0, size))) << size;
  }
  std::string no_trace = valid;
  no_trace.replace(3, 32, 32, '0');
  EXPECT_FALSE(parse_traceparent(no_trace));
  std::string no_span = valid;
  no_span.replace(36, 16, 16, '0');
  EXPECT_FALSE(parse_traceparent(no_span));
  std::string no_version = valid;
  no_version.replace(0, 2, "ff");
  EXPECT_FALSE(parse_traceparent(no_version));
}

TEST(RequestTrace, GoesOnWithTheTraceOfTheClient) {
  Rng rng(1);
  RequestTrace trace(rng, *parse_traceparent(valid));
  EXPECT_EQ(trace.trace_id(), trace_id);
  EXPECT_EQ(trace.parent(), span_id);
  EXPECT_TRUE(trace.is_sampled());

  std::set<std::string, std::less<>> told;
  for (std::size_t attempt = 0; attempt < 3; ++attempt) {
    trace.begin_attempt(attempt);
    const auto own = parse_traceparent(trace.traceparent());
    ASSERT_TRUE(own);
    EXPECT_EQ(own->trace_id, trace_id);
    EXPECT_TRUE(own->sampled);
    told.emplace(own->span_id);
  }
  EXPECT_EQ(told.size(), 3u);
  EXPECT_FALSE(told.contains(span_id));
}

TEST(RequestTrace, BeginsOneOfItsOwn) {
  Rng rng(1);
  const RequestTrace first(rng, TraceSampler(1));
  const RequestTrace second(rng, TraceSampler(0));
  EXPECT_TRUE(parse_traceparent(first.traceparent()));
  EXPECT_TRUE(parse_traceparent(second.traceparent()));
  EXPECT_NE(first.trace_id(), second.trace_id());
  EXPECT_NE(first.span(), second.span());
  EXPECT_TRUE(first.parent().empty());
  EXPECT_TRUE(first.is_sampled());
  EXPECT_FALSE(second.is_sampled());
}

TEST(TraceSampler, TakesItsShare) {
  Rng rng(1);
  const TraceSampler sampler(0.01);
  int taken = 0;
  for (int i = 0; i < 100'000; ++i) taken += RequestTrace(rng, sampler).is_sampled() ? 1 : 0;
  EXPECT_GT(taken, 800);
  EXPECT_LT(taken, 1200);
}

}  // namespace
}  // namespace evenkeel
