#include "server/app/state_dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(StateDumpTest, TellsBudgetStreamsWorkersAndLeases) {
  v1::GetStatusResponse status;
  status.mutable_memory()->set_budget_bytes(uint64_t{8} << 30);
  v1::StreamStatus& stream = *status.add_streams();
  stream.set_name("train");
  stream.set_world_size(2);
  stream.mutable_arena()->set_slots(5);
  stream.mutable_arena()->set_slots_ready(3);
  v1::WorkerStatus& worker = *status.add_workers();
  worker.set_pipeline("photos");
  worker.set_state(v1::WORKER_STATE_BUSY);
  worker.set_leases(4);
  v1::ThreadActivity& at = *worker.add_activity();
  at.set_stage("stages[0] decode_image");
  at.set_sample("cats/one.jpg");
  status.add_recent_exits()->set_reason("killed by signal 9 (Killed)");
  EXPECT_THAT(StateDump(status),
              ElementsAre(HasSubstr("of a budget of 8"), HasSubstr("1 streams, 1 workers"),
                          testing::AllOf(HasSubstr("stream train rank 0 of 2"),
                                         HasSubstr("in 5 slots: 0 free, 0 filling, 3 ready")),
                          testing::AllOf(HasSubstr("worker 0 of pipeline photos: pid 0, busy, 4 "
                                                   "leases"),
                                         HasSubstr("; at stages[0] decode_image of cats/one.jpg")),
                          HasSubstr("killed by signal 9 (Killed)")));
}

TEST(StateDumpTest, IsBounded) {
  v1::GetStatusResponse status;
  for (int i = 0; i < kMostDumped + 7; ++i)
    status.add_workers()->set_slot(static_cast<uint32_t>(i));
  const std::vector<std::string> lines = StateDump(status);
  EXPECT_EQ(lines.size(), size_t{2 + 1 + kMostDumped});
  EXPECT_THAT(lines, Contains("7 more workers"));
  EXPECT_THAT(lines.back(), HasSubstr("worker 70 "));
}

TEST(StateDumpTest, OfASilentSupervisorNothingElseIsKnown) {
  v1::GetStatusResponse status;
  status.set_supervisor_silent_seconds(7);
  EXPECT_THAT(StateDump(status), ElementsAre(HasSubstr("silent for 7 s")));
}

}  // namespace
}  // namespace bulkhead
