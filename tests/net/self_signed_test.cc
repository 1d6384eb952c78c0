// Certificates that a listener makes itself.
#include <gtest/gtest.h>

#include <chrono>

#include "evenkeel/net/tls.h"

namespace evenkeel {
namespace {

const ListenerTlsConfig self_signed{.self_signed = true};

TEST(SelfSignedCertificate, NeedsNoFilesAndIsValidForYears) {
  EXPECT_TRUE(TlsServerContext::check(self_signed).empty());

  const auto server = TlsServerContext::build(self_signed, "picker");

  ASSERT_TRUE(server);
  ASSERT_EQ((*server)->certificates().size(), 1U);
  EXPECT_EQ((*server)->certificates()[0].name, "evenkeel");
  EXPECT_GT((*server)->certificates()[0].expires,
            std::chrono::system_clock::now() + std::chrono::years(5));
}

TEST(SelfSignedCertificate, IsNoneWhereTheAuthoritiesOfClientsCannotBeRead) {
  ListenerTlsConfig config = self_signed;
  config.client_ca = "/no/such/file";

  EXPECT_FALSE(TlsServerContext::check(config).empty());
  EXPECT_FALSE(TlsServerContext::build(config, "picker"));
}

}  // namespace
}  // namespace evenkeel
