#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/normalize/normalize_parts.h"
#include "server/spec/yaml/yaml.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What ParseSpec says about a tfrecord spec with `text` behind its five first lines; empty:
// nothing.
std::string Said(absl::string_view text) {
  const auto spec = ParseSpec(
      absl::StrCat("source: {tfrecord: {files: a}}\n"
                   "features: {label: int64, score: float, name: bytes,\n"
                   "  pair: {int64: {shape: [2]}}, boxes: {float: {shape: [-1], max_count: 9}}}\n"
                   "outputs: label\n"
                   "batch: {size: 2}\n",
                   text, "\n"),
      "s.yaml");
  return spec.ok() ? "" : std::string(spec.status().message());
}

std::string SaidOf(absl::string_view source, absl::string_view text) {
  const auto spec =
      ParseSpec(absl::StrCat("source: ", source, "\nbatch: {size: 2}\n", text, "\n"), "s.yaml");
  return spec.ok() ? "" : std::string(spec.status().message());
}

TEST(NormalizeSelectionTest, TakesWhatIsRight) {
  EXPECT_EQ(Said("filter: [{feature: label, in: [1, 2], not_in: 3, min: -1, max: 1e3}]"), "");
  EXPECT_EQ(Said("filter: {feature: score, max: 0.5}"), "") << "a lone condition";
  EXPECT_EQ(Said("filter: [{feature: name, text_in: [cat, dog], text_not_in: owl}]"), "");
  EXPECT_EQ(Said("split: {parts: {train: 0.9, validation: 0.1}, use: train, salt: 7}"), "");
  EXPECT_EQ(Said("split: {parts: {a: 0.1, b: 0.2, c: 0.3, d: 0.4}, use: c}"), "");
  EXPECT_EQ(Said("skip: 10\ntake: 5"), "");
}

TEST(NormalizeSelectionTest, NamesTheFeatureThatIsMeant) {
  EXPECT_EQ(Said("filter: [{feature: lable, in: 1}]"),
            "s.yaml:6:20: filter[0].feature: unknown feature `lable`; did you mean `label`?");
  EXPECT_THAT(Said("filter: [{in: 1}]"), HasSubstr("s.yaml:6:10: filter[0].feature: is required"));
}

TEST(NormalizeSelectionTest, TestsMustFitTheFeature) {
  EXPECT_EQ(Said("filter:\n- {feature: label, in: 1}\n- {feature: label, text_in: cat}"),
            "s.yaml:8:29: filter[1].text_in: tests byte strings, but `label` is int64: use in, "
            "not_in, min or max");
  EXPECT_THAT(Said("filter: [{feature: score, text_not_in: cat}]"), HasSubstr("is float32"));
  for (const char* test : {"in: 1", "not_in: 1", "min: 1", "max: 1"}) {
    EXPECT_THAT(Said(absl::StrCat("filter: [{feature: name, ", test, "}]")),
                HasSubstr("tests numbers, but `name` is a byte string"))
        << test;
  }
  EXPECT_THAT(Said("filter: [{feature: label}]"),
              HasSubstr("s.yaml:6:10: filter[0]: tests nothing: give in, not_in, min or max"));
}

TEST(NormalizeSelectionTest, OnlySingleValuesAreTested) {
  EXPECT_THAT(Said("filter: [{feature: pair, in: 1}]"),
              HasSubstr("s.yaml:6:20: filter[0].feature: `pair` has the shape [2]"));
  EXPECT_THAT(Said("filter: [{feature: boxes, in: 1}]"), HasSubstr("needs a single value"));
}

TEST(NormalizeSelectionTest, BoundsMustLeaveSomething) {
  EXPECT_EQ(Said("filter: [{feature: label, min: 2, max: 1}]"),
            "s.yaml:6:32: filter[0].min: is 2, above max, 1: nothing could pass");
  EXPECT_EQ(Said("filter: [{feature: label, min: 2, max: 2}]"), "");
  EXPECT_THAT(Said("filter: [{feature: label, min: .nan}]"), HasSubstr("is not a number"));
  EXPECT_THAT(Said("filter: [{feature: label, max: .nan}]"), HasSubstr("is not a number"));
}

TEST(NormalizeSelectionTest, NamesOfRecordsAreLeftOut) {
  EXPECT_EQ(Said("exclude: [a@17, b.tfrecord]"), "");
  EXPECT_THAT(Said("exclude: [a@17, '']"), HasSubstr("s.yaml:6:17: exclude[1]: is empty"));
  const char* mixture =
      "{mixture: {sources: [{weight: 1, source: {range: {size: 9}}},"
      " {weight: 1, source: {range: {size: 9}}}]}}";
  EXPECT_EQ(SaidOf(mixture, "exclude: ['1:range@3']"), "");
  for (const char* name : {"range@3", "2:range@3", "x:range@3", ":range@3"}) {
    EXPECT_THAT(SaidOf(mixture, absl::StrCat("exclude: ['", name, "']")),
                HasSubstr("begins with no number of a source"))
        << name;
  }
}

