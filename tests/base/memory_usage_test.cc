#include "evenkeel/base/memory_usage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace evenkeel {
namespace {

constexpr std::uint64_t MiB = 1024 * 1024;

class MemoryUsageTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "memory-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    root = folder;
    write("proc/meminfo", "MemFree: 1 kB\nMemTotal:       2048 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root); }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  MemoryUsage usage() const { return MemoryUsage(root); }

  std::string root;
};

TEST_F(MemoryUsageTest, HasTheSmallestLimitOfTheGroupsAroundIt) {
  write("proc/self/cgroup", "0::/slice/service\n");
  write("sys/fs/cgroup/slice/service/memory.max", "max\n");
  write("sys/fs/cgroup/slice/memory.max", "104857600\n");
  EXPECT_EQ(usage().cgroup_limit(), 100 * MiB);

  write("sys/fs/cgroup/slice/service/memory.max", "52428800\n");
  EXPECT_EQ(usage().cgroup_limit(), 50 * MiB);
}

TEST_F(MemoryUsageTest, HasNoLimitWhereNoGroupHasOne) {
  EXPECT_EQ(usage().cgroup_limit(), std::nullopt) << "no cgroups at all";
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/cgroup.procs", "");
  EXPECT_EQ(usage().cgroup_limit(), std::nullopt);
  EXPECT_EQ(usage().machine_memory(), 2 * MiB);
}

TEST_F(MemoryUsageTest, ReadsTheLimitOfACgroupOfVersionOne) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n");
  write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "67108864\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(usage().cgroup_limit(), 64 * MiB);

  write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(usage().cgroup_limit(), std::nullopt);
}

TEST_F(MemoryUsageTest, FindsTheLimitOfAContainerThatSeesOnlyItsOwnGroup) {
  write("proc/self/cgroup", "4:memory:/docker/0123\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864\n");
  EXPECT_EQ(usage().cgroup_limit(), 64 * MiB);
}

TEST_F(MemoryUsageTest, CountsTheProcessesOwnPagesAndSocketBuffers) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  write("proc/self/statm", "1000 300 100 1 0 2 0\n");
  EXPECT_EQ(usage().used(), 200 * page);

  write("proc/self/cgroup", "0::/a\n");
  write("sys/fs/cgroup/a/memory.stat", "anon 1\nfile 5\nsock 4096\n");
  EXPECT_EQ(usage().used(), 200 * page + 4096);
}

TEST(MemoryUsageOfThisProcess, IsKnown) {
  const auto used = MemoryUsage().used();
  ASSERT_TRUE(used.has_value());
  EXPECT_GT(*used, 100u * 1024);
}

}  // namespace
}  // namespace evenkeel
