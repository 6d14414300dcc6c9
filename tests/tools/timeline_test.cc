#include "tools/trace/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tools/trace/trace_summary.h"

namespace bulkhead::tools::timeline_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kStream = 7;
constexpr uint64_t kWorker = 5;
constexpr int64_t kMilli = 1'000'000;
constexpr int64_t kBegin = 1000 * kMilli;  // all times are after it

// A trace of one stream and one worker with a stage, of 100 ms.
class TimelineTest : public testing::Test {
 protected:
  TimelineTest() {
    part_.set_begin_ns(kBegin);
    part_.set_end_ns(kBegin + 100 * kMilli);
    v1::TracedStream& stream = *part_.add_streams();
    stream.set_id(kStream);
    stream.set_name("train");
    stream.set_pipeline("5f0c2a11");
    v1::TracedWorker& worker = *part_.add_workers();
    worker.set_id(kWorker);
    worker.set_pid(4242);
    worker.set_pipeline("5f0c2a11");
    worker.set_generation(1);
    for (const char* stage : {"worker", "source", "stages[0] resize"}) worker.add_stages(stage);
  }

  v1::TraceMoment& Add(v1::TraceMoment::Kind kind, int64_t at_ms, uint64_t batch = 0) {
    v1::TraceMoment& moment = *part_.add_moments();
    moment.set_kind(kind);
    moment.set_time_ns(kBegin + at_ms * kMilli);
    moment.set_stream(kStream);
    moment.set_batch(batch);
    return moment;
  }
  // Of the batch whose first position is that.
  void Give(uint64_t lease, uint64_t first_position, int64_t at_ms) {
    v1::TraceMoment& moment = Add(v1::TraceMoment::KIND_LEASE_GIVEN, at_ms);
    moment.set_lease(lease);
    moment.set_worker(kWorker);
    moment.set_first_position(first_position);
    moment.set_samples(16);
  }
  void Begin(uint64_t batch, uint64_t first_position, int64_t at_ms) {
    Add(v1::TraceMoment::KIND_BATCH_BEGUN, at_ms, batch).set_first_position(first_position);
  }
  v1::TraceSpan& Add(v1::TraceSpan::Kind kind, int64_t begin_ms, int64_t end_ms,
                     uint64_t lease = 0) {
    v1::TraceSpan& span = *part_.add_spans();
    span.set_kind(kind);
    span.set_worker(kWorker);
    span.set_begin_ns(kBegin + begin_ms * kMilli);
    span.set_end_ns(kBegin + end_ms * kMilli);
    span.set_lease(lease);
    if (lease != 0) span.set_stream(kStream);
    if (kind == v1::TraceSpan::KIND_STAGE) span.set_stage(2);
    return span;
  }

  Timeline Arranged(std::optional<BatchRange> range = std::nullopt) {
    Timeline timeline(range, 1000);
    timeline.Take(part_);
    timeline.Arrange();
    return timeline;
  }
  static std::string Written(const Timeline& timeline) {
    std::ostringstream out;
    WriteTimeline(timeline, out);
    return out.str();
  }

  v1::TraceResponse part_;
};

TEST_F(TimelineTest, ABatchGoesFromWorkersToTheClientAndBack) {
  Begin(3, 48, 10);
  Add(v1::TraceMoment::KIND_BATCH_HANDED_OUT, 50, 3);  // not in order of time
  Add(v1::TraceMoment::KIND_BATCH_READY, 30, 3);
  Add(v1::TraceMoment::KIND_BATCH_RETURNED, 90, 3);
  const std::string text = Written(Arranged());
  EXPECT_THAT(text, HasSubstr("\"ts\":10000.000,\"dur\":80000.000,\"cat\":\"batch\","
                              "\"name\":\"batch\",\"args\":{\"batch\":3,\"epoch\":0,"
                              "\"first position\":48"));
  EXPECT_THAT(text, HasSubstr("\"ts\":10000.000,\"dur\":20000.000,\"cat\":\"batch\","
                              "\"name\":\"is made\""));
  EXPECT_THAT(text, HasSubstr("\"ts\":30000.000,\"dur\":20000.000,\"cat\":\"batch\","
                              "\"name\":\"is ready\""));
  EXPECT_THAT(text, HasSubstr("\"ts\":50000.000,\"dur\":40000.000,\"cat\":\"batch\","
                              "\"name\":\"is with the client\""));
}

