// Streams that share batches, with real worker processes: each gets every position once, with its
// bytes, whatever happens to the others.

#include <signal.h>

#include <algorithm>
#include <random>

#include "tests/supervisor/supervisor_process_fixture.h"

namespace bulkhead {
namespace {

constexpr uint64_t kSamples = 50;  // of a batch
constexpr size_t kSlots = 4;       // that a member can hold

class ShareProcessTest : public SupervisorProcessTest {
 protected:
  ShareProcessTest() {
    share_window_ = 8;
    share_key_ = "key";
  }

  struct Member {
    std::shared_ptr<Recorder> recorder;
    uint64_t id = 0;
    uint64_t first = 0;    // its first batch
    uint64_t batches = 0;  // that it has in all
  };

  // A member that begins at batch `first`. `holds`: it takes one batch, and no more for now.
  Member OpenMember(const std::string& mode, uint64_t first, uint64_t batches, bool holds = false) {
    Member member{std::make_shared<Recorder>(), 0, first, batches};
    if (holds) member.recorder->HoldBatches();
    member.id = Open(mode, batches, member.recorder, 2, first * kSamples);
    return member;
  }

  static void ExpectBytes(Member& member, size_t batches) {
    const std::vector<uint8_t> bytes = member.recorder->bytes();
    ASSERT_EQ(bytes.size(), batches * kSamples);
    for (size_t i = 0; i < bytes.size(); ++i) {
      ASSERT_EQ(bytes[i], static_cast<uint8_t>(member.first * kSamples + i)) << i;
    }
    member.recorder->ExpectInOrder();
  }
  static void ExpectWhole(Member& member) {
    const absl::Status end = member.recorder->AwaitEnd();
    EXPECT_TRUE(end.ok()) << end;
    ExpectBytes(member, member.batches);
  }

  // Members that hold their first batches, side by side.
  std::vector<Member> OpenMembers(int count, const std::string& mode, uint64_t batches) {
    std::vector<Member> members;
    for (int i = 0; i < count; ++i) members.push_back(OpenMember(mode, 0, batches, true));
    for (Member& member : members) member.recorder->AwaitBatches(kSlots);
    taken_ = kSlots;
    return members;
  }
  // Each takes another batch, and no further one before all have it.
  void Step(const std::vector<Member>& members) {
    ++taken_;
    for (const Member& member : members) member.recorder->LetGoOf(1);
    for (const Member& member : members) member.recorder->AwaitBatches(taken_);
  }
  void StepUntilTheyShare(const std::vector<Member>& members) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (Sum(&v1::ShareStatus::batches_shared) == 0) {
      Step(members);
      ASSERT_LT(absl::Now(), deadline);
    }
  }
  // The sum of what its members say.
  uint64_t Sum(uint64_t (v1::ShareStatus::*value)() const) {
    uint64_t sum = 0;
    const v1::GetStatusResponse status = supervisor_->GetStatus();
    for (const auto& stream : status.streams()) sum += (stream.share().*value)();
    return sum;
  }

