#include "tools/explain/explain_report.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ExplainedStage Stage(const std::string& name, ExplainedFeature feature) {
  ExplainedStage stage;
  stage.name = name;
  stage.gives = {std::move(feature)};
  stage.seconds = 0.001;
  return stage;
}

ExplainedFeature Seen(uint64_t first, uint64_t second) {
  ExplainedFeature feature;
  feature.name = "image";
  feature.what = "uint8 [any,any,3]";
  feature.seen.Add(first);
  feature.seen.Add(second);
  return feature;
}

Explanation Example() {
  Explanation explanation;
  explanation.batch_size = 2;
  explanation.batch_bytes = 2000;
  explanation.unfused_seconds = 0.002;
  ExplainedFeature fixed;
  fixed.name = "image";
  fixed.what = "uint8 [10,10,3]";
  fixed.sample_bytes = 1024;
  explanation.stages = {Stage("stages[0] decode_image", Seen(1024, 3072)),
                        Stage("stages[1] resize", fixed)};
  explanation.memory = {{"arena: label", "", 2048, 2048, false},
                        {"arena: image", "", 1 << 20, 1 << 20, false},
                        {"client", "views", 0, 4 << 20, true},
                        {"arena: path", "", 1024, 1024, false},
                        {"workers", "two", 8 << 20, 8 << 20, false}};
  explanation.worker_peak_bytes = 3 << 20;
  explanation.expected_bytes = 7 << 20;
  explanation.budget_bytes = 16 << 20;
  explanation.batches = {{1, 1000, 5000, 5000}, {4, 4000, 20000, 20000}};
  return explanation;
}

// The lines between the one that begins with `from` and the next empty one, without spaces at
// their ends.
std::vector<std::string> LinesBehind(const std::string& text, const std::string& from) {
  std::vector<std::string> lines;
  bool within = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (within && line.empty()) break;
    if (within) lines.emplace_back(absl::StripAsciiWhitespace(line));
    within = within || absl::StartsWith(line, from);
  }
  return lines;
}

google::protobuf::Struct Json(const Explanation& explanation) {
  google::protobuf::Struct value;
  const std::string text = ExplanationJson(explanation).Text();
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text, &value).ok()) << text;
  return value;
}

TEST(ExplainReportTest, MemoryIsToldLargestFirstWithTheSmallestTogether) {
  const auto lines = LinesBehind(ExplanationText(Example()), "memory of the loader");
  ASSERT_EQ(lines.size(), 8);
  EXPECT_THAT(lines[0], StartsWith("what"));
  EXPECT_THAT(lines[1], StartsWith("workers "));
  EXPECT_THAT(lines[2], StartsWith("client "));
  EXPECT_THAT(lines[3], StartsWith("arena: image "));
  EXPECT_THAT(lines[4], StartsWith("remaining 2 with 3KiB"));
  EXPECT_THAT(lines[4], HasSubstr("arena: label, arena: path"));
  EXPECT_THAT(lines[5], StartsWith("together"));
}

TEST(ExplainReportTest, MemoryIsToldForBothTransports) {
  const auto lines = LinesBehind(ExplanationText(Example()), "memory of the loader");
  ASSERT_EQ(lines.size(), 8);
  EXPECT_THAT(lines[0], testing::ContainsRegex("over shared memory +over gRPC"));
  EXPECT_THAT(lines[2], testing::ContainsRegex("client +0B +4MiB +views"));
  EXPECT_THAT(lines[5], testing::ContainsRegex("together +9.0MiB +13.0MiB"));
  // The client's part is the trainer's, and in nobody's budget.
  EXPECT_THAT(lines[6], testing::ContainsRegex("left of the budget +7.0MiB +7.0MiB"));
}

