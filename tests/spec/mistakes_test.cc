// What people write wrongly, and what they are told: all mistakes of a spec at once, each once,
// with the line to write instead.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "server/spec/yaml/yaml.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> Mistakes(absl::string_view text) {
  const auto spec = ParseSpec(text, "f");
  if (spec.ok()) return {};
  return absl::StrSplit(spec.status().message(), '\n');
}

// The one mistake of a spec over an image folder with `rest` from line 3 on.
std::string Mistake(absl::string_view rest) {
  const std::vector<std::string> mistakes =
      Mistakes(absl::StrCat("source: {image_folder: {path: p}}\nbatch: {size: 2}\n", rest));
  EXPECT_EQ(mistakes.size(), 1u) << testing::PrintToString(mistakes);
  return mistakes.empty() ? "" : mistakes[0];
}

std::string StageMistake(absl::string_view stage) {
  return Mistake(absl::StrCat("outputs: label\nstages:\n- decode_image\n- ", stage, "\n"));
}

TEST(BareStageTest, IsToldWhatToWrite) {
  for (const auto& [stage, line] :
       std::vector<std::pair<std::string, std::string>>{{"one_hot", "{classes: 10}"},
                                                        {"cast", "{dtype: float32}"},
                                                        {"layout", "{to: NCHW}"},
                                                        {"resize", "{size: 224}"},
                                                        {"center_crop", "{size: 224}"},
                                                        {"posterize", "{bits: 4}"},
                                                        {"gaussian_blur: {}", "{kernel: 5}"}}) {
    const std::string name = stage.substr(0, stage.find(':'));
    EXPECT_THAT(StageMistake(stage),
                AllOf(HasSubstr("is required: "),
                      EndsWith(absl::StrCat("; write `", name, ": ", line, "`"))));
  }
  EXPECT_THAT(StageMistake("gaussian_blur: {probability: 1}"), EndsWith("kernel in pixels"))
      << "the line would lose what is there";
}

TEST(AllMistakesTest, ThoseOfEverySortComeTogether) {
  EXPECT_THAT(
      Mistakes("source: {image_folder: {path: p, extensions: .jpg}}\n"
               "batch: {size: x}\n"
               "stages:\n"
               "- decode_image: {chanels: 3}\n"           // a key
               "- resize: {size: [0, 3]}\n"               // a value
               "- one_hot: {input: path, classes: 10}\n"  // what it is given
               "outputs: [image, lable]\n"
               "epochs: 0\n"),
      ElementsAre(StartsWith("f:1:46: source.image_folder.extensions[0]: must be a file ending"),
                  StartsWith("f:2:15: batch.size: must be a whole number"),
                  StartsWith("f:4:18: stages[0].decode_image.chanels: unknown field"),
                  StartsWith("f:5:18: stages[1].resize.size: holds 0"),
                  StartsWith("f:6:20: stages[2].one_hot.input: takes one integer label"),
                  StartsWith("f:7:18: outputs[1]: unknown output `lable`"),
                  StartsWith("f:8:9: epochs: must be at least 1")));
}

TEST(AllMistakesTest, WhatStandsInTheWrongPlaceOrWithoutItsKeyIsToldWhereAndHow) {
  EXPECT_THAT(
      Mistakes("source:\nimage_folder: {path: p}\nbatch: {size: 2}\nstages: [decode_image]\n"),
      Contains(EndsWith("`image_folder` belongs below `source`: indent it by two spaces")));
  EXPECT_THAT(Mistake("stages: [decode_image]\nresize: {size: 8}\n"),
              EndsWith("`resize` is a stage: put it below `stages`, after a dash"));
  EXPECT_THAT(Mistake("outputs: label\nerrors: skip\n"),
              HasSubstr("but is `skip`; write `errors: {policy: substitute}`"));
  EXPECT_THAT(Mistake("outputs: label\nfilter: label == 3\n"),
              HasSubstr("but is `label == 3`; write such as {feature: label, in: [3]}"));
  EXPECT_THAT(StageMistake("filter: label == 3"),
              HasSubstr("belongs at the top of the spec: `filter: [{feature: label, in: [3]}]`"));
  EXPECT_THAT(Mistakes("source: {image_folder: {path: p}}\nbatch: {size: 2}\noutputs: label\n"
                       "split: {train: 0.8, val: 0.2}\n"),
              Each(HasSubstr("write `split: {parts: {train: 0.8, validation: 0.2}, use: train}`")));
  EXPECT_THAT(Mistake("outputs: label\nepochs: -1\n"),
              HasSubstr("must be at least 1, but is `-1`; or write forever"));
}