TEST(NormalizeSelectionTest, SharesMustSumToOne) {
  EXPECT_EQ(Said("split: {parts: {train: 0.9, validation: 0.2}, use: train}"),
            "s.yaml:6:9: split.parts: sum to 1.1, but must sum to 1: give the rest a name, too");
  EXPECT_THAT(Said("split: {parts: {a: 0.999999998, b: 1e-12}, use: a}"), HasSubstr("sum to"));
  EXPECT_EQ(Said("split: {parts: {a: 0.9999999995, b: 1e-12}, use: a}"), "");
  EXPECT_THAT(Said("split: {parts: {a: 1.5, b: -0.5}, use: a}"),
              AllOf(HasSubstr("s.yaml:6:20: split.parts.a: is 1.5"),
                    HasSubstr("s.yaml:6:28: split.parts.b: is -0.5")));
  EXPECT_THAT(Said("split: {parts: {a: 0, b: 1}, use: b}"), HasSubstr("split.parts.a: is 0"));
  EXPECT_THAT(Said("split: {parts: {a: .nan, b: 1}, use: b}"), HasSubstr("split.parts.a: is nan"));
  EXPECT_THAT(Said("split: {use: a}"), HasSubstr("split.parts: is required"));
  EXPECT_THAT(Said("split: {parts: {}, use: a}"), HasSubstr("split.parts: is required"));
}

TEST(NormalizeSelectionTest, TheUsedPartIsOneOfThem) {
  EXPECT_EQ(Said("split: {parts: {train: 0.5, test: 0.5}, use: tran}"),
            "s.yaml:6:46: split.use: unknown part `tran`; did you mean `train`?");
  EXPECT_THAT(Said("split: {parts: {train: 0.5, test: 0.5}}"),
              HasSubstr("split.use: is required: the part that is read, one of test, train"));
}

TEST(NormalizeSelectionTest, TakingNothingIsNoChoice) {
  EXPECT_THAT(Said("take: 0"), HasSubstr("s.yaml:6:7: take: must be at least 1"));
}

TEST(NormalizeSelectionTest, ImagesAreNotReadWhileIndexing) {
  EXPECT_THAT(SaidOf("{image_folder: {path: p}}",
                     "stages: [decode_image, {resize: {size: 8}}]\n"
                     "filter: [{feature: image, text_in: x}]"),
              HasSubstr("s.yaml:4:20: filter[0].feature: `image` is an image"));
  for (const char* test : {"feature: path, text_in: cat/1.jpg", "feature: label, in: 1"}) {
    EXPECT_EQ(
        SaidOf("{image_folder: {path: p}}", absl::StrCat("outputs: label\nfilter: [{", test, "}]")),
        "");
    EXPECT_EQ(
        SaidOf("{image_list: {path: p}}", absl::StrCat("outputs: label\nfilter: [{", test, "}]")),
        "");
  }
}

TEST(NormalizeSelectionTest, HugeRangesAreCutOnly) {
  const char* source = "{range: {size: 4294967297}}";
  EXPECT_THAT(SaidOf(source, "filter: [{feature: index, min: 5}]"), HasSubstr("4294967296"));
  EXPECT_THAT(SaidOf(source, "split: {parts: {a: 1}, use: a}"), HasSubstr("use skip and take"));
  EXPECT_EQ(SaidOf(source, "skip: 9\ntake: 7"), "");
  EXPECT_EQ(SaidOf("{range: {size: 4294967296}}", "filter: [{feature: index, min: 5}]"), "");
}

TEST(NormalizeSelectionTest, SortsWhatIsListed) {
  auto spec = FromText<v1::PipelineSpec>(
      "source { range { size: 9 } } batch { size: 1 } "
      "filter { feature: 'index' in: [3, 1, 3] not_in: [7, 5] }");
  ASSERT_TRUE(Normalize(spec).ok());
  EXPECT_THAT(spec.filter(0).in(), ElementsAre(1, 3));
  EXPECT_THAT(spec.filter(0).not_in(), ElementsAre(5, 7));
}

TEST(NormalizeSelectionTest, ValuesOfAMapHaveTheirPlace) {
  EXPECT_EQ(Said("split: {parts: {train: most, rest: 0.1}, use: train}"),
            "s.yaml:6:24: split.parts.train: must be a number, but is `most`");
  EXPECT_THAT(Said("split: {parts: {train: [1], rest: 0.1}, use: train}"),
              HasSubstr("s.yaml:6:24: split.parts.train: must be a single value, but is a list"));
  EXPECT_THAT(Said("split: {parts: {train: , rest: 0.1}, use: train}"),
              HasSubstr("split.parts.train: has no value"));
  EXPECT_THAT(Said("split: {parts: {a: 0.5, a: 0.5}, use: a}"), HasSubstr("stands here twice"));
}

TEST(NormalizeSelectionTest, IsReadBackAsItWasWritten) {
  const auto spec = ParseSpec(
      "source: {image_folder: {path: p}}\noutputs: [label, path]\nbatch: {size: 2}\n"
      "filter:\n- {feature: label, in: [3, 5], min: -0.5}\n- {feature: path, text_not_in: ['a: b', "
      "c]}\n"
      "split: {parts: {train: 0.9, 'odd name': 0.1}, use: odd name, salt: 3}\nskip: 4\ntake: 2\n",
      "s.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const std::string text = SpecToYaml(*spec);
  const auto again = ParseSpec(text, "again.yaml");
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  EXPECT_EQ(SpecToYaml(*again), text);
  EXPECT_EQ(again->split().parts().at("odd name"), 0.1);
  EXPECT_EQ(again->filter_size(), 2);
  EXPECT_EQ(again->filter(1).text_not_in(0), "a: b");
  EXPECT_EQ(again->take(), 2);
}

}  // namespace
}  // namespace bulkhead
