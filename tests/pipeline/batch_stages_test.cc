// Batch stages through a whole pipeline: what becomes of a batch whose samples are written.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "gmock/gmock.h"
#include "server/image/color/mix.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kRows = 5;

// Images of 6 x 8 whose pixels tell the rows apart, and one_hot labels.
std::string Stages(const std::string& more, const std::string& batch_stages) {
  return "stages { decode_image {} } stages { resize { size: [6, 8] } } " + more +
         " stages { one_hot { classes: 4 } } outputs: ['image', 'label'] " + batch_stages;
}

// A batch in memory, tensor by tensor.
class BatchUnderTest {
 public:
  explicit BatchUnderTest(const std::string& stages, const UserCode& user_code = {})
      : pipeline_(MakeSpec(stages), Records(), true, user_code) {
    for (const v1::TensorSchema& tensor : pipeline_.schema().tensors()) {
      memory_.emplace_back(tensor.sample_bytes() * kRows, '\xA5');
    }
  }

  absl::Status Make(uint64_t rows, const SampleKey& first) {
    for (uint64_t i = 0; i < rows; ++i) {
      std::vector<std::byte*> destinations = Bases();
      for (size_t t = 0; t < destinations.size(); ++t) {
        destinations[t] += i * pipeline_.schema().tensors(static_cast<int>(t)).sample_bytes();
      }
      EXPECT_TRUE(pipeline_.pipeline()
                      .Produce(i, {first.seed, first.epoch, first.position + i},
                               pipeline_.context(), destinations)
                      .ok());
    }
    before_ = memory_;
    const std::vector<std::byte*> tensors = Bases();
    return pipeline_.pipeline().FinishBatch(rows, first, pipeline_.context(), tensors);
  }

  template <typename T>
  std::vector<T> Row(size_t tensor, uint64_t row, bool before = false) const {
    const size_t bytes = pipeline_.schema().tensors(static_cast<int>(tensor)).sample_bytes();
    std::vector<T> values(bytes / sizeof(T));
    const std::string& from = before ? before_[tensor] : memory_[tensor];
    std::memcpy(values.data(), from.data() + row * bytes, bytes);
    return values;
  }
  const std::string& Memory(size_t tensor) const { return memory_[tensor]; }
  bool IsUntouched() const { return memory_ == before_; }
  const Pipeline& pipeline() const { return pipeline_.pipeline(); }
  int tensor_count() const { return pipeline_.schema().tensors_size(); }

 private:
  static std::vector<FakeRecord> Records() {
    std::vector<FakeRecord> records;
    for (uint64_t i = 0; i < kRows; ++i) {
      records.push_back(
          MakeRecord(MakeJpeg(12 + static_cast<int>(i), 20), static_cast<int64_t>(i % 4)));
    }
    return records;
  }
  std::vector<std::byte*> Bases() {
    std::vector<std::byte*> bases;
    for (std::string& bytes : memory_) bases.push_back(reinterpret_cast<std::byte*>(bytes.data()));
    return bases;
  }

  PipelineUnderTest pipeline_;
  std::vector<std::string> memory_;
  std::vector<std::string> before_;
};

SampleRandom RandomOf(const SampleKey& key, int stage = 0) {
  return SampleRandom(key.seed, key.epoch, key.position,
                      StableHash(absl::StrCat("batch_stages/", stage)));
}

constexpr SampleKey kKey{3, 1, 40};

TEST(MixupTest, MixesEveryRowWithTheOneBefore) {
  BatchUnderTest batch(Stages("", "batch_stages { mixup { alpha: 0.7 } }"));
  ASSERT_TRUE(batch.Make(kRows, kKey).ok());
  SampleRandom random = RandomOf(kKey);
  (void)random.NextUnit();
  const MixShare share(DrawBeta(random, 0.7));
  ASSERT_GT(share.steps(), 0u);
  ASSERT_LT(share.steps(), MixShare::kSteps);
  for (uint64_t i = 0; i < kRows; ++i) {
    const uint64_t other = (i + kRows - 1) % kRows;
    auto image = batch.Row<uint8_t>(0, i, true);
    MixBytes(image.data(), batch.Row<uint8_t>(0, other, true).data(), image.size(), share);
    EXPECT_EQ(batch.Row<uint8_t>(0, i), image) << i;
    auto label = batch.Row<float>(1, i, true);
    MixFloats(label.data(), batch.Row<float>(1, other, true).data(), label.size(), share.share());
    EXPECT_EQ(batch.Row<float>(1, i), label) << i;
    EXPECT_EQ(std::accumulate(label.begin(), label.end(), 0.0f), 1.0f);
  }
}

