#include "server/supervisor/worker/worker_trace.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "absl/time/clock.h"

namespace bulkhead::worker_trace_test {
namespace {

const PipelineStages kStages = {{"stages[0] decode_image"}, {}, {"stages[0] decode_image"}};

class WorkerTraceTest : public testing::Test {
 protected:
  WorkerTraceTest() {
    flight_.recorder().SetStages({"worker", "source", "stages[0] decode_image", "forged"});
    v1::TracedWorker worker;
    worker.set_id(5);
    worker.set_pid(4242);
    trace_ = std::make_unique<WorkerTrace>(tracer_, flight_, worker);
  }
  ~WorkerTraceTest() override { trace_.reset(); }

  void Begin() {
    number_ = log().Begin("", MonotonicNanos()).value();
    v1::TracedStream stream;
    stream.set_id(7);
    log().Tell(stream);
    tracer_->Take(number_, absl::Seconds(60));
  }
  TraceLog& log() { return *tracer_->log(); }
  v1::TraceResponse Take() { return log().Take(number_).value_or(v1::TraceResponse()); }

  // A stage of a lease of stream 7, within the worker's life.
  FlightSpan SpanOf(const std::function<void(FlightSpan&)>& change = [](FlightSpan&) {}) {
    FlightSpan span;
    span.kind = FlightSpan::Kind::kStage;
    span.stage = 2;
    span.begin_ns = flight_.begun_ns() + 1;
    span.end_ns = MonotonicNanos();
    span.stream_id = 7;
    span.lease_id = 8;
    span.position = 41;
    change(span);
    return span;
  }