TEST(AllMistakesTest, EveryStageIsJudgedByWhatItWouldGet) {
  EXPECT_THAT(Mistakes("source: {image_folder: {path: p}}\nbatch: {size: 2}\n"
                       "stages:\n"
                       "- decode_image\n"
                       "- resize: {size: 32}\n"
                       "- center_crop: {size: 64}\n"
                       "- one_hot: {classes: 3}\n"
                       "- one_hot: {classes: 3}\n"),
              ElementsAre(StartsWith("f:6:23: stages[2].center_crop.size: cuts 64x64"),
                          StartsWith("f:8:3: stages[4].one_hot.input: takes one integer label")));
}

// Nothing that a mistake causes is told as another one.
TEST(AllMistakesTest, OneMistakeIsOneProblem) {
  const std::string head = "source: {image_folder: {path: p}}\nbatch: {size: 2}\n";
  for (const std::string rest : {
           "stages: [decode_image, resize: {sizes: 3}, normalize: {divide: 255}]\n",
           "stages: [decode_image, resise: {size: 3}, normalize: {divide: 255}]\n",
           "stages: [decode_image, resize: {size: x}]\n",
           "stages: [decode_image, resize: {input: imag, size: 3}]\n",
           "stages: [resize: {size: 3}, normalize: {divide: 255}]\n",
           "stages: 5\n",
           "stages: [decode_image, decode_image, resize: {size: 3}]\n",
           "stages: [decode_image, {normalize: {meen: 1}}, layout: {to: nchw}]\noutputs: image\n",
           "stages: [decode_image, one_hot: {input: lable, classes: 3}, resize: {size: 3}]\n",
           "stagges: [decode_image, resize: {size: 3}]\n",
           "order: {globl: {}}\noutputs: label\n",
           "stages: [{decode_image: {}, resize: {size: 3}}]\n",
           "stages: [decode_image: {channels: 2}, resize: {size: 3}]\n",
           "features: [a]\noutputs: label\n",
       }) {
    EXPECT_EQ(Mistakes(head + rest).size(), 1u)
        << rest << testing::PrintToString(Mistakes(head + rest));
  }
  for (const std::string text : {
           "sorce: {image_folder: {path: p}}\nbatch: {size: 2}\n",
           "source: {image_foldr: {path: p}}\nbatch: {size: 2}\nstages: [decode_image]\n",
           "source: {tfrecord: {files: a}}\nbatch: {size: 2}\nfeatures: {image: {byts: {}}, "
           "label: int64}\nstages: [decode_image, resize: {size: 3}]\n",
           "source: {tfrecord: {files: a}}\nbatch: {size: 2}\nfeature: {image: bytes}\n",
           "source: {tfrecord: {files: a}}\nbatch: {size: 2}\nfeatures: {imgae: bytes}\n"
           "stages: [decode_image, resize: {size: 3}, normalize: {divide: 9}]\noutputs: image\n",
           "source: {tfrecord: {file: a}}\nbatch: {size: 2}\nfeatures: {label: int64}\n",
           "source: {range: {size: 0}}\nbatch: {size: 2}\n",
           "source: {range: {size: 9}}\nbatch: {sise: 2}\n",
           "source: {range: {size: 9}}\nbatch_size: 64\n",
           "source: {range: {size: 9}}\nbatch: 64\n",
       }) {
    EXPECT_EQ(Mistakes(text).size(), 1u) << text << testing::PrintToString(Mistakes(text));
  }
}

TEST(AllMistakesTest, WrongFeaturesAreAllTold) {
  EXPECT_THAT(Mistakes("source: {tfrecord: {files: a}}\nbatch: {size: 2}\nfeatures:\n"
                       "  a: {int64: {shape: [-1]}}\n"
                       "  b: {float: {shape: [0]}}\n"
                       "  c: int64\n"
                       "stages:\n- one_hot: {input: c, classes: 0}\n"),
              ElementsAre(HasSubstr("features.a.int64.shape: a first dimension of -1"),
                          HasSubstr("features.b.float.shape: dimension 0 is 0"),
                          HasSubstr("stages[0].one_hot.classes: is 0")));
}

TEST(AllMistakesTest, SourcesOfAMixtureAreJudgedTogether) {
  EXPECT_THAT(Mistakes("source:\n  mixture:\n    sources:\n"
                       "    - {weight: 0, source: {range: {size: 9}}}\n"
                       "    - {weight: 1, source: {range: {size: 9}}, stages: [one_hot: {input: "
                       "index}]}\n"
                       "batch: {size: 2}\nstages: [cast: {input: source_id}]\n"),
              ElementsAre(HasSubstr("sources[0].weight: is 0; it must lie between"),
                          HasSubstr("sources[1].stages[0].one_hot.classes: is required"),
                          HasSubstr("stages[0].cast.dtype: is required")));
}