TEST(ExplainReportTest, WhatWasMeasuredStandsBesideWhatIsPromised) {
  const auto lines = LinesBehind(ExplanationText(Example()), "memory of the loader");
  ASSERT_EQ(lines.size(), 8);
  EXPECT_THAT(lines[7],
              testing::ContainsRegex("expected of the service: 7.*MiB, with 3.*MiB a worker"));
  const auto fields = Json(Example()).fields();
  EXPECT_EQ(fields.at("worker_peak_bytes").number_value(), 3 << 20);
  EXPECT_EQ(fields.at("expected_bytes").number_value(), 7 << 20);
}

TEST(ExplainReportTest, AStreamThatEndedLeavesTheTableAndSaysWhy) {
  Explanation explanation = Example();
  explanation.not_expected = "too little memory";
  const auto lines = LinesBehind(ExplanationText(explanation), "memory of the loader");
  ASSERT_EQ(lines.size(), 8);
  EXPECT_THAT(lines[7], HasSubstr("not measured, because its stream ended: too little memory"));
  EXPECT_EQ(Json(explanation).fields().at("not_expected").string_value(), "too little memory");
}

TEST(ExplainReportTest, JsonRanksMemoryAlike) {
  const auto fields = Json(Example()).fields();
  std::vector<std::string> shown;
  for (const auto& part : fields.at("memory").list_value().values()) {
    shown.push_back(part.struct_value().fields().at("what").string_value());
  }
  EXPECT_THAT(shown, ElementsAre("workers", "client", "arena: image"));
  const auto& rest = fields.at("memory_remaining").struct_value().fields();
  EXPECT_EQ(rest.at("count").number_value(), 2);
  EXPECT_EQ(rest.at("bytes").number_value(), 3072);
  EXPECT_EQ(rest.at("parts").list_value().values_size(), 2);
}

TEST(ExplainReportTest, EveryStageHasItsBytesAtEveryBatchSize) {
  const std::string text = ExplanationText(Example());
  EXPECT_THAT(text, testing::ContainsRegex("a sample +batch of 2 +batch of 1 +batch of 4"));
  EXPECT_THAT(text, testing::ContainsRegex("resize.* 1KiB +2KiB +1KiB +4KiB"));
  const auto batch = Json(Example()).fields().at("batches").list_value().values(1).struct_value();
  const auto& gives = batch.fields().at("gives").list_value();
  ASSERT_EQ(gives.values_size(), 2);
  EXPECT_EQ(gives.values(1).struct_value().fields().at("bytes").number_value(), 4096);
}

TEST(ExplainReportTest, WhatVariesIsToldAsItWasMeasured) {
  const std::string text = ExplanationText(Example());
  EXPECT_THAT(text, HasSubstr("mean 2KiB, most 3KiB"));
  EXPECT_THAT(text, testing::ContainsRegex("about 4KiB +about 2KiB +about 8KiB"));
  Explanation unknown = Example();
  unknown.stages[0].gives[0].seen = {};
  EXPECT_THAT(ExplanationText(unknown), testing::ContainsRegex("any,any,3. +- +- +- +-\n"));
}

TEST(ExplainReportTest, TellsWhatEachOrderReadsOfObjectStores) {
  Explanation explanation = Example();
  EXPECT_THAT(ExplanationText(explanation), ::testing::Not(HasSubstr("object stores")));
  explanation.readings = {{"global", true, 120 << 10, 100 << 10, 1},
                          {"sequential", false, 100 << 10, 100 << 10, 0.025}};
  const std::string text = ExplanationText(explanation);
  EXPECT_THAT(LinesBehind(text, "16 KiB"),
              ElementsAre("order       a sample  its record  requests a sample",
                          "global        120KiB      100KiB              1.000  the spec's",
                          "sequential    100KiB      100KiB              0.025"));
  explanation.readings.clear();
  explanation.not_read = "no network";
  EXPECT_THAT(ExplanationText(explanation),
              HasSubstr("what is read of the object stores is not known: no network"));
}

}  // namespace
}  // namespace bulkhead::tools
