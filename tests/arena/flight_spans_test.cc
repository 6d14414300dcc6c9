#include "server/arena/flight_spans.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace bulkhead {
namespace {

FlightSpan SpanOf(uint64_t number) {
  FlightSpan span;
  span.kind = FlightSpan::Kind::kStage;
  span.stage = static_cast<uint32_t>(number % 7);
  span.begin_ns = static_cast<int64_t>(number);
  span.end_ns = static_cast<int64_t>(number + 1);
  span.stream_id = number + 2;
  span.lease_id = number + 3;
  span.position = number + 4;
  return span;
}

bool IsWhole(const FlightSpan& span) {
  const FlightSpan meant = SpanOf(static_cast<uint64_t>(span.begin_ns));
  return span.kind == meant.kind && span.stage == meant.stage && span.end_ns == meant.end_ns &&
         span.stream_id == meant.stream_id && span.lease_id == meant.lease_id &&
         span.position == meant.position;
}

class FlightSpansTest : public testing::Test {
 protected:
  const std::unique_ptr<FlightSpanRing> ring_ = std::make_unique<FlightSpanRing>();
  uint64_t from_ = 0;
  std::vector<FlightSpan> spans_;
};

TEST_F(FlightSpansTest, GivesEachSpanOnceAndInOrder) {
  EXPECT_EQ(ring_->Read(from_, spans_), 0u);
  EXPECT_TRUE(spans_.empty());
  for (uint64_t i = 0; i < 5; ++i) ring_->Write(SpanOf(i));
  EXPECT_EQ(ring_->Read(from_, spans_), 0u);
  ring_->Write(SpanOf(5));
  EXPECT_EQ(ring_->Read(from_, spans_), 0u);
  ASSERT_EQ(spans_.size(), 6u);
  for (uint64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(spans_[i].begin_ns, static_cast<int64_t>(i));
    EXPECT_TRUE(IsWhole(spans_[i]));
  }
}

TEST_F(FlightSpansTest, CountsWhatWasOverwritten) {
  constexpr uint64_t kWritten = FlightSpanRing::kSpans + 100;
  for (uint64_t i = 0; i < kWritten; ++i) ring_->Write(SpanOf(i));
  const uint64_t lost = ring_->Read(from_, spans_);
  EXPECT_EQ(lost + spans_.size(), kWritten);
  EXPECT_EQ(lost, 101u) << "one cell may be under the writer's hand";
  EXPECT_EQ(spans_.front().begin_ns, 101);
  EXPECT_EQ(spans_.back().begin_ns, static_cast<int64_t>(kWritten - 1));
}

TEST_F(FlightSpansTest, GivesNothingThatWasWrittenOverWhileItRead) {
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 0; !stop; ++i) ring_->Write(SpanOf(i));
  });
  uint64_t lost = 0;
  uint64_t read = 0;
  int64_t last = -1;
  while (read < 200'000) {
    spans_.clear();
    lost += ring_->Read(from_, spans_);
    for (const FlightSpan& span : spans_) {
      ASSERT_TRUE(IsWhole(span)) << span.begin_ns;
      ASSERT_GT(span.begin_ns, last);
      last = span.begin_ns;
    }
    read += spans_.size();
  }
  stop = true;
  writer.join();
  EXPECT_EQ(lost + read, from_);
}

TEST_F(FlightSpansTest, ARingThatLiesIsReadWithinItsBounds) {
  // The count is the first word.
  auto* const count = reinterpret_cast<std::atomic<uint64_t>*>(ring_.get());
  *count = ~uint64_t{0};
  EXPECT_LE(ring_->Read(from_, spans_), uint64_t{1} << 32);
  EXPECT_LT(spans_.size(), FlightSpanRing::kSpans);
  *count = 3;  // it goes back
  spans_.clear();
  EXPECT_EQ(ring_->Read(from_, spans_), 0u);
  EXPECT_TRUE(spans_.empty());
  EXPECT_EQ(from_, 3u);
}

}  // namespace
}  // namespace bulkhead
