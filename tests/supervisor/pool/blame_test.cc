#include "server/supervisor/pool/blame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/error.h"
#include "tests/supervisor/pool/pool_world.h"

namespace bulkhead {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A worker of two leases with a thread at each.
class BlameTest : public testing::Test {
 protected:
  BlameTest() {
    for (uint64_t i = 0; i < 2; ++i) {
      held_.push_back({/*stream_id=*/7, /*lease_id=*/10 + i, /*samples=*/16, /*shared=*/false});
      FlightSnapshot::Thread thread;
      thread.stream_id = 7;
      thread.lease_id = 10 + i;
      thread.began_ns = static_cast<int64_t>(i + 1) * kSecond;
      flight_.threads.push_back(thread);
    }
  }

  std::vector<Suspicion> Suspicions(v1::ExitCause cause) {
    return SuspicionsOf({cause, held_, flight_, /*quota_bytes=*/400, grown_, hung_, /*begun=*/2});
  }
  // Of the suspicions: the lease's number, and an exclamation mark where it was by itself.
  std::vector<std::string> Told(v1::ExitCause cause) {
    std::vector<std::string> told;
    for (const Suspicion& one : Suspicions(cause)) {
      told.push_back(std::to_string(one.held) + (one.by_itself ? "!" : ""));
    }
    return told;
  }

