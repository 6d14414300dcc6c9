// Mosaics of a stream's samples, against the same made by hand of what the stages before give.
#include <gtest/gtest.h>

#include <set>

#include "tests/pipeline/mosaic_fixture.h"

namespace bulkhead::mosaic_testing {
namespace {

TEST(MosaicStageTest, IsTheSamplesAsTheyAreBeforeIt) {
  Stream stream(kBefore + Mosaic());
  for (uint64_t position = 0; position < kCount; ++position) {
    SCOPED_TRACE(position);
    ASSERT_TRUE(stream.Produce(position).ok());
    const Draws draws = DrawsOf(position);
    ExpectSame(stream, ExpectedOf(draws));
    // What is not of the image is the sample's own.
    const uint64_t record = (position + 3) % kCount;
    EXPECT_EQ(stream.Whole("id"), static_cast<int64_t>(record));
    const Image other = MakePicture(4, 4, 3, 90 + record);
    EXPECT_TRUE(stream.Output("other") ==
                std::string(reinterpret_cast<const char*>(other.view().data), 48));
    EXPECT_TRUE(stream.substituted.empty());
  }
}

TEST(MosaicStageTest, MeetsAnywhereBetweenTheEdges) {
  for (const auto& [low, high] :
       std::vector<std::pair<double, double>>{{0, 0}, {1, 1}, {0, 1}, {0.5, 0.5}}) {
    Stream stream(kBefore + Mosaic(absl::StrCat("center: [", low, ", ", high, "]")));
    for (uint64_t position = 0; position < 4; ++position) {
      SCOPED_TRACE(absl::StrCat(low, " ", high, " ", position));
      ASSERT_TRUE(stream.Produce(position).ok());
      ExpectSame(stream, ExpectedOf(DrawsOf(position, 1, low, high)));
    }
  }
}

TEST(MosaicStageTest, LeavesTheSampleAloneOtherwise) {
  Stream stream(kBefore + Mosaic("probability: 0.5"));
  int alone = 0;
  for (uint64_t position = 0; position < kCount; ++position) {
    SCOPED_TRACE(position);
    ASSERT_TRUE(stream.Produce(position).ok());
    const Draws draws = DrawsOf(position, 0.5);
    alone += draws.mosaic ? 0 : 1;
    ExpectSame(stream, ExpectedOf(draws));
  }
  EXPECT_GT(alone, 0);
  EXPECT_LT(alone, static_cast<int>(kCount));
}

TEST(MosaicStageTest, NeedsNoStreamToLeaveTheSampleAlone) {
  PipelineUnderTest never(MakeSpec(kBefore + Mosaic("probability: 0"), kDetection),
                          {RecordNumber(3)});
  EXPECT_TRUE(never.Produce(0, {kSeed, kEpoch, 0}).status.ok());
  PipelineUnderTest always(MakeSpec(kBefore + Mosaic(), kDetection), {RecordNumber(3)});
  const absl::Status status = always.Produce(0, {kSeed, kEpoch, 0}).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
}

// Whatever stands before and behind; the order of the samples, too, changes nothing.
TEST(MosaicStageTest, IsTheSameFusedAndUnfusedAndInAnyOrder) {
  const std::vector<std::string> before = {
      kBefore,
      std::string(kBefore) + "stages { random_resized_crop { size: [20, 24] } } ",
      std::string(kBefore) +
          "stages { random_crop { size: [6, 8] } }"
          "stages { resize { size: [20, 24] } } ",
      std::string(kBefore) + "stages { random_zoom_out {} } stages { random_iou_crop {} } ",
  };
  const std::vector<std::string> behind = {
      "",
      "stages { center_crop { size: [20, 30] } } stages { sanitize_boxes { with: 'labels' "
      "min_visibility: 0.3 } }",
      "stages { resize { size: [24, 20] } } stages { random_horizontal_flip {} } "
      "stages { normalize { divide: 3 } } stages { layout { to: IMAGE_LAYOUT_NCHW } }",
      "stages { random_vertical_flip {} } stages { convert_boxes { to: BOX_FORMAT_CXCYWH relative: "
      "true } } stages { pad_rows { to: 12 } }",
      "stages { fault { touch: '4KiB' } } stages { random_affine { degrees: 20 } } stages { "
      "one_hot "
      "{ input: 'id' classes: 9 } }",
  };
  for (const std::string& head : before) {
    for (const std::string& tail : behind) {
      SCOPED_TRACE(head + tail);
      Stream fused(head + Mosaic("probability: 0.8") + tail);
      Stream plain(head + Mosaic("probability: 0.8") + tail, /*fuse=*/false);
      std::vector<std::vector<std::string>> outputs(kCount);
      for (uint64_t position = 0; position < kCount; ++position) {
        ASSERT_TRUE(fused.Produce(position).ok());
        for (const char* name : {"image", "mask", "boxes", "labels", "points", "id", "other"}) {
          outputs[position].push_back(fused.Output(name));
        }
      }
      for (uint64_t i = 0; i < kCount; ++i) {
        const uint64_t position = kCount - 1 - i;
        ASSERT_TRUE(plain.Produce(position).ok());
        size_t output = 0;
        for (const char* name : {"image", "mask", "boxes", "labels", "points", "id", "other"}) {
          ASSERT_TRUE(plain.Output(name) == outputs[position][output++]) << name << position;
        }
      }
    }
  }
}

TEST(MosaicStageTest, KnowsWhatIsLeftOfBoxes) {
  const std::string sanitize =
      "stages { sanitize_boxes { with: 'labels' min_size: 0.001 min_visibility: 0.6 } } ";
  Stream all(kBefore + Mosaic());
  Stream visible(kBefore + Mosaic() + sanitize);
  int dropped = 0;
  for (uint64_t position = 0; position < kCount; ++position) {
    ASSERT_TRUE(all.Produce(position).ok());
    ASSERT_TRUE(visible.Produce(position).ok());
    // Those that are left are those whose area is.
    const std::vector<float> boxes = NumbersOf<float>(all.Output("boxes"));
    const std::vector<int64_t> labels = NumbersOf<int64_t>(all.Output("labels"));
    std::vector<int64_t> kept;
    for (int64_t i = 0; i < all.Whole("boxes_count"); ++i) {
      const float* box = &boxes[4 * i];
      const FakeRecord record = RecordNumber(labels[i] / 10);
      const std::vector<float> own = NumbersOf<float>(record.features.at("boxes").bytes);
      const float* before = &own[4 * (labels[i] % 10)];
      const float whole = (before[2] - before[0]) * (before[3] - before[1]);
      const float left = (box[2] - box[0]) * (box[3] - box[1]);
      if (left >= 0.6f * whole) kept.push_back(labels[i]);
    }
    dropped += static_cast<int>(all.Whole("boxes_count")) - static_cast<int>(kept.size());
    ASSERT_EQ(visible.Whole("boxes_count"), static_cast<int64_t>(kept.size()));
    kept.resize(12);
    EXPECT_EQ(NumbersOf<int64_t>(visible.Output("labels")), kept);
  }
  EXPECT_GT(dropped, 0);
}

}  // namespace
}  // namespace bulkhead::mosaic_testing
