// Mosaics of a stream's samples, against the same made by hand of what the stages before give.
#include "server/pipeline/mosaic_stage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <set>

#include "server/base/value_map.h"
#include "server/pipeline/stage_observer.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead {
namespace {

using ::testing::HasSubstr;

constexpr int kCanvasHeight = 32;
constexpr int kCanvasWidth = 40;
constexpr uint64_t kSeed = 11;
constexpr uint64_t kEpoch = 2;
constexpr uint64_t kCount = 9;

constexpr char kDetection[] = R"(
  source { tfrecord { files: "fake.tfrecord" } }
  features { key: "id" value { int64 {} } }
  features { key: "other" value { bytes {} } }
  features { key: "image" value { bytes {} } }
  features { key: "mask" value { bytes {} } }
  features { key: "boxes" value { tensor { dtype: DTYPE_FLOAT32 shape: [-1, 4] max_count: 3 } } }
  features { key: "points" value { tensor { dtype: DTYPE_FLOAT32 shape: [2, 2] } } }
  features { key: "labels" value { int64 { shape: [-1] max_count: 3 } } }
  batch { size: 4 }
)";
constexpr char kBefore[] = R"(
  stages { decode_image { color: COLOR_GRAY } }
  stages { decode_image { input: 'mask' color: COLOR_GRAY } }
  stages { decode_image { input: 'other' } }
  stages { resize { input: 'other' size: 4 interpolation: INTERPOLATION_NEAREST } }
  stages { boxes { format: BOX_FORMAT_XYXY } }
  stages { keypoints { input: 'points' } }
  stages { mask { fill: 114 } }
  stages { random_horizontal_flip {} }
)";
constexpr char kMosaicKey[] = "stages/8";

std::string Mosaic(const std::string& options = "") {
  return "stages { mosaic { size: [32, 40] with: 'labels' " + options + " } } ";
}

ImageSize SizeOfRecord(uint64_t i) {
  return {6 + static_cast<int>(5 * i), 40 - static_cast<int>(3 * i)};
}

// Record i: a picture of its own size, a mask that shows the same, i mod 4 boxes, two points.
FakeRecord RecordNumber(uint64_t i) {
  const ImageSize size = SizeOfRecord(i);
  const std::string file =
      EncodePng(MakePicture(size.height, size.width, 1, 50 + i).view()).value();
  FakeRecord record;
  record.features["id"] = {BytesOf<int64_t>({static_cast<int64_t>(i)})};
  record.features["other"] = {EncodePng(MakePicture(4, 4, 3, 90 + i).view()).value()};
  record.features["image"] = {file};
  record.features["mask"] = {file};
  std::vector<float> boxes;
  std::vector<int64_t> labels;
  for (uint64_t b = 0; b < i % 4; ++b) {
    const auto at = static_cast<float>(b);
    boxes.insert(boxes.end(), {at, 2 * at, at + 3, static_cast<float>(size.height)});
    labels.push_back(static_cast<int64_t>(10 * i + b));
  }
  record.features["boxes"] = {BytesOf<float>(boxes), static_cast<int64_t>(labels.size())};
  record.features["points"] = {BytesOf<float>({1, 2, 4, 5})};
  record.features["labels"] = {BytesOf<int64_t>(labels), static_cast<int64_t>(labels.size())};
  return record;
}

// Another one than the position's own number.
class ThirdRecordOrder : public SampleOrder {
 public:
  explicit ThirdRecordOrder(uint64_t count = kCount) : count_(count) {}
  uint64_t RecordAt(uint64_t, uint64_t position) const override { return (position + 3) % count_; }

 private:
  uint64_t count_;
};
uint64_t PositionOf(uint64_t record) { return (record + kCount - 3) % kCount; }

