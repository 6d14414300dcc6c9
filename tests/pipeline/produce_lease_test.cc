#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead {
namespace {

using testing::HasSubstr;

constexpr char kIndexed[] = R"(
  source { tfrecord { files: "fake.tfrecord" } }
  features { key: "id" value { int64 {} } }
  features { key: "image" value { bytes {} } }
  batch { size: 6 }
)";
constexpr char kStages[] = R"(
  stages { decode_image {} }
  stages { random_resized_crop { size: 8 } }
)";

// Record (position + 1) mod N: another one than the position's own number.
class NextRecordOrder : public SampleOrder {
 public:
  explicit NextRecordOrder(uint64_t count) : count_(count) {}
  uint64_t RecordAt(uint64_t, uint64_t position) const override { return (position + 1) % count_; }

 private:
  uint64_t count_;
};

class ProduceLeaseTest : public testing::Test {
 protected:
  // `bad`: records that hold no image; `gone`: records whose file went away.
  void Make(uint64_t count, const std::vector<uint64_t>& bad, v1::ErrorAction action,
            const std::vector<uint64_t>& gone = {}) {
    std::vector<FakeRecord> records(count);
    for (uint64_t i = 0; i < count; ++i) {
      records[i].features["id"] = {BytesOf<int64_t>({static_cast<int64_t>(i)})};
      records[i].features["image"] = {MakeJpeg(30 + static_cast<int>(i), 40)};
    }
    for (const uint64_t i : bad) records[i].features["image"].bytes = "bad";
    for (const uint64_t i : gone) {
      records[i].error =
          MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound, "the file is gone");
    }
    pipeline_ = std::make_unique<PipelineUnderTest>(MakeSpec(kStages, kIndexed), records);
    stream_.binding.set_seed(3);
    stream_.binding.set_samples_per_epoch(count);
    stream_.binding.set_error_action(action);
    *stream_.binding.mutable_schema() = pipeline_->schema();
    stream_.order = std::make_unique<NextRecordOrder>(count);
    slot_.assign(pipeline_->schema().batch_bytes(), '\xA5');
  }

  absl::Status Run(uint64_t first_position, uint32_t first_sample, uint32_t count) {
    internal::v1::Lease lease;
    lease.set_epoch(1);
    lease.set_first_position(first_position);
    lease.set_first_sample(first_sample);
    lease.set_count(count);
    return ProduceLease(pipeline_->pipeline(), stream_, lease, pipeline_->context(),
                        reinterpret_cast<std::byte*>(slot_.data()), substituted_, failed_position_);
  }

  // Sample `i` of tensor `t` as it lies in the slot.
  std::string InSlot(int t, uint64_t i) const {
    const v1::TensorSchema& tensor = stream_.binding.schema().tensors(t);
    return slot_.substr(tensor.batch_offset() + i * tensor.sample_bytes(), tensor.sample_bytes());
  }
  int64_t IdInSlot(uint64_t i) const {
    int64_t id;
    std::memcpy(&id, InSlot(0, i).data(), sizeof(id));
    return id;
  }

  std::unique_ptr<PipelineUnderTest> pipeline_;
  StreamView stream_;
  std::string slot_;
  std::vector<SubstitutedSample> substituted_;
  uint64_t failed_position_ = 999;
};

// Notes in which order records are announced and produced: "expect 3", "produce 2".
class NotingPipeline : public Pipeline {
 public:
  uint64_t record_count() const override { return 100; }
  std::unique_ptr<PipelineContext> NewContext() const override {
    return std::make_unique<PipelineContext>();
  }
  std::string Identity(uint64_t) const override { return ""; }
  void Expect(uint64_t record, const SampleKey&, PipelineContext&) const override {
    notes.push_back(absl::StrCat("expect ", record));
  }
  absl::Status Produce(uint64_t record, const SampleKey&, PipelineContext&,
                       absl::Span<std::byte* const>) const override {
    notes.push_back(absl::StrCat("produce ", record));
    return absl::OkStatus();
  }
  mutable std::vector<std::string> notes;
};