TEST(MixupTest, MixesFloats) {
  BatchUnderTest batch(Stages("stages { normalize { divide: 255 } }", "batch_stages { mixup {} }"));
  ASSERT_TRUE(batch.Make(kRows, kKey).ok());
  SampleRandom random = RandomOf(kKey);
  (void)random.NextUnit();
  const MixShare share(DrawBeta(random, 1));
  auto image = batch.Row<float>(0, 0, true);
  MixFloats(image.data(), batch.Row<float>(0, kRows - 1, true).data(), image.size(), share.share());
  EXPECT_EQ(batch.Row<float>(0, 0), image);
}

TEST(MixupTest, AShorterBatchWrapsAroundAtItsOwnEnd) {
  BatchUnderTest batch(Stages("", "batch_stages { mixup {} }"));
  ASSERT_TRUE(batch.Make(3, kKey).ok());
  SampleRandom random = RandomOf(kKey);
  (void)random.NextUnit();
  const MixShare share(DrawBeta(random, 1));
  auto label = batch.Row<float>(1, 0, true);
  MixFloats(label.data(), batch.Row<float>(1, 2, true).data(), label.size(), share.share());
  EXPECT_EQ(batch.Row<float>(1, 0), label);
  EXPECT_EQ(batch.Row<uint8_t>(0, 3), batch.Row<uint8_t>(0, 3, true)) << "no row of the batch";
}

TEST(MixupTest, ABatchOfOneStaysAsItIs) {
  BatchUnderTest batch(Stages("", "batch_stages { mixup {} } batch_stages { cutmix {} }"));
  ASSERT_TRUE(batch.Make(1, kKey).ok());
  EXPECT_TRUE(batch.IsUntouched());
}

TEST(MixupTest, ProbabilityDecidesForTheWholeBatch) {
  BatchUnderTest never(Stages("", "batch_stages { mixup { probability: 0 } }"));
  ASSERT_TRUE(never.Make(kRows, kKey).ok());
  EXPECT_TRUE(never.IsUntouched());
  int mixed = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    BatchUnderTest half(Stages("", "batch_stages { mixup { probability: 0.5 } }"));
    ASSERT_TRUE(half.Make(kRows, {3, 1, i}).ok());
    mixed += half.IsUntouched() ? 0 : 1;
  }
  EXPECT_GT(mixed, 8);
  EXPECT_LT(mixed, 32);
}

TEST(MixupTest, EveryStageDrawsForItself) {
  BatchUnderTest one(Stages("", "batch_stages { mixup {} }"));
  BatchUnderTest two(
      Stages("", "batch_stages { mixup { probability: 0 } } batch_stages { mixup {} }"));
  ASSERT_TRUE(one.Make(kRows, kKey).ok());
  ASSERT_TRUE(two.Make(kRows, kKey).ok());
  EXPECT_NE(one.Memory(1), two.Memory(1));
  EXPECT_FALSE(two.IsUntouched());
}

// Whether the pixels of `image` are those of `other` inside the rectangle and those of `own`
// outside it.
void ExpectCut(const std::vector<uint8_t>& image, const std::vector<uint8_t>& own,
               const std::vector<uint8_t>& other, const Rect& rect, bool channels_first) {
  for (int y = 0; y < 6; ++y) {
    for (int x = 0; x < 8; ++x) {
      for (int c = 0; c < 3; ++c) {
        const size_t at = channels_first ? (c * 6 + y) * 8 + x : (y * 8 + x) * 3 + c;
        const bool inside =
            x >= rect.left && x < rect.right() && y >= rect.top && y < rect.bottom();
        ASSERT_EQ(image[at], inside ? other[at] : own[at]) << y << " " << x << " " << c;
      }
    }
  }
}

