#include "server/supervisor/trace/trace_log.h"

#include <gtest/gtest.h>

#include "server/base/error.h"

namespace bulkhead::trace_log_test {
namespace {

v1::TracedWorker WorkerOf(uint64_t id) {
  v1::TracedWorker worker;
  worker.set_id(id);
  return worker;
}

v1::TracedStream StreamOf(uint64_t id) {
  v1::TracedStream stream;
  stream.set_id(id);
  return stream;
}

// Of a lease of that stream; 0: a wait.
v1::TraceSpan SpanOf(uint64_t stream) {
  v1::TraceSpan span;
  span.set_stream(stream);
  return span;
}

v1::TraceMoment MomentOf(uint64_t worker) {
  v1::TraceMoment moment;
  moment.set_worker(worker);
  return moment;
}

TEST(TraceLogTest, GivesEachEventOnceAndThenTheEnd) {
  TraceLog log;
  EXPECT_FALSE(log.on());
  log.Add(WorkerOf(1), {SpanOf(0)});  // nobody listens
  const uint64_t trace = log.Begin("", 10).value();
  EXPECT_TRUE(log.on());
  log.Tell(StreamOf(7));
  log.Tell(StreamOf(7));
  log.Add(WorkerOf(1), {SpanOf(7), SpanOf(8), SpanOf(0)});
  log.Add(WorkerOf(1), {SpanOf(7)}, 3);
  const v1::TraceResponse first = log.Take(trace).value();
  EXPECT_EQ(first.begin_ns(), 10);
  EXPECT_EQ(first.end_ns(), 0);
  EXPECT_EQ(first.workers_size(), 1);
  EXPECT_EQ(first.streams_size(), 1);
  EXPECT_EQ(first.spans_size(), 3) << "stream 8 was not told";
  EXPECT_EQ(first.dropped(), 3u);
  EXPECT_FALSE(log.Take(trace).has_value()) << "nothing is new";
  log.Add(MomentOf(1));
  log.End(trace, 20);
  log.Add(MomentOf(1));  // too late
  EXPECT_FALSE(log.on());
  const v1::TraceResponse last = log.Take(trace).value();
  EXPECT_EQ(last.moments_size(), 1);
  EXPECT_EQ(last.end_ns(), 20);
  EXPECT_EQ(last.dropped(), 0u);
}

TEST(TraceLogTest, TakesOneTraceAtATime) {
  TraceLog log;
  const uint64_t trace = log.Begin("", 10).value();
  EXPECT_EQ(GetErrorInfo(log.Begin("", 11).status())->reason, reason::kTooManyCalls);
  log.End(trace, 12);
  EXPECT_FALSE(log.Begin("", 13).ok()) << "its parts are still to be taken";
  log.Drop(trace);
  const uint64_t next = log.Begin("", 14).value();
  EXPECT_NE(next, trace);
  log.Drop(trace);  // of the other
  log.End(trace, 15);
  EXPECT_TRUE(log.on());
  EXPECT_TRUE(log.IsOn(next));
  EXPECT_FALSE(log.IsOn(trace));
}

TEST(TraceLogTest, LeavesOutWorkersOfOtherStreams) {
  TraceLog log;
  const uint64_t trace = log.Begin("train", 10).value();
  EXPECT_TRUE(log.Wants("train"));
  EXPECT_FALSE(log.Wants("valid"));
  log.Tell(StreamOf(7));
  log.Add(WorkerOf(1), {SpanOf(0), SpanOf(8)});
  log.Add(MomentOf(1));
  log.Add(WorkerOf(2), {SpanOf(0), SpanOf(7)});
  log.Add(WorkerOf(2), {SpanOf(0)});
  log.Add(MomentOf(2));
  const v1::TraceResponse part = log.Take(trace).value();
  ASSERT_EQ(part.workers_size(), 1);
  EXPECT_EQ(part.workers(0).id(), 2u);
  EXPECT_EQ(part.spans_size(), 3);
  EXPECT_EQ(part.moments_size(), 1);
}

TEST(TraceLogTest, DropsAndCountsWhatNobodyTakes) {
  TraceLog log;
  const uint64_t trace = log.Begin("", 10).value();
  const std::vector<v1::TraceSpan> spans(TraceLog::kMostPending, SpanOf(0));
  log.Add(WorkerOf(1), spans);
  log.Add(WorkerOf(1), {SpanOf(0), SpanOf(0)});
  log.Add(MomentOf(1));
  log.End(trace, 20);
  size_t taken = 0;
  uint64_t dropped = 0;
  while (const auto part = log.Take(trace)) {
    EXPECT_LE(static_cast<size_t>(part->spans_size()), TraceLog::kMostTaken);
    taken += static_cast<size_t>(part->spans_size());
    dropped += part->dropped();
    if (taken == TraceLog::kMostPending) {
      EXPECT_EQ(part->end_ns(), 20);
    } else {
      EXPECT_EQ(part->end_ns(), 0) << "more is to come";
    }
  }
  EXPECT_EQ(taken, TraceLog::kMostPending);
  EXPECT_EQ(dropped, 3u);
}

}  // namespace
}  // namespace bulkhead::trace_log_test
