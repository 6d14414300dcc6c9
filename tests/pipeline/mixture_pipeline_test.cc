// A pipeline over several sources: each sample takes its own source's way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "server/pipeline/pipeline.h"
#include "server/sampler/mixture_order.h"
#include "server/source/numbered_source.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead::mixture_pipeline_test {
namespace {

using testing::HasSubstr;

constexpr char kMixed[] = R"(
  source { mixture {
    sources {
      weight: 0.5 source { tfrecord { files: "a" } }
      features { key: "image" value { bytes {} } } features { key: "label" value { int64 {} } }
      stages { decode_image {} } stages { random_resized_crop { size: [16, 16] } }
      stages { random_horizontal_flip {} }
    }
    sources {
      weight: 0.5 source { tfrecord { files: "b" } }
      features { key: "extra" value { int64 {} } }
      features { key: "image" value { bytes {} } } features { key: "label" value { int64 {} } }
      stages { decode_image {} } stages { center_crop { size: [16, 16] } }
      stages { random_horizontal_flip {} }
    } } }
  batch { size: 4 } outputs: "image" outputs: "label" outputs: "source_id"
)";
constexpr size_t kImageBytes = 16 * 16 * 3;

FakeRecord ImageRecord(std::string image, int64_t label) {
  FakeRecord record;
  record.features["image"] = {std::move(image)};
  record.features["label"] = {BytesOf<int64_t>({label})};
  record.features["extra"] = {BytesOf<int64_t>({9})};
  return record;
}

// Two pictures, then three more.
std::unique_ptr<Pipeline> TwoSources(const std::string& third, const std::string& common = "",
                                     bool fuse = true) {
  const v1::PipelineSpec spec = MakeSpec(common, kMixed);
  std::vector<std::unique_ptr<Source>> sources;
  for (int i = 0; i < 2; ++i) {
    v1::PipelineSpec alone;
    *alone.mutable_source() = spec.source().mixture().sources(i).source();
    *alone.mutable_features() = spec.source().mixture().sources(i).features();
    alone.mutable_batch()->set_size(1);
    alone.add_outputs("label");
    std::vector<FakeRecord> records;
    records.push_back(ImageRecord(i == 0 ? MakeJpeg(40, 50) : third, 10 * i));
    records.push_back(ImageRecord(MakeJpeg(33, 44), 10 * i + 1));
    if (i == 1) records.push_back(ImageRecord(MakeJpeg(33, 44), 10 * i + 2));
    sources.push_back(std::make_unique<FakeSource>(
        InferSignature(alone)->sources[0].source_features, std::move(records)));
  }
  auto made = MakePipeline(std::move(sources), spec, {.fuse = fuse});
  EXPECT_TRUE(made.ok()) << made.status();
  ExpectKnownNames(**made, spec);
  return *std::move(made);
}

struct Sample {
  absl::Status status;
  std::string image = std::string(kImageBytes, '\xA5');
  int64_t label = -1;
  int64_t source_id = -1;
};

Sample Make(const Pipeline& pipeline, uint64_t record, const SampleKey& key,
            PipelineContext& context) {
  Sample sample;
  std::byte* const destinations[] = {reinterpret_cast<std::byte*>(sample.image.data()),
                                     reinterpret_cast<std::byte*>(&sample.label),
                                     reinterpret_cast<std::byte*>(&sample.source_id)};
  sample.status = pipeline.Produce(record, key, context, destinations);
  return sample;
}

TEST(MixturePipelineTest, RecordsCountThroughAllSources) {
  const auto pipeline = TwoSources(MakeJpeg(20, 20));
  EXPECT_EQ(pipeline->record_count(), 5u);
  const auto context = pipeline->NewContext();
  const int64_t labels[] = {0, 1, 10, 11, 12};
  for (const uint64_t record : {4, 0, 2, 1, 3}) {
    const Sample sample = Make(*pipeline, record, {1, 2, 3}, *context);
    ASSERT_TRUE(sample.status.ok()) << sample.status;
    EXPECT_EQ(sample.label, labels[record]);
    EXPECT_EQ(sample.source_id, record < 2 ? 0 : 1);
  }
}

// The same file through one source alone, whose flip is keyed by another path of the spec.
// Both have a file of this name.
TEST(MixturePipelineTest, RecordsAreCalledByTheNumberOfTheirSourceAndItsNameForThem) {
  const auto pipeline = TwoSources("no image");
  EXPECT_EQ(pipeline->Identity(0), "0:fake.tfrecord@0");
  EXPECT_EQ(pipeline->Identity(1), "0:fake.tfrecord@100");
  EXPECT_EQ(pipeline->Identity(2), "1:fake.tfrecord@0");
  EXPECT_EQ(pipeline->Identity(4), "1:fake.tfrecord@200");
  const auto context = pipeline->NewContext();
  const absl::Status status = Make(*pipeline, 2, {1, 2, 3}, *context).status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("position 3: 1:fake.tfrecord@0: "));
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("record"), "1:fake.tfrecord@0");
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("file"), "1:fake.tfrecord");
}

