#include "client/cpp/internal/stream/receiver.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bulkhead/error.h"
#include "tests/client/fake_service.h"

namespace bulkhead::client_internal {
namespace {

grpc::ByteBuffer Serialized(const v1::StreamResponse& response) {
  const grpc::Slice slice(response.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

v1::StreamResponse OpenedMessage() {
  v1::StreamResponse response;
  *response.mutable_opened()->mutable_schema() = FakeSchema();
  response.mutable_opened()->set_samples_per_epoch(20);
  response.mutable_opened()->mutable_cursor()->set_version(2);
  response.mutable_opened()->mutable_cursor()->set_samples_per_epoch(20);
  return response;
}

// A whole batch of one sample, or its first half.
v1::StreamResponse PartMessage(uint64_t sequence, bool whole = true) {
  v1::StreamResponse response;
  auto* part = response.mutable_part();
  part->mutable_header()->set_sequence(sequence);
  part->mutable_header()->set_sample_count(1);
  part->mutable_header()->set_valid_count(1);
  part->mutable_header()->set_next_consumed(sequence + 1);
  part->mutable_header()->set_payload_bytes(whole ? 67 : 11);
  part->set_data(std::string(whole ? 67 : 8, 'i'));
  return response;
}

v1::StreamResponse EventMessage(v1::SampleEvent::Kind kind) {
  v1::StreamResponse response;
  response.mutable_event()->set_kind(kind);
  response.mutable_event()->set_position(3);
  response.mutable_event()->set_substitute_position(4);
  response.mutable_event()->set_record("a@1");
  return response;
}

class ReceiverTest : public testing::Test {
 protected:
  ReceiverTest() {
    config_.target = "here";
    config_.first_sequence = 50;
    config_.open.mutable_credits()->set_batches(2);
    config_.open.mutable_credits()->set_bytes(1000);
    config_.open.set_world_size(1);
    config_.silence = absl::ZeroDuration();
    config_.on_substitution = [this](const SubstitutionEvent& event) {
      substituted_.push_back(event.substitute_position);
    };
    config_.on_quarantine = [this](const QuarantineEvent& event) {
      quarantined_.push_back(event.record);
    };
  }

  absl::Status Receive(const v1::StreamResponse& response) {
    return receiver_.OnMessage(Serialized(response));
  }

  std::vector<uint64_t> substituted_;
  std::vector<std::string> quarantined_;
  std::vector<uint64_t> released_;
  StreamConfig config_;
  Inbox inbox_{config_, [](uint64_t) {}};
  Receiver receiver_{config_, &inbox_,
                     [this](uint64_t sequence) { released_.push_back(sequence); }};
};

TEST_F(ReceiverTest, PutsABatchIntoTheInboxUnderTheCallersNumber) {
  ASSERT_TRUE(Receive(OpenedMessage()).ok());
  EXPECT_EQ(receiver_.info().samples_per_epoch, 20u);
  ASSERT_TRUE(Receive(PartMessage(0)).ok());
  {
    const auto batch = inbox_.Next(absl::ZeroDuration(), absl::ZeroDuration());
    ASSERT_TRUE(batch.ok() && batch->has_value());
    EXPECT_EQ((*batch)->sequence(), 50u);
    EXPECT_TRUE(released_.empty());
  }
  EXPECT_EQ(released_, std::vector<uint64_t>{0});
  EXPECT_EQ(inbox_.next_sequence(), 51u);
}

TEST_F(ReceiverTest, AnEndBeforeTheLastBatchIsALoss) {
  v1::StreamResponse opened = OpenedMessage();
  opened.mutable_opened()->set_epochs(1);
  ASSERT_TRUE(Receive(opened).ok());
  ASSERT_TRUE(Receive(PartMessage(0)).ok());
  EXPECT_EQ(ErrorReason(receiver_.OnEnd()), "SERVICE_UNAVAILABLE");
  v1::StreamResponse last = PartMessage(1);
  last.mutable_part()->mutable_header()->set_next_epoch(1);
  ASSERT_TRUE(Receive(last).ok());
  EXPECT_TRUE(receiver_.OnEnd().ok());
}

TEST_F(ReceiverTest, RefusesWhatComesBeforeOpened) {
  EXPECT_EQ(ErrorReason(Receive(PartMessage(0))), "PROTOCOL_VIOLATION");
  EXPECT_EQ(ErrorReason(Receive(EventMessage(v1::SampleEvent::KIND_QUARANTINED))),
            "PROTOCOL_VIOLATION");
  EXPECT_EQ(ErrorReason(receiver_.OnEnd()), "PROTOCOL_VIOLATION");
}

TEST_F(ReceiverTest, RefusesASecondOpened) {
  ASSERT_TRUE(Receive(OpenedMessage()).ok());
  EXPECT_EQ(ErrorReason(Receive(OpenedMessage())), "PROTOCOL_VIOLATION");
}

TEST_F(ReceiverTest, RefusesSlotsWithoutAnArena) {
  ASSERT_TRUE(Receive(OpenedMessage()).ok());
  v1::StreamResponse slot;
  slot.mutable_slot()->set_arena_id(1);
  EXPECT_EQ(ErrorReason(Receive(slot)), "PROTOCOL_VIOLATION");
  EXPECT_FALSE(receiver_.has_arena());
}

TEST_F(ReceiverTest, RefusesMoreBatchesThanThereAreCredits) {
  ASSERT_TRUE(Receive(OpenedMessage()).ok());
  for (const uint64_t sequence : {0, 1}) ASSERT_TRUE(Receive(PartMessage(sequence)).ok());
  EXPECT_EQ(ErrorReason(Receive(PartMessage(2))), "PROTOCOL_VIOLATION");
}

TEST_F(ReceiverTest, AnEndInTheMiddleOfABatchIsAnError) {
  ASSERT_TRUE(Receive(OpenedMessage()).ok());
  ASSERT_TRUE(Receive(PartMessage(0, false)).ok());
  EXPECT_EQ(ErrorReason(receiver_.OnEnd()), "PROTOCOL_VIOLATION");
}

TEST_F(ReceiverTest, PassesEventsOnAndKeepsTheQuarantine) {
  ASSERT_TRUE(Receive(OpenedMessage()).ok());
  ASSERT_TRUE(Receive(EventMessage(v1::SampleEvent::KIND_SUBSTITUTED)).ok());
  ASSERT_TRUE(Receive(EventMessage(v1::SampleEvent::KIND_QUARANTINED)).ok());
  EXPECT_EQ(substituted_, std::vector<uint64_t>{4});
  EXPECT_EQ(quarantined_, std::vector<std::string>{"a@1"});
  ASSERT_EQ(inbox_.resume_cursor().quarantined_size(), 1);
  EXPECT_EQ(inbox_.resume_cursor().quarantined(0), "a@1");
}

TEST_F(ReceiverTest, ASupervisorThatIsSilentEndsTheStream) {
  v1::StreamResponse beat;
  beat.mutable_heartbeat()->mutable_supervisor_silent()->set_seconds(60);
  EXPECT_EQ(ErrorReason(Receive(beat)), "SERVICE_SILENT");
  beat.mutable_heartbeat()->set_activity("reading");
  (void)Receive(beat);
  EXPECT_NE(inbox_.Next(absl::ZeroDuration(), absl::ZeroDuration())
                .status()
                .message()
                .find("activity of the workers: reading"),
            std::string::npos);
}

}  // namespace
}  // namespace bulkhead::client_internal