TEST_F(ProduceLeaseTest, AnnouncesEveryRecordButTheFirstOnceAndSomeAhead) {
  Make(20, {}, v1::ERROR_ACTION_FAIL);
  const NotingPipeline pipeline;
  const auto context = pipeline.NewContext();
  internal::v1::Lease lease;
  lease.set_count(6);
  ASSERT_TRUE(ProduceLease(pipeline, stream_, lease, *context,
                           reinterpret_cast<std::byte*>(slot_.data()), substituted_,
                           failed_position_)
                  .ok());
  EXPECT_EQ(pipeline.notes,
            (std::vector<std::string>{"expect 2", "expect 3", "expect 4", "expect 5", "produce 1",
                                      "expect 6", "produce 2", "produce 3", "produce 4",
                                      "produce 5", "produce 6"}));
}

TEST_F(ProduceLeaseTest, WritesItsSamplesAndNoOthers) {
  Make(5, {}, v1::ERROR_ACTION_FAIL);
  ASSERT_TRUE(Run(2, 1, 3).ok());
  EXPECT_EQ(InSlot(0, 0), std::string(8, '\xA5'));
  EXPECT_EQ(InSlot(0, 4), std::string(8, '\xA5'));
  EXPECT_EQ(InSlot(1, 4), std::string(192, '\xA5'));
  // Sample i has position 2 + i, wrapped around, and by the order the record behind it.
  for (uint64_t i = 1; i <= 3; ++i) {
    const uint64_t position = (2 + i) % 5;
    EXPECT_EQ(IdInSlot(i), static_cast<int64_t>((position + 1) % 5));
    const Produced alone = pipeline_->Produce((position + 1) % 5, {3, 1, position});
    EXPECT_EQ(InSlot(1, i), alone.outputs[1]);
  }
  EXPECT_TRUE(substituted_.empty());
}

TEST_F(ProduceLeaseTest, WhatCannotBeProducedStaysBlank) {
  // More in a row than another could take the place of.
  std::vector<uint64_t> bad;
  for (uint64_t record = 1; record < 25; ++record) bad.push_back(record);
  Make(30, bad, v1::ERROR_ACTION_BLANK);
  ASSERT_TRUE(Run(0, 0, 4).ok());
  ASSERT_EQ(substituted_.size(), 4);
  EXPECT_EQ(substituted_[2].position, 2);
  EXPECT_EQ(substituted_[2].substitute_position, 2);
  EXPECT_EQ(InSlot(1, 2), std::string(192, '\0'));
  Make(8, {}, v1::ERROR_ACTION_BLANK, {3});
  EXPECT_FALSE(Run(0, 0, 4).ok());  // no verdict on a record
}

TEST_F(ProduceLeaseTest, FailNamesThePosition) {
  Make(5, {3}, v1::ERROR_ACTION_FAIL);
  const absl::Status status = Run(0, 0, 5);
  EXPECT_TRUE(IsSampleError(status));
  EXPECT_EQ(failed_position_, 2u);
  EXPECT_EQ(GetErrorInfo(status)->metadata.at("position"), "2");
  EXPECT_THAT(std::string(status.message()), HasSubstr("fake.tfrecord@300"));
}

TEST_F(ProduceLeaseTest, SubstituteTakesTheNextGoodRecordWithThePositionsOwnRandomness) {
  Make(8, {4, 5}, v1::ERROR_ACTION_SUBSTITUTE);
  ASSERT_TRUE(Run(2, 0, 4).ok());
  ASSERT_EQ(substituted_.size(), 2u);
  EXPECT_EQ(substituted_[0].position, 3u);
  EXPECT_EQ(substituted_[0].substitute_position, 5u);
  EXPECT_EQ(substituted_[1].position, 4u);
  EXPECT_EQ(substituted_[1].substitute_position, 5u);
  EXPECT_THAT(std::string(substituted_[0].error.message()), HasSubstr("fake.tfrecord@400"));
  EXPECT_EQ(IdInSlot(1), 6);
  EXPECT_EQ(InSlot(1, 1), pipeline_->Produce(6, {3, 1, 3}).outputs[1]);
  EXPECT_EQ(InSlot(1, 2), pipeline_->Produce(6, {3, 1, 4}).outputs[1]);
  EXPECT_NE(InSlot(1, 1), InSlot(1, 2));
}

