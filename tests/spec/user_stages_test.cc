// `python` and `native` in a spec: what is refused, and what they make of the features.
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/base/element_type.h"
#include "server/spec/signature.h"
#include "server/spec/source_chain.h"
#include "server/spec/stage_signature.h"
#include "server/spec/yaml/yaml.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Kind = FeatureSignature::Kind;

absl::StatusOr<v1::PipelineSpec> With(absl::string_view stage) {
  return ParseSpec(
      absl::StrCat("source: {range: {size: 10}}\nbatch: {size: 2}\nstages:\n- ", stage, "\n"),
      "u.yaml");
}

std::string Problem(absl::string_view stage) { return std::string(With(stage).status().message()); }

std::string Python(absl::string_view options) {
  return absl::StrCat("python: {function: 'a:f', inputs: [index], ", options, "}");
}

// The feature of that name behind the stage.
FeatureSignature Behind(absl::string_view stage, absl::string_view name) {
  const auto spec = With(stage);
  EXPECT_TRUE(spec.ok()) << spec.status();
  const auto signature = InferSignature(*spec);
  EXPECT_TRUE(signature.ok()) << signature.status();
  for (const FeatureSignature& feature : signature->sources[0].FeaturesBefore(1)) {
    if (feature.name == name) return feature;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

TEST(UserStageSpecTest, AFunctionIsModuleAndName) {
  for (const char* bad : {"f", "a:", ":f", "a.b", "a:f:g", "a b:f", "../a:f", "a:f()", "1a:f"}) {
    EXPECT_THAT(Problem(absl::StrCat("python: {function: '", bad,
                                     "', inputs: [index], outputs: [{name: x, dtype: int64}]}")),
                HasSubstr("is not \"module:name\""))
        << bad;
  }
  EXPECT_TRUE(With("python: {function: 'a.b:C.f', inputs: [index], outputs: [{name: x, dtype: "
                   "int64}]}")
                  .ok());
  EXPECT_THAT(Problem("python: {function: '__main__:f', inputs: [index], outputs: [{name: x, "
                      "dtype: int64}]}"),
              HasSubstr("put the function into a file of its own, such as augment.py, and write "
                        "augment:f"));
}

TEST(UserStageSpecTest, WhatIsLongerThanAnyImageIsATensor) {
  EXPECT_EQ(
      Behind(Python("outputs: [{name: x, dtype: uint8, shape: [2147483647, 1, 1]}]"), "x").kind,
      Kind::kImage);
  for (const char* shape : {"[2147483648, 1, 1]", "[1, 4294967296, 1]"}) {
    EXPECT_EQ(
        Behind(Python(absl::StrCat("outputs: [{name: x, dtype: uint8, shape: ", shape, "}]")), "x")
            .kind,
        Kind::kTensor);
  }
}

TEST(UserStageSpecTest, OutputsAreDeclaredWhole) {
  EXPECT_THAT(Problem("python: {function: 'a:f', inputs: [index]}"),
              HasSubstr("stages[0].python.outputs: is required"));
  EXPECT_THAT(Problem(Python("outputs: [{name: x}]")), HasSubstr("outputs[0].dtype: is required"));
  EXPECT_THAT(Problem(Python("outputs: [{dtype: int64}]")),
              HasSubstr("outputs[0].name: is required"));
  EXPECT_THAT(Problem(Python("outputs: [{name: x, dtype: int64}, {name: x, dtype: uint8}]")),
              HasSubstr("`x` is listed twice"));
  EXPECT_THAT(Problem(Python("outputs: [{name: x, dtype: int64, shape: [-1]}]")),
              HasSubstr("max_count: is required: the most rows"));
  EXPECT_THAT(Problem(Python("outputs: [{name: x, dtype: int64, shape: [2, -1], max_count: 3}]")),
              HasSubstr("only the first dimension may be -1"));
  EXPECT_THAT(Problem(Python("outputs: [{name: x, dtype: int64, shape: [0]}]")),
              HasSubstr("holds 0"));
  EXPECT_THAT(Problem(Python("outputs: [{name: x, dtype: int64, shape: [2], max_count: 3}]")),
              HasSubstr("for a first dimension of -1 only"));
  EXPECT_THAT(Problem(Python("outputs: [{name: x, dtype: bytes}]")),
              HasSubstr("is required for bytes"));
}

TEST(UserStageSpecTest, StagesKnowTheirCode) {
  const auto spec = ParseSpec(R"(source: {range: {size: 10}}
batch: {size: 2}
stages:
- fault: {slow: 0.001}
- python: {function: 'a.b:f', inputs: [index], outputs: [{name: x, dtype: int64}]}
- native: {library: libmeans.so, inputs: [index], outputs: [{name: y, dtype: int64}]}
)",
                              "u.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(CodeOfStages(*spec), ElementsAre(Pair("stages[1] python", "a.b:f"),
                                               Pair("stages[2] native", "libmeans.so")));
}