TEST(AllMistakesTest, BatchStagesAreJudgedOneByOne) {
  EXPECT_THAT(Mistakes("source: {image_folder: {path: p}}\nbatch: {size: 2}\n"
                       "stages: [decode_image, resize: {size: 8}]\n"
                       "batch_stages:\n- mixup: {alpha: 0}\n- multi_scale: {sizes: 9}\n"
                       "- pack_rows: {inputs: label}\n"),
              ElementsAre(HasSubstr("batch_stages[0].mixup.alpha: is 0"),
                          HasSubstr("batch_stages[1].multi_scale.sizes[0]: is 9"),
                          HasSubstr("batch_stages[2].pack_rows.inputs: `label`")));
}

TEST(AllMistakesTest, SpecsOfMessagesHaveThemToo) {
  auto spec = FolderSpec(
      "stages { decode_image {} } stages { center_crop { size: 0 } } outputs: 'lable' epochs: 0");
  SpecProblems problems;
  Normalize(spec, problems);
  EXPECT_FALSE(InferSignature(spec, problems).has_value());
  std::vector<std::string> paths;
  for (const SpecProblem& problem : problems.all()) paths.push_back(problem.path);
  EXPECT_THAT(paths, ElementsAre("stages[1].center_crop.size", "epochs", "outputs[0]"));
}

// Whatever is wrong with a spec, what is left of it is judged without harm.
TEST(AllMistakesTest, MutilatedSpecsAreRefusedOrTaken) {
  const std::vector<std::string> whole = {
      "source: {tfrecord: {files: a}}\nfeatures:\n  image: {bytes: {}}\n  label: int64\n  boxes: "
      "{tensor: {dtype: float32, shape: [-1, 4], max_count: 9}}\nstages:\n- decode_image\n- boxes: "
      "{format: xyxy}\n- random_iou_crop\n- mosaic: {size: 64, with: label}\n- resize: {size: [8, "
      "9]}\n- random_affine: {degrees: 4, scale: [0.5, 2]}\n- random_zoom_out: {side_range: [1, "
      "2]}\n- pad_rows: {to: 5}\n- normalize: {divide: 255}\n- layout: {to: nchw}\nbatch: {size: "
      "2}\nbatch_stages:\n- multi_scale: {sizes: [4, 5]}\n- pack_rows\n",
      "source:\n  mixture:\n    sources:\n    - weight: 1\n      source: {image_folder: {path: "
      "a}}\n"
      "      order: {block: {block_size: 3}}\n      stages: [decode_image, resize: {size: 8}]\n    "
      "- "
      "weight: 2\n      source: {image_list: {path: b}}\n      filter: {feature: label, in: [1]}\n "
      "   "
      "  stages: [decode_image, cache, resize: {size: 8}]\nstages:\n- one_hot: {classes: 3}\n- "
      "python: {function: a:b, outputs: [{name: x, dtype: uint8, shape: [-1, 2], max_count: 3}]}\n"
      "batch_stages: [mixup: {alpha: 0.5}]\nbatch: {size: 2}\noutputs: [image, label, x]\n"};
  uint64_t random = 1;
  const auto below = [&](size_t end) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(random >> 33) % end;
  };
  int taken = 0;
  for (int i = 0; i < 6000; ++i) {
    std::vector<std::string> words = absl::StrSplit(whole[i % 2], absl::ByAnyChar(" "));
    for (size_t slips = 1 + below(3); slips > 0; --slips) {
      const size_t at = below(words.size());
      const std::string other = words[below(words.size())];
      switch (below(4)) {
        case 0:
          words[at] = other;
          break;
        case 1:
          words.erase(words.begin() + static_cast<int64_t>(at));
          break;
        case 2:
          words[at] = words[at].substr(0, words[at].size() / 2);
          break;
        default:
          words.insert(words.begin() + static_cast<int64_t>(at), other);
      }
    }
    const std::string text = absl::StrJoin(words, " ");
    const auto spec = ParseSpec(text, "f");
    taken += spec.ok() ? 1 : 0;
    if (!spec.ok()) {
      EXPECT_EQ(GetErrorInfo(spec.status())->reason, reason::kSpecInvalid) << text;
    }
  }
  EXPECT_GT(taken, 10);
}

TEST(MissingSpaceTest, IsAnsweredWithTheLineToWrite) {
  EXPECT_EQ(
      StageMistake("resize: {size:8}"),
      "f:6:12: stages[1].resize.size:8: `size:8` lacks a space after the colon: write `size: 8`");
}