TEST_F(ProduceLeaseTest, SubstituteWrapsAroundTheEndOfTheEpoch) {
  Make(4, {0}, v1::ERROR_ACTION_SUBSTITUTE);
  ASSERT_TRUE(Run(3, 0, 1).ok());
  ASSERT_EQ(substituted_.size(), 1u);
  EXPECT_EQ(substituted_[0].substitute_position, 0u);
  EXPECT_EQ(IdInSlot(0), 1);
}

TEST_F(ProduceLeaseTest, SixteenBadOnesBehindABadOneFail) {
  std::vector<uint64_t> bad;
  for (uint64_t i = 1; i <= 16; ++i) bad.push_back(i);
  Make(30, bad, v1::ERROR_ACTION_SUBSTITUTE);
  ASSERT_TRUE(Run(0, 0, 1).ok());  // record 1 is bad, record 17 good: the sixteenth behind it
  EXPECT_EQ(substituted_.at(0).substitute_position, 16u);
  bad.push_back(17);
  substituted_.clear();
  Make(30, bad, v1::ERROR_ACTION_SUBSTITUTE);
  const absl::Status status = Run(0, 0, 1);
  EXPECT_TRUE(IsSampleError(status));
  EXPECT_EQ(failed_position_, 0u);
  EXPECT_TRUE(substituted_.empty());
}

TEST_F(ProduceLeaseTest, NothingTakesThePlaceOfAFileThatWentAway) {
  Make(8, {2}, v1::ERROR_ACTION_SUBSTITUTE, {3});
  const absl::Status status = Run(1, 0, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(IsSampleError(status));
  EXPECT_TRUE(substituted_.empty());
}

TEST_F(ProduceLeaseTest, AQuarantinedRecordIsASampleErrorThatIsNotRead) {
  // Reading record 3 would end in another error.
  Make(8, {}, v1::ERROR_ACTION_FAIL, {3});
  ASSERT_TRUE(stream_.quarantined.Add("fake.tfrecord@300").ok());
  const absl::Status status = Run(0, 0, 5);
  EXPECT_TRUE(IsSampleError(status));
  EXPECT_EQ(failed_position_, 2u);
  const auto info = GetErrorInfo(status);
  EXPECT_EQ(info->reason, "QUARANTINED");
  EXPECT_EQ(info->metadata.at("record"), "fake.tfrecord@300");
  EXPECT_EQ(info->metadata.at("file"), "fake.tfrecord");
  EXPECT_EQ(info->metadata.at("offset"), "300");
  EXPECT_EQ(info->metadata.at("position"), "2");
  EXPECT_THAT(std::string(status.message()), HasSubstr("fake.tfrecord@300"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("`errors: {policy: substitute}` lets another take its place, `exclude` "
                        "leaves it out; or take it out of quarantine with `bulkhead quarantine "
                        "clear 'fake.tfrecord@300'`"));
}

TEST_F(ProduceLeaseTest, AQuarantinedRecordIsSubstitutedAndIsNoSubstitute) {
  Make(8, {4}, v1::ERROR_ACTION_SUBSTITUTE);
  // Position 3 holds the bad record 4, and 5, which would take its place, is in quarantine.
  ASSERT_TRUE(stream_.quarantined.Add("fake.tfrecord@500").ok());
  ASSERT_TRUE(stream_.quarantined.Add("of other data@500").ok());
  ASSERT_TRUE(Run(2, 0, 4).ok());
  ASSERT_EQ(substituted_.size(), 2u);
  EXPECT_EQ(substituted_[0].position, 3u);
  EXPECT_EQ(substituted_[0].substitute_position, 5u);
  EXPECT_EQ(substituted_[1].position, 4u);
  EXPECT_EQ(substituted_[1].substitute_position, 5u);
  EXPECT_EQ(GetErrorInfo(substituted_[1].error)->reason, "QUARANTINED");
  EXPECT_EQ(IdInSlot(2), 6);
  EXPECT_EQ(InSlot(1, 2), pipeline_->Produce(6, {3, 1, 4}).outputs[1]);
}

}  // namespace
}  // namespace bulkhead
