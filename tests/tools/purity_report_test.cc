#include "tools/purity/purity_report.h"

#include "gmock/gmock.h"

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

StageTrace Trace(std::vector<std::pair<std::string, std::string>> stages, std::string error = "") {
  return {"file\t@1\n", std::move(stages), std::move(error)};
}

PurityTrace Samples(std::vector<StageTrace> samples) {
  PurityTrace trace;
  for (StageTrace& sample : samples) {
    const uint64_t position = trace.samples.size();
    trace.samples[position] = std::move(sample);
  }
  return trace;
}

TEST(PurityTraceTest, ComesBackFromText) {
  PurityTrace trace = Samples({Trace({{"source", "aa"}, {"stages[0] python", "bb"}}),
                               Trace({{"source", "cc"}}, "a\tb\nc")});
  trace.batches[0] = {"the batch", {{"batch_stages[0] mixup", "dd"}}, ""};
  const auto back = TraceFromText(TraceToText(trace));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(TraceToText(*back), TraceToText(trace));
  EXPECT_EQ(back->samples.at(0).record, "file\t@1\n");
  EXPECT_EQ(back->samples.at(1).error, "a\tb\nc");
  EXPECT_EQ(back->batches.at(0).stages[0].second, "dd");
  EXPECT_FALSE(TraceFromText("sample\tx\ty\tz\n").ok());
  EXPECT_FALSE(TraceFromText("sample\t1\t\n").ok());
}

TEST(ComparePassesTest, TheFirstStageThatDiffersIsToBlame) {
  const PurityTrace one = Samples(
      {Trace({{"a", "1"}, {"b", "2"}, {"c", "3"}}), Trace({{"a", "1"}, {"b", "2"}, {"c", "3"}})});
  const PurityTrace other = Samples(
      {Trace({{"a", "1"}, {"b", "9"}, {"c", "9"}}), Trace({{"a", "1"}, {"b", "2"}, {"c", "3"}})});
  EXPECT_TRUE(ComparePasses(one, one, 2).impure.empty());
  const PurityReport report = ComparePasses(one, other, 2);
  ASSERT_EQ(report.impure.size(), 1u);
  EXPECT_EQ(report.impure[0].stage, "b");
  EXPECT_EQ(report.impure[0].samples, 1u);
  EXPECT_THAT(report.impure[0].examples, ElementsAre("position 0: file\t@1\n"));
}

TEST(ComparePassesTest, AnErrorInOneRunBlamesTheStageThatGaveNothing) {
  const PurityTrace one = Samples({Trace({{"a", "1"}, {"b", "2"}})});
  const PurityTrace other = Samples({Trace({{"a", "1"}}, "no")});
  for (const PurityReport& report : {ComparePasses(one, other, 1), ComparePasses(other, one, 1)}) {
    ASSERT_EQ(report.impure.size(), 1u);
    EXPECT_EQ(report.impure[0].stage, "b");
    EXPECT_THAT(report.impure[0].examples[0], HasSubstr("which failed in one run: no"));
    EXPECT_EQ(report.failed, 0u);
  }
  EXPECT_EQ(ComparePasses(other, other, 1).failed, 1u);
  const PurityTrace third = Samples({Trace({{"a", "1"}}, "another")});
  EXPECT_EQ(ComparePasses(other, third, 1).impure[0].stage, "what failed behind a");
}

TEST(ComparePassesTest, ABatchCountsWhereItsSamplesAgree) {
  PurityTrace one = Samples({Trace({{"a", "1"}}), Trace({{"a", "2"}}), Trace({{"a", "3"}})});
  one.batches[0] = {"first", {{"m", "1"}}, ""};
  one.batches[2] = {"second", {{"m", "2"}}, ""};
  PurityTrace other = one;
  other.batches[2].stages[0].second = "9";
  PurityReport report = ComparePasses(one, other, 2);
  EXPECT_EQ(report.batches, 2u);
  ASSERT_EQ(report.impure.size(), 1u);
  EXPECT_EQ(report.impure[0].stage, "m");
  EXPECT_THAT(report.impure[0].examples, ElementsAre("second"));
  other.samples[2].stages[0].second = "9";
  report = ComparePasses(one, other, 2);
  EXPECT_EQ(report.batches, 1u);
  EXPECT_EQ(report.skipped_batches, 1u);
  ASSERT_EQ(report.impure.size(), 1u);
  EXPECT_EQ(report.impure[0].stage, "a");
}

TEST(PurityTextTest, WhatAlwaysFailsIsNotPure) {
  const PurityTrace failing = Samples({Trace({{"a", "1"}}, "no"), Trace({{"a", "2"}}, "no")});
  PurityReport report = ComparePasses(failing, failing, 2);
  EXPECT_FALSE(report.is_pure());
  EXPECT_THAT(PurityText("s", report),
              HasSubstr("s: not shown to be pure: none of 2 samples could be produced, for the "
                        "same reason both times:\n  position 0: file\t@1\n: no\n"));
  const PurityTrace some = Samples({Trace({{"a", "1"}, {"b", "1"}}), Trace({{"a", "2"}}, "no")});
  report = ComparePasses(some, some, 2);
  EXPECT_TRUE(report.is_pure());
  EXPECT_THAT(PurityText("s", report), HasSubstr("1 of them could not be produced"));
}

TEST(PurityTextTest, BatchesThatAlwaysFailAreNotPure) {
  PurityTrace failing = Samples({Trace({{"a", "1"}}), Trace({{"a", "2"}})});
  failing.batches[0] = {"the batch of positions 0 to 1", {}, "no"};
  const PurityReport report = ComparePasses(failing, failing, 2);
  EXPECT_FALSE(report.is_pure());
  EXPECT_THAT(PurityText("s", report),
              HasSubstr("none of 1 batches could be produced, for the same reason both times:\n"
                        "  the batch of positions 0 to 1: no\n"));
}

TEST(PurityTextTest, SaysPureOrNamesTheStage) {
  PurityReport report;
  report.samples = 20;
  EXPECT_THAT(PurityText("s.yaml", report), HasSubstr("s.yaml: pure: 20 samples, made twice"));
  report.impure.push_back({"stages[1] python", 3, {"position 4: a@5"}});
  const std::string text = PurityText("s.yaml", report);
  EXPECT_THAT(text, HasSubstr("s.yaml: stages[1] python is impure: of 20 samples, 3 came out"));
  EXPECT_THAT(text, HasSubstr("\n  position 4: a@5\n"));
}

}  // namespace
}  // namespace bulkhead::tools
