#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "config/test_environment.h"
#include "evenkeel/config/named_files.h"

namespace evenkeel {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string pool_with(const std::string& keys) { return "pools: [{name: a, " + keys + "}]\n"; }

TEST(Discover, NeedsNoBackendsBesides) {
  EXPECT_THAT(problems_of(pool_with("discover: {file: x.yaml}")), IsEmpty());
  EXPECT_THAT(problems_of(pool_with("discover: {srv: _http._tcp.a.test}, backends: [h:1]")),
              IsEmpty());
}

TEST(Discover, IsReadAsWritten) {
  const Config config =
      read(
          "pools: [{name: a, discover: {kubernetes: {service: models/llama, port: 8000}}}]\n"
          "kubernetes: {api: 'https://k.test:6443', token_file: t, ca: c}\n")
          .config;

  EXPECT_EQ(config.pools[0].discover->kubernetes->service, "models/llama");
  EXPECT_EQ(config.pools[0].discover->kubernetes->port, "8000");
  EXPECT_EQ(config.kubernetes.token_file, "t");
}

TEST(Discover, HasOneSource) {
  EXPECT_THAT(problems_of(pool_with("discover: {}")),
              ElementsAre(HasSubstr("names no source; give one of `kubernetes`, `srv`")));
  EXPECT_THAT(problems_of(pool_with("discover: {file: x, srv: y}")),
              ElementsAre(HasSubstr("names several sources")));
  EXPECT_THAT(problems_of(pool_with("discover: {kubernetes: {service: a/b, inference_pool: a/c}}")),
              ElementsAre(HasSubstr("names a Service and an InferencePool")));
  EXPECT_THAT(problems_of(pool_with("discover: {kubernetes: {service: b}}")),
              ElementsAre(HasSubstr("write `namespace/name`")));
  EXPECT_THAT(problems_of(pool_with("discover: {kubernetes: {inference_pool: a/b, port: 1}}")),
              ElementsAre(HasSubstr("'port' is of a Service")));
}

TEST(Discover, IsNotForHostedPools) {
  EXPECT_THAT(problems_of(pool_with("hosted: true, discover: {file: x}")),
              ElementsAre(HasSubstr("backends that are found have no keys")));
}

TEST(Discover, LetsRoutesNameLabelsThatAreNotKnownYet) {
  EXPECT_THAT(problems_of(pool_with("discover: {file: x}") +
                          "routes: [{pool: a, split: {version=v8: 1, version=v9: 9}}]\n"),
              IsEmpty());
}

TEST(Discover, DoesNotGuessWhetherStandbysCome) {
  EXPECT_THAT(warnings_of(pool_with("discover: {file: x}, standby: {enter: 0.9}")), IsEmpty());
}

TEST(KubernetesAccess, IsCheckedWithTheFile) {
  Environment environment;
  environment.file_error = [](FileUse, const std::string& path) {
    const bool is_there = path == "stdout";
    return is_there ? std::nullopt : std::optional<std::string>("cannot be read");
  };
  const LoadResult loaded =
      read_config(pool_with("discover: {kubernetes: {service: a/b}}") +
                      "kubernetes: {api: 'https://k.test', token_file: t, ca: c}\n",
                  "test.yaml", environment);

  EXPECT_THAT(lines_of(loaded.problems),
              ElementsAre(HasSubstr("kubernetes.token_file: 't' cannot be read"),
                          HasSubstr("kubernetes.ca: 'c' cannot be read")));
}

TEST(DiscoveredFiles, AreReadByTheCheckWhichOnlyWarns) {
  const std::string path = testing::TempDir() + "discovered-backends.yaml";
  std::ofstream(path) << "- targets: [10.0.0.1]\n";
  Environment environment;
  environment.file_error = named_file_error;
  const auto warnings = [&] {
    const LoadResult loaded =
        read_config(pool_with("discover: {file: " + path + "}"), "test.yaml", environment);
    EXPECT_THAT(lines_of(loaded.problems), IsEmpty());
    return lines_of(loaded.warnings);
  };

  EXPECT_THAT(warnings(),
              ElementsAre(AllOf(HasSubstr("discover.file"), HasSubstr("'10.0.0.1' is no target"))));
  std::ofstream(path) << "[{targets: ['10.0.0.1:8000']}]\n";
  EXPECT_THAT(warnings(), IsEmpty());
  std::remove(path.c_str());
  EXPECT_THAT(warnings(), ElementsAre(HasSubstr("No such file")));
}

}  // namespace
}  // namespace evenkeel
