#include "server/supervisor/worker/worker_life.h"

#include <gtest/gtest.h>

namespace bulkhead {
namespace {

constexpr WorkerPhase kPhases[] = {WorkerPhase::kStarting, WorkerPhase::kBinding,
                                   WorkerPhase::kReady,    WorkerPhase::kStopping,
                                   WorkerPhase::kKilled,   WorkerPhase::kGone};
constexpr WorkerEvent kEvents[] = {WorkerEvent::kHello, WorkerEvent::kBound, WorkerEvent::kStop,
                                   WorkerEvent::kKill, WorkerEvent::kExited};

TEST(WorkerLifeTest, TheNormalWay) {
  EXPECT_EQ(NextPhase(WorkerPhase::kStarting, WorkerEvent::kHello), WorkerPhase::kBinding);
  EXPECT_EQ(NextPhase(WorkerPhase::kBinding, WorkerEvent::kBound), WorkerPhase::kReady);
  EXPECT_EQ(NextPhase(WorkerPhase::kReady, WorkerEvent::kStop), WorkerPhase::kStopping);
  EXPECT_EQ(NextPhase(WorkerPhase::kStopping, WorkerEvent::kExited), WorkerPhase::kGone);
}

TEST(WorkerLifeTest, AnExitIsPossibleInEveryLivingPhaseAndFinal) {
  for (const WorkerPhase phase : kPhases) {
    if (phase == WorkerPhase::kGone) {
      for (const WorkerEvent event : kEvents) EXPECT_FALSE(NextPhase(phase, event).has_value());
    } else {
      EXPECT_EQ(NextPhase(phase, WorkerEvent::kExited), WorkerPhase::kGone);
    }
  }
}

TEST(WorkerLifeTest, NothingComesBackFromAKill) {
  for (const WorkerEvent event : kEvents) {
    if (event == WorkerEvent::kExited) continue;
    EXPECT_EQ(NextPhase(WorkerPhase::kKilled, event), WorkerPhase::kKilled);
  }
}

TEST(WorkerLifeTest, RefusesMessagesOutOfOrder) {
  EXPECT_FALSE(NextPhase(WorkerPhase::kStarting, WorkerEvent::kBound).has_value());
  EXPECT_FALSE(NextPhase(WorkerPhase::kBinding, WorkerEvent::kHello).has_value());
  EXPECT_FALSE(NextPhase(WorkerPhase::kReady, WorkerEvent::kHello).has_value());
  EXPECT_FALSE(NextPhase(WorkerPhase::kReady, WorkerEvent::kBound).has_value());
}

}  // namespace
}  // namespace bulkhead
