#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/top/sparkline.h"
#include "tools/top/terminal_screen.h"
#include "tools/top/top_screen.h"

namespace bulkhead::tools {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

TEST(SparklineTest, EndsWithTheNewestValue) {
  Sparkline line;
  EXPECT_EQ(line.Draw(), std::string(Sparkline::kWidth, ' '));
  for (const double value : {0.0, 1.0, 4.0, 8.0}) line.Add(value);
  EXPECT_THAT(line.Draw(), EndsWith("   ▁▄█")) << "0 is an empty bar";
  EXPECT_THAT(line.Draw(16), EndsWith(" ▁▂▄"));
  EXPECT_THAT(line.Draw(4), EndsWith(" ▂██"));
}

TEST(SparklineTest, ForgetsTheOldest) {
  Sparkline line;
  line.Add(100);
  for (size_t i = 0; i < Sparkline::kWidth; ++i) line.Add(1);
  EXPECT_THAT(line.Draw(), Not(HasSubstr("▁")));
}

TEST(FittingTest, CutsLinesAndColumnsBetweenCharacters) {
  EXPECT_EQ(Fitting("one\ntwo\nthree\n", 2, 80), "one\ntwo\n");
  EXPECT_EQ(Fitting("▁▄█x\n", 1, 2), "▁▄\n");
  EXPECT_EQ(Fitting("▁▄█x\n", 1, 4), "▁▄█x\n");
}

TEST(TopScreenTest, ShowsWhoWaitsAndTheMemoryUnderTheQuota) {
  v1::GetStatusResponse status;
  v1::StreamStatus& stream = *status.add_streams();
  stream.set_name("train");
  stream.set_why("waits for workers 31 % of the last 10 s: stages[0] python takes 80 %");
  v1::WorkerStatus& worker = *status.add_workers();
  worker.set_role("pipeline");
  worker.set_pipeline("photos");
  worker.set_quota_bytes(512 << 20);
  worker.mutable_usage()->set_memory_bytes(256 << 20);
  v1::PlaceTotals& place = *status.add_places();
  place.set_pipeline("photos");
  v1::Verdict& verdict = *status.add_verdicts();
  verdict.set_pipeline("photos");
  verdict.set_kind(v1::VERDICT_KIND_LEAK);
  verdict.set_text("stages[0] python keeps 24KiB more");
  v1::GetStatusResponse later = status;
  later.mutable_streams(0)->set_waiting_for_workers_seconds(1);
  later.mutable_streams(0)->set_samples_sent(50);
  TopScreen screen;
  screen.Add(later, RatesBetween(status, later, 2));
  const std::string text = screen.Text();
  EXPECT_THAT(text, HasSubstr("█ 25\n"));
  EXPECT_THAT(text, HasSubstr("▄ 50 %\n"));
  EXPECT_THAT(text, HasSubstr("stream train, rank 0 of 0: waits for workers 31 %"));
  EXPECT_THAT(text, HasSubstr("▄ 256MiB of 512MiB\n"));
  EXPECT_THAT(text, HasSubstr("verdict on photos: leak; stages[0] python keeps 24KiB more\n"));
  v1::GetStatusResponse empty;
  screen.Add(empty, RatesBetween(later, empty, 2));
  EXPECT_THAT(screen.Text(), HasSubstr("(no streams)"));
  EXPECT_THAT(screen.Text(), Not(HasSubstr("photos")));
}

}  // namespace
}  // namespace bulkhead::tools
