#include "evenkeel/filter/trace.h"

#include <gtest/gtest.h>

#include <string>

namespace evenkeel {
namespace {

/// Stands behind the filter and keeps what it was given.
class RecordingHandler final : public Handler {
 public:
  Task<Result<Response>> handle(Request& request) override {
    parents = request.fields.count(FieldId::traceparent);
    parent = request.fields.value(FieldId::traceparent).value_or("");
    state = request.fields.value(FieldId::tracestate).value_or("");
    return Result<Response>(Response{});
  }
  std::size_t parents = 0;
  std::string parent;
  std::string state;
};

class TraceFilterTest : public testing::Test {
 protected:
  void pass() { EXPECT_TRUE(filter.handle(request, backend).ready()); }

  TraceFilter filter{1, {.otlp = "http://c/v1/traces", .sample = 0}};
  RecordingHandler backend;
  Request request;
};

constexpr const char* valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST_F(TraceFilterTest, ReplacesTheSpanOfTheClientAndPassesItsStateOn) {
  request.fields.add("TraceParent", valid);
  request.fields.add("tracestate", "a=b");
  pass();
  EXPECT_EQ(backend.parents, 1u);
  EXPECT_EQ(backend.parent, request.info.trace->traceparent());
  EXPECT_EQ(backend.parent.substr(0, 36), std::string(valid).substr(0, 36));
  EXPECT_NE(backend.parent, valid);
  EXPECT_EQ(backend.state, "a=b");
}

TEST_F(TraceFilterTest, BeginsATraceInPlaceOfAnInvalidOne) {
  request.fields.add("traceparent", "00-x");
  request.fields.add("tracestate", "a=b");
  pass();
  EXPECT_EQ(backend.parents, 1u);
  EXPECT_TRUE(parse_traceparent(backend.parent));
  EXPECT_EQ(backend.state, "");
}

TEST_F(TraceFilterTest, BelievesNoneOfSeveral) {
  request.fields.add("traceparent", valid);
  request.fields.add("traceparent", valid);
  pass();
  EXPECT_EQ(backend.parents, 1u);
  EXPECT_TRUE(request.info.trace->parent().empty());
}

TEST_F(TraceFilterTest, WhatTheBackendIsToldFollowsTheAttempt) {
  pass();
  const std::string_view told = *request.fields.value(FieldId::traceparent);
  request.info.trace->begin_attempt(0);
  const std::string first(told);
  request.info.trace->begin_attempt(1);
  EXPECT_NE(first, told);
}

}  // namespace
}  // namespace evenkeel
