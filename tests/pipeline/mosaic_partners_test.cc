// The other samples of a mosaic: which they are, and what becomes of bad ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "server/base/value_map.h"
#include "server/pipeline/stage_observer.h"
#include "tests/pipeline/mosaic_fixture.h"

namespace bulkhead::mosaic_testing {
namespace {

using ::testing::HasSubstr;

class Listener final : public StageObserver {
 public:
  void BeginSample(const SampleKey&) override { told.emplace_back("begin"); }
  void NameSample(absl::string_view identity) override {
    told.push_back(absl::StrCat("name ", identity));
  }
  void Enter(uint32_t stage) override { told.push_back(absl::StrCat(stage)); }
  void EndSample() override { told.emplace_back("end"); }
  std::vector<std::string> told;
};

// The first position whose mosaic, but not itself, takes the record at `wanted`.
std::optional<uint64_t> Taker(uint64_t wanted, int& tile) {
  for (uint64_t position = 0; position < kCount; ++position) {
    if (position == wanted) continue;
    const Draws draws = DrawsOf(position);
    for (tile = 1; tile < kMosaicTiles; ++tile) {
      if (draws.positions[tile] == wanted) return position;
    }
  }
  return std::nullopt;
}

constexpr uint64_t kBad = 5;  // a record
void Spoil(std::vector<FakeRecord>& records) { records[kBad].features["image"] = {"no image"}; }

TEST(MosaicPartnersTest, FailNamesThePartner) {
  int tile = 0;
  const uint64_t position = *Taker(PositionOf(kBad), tile);
  Stream stream(kBefore + Mosaic(), true, v1::ERROR_ACTION_FAIL, Spoil);
  const absl::Status status = stream.Produce(position);
  EXPECT_TRUE(IsSampleError(status));
  EXPECT_EQ(stream.failed_position, position);
  const auto metadata = GetErrorInfo(status)->metadata;
  EXPECT_EQ(metadata.at("record"), "fake.tfrecord@500");
  EXPECT_EQ(metadata.at("offset"), "500");
  EXPECT_EQ(metadata.at("position"), absl::StrCat(PositionOf(kBad)));
  EXPECT_EQ(metadata.at("stage"), "stages[0] decode_image");
  const char* names[] = {"", "top right", "bottom left", "bottom right"};
  const std::string start =
      absl::StrCat("position ", position, ": fake.tfrecord@", 100 * ((position + 3) % kCount),
                   ": stages[8] mosaic: its ", names[tile], " image: position ", PositionOf(kBad),
                   ": fake.tfrecord@500: stages[0] decode_image: ");
  EXPECT_THAT(std::string(status.message()), testing::StartsWith(start));
}

// The partner's place is taken as that of the sample itself would be.
TEST(MosaicPartnersTest, SubstituteTakesTheNextGoodPartnerAndReportsIt) {
  Stream stream(kBefore + Mosaic(), true, v1::ERROR_ACTION_SUBSTITUTE, Spoil);
  const uint64_t bad = PositionOf(kBad);
  const ThirdRecordOrder order;
  size_t reports = 0;
  for (uint64_t position = 0; position < kCount; ++position) {
    SCOPED_TRACE(position);
    const absl::Status status = stream.Produce(position);
    ASSERT_TRUE(status.ok()) << status;
    const Draws draws = DrawsOf(position);
    Expected expected;
    size_t bad_ones = 0;
    for (int i = 0; i < kMosaicTiles; ++i) {
      // The substitute's record, with the randomness of the position whose place it takes.
      const uint64_t from = draws.positions[i];
      const uint64_t record = order.RecordAt(kEpoch, from == bad ? from + 1 : from);
      expected.Add(Before(record, from), TileAt(i, draws.y, draws.x, SizeOfRecord(record),
                                                {kCanvasHeight, kCanvasWidth}));
      bad_ones += from == bad ? 1 : 0;
    }
    ExpectSame(stream, expected);
    ASSERT_EQ(stream.substituted.size(), bad_ones);
    std::set<std::string> messages;
    for (const SubstitutedSample& substituted : stream.substituted) {
      EXPECT_EQ(substituted.position, bad);
      EXPECT_EQ(substituted.substitute_position, bad + 1);
      messages.insert(std::string(substituted.error.message()));
      EXPECT_THAT(std::string(substituted.error.message()),
                  testing::StartsWith(absl::StrCat("position ", position, ": ")));
      EXPECT_THAT(std::string(substituted.error.message()), HasSubstr("fake.tfrecord@500"));
    }
    EXPECT_EQ(messages.size(), bad_ones);
    reports += bad_ones;
  }
  EXPECT_GT(reports, 1u);
}

// Other records of its own would need the same partner: they are not tried.
TEST(MosaicPartnersTest, APartnerThatNoneCanReplaceFailsAtOnce) {
  constexpr uint64_t kMany = 60;
  const auto first_partner = [](uint64_t position) {
    SampleRandom random(kSeed, kEpoch, position, StableHash(kMosaicKey));
    random.NextUnit();
    return random.NextBelow(kMany);
  };
  // The sample and the one behind it are good, and out of its first partner's reach.
  uint64_t position = 0;
  while ((position + kMany - first_partner(position)) % kMany < 20 ||
         (position + 1 + kMany - first_partner(position)) % kMany < 20) {
    ++position;
  }
  Stream stream(
      kBefore + Mosaic(), true, v1::ERROR_ACTION_SUBSTITUTE,
      [&](std::vector<FakeRecord>& records) {
        for (uint64_t i = 0; i < kMany; ++i) {
          const uint64_t at = (i + kMany - 3) % kMany;
          if (at != position && at != position + 1) records[i].features["image"] = {"no image"};
        }
      },
      kMany);
  Listener listener;
  stream.context().observer = &listener;
  const absl::Status status = stream.Produce(position);
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("position"), absl::StrCat(first_partner(position)));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the 16 records that follow"));
  const auto named = std::count_if(listener.told.begin(), listener.told.end(),
                                   [](const std::string& told) { return told.find("name ") == 0; });
  EXPECT_EQ(named, 1 + 17 + 1);
  EXPECT_TRUE(stream.substituted.empty());
}

// Its own labels are as many as its boxes, but not those of a partner: a total that fits by chance
// would give boxes the labels of others.
TEST(MosaicPartnersTest, EverySampleNeedsARowForEachBox) {
  int tile = 0;
  const uint64_t position = *Taker(PositionOf(kBad), tile);
  const auto change = [](std::vector<FakeRecord>& records) {
    records[kBad].features["labels"] = {BytesOf<int64_t>({1, 2, 3}), 3};
  };
  Stream fail(kBefore + Mosaic(), true, v1::ERROR_ACTION_FAIL, change);
  const absl::Status status = fail.Produce(position);
  EXPECT_EQ(GetErrorInfo(status)->reason, reason::kRowsDiffer);
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("record"), "fake.tfrecord@500");
  EXPECT_THAT(std::string(status.message()), HasSubstr("there are 1 boxes, but `labels` has 3"));
  Stream substitute(kBefore + Mosaic(), true, v1::ERROR_ACTION_SUBSTITUTE, change);
  ASSERT_TRUE(substitute.Produce(position).ok());
  ASSERT_FALSE(substitute.substituted.empty());
  EXPECT_EQ(substitute.substituted[0].substitute_position, PositionOf(kBad) + 1);
}