  const std::shared_ptr<EventLoop> loop_ = EventLoop::Create().value();
  const std::shared_ptr<Tracer> tracer_ = std::make_shared<Tracer>(loop_);
  FlightReader flight_{FlightRecorder::Create(2).value(), kStages, 2};
  std::unique_ptr<WorkerTrace> trace_;
  uint64_t number_ = 0;
};

TEST_F(WorkerTraceTest, HandsOverWhatThreadsWriteWhileATraceIsOn) {
  EXPECT_FALSE(flight_.recorder().traced());
  flight_.recorder().ring(1).Write(SpanOf());  // before the trace
  Begin();
  EXPECT_TRUE(flight_.recorder().traced());
  flight_.recorder().ring(1).Write(SpanOf());
  trace_->ReadTrace();
  trace_->ReadTrace();
  const v1::TraceResponse part = Take();
  ASSERT_EQ(part.workers_size(), 1);
  EXPECT_EQ(part.workers(0).pid(), 4242);
  EXPECT_EQ(part.workers(0).stages(2), "stages[0] decode_image");
  ASSERT_EQ(part.spans_size(), 1);
  const v1::TraceSpan& span = part.spans(0);
  EXPECT_EQ(span.kind(), v1::TraceSpan::KIND_STAGE);
  EXPECT_EQ(span.worker(), 5u);
  EXPECT_EQ(span.thread(), 1u);
  EXPECT_EQ(span.stage(), 2u);
  EXPECT_EQ(span.stream(), 7u);
  EXPECT_EQ(span.lease(), 8u);
  EXPECT_EQ(span.position(), 41u);
  EXPECT_FALSE(span.unfinished());
  trace_->EndTrace();
  EXPECT_FALSE(flight_.recorder().traced());
}

TEST_F(WorkerTraceTest, DropsWhatCannotBe) {
  Begin();
  FlightSpanRing& ring = flight_.recorder().ring(0);
  ring.Write(SpanOf([](FlightSpan& span) { span.stage = 3; }));  // no stage of the pipeline
  ring.Write(SpanOf([](FlightSpan& span) { span.stage = 4; }));
  ring.Write(SpanOf([](FlightSpan& span) { span.kind = static_cast<FlightSpan::Kind>(99); }));
  ring.Write(SpanOf([](FlightSpan& span) { span.kind = FlightSpan::Kind::kNone; }));
  ring.Write(SpanOf([&](FlightSpan& span) { span.begin_ns = flight_.begun_ns() - 1; }));
  ring.Write(SpanOf([](FlightSpan& span) { span.begin_ns = span.end_ns + 1; }));
  ring.Write(SpanOf([](FlightSpan& span) { span.end_ns += int64_t{3600} * 1'000'000'000; }));
  ring.Write(SpanOf([](FlightSpan& span) { span.stream_id = 9; }));  // of nobody
  trace_->ReadTrace();
  EXPECT_EQ(Take().spans_size(), 0);
  ring.Write(SpanOf());
  trace_->ReadTrace();
  EXPECT_EQ(Take().spans_size(), 1);
}

TEST_F(WorkerTraceTest, AtTheEndThreadsAreAtSomethingUnfinished) {
  Begin();
  const FlightRecorder& recorder = flight_.recorder();
  FlightThread& works = recorder.thread(0);
  works.works = 1;
  works.work_ns = MonotonicNanos();
  works.work_stream_id = 7;
  works.work_lease_id = 8;
  recorder.BeginSample(0, 7, 8, 0, 41);
  works.stage = 2;
  works.stage_ns = MonotonicNanos();
  recorder.thread(1).work_ns = MonotonicNanos();
  trace_->NoteEnd("killed by signal 9");
  const v1::TraceResponse part = Take();
  ASSERT_EQ(part.spans_size(), 4);
  EXPECT_EQ(part.spans(0).kind(), v1::TraceSpan::KIND_LEASE);
  EXPECT_EQ(part.spans(0).lease(), 8u);
  EXPECT_EQ(part.spans(1).kind(), v1::TraceSpan::KIND_SAMPLE);
  EXPECT_EQ(part.spans(1).position(), 41u);
  EXPECT_EQ(part.spans(2).kind(), v1::TraceSpan::KIND_STAGE);
  EXPECT_EQ(part.spans(2).stage(), 2u);
  EXPECT_EQ(part.spans(3).kind(), v1::TraceSpan::KIND_WAIT);
  for (const v1::TraceSpan& span : part.spans()) EXPECT_TRUE(span.unfinished());
  ASSERT_EQ(part.moments_size(), 1);
  EXPECT_EQ(part.moments(0).kind(), v1::TraceMoment::KIND_WORKER_ENDED);
  EXPECT_EQ(part.moments(0).text(), "killed by signal 9");
}

TEST_F(WorkerTraceTest, AWorkerThatComesLaterIsTracedToo) {
  trace_.reset();
  Begin();
  trace_ = std::make_unique<WorkerTrace>(tracer_, flight_, v1::TracedWorker());
  EXPECT_TRUE(flight_.recorder().traced());
}

// Runs the supervisor's loop until `done`.
void RunUntil(EventLoop& loop, const std::function<bool()>& done) {
  std::function<void()> look = [&] {
    if (done()) {
      loop.Stop();
    } else {
      loop.After(absl::Milliseconds(1), look);
    }
  };
  loop.Post(look);
  loop.Run();
}

TEST_F(WorkerTraceTest, ATraceEndsAfterItsTimeAndWhenItsClientIsGone) {
  number_ = log().Begin("", MonotonicNanos()).value();
  tracer_->Take(number_, absl::Milliseconds(20));
  RunUntil(*loop_, [&] { return !log().on(); });
  EXPECT_FALSE(flight_.recorder().traced());
  EXPECT_GT(Take().end_ns(), 0);
  log().Drop(number_);
  number_ = log().Begin("", MonotonicNanos()).value();
  tracer_->Take(number_, absl::Seconds(3600));
  EXPECT_TRUE(flight_.recorder().traced());
  log().Drop(number_);
  RunUntil(*loop_, [&] { return !flight_.recorder().traced(); });
}

}  // namespace
}  // namespace bulkhead::worker_trace_test