TEST(CutmixTest, TakesARectangleOfTheRowBeforeInBothLayouts) {
  for (const bool channels_first : {false, true}) {
    BatchUnderTest batch(Stages(channels_first ? "stages { layout { to: IMAGE_LAYOUT_NCHW } }" : "",
                                "batch_stages { cutmix {} }"));
    ASSERT_TRUE(batch.Make(kRows, kKey).ok());
    SampleRandom random = RandomOf(kKey);
    (void)random.NextUnit();
    const double lambda = DrawBeta(random, 1);
    const Rect rect = DrawCut(random, {6, 8}, lambda);
    ASSERT_GT(rect.width * rect.height, 0) << "choose another key";
    ASSERT_LT(rect.width * rect.height, 48) << "choose another key";
    for (uint64_t i = 0; i < kRows; ++i) {
      const uint64_t other = (i + kRows - 1) % kRows;
      ExpectCut(batch.Row<uint8_t>(0, i), batch.Row<uint8_t>(0, i, true),
                batch.Row<uint8_t>(0, other, true), rect, channels_first);
      const auto share = static_cast<float>(1.0 - rect.width * rect.height / 48.0);
      auto label = batch.Row<float>(1, i, true);
      MixFloats(label.data(), batch.Row<float>(1, other, true).data(), label.size(), share);
      EXPECT_EQ(batch.Row<float>(1, i), label);
    }
  }
}

TEST(MixupOrCutmixTest, EndsOfTheSwitchAreTheOneAndTheOther) {
  BatchUnderTest mixup(Stages("", "batch_stages { mixup { alpha: 0.4 } }"));
  BatchUnderTest cutmix(Stages("", "batch_stages { cutmix { alpha: 2 } }"));
  const std::string either =
      "batch_stages { mixup_or_cutmix { mixup_alpha: 0.4 cutmix_alpha: 2 switch_probability: ";
  BatchUnderTest as_mixup(Stages("", either + "0 } }"));
  BatchUnderTest as_cutmix(Stages("", either + "1 } }"));
  for (BatchUnderTest* batch : {&mixup, &cutmix, &as_mixup, &as_cutmix}) {
    ASSERT_TRUE(batch->Make(kRows, kKey).ok());
  }
  EXPECT_EQ(as_mixup.Memory(0), mixup.Memory(0));
  EXPECT_EQ(as_cutmix.Memory(0), cutmix.Memory(0));
  EXPECT_NE(mixup.Memory(0), cutmix.Memory(0));
}

TEST(MixupOrCutmixTest, ChoosesBoth) {
  int cut = 0;
  for (uint64_t i = 0; i < 60; ++i) {
    BatchUnderTest batch(Stages("", "batch_stages { mixup_or_cutmix { cutmix_alpha: 2 } }"));
    ASSERT_TRUE(batch.Make(kRows, {3, 1, i}).ok());
    // A cut image has pixels of two images only.
    const auto image = batch.Row<uint8_t>(0, 1);
    const auto own = batch.Row<uint8_t>(0, 1, true);
    const auto other = batch.Row<uint8_t>(0, 0, true);
    bool only = true;
    for (size_t p = 0; p < image.size(); ++p) only &= image[p] == own[p] || image[p] == other[p];
    cut += only ? 1 : 0;
  }
  EXPECT_GT(cut, 15);
  EXPECT_LT(cut, 45);
}

// Doubles what it gets, or fails.
class FakeHost : public PythonHost {
 public:
  absl::StatusOr<int> Load(const std::string& stage,
                           const std::vector<std::string>& inputs) override {
    loaded = stage;
    loaded_inputs = inputs;
    return 3;
  }
  Verdict Call(int, std::vector<int64_t>& words, std::string& error) override {
    given = words;
    error = "the reason";
    if (verdict != Verdict::kOk) return verdict;
    std::memset(reinterpret_cast<void*>(words[words.size() - 2]), 7, 2 * words.back());
    return verdict;
  }

  Verdict verdict = Verdict::kOk;
  std::string loaded;
  std::vector<std::string> loaded_inputs;
  std::vector<int64_t> given;
};

constexpr char kFunction[] = R"(
  outputs: ['text', 'label', 'made']
  batch_stages { python {
    function: "a:f" inputs: ["label", "text"]
    outputs: [{ name: "made" dtype: DTYPE_UINT8 shape: [2] }]
  } })";