TEST(MosaicPartnersTest, QuarantinedPartnersAreNotRead) {
  int tile = 0;
  const uint64_t position = *Taker(PositionOf(kBad), tile);
  // Reading it would end in another error.
  const auto gone = [](std::vector<FakeRecord>& records) {
    records[kBad].error = MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound, "gone");
  };
  Stream fail(kBefore + Mosaic(), true, v1::ERROR_ACTION_FAIL, gone);
  EXPECT_EQ(fail.Produce(position).code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(fail.view().quarantined.Add("fake.tfrecord@500").ok());
  EXPECT_EQ(GetErrorInfo(fail.Produce(position))->reason, reason::kQuarantined);
  Stream substitute(kBefore + Mosaic(), true, v1::ERROR_ACTION_SUBSTITUTE, gone);
  ASSERT_TRUE(substitute.view().quarantined.Add("fake.tfrecord@500").ok());
  ASSERT_TRUE(substitute.Produce(position).ok());
  ASSERT_FALSE(substitute.substituted.empty());
  EXPECT_EQ(GetErrorInfo(substitute.substituted[0].error)->reason, reason::kQuarantined);
  EXPECT_EQ(substitute.substituted[0].position, PositionOf(kBad));
}

// Reports of an attempt that came to nothing are not the sample's.
TEST(MosaicPartnersTest, OnlyTheAttemptThatCountsReportsItsPartners) {
  int tile = 0;
  const uint64_t position = *Taker(PositionOf(kBad), tile);
  const uint64_t own = (position + 3) % kCount;
  const auto change = [&](std::vector<FakeRecord>& records) {
    Spoil(records);
    records[own].features["id"] = {BytesOf<int64_t>({100})};  // out of the classes
  };
  Stream stream(kBefore + Mosaic() + "stages { one_hot { input: 'id' classes: 9 } } ", true,
                v1::ERROR_ACTION_SUBSTITUTE, change);
  ASSERT_TRUE(stream.Produce(position).ok());
  const Draws draws = DrawsOf(position);
  const auto partners = static_cast<size_t>(
      std::count(draws.positions + 1, draws.positions + kMosaicTiles, PositionOf(kBad)));
  ASSERT_EQ(stream.substituted.size(), 1 + partners);
  EXPECT_EQ(stream.substituted[0].position, position);
  EXPECT_EQ(stream.substituted[1].position, PositionOf(kBad));
}