TEST(WrittenZeroTest, IsRefusedWithTheRange) {
  EXPECT_THAT(StageMistake("rand_augment: {operations: 0}"),
              EndsWith("f:6:30: stages[1].rand_augment.operations: is 0; it must lie between 1 and "
                       "100"));
  EXPECT_THAT(Mistake("outputs: label\nstages: [decode_image: {max_pixels: 0}]\n"),
              EndsWith("decode_image.max_pixels: is 0; it must be at least 1"));
  EXPECT_THAT(Mistake("outputs: label\norder: {block: {block_size: 5, window: 0}}\n"),
              EndsWith("order.block.window: is 0; it must be at least 1"));
  EXPECT_THAT(Mistake("outputs: label\norder: {interleave: {cycle_length: 0}}\n"),
              EndsWith("order.interleave.cycle_length: is 0; it must be at least 1"));
  EXPECT_THAT(Mistake("outputs: label\nstages: [decode_image: {channels: 0}]\n"),
              EndsWith("decode_image.channels: is 0; it can be 1 (gray), 3 (rgb) or 4 (rgba)"));
  EXPECT_THAT(StageMistake("resize: {size: 8, shorter_side: 0}"),
              EndsWith("resize.shorter_side: is 0; it must lie between 1 and 65535"));
  EXPECT_THAT(StageMistake("resize: {factor: 0}"),
              EndsWith("resize.factor: is 0; it must be above 0 and at most 1000"));
  EXPECT_THAT(StageMistake("gaussian_blur: {kernel: 0}"),
              EndsWith("kernel: is 0; it must be odd and at most 255"));
  EXPECT_THAT(Mistakes("source: {range: {size: 9}}\nbatch: {size: 0}\n"),
              ElementsAre("f:2:15: batch.size: is 0; it must lie between 1 and 16777216"));
  EXPECT_THAT(Mistakes("source: {image_list: {path: a, max_path_bytes: 0}}\nbatch: {size: 1}\n"
                       "outputs: label\n"),
              ElementsAre(HasSubstr("max_path_bytes: is 0; it must lie between 1 and 65536")));
  EXPECT_THAT(Mistakes("source: {tfrecord: {files: a}}\nbatch: {size: 1}\n"
                       "features: {a: {bytes: {max_bytes: 0}}, b: int64}\noutputs: b\n"),
              ElementsAre(HasSubstr("features.a.bytes.max_bytes: is 0; it must be at least 1")));
}

TEST(WrittenZeroTest, IsAllowedWhereItMeansSomething) {
  EXPECT_THAT(
      Mistakes("source: {image_folder: {path: p}}\nbatch: {size: 2}\nseed: 0\nskip: 0\n"
               "split: {parts: {a: 1}, use: a, salt: 0}\n"
               "stages:\n- decode_image\n- resize: {size: 8}\n- random_horizontal_flip: "
               "{probability: 0}\n- solarize: {threshold: 0}\n- random_affine: {degrees: 0}\n"),
      IsEmpty());
}

