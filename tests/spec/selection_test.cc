#include "server/spec/selection.h"

#include <functional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/spec/fingerprint.h"
#include "server/spec/normalize/normalize.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Files of so many records; of the second kind, so many are kept.
internal::v1::ResolvedSource Files(const std::vector<uint64_t>& records,
                                   const std::vector<uint64_t>& kept = {}) {
  internal::v1::ResolvedSource resolved;
  for (size_t i = 0; i < records.size(); ++i) {
    internal::v1::ResolvedFile& file = *resolved.add_files();
    file.set_record_count(records[i]);
    if (kept.empty()) continue;
    file.set_selection_path("s");
    file.set_part_count(records[i]);
    file.set_kept_count(kept[i]);
  }
  return resolved;
}

v1::Source Records() { return FromText<v1::Source>("tfrecord { files: 'a' }"); }

// What SelectedFileRecords says, found record by record.
std::vector<uint64_t> CutOneByOne(const std::vector<uint64_t>& kept, uint64_t skip, uint64_t take) {
  std::vector<uint64_t> left(kept.size());
  uint64_t number = 0;
  for (size_t f = 0; f < kept.size(); ++f) {
    for (uint64_t i = 0; i < kept[f]; ++i, ++number) {
      left[f] += number >= skip && number - skip < take;
    }
  }
  return left;
}

TEST(SelectedFileRecordsTest, SkipAndTakeCutTheFirstAndTheLastFiles) {
  for (const std::vector<uint64_t>& counts : std::vector<std::vector<uint64_t>>{
           {1}, {7}, {2, 3}, {1, 1, 1, 1}, {3, 0, 4}, {0, 5, 0}, {5, 1, 2, 4}}) {
    for (uint64_t skip = 0; skip <= 14; ++skip) {
      for (uint64_t take = 0; take <= 14; ++take) {
        auto resolved = Files(counts);
        auto selected = Files(std::vector<uint64_t>(counts.size(), 100), counts);
        for (auto* source : {&resolved, &selected}) {
          source->set_skip(skip);
          if (take > 0) source->set_take(take);
          const auto expected = CutOneByOne(counts, skip, take > 0 ? take : UINT64_MAX);
          EXPECT_EQ(SelectedFileRecords(Records(), *source), expected) << skip << " " << take;
          uint64_t samples = 0;
          for (const uint64_t count : expected) samples += count;
          EXPECT_EQ(CountSelected(Records(), *source).samples(), samples);
        }
      }
    }
  }
}

TEST(SelectedFileRecordsTest, ARangeIsOneFile) {
  const auto source = FromText<v1::Source>("range { size: 10 }");
  internal::v1::ResolvedSource resolved;
  EXPECT_THAT(SelectedFileRecords(source, resolved), ElementsAre(10));
  resolved.set_skip(3);
  resolved.set_take(20);
  EXPECT_THAT(SelectedFileRecords(source, resolved), ElementsAre(7));
  resolved.set_skip(30);
  EXPECT_THAT(SelectedFileRecords(source, resolved), ElementsAre(0));
}

TEST(CountSelectedTest, CountsEveryStep) {
  auto resolved = Files({10, 20}, {4, 5});
  resolved.mutable_files(0)->set_part_count(6);
  resolved.mutable_files(1)->set_part_count(7);
  resolved.set_skip(2);
  const v1::SelectionCounts counts = CountSelected(Records(), resolved);
  EXPECT_EQ(counts.records(), 30);
  EXPECT_EQ(counts.in_part(), 13);
  EXPECT_EQ(counts.kept(), 9);
  EXPECT_EQ(counts.samples(), 7);
}

v1::PipelineSpec Labelled(absl::string_view text) {
  auto spec = RecordSpec(absl::StrCat(
      "features { key: 'label' value { int64 {} } } features { key: 'other' value { int64 {} } } ",
      text));
  EXPECT_TRUE(Normalize(spec).ok()) << text;
  return spec;
}