// The record at work is the one that is named, so that a poison one is found among four.
TEST(MosaicPartnersTest, NamesTheRecordThatIsAtWork) {
  Stream stream("stages { decode_image {} } stages { mosaic { size: 8 } } outputs: 'image'");
  Listener listener;
  stream.context().observer = &listener;
  ASSERT_TRUE(stream.Produce(4).ok());
  SampleRandom random(kSeed, kEpoch, 4, StableHash("stages/1"));
  random.NextUnit();
  std::vector<std::string> expected = {"begin", "name fake.tfrecord@700", "1", "2", "3"};
  for (int i = 1; i < kMosaicTiles; ++i) {
    const uint64_t record = (random.NextBelow(kCount) + 3) % kCount;
    expected.push_back(absl::StrCat("name fake.tfrecord@", 100 * record));
    expected.insert(expected.end(), {"1", "2", "3"});
  }
  expected.insert(expected.end(), {"name fake.tfrecord@700", "0", "0", "end"});
  EXPECT_EQ(listener.told, expected);
}

TEST(MosaicPartnersTest, PartnersComeFromTheCacheToo) {
  const std::string decode = "stages { decode_image {} } ";
  const std::string flip = "stages { random_horizontal_flip {} } ";
  const std::string mosaic = "stages { mosaic { size: [32, 40] } } outputs: ['image', 'id']";
  Stream plain(decode + flip + mosaic);
  Stream cached(decode + "stages { cache {} } " + flip + mosaic);
  ValueMap kept;
  cached.context().stores.cache_stages = &kept;
  cached.view().binding.set_reads_again(true);
  for (int round = 0; round < 2; ++round) {
    for (uint64_t position = 0; position < kCount; ++position) {
      ASSERT_TRUE(plain.Produce(position).ok());
      ASSERT_TRUE(cached.Produce(position).ok());
      ASSERT_TRUE(plain.Output("image") == cached.Output("image")) << position;
      ASSERT_EQ(plain.Output("id"), cached.Output("id"));
    }
    // One entry for each record, whoever needed it.
    EXPECT_EQ(kept.size(), kCount);
  }
}

