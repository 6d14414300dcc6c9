#include "server/spec/yaml/yaml.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/yaml/yaml_tree.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kPhotos[] = R"(source:
  image_folder: {path: photos}
stages:
  - decode_image: {channels: 3}
  - random_resized_crop: {size: [224, 224]}
  - random_horizontal_flip
  - normalize: {mean: [123.675, 116.28, 103.53], std: [58.395, 57.12, 57.375]}
  - layout: {to: NCHW}
  - one_hot: {input: label, classes: 1000}
batch: {size: 64, drop_remainder: true}
order: {global: {}}
seed: 1
epochs: 2
errors: {policy: substitute, max_fraction: 0.01}
outputs: [image, label]
)";

std::string YamlMessageOf(absl::string_view text) {
  return std::string(ParseSpec(text, "f.yaml").status().message());
}

// A spec over a range, which needs two lines only, and `rest` from line 3 on.
std::string Range(absl::string_view rest) {
  return absl::StrCat("source: {range: {size: 10}}\nbatch: {size: 2}\n", rest);
}

// A spec over an image folder, with `rest` from line 3 on.
std::string Folder(absl::string_view rest) {
  return absl::StrCat("source: {image_folder: {path: p}}\nbatch: {size: 2}\n", rest);
}

TEST(ParseSpecTest, ReadsWhatPeopleWrite) {
  const auto spec = ParseSpec(kPhotos, "f.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->source().image_folder().path(), "photos");
  ASSERT_EQ(spec->stages_size(), 6);
  EXPECT_EQ(spec->stages(0).decode_image().color(), v1::COLOR_RGB);
  EXPECT_EQ(spec->stages(1).random_resized_crop().scale(0), 0.08);
  EXPECT_EQ(spec->stages(2).random_horizontal_flip().probability(), 0.5);
  EXPECT_EQ(spec->stages(3).normalize().mean(0), 123.675f);
  EXPECT_EQ(spec->stages(4).layout().to(), v1::IMAGE_LAYOUT_NCHW);
  EXPECT_EQ(spec->stages(5).one_hot().classes(), 1000u);
  EXPECT_EQ(spec->batch().last(), v1::LAST_BATCH_DROP);
  EXPECT_TRUE(spec->order().global().reshuffle());
  EXPECT_EQ(spec->epochs(), 2u);
  EXPECT_EQ(spec->errors().policy(), v1::ERROR_ACTION_SUBSTITUTE);
}

TEST(ParseSpecTest, ReadsRecordFeatures) {
  const auto spec = ParseSpec(R"(
source: {tfrecord: {files: "data/*.tfrecord", compression: gzip}}
features:
  image: {key: img_raw, bytes: {max_bytes: 100, default: ""}}
  label: int64
  boxes: {tensor: {dtype: float32, shape: [-1, 4], max_count: 64, allow_missing: true}}
batch: {size: 1}
epochs: forever
)",
                              "f.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->source().tfrecord().files(0), "data/*.tfrecord");
  EXPECT_EQ(spec->source().tfrecord().compression(), v1::COMPRESSION_GZIP);
  EXPECT_EQ(spec->features().at("image").key(), "img_raw");
  EXPECT_TRUE(spec->features().at("image").bytes().has_default_());
  EXPECT_TRUE(spec->features().at("label").has_int64());
  EXPECT_EQ(spec->features().at("label").key(), "label");
  EXPECT_EQ(spec->features().at("boxes").tensor().shape(0), -1);
  EXPECT_FALSE(spec->has_epochs());
}

TEST(ParseSpecTest, JsonOfTheMessageIsASpec) {
  const auto spec = ParseSpec(kPhotos, "f.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  std::string json;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(*spec, &json).ok());
  ASSERT_THAT(json, AllOf(HasSubstr("\"decodeImage\""), HasSubstr("\"INTERPOLATION_LINEAR\""),
                          HasSubstr("\"seed\":\"1\"")));
  const auto again = ParseSpec(json, "f.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(MessageDifferencer::Equals(*spec, *again));
}

TEST(ParseSpecTest, FloatsHoldTheBitsThatPythonGivesThem) {
  const auto spec =
      ParseSpec(Folder("stages: [decode_image, resize: {size: 4}, normalize: {divide: "
                       "1.00000017881393432617187499, subtract: 1e-3}]\n"
                       "outputs: image\n"),
                "f.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  // By way of a double, the number is a tie and goes to even; directly it would go down.
  EXPECT_EQ(spec->stages(2).normalize().divide(0),
            static_cast<float>(1.00000017881393432617187499));
  EXPECT_EQ(spec->stages(2).normalize().subtract(0), 0.001f);
}

struct ErrorCase {
  std::string text;
  std::string message;
};

void PrintTo(const ErrorCase& error, std::ostream* out) { *out << error.message; }

class ParseSpecErrorTest : public ::testing::TestWithParam<ErrorCase> {};

TEST_P(ParseSpecErrorTest, SaysWhereAndWhat) {
  const auto spec = ParseSpec(GetParam().text, "f.yaml");
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(spec.status().message()), GetParam().message) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    Names, ParseSpecErrorTest,
    ::testing::Values(
        ErrorCase{Range("ordr: {global: {}}\n"),
                  "f.yaml:3:1: ordr: unknown field `ordr`; did you mean `order`?"},
        ErrorCase{Range("xyzzyq: 1\n"),
                  "f.yaml:3:1: xyzzyq: unknown field `xyzzyq`; valid are source, features, stages, "
                  "batch, order, seed, epochs, errors, outputs, deterministic, filter, split, "
                  "skip, take, batch_stages, exclude"},
        ErrorCase{Range("stages:\n  - resise: {size: 3}\n"),
                  "f.yaml:4:5: stages[0].resise: unknown stage `resise`; did you mean `resize`?"},
        ErrorCase{Range("stages:\n  - randomHorizontalFlop\n"),
                  "f.yaml:4:5: stages[0]: unknown stage `randomHorizontalFlop`; did you mean "
                  "`random_horizontal_flip`?"},
        ErrorCase{
            Range("stages:\n  - resize: {sizes: 3}\n"),
            "f.yaml:4:14: stages[0].resize.sizes: unknown field `sizes`; did you mean `size`?"},
        ErrorCase{
            Range("stages:\n  - resize: {size: 3, interpolation: linaer}\n"),
            "f.yaml:4:38: stages[0].resize.interpolation: unknown value `linaer`; did you mean "
            "`linear`?"},
        ErrorCase{Range("stages:\n  - resize: {size: 3, interpolation: lanczos}\n"),
                  "f.yaml:4:38: stages[0].resize.interpolation: unknown value `lanczos`; valid are "
                  "nearest, linear, area, cubic"},
        ErrorCase{"source: {range: {size: 10}, sql: {}}\nbatch: {size: 2}\n",
                  "f.yaml:1:29: source.sql: unknown source `sql`; valid are tfrecord, image_list, "
                  "image_folder, range, mixture, tar"},
        ErrorCase{Range("stages:\n  - decode_image:\n    channels: 3\n"),
                  "f.yaml:5:5: stages[0].channels: `channels` belongs to `decode_image`: indent it "
                  "further"}));

INSTANTIATE_TEST_SUITE_P(
    Types, ParseSpecErrorTest,
    ::testing::Values(
        ErrorCase{Range("seed: abc\n"), "f.yaml:3:7: seed: must be a whole number, but is `abc`"},
        ErrorCase{Range("seed: 1_000\n"),
                  "f.yaml:3:7: seed: must be a whole number, but is `1_000`; write 1000"},
        ErrorCase{
            Range("seed: 010\n"),
            "f.yaml:3:7: seed: must be a whole number, but is `010`; write it without leading "
            "zeros"},
        ErrorCase{Range("seed: 2.0\n"), "f.yaml:3:7: seed: must be a whole number, but is `2.0`"},
        ErrorCase{Range("seed: -1\n"), "f.yaml:3:7: seed: must be at least 0, but is `-1`"},
        ErrorCase{Range("seed: 18446744073709551616\n"),
                  "f.yaml:3:7: seed: must be at most 18446744073709551615, but is "
                  "`18446744073709551616`"},
        ErrorCase{Range("stages: [resize: {size: 4294967296}]\n"),
                  "f.yaml:3:25: stages[0].resize.size[0]: must lie between 1 and 65535, but is "
                  "`4294967296`"},
        ErrorCase{Range("seed:\n"), "f.yaml:3:1: seed: has no value"},
        ErrorCase{Range("seed: [1]\n"), "f.yaml:3:7: seed: must be a single value, but is a list"},
        ErrorCase{Range("seed: {a: 1}\n"),
                  "f.yaml:3:7: seed: must be a single value, but is a map"},
        ErrorCase{Range("epochs: ever\n"),
                  "f.yaml:3:9: epochs: must be a whole number, but is `ever`; or write forever"},
        ErrorCase{Range("errors: {max_fraction: lots}\n"),
                  "f.yaml:3:24: errors.max_fraction: must be a number, but is `lots`"},
        ErrorCase{Range("errors: {max_fraction: 1e999}\n"),
                  "f.yaml:3:24: errors.max_fraction: is too large a number, but is `1e999`"},
        ErrorCase{
            Range("stages: [normalize: {divide: 1e39}]\n"),
            "f.yaml:3:30: stages[0].normalize.divide[0]: is too large a number, but is `1e39`"},
        ErrorCase{Range("errors: 5\n"),
                  "f.yaml:3:9: errors: must be a map ({policy: ...}), but is a single value"},
        ErrorCase{Range("errors: [policy]\n"),
                  "f.yaml:3:9: errors: must be a map ({policy: ...}), but is a list"},
        ErrorCase{Range("stages:\n"),
                  "f.yaml:3:1: stages: has no value; write [] for an empty list"},
        ErrorCase{Range("outputs: [index, ~]\n"), "f.yaml:3:18: outputs[1]: has no value"},
        ErrorCase{Range("outputs: [[index]]\n"),
                  "f.yaml:3:11: outputs[0]: must be a single value, but is a list"},
        ErrorCase{Range("features: [a]\n"),
                  "f.yaml:3:11: features: must be a map of names, but is a list"},
        ErrorCase{Range("? [a]\n: 1\n"), "f.yaml:3:3: a key must be a name, but is a list"},
        ErrorCase{"source: {range: {size: 10}}\nbatch: {size: 2, drop_remainder: yes}\n",
                  "f.yaml:2:34: batch.drop_remainder: must be true or false, but is `yes`"},
        ErrorCase{"- a\n- b\n", "f.yaml:1:1: must be a map ({source: ...}), but is a list"}));

INSTANTIATE_TEST_SUITE_P(
    Twice, ParseSpecErrorTest,
    ::testing::Values(
        ErrorCase{Range("seed: 1\nseed: 2\n"),
                  "f.yaml:4:1: seed: `seed` stands here twice, first at 3:1"},
        ErrorCase{Range("stages:\n  - resize: {size: 1}\n    one_hot: {}\n"),
                  "f.yaml:5:5: stages[0].one_hot: one stage only: `resize` stands here already; "
                  "begin each stage with a dash"},
        ErrorCase{"source: {range: {size: 10}, tfrecord: {files: a}}\nbatch: {size: 2}\n",
                  "f.yaml:1:29: source.tfrecord: one source only: `range` stands here already"},
        ErrorCase{"source: {tfrecord: {files: a}}\nfeatures:\n  x: {int64: {}}\n  x: {float: {}}\n"
                  "batch: {size: 2}\n",
                  "f.yaml:4:3: features.x: `x` stands here twice, first at 3:3"}));

INSTANTIATE_TEST_SUITE_P(
    Meaning, ParseSpecErrorTest,
    ::testing::Values(
        ErrorCase{"batch: {size: 2}\n",
                  "f.yaml:1:1: source: is required: one of tfrecord, image_list, image_folder, "
                  "range, mixture, tar"},
        ErrorCase{
            "source: {range: {size: 3}}\n",
            "f.yaml:1:1: batch.size: is required: how many samples a batch holds, at least 1"},
        ErrorCase{
            "source: {range: {size: 3}}\nbatch: {last: pad}\n",
            "f.yaml:2:1: batch.size: is required: how many samples a batch holds, at least 1"},
        ErrorCase{Folder("stages:\n  - decode_image\n  - resize: {size: [0, 3]}\n"),
                  "f.yaml:5:20: stages[1].resize.size: holds 0; each number must lie between 1 and "
                  "65535"},
        ErrorCase{Folder("stages:\n  - decode_image\n  - resize:\n"),
                  "f.yaml:5:5: stages[1].resize.size: is required: [height, width], or one number "
                  "for a square; write `resize: {size: 224}`"},
        ErrorCase{Folder("stages:\n  - decode_image\n  - resize: {input: imag, size: 3}\n"),
                  "f.yaml:5:21: stages[1].resize.input: unknown feature `imag`; did you mean "
                  "`image`?"},
        ErrorCase{Folder("stages:\n  - decode_image\n  -\n"),
                  "f.yaml:5:3: stages[1]: is empty: name a stage, such as decode_image: {}"},
        ErrorCase{Folder("stages:\n  - decode_image\n  -  # nothing\n\n\n  - resize: {size: 1}\n"),
                  "f.yaml:5:14: stages[1]: is empty: name a stage, such as decode_image: {}"},
        ErrorCase{Folder("outputs: [label, lable]\n"),
                  "f.yaml:3:18: outputs[1]: unknown output `lable`; did you mean `label`?"},
        ErrorCase{
            Folder("stages:\n  - decode_image\n"),
            "f.yaml:4:5: stages[0].decode_image: `image` is an image of any size (from "
            "stages[0].decode_image); add resize, center_crop or random_resized_crop, so that "
            "every image has one size, or leave it out with outputs: [...]"}));

INSTANTIATE_TEST_SUITE_P(
    Text, ParseSpecErrorTest,
    ::testing::Values(
        ErrorCase{"", "f.yaml:1:1: the spec is empty; it needs at least `source` and `batch`"},
        ErrorCase{"# nothing\n",
                  "f.yaml:1:1: the spec is empty; it needs at least `source` and `batch`"},
        ErrorCase{Range("---\nseed: 1\n"),
                  "f.yaml:4:1: a second document begins here; a spec is one document"},
        ErrorCase{std::string("seed: 1\nx\xff: 1\n"),
                  "f.yaml:2:2: the byte 0xff is not text; save the file as UTF-8"},
        ErrorCase{std::string("seed: 1\0\n", 9),
                  "f.yaml:1:8: the byte 0x00 is not text; save the file as UTF-8"},
        ErrorCase{std::string("a: \xed\xa0\x80\n"),
                  "f.yaml:1:4: the byte 0xed is not text; save the file as UTF-8"},
        ErrorCase{
            "source: {image_folder: {path: \"a\\0b\"}}\nbatch: {size: 1}\noutputs: label\n",
            "f.yaml:1:31: source.image_folder.path: holds an escape that makes no UTF-8 text"},
        ErrorCase{
            "source: {image_folder: {path: \"a\\Nb\"}}\nbatch: {size: 1}\noutputs: label\n",
            "f.yaml:1:31: source.image_folder.path: holds an escape that makes no UTF-8 text"},
        ErrorCase{std::string("a: \xe2\x82"),
                  "f.yaml:1:4: the byte 0xe2 is not text; save the file as UTF-8"}));

TEST(ParseSpecTest, SyntaxErrorsHaveAPlace) {
  EXPECT_THAT(YamlMessageOf("source: {range\nbatch: ]\n"), StartsWith("f.yaml:1:9: the `{` here"));
  EXPECT_THAT(YamlMessageOf("seed: -\n"), StartsWith("f.yaml:1:7: not valid YAML: "));
  EXPECT_THAT(YamlMessageOf("source: *nothing\n"), StartsWith("f.yaml:1:9: "));
}

TEST(ParseSpecTest, WhatAMessageRepeatsCommandsNoTerminal) {
  const absl::Status wrong =
      ParseSpec("{source: {\"a\\e[2J\\u202eb\": {}}, batch: {size: 4}}", "f\033.yaml").status();
  EXPECT_THAT(std::string(wrong.message()),
              HasSubstr("unknown source `a\\x1b[2J\\xe2\\x80\\xaeb`"));
  EXPECT_THAT(std::string(wrong.message()), Not(HasSubstr("\033")));
  const auto info = GetErrorInfo(wrong);
  EXPECT_THAT(info->metadata.at("path"), Not(HasSubstr("\033")));
  EXPECT_THAT(info->metadata.at("file"), "f\\x1b.yaml");
}

TEST(ParseSpecTest, EveryProblemHasItsLineInTheOrderOfTheText) {
  EXPECT_EQ(YamlMessageOf("sorce: 1\nbatch: {size: x}\nstages:\n  - resize: {sizes: 1}\nseed: -\n"),
            "f.yaml:5:7: not valid YAML: illegal block entry");
  EXPECT_EQ(YamlMessageOf("seed: q\nsorce: 1\nbatch: {size: x}\n"),
            "f.yaml:1:7: seed: must be a whole number, but is `q`\n"
            "f.yaml:2:1: sorce: unknown field `sorce`; did you mean `source`?\n"
            "f.yaml:3:15: batch.size: must be a whole number, but is `x`");
  EXPECT_EQ(YamlMessageOf("epochs: 0\nsource: {range: {size: 0}}\nbatch: {size: 2}\n"),
            "f.yaml:1:9: epochs: must be at least 1; or write forever\n"
            "f.yaml:2:24: source.range.size: is 0; it must be at least 1");
}

TEST(ParseSpecTest, ManyProblemsAreCutShort) {
  std::string text;
  for (int i = 0; i < 100; ++i) absl::StrAppend(&text, "unknown", i, ": 1\n");
  EXPECT_THAT(YamlMessageOf(text), HasSubstr("f.yaml: and 80 more"));
}

TEST(ParseSpecTest, MetadataTellsProgramsThePlace) {
  const auto info = GetErrorInfo(ParseSpec(Range("seed: abc\nepochs: x\n"), "f.yaml").status());
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->reason, reason::kSpecInvalid);
  EXPECT_EQ(info->metadata.at("file"), "f.yaml");
  EXPECT_EQ(info->metadata.at("line"), "3");
  EXPECT_EQ(info->metadata.at("column"), "7");
  EXPECT_EQ(info->metadata.at("path"), "seed");
}

TEST(ParseSpecTest, TextOverOneMebibyteIsRefused) {
  std::string text = Range("# ");
  text.append(kMaxYamlBytes - text.size(), 'x');
  EXPECT_TRUE(ParseSpec(text, "f.yaml").ok());
  text += 'x';
  EXPECT_THAT(YamlMessageOf(text), HasSubstr("1048577 bytes, over the limit of 1048576"));
}

TEST(ParseSpecTest, DeepNestingIsRefused) {
  for (const size_t depth : {size_t{100}, kMaxYamlPunctuation}) {
    EXPECT_THAT(YamlMessageOf(std::string(depth, '[')),
                testing::AnyOf(HasSubstr("nested deeper"), HasSubstr("not valid YAML")));
  }
  const std::string deep = std::string(65, '[') + std::string(65, ']');
  EXPECT_EQ(YamlMessageOf(deep), "f.yaml:1:65: nested deeper than 64 levels; no spec needs that");
}

TEST(ParseSpecTest, TooManyValuesAreRefused) {
  std::string text = "outputs: [";
  for (size_t i = 0; i < kMaxYamlNodes; ++i) text += "a,";
  EXPECT_THAT(YamlMessageOf(text + "]"), HasSubstr("more than 50000 values; put long lists"));
}

// yaml-cpp would hold 240 MiB of tokens for this text before its first event.
TEST(ParseSpecTest, TooMuchPunctuationIsRefused) {
  EXPECT_THAT(YamlMessageOf(std::string(kMaxYamlPunctuation + 1, '{')),
              HasSubstr("100001 of the characters {}[],:?\"', over the limit of 100000"));
}

TEST(ParseSpecTest, AliasBombsAreRefused) {
  // One list of a thousand numbers stands in 200 features.
  std::string text = "source: {tfrecord: {files: a}}\nbatch: {size: 1}\nfeatures:\n";
  std::string numbers = "1";
  for (int i = 0; i < 999; ++i) numbers += ",1";
  absl::StrAppend(&text, "  f0: {int64: {shape: &s [", numbers, "]}}\n");
  for (int i = 1; i < 200; ++i) absl::StrAppend(&text, "  f", i, ": {int64: {shape: *s}}\n");
  EXPECT_THAT(YamlMessageOf(text), HasSubstr("aliases make more than 50000 values"));
}

TEST(ParseSpecTest, NestedAliasBombsEndQuickly) {
  std::string text = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c <= 'j'; ++c) {
    const std::string before(1, c - 1);
    absl::StrAppend(&text, std::string(1, c), ": &", std::string(1, c), " [");
    for (int i = 0; i < 9; ++i) absl::StrAppend(&text, "*", before, ",");
    text += "]\n";
  }
  EXPECT_THAT(YamlMessageOf(text), HasSubstr("unknown field `a`"));
}

TEST(ParseSpecTest, AnAliasToItselfIsNoTrap) {
  EXPECT_THAT(YamlMessageOf(Range("outputs: &a [*a]\n")), HasSubstr("outputs[0]"));
  EXPECT_THAT(YamlMessageOf("stages: &a [*a]\n"), HasSubstr("stages[0]"));
}

TEST(ParseSpecTest, AliasesWork) {
  const auto spec = ParseSpec(Folder("stages:\n  - decode_image\n  - resize: {size: &s [4, 5]}\n"
                                     "  - center_crop: {size: *s}\n"),
                              "f.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->stages(2).center_crop().size(1), 5u);
}

TEST(SpecToYamlTest, RoundTrips) {
  const std::string texts[] = {
      kPhotos, Range(""), Range("epochs: 3\nseed: 18446744073709551615\n"),
      R"(
source: {tfrecord: {files: ["a b.tfrecord", "ü*[0-9].rec", "null", "12", "~", "x: y", "\x01\"\\"]}}
features:
  image/encoded: {key: "odd: key", bytes: {max_bytes: 100, default: ""}}
  label: {int64: {shape: [2], default: [-5, 9223372036854775807]}}
  score: {float: {default: 0.1}}
  missing: {float: {default: .nan}}
  boxes: {tensor: {dtype: bfloat16, shape: [-1, 4], max_count: 64, cast: true}}
batch: {size: 7, last: pad}
order: {global: {reshuffle: false}}
)",
      "source: {image_list: {entries: ['a.jpg 1', 'b.jpg 2'], delimiter: space, labels: [x]}}\n"
      "stages: [decode_image: {color: bgr}, random_resized_crop: {size: 3, scale: [0.1, 0.3], "
      "ratio: [0.7, 1.3]}, cast: {dtype: float16}]\nbatch: {size: 1}\n"};
  for (const std::string& text : texts) {
    const auto spec = ParseSpec(text, "f.yaml");
    ASSERT_TRUE(spec.ok()) << spec.status();
    const std::string yaml = SpecToYaml(*spec);
    const auto again = ParseSpec(yaml, "again.yaml");
    ASSERT_TRUE(again.ok()) << again.status() << "\n" << yaml;
    MessageDifferencer differencer;
    google::protobuf::util::DefaultFieldComparator comparator;
    comparator.set_treat_nan_as_equal(true);
    differencer.set_field_comparator(&comparator);
    std::string difference;
    differencer.ReportDifferencesToString(&difference);
    EXPECT_TRUE(differencer.Compare(*spec, *again)) << difference << yaml;
  }
}

TEST(SpecToYamlTest, ReadsWell) {
  const auto spec = ParseSpec(Folder("stages: [decode_image, resize: {size: 4}]\n"), "f.yaml");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(
      SpecToYaml(*spec),
      AllOf(HasSubstr("\n  - resize: {input: image, size: [4, 4], interpolation: linear}\n"),
            HasSubstr("\nbatch: {size: 2, last: partial}\n"), Not(HasSubstr("epochs"))));
}

}  // namespace
}  // namespace bulkhead
