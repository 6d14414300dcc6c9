// What people write wrongly in a spec, and what they are told: all mistakes at once, each once,
// with the line to write instead.
#include "tests/spec/mistakes.h"

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

TEST(ListOfNamesTest, LacksItsBrackets) {
  EXPECT_EQ(Mistake("stages: [decode_image, resize: {size: 8}]\noutputs: image, label\n"),
            "f:4:10: outputs: `image, label` is one name; write a list: `outputs: [image, label]`");
}

TEST(StageNamesTest, LeaveOutTheOneForTests) {
  EXPECT_THAT(StageMistake("qqqqqq"), AllOf(HasSubstr("valid are "), Not(HasSubstr("fault"))));
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

}  // namespace
}  // namespace bulkhead