  std::deque<PoolWorker::Held> held_;
  FlightSnapshot flight_;
  std::vector<uint64_t> grown_ = {0, 0};
  std::vector<int64_t> hung_;
};

TEST_F(BlameTest, ACrashMayBeOfAnyThreadsDoing) {
  EXPECT_THAT(Told(v1::EXIT_CAUSE_CRASHED), ElementsAre("0!", "1!"));
}

TEST_F(BlameTest, AKillFromOutsideIsNobodysDoing) {
  EXPECT_THAT(Told(v1::EXIT_CAUSE_KILLED), ElementsAre("0", "1"));
}

TEST_F(BlameTest, MemoryCountsAgainstTheSampleThatTookMuchOfIt) {
  grown_ = {50, 101};
  EXPECT_THAT(Told(v1::EXIT_CAUSE_WATCHDOG), ElementsAre("0", "1!"));
  flight_.refused_thread = 1;
  EXPECT_THAT(Told(v1::EXIT_CAUSE_OUT_OF_MEMORY), ElementsAre("1!"));
}

TEST_F(BlameTest, AHangCountsAgainstTheThreadThatHung) {
  hung_ = HungThreads(flight_, absl::Seconds(5), /*now_ns=*/6 * kSecond + kSecond / 2);
  EXPECT_THAT(hung_, ElementsAre(kSecond, 0));
  EXPECT_THAT(Told(v1::EXIT_CAUSE_HUNG), ElementsAre("0!"));
  EXPECT_TRUE(Suspicions(v1::EXIT_CAUSE_HUNG)[0].hung);
}

TEST_F(BlameTest, AThreadThatWentOnBeforeTheEndDidNotHang) {
  hung_ = HungThreads(flight_, absl::Seconds(5), /*now_ns=*/6 * kSecond + kSecond / 2);
  flight_.threads[0].began_ns = 6 * kSecond;
  EXPECT_THAT(Told(v1::EXIT_CAUSE_HUNG), ElementsAre("0", "1"));
}

TEST_F(BlameTest, ARecordThatIsBeingReadIsNotToBlameForAHang) {
  flight_.threads[0].reads = true;
  hung_ = {kSecond, 0};
  EXPECT_THAT(Told(v1::EXIT_CAUSE_HUNG), ElementsAre("0"));
  EXPECT_TRUE(Suspicions(v1::EXIT_CAUSE_HUNG)[0].hung);
}

TEST_F(BlameTest, WhoWaitsForTheInterpreterDoesNotHang) {
  flight_.threads[0].turn = FlightTurn::kWaiting;
  flight_.threads[1].turn = FlightTurn::kInside;
  flight_.threads[1].turn_ns = 4 * kSecond;  // it had waited, too
  EXPECT_THAT(HungThreads(flight_, absl::Seconds(5), 8 * kSecond), ElementsAre(0, 0));
  EXPECT_THAT(HungThreads(flight_, absl::Seconds(5), 10 * kSecond), ElementsAre(0, 4 * kSecond));
}

TEST_F(BlameTest, WhoIsAtNoSampleDoesNotHang) {
  flight_.threads[0].lease_id = 0;
  flight_.threads[1].began_ns = 100 * kSecond;  // whatever a worker may write
  EXPECT_THAT(HungThreads(flight_, absl::Seconds(5), 50 * kSecond), ElementsAre(0, 0));
}

TEST_F(BlameTest, WithoutAThreadsWordTheLeasesThatWereBegunAreSuspects) {
  flight_.threads.clear();
  EXPECT_THAT(Told(v1::EXIT_CAUSE_CRASHED), ElementsAre("0", "1"));
  EXPECT_FALSE(Suspicions(v1::EXIT_CAUSE_CRASHED)[0].thread.has_value());
  held_.clear();
  EXPECT_THAT(Told(v1::EXIT_CAUSE_CRASHED), IsEmpty());
}

TEST_F(BlameTest, OfSeveralThreadsAtALeaseTheOneThatDidItSpeaks) {
  flight_.threads[1].lease_id = 10;
  grown_ = {0, 200};
  const auto suspicions = Suspicions(v1::EXIT_CAUSE_WATCHDOG);
  ASSERT_EQ(suspicions.size(), 1);
  EXPECT_EQ(suspicions[0].thread, 1);
  EXPECT_TRUE(suspicions[0].by_itself);
}

// Workers that die one after another at the leases that they were given.
class BlameOfDeathsTest : public PoolWorld {
 protected:
  // Gives a fresh worker the stream's next suspect, or else its next lease, and has it die at a
  // sample of that.
  void Die(v1::ExitCause cause, const std::string& sample) {
    crew_.slots()[0]->Install(MakeWorker(0));
    PoolWorker& worker = WorkerAt(0);
    auto lease = streams_.Assign(worker.id, /*suspect=*/true);
    if (!lease.has_value()) lease = streams_.Assign(worker.id, /*suspect=*/false);
    ASSERT_TRUE(lease.has_value());
    worker.held.push_back({lease->stream_id(), lease->lease_id(), lease->count(), false});
    worker.leases_given = 1;
    FlightSnapshot flight;
    FlightSnapshot::Thread thread;
    thread.stage = "stages[0] decode_image";
    thread.sample = sample;
    thread.stream_id = lease->stream_id();
    thread.lease_id = lease->lease_id();
    thread.position = lease->first_position() + lease->first_sample();
    flight.threads.push_back(thread);
    if (passes_) flight.stages.push_back({thread.stage, 0, 0, 0, 0, /*runs=*/1});
    if (refused_) {
      flight.refused_thread = 0;
      flight.refused_bytes = config_.quota_bytes;
    }
    found_ = blame_.OnDeath(worker, flight, cause, "killed by signal 11");
    streams_.all()[0]->WorkerGone(worker.id);
  }