TEST_F(TimelineTest, OfABatchThatWasSeenInPartTheRestIsDrawnToTheEdges) {
  Add(v1::TraceMoment::KIND_BATCH_RETURNED, 20, 1);  // with the client when the trace began
  Begin(2, 32, 40);                                  // in work when it ended
  const std::string text = Written(Arranged());
  EXPECT_THAT(text, HasSubstr("\"ts\":0.000,\"dur\":20000.000,\"cat\":\"batch\","
                              "\"name\":\"is with the client\""));
  EXPECT_THAT(text, HasSubstr("\"ts\":40000.000,\"dur\":60000.000,\"cat\":\"batch\","
                              "\"name\":\"is made\""));
  EXPECT_THAT(text, Not(HasSubstr("is ready")));
}

TEST_F(TimelineTest, ALeaseKnowsItsBatch) {
  Begin(3, 48, 10);
  Begin(4, 80, 11);
  Give(21, 80, 12);
  Give(21, 80, 12);  // told twice
  Add(v1::TraceMoment::KIND_LEASE_DONE, 30).set_lease(21);
  const Timeline timeline = Arranged();
  ASSERT_EQ(timeline.leases().size(), 1u);
  EXPECT_EQ(timeline.BatchOf(kStream, 21), 4u);
  EXPECT_EQ(timeline.BatchOf(kStream, 22), std::nullopt);
  EXPECT_EQ(timeline.leases()[0].end_ns, kBegin + 30 * kMilli);
  EXPECT_THAT(Written(timeline), HasSubstr("\"ts\":12000.000,\"dur\":18000.000,"
                                           "\"cat\":\"lease held\",\"name\":\"at worker 0\""));
}

TEST_F(TimelineTest, ALeaseOfAWorkerThatEndedIsGivenAgain) {
  Begin(3, 48, 1);
  Give(21, 48, 2);
  v1::TraceMoment& end = Add(v1::TraceMoment::KIND_WORKER_ENDED, 10);
  end.clear_stream();
  end.set_worker(kWorker);
  end.set_text("killed by \"signal\" 9");
  Give(21, 48, 11);
  const Timeline timeline = Arranged();
  ASSERT_EQ(timeline.leases().size(), 2u);
  EXPECT_TRUE(timeline.leases()[0].failed);
  EXPECT_EQ(timeline.leases()[0].end_ns, kBegin + 10 * kMilli);
  EXPECT_EQ(timeline.leases()[1].end_ns, 0);
  EXPECT_THAT(Written(timeline),
              HasSubstr("\"ph\":\"i\",\"s\":\"p\",\"pid\":4242,\"tid\":0,\"ts\":10000.000,"
                        "\"name\":\"ends\",\"args\":{\"why\":\"killed by \\\"signal\\\" 9\"}"));
}

TEST_F(TimelineTest, SpansThatOverlapHaveRowsOfTheirOwn) {
  Begin(1, 0, 10);
  Begin(2, 16, 20);
  Add(v1::TraceMoment::KIND_BATCH_RETURNED, 30, 1);
  Begin(3, 32, 30);
  const std::string text = Written(Arranged());
  EXPECT_THAT(text, HasSubstr("\"name\":\"batches 2\""));
  EXPECT_THAT(text, Not(HasSubstr("\"name\":\"batches 3\"")));
}

