// Streams that share batches, with real worker processes: each gets every position once, with its
// bytes, whatever happens to the others.

#include <signal.h>

#include <algorithm>
#include <random>

#include "tests/supervisor/supervisor_process_fixture.h"

namespace bulkhead {
namespace {

constexpr uint64_t kSamples = 50;  // of a batch

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

  // Waits until the open streams share.
  void AwaitSharing() {
    AwaitStatus([](const auto& status) {
      return std::any_of(status.streams().begin(), status.streams().end(), [](const auto& stream) {
        return stream.share().batches_shared() > 0;
      });
    });
  }
  // The sum of what its members say.
  uint64_t Sum(uint64_t (v1::ShareStatus::*value)() const) {
    uint64_t sum = 0;
    const v1::GetStatusResponse status = supervisor_->GetStatus();
    for (const auto& stream : status.streams()) sum += (stream.share().*value)();
    return sum;
  }
};

TEST_F(ShareProcessTest, FourStreamsGetTheSameBatchesMadeOnce) {
  StartSupervisor();
  // The last one lets all of them wait until they stand together.
  std::vector<Member> members;
  for (int i = 0; i < 4; ++i) members.push_back(OpenMember("ok", 0, 400, /*holds=*/true));
  for (Member& member : members) member.recorder->AwaitBatches(4);
  for (Member& member : members) member.recorder->LetGo();
  for (Member& member : members) ExpectWhole(member);
  const auto status = supervisor_->GetStatus();
  ASSERT_EQ(status.streams_size(), 4);  // the maker is no client's
  EXPECT_GT(Sum(&v1::ShareStatus::batches_shared), 0u);
  EXPECT_EQ(Sum(&v1::ShareStatus::batches_shared) + Sum(&v1::ShareStatus::batches_alone), 1600u);
  EXPECT_LT(status.samples_produced(), 4 * 400 * kSamples);
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
  std::vector<Member> members;
  for (int i = 0; i < 3; ++i) {
    members.push_back(OpenMember("crashes-at-100020", 0, 2100, /*holds=*/true));
  }
  for (Member& member : members) member.recorder->AwaitBatches(4);
  for (Member& member : members) member.recorder->LetGo();
  for (Member& member : members) {
    ExpectWhole(member);
    const auto quarantined = member.recorder->Events(v1::SampleEvent::KIND_QUARANTINED);
    ASSERT_EQ(quarantined.size(), 1u);
    EXPECT_EQ(quarantined[0].record(), "100020");
    EXPECT_EQ(member.recorder->Events(v1::SampleEvent::KIND_SUBSTITUTED).size(), 1u);
  }
  EXPECT_GT(Sum(&v1::ShareStatus::batches_shared), 0u);
}

TEST_F(ShareProcessTest, EachCountsTheSubstitutionsOfSharedBatches) {
  error_action_ = v1::ERROR_ACTION_SUBSTITUTE;
  StartSupervisor();
  std::vector<Member> members;
  for (int i = 0; i < 3; ++i) members.push_back(OpenMember("substitutes", 0, 50, /*holds=*/true));
  for (Member& member : members) member.recorder->AwaitBatches(4);
  for (Member& member : members) member.recorder->LetGo();
  for (Member& member : members) {
    ExpectWhole(member);
    // One of each lease: 16 samples and the rest.
    EXPECT_EQ(member.recorder->Events(v1::SampleEvent::KIND_SUBSTITUTED).size(), 50u * 4);
  }
  EXPECT_GT(Sum(&v1::ShareStatus::batches_shared), 0u);
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
  std::vector<Member> members;
  for (int i = 0; i < 2; ++i) members.push_back(OpenMember("ok", 0, 100, /*holds=*/true));
  for (Member& member : members) member.recorder->AwaitBatches(4);
  for (Member& member : members) member.recorder->LetGo();
  for (Member& member : members) ExpectWhole(member);
  EXPECT_EQ(Sum(&v1::ShareStatus::batches_shared), 0u);
  const auto status = supervisor_->GetStatus();
  EXPECT_TRUE(std::any_of(status.streams().begin(), status.streams().end(), [](const auto& stream) {
    return stream.share().reason().find("budget") != std::string::npos;
  })) << status.ShortDebugString();
}

TEST_F(ShareProcessTest, ItsMemoryIsGivenBackWithTheLastButOne) {
  StartSupervisor();
  Member one = OpenMember("ok", 0, 1000000, /*holds=*/true);
  Member other = OpenMember("ok", 0, 1000000, /*holds=*/true);
  one.recorder->AwaitBatches(4);
  other.recorder->AwaitBatches(4);
  EXPECT_EQ(supervisor_->GetStatus().memory().arena_bytes(), 0u);  // the fixture's cost nothing
  one.recorder->LetGo();
  other.recorder->LetGo();
  AwaitSharing();
  EXPECT_EQ(supervisor_->GetStatus().memory().arena_bytes(), 9u * 4096);
  supervisor_->CloseStream(one.id);
  AwaitStatus([](const auto& status) { return status.memory().arena_bytes() == 0; });
  supervisor_->CloseStream(other.id);
}

TEST_F(ShareProcessTest, ItsMemoryIsOthersForTheAsking) {
  budget_bytes_ = 4096 * 12;
  StartSupervisor();
  Member one = OpenMember("ok", 0, 1000000, /*holds=*/true);
  Member other = OpenMember("ok", 0, 1000000, /*holds=*/true);
  one.recorder->AwaitBatches(4);
  other.recorder->AwaitBatches(4);
  one.recorder->LetGo();
  other.recorder->LetGo();
  AwaitSharing();
  PipelineConfig pipeline;
  pipeline.key = pipeline.name = pipeline.binding = "ok";
  const auto admission = supervisor_->Admit(pipeline, 10, 4096);
  EXPECT_TRUE(admission.ok()) << admission.status();
  const size_t before = one.recorder->batches();
  one.recorder->AwaitBatches(before + 20);  // they go on
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
