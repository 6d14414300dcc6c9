#include "server/spec/lint.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/spec/yaml/yaml.h"

namespace bulkhead {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::vector<std::string> Warnings(absl::string_view text) {
  SpecNotes notes;
  const auto spec = ParseSpec(text, "f", notes);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return notes.warnings;
}

// Of a shuffled folder whose images go through `stages`, one a line from line 6 on.
std::vector<std::string> OfStages(absl::string_view stages) {
  return Warnings(
      absl::StrCat("source: {image_folder: {path: p}}\nbatch: {size: 2}\norder: global\n",
                   "stages:\n- decode_image\n", stages, "- resize: {size: 8}\n"));
}

std::vector<std::string> OfNormalize(absl::string_view constants, absl::string_view before = "") {
  return Warnings(
      absl::StrCat("source: {image_folder: {path: p}}\nbatch: {size: 2}\norder: global\n",
                   "stages:\n- decode_image\n- resize: {size: 8}\n", before, "- normalize: {",
                   constants, "}\n"));
}

constexpr char kTorchvision[] = "mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]";
constexpr char kTimes255[] = "mean: [123.675, 116.28, 103.53], std: [58.395, 57.12, 57.375]";

TEST(LintConstantsTest, ThoseFor0To1OnImagesOf0To255AreGivenTimes255) {
  EXPECT_THAT(
      OfNormalize(kTorchvision),
      ElementsAre(AllOf(StartsWith("f:7:3: warning: stages[2].normalize: gives values from "),
                        HasSubstr("are for values of 0 to 1, but they are 0 to 255 here"),
                        EndsWith(absl::StrCat("write ", kTimes255)))));
  EXPECT_THAT(OfNormalize("mean: 0.5, std: 0.5"),
              ElementsAre(EndsWith("write mean: 127.5, std: 127.5")));
  EXPECT_THAT(OfNormalize(kTorchvision, "- layout: {to: nchw}\n"),
              ElementsAre(HasSubstr("values of 0 to 1")));
}

TEST(LintConstantsTest, ThoseThatFitAreFine) {
  EXPECT_THAT(OfNormalize(kTimes255), IsEmpty());
  EXPECT_THAT(OfNormalize("divide: 255"), IsEmpty());
  EXPECT_THAT(OfNormalize("divide: 127.5, subtract: 1"), IsEmpty());
  EXPECT_THAT(OfNormalize("mean: 0, std: 1"), IsEmpty());
  EXPECT_THAT(OfNormalize(kTorchvision, "- normalize: {divide: 255}\n"), IsEmpty());
  EXPECT_THAT(OfNormalize(kTorchvision,
                          "- normalize: {divide: 255}\n- layout: {to: nchw}\n- cast: {dtype: "
                          "float16}\n"),
              IsEmpty());
}

TEST(LintConstantsTest, ThoseFor0To255OnImagesOf0To1AreNamed) {
  EXPECT_THAT(OfNormalize(kTimes255, "- normalize: {divide: 255}\n"),
              ElementsAre(HasSubstr("are for values of 0 to 255, but they are 0 to 1 here; leave "
                                    "the stage before it out")));
}

TEST(LintConstantsTest, ValuesOver1000AreNamed) {
  EXPECT_THAT(OfNormalize("divide: 0.1"),
              ElementsAre(HasSubstr("gives values from 0 to 2550: of values from 0 to 255; for -1 "
                                    "to 1 write normalize: {divide: 127.5, subtract: 1}")));
  EXPECT_THAT(Warnings("source: {image_folder: {path: p}}\nbatch: {size: 2}\norder: global\n"
                       "outputs: label\nstages:\n- decode_image: {keep_16_bit: true}\n"
                       "- normalize: {divide: 1}\n"),
              ElementsAre(HasSubstr("from 0 to 65535")));
}

TEST(LintConstantsTest, WhatComesFromElsewhereIsUnknown) {
  EXPECT_THAT(OfNormalize(kTorchvision,
                          "- python: {function: 'a:b', outputs: [{name: image, dtype: float32, "
                          "shape: [8, 8, 3]}]}\n"),
              IsEmpty());
  EXPECT_THAT(Warnings("source: {tfrecord: {files: a}}\nbatch: {size: 2}\n"
                       "features: {x: {float: {shape: [3]}}}\n"
                       "stages: [normalize: {input: x, mean: 0.5, std: 0.5}]\n"),
              IsEmpty());
}

TEST(LintConstantsTest, TheCommonStagesOfAMixtureAreToldOnce) {
  EXPECT_THAT(
      Warnings(
          "source:\n  mixture:\n    sources:\n"
          "    - {weight: 1, source: {image_folder: {path: a}}, order: global}\n"
          "    - {weight: 1, source: {image_folder: {path: b}}, order: global}\n"
          "batch: {size: 2}\nstages:\n- decode_image\n- resize: {size: 8}\n- normalize: {mean: "
          "0.5, std: 0.5}\n"),
      ElementsAre(StartsWith("f:10:3: warning: stages[2].normalize:")));
}

std::string Folder(absl::string_view options, absl::string_view rest) {
  return absl::StrCat("source:\n  image_folder: {path: p", options,
                      "}\nbatch: {size: 2}\noutputs: path\n", rest);
}

TEST(LintOrderTest, ClassFoldersInOrderAreNamed) {
  const auto warning =
      AllOf(StartsWith("f:2:3: warning: source.image_folder: is read class after "
                       "class, so that a batch holds one class: write order: "
                       "global"));
  EXPECT_THAT(Warnings(Folder("", "")), ElementsAre(warning));
  EXPECT_THAT(Warnings(Folder("", "order: sequential\n")), ElementsAre(warning));
  EXPECT_THAT(Warnings(Folder("", "order: global\n")), IsEmpty());
  EXPECT_THAT(Warnings(Folder("", "order: {block: {block_size: 10}}\n")), IsEmpty());
  EXPECT_THAT(Warnings(Folder("", "epochs: 1\n")), IsEmpty()) << "an evaluation";
  EXPECT_THAT(Warnings(Folder(", unlabeled: true", "")), IsEmpty());
}

TEST(LintOrderTest, SourcesOfAMixtureHaveTheirOwnPlaces) {
  EXPECT_THAT(
      Warnings("source:\n  mixture:\n    sources:\n"
               "    - {weight: 1, source: {image_folder: {path: a}}, order: global}\n"
               "    - {weight: 1, source: {image_folder: {path: b}}}\n"
               "batch: {size: 2}\noutputs: label\n"),
      ElementsAre(HasSubstr("f:5:28: warning: source.mixture.sources[1].source.image_folder: "
                            "is read class after class")));
}

TEST(LintTest, AStageBeforeIsNoMatter) { EXPECT_THAT(OfStages("- equalize\n"), IsEmpty()); }

}  // namespace
}  // namespace bulkhead