TEST(ForeignWordsTest, AreAnsweredWithTheLineToWrite) {
  const std::string rest = "outputs: label\n";
  EXPECT_THAT(Mistake(rest + "shuffle: true\n"), HasSubstr("write `order: global`"));
  EXPECT_THAT(Mistake(rest + "shuffle: false\n"), HasSubstr("leave it out"));
  EXPECT_THAT(Mistake(rest + "batch_size: 32\n"), HasSubstr("write `batch: {size: 32}`"));
  EXPECT_THAT(Mistake(rest + "drop_last: true\n"), HasSubstr("drop_remainder: true}`"));
  EXPECT_THAT(Mistake(rest + "validation_split: 0.2\n"), HasSubstr("write `split: {parts: {"));
  EXPECT_THAT(Mistake(rest + "num_workers: 8\n"), HasSubstr("Loader(..., workers=8)"));
  EXPECT_THAT(Mistake(rest + "num_epochs: 90\n"), HasSubstr("write `epochs: 90`"));
  EXPECT_THAT(Mistake(rest + "order: shuffle\n"), HasSubstr("write `order: global`"));
  EXPECT_THAT(Mistakes("source: {range: {size: 9}}\nbatch: {size: 2, drop_last: true}\n"),
              ElementsAre(EndsWith("unknown field `drop_last`; write `drop_remainder: true`")));
  for (const auto& [written, advice] : std::vector<std::pair<std::string, std::string>>{
           {"Resize: 256", "write `resize: {shorter_side: 256}`"},
           {"Resize(224)", "write `resize: {shorter_side: 224}`"},
           {"\"T.Resize((200, 300))\"", "`resize: {size: [200, 300]}`"},
           {"RandomResizedCrop: 192", "write `random_resized_crop: {size: 192}`"},
           {"ToTensor", "`layout: {to: nchw}`"},
           {"transforms.ToTensor()", "normalize: {divide: 255}"},
           {"CenterCrop: {size: 224}", "write `center_crop: {size: 224}`"},
           {"RandomCrop: {size: 32}", "write `random_crop: {size: 32}`"},
           {"RandomCrop: {size: [32, 48], padding_mode: x}",
            "write `random_crop: {size: [32, 48]}`"},
           {"Resize: {size: 32}", "write `resize: {shorter_side: 32}`"},
           {"RandomHorizontalFlip: {p: 0.3}", "write `random_horizontal_flip: {probability: 0.3}`"},
           {"RandomHorizontalFlip(0.3)", "`{probability: 0.3}` below it"},
           {"HorizontalFlip: true", "`{probability: 0.5}` below it"},
           {"random_horizontal_flip: {p: 0.3}", "unknown field `p`; write `probability: 0.3`"},
           {"ColorJitter: {brightness: 0.2, hue: 0.05}",
            "write `color_jitter: {brightness: 0.2, hue: 0.05}`"},
           {"Normalize: {mean: [0.485, 0.5, 0.5], std: [0.2, 0.2, 0.2]}",
            "write `normalize: {mean: [123.675, 127.5, 127.5], std: [51, 51, 51]}`"},
           {"Normalize: {mean: 127, std: 1}", "write `normalize: {mean: 127, std: 255}`"},
           {"GaussianBlur: {kernel_size: 7}", "write `gaussian_blur: {kernel: 7}`"},
           {"ColorJitter", "write `color_jitter: {brightness: 0.4,"},
           {"Normalize", "mean: [123.675, 116.28, 103.53]"},
           {"tf.image.random_flip_left_right", "write `random_horizontal_flip`"},
           {"tf.image.decode_jpeg: {}", "write `decode_image`"},
           {"tf.image.resize: [8, 8]", "write `resize: {size: [8, 8]}`"},
           {"tf.image.random_brightness: 0.3", "write `color_jitter: {brightness: 0.3}`"},
           {"Lambda", "write `python: {function:"},
           {"HorizontalFlip", "write `random_horizontal_flip`"}}) {
    EXPECT_THAT(StageMistake(written), HasSubstr(advice)) << written;
  }
}

TEST(ForeignWordsTest, MayBeMisspelt) {
  const std::string rest = "outputs: label\n";
  EXPECT_THAT(Mistake(rest + "shuffel: true\n"), HasSubstr("`shuffel`; write `order: global`"));
  EXPECT_THAT(Mistake(rest + "num_worker: 8\n"), HasSubstr("Loader(..., workers=8)"));
  EXPECT_THAT(Mistake(rest + "batch_sise: 8\n"), HasSubstr("write `batch: {size: 8}`"));
  EXPECT_THAT(Mistake(rest + "order: shufle\n"), HasSubstr("write `order: global`"));
  EXPECT_THAT(StageMistake("CenterCropp: 8"), HasSubstr("did you mean `center_crop`?"));
  EXPECT_THAT(StageMistake("ToTensr"), HasSubstr("normalize: {divide: 255}"));
}

TEST(PunctuationTest, ALackingSpaceIsNamed) {
  EXPECT_THAT(Mistakes("source: {range: {size:9}}\nbatch: {size: 2}\n"),
              ElementsAre(EndsWith("`size:9` lacks a space after the colon: write `size: 9`")));
  EXPECT_THAT(Mistakes("source: {range: {size: 9}}\nbatch:\n  size:2\n"),
              ElementsAre(HasSubstr("write `size: 2`")));
  EXPECT_THAT(StageMistake("random_crop:{size: 8}"), HasSubstr("lacks a space after the colon"));
}

TEST(PunctuationTest, ABracketThatIsNotClosedIsNamedByItsPlace) {
  EXPECT_THAT(
      Mistakes("source: {range: {size: 9}\nbatch: {size: 2}\n"),
      ElementsAre("f:1:9: the `{` here is not closed; write `}` behind what belongs to it"));
  EXPECT_THAT(
      Mistakes("source: {range: {size: 9}} # {\nbatch: {size: 2}\noutputs: [index, 'it''s {'\n"),
      ElementsAre("f:3:10: the `[` here is not closed; write `]` behind what belongs to it"));
}

// The one fault of a text that is no YAML.
std::string Fault(absl::string_view text) {
  const std::vector<std::string> mistakes = Mistakes(text);
  EXPECT_EQ(mistakes.size(), 1u) << testing::PrintToString(mistakes);
  return mistakes.empty() ? "" : mistakes[0];
}