  Blame blame_{part_};
  bool passes_ = false;   // other samples passed the stage
  bool refused_ = false;  // it was refused all of its quota
  DeathFinding found_;
};

TEST_F(BlameOfDeathsTest, ARecordThatEndsFreshWorkersIsPoison) {
  Man(2);
  const auto observer = AddStream();
  for (uint32_t i = 0; i < Blame::kPoisonDeaths; ++i) {
    EXPECT_TRUE(observer->events.empty()) << i;
    Die(v1::EXIT_CAUSE_CRASHED, "a.tfrecord@7");
    EXPECT_THAT(found_.work,
                StartsWith("stages[0] decode_image of a.tfrecord@7 (epoch 0, positions 0"));
  }
  ASSERT_EQ(observer->events.size(), 1u);
  EXPECT_EQ(observer->events[0].kind(), v1::SampleEvent::KIND_QUARANTINED);
  EXPECT_EQ(observer->events[0].record(), "a.tfrecord@7");
  EXPECT_FALSE(observer->end.has_value());
  // The others hear of it before they get another lease.
  ASSERT_EQ(HandleOf(WorkerAt(1)).sent.size(), 1u);
  EXPECT_EQ(HandleOf(WorkerAt(1)).sent[0].set_quarantine().quarantined(0), "a.tfrecord@7");
}

TEST_F(BlameOfDeathsTest, OnlyDeathsThatProveThatARecordIsPoisonAreProofs) {
  Man(1);
  const auto observer = AddStream();
  for (uint32_t i = 0; i < Blame::kPoisonDeaths; ++i) {
    Die(v1::EXIT_CAUSE_CRASHED, "a.tfrecord@7");
    EXPECT_TRUE(found_.is_proof) << i;
  }
  Die(v1::EXIT_CAUSE_CRASHED, "a.tfrecord@7");
  EXPECT_FALSE(found_.is_proof) << "it was left out already";
  Die(v1::EXIT_CAUSE_CRASHED, "");
  EXPECT_FALSE(found_.is_proof) << "the record is not known";
  Die(v1::EXIT_CAUSE_KILLED, "a.tfrecord@8");
  EXPECT_FALSE(found_.is_proof) << "whoever killed it";
}

TEST_F(BlameOfDeathsTest, WhereMemoryRanOutTheQuotaIsNamed) {
  config_.quota_bytes = 48 << 20;
  Man(1);
  const auto observer = AddStream();
  refused_ = true;
  for (uint32_t i = 0; i < Blame::kPoisonDeaths; ++i) Die(v1::EXIT_CAUSE_WATCHDOG, "a.tfrecord@7");
  ASSERT_EQ(observer->events.size(), 1u);
  EXPECT_THAT(observer->events[0].message(), HasSubstr("raise --worker-quota, now 48MiB"));
}

TEST_F(BlameOfDeathsTest, RecordsThatAllMeetTheQuotaAreNotToBlame) {
  config_.quota_bytes = 48 << 20;
  Man(1);
  const auto observer = AddStream();
  refused_ = true;
  for (const char* record : {"a.tfrecord@7", "a.tfrecord@8", "a.tfrecord@9"}) {
    EXPECT_FALSE(observer->end.has_value()) << record;
    for (uint32_t i = 0; i < Blame::kPoisonDeaths; ++i) Die(v1::EXIT_CAUSE_OUT_OF_MEMORY, record);
  }
  EXPECT_EQ(observer->events.size(), 2u) << "the third is not quarantined";
  ASSERT_TRUE(observer->end.has_value());
  EXPECT_EQ(GetErrorInfo(*observer->end)->reason, reason::kWorkerCrashLoop);
  EXPECT_THAT(
      std::string(observer->end->message()),
      AllOf(HasSubstr("3 different records met the worker's quota of 48MiB in stages[0] "
                      "decode_image, each alone in fresh workers, the last one "
                      "a.tfrecord@9"),
            HasSubstr("Raise --worker-quota to 64MiB; `bulkhead explain SPEC` with the same "
                      "quota shows how much a worker holds")));
}

TEST_F(BlameOfDeathsTest, RecordsThatCrashAreEachToBlame) {
  Man(1);
  const auto observer = AddStream();
  for (const char* record : {"a.tfrecord@7", "a.tfrecord@8", "a.tfrecord@9"}) {
    for (uint32_t i = 0; i < Blame::kPoisonDeaths; ++i) Die(v1::EXIT_CAUSE_CRASHED, record);
  }
  EXPECT_EQ(observer->events.size(), 3u);
  EXPECT_FALSE(observer->end.has_value());
}

TEST_F(BlameOfDeathsTest, CodeThatEndsWorkersAtEveryRecordIsNamedInsteadOfTheRecords) {
  config_.stage_code = {{"stages[0] decode_image", "my_aug:crash"}};
  Man(1);
  const auto observer = AddStream();
  for (const char* record : {"a.tfrecord@7", "a.tfrecord@8", "a.tfrecord@9"}) {
    EXPECT_FALSE(observer->end.has_value()) << record;
    for (uint32_t i = 0; i < Blame::kPoisonDeaths; ++i) Die(v1::EXIT_CAUSE_CRASHED, record);
  }
  EXPECT_THAT(observer->events[0].message(), HasSubstr("(my_aug:crash) at position"));
  EXPECT_THAT(observer->events[0].message(), HasSubstr("bulkhead.try_stage"));
  ASSERT_TRUE(observer->end.has_value());
  EXPECT_EQ(GetErrorInfo(*observer->end)->reason, reason::kWorkerCrashLoop);
  EXPECT_THAT(std::string(observer->end->message()),
              HasSubstr("3 different records ended 3 workers each in stages[0] decode_image "
                        "(my_aug:crash), and no sample passed it"));
}

TEST_F(BlameOfDeathsTest, RecordsThatCrashCodeWhichOthersPassAreEachToBlame) {
  config_.stage_code = {{"stages[0] decode_image", "my_aug:crash"}};
  passes_ = true;
  Man(1);
  const auto observer = AddStream();
  for (const char* record : {"a.tfrecord@7", "a.tfrecord@8", "a.tfrecord@9"}) {
    for (uint32_t i = 0; i < Blame::kPoisonDeaths; ++i) Die(v1::EXIT_CAUSE_CRASHED, record);
  }
  EXPECT_EQ(observer->events.size(), 3u);
  EXPECT_FALSE(observer->end.has_value());
}

TEST_F(BlameOfDeathsTest, WhatIsKnownOfAStreamGoesWithIt) {
  Man(1);
  const auto observer = AddStream();
  for (uint32_t i = 1; i < Blame::kPoisonDeaths; ++i) Die(v1::EXIT_CAUSE_CRASHED, "a.tfrecord@7");
  blame_.Forget(streams_.all()[0]->id());
  Die(v1::EXIT_CAUSE_CRASHED, "a.tfrecord@7");
  EXPECT_TRUE(observer->events.empty()) << "its deaths are counted anew";
}

TEST_F(BlameOfDeathsTest, ARecordThatIsNotKnownEndsItsStreamAfterMoreDeaths) {
  Man(1);
  const auto observer = AddStream();
  uint32_t deaths = 0;
  for (; !observer->end.has_value() && deaths < 20; ++deaths) Die(v1::EXIT_CAUSE_CRASHED, "");
  EXPECT_EQ(deaths, Blame::kMaxDeaths - LeaseTable::kSuspectDeaths);
  EXPECT_EQ(GetErrorInfo(*observer->end)->reason, reason::kWorkerCrashLoop);
}

TEST_F(BlameOfDeathsTest, KillsFromOutsideConvictOnlyWhoWasAlone) {
  Man(1);
  const auto observer = AddStream(v1::ERROR_ACTION_FAIL);
  for (uint32_t i = 0; i < Blame::kPoisonDeaths; ++i) Die(v1::EXIT_CAUSE_KILLED, "a.tfrecord@7");
  EXPECT_TRUE(observer->events.empty());
  EXPECT_FALSE(observer->end.has_value());
}

TEST_F(BlameOfDeathsTest, IdleDeathsEndThePoolOnceOnePlaceFailedTimeAndAgain) {
  crew_.Resize(2);
  Slot& slot = *crew_.slots()[0];
  for (uint32_t i = 1; i < Blame::kMaxDeaths; ++i) EXPECT_FALSE(blame_.OnIdleDeath(slot));
  EXPECT_FALSE(blame_.OnIdleDeath(slot)) << "in places all over";
  slot.deaths = Blame::kMaxDeaths;
  EXPECT_TRUE(blame_.OnIdleDeath(slot));
  blame_.OnProgress();
  EXPECT_FALSE(blame_.OnIdleDeath(slot)) << "they are counted anew";
  for (uint32_t i = 0; i < Blame::kMaxDeaths; ++i) blame_.OnIdleDeath(slot);
  crew_.slots()[1]->Install(MakeWorker(1));
  EXPECT_FALSE(blame_.OnIdleDeath(slot)) << "one worker is ready";
}

}  // namespace
}  // namespace bulkhead
