#include "evenkeel/base/cpu_limit.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace evenkeel {
namespace {

constexpr const char* v2_mount =
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

class CpuQuota : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "cpu-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    root = folder;
  }
  void TearDown() override { std::filesystem::remove_all(root); }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::optional<double> quota() const { return cpu_limit(root).quota; }

  std::string root;
};

TEST_F(CpuQuota, IsThatOfTheOwnCgroupInVersionTwo) {
  write("proc/self/mountinfo", v2_mount);
  write("proc/self/cgroup", "0::/system.slice/evenkeel.service\n");
  write("sys/fs/cgroup/system.slice/evenkeel.service/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(CpuQuota, IsTheLeastOfTheCgroupsAbove) {
  write("proc/self/mountinfo", v2_mount);
  write("proc/self/cgroup", "0::/pods/pod/evenkeel\n");
  write("sys/fs/cgroup/pods/pod/evenkeel/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/pods/pod/cpu.max", "25000 50000\n");
  write("sys/fs/cgroup/pods/cpu.max", "400000 100000\n");
  EXPECT_EQ(quota(), 0.5);

  write("sys/fs/cgroup/cpu.max", "20000 100000\n");  // of a container that sees it as the root
  EXPECT_EQ(quota(), 0.2);
}

TEST_F(CpuQuota, IsNoneWhereEveryCgroupHasTheMaximum) {
  EXPECT_EQ(quota(), std::nullopt) << "no cgroups at all";
  write("proc/self/mountinfo", v2_mount);
  write("proc/self/cgroup", "0::/a\n");
  write("sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(CpuQuota, IsReadFromTheMountsOfVersionOne) {
  write("proc/self/mountinfo",
        "31 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:10 - cgroup cgroup "
        "rw,cpu,cpuacct\n");
  write("proc/self/cgroup", "5:cpuset:/\n4:cpu,cpuacct:/a/b\n");
  write("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), std::nullopt);

  write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
  write("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 2.5);
}

TEST_F(CpuQuota, IsTheLeastOfBothVersionsOnAMixedSystem) {
  write("proc/self/mountinfo",
        "32 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "1:cpu:/one\n0::/two\n");
  write("sys/fs/cgroup/cpu/one/cpu.cfs_quota_us", "300000\n");
  write("sys/fs/cgroup/cpu/one/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/unified/two/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota(), 2);

  write("sys/fs/cgroup/unified/two/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), 3);
}

TEST_F(CpuQuota, IsFoundInAContainerWhereOnlyItsOwnPartIsMounted) {
  write("proc/self/mountinfo",
        "40 30 0:28 /docker/0123 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n");
  write("proc/self/cgroup", "4:cpu,cpuacct:/docker/0123/inner\n");
  write("sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 1);
}

TEST_F(CpuQuota, IsThatOfTheMountWhereThePathIsTheHosts) {
  write("proc/self/mountinfo", "40 30 0:28 / /my\\040cgroups ro - cgroup2 cgroup2 rw\n");
  for (const char* path : {"0::/../outside\n", "0::/kubepods/unknown\n"}) {
    write("proc/self/cgroup", path);
    write("my cgroups/cpu.max", "50000 100000\n");
    EXPECT_EQ(quota(), 0.5) << path;
  }
}

TEST(CpuLimits, LetSoManyThreadsRunAsTheMaskAndTheQuotaAllow) {
  EXPECT_EQ((CpuLimit{.cpus = 8, .quota = {}}.threads()), 8u);
  EXPECT_EQ((CpuLimit{.cpus = 8, .quota = 2.5}.threads()), 3u);
  EXPECT_EQ((CpuLimit{.cpus = 8, .quota = 3}.threads()), 3u);
  EXPECT_EQ((CpuLimit{.cpus = 8, .quota = 0.1}.threads()), 1u);
  EXPECT_EQ((CpuLimit{.cpus = 2, .quota = 64}.threads()), 2u);
}

TEST(CpuLimits, AreBelowMoreThreadsThanTheQuotaFeeds) {
  EXPECT_TRUE((CpuLimit{.cpus = 8, .quota = 1.5}.is_below(2)));
  EXPECT_FALSE((CpuLimit{.cpus = 8, .quota = 2}.is_below(2)));
  EXPECT_FALSE((CpuLimit{.cpus = 8, .quota = {}}.is_below(64)));
}

TEST(CpuLimits, FollowTheAffinityMaskOfTheProcess) {
  std::thread([] {  // the mask of this thread only
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    EXPECT_EQ(cpu_limit().cpus, static_cast<unsigned>(CPU_COUNT(&all)));
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(cpu_limit().cpus, 1u);
  })
      .join();
}

}  // namespace
}  // namespace evenkeel