TEST(PythonBatchStageTest, SeesTheBatchAndGivesAnOutputOfItsOwn) {
  FakeHost host;
  UserCode user_code;
  user_code.python = &host;
  BatchUnderTest batch(kFunction, user_code);
  EXPECT_THAT(host.loaded_inputs, ElementsAre("int64/1", "S8/1"));
  EXPECT_THAT(host.loaded, HasSubstr("\"shape\":[\"-1\",\"2\"]"));
  ASSERT_EQ(batch.tensor_count(), 3);
  ASSERT_TRUE(batch.Make(4, kKey).ok());
  EXPECT_EQ(batch.Memory(2), std::string(8, 7) + std::string(2, '\xA5'));
  // Random bits, the epoch; label: address, bytes, stride, rows; text the same; made: address,
  // rows.
  ASSERT_EQ(host.given.size(), 4u + 4 + 4 + 2);
  EXPECT_THAT(std::vector<int64_t>(host.given.begin() + 5, host.given.begin() + 8),
              ElementsAre(32, 0, 4));
  EXPECT_THAT(std::vector<int64_t>(host.given.begin() + 9, host.given.begin() + 12),
              ElementsAre(32, 0, 4));
  EXPECT_EQ(host.given[3], static_cast<int64_t>(kKey.epoch));
  SampleRandom random = RandomOf(kKey);
  EXPECT_EQ(host.given[0], static_cast<int64_t>(random.Next64()));
}

TEST(PythonBatchStageTest, MayCallAnOutputTheCountOfAFeatureThatHasNone) {
  FakeHost host;
  UserCode user_code;
  user_code.python = &host;
  std::string function = kFunction;
  for (size_t at; (at = function.find("made")) != std::string::npos;) {
    function.replace(at, 4, "label_count");
  }
  BatchUnderTest batch(function, user_code);
  ASSERT_TRUE(batch.Make(4, kKey).ok());
  EXPECT_EQ(batch.Memory(2), std::string(8, 7) + std::string(2, '\xA5'));
}

TEST(PythonBatchStageTest, NamesTheStageThatFailed) {
  FakeHost host;
  UserCode user_code;
  user_code.python = &host;
  BatchUnderTest batch(kFunction, user_code);
  host.verdict = PythonHost::Verdict::kFailed;
  const absl::Status status = batch.Make(4, kKey);
  EXPECT_EQ(GetErrorInfo(status)->reason, reason::kStageFailed);
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("stage"), "batch_stages[0] python");
}

TEST(BatchStagesTest, HaveNamesBehindThoseOfTheStages) {
  BatchUnderTest batch(Stages("", "batch_stages { mixup {} } batch_stages { cutmix {} }"));
  EXPECT_TRUE(batch.pipeline().has_batch_stages());
  EXPECT_THAT(batch.pipeline().StageNames(),
              ElementsAre("stages[0] decode_image", "stages[1] resize", "stages[2] one_hot",
                          "batch_stages[0] mixup", "batch_stages[1] cutmix"));
  EXPECT_FALSE(BatchUnderTest(Stages("", "")).pipeline().has_batch_stages());
}

TEST(FinishBatchTest, AnErrorNamesTheBatch) {
  FakeHost host;
  UserCode user_code;
  user_code.python = &host;
  PipelineUnderTest pipeline(MakeSpec(kFunction), {MakeRecord("", 1)}, true, user_code);
  host.verdict = PythonHost::Verdict::kFailed;
  StreamView stream;
  *stream.binding.mutable_schema() = pipeline.schema();
  internal::v1::Lease lease;
  lease.set_epoch(2);
  lease.set_first_position(12);
  lease.set_count(4);
  std::string slot(pipeline.schema().batch_bytes(), '\0');
  const absl::Status status = FinishBatch(pipeline.pipeline(), stream, lease, pipeline.context(),
                                          reinterpret_cast<std::byte*>(slot.data()));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the batch of positions 12 to 15 of epoch 2: batch_stages[0] python: a:f"));
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("position"), "12");
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("last_position"), "15");
}

}  // namespace
}  // namespace bulkhead
