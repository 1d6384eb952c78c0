#include "evenkeel/base/out_of_memory.h"

#include <gtest/gtest.h>

#include <new>

namespace evenkeel {
namespace {

TEST(OutOfMemoryDeathTest, EndsTheProcessWithALine) {
  EXPECT_EXIT(
      {
        exit_when_out_of_memory();
        std::get_new_handler()();  // as a failed `operator new` does
      },
      testing::ExitedWithCode(1), "^evenkeel: out of memory: .*limits.memory.*\n$");
}

}  // namespace
}  // namespace evenkeel
