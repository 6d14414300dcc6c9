#include "server/metrics/status_view.h"

#include "gmock/gmock.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::WorkerStatus& AddWorker(v1::GetStatusResponse& status, uint32_t slot, uint32_t generation) {
  v1::WorkerStatus& worker = *status.add_workers();
  worker.set_role("pipeline");
  worker.set_pipeline("abcd");
  worker.set_slot(slot);
  worker.set_generation(generation);
  return worker;
}

std::vector<std::vector<std::string>> WorkerLabels(const StatusView& view) {
  std::vector<std::vector<std::string>> labels;
  for (const auto& worker : view.workers) labels.push_back(worker.labels);
  return labels;
}

TEST(StatusViewTest, AnEmptyStatusHasNothing) {
  const StatusView view{v1::GetStatusResponse()};
  EXPECT_THAT(view.workers, IsEmpty());
  EXPECT_THAT(view.streams, IsEmpty());
}

TEST(StatusViewTest, NamesWorkersByPlaceNotByProcess) {
  v1::GetStatusResponse status;
  AddWorker(status, 1, 7).set_pid(100);
  AddWorker(status, 0, 3).set_pid(200);
  const StatusView view(status);
  EXPECT_THAT(WorkerLabels(view), ElementsAre(ElementsAre("abcd", "0", "serving"),
                                              ElementsAre("abcd", "1", "serving")));
}

TEST(StatusViewTest, TellsWorkersOfOneSlotApart) {
  v1::GetStatusResponse status;
  AddWorker(status, 0, 1).set_draining(true);  // its last lease is done, it is not reaped yet
  AddWorker(status, 0, 2).set_draining(true);  // serves until its successor takes over
  AddWorker(status, 0, 3).set_standby(true);
  const StatusView view(status);
  ASSERT_THAT(WorkerLabels(view),
              ElementsAre(ElementsAre("abcd", "0", "standby"), ElementsAre("abcd", "0", "serving"),
                          ElementsAre("abcd", "0", "leaving")));
  EXPECT_EQ(view.workers[0].status->generation(), 3);
  EXPECT_EQ(view.workers[1].status->generation(), 2);
  EXPECT_EQ(view.workers[2].status->generation(), 1);
}

TEST(StatusViewTest, OfWorkersThatNothingTellsApartOneIsLeft) {
  v1::GetStatusResponse status;
  for (int i = 0; i < 5; ++i) AddWorker(status, 0, 1);
  EXPECT_THAT(WorkerLabels(StatusView(status)), ElementsAre(ElementsAre("abcd", "0", "serving"),
                                                            ElementsAre("abcd", "0", "leaving")));
}

TEST(StatusViewTest, NumbersIndexWorkers) {
  v1::GetStatusResponse status;
  status.add_workers()->set_role("index");
  status.add_workers()->set_role("index");
  EXPECT_THAT(WorkerLabels(StatusView(status)),
              ElementsAre(ElementsAre("", "0", "index"), ElementsAre("", "1", "index")));
}

TEST(StatusViewTest, AStageHasItsWorkersLabelsAndItsName) {
  v1::GetStatusResponse status;
  v1::WorkerStatus& worker = AddWorker(status, 4, 1);
  worker.add_stages()->set_stage("source");
  worker.add_stages()->set_stage("stages[0] resize");
  worker.add_stages()->set_stage("source");  // said twice: the first counts
  const StatusView view(status);
  ASSERT_EQ(view.workers.size(), 1);
  const auto& stages = view.stages;
  ASSERT_EQ(stages.size(), 2);
  EXPECT_THAT(stages[0].labels, ElementsAre("abcd", "4", "serving", "source"));
  EXPECT_THAT(stages[1].labels, ElementsAre("abcd", "4", "serving", "stages[0] resize"));
}

TEST(StatusViewTest, OfStreamsWithOneNameTheLaterIsLeft) {
  v1::GetStatusResponse status;
  for (const uint64_t epoch : {1, 2}) {
    v1::StreamStatus& stream = *status.add_streams();
    stream.set_name("train");
    stream.set_rank(3);
    stream.set_epoch(epoch);
  }
  status.add_streams()->set_name("train");
  const StatusView view(status);
  ASSERT_EQ(view.streams.size(), 2);
  EXPECT_THAT(view.streams[0].labels, ElementsAre("train", "0"));
  EXPECT_THAT(view.streams[1].labels, ElementsAre("train", "3"));
  EXPECT_EQ(view.streams[1].status->epoch(), 2);
}

TEST(StatusViewTest, StreamsAreNamedByTheirJobsInTheOrderOfOpening) {
  v1::GetStatusResponse status;
  const auto add = [&](const char* name, int64_t opened) {
    v1::StreamStatus& stream = *status.add_streams();
    stream.set_name(name);
    stream.mutable_opened()->set_seconds(opened);
  };
  add("py-host-100-0123abcd", 20);
  add("py-host-99-ffff0000", 10);
  const StatusView view(status);
  ASSERT_EQ(view.streams.size(), 2);
  EXPECT_THAT(view.streams[0].labels, ElementsAre("py-host", "0"));
  EXPECT_EQ(view.streams[0].status->opened().seconds(), 10);
  EXPECT_THAT(view.streams[1].labels, ElementsAre("py-host (2)", "0"));
}

TEST(JobNameTest, LeavesOutTheProcess) {
  EXPECT_EQ(JobName("py-host-4711-ab12cd34"), "py-host");
  EXPECT_EQ(JobName("cpp-4711-2-ab12cd34"), "cpp");
  EXPECT_EQ(JobName("train-4711-ab12cd34"), "train");
  for (const char* name : {"train", "train-2024", "", "-", "ab12cd34", "train-ab12cd34",
                           "train-4711-ab12cd3", "train-4711-AB12CD34", "4711-ab12cd34"}) {
    EXPECT_EQ(JobName(name), name);
  }
}

TEST(LabelValueTest, CutsBetweenCharacters) {
  EXPECT_EQ(LabelValue("short"), "short");
  EXPECT_EQ(LabelValue(std::string(128, 'x')), std::string(128, 'x'));
  EXPECT_EQ(LabelValue(std::string(129, 'x')), std::string(128, 'x'));
  // The euro sign is three bytes: two of them would fit.
  EXPECT_EQ(LabelValue(std::string(126, 'x') + "€"), std::string(126, 'x'));
  EXPECT_EQ(LabelValue(std::string(125, 'x') + "€y"), std::string(125, 'x') + "€");
}

}  // namespace
}  // namespace bulkhead
