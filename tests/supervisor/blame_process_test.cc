// Whose doing it is that workers end, and who goes on: with worker processes that end for real.

#include <unistd.h>

#include "tests/supervisor/supervisor_process_fixture.h"
#include "tests/support/test_dir.h"

namespace bulkhead {
namespace {

int Ends(const v1::GetStatusResponse& status, v1::ExitCause cause) {
  int count = 0;
  for (const v1::WorkerExit& exit : status.recent_exits()) count += exit.cause() == cause ? 1 : 0;
  return count;
}

class BlameProcessTest : public SupervisorProcessTest {
 protected:
  void StartWithHangs() {
    PoolTimeouts timeouts = ShortBackoff();
    timeouts.hang = absl::Milliseconds(500);
    StartSupervisor(timeouts);
  }
};

// The place of the worker that died stays empty: an upgrade replaces the program, say.
TEST_F(BlameProcessTest, ASuspectWhosePlaceStaysEmptyIsDoneByOthers) {
  const TestDir folder;
  const std::string program = folder / "worker";
  ASSERT_EQ(symlink(FakeWorkerPath().c_str(), program.c_str()), 0);
  StartSupervisor(ShortBackoff(), program);
  auto recorder = std::make_shared<Recorder>();
  Open("crash-once:" + folder.path().string(), 40, recorder, /*workers=*/4);
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 40);
  EXPECT_EQ(Ends(supervisor_->GetStatus(), v1::EXIT_CAUSE_CRASHED), 1);
}

TEST_F(BlameProcessTest, ASampleThatAlwaysHangsIsQuarantined) {
  StartWithHangs();
  error_action_ = v1::ERROR_ACTION_SUBSTITUTE;
  auto recorder = std::make_shared<Recorder>();
  Open("hangs-at-120", 20, recorder);
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 20);
  const auto quarantined = recorder->Events(v1::SampleEvent::KIND_QUARANTINED);
  ASSERT_EQ(quarantined.size(), 1);
  EXPECT_EQ(quarantined[0].record(), "120");
  EXPECT_THAT(
      quarantined[0].message(),
      testing::HasSubstr("if samples take as long, raise --worker-hang-timeout, now 500ms"));
  // Once beside other work, which proves nothing; then alone three times.
  EXPECT_EQ(Ends(supervisor_->GetStatus(), v1::EXIT_CAUSE_HUNG), 4);
  const auto hung = recorder->Events(v1::SampleEvent::KIND_HUNG);
  ASSERT_EQ(hung.size(), 4);
  EXPECT_EQ(hung[0].record(), "120");
  EXPECT_EQ(hung[0].position(), 120);
  EXPECT_THAT(hung[0].message(), testing::HasSubstr("stages[0] fake of 120"));
}

TEST_F(BlameProcessTest, WhatARecordDidToWorkersDelaysNoOther) {
  PoolTimeouts timeouts;
  timeouts.first_backoff = timeouts.max_backoff = absl::Hours(1);
  StartSupervisor(timeouts);
  error_action_ = v1::ERROR_ACTION_SUBSTITUTE;
  auto recorder = std::make_shared<Recorder>();
  Open("crashes-at-120", 20, recorder);
  EXPECT_TRUE(recorder->AwaitEnd().ok());
  ExpectEveryPositionOnce(*recorder, 20);
  EXPECT_GE(Ends(supervisor_->GetStatus(), v1::EXIT_CAUSE_CRASHED), 3);
}

TEST_F(BlameProcessTest, UnderPolicyFailAHangNamesItsSample) {
  StartWithHangs();
  auto recorder = std::make_shared<Recorder>();
  Open("hangs-at-120", 20, recorder);
  const absl::Status end = recorder->AwaitEnd();
  EXPECT_EQ(GetErrorInfo(end)->reason, reason::kPoisonSample) << end;
  EXPECT_EQ(GetErrorInfo(end)->metadata.at("record"), "120");
}

// The record's bytes are not there yet: that is its storage's doing.
TEST_F(BlameProcessTest, ARecordThatCannotBeReadIsNotQuarantined) {
  StartWithHangs();
  error_action_ = v1::ERROR_ACTION_SUBSTITUTE;
  auto recorder = std::make_shared<Recorder>();
  Open("hangs-reading-120", 20, recorder);
  const absl::Status end = recorder->AwaitEnd();
  EXPECT_EQ(GetErrorInfo(end)->reason, reason::kWorkerCrashLoop) << end;
  EXPECT_THAT(std::string(end.message()), testing::HasSubstr("source of 120"));
  EXPECT_THAT(std::string(end.message()), testing::HasSubstr("storage"));
  EXPECT_THAT(std::string(end.message()), testing::Not(testing::HasSubstr("--worker-quota")));
  EXPECT_TRUE(recorder->Events(v1::SampleEvent::KIND_QUARANTINED).empty());
}

TEST_F(BlameProcessTest, AWorkerIsNotBelievedWhichNamesARecordOfAnotherLease) {
  StartSupervisor();
  error_action_ = v1::ERROR_ACTION_SUBSTITUTE;
  auto recorder = std::make_shared<Recorder>();
  Open("names-another", 20, recorder);
  EXPECT_EQ(GetErrorInfo(recorder->AwaitEnd())->reason, reason::kWorkerCrashLoop);
  EXPECT_TRUE(recorder->Events(v1::SampleEvent::KIND_QUARANTINED).empty());
}

// What is trusted: docs/containment.md, "A worker's reports".
TEST_F(BlameProcessTest, OnlyWhatARecordOfItsOwnLeaseIsCalledIsBelieved) {
  StartSupervisor();
  error_action_ = v1::ERROR_ACTION_SUBSTITUTE;
  auto misled = std::make_shared<Recorder>();
  auto other = std::make_shared<Recorder>();
  Open("misnames-120", 20, misled);
  Open("", 20, other);
  EXPECT_EQ(GetErrorInfo(misled->AwaitEnd())->reason, reason::kWorkerCrashLoop);
  const auto events = misled->Events(v1::SampleEvent::KIND_QUARANTINED);
  ASSERT_EQ(events.size(), 1);
  EXPECT_EQ(events[0].record(), "121");
  EXPECT_THAT(events[0].message(), testing::HasSubstr("position 120"));
  EXPECT_TRUE(other->AwaitEnd().ok());
  EXPECT_TRUE(other->Events(v1::SampleEvent::KIND_QUARANTINED).empty());
}

TEST_F(BlameProcessTest, AWorkerIsNotBelievedWhichSubstitutesSamplesOfOthers) {
  StartSupervisor();
  error_action_ = v1::ERROR_ACTION_SUBSTITUTE;
  auto recorder = std::make_shared<Recorder>();
  Open("speaks-for-others", 20, recorder);
  EXPECT_EQ(GetErrorInfo(recorder->AwaitEnd())->reason, reason::kWorkerCrashLoop);
  EXPECT_TRUE(recorder->Events(v1::SampleEvent::KIND_SUBSTITUTED).empty());
  EXPECT_GT(Ends(supervisor_->GetStatus(), v1::EXIT_CAUSE_PROTOCOL), 0);
}

}  // namespace
}  // namespace bulkhead