std::string StageFault(absl::string_view stages) {
  return Fault(
      absl::StrCat("source: {image_folder: {path: p}}\nstages:\n", stages, "batch: {size: 4}\n"));
}

TEST(YamlDiagnosisTest, AQuoteThatIsNotClosedIsNamedByItsPlace) {
  EXPECT_EQ(Fault("source:\n  image_folder: {path: '../photos}\nbatch: {size: 4}\n"),
            "f:2:24: the `'` here is not closed; write `'` behind what belongs to it");
  EXPECT_EQ(Fault("source:\n  image_folder: {path: \"../photos}\noutputs: [\"image\"]\n"),
            "f:2:24: the `\"` here is not closed; write `\"` behind what belongs to it");
  EXPECT_THAT(Fault("source: {image_folder: {path: it's}}\nbatch: {size: 4]\n"),
              StartsWith("f:2:8: the `{` here is not closed"));
}

TEST(YamlDiagnosisTest, ABracketThatClosesNothingOrAnotherIsNamed) {
  EXPECT_EQ(Fault("source:\n  image_folder: {path: photos]}\nbatch: {size: 4}\n"),
            "f:2:30: the `]` here closes nothing; remove it");
  EXPECT_EQ(Fault("source: {range: {size: 9}}}\nbatch: {size: 4}\n"),
            "f:1:27: the `}` here closes nothing; remove it");
  const char* const open =
      "f:4:18: the `[` here is not closed; write `]` behind what belongs to it";
  EXPECT_EQ(StageFault("- decode_image\n- resize: {size: [64, 64}\n"), open);
  EXPECT_EQ(StageFault("- decode_image\n- resize: {size: [64, 64}}\n"), open);
}

TEST(YamlDiagnosisTest, TwoKeysInOneEntryLackAComma) {
  EXPECT_EQ(StageFault("- resize: {size: 64 interpolation: cubic}\n"),
            "f:3:21: write a comma before `interpolation:`");
  EXPECT_THAT(Fault("source: {image_folder: path: photos}\nbatch: {size: 4}\n"),
              EndsWith("f:1:24: a key cannot follow a key; put what belongs together into "
                       "brackets: `{path: ...}`"));
}

TEST(YamlDiagnosisTest, ADashInAnotherColumnIsTold) {
  const std::string first = "the dash must stand in the column of the dash above it (column 1)";
  const std::string third = "the dash must stand in the column of the dash above it (column 3)";
  const std::string resize = "resize: {size: 64}\n";
  EXPECT_EQ(StageFault("- decode_image\n  - " + resize), "f:4:3: " + first);
  EXPECT_EQ(StageFault("- decode_image\n - " + resize), "f:4:2: " + first);
  EXPECT_EQ(StageFault("- decode_image: {}\n  - " + resize), "f:4:3: " + first);
  EXPECT_EQ(StageFault("  - decode_image\n - " + resize), "f:4:2: " + third);
  EXPECT_EQ(StageFault("  - decode_image\n- " + resize), "f:4:1: " + third);
}

TEST(YamlDiagnosisTest, AKeyInAnotherColumnIsTold) {
  EXPECT_EQ(Fault("source: {range: {size: 9}}\nbatch: {size: 4}\n  order: global\n"),
            "f:3:3: `order` is indented further than `batch`, which has its value already: begin "
            "it in column 1");
  EXPECT_THAT(Fault("source:\n    range: {size: 9}\n  order: global\nbatch: {size: 4}\n"),
              EndsWith("begin it in column 1 or in column 5"));
  EXPECT_EQ(Fault("  source: {range: {size: 9}}\nbatch: {size: 4}\n"),
            "f:2:1: `batch` must stand in the column of the key above it (column 3)");
  for (const char* const indent : {"  ", "    "}) {
    EXPECT_THAT(
        StageFault(absl::StrCat("  - decode_image\n", indent, "resize: {size: 64}\n")),
        EndsWith(": write a dash before `resize`, in the column of the dash above it (column "
                 "3)"));
  }
}

TEST(YamlDiagnosisTest, AColonThatLacksOrIsTooManyIsTold) {
  EXPECT_EQ(Fault("source\n  image_folder: {path: p}\nbatch: {size: 4}\n"),
            "f:1:1: write a colon after `source`");
  EXPECT_EQ(Fault("source: {image_folder: {path: p}}\nstages # of a photo\n- decode_image\n"
                  "- resize: {size: 64}\nbatch: {size: 4}\n"),
            "f:2:1: write a colon after `stages`");
  EXPECT_EQ(Fault("source: image_folder: {path: p}\nbatch: {size: 4}\n"),
            "f:1:9: `image_folder:` cannot follow `source:` in its line: begin it on a new line, "
            "indented further than `source`");
  EXPECT_THAT(Fault("source:\n  image_folder:\n    path: my photos: all\nbatch: {size: 4}\n"),
              EndsWith("must stand in quotes: `path: \"my photos: all\"`"));
}

