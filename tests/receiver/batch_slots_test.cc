#include "server/receiver/batch_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace bulkhead {
namespace {

using Added = BatchSlots::Added;
constexpr uint64_t kBatchSize = 5;
constexpr uint64_t kBatchBytes = 10;

// Two tensors with a byte of each sample.
v1::BatchSchema Schema(uint64_t batch_bytes = kBatchBytes) {
  v1::BatchSchema schema;
  schema.set_batch_size(kBatchSize);
  schema.set_batch_bytes(batch_bytes);
  for (const uint64_t offset : {uint64_t{0}, kBatchSize}) {
    v1::TensorSchema& tensor = *schema.add_tensors();
    tensor.set_batch_offset(offset);
    tensor.set_sample_bytes(1);
  }
  return schema;
}

// A message with a part of a batch, as it lies on the wire.
class Message {
 public:
  Message(uint64_t offset, const std::string& data) {
    part_.set_offset(offset);
    part_.set_data(data);
  }
  Message& Head(uint64_t sequence, uint64_t samples = kBatchSize) {
    part_.mutable_header()->set_sequence(sequence);
    part_.mutable_header()->set_sample_count(samples);
    part_.mutable_header()->set_payload_bytes(2 * samples);
    return *this;
  }
  absl::StatusOr<Added> AddTo(BatchSlots& slots) const {
    v1::StreamResponse response;
    *response.mutable_part() = part_;
    const std::vector<grpc::Slice> slices = {grpc::Slice(response.SerializeAsString())};
    return slots.Add(client_internal::ParseStreamResponse(slices)->part);
  }

 private:
  v1::BatchPart part_;
};

class BatchSlotsTest : public ::testing::Test {
 protected:
  std::string Bytes(uint64_t count = kBatchBytes) const {
    return std::string(reinterpret_cast<const char*>(slots_.arena()->slot(slots_.slot())), count);
  }
  void Fill(uint64_t sequence) {
    ASSERT_EQ(*Message(0, "0123456789").Head(sequence).AddTo(slots_), Added::kBatch);
  }

  BatchSlots slots_ = *BatchSlots::Create(Schema(), 2);
};

TEST_F(BatchSlotsTest, JoinsPartsInASlot) {
  EXPECT_EQ(*Message(0, "01234").Head(7).AddTo(slots_), Added::kPart);
  EXPECT_EQ(*Message(5, "56789").AddTo(slots_), Added::kBatch);
  EXPECT_EQ(slots_.header().sequence(), 7);
  EXPECT_EQ(Bytes(), "0123456789");
}

TEST_F(BatchSlotsTest, APartialBatchIsWholeWithItsPayload) {
  EXPECT_EQ(*Message(0, "01").Head(0, 2).AddTo(slots_), Added::kPart);
  EXPECT_EQ(*Message(5, "56").AddTo(slots_), Added::kBatch);
  EXPECT_EQ(Bytes().substr(0, 2), "01");
  EXPECT_EQ(Bytes().substr(5, 2), "56");
}

TEST_F(BatchSlotsTest, ABatchOfNothingIsWholeAtOnce) {
  EXPECT_EQ(*Message(0, "").Head(0, 0).AddTo(slots_), Added::kBatch);
}

TEST_F(BatchSlotsTest, WaitsForASlotAndLosesNothing) {
  Fill(0);
  const uint32_t first = slots_.slot();
  Fill(1);
  const Message third = Message(0, "abcdefghij").Head(2);
  EXPECT_EQ(*third.AddTo(slots_), Added::kNothing);
  slots_.Free(first);
  EXPECT_EQ(*third.AddTo(slots_), Added::kBatch);
  EXPECT_EQ(slots_.slot(), first);
  EXPECT_EQ(Bytes(), "abcdefghij");
}

TEST_F(BatchSlotsTest, HasASlotMoreThanItUses) {
  EXPECT_EQ(slots_.arena()->slot_count(), 3);
  Fill(0);
  Fill(1);
  EXPECT_LT(slots_.slot(), 2);
}

TEST_F(BatchSlotsTest, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(Message(0, "0").AddTo(slots_).ok()) << "a batch without a header";
  const uint64_t room = slots_.arena()->slot_bytes();
  EXPECT_FALSE(Message(room, "0").Head(0).AddTo(slots_).ok()) << "behind the slot";
  BatchSlots others = *BatchSlots::Create(Schema(), 2);
  EXPECT_FALSE(Message(~uint64_t{0}, "0").Head(0).AddTo(others).ok()) << "an offset that overflows";
  BatchSlots more = *BatchSlots::Create(Schema(), 2);
  EXPECT_FALSE(Message(0, "0123456789a").Head(0).AddTo(more).ok()) << "more than was announced";
  BatchSlots twice = *BatchSlots::Create(Schema(), 2);
  EXPECT_EQ(*Message(0, "0").Head(0).AddTo(twice), Added::kPart);
  EXPECT_FALSE(Message(0, "0").Head(1).AddTo(twice).ok()) << "a batch within a batch";
}

TEST_F(BatchSlotsTest, RefusesGapsOverlapsAndOtherSizes) {
  const auto refuses = [](const std::vector<Message>& messages) {
    BatchSlots slots = *BatchSlots::Create(Schema(), 2);
    for (size_t i = 0; i + 1 < messages.size(); ++i) {
      EXPECT_EQ(*messages[i].AddTo(slots), Added::kPart);
    }
    return !messages.back().AddTo(slots).ok();
  };
  EXPECT_TRUE(refuses({Message(1, "01234").Head(0)})) << "a gap at the beginning";
  EXPECT_TRUE(refuses({Message(0, "01234").Head(0), Message(6, "6789")})) << "a gap";
  EXPECT_TRUE(refuses({Message(0, "01234").Head(0), Message(4, "4567")})) << "an overlap";
  EXPECT_TRUE(refuses({Message(0, "012").Head(0, 2)})) << "more samples than were announced";
  EXPECT_TRUE(refuses({Message(0, "01").Head(0, 2), Message(2, "56")})) << "another tensor's place";
  EXPECT_TRUE(refuses({Message(0, "0123456789").Head(0, 6)})) << "more samples than a batch has";
}

TEST_F(BatchSlotsTest, RefusesBatchesBeyondAnyMemory) {
  EXPECT_EQ(BatchSlots::Create(Schema(~uint64_t{0}), 2).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace bulkhead
