#include "admin/event_history.h"

#include <chrono>
#include <string>

#include "admin/running_admin.h"

namespace evenkeel::testing {
namespace {

/// What happens to two pools whose clock the test sets.
class Events : public RunningAdmin {
 protected:
  Events() {
    start();
    status_.update([](RuntimeStatus& status) { status.reloads = 1; });  // the start
  }

  void update(std::int64_t second) {
    events_.update(RuntimeView(runtime_), EventHistory::Time(std::chrono::seconds(second)));
  }

  EventHistory events_;
};

TEST_F(Events, AreChangesOfStateAndReloads) {
  update(1000);
  backend(0, 0).state().take_out(OutOfRotation::draining);
  update(1001);
  status_.update([](RuntimeStatus& status) { ++status.reloads; });
  update(1002);
  status_.update([](RuntimeStatus& status) {
    ++status.rejected_reloads;
    status.reload_problems = {{.message = "no such key"}};
  });
  update(1003);
  update(1004);

  EXPECT_EQ(json_text(events_.document()),
            R"([{"second":1003,"kind":"reload_rejected","reason":"no such key"},)"
            R"({"second":1002,"kind":"reload"},)"
            R"({"second":1001,"kind":"state","pool":"chat","backend":"127.0.0.1:8001",)"
            R"("from":"up","to":"draining","reason":"drained by an operator"}])");
  EXPECT_EQ(events_.total(), 3u);
}

TEST_F(Events, AreForgottenButCounted) {
  update(1000);
  for (std::size_t i = 0; i < EventHistory::max_events + 10; ++i) {
    status_.update([](RuntimeStatus& status) { ++status.reloads; });
    update(1001);
  }

  EXPECT_EQ(events_.document().size(), EventHistory::max_events);
  EXPECT_EQ(events_.total(), EventHistory::max_events + 10);
}

}  // namespace
}  // namespace evenkeel::testing