TEST(UserStageSpecTest, AnInputMustBeThere) {
  EXPECT_THAT(Problem("native: {library: l.so, outputs: [{name: x, dtype: int64}]}"),
              HasSubstr("unknown feature `image`"));
}

TEST(UserStageSpecTest, OutputsJoinTheFeaturesOrReplaceThem) {
  const std::string stage = Python(
      "outputs: [{name: index, dtype: float32, shape: [2]}, {name: a, dtype: int64}, {name: rows, "
      "dtype: uint8, shape: [-1, 4], max_count: 9}, {name: text, dtype: bytes, max_count: 7}]");
  const FeatureSignature index = Behind(stage, "index");
  EXPECT_EQ(index.dtype, v1::DTYPE_FLOAT32);
  EXPECT_THAT(index.shape, ElementsAre(2));
  EXPECT_EQ(index.path, "stages[0].python");
  EXPECT_TRUE(Behind(stage, "a").shape.empty());
  EXPECT_TRUE(Behind(stage, "rows").variable);
  EXPECT_THAT(Behind(stage, "rows").shape, ElementsAre(9, 4));
  EXPECT_EQ(Behind(stage, "text").kind, Kind::kEncoded);
  EXPECT_EQ(Behind(stage, "text").max_bytes, 7u);
  const auto signature = InferSignature(*With(stage));
  std::vector<std::string> names;
  for (const v1::TensorSchema& tensor : signature->schema.tensors()) names.push_back(tensor.name());
  EXPECT_THAT(names, ElementsAre("a", "index", "rows", "rows_count", "text"));
}

TEST(UserStageSpecTest, ThreeDimensionsWithFewChannelsAreAnImage) {
  EXPECT_EQ(Behind(Python("outputs: [{name: x, dtype: float32, shape: [8, 6, 3]}]"), "x").kind,
            Kind::kImage);
  EXPECT_EQ(Behind(Python("outputs: [{name: x, dtype: uint8, shape: [8, 6, 5]}]"), "x").kind,
            Kind::kTensor);
  EXPECT_EQ(
      Behind(Python("outputs: [{name: x, dtype: uint8, shape: [-1, 6, 3], max_count: 8}]"), "x")
          .kind,
      Kind::kTensor);
}

TEST(DeliveredTypesTest, ComeFromUserStagesAndGoToTheBatch) {
  for (const std::string name : {"uint32", "uint64", "complex64", "complex128"}) {
    const std::string given =
        Python(absl::StrCat("outputs: [{name: x, dtype: ", name, ", shape: [4, 4, 3]}]"));
    const FeatureSignature feature = Behind(given, "x");
    EXPECT_EQ(feature.kind, Kind::kTensor) << "no image stage takes it";
    EXPECT_EQ(DTypeName(feature.dtype), name);
    EXPECT_TRUE(IsForDelivery(feature.dtype));
    const auto problem = [&](const std::string& stage) {
      const auto spec = With(absl::StrCat(given, "\n- ", stage));
      return std::string(spec.ok() ? InferSignature(*spec).status().message()
                                   : spec.status().message());
    };
    EXPECT_THAT(problem("normalize: {input: x, divide: 2}"),
                HasSubstr(absl::StrCat("no stage but yours computes with ", name)));
    EXPECT_THAT(problem("cast: {input: x, dtype: float32}"),
                HasSubstr(absl::StrCat("no stage but yours computes with ", name)));
    EXPECT_THAT(problem(absl::StrCat("cast: {input: index, dtype: ", name, "}")),
                HasSubstr("must be a numeric type that stages compute with"));
  }
  EXPECT_EQ(ElementBytes(v1::DTYPE_UINT32), 4u);
  EXPECT_EQ(ElementBytes(v1::DTYPE_UINT64), 8u);
  EXPECT_EQ(ElementBytes(v1::DTYPE_COMPLEX64), 8u);
  EXPECT_EQ(ElementBytes(v1::DTYPE_COMPLEX128), 16u);
  EXPECT_FALSE(IsForDelivery(v1::DTYPE_FLOAT64));
}

TEST(DeliveredTypesTest, AreNotReadFromRecords) {
  const auto spec = ParseSpec(
      "source: {tfrecord: {files: a}}\nbatch: {size: 2}\n"
      "features: {x: {tensor: {dtype: complex64, shape: [2]}}}\n",
      "u.yaml");
  const absl::Status status = spec.ok() ? InferSignature(*spec).status() : spec.status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensors are not read as complex64"));
}

}  // namespace
}  // namespace bulkhead