TEST_F(TimelineTest, ThreadsHaveTheirSpansCutOffAtTheEdges) {
  Add(v1::TraceSpan::KIND_WAIT, -50, 5);
  Add(v1::TraceSpan::KIND_LEASE, 5, 95, 21);
  Add(v1::TraceSpan::KIND_STAGE, 10, 90, 21).set_unfinished(true);
  const std::string text = Written(Arranged());
  EXPECT_THAT(text, HasSubstr("\"pid\":4242,\"tid\":1,\"ts\":0.000,\"dur\":5000.000,"
                              "\"cat\":\"wait\",\"name\":\"waits for a lease\""));
  EXPECT_THAT(text, HasSubstr("\"cat\":\"stage\",\"name\":\"stages[0] resize\","
                              "\"args\":{\"unfinished\":\"true\",\"lease\":21,\"position\":0}"));
  EXPECT_THAT(text, HasSubstr("\"name\":\"worker 0 of 5f0c2a11\""));
}

TEST_F(TimelineTest, KeepsOnlyTheBatchesThatWereAskedFor) {
  Begin(3, 48, 10);
  Begin(4, 80, 20);
  Give(20, 48, 11);
  Give(21, 80, 21);
  Add(v1::TraceSpan::KIND_LEASE, 11, 20, 20);
  Add(v1::TraceSpan::KIND_LEASE, 21, 30, 21);
  Add(v1::TraceSpan::KIND_WAIT, 0, 11);
  Add(v1::TraceSpan::KIND_WAIT, 30, 60);
  Timeline timeline(BatchRange{4, 4}, 1000);
  EXPECT_TRUE(timeline.Take(part_)) << "the batch is not back";
  v1::TraceResponse last;
  last.set_begin_ns(kBegin);
  part_.Clear();
  part_.set_begin_ns(kBegin);
  Add(v1::TraceMoment::KIND_BATCH_RETURNED, 50, 4);
  EXPECT_FALSE(timeline.Take(part_)) << "it has all that it wants";
  timeline.Arrange();
  EXPECT_EQ(timeline.batches().size(), 1u);
  EXPECT_EQ(timeline.leases().size(), 1u);
  ASSERT_EQ(timeline.spans().size(), 2u);
  EXPECT_EQ(timeline.spans()[0].lease(), 21u);
  EXPECT_EQ(timeline.spans()[1].kind(), v1::TraceSpan::KIND_WAIT);
  EXPECT_EQ(timeline.begin_ns(), kBegin + 20 * kMilli);
  EXPECT_EQ(timeline.end_ns(), kBegin + 50 * kMilli);
}

TEST_F(TimelineTest, TakesNoMoreThanItMay) {
  for (int i = 0; i < 5; ++i) Add(v1::TraceSpan::KIND_WAIT, i, i + 1);
  Timeline timeline(std::nullopt, 3);
  EXPECT_FALSE(timeline.Take(part_));
  EXPECT_TRUE(timeline.is_full());
  EXPECT_EQ(timeline.spans().size(), 3u);
}

TEST_F(TimelineTest, TheSummarySaysWhereTheTimeWent) {
  Begin(3, 48, 10);
  Add(v1::TraceMoment::KIND_BATCH_HANDED_OUT, 50, 3);
  Add(v1::TraceSpan::KIND_LEASE, 0, 60, 21);
  Add(v1::TraceSpan::KIND_SAMPLE, 0, 30, 21);
  Add(v1::TraceSpan::KIND_STAGE, 0, 20, 21);
  Add(v1::TraceSpan::KIND_STAGE, 30, 50, 21);
  Add(v1::TraceSpan::KIND_WAIT, 90, 150);
  part_.set_dropped(2);
  v1::TracedWorker& idle = *part_.add_workers();  // it serves none of these streams
  idle.set_id(kWorker + 1);
  idle.set_pipeline("00000000");
  Add(v1::TraceSpan::KIND_WAIT, 0, 100).set_worker(kWorker + 1);
  EXPECT_EQ(SummaryText(SummarizeTimeline(Arranged())),
            "0.1 s of 1 stream and 1 worker: 1 batch handed out, 1 lease, 1 sample\n"
            "  stages[0] resize     40 %  longest 20.0 ms\n"
            "  waits for a lease    10 %  longest 10.0 ms\n"
            "  2 events came faster than they could be read, and are missing\n");
}

}  // namespace
}  // namespace bulkhead::tools::timeline_test
