#include "server/supervisor/pool/crew.h"

#include <gmock/gmock.h>

#include "tests/supervisor/pool/pool_world.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CrewTest : public PoolWorld {
 protected:
  // Two places; in the first a worker is replaced, and somebody was lost.
  CrewTest() {
    Man(2);
    crew_.slots()[0]->successor = MakeWorker(0);
    crew_.slots()[0]->predecessor = MakeWorker(0);
    crew_.Lose(MakeWorker(1));
  }

  std::vector<LeaseTable::WorkerId> All() const {
    std::vector<LeaseTable::WorkerId> ids;
    crew_.ForEach([&](const PoolWorker& worker) { ids.push_back(worker.id); });
    return ids;
  }
  PoolWorker& Worker(LeaseTable::WorkerId id) const {
    PoolWorker* found = nullptr;
    crew_.ForEach([&](PoolWorker& worker) {
      if (worker.id == id) found = &worker;
    });
    return *found;
  }
};

TEST_F(CrewTest, KnowsWhereEachWorkerStandsThoseInPlacesFirst) {
  using Standing = Crew::Standing;
  EXPECT_THAT(All(), ElementsAre(1, 2, 5, 3, 4));
  EXPECT_EQ(crew_.StandingOf(Worker(1)), Standing::kInPlace);
  EXPECT_EQ(crew_.StandingOf(Worker(2)), Standing::kInPlace);
  EXPECT_EQ(crew_.StandingOf(Worker(3)), Standing::kSuccessor);
  EXPECT_EQ(crew_.StandingOf(Worker(4)), Standing::kPredecessor);
  EXPECT_EQ(crew_.StandingOf(Worker(5)), Standing::kLost);
}

TEST_F(CrewTest, WhoeverIsTakenOutIsNoLongerThereAndTheOthersAre) {
  for (const LeaseTable::WorkerId id : {5, 3, 1, 4, 2}) {
    PoolWorker& worker = Worker(id);
    const std::unique_ptr<PoolWorker> taken = crew_.TakeOut(worker);
    EXPECT_EQ(taken.get(), &worker);
    EXPECT_THAT(All(), testing::Not(testing::Contains(id)));
    EXPECT_FALSE(crew_.AnyLost()) << "that one went first";
    EXPECT_EQ(crew_.slots()[0]->is_replaced(), id == 5 || id == 3 || id == 1);
    EXPECT_EQ(crew_.AnyInPlace(), id != 2);
  }
  EXPECT_THAT(All(), IsEmpty());
}

TEST_F(CrewTest, SpeaksToThoseWhoAreBound) {
  Worker(4).bound = false;
  Worker(2).bound = false;
  internal::v1::ToWorker message;
  message.mutable_remove_stream()->set_stream_id(7);
  crew_.Send(message);
  for (const LeaseTable::WorkerId id : {1, 2, 3, 4, 5}) {
    EXPECT_EQ(HandleOf(Worker(id)).sent.size(), id == 2 || id == 4 ? 0u : 1u) << id;
  }
}

TEST_F(CrewTest, OneThatIsReadyInItsPlaceIsEnough) {
  Worker(1).bound = false;
  EXPECT_TRUE(crew_.AnyReady());
  HandleOf(Worker(2)).Kill(v1::EXIT_CAUSE_HUNG, "");
  EXPECT_FALSE(crew_.AnyReady()) << "a successor is in no place yet";
}

TEST_F(CrewTest, MorePlacesLeaveTheOthersAsTheyAre) {
  const Slot* const first = crew_.slots()[0].get();
  crew_.Resize(3);
  EXPECT_EQ(crew_.slots()[0].get(), first);
  EXPECT_EQ(crew_.slots()[2]->index, 2u);
  EXPECT_EQ(crew_.slots()[2]->worker, nullptr);
  EXPECT_EQ(&crew_.SlotOf(Worker(5)), crew_.slots()[1].get());
}

TEST_F(CrewTest, APlaceThatLeavesGoesOnceNobodyBelongsToIt) {
  crew_.slots()[1]->leaves = true;
  EXPECT_EQ(crew_.staying(), 1u);
  crew_.RemoveEmptyPlaces();
  ASSERT_EQ(crew_.slots().size(), 2u) << "its worker is there";
  crew_.TakeOut(Worker(2));
  crew_.RemoveEmptyPlaces();
  ASSERT_EQ(crew_.slots().size(), 2u) << "one of its workers is lost";
  crew_.TakeOut(Worker(5));
  crew_.RemoveEmptyPlaces();
  EXPECT_EQ(crew_.slots().size(), 1u);
}

TEST_F(CrewTest, AnEmptyPlaceIsTakenBeforeAnotherIsMade) {
  const Slot* const first = &crew_.AddPlace();
  EXPECT_EQ(first->index, 2u);
  EXPECT_EQ(crew_.AddPlace().index, 3u);
  crew_.slots()[2]->leaves = true;
  crew_.RemoveEmptyPlaces();
  ASSERT_EQ(crew_.slots().size(), 4u) << "the last one stays, and keeps its number";
  EXPECT_EQ(&crew_.AddPlace(), first);
  EXPECT_EQ(crew_.staying(), 4u);
  crew_.slots()[0]->leaves = true;
  EXPECT_EQ(crew_.AddPlace().index, 4u) << "the first one is not empty";
}

TEST_F(CrewTest, WhatWasSaidOfAWorkerIsForgottenWithIt) {
  Slot& slot = *crew_.slots()[1];
  slot.asked = true;
  slot.slow = "stages[0] resize";
  slot.failed_starts = 1;
  slot.worker->bound = false;
  EXPECT_FALSE(slot.Starts());
  slot.Install(MakeWorker(1));
  EXPECT_FALSE(slot.asked);
  EXPECT_EQ(slot.slow, "");
  EXPECT_TRUE(slot.Starts()) << "it is bound";
}

}  // namespace
}  // namespace bulkhead
