#include "server/service/batch_frames.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace bulkhead {
namespace {

constexpr uint64_t kMiB = 1 << 20;

void AddTensor(v1::BatchSchema& schema, uint64_t offset, uint64_t sample_bytes) {
  v1::TensorSchema& tensor = *schema.add_tensors();
  tensor.set_batch_offset(offset);
  tensor.set_sample_bytes(sample_bytes);
}

// Two tensors: 64 samples of 40,000 bytes, and of 8.
v1::BatchSchema Schema() {
  v1::BatchSchema schema;
  AddTensor(schema, 0, 40000);
  AddTensor(schema, 64 * 40000, 8);
  schema.set_batch_size(64);
  schema.set_batch_bytes(64 * 40008);
  return schema;
}

struct Delivery {
  std::vector<v1::BatchPart> parts;
  bool released_before_frames_were_destroyed = false;
  bool released_after = false;
};

// Frames a batch whose slot holds a pattern, and parses every message with protobuf's own code.
Delivery Deliver(const v1::BatchSchema& schema, uint64_t samples, std::shared_ptr<Arena> arena) {
  Delivery delivery;
  bool released = false;
  ReadyBatch batch;
  batch.header.set_sequence(7);
  batch.header.set_sample_count(samples);
  batch.hold = std::make_shared<const SlotHold>(arena, 0, [&released](bool) { released = true; });
  {
    std::deque<grpc::ByteBuffer> frames = FrameBatch(schema, std::move(batch));
    for (grpc::ByteBuffer& frame : frames) {
      std::vector<grpc::Slice> slices;
      EXPECT_TRUE(frame.Dump(&slices).ok());
      std::string bytes;
      for (const grpc::Slice& slice : slices) {
        bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
      }
      v1::StreamResponse response;
      EXPECT_TRUE(response.ParseFromString(bytes));
      EXPECT_TRUE(response.has_part());
      delivery.parts.push_back(response.part());
    }
    delivery.released_before_frames_were_destroyed = released;
  }
  delivery.released_after = released;
  return delivery;
}

std::shared_ptr<Arena> PatternArena(uint64_t bytes) {
  const uint64_t slot = (bytes + 4095) / 4096 * 4096;
  auto arena = Arena::Create(slot, 1).value();
  for (uint64_t i = 0; i < bytes; ++i)
    arena->slot(0)[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  return arena;
}

TEST(FrameBatchTest, AFullBatchTravelsAsItLies) {
  const v1::BatchSchema schema = Schema();
  const auto arena = PatternArena(schema.batch_bytes());
  const Delivery delivery = Deliver(schema, 64, arena);
  std::string payload;
  for (size_t i = 0; i < delivery.parts.size(); ++i) {
    const v1::BatchPart& part = delivery.parts[i];
    EXPECT_EQ(part.has_header(), i == 0);
    EXPECT_EQ(part.offset(), payload.size());
    EXPECT_LE(part.data().size(), kMiB);
    payload += part.data();
  }
  EXPECT_EQ(delivery.parts[0].header().sequence(), 7);
  EXPECT_EQ(delivery.parts[0].header().payload_bytes(), schema.batch_bytes());
  ASSERT_EQ(payload.size(), schema.batch_bytes());
  EXPECT_EQ(std::memcmp(payload.data(), arena->slot(0), payload.size()), 0);
}

TEST(FrameBatchTest, ASmallBatchTravelsTensorByTensor) {
  const v1::BatchSchema schema = Schema();
  const auto arena = PatternArena(schema.batch_bytes());
  const Delivery delivery = Deliver(schema, 3, arena);
  ASSERT_EQ(delivery.parts.size(), 2);
  EXPECT_EQ(delivery.parts[0].header().payload_bytes(), 3 * 40008);
  EXPECT_EQ(delivery.parts[0].data().size(), 3 * 40000);
  EXPECT_EQ(delivery.parts[1].offset(), 64 * 40000);
  EXPECT_EQ(std::memcmp(delivery.parts[1].data().data(), arena->slot(0) + 64 * 40000, 24), 0);
}

TEST(FrameBatchTest, TheSlotIsHeldUntilTheLastMessageIsDestroyed) {
  const Delivery delivery = Deliver(Schema(), 64, PatternArena(Schema().batch_bytes()));
  EXPECT_FALSE(delivery.released_before_frames_were_destroyed);
  EXPECT_TRUE(delivery.released_after);
}

TEST(FrameBatchTest, ABatchWithoutBytesStillHasItsHeader) {
  v1::BatchSchema schema;
  AddTensor(schema, 0, 0);
  schema.set_batch_size(4);
  const Delivery delivery = Deliver(schema, 2, PatternArena(1));
  ASSERT_EQ(delivery.parts.size(), 1);
  EXPECT_EQ(delivery.parts[0].header().sequence(), 7);
  EXPECT_EQ(delivery.parts[0].header().payload_bytes(), 0);
}

}  // namespace
}  // namespace bulkhead