template <typename T>
std::vector<T> NumbersOf(const std::string& bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

// A stream over those records.
class Stream {
 public:
  explicit Stream(const std::string& stages, bool fuse = true,
                  v1::ErrorAction action = v1::ERROR_ACTION_FAIL,
                  const std::function<void(std::vector<FakeRecord>&)>& change = {},
                  uint64_t count = kCount)
      : pipeline_(MakeSpec(stages, kDetection), Records(change, count), fuse) {
    stream_.binding.set_seed(kSeed);
    stream_.binding.set_samples_per_epoch(count);
    stream_.binding.set_error_action(action);
    *stream_.binding.mutable_schema() = pipeline_.schema();
    stream_.order = std::make_shared<ThirdRecordOrder>(count);
    slot_.assign(pipeline_.schema().batch_bytes(), '\xA5');
  }

  absl::Status Produce(uint64_t position) {
    internal::v1::Lease lease;
    lease.set_epoch(kEpoch);
    lease.set_first_position(position);
    lease.set_count(1);
    substituted.clear();
    return ProduceLease(pipeline_.pipeline(), stream_, lease, pipeline_.context(),
                        reinterpret_cast<std::byte*>(slot_.data()), substituted, failed_position);
  }
  std::string Output(absl::string_view name) const {
    for (const v1::TensorSchema& tensor : pipeline_.schema().tensors()) {
      if (tensor.name() == name) return slot_.substr(tensor.batch_offset(), tensor.sample_bytes());
    }
    ADD_FAILURE() << "no output " << name;
    return "";
  }
  int64_t Whole(absl::string_view name) const { return NumbersOf<int64_t>(Output(name))[0]; }

  PipelineContext& context() { return pipeline_.context(); }
  const Pipeline& pipeline() const { return pipeline_.pipeline(); }
  StreamView& view() { return stream_; }

  std::vector<SubstitutedSample> substituted;
  uint64_t failed_position = 999;

 private:
  static std::vector<FakeRecord> Records(
      const std::function<void(std::vector<FakeRecord>&)>& change, uint64_t count) {
    std::vector<FakeRecord> records;
    for (uint64_t i = 0; i < count; ++i) records.push_back(RecordNumber(i % kCount));
    if (change) change(records);
    return records;
  }

  PipelineUnderTest pipeline_;
  StreamView stream_;
  std::string slot_;
};

// What the draws of the sample at `position` are.
struct Draws {
  bool mosaic;
  uint64_t positions[kMosaicTiles];
  int y;
  int x;
};
Draws DrawsOf(uint64_t position, double probability = 1, double low = 0.25, double high = 0.75) {
  SampleRandom random(kSeed, kEpoch, position, StableHash(kMosaicKey));
  Draws draws;
  draws.mosaic = random.NextUnit() < probability;
  draws.positions[0] = position;
  for (int i = 1; i < kMosaicTiles; ++i) draws.positions[i] = random.NextBelow(kCount);
  draws.y = static_cast<int>(random.NextUniform(low, high) * kCanvasHeight);
  draws.x = static_cast<int>(random.NextUniform(low, high) * kCanvasWidth);
  return draws;
}

// A sample as it is before its mosaic: flipped by a draw of its own position.
struct Sample {
  Image image;
  bool flipped;
  uint64_t record;
};
Sample Before(uint64_t record, uint64_t position) {
  const ImageSize size = SizeOfRecord(record);
  Sample sample = {MakePicture(size.height, size.width, 1, 50 + record), false, record};
  SampleRandom random(kSeed, kEpoch, position, StableHash("stages/7"));
  sample.flipped = random.NextUnit() < 0.5;
  if (!sample.flipped) return sample;
  const MutableImageView pixels = sample.image.mutable_view();
  for (int y = 0; y < size.height; ++y) std::reverse(pixels.row(y), pixels.row(y) + size.width);
  return sample;
}

// What comes out, made by hand.
struct Expected {
  Image image;
  std::vector<float> boxes;
  std::vector<float> points;
  std::vector<int64_t> labels;

  Expected() { image.Reshape({kCanvasHeight, kCanvasWidth}, 1); }
  std::string Pixels() const {
    return std::string(reinterpret_cast<const char*>(image.view().data),
                       kCanvasHeight * kCanvasWidth);
  }

  void Add(const Sample& sample, const MosaicTile& tile) {
    const ImageView pixels = sample.image.view();
    DrawTile(pixels, tile, {114}, image.mutable_view());
    const FakeRecord record = RecordNumber(sample.record);
    const Rect covered = tile.Covered(pixels.size());
    const auto x_of = [&](float x) {
      return static_cast<float>((sample.flipped ? pixels.width - x : x) + tile.left);
    };
    const auto within = [](float value, int low, int high) {
      return std::min(std::max(value, static_cast<float>(low)), static_cast<float>(high));
    };
    const std::vector<float> own = NumbersOf<float>(record.features.at("boxes").bytes);
    for (size_t i = 0; i < own.size(); i += 4) {
      const float a = x_of(own[i]);
      const float b = x_of(own[i + 2]);
      boxes.push_back(within(std::min(a, b), covered.left, covered.right()));
      boxes.push_back(
          within(own[i + 1] + static_cast<float>(tile.top), covered.top, covered.bottom()));
      boxes.push_back(within(std::max(a, b), covered.left, covered.right()));
      boxes.push_back(
          within(own[i + 3] + static_cast<float>(tile.top), covered.top, covered.bottom()));
    }
    for (const auto& [x, y] : {std::pair(1.0f, 2.0f), std::pair(4.0f, 5.0f)}) {
      points.push_back(x_of(x));
      points.push_back(y + static_cast<float>(tile.top));
    }
    for (const int64_t label : NumbersOf<int64_t>(record.features.at("labels").bytes)) {
      labels.push_back(label);
    }
  }
};

Expected ExpectedOf(const Draws& draws) {
  Expected expected;
  const ThirdRecordOrder order;
  const ImageSize canvas = {kCanvasHeight, kCanvasWidth};
  for (int i = 0; i < (draws.mosaic ? kMosaicTiles : 1); ++i) {
    const uint64_t from = draws.positions[i];
    const uint64_t record = order.RecordAt(kEpoch, from);
    const ImageSize size = SizeOfRecord(record);
    expected.Add(Before(record, from), draws.mosaic ? TileAt(i, draws.y, draws.x, size, canvas)
                                                    : TileAlone(size, canvas));
  }
  return expected;
}

void ExpectSame(const Stream& stream, const Expected& expected) {
  ASSERT_TRUE(stream.Output("image") == expected.Pixels());
  ASSERT_TRUE(stream.Output("mask") == expected.Pixels());
  ASSERT_EQ(stream.Whole("boxes_count"), static_cast<int64_t>(expected.labels.size()));
  ASSERT_EQ(stream.Whole("labels_count"), static_cast<int64_t>(expected.labels.size()));
  std::vector<float> boxes = expected.boxes;
  boxes.resize(12 * 4);
  EXPECT_EQ(NumbersOf<float>(stream.Output("boxes")), boxes);
  std::vector<int64_t> labels = expected.labels;
  labels.resize(12);
  EXPECT_EQ(NumbersOf<int64_t>(stream.Output("labels")), labels);
  std::vector<float> points = expected.points;
  EXPECT_EQ(stream.Whole("points_count"), static_cast<int64_t>(points.size() / 2));
  points.resize(16);
  EXPECT_EQ(NumbersOf<float>(stream.Output("points")), points);
}

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

TEST(MosaicStageTest, FailNamesThePartner) {
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
TEST(MosaicStageTest, SubstituteTakesTheNextGoodPartnerAndReportsIt) {
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
TEST(MosaicStageTest, APartnerThatNoneCanReplaceFailsAtOnce) {
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
TEST(MosaicStageTest, EverySampleNeedsARowForEachBox) {
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

TEST(MosaicStageTest, QuarantinedPartnersAreNotRead) {
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
TEST(MosaicStageTest, OnlyTheAttemptThatCountsReportsItsPartners) {
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
TEST(MosaicStageTest, NamesTheRecordThatIsAtWork) {
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

TEST(MosaicStageTest, PartnersComeFromTheCacheToo) {
  const std::string decode = "stages { decode_image {} } ";
  const std::string flip = "stages { random_horizontal_flip {} } ";
  const std::string mosaic = "stages { mosaic { size: [32, 40] } } outputs: ['image', 'id']";
  Stream plain(decode + flip + mosaic);
  Stream cached(decode + "stages { cache {} } " + flip + mosaic);
  ValueMap kept;
  cached.context().cache_store = &kept;
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

TEST(MosaicStageTest, SampleAloneIsTheSameAsInALease) {
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

TEST(MosaicStageTest, AnnouncesPartnersWithTheirSample) {
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
TEST(MosaicStageTest, MixesSources) {
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
}  // namespace bulkhead
