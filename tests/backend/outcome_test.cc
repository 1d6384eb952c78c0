#include "evenkeel/backend/outcome.h"

#include <gtest/gtest.h>

#include <array>

namespace evenkeel::testing {
namespace {

TEST(Outcome, OfAStatus) {
  struct Row {
    int status;
    AttemptOutcome outcome;
  };
  constexpr std::array rows{
      Row{101, AttemptOutcome::success},      Row{200, AttemptOutcome::success},
      Row{304, AttemptOutcome::success},      Row{400, AttemptOutcome::client_error},
      Row{401, AttemptOutcome::client_error}, Row{404, AttemptOutcome::client_error},
      Row{408, AttemptOutcome::client_error}, Row{413, AttemptOutcome::client_error},
      Row{422, AttemptOutcome::client_error}, Row{499, AttemptOutcome::client_error},
      Row{429, AttemptOutcome::overloaded},   Row{503, AttemptOutcome::overloaded},
      Row{500, AttemptOutcome::failed},       Row{501, AttemptOutcome::failed},
      Row{502, AttemptOutcome::failed},       Row{504, AttemptOutcome::failed},
      Row{529, AttemptOutcome::failed},       Row{599, AttemptOutcome::failed},
  };
  for (const Row& row : rows) {
    const AttemptResult result = classify(row.status);
    EXPECT_EQ(result.outcome, row.outcome) << row.status;
    EXPECT_EQ(result.status, row.status);
    EXPECT_FALSE(result.fault);
  }
}

TEST(Outcome, OfAnErrorOfTheBackend) {
  struct Row {
    Fault fault;
    AttemptOutcome outcome;
  };
  constexpr std::array rows{
      Row{Fault::connect_failed, AttemptOutcome::unreachable},
      Row{Fault::connect_timeout, AttemptOutcome::unreachable},
      Row{Fault::tls_failed, AttemptOutcome::unreachable},
      Row{Fault::first_byte_timeout, AttemptOutcome::failed},
      Row{Fault::idle_timeout, AttemptOutcome::failed},
      Row{Fault::backend_closed, AttemptOutcome::failed},
      Row{Fault::backend_protocol, AttemptOutcome::failed},
      Row{Fault::deadline_exceeded, AttemptOutcome::abandoned},
  };
  for (const Row& row : rows) {
    const AttemptResult result = classify(Error{.fault = row.fault, .side = Side::backend});
    EXPECT_EQ(result.outcome, row.outcome) << to_string(row.fault);
    EXPECT_EQ(result.fault, row.fault);
    EXPECT_EQ(result.status, 0);
  }
}

TEST(Outcome, OfAnErrorOnAnotherSideSaysNothingOfTheBackend) {
  for (int fault = 0; fault < fault_count; ++fault) {
    for (const Side side : {Side::client, Side::proxy}) {
      const Error error{.fault = static_cast<Fault>(fault), .side = side};
      EXPECT_EQ(classify(error).outcome, AttemptOutcome::abandoned) << to_string(error.fault);
    }
  }
}

TEST(Outcome, OfARequestThatMayBeSentAgainSaysNothing) {
  const Error refused{.fault = Fault::backend_closed, .side = Side::backend, .not_processed = true};
  const Error raced{.fault = Fault::backend_closed, .side = Side::backend, .idle_close_race = true};
  const Error no_link{.fault = Fault::connect_failed, .side = Side::backend, .not_processed = true};

  EXPECT_EQ(classify(refused).outcome, AttemptOutcome::abandoned);
  EXPECT_EQ(classify(raced).outcome, AttemptOutcome::abandoned);
  EXPECT_EQ(classify(no_link).outcome, AttemptOutcome::unreachable);
}

TEST(Outcome, OfARequestThatWaitedForItsClientSaysNothing) {
  Error error{.fault = Fault::backend_closed, .side = Side::backend};
  EXPECT_EQ(classify(error).outcome, AttemptOutcome::failed);

  error.awaited_client = true;
  EXPECT_EQ(classify(error).outcome, AttemptOutcome::abandoned);
}

TEST(Outcome, OfAStreamResetForTheRequestIsNone) {
  constexpr std::uint32_t protocol_error = 1;
  constexpr std::uint32_t internal_error = 2;
  Error error{.fault = Fault::backend_closed, .side = Side::backend, .reset_code = protocol_error};
  EXPECT_EQ(classify(error).outcome, AttemptOutcome::abandoned);

  error.reset_code = internal_error;
  EXPECT_EQ(classify(error).outcome, AttemptOutcome::failed);
}

}  // namespace
}  // namespace evenkeel::testing
