// What a `python` stage hands to its interpreter, and what becomes of the interpreter's verdicts.
#include <cstring>
#include <new>

#include "gmock/gmock.h"
#include "server/stages/running/user_code.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kStage[] = R"(
  stages { python {
    function: "a:f" inputs: ["boxes", "label", "text"]
    outputs: [{ name: "label" dtype: DTYPE_INT32 shape: [2] },
              { name: "rows" dtype: DTYPE_FLOAT32 shape: [-1, 2] max_count: 3 }]
  } }
  outputs: ["label", "rows"])";

// An interpreter that writes 7, 8 and two rows of 1.5, and remembers what it was given.
class FakePythonHost : public PythonHost {
 public:
  absl::StatusOr<int> Load(const std::string& stage,
                           const std::vector<std::string>& inputs) override {
    loaded = stage;
    loaded_inputs = inputs;
    if (refusal.ok()) return 5;
    return refusal;
  }
  Verdict Call(int number, std::vector<int64_t>& words, std::string& error) override {
    called = number;
    given = words;
    error = "the reason";
    if (verdict != Verdict::kOk) return verdict;
    const int32_t label[] = {7, 8};
    const float rows[] = {1.5, 1.5, 1.5, 1.5};
    std::memcpy(reinterpret_cast<void*>(words[words.size() - 4]), label, sizeof(label));
    std::memcpy(reinterpret_cast<void*>(words[words.size() - 2]), rows, sizeof(rows));
    words.back() = 2;
    return verdict;
  }

  Verdict verdict = Verdict::kOk;
  absl::Status refusal;
  std::string loaded;
  std::vector<std::string> loaded_inputs;
  int called = -1;
  std::vector<int64_t> given;
};

class PythonStageTest : public testing::Test {
 protected:
  PipelineUnderTest Make() {
    UserCode user_code;
    user_code.python = &host_;
    return PipelineUnderTest(MakeSpec(kStage), {MakeRecord("", 3), MakeRecord("", 4)}, true,
                             user_code);
  }
  absl::Status StatusWith(PythonHost::Verdict verdict) {
    PipelineUnderTest pipeline = Make();
    host_.verdict = verdict;
    return pipeline.Produce(0, {}).status;
  }

  FakePythonHost host_;
};

TEST_F(PythonStageTest, LoadsItsFunctionOnce) {
  Make();
  EXPECT_THAT(host_.loaded, HasSubstr("\"function\":\"a:f\""));
  EXPECT_THAT(host_.loaded, HasSubstr("\"max_count\":\"3\""));
  EXPECT_THAT(host_.loaded_inputs, ElementsAre("float32/2", "int64/0", "bytes"));
}

TEST_F(PythonStageTest, HandsOverInputsAndTakesOutputs) {
  PipelineUnderTest pipeline = Make();
  const Produced produced = pipeline.Produce(1, {1, 2, 3});
  ASSERT_TRUE(produced.status.ok()) << produced.status;
  EXPECT_EQ(host_.called, 5);
  // Random bits, the epoch, boxes [2, 4], label, text, two outputs.
  ASSERT_EQ(host_.given.size(), 4u + 5 + 3 + 3 + 4);
  EXPECT_EQ(host_.given[3], 2);
  EXPECT_THAT(std::vector<int64_t>(host_.given.begin() + 5, host_.given.begin() + 9),
              ElementsAre(32, 0, 2, 4));
  EXPECT_EQ(host_.given[10], 8);
  EXPECT_EQ(host_.given[13], 5);
  EXPECT_EQ(pipeline.Output(produced, "label"), BytesOf<int32_t>({7, 8}));
  EXPECT_EQ(pipeline.Output(produced, "rows"), BytesOf<float>({1.5, 1.5, 1.5, 1.5, 0, 0}));
  EXPECT_EQ(pipeline.Output(produced, "rows_count"), BytesOf<int64_t>({2}));
}

TEST_F(PythonStageTest, RandomBitsAreThoseOfTheSample) {
  PipelineUnderTest pipeline = Make();
  const auto bits = [&](const SampleKey& key) {
    EXPECT_TRUE(pipeline.Produce(0, key).status.ok());
    return std::vector<int64_t>(host_.given.begin(), host_.given.begin() + 3);
  };
  const std::vector<int64_t> first = bits({1, 2, 3});
  EXPECT_EQ(bits({1, 2, 3}), first);
  EXPECT_NE(bits({1, 2, 4}), first);
  EXPECT_NE(bits({1, 3, 3}), first);
  EXPECT_NE(bits({2, 2, 3}), first);
}

TEST_F(PythonStageTest, VerdictsBecomeErrors) {
  using Verdict = PythonHost::Verdict;
  const std::pair<Verdict, absl::string_view> sample_errors[] = {
      {Verdict::kFailed, reason::kStageFailed},
      {Verdict::kWrongShape, reason::kWrongShape},
      {Verdict::kOverBound, reason::kOverBound}};
  for (const auto& [verdict, reason] : sample_errors) {
    const absl::Status status = StatusWith(verdict);
    EXPECT_TRUE(IsSampleError(status)) << status;
    EXPECT_EQ(GetErrorInfo(status)->reason, reason);
    EXPECT_THAT(std::string(status.message()), HasSubstr("stages[0] python: a:f: the reason"));
  }
  const absl::Status unusable = StatusWith(Verdict::kUnusable);
  EXPECT_FALSE(IsSampleError(unusable));
  EXPECT_EQ(GetErrorInfo(unusable)->reason, reason::kStageUnusable);
  EXPECT_THROW(StatusWith(Verdict::kOutOfMemory), std::bad_alloc);
}

absl::Status MakeFails(const UserCode& user_code) {
  const v1::PipelineSpec spec = MakeSpec(kStage);
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<FakeSource>(InferSignature(spec)->sources[0].source_features,
                                                 std::vector<FakeRecord>{MakeRecord("")}));
  PipelineOptions options;
  options.user_code = user_code;
  return MakePipeline(std::move(sources), spec, options).status();
}

TEST_F(PythonStageTest, WhatCannotBeLoadedFailsThePipeline) {
  EXPECT_EQ(GetErrorInfo(MakeFails({}))->reason, reason::kStageUnusable);
  host_.refusal = MakeError(absl::StatusCode::kFailedPrecondition, reason::kStageUnusable, "no f");
  UserCode user_code;
  user_code.python = &host_;
  EXPECT_THAT(std::string(MakeFails(user_code).message()), HasSubstr("stages[0] python: no f"));
}

}  // namespace
}  // namespace bulkhead
