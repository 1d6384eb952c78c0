#include "server/log_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/base/log.h"
#include "evenkeel/json/value.h"

namespace evenkeel::testing {
namespace {

TEST(LogConfig, SetsTheLevel) {
  apply_log_config({.level = log::Level::error, .format = LogFormat::text});
  EXPECT_EQ(log::level(), log::Level::error);
  apply_log_config(
      {.level = log::Level::warning, .levels = {{log::Subsystem::health, log::Level::debug}}});
  EXPECT_EQ(log::health.level(), log::Level::debug);
  EXPECT_EQ(log::dns.level(), log::Level::warning);
  apply_log_config({});
  EXPECT_EQ(log::health.level(), log::Level::info);
  EXPECT_EQ(log::level(), log::Level::info);
}

}  // namespace
}  // namespace evenkeel::testing
