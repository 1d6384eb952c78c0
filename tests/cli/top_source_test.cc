#include "cli/top_source.h"

#include "admin/running_admin.h"

namespace evenkeel::testing {
namespace {

class FetchingSnapshots : public RunningAdmin {};

TEST_F(FetchingSnapshots, GetsTheDocumentsOfADaemonUntilItIsGone) {
  start();
  const auto client = AdminClient::open({.address = host()});
  ASSERT_TRUE(client.ok());

  const auto snapshot = fetch_snapshot(**client);

  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(snapshot->status["version"].text(), "1.2.3");
  EXPECT_EQ(snapshot->pools.items().size(), 2u);
  EXPECT_EQ(snapshot->backends.items().size(), 4u);
  server_.reset();
  EXPECT_FALSE(fetch_snapshot(**client).ok());
}

}  // namespace
}  // namespace evenkeel::testing