TEST(MosaicPartnersTest, SampleAloneIsTheSameAsInALease) {
  Stream stream(kBefore + Mosaic());
  ASSERT_TRUE(stream.Produce(6).ok());
  std::vector<std::string> outputs;
  std::vector<std::byte*> destinations;
  for (const v1::TensorSchema& tensor : stream.view().binding.schema().tensors()) {
    outputs.emplace_back(tensor.sample_bytes(), '\xA5');
  }
  for (std::string& output : outputs) {
    destinations.push_back(reinterpret_cast<std::byte*>(output.data()));
  }
  ASSERT_TRUE(
      ProduceSample(stream.pipeline(), stream.view(), kEpoch, 6, stream.context(), destinations)
          .ok());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const v1::TensorSchema& tensor = stream.view().binding.schema().tensors(static_cast<int>(i));
    EXPECT_TRUE(outputs[i] == stream.Output(tensor.name())) << tensor.name();
  }
}

TEST(MosaicPartnersTest, AnnouncesPartnersWithTheirSample) {
  const v1::PipelineSpec spec = MakeSpec(
      "stages { decode_image {} } stages { mosaic { size: 8 probability: 0.7 } } outputs: 'image'",
      kDetection);
  std::vector<FakeRecord> records;
  for (uint64_t i = 0; i < kCount; ++i) records.push_back(RecordNumber(i));
  auto source = std::make_unique<FakeSource>(InferSignature(spec)->sources[0].source_features,
                                             std::move(records));
  std::vector<uint64_t> told;
  source->on_expect = [&](uint64_t record) { told.push_back(record); };
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::move(source));
  const auto pipeline = MakePipeline(std::move(sources), spec);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  StreamView view;
  view.binding.set_seed(kSeed);
  view.binding.set_samples_per_epoch(kCount);
  *view.binding.mutable_schema() = InferSignature(spec)->schema;
  view.order = std::make_shared<ThirdRecordOrder>();
  std::string slot(view.binding.schema().batch_bytes(), '\xA5');
  internal::v1::Lease lease;
  lease.set_epoch(kEpoch);
  lease.set_count(4);
  std::vector<SubstitutedSample> substituted;
  uint64_t failed_position = 0;
  const auto context = (*pipeline)->NewContext();
  ASSERT_TRUE(ProduceLease(**pipeline, view, lease, *context,
                           reinterpret_cast<std::byte*>(slot.data()), substituted, failed_position)
                  .ok());
  std::vector<uint64_t> expected;
  int mosaics = 0;
  for (uint64_t position = 1; position < 4; ++position) {
    expected.push_back((position + 3) % kCount);
    SampleRandom random(kSeed, kEpoch, position, StableHash("stages/1"));
    if (random.NextUnit() >= 0.7) continue;
    ++mosaics;
    for (int i = 1; i < kMosaicTiles; ++i) {
      expected.push_back((random.NextBelow(kCount) + 3) % kCount);
    }
  }
  EXPECT_EQ(told, expected);
  EXPECT_GT(mosaics, 0);
}