std::string OrderOf(const v1::PipelineSpec& spec) { return OrderFingerprint(spec, Files({3})); }

constexpr absl::string_view kFilter = "filter { feature: 'label' in: [1, 2] } ";
constexpr absl::string_view kSplit =
    "split { parts { key: 'a' value: 0.25 } parts { key: 'b' value: 0.75 } use: 'a' } ";

TEST(SelectionFingerprintTest, EverythingThatSelectsIsInTheOrderAlone) {
  std::set<std::string> orders = {OrderOf(Labelled(""))};
  std::set<std::string> bytes = {BytesFingerprint(Labelled(""))};
  size_t count = 1;
  for (const std::string& text : std::vector<std::string>{
           std::string(kFilter), "filter { feature: 'label' in: [1, 3] }",
           "filter { feature: 'label' not_in: [1, 2] }", "filter { feature: 'other' in: [1, 2] }",
           "filter { feature: 'label' min: 1 }", "filter { feature: 'label' max: 1 }",
           std::string(kSplit),
           "split { parts { key: 'a' value: 0.25 } parts { key: 'b' value: 0.75 } use: 'b' }",
           "split { parts { key: 'a' value: 0.5 } parts { key: 'b' value: 0.5 } use: 'a' }",
           absl::StrCat(kSplit, "split { salt: 1 }"), "exclude: ['a@0']", "exclude: ['a@1']",
           "skip: 1", "skip: 2", "take: 1", "take: 2",
           absl::StrCat(kFilter, kSplit, "skip: 1 take: 1")}) {
    ++count;
    orders.insert(OrderOf(Labelled(text)));
    bytes.insert(BytesFingerprint(Labelled(text)));
    EXPECT_EQ(orders.size(), count) << text;
  }
  EXPECT_EQ(bytes.size(), 1u);
}

TEST(SelectionFingerprintTest, HowAFilteredFeatureIsReadDecidesTheOrder) {
  const auto with = [](absl::string_view selection, absl::string_view name,
                       const std::function<void(v1::Feature&)>& change) {
    auto spec = Labelled(selection);
    change((*spec.mutable_features())[std::string(name)]);
    return OrderOf(spec);
  };
  const auto other_key = [](v1::Feature& feature) { feature.set_key("elsewhere"); };
  const auto other_default = [](v1::Feature& feature) { feature.mutable_int64()->add_default_(1); };
  const std::string filtered = OrderOf(Labelled(kFilter));
  EXPECT_NE(with(kFilter, "label", other_key), filtered);
  EXPECT_NE(with(kFilter, "label", other_default), filtered);
  EXPECT_EQ(with(kFilter, "other", other_key), filtered);
  EXPECT_EQ(with("", "label", other_key), OrderOf(Labelled("")));
  EXPECT_EQ(with(kSplit, "label", other_key), OrderOf(Labelled(kSplit)));
}

TEST(SelectionFingerprintTest, TheColumnOfAListThatIsFilteredDecidesTheOrder) {
  const auto of = [](absl::string_view labels) {
    auto spec = FromText<v1::PipelineSpec>(
        absl::StrCat("source { image_list { path: 'l' ", labels,
                     " } } batch { size: 1 } filter { feature: 'x' in: 1 }"));
    EXPECT_TRUE(Normalize(spec).ok());
    return OrderOf(spec);
  };
  const std::string first = of("labels: ['x', 'y']");
  EXPECT_NE(of("labels: ['y', 'x']"), first);
  EXPECT_EQ(of("labels: ['x', 'z']"), first);
  EXPECT_NE(of("labels: ['x', 'y'] label_dtype: DTYPE_FLOAT32"), first);
}

