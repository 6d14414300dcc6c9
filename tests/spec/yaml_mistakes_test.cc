// What is no YAML, or other programs' words, and what people are told of it.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "tests/spec/mistakes.h"

namespace bulkhead {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST(MissingSpaceTest, IsAnsweredWithTheLineToWrite) {
  EXPECT_EQ(
      StageMistake("resize: {size:8}"),
      "f:6:12: stages[1].resize.size:8: `size:8` lacks a space after the colon: write `size: 8`");
}

TEST(ClassesTest, AreAListOfNamesAndNoNumberOrSwitch) {
  for (const std::string text : {"false", "7", "True", "1e3"}) {
    EXPECT_THAT(Mistakes(absl::StrCat("source:\n  image_folder:\n    path: p\n    classes: ", text,
                                      "\nbatch: {size: 2}\noutputs: label\n")),
                ElementsAre(absl::StrCat(
                    "f:4:14: source.image_folder.classes: must be a list of names, but is `", text,
                    "`; write such as `classes: [cat, dog]`, or leave it out")));
  }
  for (const std::string text : {"['7']", "[7, false]", "cat"}) {
    EXPECT_THAT(Mistakes(absl::StrCat("source: {image_folder: {path: p, classes: ", text,
                                      "}}\nbatch: {size: 2}\noutputs: label\n")),
                IsEmpty())
        << text;
  }
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
