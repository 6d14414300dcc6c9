#include "tools/status/status_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead::tools {
namespace {

using testing::HasSubstr;

TEST(StatusTextTest, NamesTheStageThatADeadWorkerWasAtAndWhatWasRefused) {
  v1::GetStatusResponse status;
  v1::WorkerExit& exit = *status.add_recent_exits();
  exit.set_pipeline("photos");
  exit.set_slot(3);
  exit.set_reason("out of memory under its quota");
  exit.set_quota_bytes(512 << 20);
  exit.set_refused_stage("stages[1] resize");
  exit.set_refused_bytes(10 << 20);
  v1::ThreadActivity& at = *exit.add_activity();
  at.set_stage("stages[1] resize");
  at.set_sample("pos-003.tfrecord@81923");
  v1::StageUsage& stage = *exit.add_stages();
  stage.set_stage("stages[1] resize");
  stage.set_live_bytes(412 << 20);
  const std::string text = StatusText(status);
  EXPECT_THAT(text, HasSubstr("photos/3  out of memory under its quota\n"));
  EXPECT_THAT(text, HasSubstr("at stages[1] resize of pos-003.tfrecord@81923\n"));
  EXPECT_THAT(text, HasSubstr("stages[1] resize was refused 10MiB of a quota of 512MiB\n"));
  EXPECT_THAT(text, HasSubstr("held most: stages[1] resize 412MiB\n"));
}

TEST(StatusTextTest, SaysHowJpegFilesWereDecoded) {
  v1::GetStatusResponse status;
  EXPECT_EQ(StatusText(status).find("JPEG"), std::string::npos);
  v1::JpegDecodes& jpeg = *status.mutable_jpeg();
  for (const auto& [decoder, count] : {std::pair(v1::JPEG_DECODER_OWN, 75),
                                       {v1::JPEG_DECODER_PROGRESSIVE, 20},
                                       {v1::JPEG_DECODER_SAMPLING, 5}}) {
    v1::JpegDecodes::Files& files = *jpeg.add_files();
    files.set_decoder(decoder);
    files.set_count(count);
  }
  jpeg.set_mcus(1000);
  jpeg.set_mcus_read(600);
  jpeg.set_crops(50);
  jpeg.set_entries_found(25);
  status.mutable_seek_cache()->set_bytes(4 << 20);
  status.mutable_seek_cache()->set_most_bytes(uint64_t{4} << 30);
  status.mutable_seek_cache()->set_reason("the disk is full");
  EXPECT_THAT(StatusText(status),
              HasSubstr("JPEG: 100 files, 25 by libjpeg-turbo; of the others 60% of the MCUs were "
                        "read; 50% of the crops by seek entries (4MiB of 4GiB); none are added: "
                        "the disk is full\n"));
  status.mutable_coefficient_cache()->set_reason("--coefficient-cache-bytes is 0");
  EXPECT_THAT(StatusText(status),
              HasSubstr("no coefficients are kept: --coefficient-cache-bytes is 0\n"));
}

TEST(StatusTextTest, SaysWithWhomAStreamShares) {
  v1::GetStatusResponse status;
  v1::StreamStatus& stream = *status.add_streams();
  EXPECT_EQ(StatusText(status).find("shares"), std::string::npos);
  v1::ShareStatus& share = *stream.mutable_share();
  share.set_members(4);
  share.set_near(2);
  share.set_batches_shared(90);
  share.set_batches_alone(12);
  share.set_times_fallen_out(1);
  share.set_window_bytes(9 << 20);
  EXPECT_THAT(StatusText(status),
              HasSubstr("shares with 2 of the 3 others of its group, 90 batches so far, 12 made "
                        "alone; fell out 1 times; 9MiB kept\n"));
  share.set_reason("the memory budget is exhausted");
  EXPECT_THAT(StatusText(status), HasSubstr("shares nothing: the memory budget is exhausted\n"));
  share.clear_members();  // it is in no group
  EXPECT_THAT(StatusText(status), testing::Not(HasSubstr("shares with")));
  EXPECT_THAT(StatusText(status), HasSubstr("shares nothing: the memory budget is exhausted\n"));
}

TEST(StatusTextTest, SaysHowManyWorkersAPipelineGetsAndWhy) {
  v1::GetStatusResponse status;
  EXPECT_THAT(StatusText(status), testing::Not(HasSubstr("tuned")));
  v1::WorkerTuning& tuning = *status.add_tunings();
  tuning.set_pipeline("photos");
  tuning.set_workers(3);
  tuning.set_first_workers(2);
  tuning.set_most_workers(8);
  tuning.set_text("a client waits for 97 % of the time");
  EXPECT_THAT(StatusText(status),
              HasSubstr("workers of photos: tuned to 3 (2 at first, at most 8); "
                        "a client waits for 97 % of the time\n"));
}

TEST(StatusTextTest, SaysThatTheSupervisorIsSilentAndNothingElse) {
  v1::GetStatusResponse status;
  status.set_pid(77);
  status.set_supervisor_silent_seconds(12.3);
  const std::string text = StatusText(status);
  EXPECT_THAT(text, HasSubstr("pid 77: its supervisor has been silent for 12 s"));
  EXPECT_THAT(text, testing::Not(HasSubstr("samples")));
}

TEST(StatusTextTest, SaysHowMuchOfTheLogIsMissing) {
  v1::GetStatusResponse status;
  EXPECT_THAT(StatusText(status), testing::Not(HasSubstr("dropped")));
  status.set_log_lines_dropped(5);
  EXPECT_THAT(StatusText(status), HasSubstr("log: 5 lines were dropped"));
}

TEST(StatusTextTest, SaysWhatCacheStagesKeep) {
  v1::GetStatusResponse status;
  EXPECT_EQ(StatusText(status).find("cache stages"), std::string::npos);
  status.mutable_kept()->set_found(300);
  status.mutable_kept()->set_added(150);
  status.mutable_stage_cache()->set_bytes(64 << 20);
  status.mutable_stage_cache()->set_most_bytes(uint64_t{16} << 30);
  EXPECT_THAT(StatusText(status),
              HasSubstr("cache stages: 300 samples found, 150 added (64MiB of 16GiB)\n"));
}

TEST(StatusTextTest, SaysTheVerdictOnEachPipeline) {
  v1::GetStatusResponse status;
  v1::Verdict& verdict = *status.add_verdicts();
  verdict.set_pipeline("photos");
  verdict.set_kind(v1::VERDICT_KIND_LEAK);
  verdict.set_text("stages[1] python (my_aug.rotate) keeps 24KiB more with each sample");
  EXPECT_THAT(StatusText(status),
              HasSubstr("verdict on photos: leak; stages[1] python (my_aug.rotate) keeps 24KiB "
                        "more with each sample\n"));
}

TEST(StatusTextTest, SaysWhichPartOfTheSandboxIsMissingAndWhy) {
  v1::GetStatusResponse status;
  status.mutable_containment()->set_quota_level("kernel-private");
  status.mutable_containment()->set_quota_level_reason("no cgroup is writable");
  v1::SandboxPart& seccomp = *status.mutable_containment()->add_sandbox();
  seccomp.set_name("seccomp");
  seccomp.set_active(true);
  v1::SandboxPart& landlock = *status.mutable_containment()->add_sandbox();
  landlock.set_name("landlock");
  landlock.set_reason("the kernel has none");
  const std::string text = StatusText(status);
  EXPECT_THAT(text, HasSubstr("quota: kernel-private (no cgroup is writable)\n"));
  EXPECT_THAT(text, HasSubstr("sandbox: seccomp, no landlock (the kernel has none)\n"));
}

TEST(StatusTextTest, ShowsTheNewestOfALongHistoryFirst) {
  v1::GetStatusResponse status;
  for (int i = 0; i < 20; ++i) {
    v1::Recycling& recycling = *status.add_recent_recyclings();
    recycling.set_pipeline("photos");
    recycling.set_reason("reason " + std::to_string(i) + ".");
  }
  const std::string text = StatusText(status);
  EXPECT_LT(text.find("reason 19."), text.find("reason 18."));
  EXPECT_THAT(text, HasSubstr("reason 12."));
  EXPECT_THAT(text, testing::Not(HasSubstr("reason 11.")));
}

TEST(StatusTextTest, TellsAWorkerThatIsBeingReplacedFromItsSuccessor) {
  v1::GetStatusResponse status;
  status.add_workers()->set_draining(true);
  status.add_workers()->set_standby(true);
  const std::string text = StatusText(status);
  EXPECT_THAT(text, HasSubstr("draining"));
  EXPECT_THAT(text, HasSubstr("warming up"));
}

TEST(StatusTextTest, AStreamSaysWhoWaitsForWhomAndWhoReadsIt) {
  v1::GetStatusResponse status;
  v1::StreamStatus& stream = *status.add_streams();
  stream.set_name("train");
  stream.set_world_size(1);
  stream.set_why("waits for the trainer 99 % of the last 2 s: the workers keep up");
  stream.set_spec("train.yaml");
  stream.set_pipeline("photos");
  stream.set_transport(v1::TRANSPORT_SHM);
  stream.set_peer("unix:");
  stream.set_peer_pid(4711);
  EXPECT_THAT(
      StatusText(status),
      HasSubstr("stream train, rank 0 of 1: waits for the trainer 99 % of the last 2 s: the "
                "workers keep up\n  epoch 0, 0 batches sent; spec train.yaml, pipeline "
                "photos, by shared memory to process 4711\n"));
  stream.set_peer_pid(0);
  stream.set_peer("ipv4:10.0.0.7:44");
  EXPECT_THAT(StatusText(status), HasSubstr("by shared memory to ipv4:10.0.0.7:44\n"));
}

TEST(StatusTextTest, RatesAreThoseOfTheLastSeconds) {
  v1::GetStatusResponse before;
  before.add_streams()->set_name("train");
  v1::PlaceTotals& place = *before.add_places();
  place.set_pipeline("photos");
  place.add_stages()->set_stage("stages[0] python");
  v1::GetStatusResponse now = before;
  now.mutable_streams(0)->set_samples_sent(50);
  now.mutable_streams(0)->set_batches_sent(5);
  now.mutable_places(0)->mutable_stages(0)->set_runs(100);
  now.mutable_places(0)->mutable_stages(0)->set_busy_seconds(0.5);
  const std::string text = StatusText(now, RatesBetween(before, now, 2));
  EXPECT_THAT(text, HasSubstr("in the last 2 s: "));
  EXPECT_THAT(text, HasSubstr("a run in pipeline photos takes: stages[0] python 5 ms (100 %)\n"));
  EXPECT_THAT(text, HasSubstr("\n  25 samples/s, 2.5 batches/s; epoch 0, 5 batches sent; "));
}

TEST(StatusTextTest, AServiceAmongOthersIsALine) {
  v1::GetStatusResponse status;
  status.set_pid(77);
  status.set_samples_delivered(12);
  EXPECT_THAT(ServiceLine("unix:/run/s.sock", status),
              HasSubstr("12 samples delivered; no streams"));
  status.add_streams()->set_name("one");
  status.add_streams()->set_name("two");
  const std::string line = ServiceLine("unix:/run/s.sock", status);
  EXPECT_EQ(line.substr(0, 26), "unix:/run/s.sock  pid 77, ");
  EXPECT_THAT(line, HasSubstr("; streams: one, two"));
}

}  // namespace
}  // namespace bulkhead::tools
