#include "server/worker/flight_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/image/jpeg/fallback.h"
#include "server/os/event_loop.h"
#include "server/worker/current_stage.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;

// A pipeline that has stages and is never run.
class NamedPipeline final : public Pipeline {
 public:
  uint64_t record_count() const override { return 0; }
  std::unique_ptr<PipelineContext> NewContext() const override { return nullptr; }
  std::vector<std::string> StageNames() const override { return {"stages[0] resize"}; }
  std::string Identity(uint64_t) const override { return ""; }
  absl::Status Produce(uint64_t, const SampleKey&, PipelineContext&,
                       absl::Span<std::byte* const>) const override {
    return absl::OkStatus();
  }
};

// The recorder counts files by Fallback, the status by JpegDecoder, one further on.
TEST(FlightNotesTest, DecodersAreCalledTheSameInTheStatus) {
  for (size_t i = 1; i < jpeg::kFallbackCount; ++i) {
    const std::string name = v1::JpegDecoder_Name(static_cast<v1::JpegDecoder>(i + 1));
    EXPECT_EQ(absl::AsciiStrToLower(name),
              absl::StrCat("jpeg_decoder_", jpeg::FallbackName(static_cast<jpeg::Fallback>(i))));
  }
  EXPECT_FALSE(v1::JpegDecoder_IsValid(jpeg::kFallbackCount + 1)) << "one more in the status";
}

TEST(FlightNotesTest, NumbersOfStagesAreThoseOfTheirNames) {
  const std::vector<std::string> names = FlightStageNames(NamedPipeline());
  EXPECT_THAT(names, ElementsAre("worker", "source", "stages[0] resize"));
  EXPECT_EQ(names[StageObserver::kOutside], "worker");
  EXPECT_EQ(names[StageObserver::kSource], "source");
  EXPECT_EQ(names[StageObserver::kFirstStage], "stages[0] resize");
}

TEST(FlightNotesTest, NotesWhatTheThreadIsAt) {
  const FlightRecorder recorder = FlightRecorder::Create(2).value();
  recorder.SetStages(FlightStageNames(NamedPipeline()));
  FlightNotes notes(recorder, 1);
  notes.BeginLease(7, 8);
  notes.BeginSample({0, 5, 41});
  notes.NameSample("cats/one.jpg");
  notes.Enter(2);
  const FlightSnapshot::Thread at = recorder.Snapshot().threads[1];
  EXPECT_EQ(at.stage, "stages[0] resize");
  EXPECT_EQ(at.sample, "cats/one.jpg");
  EXPECT_EQ(at.stream_id, 7u);
  EXPECT_EQ(at.lease_id, 8u);
  EXPECT_EQ(at.epoch, 5u);
  EXPECT_EQ(at.position, 41u);
  notes.Enter(StageObserver::kOutside);
  notes.EndSample();
  EXPECT_EQ(recorder.Snapshot().samples, 1u);
  EXPECT_EQ(recorder.Snapshot().threads[1].stage, "worker");
}

TEST(FlightNotesTest, MeasuresStagesAndNotTheTimeBetweenSamples) {
  const FlightRecorder recorder = FlightRecorder::Create(1).value();
  recorder.SetStages(FlightStageNames(NamedPipeline()));
  const auto busy = [&](size_t stage) { return recorder.Snapshot().stages[stage].busy_seconds; };
  FlightNotes notes(recorder, 0);
  double within = 0;
  for (int i = 0; i < 2; ++i) {
    absl::SleepFor(absl::Milliseconds(20));  // without work
    const absl::Time begin = absl::Now();
    notes.BeginSample({});
    notes.Enter(2);
    absl::SleepFor(absl::Milliseconds(5));
    notes.Enter(StageObserver::kOutside);
    notes.Enter(StageObserver::kOutside);
    notes.EndSample();
    within += absl::ToDoubleSeconds(absl::Now() - begin);
  }
  EXPECT_GE(busy(2), 0.010);
  EXPECT_LE(busy(0) + busy(2), within);
  EXPECT_EQ(busy(1), 0);
  EXPECT_EQ(recorder.Snapshot().stages[2].runs, 2u);
  EXPECT_EQ(recorder.Snapshot().stages[0].runs, 2u);
}

TEST(FlightNotesTest, CountsRunsByHowLongTheyTook) {
  const FlightRecorder recorder = FlightRecorder::Create(1).value();
  recorder.SetStages(FlightStageNames(NamedPipeline()));
  FlightNotes notes(recorder, 0);
  for (const absl::Duration each : {absl::ZeroDuration(), absl::Milliseconds(20)}) {
    notes.BeginSample({});
    for (int part = 0; part < 2; ++part) {  // a run is entered twice, and is one
      notes.Enter(2);
      absl::SleepFor(each);
      notes.Enter(StageObserver::kOutside);
    }
    notes.EndSample();
  }
  notes.BeginSample({});
  notes.Enter(2);
  absl::SleepFor(absl::Milliseconds(40));
  notes.LeaveBatchStage(2);
  notes.EndBatch();
  const DurationCounts times = recorder.Snapshot().stages[2].times;
  const auto longer = [&](int64_t nanos) {
    return std::accumulate(times.begin() + static_cast<ptrdiff_t>(DurationBucket(nanos)),
                           times.end(), uint64_t{0});
  };
  EXPECT_EQ(longer(0), 3u);
  EXPECT_GE(longer(31'000'000), 2u) << "of the second sample both parts together, and the batch";
}

