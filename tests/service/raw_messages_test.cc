#include "server/service/raw_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "bulkhead/v1/loader.pb.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

using ::testing::HasSubstr;

// A field of wire type 2 with less than 2^28 bytes.
std::string Field(uint32_t number, const std::string& content) {
  std::string field(1, static_cast<char>(number << 3 | 2));
  size_t size = content.size();
  for (; size >= 0x80; size >>= 7) field.push_back(static_cast<char>(size | 0x80));
  return field + static_cast<char>(size) + content;
}

std::string Repeat(const std::string& part, uint64_t count) {
  std::string text;
  for (uint64_t i = 0; i < count; ++i) text += part;
  return text;
}

template <typename Request>
std::string Parsed(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  Request request;
  const absl::Status status = ParseRequest(grpc::ByteBuffer(&slice, 1), request);
  if (status.ok()) return "ok";
  EXPECT_EQ(GetErrorInfo(status)->reason, reason::kProtocolViolation);
  return std::string(status.message());
}

std::string OpenWithCursor(const std::string& cursor) {
  const int open = v1::StreamRequest::kOpenFieldNumber;
  return Field(open, Field(v1::Open::kCursorFieldNumber, cursor));
}

TEST(RawMessagesTest, WhatWasSerializedIsParsed) {
  v1::StreamRequest request;
  request.mutable_open()->set_name("train");
  request.mutable_open()->mutable_cursor()->add_code()->set_name("a.py");
  EXPECT_EQ(Parsed<v1::StreamRequest>(request.SerializeAsString()), "ok");
  EXPECT_EQ(Parsed<v1::StreamRequest>(""), "ok");
}

TEST(RawMessagesTest, EmptyElementsOfAListAreCountedBeforeTheyAreMade) {
  const std::string code = Field(v1::Cursor::kCodeFieldNumber, "");
  // Open and cursor are fields, too.
  EXPECT_EQ(Parsed<v1::StreamRequest>(OpenWithCursor(Repeat(code, kMostRequestFields - 2))), "ok");
  EXPECT_EQ(Parsed<v1::StreamRequest>(OpenWithCursor(Repeat(code, kMostRequestFields - 1))),
            "the request has more than 120000 fields");
}

TEST(RawMessagesTest, PackedNumbersAndUnknownFieldsCountAsWell) {
  const std::string numbers(kMostRequestFields, '\1');
  EXPECT_THAT(
      Parsed<v1::StreamRequest>(OpenWithCursor(Field(v1::Cursor::kCompletedFieldNumber, numbers))),
      HasSubstr("more than"));
  const std::string unknown = {'\x78', '\1'};  // field 15, a varint
  EXPECT_THAT(Parsed<v1::RecycleRequest>(Repeat(unknown, kMostRequestFields + 1)),
              HasSubstr("more than"));
}

TEST(RawMessagesTest, WhatIsNoMessageIsRefused) {
  EXPECT_EQ(Parsed<v1::StreamRequest>("\x0a\x7f"), "a message could not be parsed");
  EXPECT_EQ(Parsed<v1::StreamRequest>("\x0b\x0c"), "a message could not be parsed") << "a group";
  const int name = v1::Open::kNameFieldNumber;
  EXPECT_EQ(Parsed<v1::StreamRequest>(Field(1, Field(name, "\xff"))),
            "a message could not be parsed")
      << "no UTF-8";
}

}  // namespace
}  // namespace bulkhead