// It has no file of data; the one that holds its selection is not part of what it is.
TEST(SelectionFingerprintTest, OfARangeTheSpecAloneTells) {
  auto spec = FromText<v1::PipelineSpec>(absl::StrCat(
      "source { range { size: 9 } } batch { size: 1 } filter { feature: 'index' min: 3 }"));
  ASSERT_TRUE(Normalize(spec).ok());
  EXPECT_EQ(OrderFingerprint(spec, {}), OrderFingerprint(spec, Files({9}, {6})));
}

TEST(SelectionDigestTest, DependsOnWhatDecidesAFilesSelection) {
  const auto of = [](absl::string_view text) {
    const auto spec = Labelled(text);
    return SelectionDigest(spec.source(), spec.features(), SelectionOf(spec));
  };
  const std::string digest = of(absl::StrCat(kFilter, kSplit));
  EXPECT_EQ(digest.size(), 32u);
  EXPECT_EQ(of(absl::StrCat(kFilter, kSplit, "skip: 3 take: 9 seed: 4")), digest);
  EXPECT_NE(of(kFilter), digest);
  EXPECT_NE(of(kSplit), digest);
  EXPECT_NE(of(absl::StrCat(kFilter, kSplit, "exclude: ['a@1']")), digest);
  EXPECT_NE(of(absl::StrCat(kFilter, kSplit, "errors { policy: ERROR_ACTION_SUBSTITUTE }")),
            digest);
}

TEST(SelectionTest, KnowsWhetherFilesNeedSelections) {
  const auto of = [](absl::string_view text) {
    const auto spec = Labelled(text);
    const auto selection = SelectionOf(spec);
    return std::pair(SelectsRecords(selection), IsSelective(selection));
  };
  EXPECT_EQ(of(""), std::pair(false, false));
  EXPECT_EQ(of("skip: 1"), std::pair(false, true));
  EXPECT_EQ(of("take: 1"), std::pair(false, true));
  EXPECT_EQ(of(kFilter), std::pair(true, true));
  EXPECT_EQ(of(kSplit), std::pair(true, true));
  EXPECT_EQ(of("exclude: ['a@1']"), std::pair(true, true));
}

TEST(SelectionTest, OfAMixtureEachSourceHasItsOwnNames) {
  auto spec = FromText<v1::PipelineSpec>(
      "source { mixture { sources { weight: 1 source { range { size: 9 } } }"
      "                   sources { weight: 1 source { range { size: 9 } } } } }"
      "batch { size: 1 } exclude: ['1:range@7', '0:range@3', '1:range@2', '1:range@2']");
  ASSERT_TRUE(Normalize(spec).ok());
  EXPECT_THAT(SelectionOf(spec).exclude(), IsEmpty());
  EXPECT_THAT(SelectionOf(spec, 0).exclude(), ElementsAre("range@3"));
  EXPECT_THAT(SelectionOf(spec, 1).exclude(), ElementsAre("range@2", "range@7"));
}

TEST(SelectionTest, WhatIsExcludedIsSaid) {
  const auto spec = Labelled("exclude: ['a@1']");
  auto resolved = Files({10}, {9});
  resolved.mutable_files(0)->set_part_count(9);
  EXPECT_EQ(SelectionSummary(SelectionOf(spec), CountSelected(spec.source(), resolved)),
            "9 of 10 records: 9 that `exclude` leaves");
  resolved.mutable_files(0)->set_part_count(0);
  resolved.mutable_files(0)->set_kept_count(0);
  EXPECT_EQ(CheckSelected(SelectionOf(spec), CountSelected(spec.source(), resolved)).message(),
            "exclude: leaves out all 10 records");
}

TEST(SelectionTest, ReadsOnlyTheFeaturesOfTheFilter) {
  const auto spec = Labelled(kFilter);
  const auto read = FilterFeatures(spec.features(), SelectionOf(spec));
  EXPECT_EQ(read.size(), 1u);
  EXPECT_EQ(read.count("label"), 1u);
  EXPECT_THAT(FilterFeatures(spec.features(), {}), IsEmpty());
}

}  // namespace
}  // namespace bulkhead
