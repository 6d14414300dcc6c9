// `fault` in a spec: how it is written, what is refused, and that it changes nothing.
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/spec/fingerprint.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "server/spec/source_chain.h"
#include "server/spec/yaml/yaml.h"
#include "server/stages/declaration/stage_kind.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A spec whose only stage, in line 4, is a fault.
absl::StatusOr<v1::PipelineSpec> WithFault(absl::string_view fault) {
  return ParseSpec(absl::StrCat("source: {range: {size: 10}}\nbatch: {size: 2}\nstages:\n- fault: ",
                                fault, "\n"),
                   "f.yaml");
}

std::string MessageOf(absl::string_view fault) {
  return std::string(WithFault(fault).status().message());
}

TEST(FaultSpecTest, IsWrittenLikeAnyStage) {
  const auto spec = WithFault("{leak_mmap: 1MiB, records: [3, 7], every: 20, after_samples: 5}");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const v1::Fault& fault = spec->stages(0).fault();
  EXPECT_EQ(fault.leak_mmap(), "1048576B");
  EXPECT_THAT(fault.records(), testing::ElementsAre(3, 7));
  EXPECT_EQ(fault.every(), 20u);
  EXPECT_EQ(fault.after_samples(), 5u);
  EXPECT_EQ(WithFault("{crash: true}")->stages(0).fault().every(), 1u);
  EXPECT_EQ(WithFault("{slow: 0.25}")->stages(0).fault().slow(), 0.25);
}

TEST(FaultSpecTest, OneSizeHasOneFingerprint) {
  EXPECT_EQ(BytesFingerprint(*WithFault("{burst: 1MiB}")),
            BytesFingerprint(*WithFault("{burst: 1024KiB, every: 1}")));
  EXPECT_NE(BytesFingerprint(*WithFault("{burst: 1MiB}")),
            BytesFingerprint(*WithFault("{burst: 2MiB}")));
}

TEST(FaultSpecTest, WhatMakesNoSenseIsRefusedWhereItStands) {
  EXPECT_THAT(
      MessageOf("{leak: 1048576}"),
      testing::AllOf(StartsWith("f.yaml:4:17: stages[0].fault.leak: '1048576' is not a size"),
                     HasSubstr("512MiB")));
  EXPECT_THAT(MessageOf("{touch: 0B}"),
              StartsWith("f.yaml:4:18: stages[0].fault.touch: must be at least 1B"));
  EXPECT_THAT(MessageOf("{leak_mmap: 99999999999TiB}"), HasSubstr("is too large"));
  EXPECT_THAT(MessageOf("{burst: lots}"), HasSubstr("'lots' is not a size"));
  EXPECT_THAT(MessageOf("{every: 2}"),
              StartsWith("f.yaml:4:3: stages[0].fault: names no fault: write one"));
  EXPECT_THAT(MessageOf("{leak: 1MiB, hang: true}"),
              testing::AllOf(StartsWith("f.yaml:4:"),
                             HasSubstr("one fault only: `leak` stands here already")));
  EXPECT_THAT(MessageOf("{crash: false}"), HasSubstr("fault.crash: can be true only"));
  EXPECT_THAT(MessageOf("{hang: false}"), HasSubstr("fault.hang: can be true only"));
  for (const char* seconds : {"0", "-1", "86401", ".nan"}) {
    EXPECT_THAT(MessageOf(absl::StrCat("{slow: ", seconds, "}")),
                HasSubstr("fault.slow: must be a number of seconds"));
  }
}

TEST(FaultSpecTest, ChangesNoSignature) {
  const std::string stages[] = {"stages { decode_image {} }", "stages { fault { leak: '1MiB' } }",
                                "stages { resize { size: 8 } }"};
  const auto plain = InferSignature(FolderSpec(stages[0] + stages[2]));
  const auto faulty =
      InferSignature(FolderSpec(stages[1] + stages[0] + stages[1] + stages[2] + stages[1]));
  ASSERT_TRUE(plain.ok() && faulty.ok()) << faulty.status();
  EXPECT_EQ(faulty->schema.SerializeAsString(), plain->schema.SerializeAsString());
  EXPECT_EQ(faulty->sample_bytes, plain->sample_bytes);
  EXPECT_EQ(faulty->sources[0].features_after.size(), 5u);
}

std::string FirstFault(const v1::PipelineSpec& spec) {
  return FirstStageThat(spec,
                        [](const v1::Stage& stage) { return TraitsOf(stage).fails_on_purpose; });
}

TEST(FaultSpecTest, ItsPlaceIsFoundInAMixtureToo) {
  EXPECT_EQ(FirstFault(FolderSpec("stages { decode_image {} }")), "");
  EXPECT_EQ(FirstFault(FolderSpec("stages { decode_image {} } stages { fault {} }")),
            "stages[1].fault");
  const auto mixture = FromText<v1::PipelineSpec>(R"(
    source { mixture {
      sources { source { range { size: 4 } } weight: 1 }
      sources { source { range { size: 4 } } weight: 1 stages { fault { crash: true } } }
    } }
    batch { size: 2 })");
  EXPECT_EQ(FirstFault(mixture), "source.mixture.sources[1].stages[0].fault");
  v1::PipelineSpec common = mixture;
  common.mutable_source()->mutable_mixture()->mutable_sources(1)->clear_stages();
  common.add_stages()->mutable_fault()->set_hang(true);
  ASSERT_TRUE(Normalize(common).ok());
  EXPECT_EQ(FirstFault(common), "stages[0].fault");
  EXPECT_TRUE(InferSignature(common).ok());
}

}  // namespace
}  // namespace bulkhead
