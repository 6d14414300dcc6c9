// Lists of images and windows of frames, from the source's values to the batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead::image_lists_test {
namespace {

using testing::HasSubstr;

constexpr char kViews[] = R"(
  source { tfrecord { files: "fake.tfrecord" } }
  features { key: "image" value { bytes { shape: 3 } } }
  batch { size: 4 }
)";
constexpr char kOne[] = R"(
  source { tfrecord { files: "fake.tfrecord" } }
  features { key: "image" value { bytes {} } }
  batch { size: 4 }
)";
constexpr char kFrames[] = R"(
  source { image_folder { path: "clips" unlabeled: true frames { window: 3 } } }
  outputs: 'image'
  batch { size: 6 }
)";
constexpr char kAugmented[] = R"(
  stages { decode_image {} }
  stages { random_resized_crop { size: [8, 10] } }
  stages { random_horizontal_flip {} }
  stages { color_jitter { contrast: 0.5 } }
)";
constexpr char kJoin[] = "stages { concat { inputs: 'image' output: 'image' } }";

std::string Jpeg(uint64_t seed) {
  return EncodeJpeg(MakePicture(30, 44, 3, seed).view(), {}).value();
}

FakeRecord Views(const std::vector<std::string>& images) {
  FakeRecord record;
  for (size_t i = 0; i < images.size(); ++i) {
    record.features[absl::StrCat("image/", i)] = {images[i]};
  }
  return record;
}

TEST(ImageListTest, EveryImageIsMadeAsAnImageAlone) {
  const std::vector<std::string> files = {Jpeg(1), Jpeg(2), Jpeg(3)};
  PipelineUnderTest joined(MakeSpec(absl::StrCat(kAugmented, kJoin), kViews), {Views(files)});
  PipelineUnderTest stacked(
      MakeSpec(absl::StrCat(kAugmented,
                            "stages { concat { inputs: 'image' output: 'image' stack: true } }"),
               kViews),
      {Views(files)});
  for (uint64_t position = 0; position < 8; ++position) {
    const SampleKey key{3, 1, position};
    const std::string image = joined.Output(joined.Produce(0, key), "image");
    const std::string stack = stacked.Output(stacked.Produce(0, key), "image");
    ASSERT_EQ(image.size(), 8u * 10 * 9);
    for (size_t k = 0; k < files.size(); ++k) {
      FakeRecord record;
      record.features["image"] = {files[k]};
      PipelineUnderTest alone(MakeSpec(kAugmented, kOne), {record});
      const std::string one = alone.Output(alone.Produce(0, key), "image");
      EXPECT_TRUE(stack.substr(k * one.size(), one.size()) == one) << k;
      for (size_t pixel = 0; pixel < 80; ++pixel) {
        ASSERT_EQ(image.substr(pixel * 9 + k * 3, 3), one.substr(pixel * 3, 3))
            << k << " " << pixel;
      }
    }
  }
}

TEST(ImageListTest, ABadImageIsNamed) {
  PipelineUnderTest pipeline(MakeSpec(absl::StrCat(kAugmented, kJoin), kViews),
                             {Views({Jpeg(1), "bad", Jpeg(1)})});
  const absl::Status status = pipeline.Produce(0, {}).status;
  EXPECT_TRUE(IsSampleError(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("fake.tfrecord@0: `image/1`: stages[0] decode_image: "));
}

// Record i is the window of the frames i, i + 1 and i + 2.
class SharedFramesTest : public testing::Test {
 protected:
  static constexpr uint64_t kRecords = 6;

  // With `once`, a frame's bytes are those of an image only where it comes first.
  static std::vector<FakeRecord> Windows(bool once) {
    std::vector<FakeRecord> records;
    for (uint64_t i = 0; i < kRecords; ++i) {
      FakeRecord& record = records.emplace_back();
      record.features["path"] = {"a.jpg"};
      for (uint64_t k = 0; k < 3; ++k) {
        const bool is_first = i == 0 || k == 2;
        record.features[absl::StrCat("image/", k)] = {
            once && !is_first ? "bad" : Oriented(Jpeg(i + k), 6), 1, i + k + 1};
      }
    }
    return records;
  }

  class InOrder : public SampleOrder {
   public:
    uint64_t RecordAt(uint64_t, uint64_t position) const override { return position; }
  };

  // The images of a lease of all records.
  static absl::StatusOr<std::string> Lease(PipelineUnderTest& pipeline) {
    StreamView stream;
    stream.binding.set_seed(3);
    stream.binding.set_samples_per_epoch(kRecords);
    stream.binding.set_error_action(v1::ERROR_ACTION_FAIL);
    *stream.binding.mutable_schema() = pipeline.schema();
    stream.order = std::make_unique<InOrder>();
    internal::v1::Lease lease;
    lease.set_epoch(1);
    lease.set_count(kRecords);
    std::string slot(pipeline.schema().batch_bytes(), '\0');
    std::vector<SubstitutedSample> substituted;
    uint64_t failed = 0;
    const absl::Status status =
        ProduceLease(pipeline.pipeline(), stream, lease, pipeline.context(),
                     reinterpret_cast<std::byte*>(slot.data()), substituted, failed);
    if (!status.ok()) return status;
    return slot.substr(0, kRecords * pipeline.schema().tensors(0).sample_bytes());
  }
};

TEST_F(SharedFramesTest, ALeaseDecodesAFrameOnceAndGivesTheSameBytes) {
  for (const std::string stages :
       {kAugmented, "stages { decode_image {} } stages { resize { size: 8 } }",
        "stages { decode_image {} } stages { random_crop { size: 20 } } ",
        // The second stage changes the pixels that it gets.
        "stages { decode_image {} } stages { color_jitter { contrast: 0.5 } }"
        "stages { resize { size: 8 } }",
        "stages { decode_image {} } stages { center_crop { size: 20 } }"
        "stages { color_jitter { contrast: 0.5 } }",
        "stages { decode_image { exif_orientation: true } }"
        "stages { random_resized_crop { size: 8 } }"}) {
    const v1::PipelineSpec spec = MakeSpec(absl::StrCat(stages, kJoin), kFrames);
    PipelineUnderTest alone(spec, Windows(false));
    std::string expected;
    for (uint64_t i = 0; i < kRecords; ++i) {
      const Produced produced = alone.Produce(i, {3, 1, i});
      ASSERT_TRUE(produced.status.ok()) << produced.status;
      expected += produced.outputs[0];
    }
    PipelineUnderTest shared(spec, Windows(true));
    const auto images = Lease(shared);
    ASSERT_TRUE(images.ok()) << images.status();
    EXPECT_TRUE(*images == expected) << stages;
    // The next lease begins anew.
    PipelineUnderTest again(spec, Windows(false));
    EXPECT_TRUE(*Lease(again) == expected);
    EXPECT_TRUE(*Lease(again) == expected);
  }
}

TEST_F(SharedFramesTest, WithoutALeaseNothingIsShared) {
  PipelineUnderTest pipeline(MakeSpec(absl::StrCat(kAugmented, kJoin), kFrames), Windows(true));
  EXPECT_TRUE(pipeline.Produce(0, {3, 1, 0}).status.ok());
  EXPECT_FALSE(pipeline.Produce(1, {3, 1, 1}).status.ok());
}

}  // namespace
}  // namespace bulkhead::image_lists_test
