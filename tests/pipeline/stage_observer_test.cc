#include "server/pipeline/stage_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead::stage_observer_test {
namespace {

using ::testing::ElementsAre;

class Listener final : public StageObserver {
 public:
  void BeginSample(const SampleKey& key) override {
    told.push_back(absl::StrCat("begin ", key.epoch, "/", key.position));
  }
  void NameSample(absl::string_view identity) override {
    told.push_back(absl::StrCat("name ", identity));
  }
  void Enter(uint32_t stage) override { told.push_back(absl::StrCat("enter ", stage)); }
  void EndSample() override { told.push_back("end"); }

  std::vector<std::string> told;
};

constexpr char kStages[] = R"(
  stages { decode_image {} }
  stages { random_resized_crop { size: [8, 8] } }
  stages { fault { touch: "4KiB" } }
  stages { one_hot { classes: 3 } }
)";

TEST(StageObserverTest, IsToldBeforeEachThingBegins) {
  PipelineUnderTest pipeline(MakeSpec(kStages), {MakeRecord(""), MakeRecord(MakeJpeg(20, 20))});
  EXPECT_THAT(pipeline.pipeline().StageNames(),
              ElementsAre("stages[0] decode_image", "stages[2] fault", "stages[3] one_hot"));
  Listener listener;
  pipeline.context().observer = &listener;
  ASSERT_TRUE(pipeline.Produce(1, {7, 5, 3}).status.ok());
  EXPECT_THAT(listener.told,
              ElementsAre("begin 5/3", "name fake.tfrecord@100", "enter 1", "enter 2", "enter 3",
                          "enter 4", "enter 0", "enter 0", "end"));
}

TEST(StageObserverTest, ACacheStageHasANameThatTheSpecTells) {
  PipelineUnderTest pipeline(MakeSpec(R"(
      stages { decode_image {} } stages { center_crop { size: [8, 8] } } stages { cache {} }
      stages { random_horizontal_flip {} })"),
                             {MakeRecord(MakeJpeg(20, 20))});
  EXPECT_THAT(pipeline.pipeline().StageNames(), testing::Contains("stages[2] cache"));
}

TEST(StageObserverTest, ABadSampleEndsToo) {
  FakeRecord unreadable;
  unreadable.error = SampleError(reason::kCorruptRecord, "it is damaged");
  PipelineUnderTest pipeline(MakeSpec(kStages), {MakeRecord("no image"), unreadable});
  Listener listener;
  pipeline.context().observer = &listener;
  EXPECT_TRUE(IsSampleError(pipeline.Produce(0, {}).status));
  EXPECT_THAT(listener.told, ElementsAre("begin 0/0", "name fake.tfrecord@0", "enter 1", "enter 2",
                                         "enter 0", "end"));
  listener.told.clear();
  EXPECT_TRUE(IsSampleError(pipeline.Produce(1, {}).status));
  EXPECT_THAT(listener.told,
              ElementsAre("begin 0/0", "name fake.tfrecord@100", "enter 1", "enter 0", "end"));
}

TEST(StageObserverTest, TheLastWordStandsWhenMemoryRunsOut) {
  PipelineUnderTest pipeline(MakeSpec("stages { fault { burst: '100000TiB' } } outputs: 'label'"),
                             {MakeRecord("")});
  Listener listener;
  pipeline.context().observer = &listener;
  EXPECT_THROW(pipeline.Produce(0, {}), std::bad_alloc);
  EXPECT_EQ(listener.told.back(), "enter 2");
}

}  // namespace
}  // namespace bulkhead::stage_observer_test
