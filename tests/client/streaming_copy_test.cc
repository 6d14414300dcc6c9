#include "client/cpp/internal/base/streaming_copy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace bulkhead::client_internal {
namespace {

constexpr uint8_t kUntouched = 0xEE;

// A source of `count` bytes at `from` within a cache line, copied to `to` within one: what lies
// around the destination must stay as it was.
void ExpectCopied(size_t count, size_t from, size_t to) {
  std::vector<uint8_t> source(from + count + 64);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(i * 7 % 229);
  std::vector<uint8_t> expected(to + count + 128, kUntouched);
  std::vector<uint8_t> copied = expected;
  for (size_t i = 0; i < count; ++i) expected[to + i] = source[from + i];
  StreamingCopy(copied.data() + to, source.data() + from, count);
  ASSERT_EQ(copied, expected) << count << " bytes, from +" << from << " to +" << to;
}

TEST(StreamingCopyTest, CopiesEveryLengthAroundItsThresholds) {
  for (size_t count = 0; count < 200; ++count) ExpectCopied(count, 0, 0);
  for (size_t count = 1980; count < 2300; ++count) ExpectCopied(count, 0, 0);
}

TEST(StreamingCopyTest, CopiesFromAndToEveryAlignment) {
  for (size_t from = 0; from < 64; ++from) {
    for (size_t to = 0; to < 64; ++to) ExpectCopied(4096 + 17, from, to);
  }
}

}  // namespace
}  // namespace bulkhead::client_internal