  size_t taken_ = 0;  // batches, by each member of OpenMembers
};

TEST_F(ShareProcessTest, FourStreamsGetTheSameBatchesMadeOnce) {
  StartSupervisor();
  std::vector<Member> members = OpenMembers(4, "ok", 5000);
  StepUntilTheyShare(members);
  const auto before = supervisor_->GetStatus();
  const size_t first = taken_;
  while (taken_ < first + 100) Step(members);
  const auto after = supervisor_->GetStatus();
  EXPECT_EQ(after.streams_size(), 4);  // the maker is no client's
  // What was begun before they shared, and what is in work, is less than a window.
  EXPECT_LT(after.samples_produced() - before.samples_produced(), (100 + 8) * kSamples);
  for (Member& member : members) member.recorder->LetGo();
  for (Member& member : members) ExpectWhole(member);
  EXPECT_EQ(Sum(&v1::ShareStatus::batches_shared) + Sum(&v1::ShareStatus::batches_alone), 20000u);
}

TEST_F(ShareProcessTest, OneThatIsSlowFallsOutAndGoesOnAlone) {
  StartSupervisor();
  Member slow = OpenMember("ok", 0, 100, /*holds=*/true);
  Member first = OpenMember("ok", 0, 100, /*holds=*/true);
  Member second = OpenMember("ok", 0, 100, /*holds=*/true);
  for (Member* member : {&slow, &first, &second}) member->recorder->AwaitBatches(4);
  first.recorder->LetGo();
  second.recorder->LetGo();
  ExpectWhole(first);  // while the slow one holds all that it can
  ExpectWhole(second);
  EXPECT_EQ(slow.recorder->batches(), 4u);
  slow.recorder->LetGo();
  ExpectWhole(slow);
}

TEST_F(ShareProcessTest, WorkersThatDieAgainAndAgainCostNothingButTime) {
  StartSupervisor();
  std::vector<Member> members;
  for (int i = 0; i < 3; ++i) members.push_back(OpenMember("die-in-third-lease", 0, 60));
  for (Member& member : members) ExpectWhole(member);
  EXPECT_GT(supervisor_->GetStatus().leases_redone(), 20u);
}

TEST_F(ShareProcessTest, OneThatEndsLeavesTheOthersWhole) {
  StartSupervisor();
  Member ends = OpenMember("ok", 0, 1000000);
  Member first = OpenMember("ok", 0, 300);
  Member second = OpenMember("ok", 0, 300);
  ends.recorder->AwaitBatches(20);
  supervisor_->CloseStream(ends.id);
  ExpectWhole(first);
  ExpectWhole(second);
  EXPECT_EQ(ends.recorder->bytes().size() % kSamples, 0u);
}

TEST_F(ShareProcessTest, StreamsAtDifferentPlacesDoNotDisturbEachOther) {
  StartSupervisor();
  std::vector<Member> members;
  for (const uint64_t first : {0, 3, 100, 103, 5000}) {
    members.push_back(OpenMember("ok", first, 200));
  }
  for (Member& member : members) ExpectWhole(member);
}

TEST_F(ShareProcessTest, OtherKeysShareNothing) {
  StartSupervisor();
  Member one = OpenMember("ok", 0, 100);
  share_key_ = "another";
  Member other = OpenMember("ok", 0, 100);
  share_key_.clear();
  Member without = OpenMember("ok", 0, 100);
  for (Member* member : {&one, &other, &without}) ExpectWhole(*member);
  EXPECT_EQ(Sum(&v1::ShareStatus::batches_shared), 0u);
  EXPECT_EQ(Sum(&v1::ShareStatus::batches_alone), 200u);  // the third was not asked
}

TEST_F(ShareProcessTest, AnotherQuarantineSetIsAnotherGroup) {
  StartSupervisor();
  error_action_ = v1::ERROR_ACTION_SUBSTITUTE;
  Member one = OpenMember("ok", 0, 100);
  quarantined_.Add("7").IgnoreError();
  Member other = OpenMember("ok", 0, 100);
  ExpectWhole(one);
  EXPECT_TRUE(other.recorder->AwaitEnd().ok());
  EXPECT_EQ(Sum(&v1::ShareStatus::batches_shared), 0u);
}

TEST_F(ShareProcessTest, ARecordThatEndsWorkersIsQuarantinedForAllAtOnce) {
  error_action_ = v1::ERROR_ACTION_SUBSTITUTE;
  StartSupervisor();
  std::vector<Member> members = OpenMembers(3, "crashes-at-20020", 420);
  StepUntilTheyShare(members);
  while (taken_ < 410) Step(members);
  for (Member& member : members) member.recorder->LetGo();
  for (Member& member : members) {
    ExpectWhole(member);
    const auto quarantined = member.recorder->Events(v1::SampleEvent::KIND_QUARANTINED);
    ASSERT_EQ(quarantined.size(), 1u);
    EXPECT_EQ(quarantined[0].record(), "20020");
    EXPECT_EQ(member.recorder->Events(v1::SampleEvent::KIND_SUBSTITUTED).size(), 1u);
  }
  const auto status = supervisor_->GetStatus();
  // One death among other leases, and those of fresh workers: not as many for each of them.
  EXPECT_LT(status.recent_exits_size(), 8);
}

TEST_F(ShareProcessTest, EachCountsTheSubstitutionsOfSharedBatches) {
  error_action_ = v1::ERROR_ACTION_SUBSTITUTE;
  StartSupervisor();
  std::vector<Member> members = OpenMembers(3, "substitutes", 1000);
  StepUntilTheyShare(members);
  for (Member& member : members) member.recorder->LetGo();
  for (Member& member : members) {
    ExpectWhole(member);
    // One of each lease: 16 samples and the rest.
    EXPECT_EQ(member.recorder->Events(v1::SampleEvent::KIND_SUBSTITUTED).size(), 1000u * 4);
  }
}

TEST_F(ShareProcessTest, ABadSampleEndsEachOfThemAtItsPlace) {
  StartSupervisor();
  std::vector<Member> members;
  for (int i = 0; i < 3; ++i) members.push_back(OpenMember("fail-position-40", 0, 40));
  for (Member& member : members) {
    EXPECT_EQ(GetErrorInfo(member.recorder->AwaitEnd())->reason, "CORRUPT_IMAGE");
    EXPECT_EQ(member.recorder->batches(), 0u);
  }
}

TEST_F(ShareProcessTest, WithoutMemoryForItNothingIsShared) {
  budget_bytes_ = 4096 * 8;  // less than nine slots
  StartSupervisor();
  std::vector<Member> members = OpenMembers(2, "ok", 100);
  Step(members);
  const auto status = supervisor_->GetStatus();
  EXPECT_NE(status.streams(0).share().reason().find("memory budget"), std::string::npos)
      << status.ShortDebugString();
  for (Member& member : members) member.recorder->LetGo();
  for (Member& member : members) ExpectWhole(member);
  EXPECT_EQ(Sum(&v1::ShareStatus::batches_shared), 0u);
}

TEST_F(ShareProcessTest, ItsMemoryIsGivenBackWithTheLastButOne) {
  StartSupervisor();
  std::vector<Member> members = OpenMembers(2, "ok", 1000000);
  EXPECT_EQ(supervisor_->GetStatus().memory().arena_bytes(), 0u);  // the fixture's cost nothing
  StepUntilTheyShare(members);
  EXPECT_EQ(supervisor_->GetStatus().memory().arena_bytes(), 9u * 4096);
  supervisor_->CloseStream(members[0].id);
  AwaitStatus([](const auto& status) { return status.memory().arena_bytes() == 0; });
}

TEST_F(ShareProcessTest, ItsMemoryIsOthersForTheAsking) {
  budget_bytes_ = 4096 * 12;
  StartSupervisor();
  std::vector<Member> members = OpenMembers(2, "ok", 1000000);
  StepUntilTheyShare(members);
  PipelineConfig pipeline;
  pipeline.key = pipeline.name = pipeline.binding = "ok";
  const auto admission = supervisor_->Admit(pipeline, 10, 4096);
  EXPECT_TRUE(admission.ok()) << admission.status();
  for (int i = 0; i < 20; ++i) Step(members);  // they go on
}

// Members of any speed come and go, while workers die.
TEST_F(ShareProcessTest, WhateverHappensEachGetsEachPositionOnce) {
  StartSupervisor();
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  const auto any = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
  std::vector<Member> members;
  std::vector<Member> gone;
  for (int step = 0; step < 120; ++step) {
    const uint32_t what = any(6);
    if (what < 2 && members.size() < 6) {
      members.push_back(
          OpenMember(any(2) == 0 ? "ok" : "die-in-third-lease", any(12), 1000000, any(2) == 0));
    } else if (what == 2 && !members.empty()) {
      std::swap(members[any(static_cast<uint32_t>(members.size()))], members.back());
      supervisor_->CloseStream(members.back().id);
      gone.push_back(members.back());
      members.pop_back();
    } else if (what == 3) {
      const auto status = supervisor_->GetStatus();
      if (status.workers().empty()) continue;
      const auto& worker = status.workers(static_cast<int>(any(status.workers_size())));
      if (worker.pid() > 0) kill(static_cast<pid_t>(worker.pid()), SIGKILL);
    } else if (!members.empty()) {
      Member& member = members[any(static_cast<uint32_t>(members.size()))];
      if (any(2) == 0) {
        member.recorder->LetGo();
      } else if (any(2) == 0) {
        member.recorder->HoldBatches();
      } else {
        member.recorder->AwaitBatches(1);
      }
    }
  }
  for (Member& member : members) {
    member.recorder->LetGo();
    member.recorder->AwaitBatches(member.recorder->batches() + 10);
    supervisor_->CloseStream(member.id);
    gone.push_back(member);
  }
  supervisor_->GetStatus();  // behind the closings
  for (Member& member : gone) {
    const size_t batches = member.recorder->bytes().size() / kSamples;
    ExpectBytes(member, batches);
  }
}

}  // namespace
}  // namespace bulkhead
