#include <prometheus/text_serializer.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "server/base/durations/histogram.h"
#include "server/metrics/metric_table.h"

namespace bulkhead {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string TextOf(const v1::GetStatusResponse& status, size_t max_series = kMaxSeries) {
  return prometheus::TextSerializer().Serialize(CollectMetrics(status, max_series));
}

// The lines of a text that are series.
std::vector<std::string> SeriesOf(const std::string& text) {
  std::vector<std::string> series;
  for (const auto& line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (!absl::StartsWith(line, "#")) series.emplace_back(line);
  }
  return series;
}

v1::WorkerStatus MakeWorker(uint32_t slot) {
  v1::WorkerStatus worker;
  worker.set_role("pipeline");
  worker.set_pipeline("abcd");
  worker.set_slot(slot);
  worker.set_generation(6);
  worker.set_pid(1000 + slot);
  worker.set_state(v1::WORKER_STATE_BUSY);
  worker.mutable_usage()->set_memory_bytes(100 << 20);
  worker.mutable_usage()->set_peak_memory_bytes(120 << 20);
  worker.mutable_usage()->set_cpu_seconds(1.5);
  worker.set_quota_bytes(256 << 20);
  worker.set_quota_level("kernel-private");
  worker.set_leases(2);
  worker.set_samples(77);
  v1::StageUsage& stage = *worker.add_stages();
  stage.set_stage("stages[1] fault");
  stage.set_live_bytes(42 << 20);
  stage.set_live_blocks(42);
  stage.set_busy_seconds(0.25);
  stage.set_runs(76);
  stage.set_allocations(4711);
  return worker;
}

TEST(CollectMetricsTest, AWorkersSeriesNameItsPlace) {
  v1::GetStatusResponse status;
  *status.add_workers() = MakeWorker(3);
  const auto series = SeriesOf(TextOf(status));
  const std::string place = R"({pipeline="abcd",slot="3",role="serving"} )";
  for (const std::string& expected : {
           absl::StrCat("bulkhead_worker_memory_bytes", place, "104857600"),
           absl::StrCat("bulkhead_worker_peak_memory_bytes", place, "125829120"),
           absl::StrCat("bulkhead_worker_quota_bytes", place, "268435456"),
           absl::StrCat("bulkhead_worker_generation", place, "6"),
           absl::StrCat("bulkhead_worker_draining", place, "0"),
           absl::StrCat("bulkhead_worker_leases", place, "2"),
           absl::StrCat("bulkhead_worker_own_samples", place, "77"),
       }) {
    EXPECT_THAT(series, Contains(expected));
  }
  const std::string worker = R"({pipeline="abcd",slot="3",role="serving",)";
  EXPECT_THAT(series,
              Contains(absl::StrCat("bulkhead_worker_state", worker, R"(state="busy"} 1)")));
  EXPECT_THAT(series, Contains(absl::StrCat("bulkhead_worker_info", worker,
                                            R"(quota_level="kernel-private"} 1)")));
  const std::string stage = absl::StrCat(worker, R"(stage="stages[1] fault"} )");
  EXPECT_THAT(series, Contains(absl::StrCat("bulkhead_worker_stage_live_bytes", stage, 42 << 20)));
  EXPECT_THAT(series, Contains(absl::StrCat("bulkhead_worker_stage_live_blocks", stage, 42)));
}

v1::PlaceTotals MakePlace(uint32_t slot) {
  v1::PlaceTotals place;
  place.set_pipeline("abcd");
  place.set_slot(slot);
  place.set_samples(770);
  place.set_cpu_seconds(15.5);
  v1::StageUsage& stage = *place.add_stages();
  stage.set_stage("stages[1] fault");
  stage.set_busy_seconds(0.25);
  stage.set_runs(760);
  stage.set_allocations(4711);
  return place;
}

TEST(CollectMetricsTest, APlacesCountersAreThoseOfAllItsWorkers) {
  v1::GetStatusResponse status;
  *status.add_workers() = MakeWorker(3);
  *status.add_places() = MakePlace(3);
  const auto series = SeriesOf(TextOf(status));
  const std::string place = R"({pipeline="abcd",slot="3"} )";
  const std::string stage = R"({pipeline="abcd",slot="3",stage="stages[1] fault"} )";
  for (const std::string& expected : {
           absl::StrCat("bulkhead_worker_samples_total", place, "770"),
           absl::StrCat("bulkhead_worker_cpu_seconds_total", place, "15.5"),
           absl::StrCat("bulkhead_worker_stage_busy_seconds_total", stage, "0.25"),
           absl::StrCat("bulkhead_worker_stage_runs_total", stage, "760"),
           absl::StrCat("bulkhead_worker_stage_allocations_total", stage, "4711"),
       }) {
    EXPECT_THAT(series, Contains(expected));
  }
}

TEST(CollectMetricsTest, AWorkerWithoutAProcessHasNoMemory) {
  v1::GetStatusResponse status;
  v1::WorkerStatus& worker = *status.add_workers();
  worker.set_state(v1::WORKER_STATE_BACKOFF);
  const std::string text = TextOf(status);
  EXPECT_THAT(text, HasSubstr(R"(state="backoff"} 1)"));
  EXPECT_THAT(text, Not(HasSubstr("bulkhead_worker_memory_bytes{")));
}

// docs/metrics.md says how many series to expect.
TEST(CollectMetricsTest, TheNumberOfSeriesIsTheOneInTheDocs) {
  v1::GetStatusResponse status;
  auto added = [&, before = SeriesOf(TextOf(status)).size()]() mutable {
    const size_t now = SeriesOf(TextOf(status)).size();
    return now - std::exchange(before, now);
  };
  *status.add_workers() = MakeWorker(0);
  status.mutable_workers(0)->clear_stages();
  EXPECT_EQ(added(), 9u) << "each worker";
  status.mutable_workers(0)->add_stages()->set_stage("stages[0] decode_image");
  EXPECT_EQ(added(), 2u) << "each stage of a worker";
  *status.add_places() = MakePlace(0);
  status.mutable_places(0)->clear_stages();
  EXPECT_EQ(added(), 2u) << "each slot";
  *status.add_places() = MakePlace(1);
  status.mutable_places(1)->clear_stages();
  added();
  for (v1::PlaceTotals& place : *status.mutable_places()) {
    v1::StageUsage& stage = *place.add_stages();
    stage.set_stage("stages[0] decode_image");
    AddDurations({}, 0, *stage.mutable_run_times());
    EXPECT_EQ(added(), place.slot() == 0 ? 3u + 14u : 3u)
        << "each stage of a slot, and each of a pipeline";
  }
  for (const char* name : {"train", "test"}) {
    v1::StreamStatus& stream = *status.add_streams();
    stream.set_name(name);
    AddDurations({}, 0, *stream.mutable_batch_gaps());
    EXPECT_EQ(added(), name == std::string("train") ? 29u + 1u : 29u)
        << "each stream, and each spec of a pipeline";
  }
}

TEST(CollectMetricsTest, AStreamsSlotsAreCountedByState) {
  v1::GetStatusResponse status;
  v1::StreamStatus& stream = *status.add_streams();
  stream.set_name("train");
  stream.set_rank(1);
  stream.set_transport(v1::TRANSPORT_SHM);
  stream.set_pipeline("abcd");
  stream.set_batches_sent(9);
  stream.set_batches_released(8);
  stream.set_epoch(2);
  stream.mutable_share()->set_batches_shared(7);
  stream.mutable_share()->set_times_fallen_out(6);
  v1::ArenaStatus& arena = *stream.mutable_arena();
  arena.set_bytes(5 << 20);
  arena.set_slots_free(1);
  arena.set_slots_filling(2);
  arena.set_slots_ready(3);
  arena.set_slots_sending(4);
  const auto series = SeriesOf(TextOf(status));
  for (
      const std::string& expected : {
          std::string(R"(bulkhead_stream_arena_slots{stream="train",rank="1",state="free"} 1)"),
          std::string(R"(bulkhead_stream_arena_slots{stream="train",rank="1",state="filling"} 2)"),
          std::string(R"(bulkhead_stream_arena_slots{stream="train",rank="1",state="ready"} 3)"),
          std::string(R"(bulkhead_stream_arena_slots{stream="train",rank="1",state="sending"} 4)"),
          std::string(R"(bulkhead_stream_arena_bytes{stream="train",rank="1"} 5242880)"),
          std::string(R"(bulkhead_stream_batches_sent_total{stream="train",rank="1"} 9)"),
          std::string(R"(bulkhead_stream_batches_released_total{stream="train",rank="1"} 8)"),
          std::string(R"(bulkhead_stream_batches_shared_total{stream="train",rank="1"} 7)"),
          std::string(R"(bulkhead_stream_share_fallen_out_total{stream="train",rank="1"} 6)"),
          std::string(R"(bulkhead_stream_epoch{stream="train",rank="1"} 2)"),
          std::string(
              R"(bulkhead_stream_info{stream="train",rank="1",pipeline="abcd",transport="shm"} 1)"),
      }) {
    EXPECT_THAT(series, Contains(expected));
  }
}

TEST(CollectMetricsTest, TheServicesOwnNumbers) {
  v1::GetStatusResponse status;
  status.set_version("1.2.3");
  status.set_boot_id("0a1b");
  status.mutable_start_time()->set_seconds(1000);
  status.mutable_start_time()->set_nanos(500'000'000);
  status.set_cpu_seconds(1);
  status.mutable_supervisor()->set_cpu_seconds(2);
  status.mutable_supervisor()->set_memory_bytes(3);
  status.mutable_supervisor()->set_peak_memory_bytes(4);
  status.mutable_supervisor()->set_age_seconds(0.5);
  status.add_workers()->mutable_usage()->set_age_seconds(0.75);
  status.set_samples_produced(5);
  status.set_samples_delivered(6);
  status.set_samples_redone(7);
  status.set_samples_substituted(8);
  status.set_samples_quarantined(9);
  status.set_leases_redone(10);
  status.set_limit_events(11);
  status.set_wild_writes(18);
  status.set_log_lines_dropped(41);
  v1::MemoryBudget& memory = *status.mutable_memory();
  memory.set_budget_bytes(12);
  memory.set_limit_bytes(13);
  memory.set_supervisor_bytes(14);
  memory.set_arena_bytes(15);
  memory.set_quota_bytes(16);
  memory.set_replacement_bytes(17);
  const auto series = SeriesOf(TextOf(status));
  for (const char* expected : {
           R"(bulkhead_build_info{version="1.2.3",boot="0a1b"} 1)",
           "bulkhead_start_time_seconds 1000.5",
           "bulkhead_cpu_seconds_total 1",
           "bulkhead_supervisor_cpu_seconds_total 2",
           "bulkhead_supervisor_memory_bytes 3",
           "bulkhead_supervisor_peak_memory_bytes 4",
           "bulkhead_memory_reading_age_seconds 0.75",
           "bulkhead_log_lines_dropped_total 41",
           "bulkhead_samples_produced_total 5",
           "bulkhead_samples_delivered_total 6",
           "bulkhead_samples_redone_total 7",
           "bulkhead_samples_substituted_total 8",
           "bulkhead_quarantined_records 9",
           "bulkhead_leases_redone_total 10",
           "bulkhead_limit_events_total 11",
           "bulkhead_wild_writes_total 18",
           "bulkhead_memory_budget_bytes 12",
           "bulkhead_memory_limit_bytes 13",
           R"(bulkhead_memory_promised_bytes{part="supervisor"} 14)",
           R"(bulkhead_memory_promised_bytes{part="arenas"} 15)",
           R"(bulkhead_memory_promised_bytes{part="quotas"} 16)",
           R"(bulkhead_memory_promised_bytes{part="replacement"} 17)",
       }) {
    EXPECT_THAT(series, Contains(expected));
  }
}

TEST(CollectMetricsTest, EveryCauseOfAnExitIsThereBeforeTheFirst) {
  v1::GetStatusResponse status;
  v1::ExitCount& count = *status.add_exit_counts();
  count.set_cause(v1::EXIT_CAUSE_OUT_OF_MEMORY);
  count.set_count(3);
  const std::string text = TextOf(status);
  EXPECT_THAT(text, HasSubstr(R"(bulkhead_worker_exits_total{cause="out_of_memory"} 3)"));
  EXPECT_THAT(text, HasSubstr(R"(bulkhead_worker_exits_total{cause="recycled"} 0)"));
  EXPECT_THAT(text, Not(HasSubstr(R"(cause="unspecified")")));
  for (int cause = 1; cause < v1::ExitCause_ARRAYSIZE; ++cause) {
    const std::string name = absl::AsciiStrToLower(v1::ExitCause_Name(cause).substr(11));
    EXPECT_THAT(text, HasSubstr(absl::StrCat("{cause=\"", name, "\"}")));
  }
}

TEST(CollectMetricsTest, RecyclingsByCauseAndWhatTheLastOneTook) {
  v1::GetStatusResponse status;
  for (const auto cause :
       {v1::RECYCLE_CAUSE_GROWTH, v1::RECYCLE_CAUSE_AGE, v1::RECYCLE_CAUSE_AGE}) {
    v1::Recycling& recycling = *status.add_recent_recyclings();
    recycling.set_cause(cause);
    recycling.set_warm_seconds(status.recent_recyclings_size());
    recycling.set_touch_seconds(0.25);
  }
  const std::string text = TextOf(status);
  EXPECT_THAT(text, HasSubstr(R"(bulkhead_recent_recyclings{cause="age"} 2)"));
  EXPECT_THAT(text, HasSubstr(R"(bulkhead_recent_recyclings{cause="growth"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(bulkhead_recent_recyclings{cause="request"} 0)"));
  EXPECT_THAT(text, HasSubstr(R"(bulkhead_last_recycling_seconds{phase="warm"} 3)"));
  EXPECT_THAT(text, HasSubstr(R"(bulkhead_last_recycling_seconds{phase="touch"} 0.25)"));
}

TEST(CollectMetricsTest, RecyclingsAreCountedSinceTheStart) {
  const std::string text = prometheus::TextSerializer().Serialize(
      CollectMetrics(StatusSnapshot(v1::GetStatusResponse(), {{v1::RECYCLE_CAUSE_GROWTH, 4711}})));
  EXPECT_THAT(text, HasSubstr("# TYPE bulkhead_recyclings_total counter"));
  EXPECT_THAT(text, HasSubstr(R"(bulkhead_recyclings_total{cause="growth"} 4711)"));
  EXPECT_THAT(text, HasSubstr(R"(bulkhead_recyclings_total{cause="share"} 0)"));
}

TEST(CollectMetricsTest, AVerdictHasItsStageAndItsGrowth) {
  v1::GetStatusResponse status;
  v1::Verdict& verdict = *status.add_verdicts();
  verdict.set_pipeline("photos");
  verdict.set_kind(v1::VERDICT_KIND_WARM_UP);
  EXPECT_THAT(
      TextOf(status),
      HasSubstr(
          R"(bulkhead_pipeline_verdict{pipeline="photos",stage="",verdict="warm_up",confirmed="false"} 1)"));
  EXPECT_THAT(TextOf(status), Not(HasSubstr("bulkhead_pipeline_to_quota_seconds{")));
  verdict.set_kind(v1::VERDICT_KIND_LEAK);
  verdict.set_confirmed(true);
  verdict.set_stage("stages[1] python");
  verdict.set_bytes_per_sample(24576);
  verdict.set_bound_bytes(12);
  verdict.set_seconds_to_quota(90);
  const std::string text = TextOf(status);
  for (
      const char* expected : {
          R"(bulkhead_pipeline_verdict{pipeline="photos",stage="stages[1] python",verdict="leak",confirmed="true"} 1)",
          R"(bulkhead_pipeline_growth_bytes{pipeline="photos",stage="stages[1] python"} 24576)",
          R"(bulkhead_pipeline_growth_bound_bytes{pipeline="photos",stage="stages[1] python"} 12)",
          R"(bulkhead_pipeline_to_quota_seconds{pipeline="photos",stage="stages[1] python"} 90)",
      }) {
    EXPECT_THAT(text, HasSubstr(expected));
  }
}

TEST(CollectMetricsTest, AStreamTellsWhoWaitsAndHowItsBatchesCome) {
  v1::GetStatusResponse status;
  v1::StreamStatus& stream = *status.add_streams();
  stream.set_name("py-host-4711-ab12cd34");
  stream.set_pipeline("photos");
  stream.set_spec("train.yaml");
  stream.set_fingerprint("ab12");
  stream.set_samples_sent(96);
  stream.set_waiting_for_workers_seconds(1.5);
  stream.set_waiting_for_trainer_seconds(2.5);
  stream.set_waiting_for_objects_seconds(1.25);
  AddDurations({0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 4}, 62.5, *stream.mutable_batch_gaps());
  const auto series = SeriesOf(TextOf(status));
  for (const char* expected : {
           R"(bulkhead_stream_samples_sent_total{stream="py-host",rank="0"} 96)",
           R"(bulkhead_stream_waiting_for_workers_seconds_total{stream="py-host",rank="0"} 1.5)",
           R"(bulkhead_stream_waiting_for_trainer_seconds_total{stream="py-host",rank="0"} 2.5)",
           R"(bulkhead_stream_waiting_for_objects_seconds_total{stream="py-host",rank="0"} 1.25)",
           R"(bulkhead_stream_batch_gap_seconds_bucket{stream="py-host",rank="0",le="0.001"} 0)",
           R"(bulkhead_stream_batch_gap_seconds_bucket{stream="py-host",rank="0",le="0.003"} 2)",
           R"(bulkhead_stream_batch_gap_seconds_bucket{stream="py-host",rank="0",le="10"} 3)",
           R"(bulkhead_stream_batch_gap_seconds_bucket{stream="py-host",rank="0",le="+Inf"} 7)",
           R"(bulkhead_stream_batch_gap_seconds_count{stream="py-host",rank="0"} 7)",
           R"(bulkhead_stream_batch_gap_seconds_sum{stream="py-host",rank="0"} 62.5)",
           R"(bulkhead_pipeline_info{pipeline="photos",spec="train.yaml",fingerprint="ab12"} 1)",
       }) {
    EXPECT_THAT(series, Contains(expected));
  }
}

TEST(CollectMetricsTest, StreamsAreCountedByTheirFate) {
  v1::GetStatusResponse status;
  v1::StreamCount& count = *status.add_stream_counts();
  count.set_event(v1::StreamCount::EVENT_REFUSED);
  count.set_reason("BUDGET_EXCEEDED");
  count.set_count(7);
  EXPECT_THAT(TextOf(status),
              HasSubstr(R"(bulkhead_streams_total{event="refused",reason="BUDGET_EXCEEDED"} 7)"));
}

TEST(CollectMetricsTest, WhatIsCommonlyCountedBeginsAtNought) {
  const auto series = SeriesOf(TextOf({}));
  EXPECT_THAT(series, Contains(R"(bulkhead_streams_total{event="opened",reason="new"} 0)"));
  EXPECT_THAT(series, Contains(R"(bulkhead_streams_total{event="ended",reason="SUPERSEDED"} 0)"));
}

TEST(CollectMetricsTest, AStagesRunTimesAreThoseOfAllPlaces) {
  v1::GetStatusResponse status;
  for (uint32_t slot = 0; slot < 2; ++slot) {
    v1::PlaceTotals& place = *status.add_places();
    place.set_pipeline("photos");
    place.set_slot(slot);
    v1::StageUsage& stage = *place.add_stages();
    stage.set_stage("stages[0] python");
    AddDurations({1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0.25, *stage.mutable_run_times());
  }
  const auto series = SeriesOf(TextOf(status));
  const std::string labels = R"({pipeline="photos",stage="stages[0] python")";
  EXPECT_THAT(series, Contains(absl::StrCat("bulkhead_pipeline_stage_run_seconds_bucket", labels,
                                            R"(,le="0.0001"} 2)")));
  EXPECT_THAT(series,
              Contains(absl::StrCat("bulkhead_pipeline_stage_run_seconds_sum", labels, "} 0.5")));
}

TEST(CollectMetricsTest, AHistogramWithoutRoomIsLeftOutWhole) {
  v1::GetStatusResponse status;
  v1::PlaceTotals& place = *status.add_places();
  AddDurations({}, 0, *place.add_stages()->mutable_run_times());
  place.mutable_stages(0)->set_stage("source");
  size_t before = 0;
  for (const std::string& line : SeriesOf(TextOf(status))) {
    if (absl::StartsWith(line, "bulkhead_pipeline_stage_run_seconds")) break;
    ++before;
  }
  const auto room_for = [&](size_t more) { return TextOf(status, before + more); };
  EXPECT_THAT(room_for(13), Not(HasSubstr("bulkhead_pipeline_stage_run_seconds_bucket")));
  EXPECT_THAT(room_for(14), HasSubstr("bulkhead_pipeline_stage_run_seconds_bucket"));
}

TEST(CollectMetricsTest, ContainmentSaysItsLevelAndItsParts) {
  v1::GetStatusResponse status;
  status.mutable_containment()->set_quota_level("kernel-total");
  for (const bool active : {true, false}) {
    v1::SandboxPart& part = *status.mutable_containment()->add_sandbox();
    part.set_name(active ? "seccomp" : "landlock");
    part.set_active(active);
  }
  const std::string text = TextOf(status);
  EXPECT_THAT(text, HasSubstr(R"(bulkhead_containment_info{quota_level="kernel-total"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(bulkhead_sandbox_active{part="seccomp"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(bulkhead_sandbox_active{part="landlock"} 0)"));
}

TEST(CollectMetricsTest, WhatIsGoneHasNoSeries) {
  v1::GetStatusResponse status;
  *status.add_workers() = MakeWorker(0);
  status.add_streams()->set_name("train");
  const auto text = [&] { return TextOf(status); };
  EXPECT_THAT(text(), HasSubstr("slot=\"0\""));
  EXPECT_THAT(text(), HasSubstr("stream=\"train\""));
  status.clear_workers();
  status.clear_streams();
  EXPECT_THAT(text(), Not(HasSubstr("slot=\"0\"")));
  EXPECT_THAT(text(), Not(HasSubstr("stream=\"train\"")));
}

TEST(CollectMetricsTest, HasNoMoreSeriesThanItsBoundAndSaysSo) {
  v1::GetStatusResponse status;
  for (uint32_t slot = 0; slot < 1024; ++slot) {
    *status.add_workers() = MakeWorker(slot);
    for (int stage = 0; stage < 30; ++stage) {
      status.mutable_workers(static_cast<int>(slot))->add_stages()->set_stage(absl::StrCat(stage));
    }
  }
  const std::string whole = TextOf(status, 1'000'000);
  EXPECT_THAT(whole, HasSubstr("\nbulkhead_series_left_out 0\n"));
  const size_t all = SeriesOf(whole).size();
  const std::string text = TextOf(status);
  // The bound, and the series that says what is missing.
  EXPECT_EQ(SeriesOf(text).size(), kMaxSeries + 1);
  EXPECT_THAT(text,
              HasSubstr(absl::StrCat("\nbulkhead_series_left_out ", all - 1 - kMaxSeries, "\n")));
  // What matters most has its place.
  EXPECT_THAT(text, HasSubstr(R"(bulkhead_worker_memory_bytes{pipeline="abcd",slot="999")"));
}

TEST(CollectMetricsTest, NoTwoSeriesAreTheSame) {
  v1::GetStatusResponse status;
  for (int i = 0; i < 3; ++i) {
    *status.add_workers() = MakeWorker(0);
    status.add_workers()->set_role("index");
    status.add_streams()->set_name(std::string(200, 'n') + std::to_string(i));
    status.mutable_containment()->add_sandbox()->set_name("seccomp");
    status.add_exit_counts()->set_cause(v1::EXIT_CAUSE_TOLD);
  }
  std::set<std::string> names;
  for (const std::string& series : SeriesOf(TextOf(status))) {
    EXPECT_TRUE(names.insert(series.substr(0, series.rfind(' '))).second) << series;
  }
  EXPECT_GT(names.size(), 30);
}

TEST(CollectMetricsTest, NamesOfClientsCannotForgeSeries) {
  v1::GetStatusResponse status;
  status.add_streams()->set_name("a\"} 1\nforged 1\n\\");
  for (const std::string& series : SeriesOf(TextOf(status))) {
    EXPECT_TRUE(absl::StartsWith(series, "bulkhead_")) << series;
  }
}

TEST(CollectMetricsTest, AServiceThatEndedHasNoMetrics) {
  EXPECT_THAT(CollectMetrics(std::nullopt), IsEmpty());
}

}  // namespace
}  // namespace bulkhead
