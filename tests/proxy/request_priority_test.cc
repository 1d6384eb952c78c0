#include "proxy/request_priority.h"

#include <gtest/gtest.h>

#include <optional>
#include <string_view>

namespace evenkeel {
namespace {

Priority of(std::string_view field, std::optional<Priority> route = std::nullopt) {
  Request request;
  if (!field.empty()) request.fields.add("X-Priority", field);
  return priority_of(request, route);
}

TEST(RequestPriority, IsWhatTheClientSays) {
  EXPECT_EQ(of("interactive"), Priority::interactive);
  EXPECT_EQ(of("Batch"), Priority::batch);
  EXPECT_EQ(of("standard"), Priority::standard);
}

TEST(RequestPriority, IsStandardWithoutAKnownWord) {
  EXPECT_EQ(of(""), Priority::standard);
  EXPECT_EQ(of("urgent"), Priority::standard);
  EXPECT_EQ(of("1"), Priority::standard);
  EXPECT_EQ(of("batch, interactive"), Priority::standard);
}

TEST(RequestPriority, IsAtMostThatOfTheTenant) {
  const auto of_tenant = [](std::optional<Priority> tenant, std::string_view field,
                            std::optional<Priority> route = std::nullopt) {
    Request request;
    request.info.identity.tenant = {.name = "acme", .max_priority = tenant};
    if (!field.empty()) request.fields.add("x-priority", field);
    return priority_of(request, route);
  };

  EXPECT_EQ(of_tenant(Priority::interactive, ""), Priority::interactive);
  EXPECT_EQ(of_tenant(Priority::interactive, "batch"), Priority::batch);
  EXPECT_EQ(of_tenant(Priority::batch, ""), Priority::batch);
  EXPECT_EQ(of_tenant(Priority::batch, "interactive"), Priority::batch);
  EXPECT_EQ(of_tenant(Priority::interactive, "", Priority::batch), Priority::batch);
  EXPECT_EQ(of_tenant(Priority::batch, "", Priority::interactive), Priority::batch);
  EXPECT_EQ(of_tenant(std::nullopt, "interactive"), Priority::interactive);
  EXPECT_EQ(of_tenant(std::nullopt, ""), Priority::standard);
}

TEST(RequestPriority, IsAtMostStandardWhereTheTenantSaysSo) {
  const auto of_none = [](std::string_view field, std::optional<Priority> route = std::nullopt) {
    Request request;
    request.info.identity.tenant.max_priority = Priority::standard;
    if (!field.empty()) request.fields.add("x-priority", field);
    return priority_of(request, route);
  };

  EXPECT_EQ(of_none("interactive"), Priority::standard);
  EXPECT_EQ(of_none("interactive", Priority::interactive), Priority::standard);
  EXPECT_EQ(of_none("", Priority::interactive), Priority::standard);
  EXPECT_EQ(of_none(""), Priority::standard);
  EXPECT_EQ(of_none("batch"), Priority::batch);
  EXPECT_EQ(of_none("interactive", Priority::batch), Priority::batch);
}

TEST(RequestPriority, IsAtMostThatOfTheRoute) {
  EXPECT_EQ(of("", Priority::batch), Priority::batch);
  EXPECT_EQ(of("interactive", Priority::batch), Priority::batch);
  EXPECT_EQ(of("interactive", Priority::standard), Priority::standard);
  EXPECT_EQ(of("batch", Priority::interactive), Priority::batch);
  EXPECT_EQ(of("", Priority::interactive), Priority::interactive);
}

}  // namespace
}  // namespace evenkeel