TEST(MixturePipelineTest, AFileThatCannotBeReadIsCalledAsOneThatCannotBeDecoded) {
  FakeRecord unreadable;
  unreadable.error = SampleError(reason::kCorruptRecord, "torn", {{"file", "fake.tfrecord"}});
  const auto source =
      MakeNumberedSource(std::make_unique<FakeSource>(std::vector<FeatureSignature>{},
                                                      std::vector<FakeRecord>{unreadable}),
                         /*source_id=*/1);
  Record record;
  const absl::Status read = source->Read(0, *source->NewContext(), record);
  EXPECT_EQ(GetErrorInfo(read)->metadata.at("file"), "1:fake.tfrecord");
  EXPECT_THAT(std::string(read.message()), HasSubstr("source.mixture.sources[1]: torn"));
  EXPECT_TRUE(IsSampleError(read));
}

TEST(MixturePipelineTest, OwnStagesAreKeyedByTheSourcesNumber) {
  const std::string file = MakeJpeg(33, 44);
  const auto pipeline = TwoSources(file);
  const auto context = pipeline->NewContext();
  PipelineUnderTest cropped(
      MakeSpec("stages { decode_image {} } stages { center_crop { size: [16, 16] } }"),
      {MakeRecord(file)});
  const std::string plain = cropped.Output(cropped.Produce(0, {}), "image");
  std::string mirrored(plain.size(), '\0');
  for (size_t i = 0; i < 16 * 16; ++i) {
    std::memcpy(&mirrored[(i / 16 * 16 + 15 - i % 16) * 3], &plain[i * 3], 3);
  }
  ASSERT_NE(plain, mirrored);
  for (uint64_t position = 0; position < 40; ++position) {
    const SampleKey key{7, 1, position};
    SampleRandom random(7, 1, position, StableHash("source/mixture/sources/1/stages/2"));
    const bool flips = random.NextUnit() < 0.5;
    ASSERT_TRUE(Make(*pipeline, 2, key, *context).image == (flips ? mirrored : plain)) << position;
  }
}

TEST(MixturePipelineTest, FusionAcrossOwnAndCommonStagesChangesNoByte) {
  const std::string common = "stages { random_horizontal_flip {} }";
  const auto fused = TwoSources(MakeJpeg(20, 20), common);
  const auto plain = TwoSources(MakeJpeg(20, 20), common, false);
  const auto fused_context = fused->NewContext();
  const auto plain_context = plain->NewContext();
  for (uint64_t i = 0; i < 30; ++i) {
    const Sample a = Make(*fused, i % 5, {1, 0, i}, *fused_context);
    const Sample b = Make(*plain, i % 5, {1, 0, i}, *plain_context);
    ASSERT_TRUE(a.status.ok() && b.status.ok());
    ASSERT_TRUE(a.image == b.image) << i;
  }
}

TEST(MixturePipelineTest, ErrorsNameTheStageOfTheSource) {
  const auto pipeline = TwoSources(MakeJpeg(8, 8));  // too small for the second source's crop
  const auto context = pipeline->NewContext();
  const Sample sample = Make(*pipeline, 2, {0, 0, 6}, *context);
  EXPECT_TRUE(IsSampleError(sample.status));
  EXPECT_THAT(std::string(sample.status.message()),
              HasSubstr("source.mixture.sources[1].stages[1] center_crop"));
}

// A bad record of one source is substituted by what follows in the order, whichever source that is.
TEST(MixturePipelineTest, SubstitutesComeFromAnySource) {
  const auto pipeline = TwoSources("no image");
  std::vector<MixedRecords> mixed(2);
  for (int i = 0; i < 2; ++i) {
    mixed[i].weight = 0.5;
    mixed[i].order.mutable_sequential();
    mixed[i].file_records = {static_cast<uint64_t>(2 + i)};
  }
  StreamView view;
  view.order = MakeMixtureOrder(mixed, 1, 64).value();
  view.binding.set_seed(1);
  view.binding.set_samples_per_epoch(64);
  view.binding.set_error_action(v1::ERROR_ACTION_SUBSTITUTE);
  *view.binding.mutable_schema() = InferSignature(MakeSpec("", kMixed))->schema;
  view.binding.mutable_schema()->mutable_tensors(1)->set_batch_offset(64 * kImageBytes);
  view.binding.mutable_schema()->mutable_tensors(2)->set_batch_offset(64 * (kImageBytes + 8));
  internal::v1::Lease lease;
  lease.set_count(64);
  std::vector<std::byte> slot(64 * (kImageBytes + 16));
  std::vector<SubstitutedSample> substituted;
  uint64_t failed = 0;
  const auto context = pipeline->NewContext();
  const absl::Status status =
      ProduceLease(*pipeline, view, lease, *context, slot.data(), substituted, failed);
  ASSERT_TRUE(status.ok()) << status;
  int from_other_source = 0;
  for (const SubstitutedSample& sample : substituted) {
    EXPECT_EQ(view.order->RecordAt(0, sample.position), 2u);
    const uint64_t record = view.order->RecordAt(0, sample.substitute_position);
    EXPECT_NE(record, 2u);
    int64_t source_id = -1;
    std::memcpy(&source_id, &slot[64 * (kImageBytes + 8) + sample.position * 8], 8);
    EXPECT_EQ(source_id, record < 2 ? 0 : 1) << "source_id tells where the record came from";
    from_other_source += record < 2;
  }
  EXPECT_GT(substituted.size(), 8u);
  EXPECT_GT(from_other_source, 0);
}

TEST(MixturePipelineTest, RefusesSourcesThatAreNotTheSpecs) {
  std::vector<std::unique_ptr<Source>> none;
  EXPECT_EQ(MakePipeline(std::move(none), MakeSpec("", kMixed)).status().code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace bulkhead::mixture_pipeline_test