TEST(YamlDiagnosisTest, ADashThatLacksItsSpaceIsTold) {
  EXPECT_EQ(StageFault("  - decode_image\n  -resize: {size: 64}\n"),
            "f:4:3: write a space after the dash: `- resize:`");
  EXPECT_EQ(StageFault("-decode_image\n-resize: {size: 64}\n"),
            "f:3:1: write a space after the dash: `- decode_image`");
  EXPECT_THAT(
      StageFault("- decode_image\n-resize: {size: 64}\n"),
      HasSubstr("f:4:1: -resize: `-resize` lacks a space after the dash: write `- resize`"));
}

TEST(YamlDiagnosisTest, WhatIsUnsureKeepsTheParsersWords) {
  for (const char* const text :
       {"seed: -\nbatch: 4\n", "a: |\n  - b\n c: [\n", "a: *nothing\n",
        "{\"source\": {\"range\": {\"size\": 9}}, \"batch\": {\"size\": 2}"}) {
    EXPECT_THAT(Fault(text), testing::AnyOf(HasSubstr("not valid YAML"), HasSubstr("alias")))
        << text;
  }
}

TEST(PunctuationTest, AnEqualsSignOrABlankInPlaceOfAColonIsTold) {
  EXPECT_EQ(StageMistake("resize: {size=64}"),
            "f:6:12: stages[1].resize.size=64: `size=64` lacks a colon and a space: write "
            "`size: 64`");
  EXPECT_THAT(StageMistake("resize: {size 64}"), EndsWith("write `size: 64`"));
  EXPECT_THAT(StageMistake("resize: size=64"), EndsWith("write `{size: 64}`"));
  EXPECT_THAT(Mistakes("source: {range: {size: 9}}\nbatch {size: 4}\n"),
              Contains(HasSubstr("write a colon after `batch`")));
}

TEST(ForeignWordsTest, OfTypesAreTold) {
  EXPECT_THAT(StageMistake("cast: float"),
              EndsWith("must be a map, but is `float`; write cast: {dtype: float32}"));
  EXPECT_THAT(StageMistake("cast: {dtype: float}"),
              EndsWith("unknown value `float`; write float32"));
  EXPECT_THAT(StageMistake("cast: {dtype: double}"), EndsWith("write float64"));
  EXPECT_THAT(StageMistake("cast: {dtype: int}"), EndsWith("write int64"));
  EXPECT_THAT(StageMistake("cast: {dtype: str}"), Not(HasSubstr("write bytes")));
  EXPECT_THAT(StageMistake("python: {function: \"a:b\", outputs: [{name: x, dtype: float, shape: "
                           "[2]}]}"),
              EndsWith("outputs[0].dtype: unknown value `float`; write float32"));
}

TEST(ForeignWordsTest, OfOptionsAreTold) {
  EXPECT_THAT(StageMistake("random_crop: {size: 8, padding_mode: reflect}"),
              AllOf(HasSubstr("write `fill: 0`"), Not(HasSubstr("`padding`"))));
  EXPECT_THAT(StageMistake("resize: {size: 8, method: bilinear}"),
              EndsWith("unknown field `method`; write `interpolation: linear`"));
  EXPECT_THAT(StageMistake("resize: {size: 8, interpolation: bicubic}"), EndsWith("write cubic"));
  EXPECT_THAT(StageMistake("rand_augment: {num_ops: 2}"), EndsWith("write `operations: 2`"));
  for (const char* const word : {"root", "dir"}) {
    EXPECT_THAT(Mistakes(absl::StrCat("source: {image_folder: {", word,
                                      ": ../a}}\nbatch: {size: 4}\noutputs: label\n")),
                Contains(EndsWith(absl::StrCat("unknown field `", word, "`; write `path: ../a`"))));
  }
}

TEST(ForeignWordsTest, OfSourcesAreTold) {
  const auto said = [](absl::string_view source) {
    return Mistakes(absl::StrCat("source: ", source, "\nbatch: {size: 4}\n"));
  };
  EXPECT_THAT(said("../photos"),
              ElementsAre(EndsWith("Write `source: {image_folder: {path: ../photos}}`")));
  EXPECT_THAT(said("data/train.csv"),
              ElementsAre(EndsWith("Write `source: {image_list: {path: data/train.csv}}`")));
  EXPECT_THAT(said("{image_dir: a/b}"), ElementsAre(EndsWith("write `image_folder: {path: a/b}`")));
  EXPECT_THAT(said("{csv: a.csv}"), ElementsAre(EndsWith("write `image_list: {path: a.csv}`")));
}

