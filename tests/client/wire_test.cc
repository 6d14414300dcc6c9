#include "client/cpp/internal/rpc/wire.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bulkhead/error.h"
#include "bulkhead/v1/loader.pb.h"

namespace bulkhead::client_internal {
namespace {

// `message` in slices of `size` bytes, an empty one among them.
std::vector<grpc::Slice> InSlices(const std::string& message, size_t size) {
  std::vector<grpc::Slice> slices = {grpc::Slice()};
  for (size_t i = 0; i < message.size(); i += size) {
    slices.emplace_back(message.substr(i, size));
  }
  return slices;
}

std::string PartMessage() {
  v1::StreamResponse response;
  auto* part = response.mutable_part();
  part->mutable_header()->set_sequence(7);
  part->mutable_header()->set_payload_bytes(300);
  part->set_offset(uint64_t{1} << 40);
  part->set_data(std::string(300, 'x') + "y");
  return response.SerializeAsString();
}

TEST(WireTest, ReadsAPartAsProtobufWroteItHoweverItIsSliced) {
  const std::string message = PartMessage();
  for (size_t size = 1; size <= message.size(); ++size) {
    const auto slices = InSlices(message, size);
    auto view = ParseStreamResponse(slices);
    ASSERT_TRUE(view.ok()) << size;
    ASSERT_TRUE(view->is_part);
    v1::BatchHeader header;
    ASSERT_TRUE(view->part.has_header && header.ParseFromString(view->part.header));
    EXPECT_EQ(header.sequence(), 7u);
    EXPECT_EQ(view->part.offset, uint64_t{1} << 40);
    ASSERT_EQ(view->part.data_bytes, 301u);
    std::string data(301, '\0');
    ASSERT_TRUE(view->part.data.CopyTo(data.data(), data.size()));
    EXPECT_EQ(data, std::string(300, 'x') + "y");
  }
}

TEST(WireTest, LeavesOtherMessagesToProtobuf) {
  v1::StreamResponse response;
  response.mutable_progress()->set_activity("indexing");
  const auto slices = InSlices(response.SerializeAsString(), 3);
  auto view = ParseStreamResponse(slices);
  ASSERT_TRUE(view.ok());
  EXPECT_FALSE(view->is_part);
  EXPECT_EQ(view->other, response.SerializeAsString());
}

TEST(WireTest, PassesOverUnknownFields) {
  const std::string inner(
      "\x0a\x00\x18\x05\x25"
      "aaaa"
      "\x29"
      "aaaaaaaa"
      "\x7a\x02hi",
      22);
  std::string message("\x38\x01\x7a", 3);
  message += static_cast<char>(inner.size());
  message += inner;
  const auto slices = InSlices(message, 5);
  auto view = ParseStreamResponse(slices);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->part.data_bytes, 2u);
}

TEST(WireTest, RefusesEveryCut) {
  const std::string message = PartMessage();
  for (size_t cut = 1; cut < message.size(); ++cut) {
    const auto slices = InSlices(message.substr(0, cut), 16);
    const auto view = ParseStreamResponse(slices);
    ASSERT_FALSE(view.ok()) << cut;
    EXPECT_EQ(ErrorReason(view.status()), "PROTOCOL_VIOLATION");
  }
}

TEST(WireTest, SurvivesEveryFlippedByte) {
  const std::string message = PartMessage();
  int refused = 0;
  for (size_t place = 0; place < message.size(); ++place) {
    for (const int value : {0, 0x7f, 0x80, 0xff}) {
      std::string bad = message;
      bad[place] = static_cast<char>(value);
      const auto slices = InSlices(bad, 16);
      auto view = ParseStreamResponse(slices);
      if (!view.ok()) {
        ++refused;
      } else if (view->is_part) {
        EXPECT_LE(view->part.data_bytes, bad.size());
      }
    }
  }
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace bulkhead::client_internal