TEST(FlightNotesTest, TellsTheAllocatorWhoseWorkTheThreadDoes) {
  const FlightRecorder recorder = FlightRecorder::Create(2).value();
  std::thread([&] {
    {
      FlightNotes notes(recorder, 1);
      notes.BeginSample({});
      notes.Enter(2);
      EXPECT_EQ(current_stage.stage, 2u);
      EXPECT_EQ(current_stage.thread, 1u);
      EXPECT_EQ(current_stage.counters, recorder.thread(1).counters);
      notes.Enter(1000);
      EXPECT_EQ(current_stage.stage, FlightThread::kMaxStages - 1);  // shared by all beyond
    }
    EXPECT_EQ(current_stage.counters, nullptr);
    EXPECT_EQ(current_stage.stage, 0u);
  }).join();
  EXPECT_EQ(current_stage.counters, nullptr);
}

// What the thread has written since `from`.
std::vector<FlightSpan> SpansOf(const FlightRecorder& recorder, uint64_t& from) {
  std::vector<FlightSpan> spans;
  recorder.ring(0).Read(from, spans);
  return spans;
}

TEST(FlightNotesTest, ATracedThreadWritesSpansThatLieInEachOther) {
  const FlightRecorder recorder = FlightRecorder::Create(1).value();
  recorder.SetStages(FlightStageNames(NamedPipeline()));
  recorder.SetTraced(true);
  FlightNotes notes(recorder, 0);
  notes.BeginLease(7, 8);
  notes.BeginSample({0, 5, 41});
  notes.Enter(StageObserver::kSource);
  notes.Enter(StageObserver::kSource);  // the same stage goes on
  notes.Enter(2);
  const int64_t turn_began_ns = MonotonicNanos();
  notes.NoteTurn(turn_began_ns, MonotonicNanos());
  notes.Enter(StageObserver::kOutside);
  notes.EndSample();
  notes.EndLease();
  uint64_t from = 0;
  const std::vector<FlightSpan> spans = SpansOf(recorder, from);
  std::vector<FlightSpan::Kind> kinds;
  for (const FlightSpan& span : spans) kinds.push_back(span.kind);
  using Kind = FlightSpan::Kind;
  ASSERT_THAT(kinds, ElementsAre(Kind::kWait, Kind::kStage, Kind::kTurn, Kind::kStage,
                                 Kind::kSample, Kind::kLease));
  EXPECT_EQ(spans[0].lease_id, 0u);
  EXPECT_EQ(spans[1].stage, StageObserver::kSource);
  EXPECT_EQ(spans[2].stage, 2u);
  EXPECT_EQ(spans[3].stage, 2u);
  for (size_t i = 1; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].stream_id, 7u);
    EXPECT_EQ(spans[i].lease_id, 8u);
    EXPECT_LE(spans[i].begin_ns, spans[i].end_ns);
  }
  EXPECT_EQ(spans[4].position, 41u);
  EXPECT_LE(spans[0].end_ns, spans[5].begin_ns);
  EXPECT_LE(spans[5].begin_ns, spans[4].begin_ns);
  EXPECT_LE(spans[4].begin_ns, spans[1].begin_ns);
  EXPECT_LE(spans[1].end_ns, spans[3].begin_ns);
  EXPECT_LE(spans[3].begin_ns, spans[2].begin_ns);
  EXPECT_LE(spans[2].end_ns, spans[3].end_ns);
  EXPECT_LE(spans[3].end_ns, spans[4].end_ns);
  EXPECT_LE(spans[4].end_ns, spans[5].end_ns);
}

TEST(FlightNotesTest, StagesOfABatchAreSpansWithoutASample) {
  const FlightRecorder recorder = FlightRecorder::Create(1).value();
  recorder.SetStages(FlightStageNames(NamedPipeline()));
  recorder.SetTraced(true);
  FlightNotes notes(recorder, 0);
  notes.BeginLease(7, 8);
  uint64_t from = recorder.ring(0).next();
  notes.BeginSample({0, 5, 41});
  notes.Enter(2);
  notes.LeaveBatchStage(2);
  notes.Enter(StageObserver::kOutside);
  notes.EndBatch();
  const std::vector<FlightSpan> spans = SpansOf(recorder, from);
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].kind, FlightSpan::Kind::kStage);
  EXPECT_EQ(spans[0].stage, 2u);
}

TEST(FlightNotesTest, AThreadThatIsNotTracedWritesNoSpans) {
  const FlightRecorder recorder = FlightRecorder::Create(1).value();
  recorder.SetStages(FlightStageNames(NamedPipeline()));
  FlightNotes notes(recorder, 0);
  notes.BeginLease(7, 8);
  notes.BeginSample({0, 5, 41});
  notes.Enter(2);
  notes.Enter(StageObserver::kOutside);
  notes.EndSample();
  notes.EndLease();
  EXPECT_EQ(recorder.ring(0).next(), 0u);
}

}  // namespace
}  // namespace bulkhead
