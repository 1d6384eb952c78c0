#include "evenkeel/state/state_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

class StateFileWriting : public testing::Test {
 protected:
  StateFileWriting() { std::filesystem::create_directory(folder_); }
  ~StateFileWriting() override { std::filesystem::remove_all(folder_); }

  std::string content() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::filesystem::path folder_ =
      testing::TempDir() + "state_file_test." + std::to_string(getpid());
  const std::string path_ = folder_ / "evenkeel.state";
  const Instant now_ = Clock::now();
  StateFileWriter writer_;
};

TEST_F(StateFileWriting, AnOlderStateDoesNotReplaceANewerOne) {
  EXPECT_EQ(writer_.write(path_, "newer", now_), "");
  EXPECT_EQ(writer_.write(path_, "older", now_ - 1ms), "");
  EXPECT_EQ(content(), "newer");

  EXPECT_EQ(writer_.write(path_, "newest", now_ + 1ms), "");
  EXPECT_EQ(content(), "newest");
}

TEST_F(StateFileWriting, SaysWhyItWasNotWritten) {
  EXPECT_EQ(
      writer_.write(folder_ / "missing" / "state", "text", now_),
      "cannot write " + (folder_ / "missing" / "state").string() + ": No such file or directory");
}

}  // namespace
}  // namespace evenkeel