TEST(ListOfNamesTest, LacksItsBrackets) {
  EXPECT_EQ(Mistake("stages: [decode_image, resize: {size: 8}]\noutputs: image, label\n"),
            "f:4:10: outputs: `image, label` is one name; write a list: `outputs: [image, label]`");
}

TEST(StageNamesTest, LeaveOutTheOneForTests) {
  EXPECT_THAT(StageMistake("qqqqqq"), AllOf(HasSubstr("valid are "), Not(HasSubstr("fault"))));
}

// Every line that is offered is one.
TEST(ForeignWordsTest, WhatIsOfferedIsValid) {
  for (const std::string written :
       {"Resize", "RandomResizedCrop", "CenterCrop", "ColorJitter", "Normalize", "rotate", "hflip",
        "RandomRotation", "GaussianBlur", "RandomGrayscale", "ResizeWithPad", "adjust_hue",
        "RandomVerticalFlip", "TrivialAugmentWide", "permute", "Rescaling", "RandomCrop"}) {
    const std::string message = StageMistake(written);
    const std::vector<std::string> parts = absl::StrSplit(message, '`');
    for (size_t i = 3; i < parts.size(); i += 2) {
      if (parts[i][0] == '{') continue;  // an option
      EXPECT_THAT(
          Mistakes(absl::StrCat("source: {image_folder: {path: p}}\nbatch: {size: 2}\noutputs: "
                                "label\nstages:\n- decode_image\n- resize: {size: 300}\n- ",
                                parts[i], "\n")),
          IsEmpty())
          << message;
    }
  }
}

TEST(NoMapTest, SaysWhatWasProbablyMeant) {
  EXPECT_THAT(StageMistake("resize: 224"),
              EndsWith("stages[1].resize: must be a map, but is `224`; write resize: {size: 224} "
                       "for exactly that height and width, or resize: {shorter_side: 224} to keep "
                       "the proportions, as torchvision does"));
  EXPECT_THAT(StageMistake("center_crop: [3, 4]"), EndsWith("write center_crop: {size: [3, 4]}"));
  EXPECT_THAT(StageMistake("random_horizontal_flip: 0.3"), EndsWith("{probability: 0.3}"));
  EXPECT_THAT(StageMistake("cast: float32"), EndsWith("write cast: {dtype: float32}"));
  EXPECT_THAT(StageMistake("layout: nchw"), EndsWith("write layout: {to: nchw}"));
  EXPECT_THAT(StageMistake("one_hot: 10"), EndsWith("write one_hot: {classes: 10}"));
  EXPECT_THAT(Mistakes("source: {range: 9}\nbatch: 4\n"),
              ElementsAre(EndsWith("write range: {size: 9}"), EndsWith("write batch: {size: 4}")));
  EXPECT_THAT(Mistake("errors: substitute\noutputs: label\n"),
              EndsWith("write errors: {policy: substitute}"));
}

TEST(EnumTest, OnlyValuesThatTheFieldAcceptsAreNamed) {
  EXPECT_THAT(StageMistake("random_affine: {interpolation: lanczos}"),
              EndsWith("unknown value `lanczos`; valid are nearest, linear"));
  EXPECT_THAT(StageMistake("resize: {size: 4, interpolation: lanczos}"),
              EndsWith("valid are nearest, linear, area, cubic"));
  EXPECT_THAT(StageMistake("random_affine: {interpolation: cubic}"),
              EndsWith("interpolation: can be nearest or linear here"));
  EXPECT_THAT(StageMistake("cast: {dtype: text}"), testing::Not(HasSubstr("bytes")));
}

TEST(TabTest, IsNamed) {
  EXPECT_THAT(Mistakes("source:\n\trange: {size: 9}\nbatch:\n\tsize: 2\n"),
              ElementsAre("f:2:1: is indented by a tab, and so are 1 more; YAML takes spaces only: "
                          "write two spaces for each tab"));
  EXPECT_THAT(
      Mistakes("source: {range: {size: 9}}\nstages:\n-\tresize: {size: 8}\nbatch:\n  size: 2\n"),
      ElementsAre(StartsWith("f:3:2: is indented by a tab")));
}

TEST(ParenthesesTest, AreNoLists) {
  EXPECT_THAT(
      Mistakes("source: {range: {size: 9}}\nstages:\n- resize: {size: (8, 8)}\nbatch: {size: 2}\n"),
      testing::Contains(
          HasSubstr("`8)` ends a list that YAML takes for fields: write [ and ] around it")));
}

}  // namespace
}  // namespace bulkhead
