#include "server/supervisor/pool/pool_streams.h"

#include "tests/supervisor/pool/pool_world.h"

namespace bulkhead {
namespace {

constexpr LeaseTable::WorkerId kWorker = 1;
constexpr LeaseTable::WorkerId kOther = 2;

class PoolStreamsTest : public PoolWorld {
 protected:
  // The id of the stream that has a lease for a worker; 0: none has.
  uint64_t Assign(bool suspect = false) {
    const auto lease = streams_.Assign(kWorker, suspect);
    return lease.has_value() ? lease->stream_id() : 0;
  }
  uint64_t Delivered() const {
    v1::GetStatusResponse status;
    streams_.AppendTotals(status);
    return status.samples_delivered();
  }
  // A worker's only thread at a sample.
  static FlightSnapshot At(const internal::v1::Lease& lease, uint64_t position) {
    FlightSnapshot flight;
    flight.threads.resize(1);
    flight.threads[0].stream_id = lease.stream_id();
    flight.threads[0].lease_id = lease.lease_id();
    flight.threads[0].position = position;
    return flight;
  }
};

TEST_F(PoolStreamsTest, ServesThemInTurnAndPassesOverThoseWithoutWork) {
  AddStream();
  AddStream();
  EXPECT_TRUE(streams_.has_work());
  // Four batches of a lease each were begun of either.
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Assign(), 1u);
    EXPECT_EQ(Assign(), 2u);
  }
  streams_.Find(2)->Fail(absl::InternalError("it ends"));
  EXPECT_EQ(Assign(), 1u);
  EXPECT_EQ(Assign(), 1u);
  EXPECT_FALSE(streams_.has_work());
  EXPECT_EQ(Assign(), 0u);
}

TEST_F(PoolStreamsTest, ALineGoesToTheStreamThatItWasSaidForElseToAll) {
  const auto one = AddStream();
  const auto other = AddStream();
  v1::Note note;
  note.set_text("for the second");
  streams_.Tell(2, note);
  note.set_text("for all");
  streams_.Tell(0, note);
  EXPECT_EQ(one->notes, std::vector<std::string>({"for all"}));
  EXPECT_EQ(other->notes, std::vector<std::string>({"for the second", "for all"}));
}

TEST_F(PoolStreamsTest, WhatIsSaidBeforeThereIsAStreamWaitsForTheFirst) {
  v1::Note note;
  for (int i = 0; i < 52; ++i) {
    note.set_text(std::to_string(i));
    streams_.Tell(0, note);
  }
  const auto one = AddStream();
  streams_.TellEarly(*streams_.all().back());
  ASSERT_EQ(one->notes.size(), 50U);
  EXPECT_EQ(one->notes.back(), "49");
  streams_.SendNotes();
  EXPECT_EQ(one->notes.back().substr(0, 12), "2 lines were");
  const auto other = AddStream();
  streams_.TellEarly(*streams_.all().back());
  streams_.SendNotes();
  EXPECT_TRUE(other->notes.empty());
}

TEST_F(PoolStreamsTest, EveryStreamHearsOfDeathsAndReplacements) {
  const auto one = AddStream();
  const auto other = AddStream();
  streams_.Count(StreamNotes::kDeath, "worker 0: killed");
  streams_.Count(StreamNotes::kReplacement, "worker 1: it grew");
  streams_.SendNotes();
  const std::vector<std::string> expected = {
      "1 worker died: worker 0: killed; 1 worker was replaced as planned: worker 1: it grew"};
  EXPECT_EQ(one->notes, expected);
  EXPECT_EQ(other->notes, expected);
}

TEST_F(PoolStreamsTest, AStreamThatMakesBatchesForOthersIsNoClients) {
  const auto client = AddStream();
  const auto maker = AddStream(v1::ERROR_ACTION_SUBSTITUTE, /*for_others=*/true);
  EXPECT_EQ(streams_.clients(), 1u);
  v1::Note note;
  note.set_text("of a sample that it makes");
  streams_.Tell(2, note);
  note.set_text("for all");
  streams_.Tell(0, note);
  streams_.Count(StreamNotes::kDeath, "worker 0: killed");
  streams_.Count(StreamNotes::kReplacement, "worker 1: it grew");
  streams_.Tell(v1::Note::LEVEL_INFO, "for all, too");
  streams_.SendNotes();
  EXPECT_EQ(maker->notes, std::vector<std::string>{"of a sample that it makes"});
  EXPECT_EQ(client->notes.size(), 3u);
  for (int i = 0; i < 2; ++i) {
    const auto lease = streams_.Assign(kWorker, false);
    streams_.Find(lease->stream_id())->Complete(DoneWith(*lease), kWorker);
  }
  EXPECT_EQ(client->batches + maker->batches, 2);
  EXPECT_EQ(Delivered(), 16u);
  EXPECT_EQ(streams_.Find(2)->idle_for(0), absl::ZeroDuration()) << "nobody reads it or does not";
}

TEST_F(PoolStreamsTest, ASuspectOfAnyStreamIsWork) {
  AddStream();
  AddStream();
  const auto lease = streams_.Assign(kWorker, false);
  EXPECT_FALSE(streams_.has_suspect());
  const auto stream = streams_.Find(lease->stream_id());
  stream->NoteDeath(lease->lease_id(), kWorker, /*alone=*/false, /*by_itself=*/true);
  stream->WorkerGone(kWorker);
  EXPECT_TRUE(streams_.has_suspect());
  EXPECT_EQ(Assign(/*suspect=*/true), lease->stream_id());
  EXPECT_FALSE(streams_.has_suspect());
}

TEST_F(PoolStreamsTest, WhatOneThatIsGoneWasGivenStillCounts) {
  AddStream();
  AddStream();
  for (int i = 0; i < 2; ++i) {
    const auto lease = streams_.Assign(kWorker, false);
    streams_.Find(lease->stream_id())->Complete(DoneWith(*lease), kWorker);
  }
  EXPECT_EQ(Delivered(), 32u);
  const auto gone = streams_.Find(1);
  EXPECT_TRUE(streams_.Remove(1));
  EXPECT_TRUE(gone->finished());
  EXPECT_EQ(streams_.Find(1), nullptr);
  EXPECT_EQ(Delivered(), 32u);
  EXPECT_FALSE(streams_.Remove(1));
  EXPECT_EQ(Delivered(), 32u);
  EXPECT_FALSE(streams_.empty());
}

TEST_F(PoolStreamsTest, TellsOnlyOfSamplesThatAWorkerHoldsALeaseOf) {
  AddStream();
  const auto lease = streams_.Assign(kWorker, false);
  const uint64_t position = lease->first_position();
  const auto told = [&](LeaseTable::WorkerId worker, const FlightSnapshot& flight) {
    return streams_.WithinLeases(worker, flight).threads[0].lease_id != 0;
  };
  EXPECT_TRUE(told(kWorker, At(*lease, position)));
  EXPECT_FALSE(told(kOther, At(*lease, position)));
  EXPECT_FALSE(told(kWorker, At(*lease, position + 16)));
  streams_.Remove(lease->stream_id());
  EXPECT_FALSE(told(kWorker, At(*lease, position)));
}

}  // namespace
}  // namespace bulkhead