// Two sources whose stages and features are numbered differently. The crop keeps the mosaic from
// lying in the batch.
TEST(MosaicPartnersTest, MixesSources) {
  const v1::PipelineSpec spec =
      MakeSpec("stages { mosaic { size: [32, 40] } } stages { center_crop { size: [32, 40] } }",
               R"(
    source { mixture { 
      sources { weight: 0.5 source { tfrecord { files: "a" } }
        features { key: "id" value { int64 {} } } features { key: "image" value { bytes {} } }
        stages { decode_image { color: COLOR_GRAY } } }
      sources { weight: 0.5 source { tfrecord { files: "b" } }
        features { key: "aaa" value { int64 {} } }
        features { key: "id" value { int64 {} } } features { key: "image" value { bytes {} } }
        stages { decode_image { color: COLOR_GRAY } } stages { one_hot { input: 'aaa' classes: 9 } }
        stages { random_horizontal_flip { probability: 1 } }
        stages { random_vertical_flip { probability: 0 } } } } }
    batch { size: 1 } outputs: "image" outputs: "id" outputs: "source_id")");
  std::vector<std::unique_ptr<Source>> sources;
  for (int i = 0; i < 2; ++i) {
    v1::PipelineSpec alone;
    *alone.mutable_source() = spec.source().mixture().sources(i).source();
    *alone.mutable_features() = spec.source().mixture().sources(i).features();
    alone.mutable_batch()->set_size(1);
    alone.add_outputs("id");
    std::vector<FakeRecord> records;
    for (uint64_t k = 0; k < kCount; ++k) {
      records.push_back(RecordNumber(k));
      records.back().features["aaa"] = {BytesOf<int64_t>({1})};
    }
    sources.push_back(std::make_unique<FakeSource>(
        InferSignature(alone)->sources[0].source_features, std::move(records)));
  }
  const auto pipeline = MakePipeline(std::move(sources), spec);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  // Record p of all sources at position p.
  class Straight : public SampleOrder {
   public:
    uint64_t RecordAt(uint64_t, uint64_t position) const override { return position; }
  };
  StreamView view;
  view.binding.set_seed(kSeed);
  view.binding.set_samples_per_epoch(2 * kCount);
  *view.binding.mutable_schema() = InferSignature(spec)->schema;
  view.order = std::make_shared<Straight>();
  const auto context = (*pipeline)->NewContext();
  for (uint64_t position = 0; position < 2 * kCount; ++position) {
    SCOPED_TRACE(position);
    std::string image(kCanvasHeight * kCanvasWidth, '\xA5');
    int64_t id = -1;
    int64_t source_id = -1;
    std::byte* const destinations[] = {reinterpret_cast<std::byte*>(image.data()),
                                       reinterpret_cast<std::byte*>(&id),
                                       reinterpret_cast<std::byte*>(&source_id)};
    ASSERT_TRUE(ProduceSample(**pipeline, view, kEpoch, position, *context, destinations).ok());
    EXPECT_EQ(id, static_cast<int64_t>(position % kCount));
    EXPECT_EQ(source_id, position < kCount ? 0 : 1);
    SampleRandom random(kSeed, kEpoch, position, StableHash("stages/0"));
    random.NextUnit();
    uint64_t records[kMosaicTiles] = {position};
    for (int i = 1; i < kMosaicTiles; ++i) records[i] = random.NextBelow(2 * kCount);
    const int y = static_cast<int>(random.NextUniform(0.25, 0.75) * kCanvasHeight);
    const int x = static_cast<int>(random.NextUniform(0.25, 0.75) * kCanvasWidth);
    Image expected;
    expected.Reshape({kCanvasHeight, kCanvasWidth}, 1);
    for (int i = 0; i < kMosaicTiles; ++i) {
      const uint64_t k = records[i] % kCount;
      const ImageSize size = SizeOfRecord(k);
      Image own = MakePicture(size.height, size.width, 1, 50 + k);
      const MutableImageView pixels = own.mutable_view();
      for (int row = 0; records[i] >= kCount && row < size.height; ++row) {
        std::reverse(pixels.row(row), pixels.row(row) + size.width);
      }
      DrawTile(own.view(), TileAt(i, y, x, size, {kCanvasHeight, kCanvasWidth}), {114},
               expected.mutable_view());
    }
    EXPECT_TRUE(image == std::string(reinterpret_cast<const char*>(expected.view().data),
                                     kCanvasHeight * kCanvasWidth));
  }
}

}  // namespace
}  // namespace bulkhead::mosaic_testing
