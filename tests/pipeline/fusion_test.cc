// Fusion never changes a byte, nor a verdict: over generated files, whole and damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/pipeline/fusion_fixture.h"

namespace bulkhead {
namespace {

using namespace fusion_testing;  // NOLINT
using testing::ElementsAre;

constexpr size_t kPlaces = 1000;

// Every sampling, scans in one part and in several, restart markers, grays, and a PNG.
std::vector<std::string> WholeFiles() {
  std::vector<std::string> files;
  for (const int across : {1, 2}) {
    for (const int down : {1, 2}) {
      JpegEncodeOptions options;
      options.chroma_width_divisor = across;
      options.chroma_height_divisor = down;
      options.restart_interval = across == down ? 0 : 4;
      files.push_back(MakeJpeg(86, 111, options));
    }
  }
  JpegEncodeOptions options;
  options.restart_interval = 3;
  options.quality = 40;
  files.push_back(MakeJpeg(150, 96, options));
  options.progressive = true;
  files.push_back(MakeJpeg(72, 75, options));
  options.restart_interval = 0;
  files.push_back(MakeJpeg(72, 75, options));
  files.push_back(MakeJpeg(80, 90, {}, 1));
  files.push_back(EncodePng(MakePicture(60, 64, 3).view()).value());
  return files;
}

std::vector<std::string> DamagedFiles(const std::vector<std::string>& whole) {
  const size_t places_of_each = (kPlaces + whole.size() - 1) / whole.size();
  std::vector<std::string> files;
  for (const std::string& file : whole) {
    for (size_t place = 0; place < places_of_each; ++place) {
      files.push_back(DamagedAt(file, place, places_of_each));
    }
  }
  return files;
}

// What runs of a chain behind the decoder, by the names of its stages.
std::vector<std::string> RunningStages(const std::string& chain, bool fuse) {
  const std::string file = MakeJpeg(86, 111);
  return PipelineUnderTest(MakeSpec(kDecode + chain), {MakeRecord(file)}, fuse)
      .pipeline()
      .StageNames();
}

TEST(FusionTest, NeighboursRunAsOneWhereTheyCan) {
  const std::string flip = "stages { random_horizontal_flip {} } ";
  const std::string floats =
      "stages { normalize { divide: 2 } } stages { layout { to: IMAGE_LAYOUT_NCHW } } ";
  const std::string fault = "stages { fault { touch: '4KiB' } } ";
  const std::string crop = "stages { random_resized_crop { size: 32 } } ";
  const std::string resize = "stages { resize { size: 32 } } ";
  EXPECT_THAT(RunningStages(crop + flip + floats, true), ElementsAre("stages[0] decode_image"));
  EXPECT_THAT(RunningStages(fault + crop + fault + flip + fault + floats, true),
              ElementsAre("stages[0] decode_image", "stages[1] fault", "stages[3] fault",
                          "stages[5] fault"));
  EXPECT_THAT(RunningStages(flip + resize + flip + floats, true),
              ElementsAre("stages[0] decode_image", "stages[2] resize"));
  // A second flip behind a resize is one too many for its pass.
  EXPECT_THAT(RunningStages(resize + flip + flip + floats, true),
              ElementsAre("stages[0] decode_image", "stages[1] resize",
                          "stages[3] random_horizontal_flip", "stages[4] normalize"));
  EXPECT_THAT(RunningStages("stages { center_crop { size: 32 } } " + resize + floats, true),
              ElementsAre("stages[0] decode_image", "stages[2] resize"));
  // A decoder takes its crop even so: which rows are needed decides which damage counts.
  EXPECT_THAT(RunningStages(crop + flip + floats, false),
              ElementsAre("stages[0] decode_image", "stages[2] random_horizontal_flip",
                          "stages[3] normalize", "stages[4] layout"));
}

TEST(FusionTest, StagesOfTheTrainerLeaveThePixelsToThoseBefore) {
  const std::string pixels =
      "stages { random_resized_crop { size: 32 } } stages { random_horizontal_flip {} } ";
  const std::string rest =
      "stages { normalize { divide: 2 at: NORMALIZE_AT_TRAINER } } "
      "stages { layout { to: IMAGE_LAYOUT_NCHW } } stages { cast { dtype: DTYPE_FLOAT16 } } ";
  EXPECT_THAT(RunningStages(pixels + rest, true),
              ElementsAre("stages[0] decode_image", "stages[3] normalize", "stages[4] layout",
                          "stages[5] cast"));
  const SampleKey key{3, 1, 5};
  std::vector<std::string> images;
  for (const std::string& stages : {pixels, pixels + rest}) {
    for (const bool fuse : {true, false}) {
      PipelineUnderTest test(MakeSpec(kDecode + stages), {MakeRecord(MakeJpeg(86, 111))}, fuse);
      const Produced produced = test.Produce(0, key);
      ASSERT_TRUE(produced.status.ok()) << produced.status;
      images.push_back(test.Output(produced, "image"));
    }
  }
  for (const std::string& image : images) EXPECT_EQ(image, images[0]);
}

TEST(FusionTest, ChainsOfWholeFilesAreThoseOfTheStagesOneByOne) {
  const std::vector<std::string> files = WholeFiles();
  for (const std::string& chain : Chains()) {
    FusionCount count;
    ExpectFusedEqualsUnfused(kDecode + chain, files, count);
    if (HasFatalFailure()) return;
    EXPECT_EQ(count.refused, 0) << chain;
  }
}

TEST(FusionTest, ChainsOfDamagedFilesAreThoseOfTheStagesOneByOne) {
  const std::vector<std::string> files = DamagedFiles(WholeFiles());
  ASSERT_GE(files.size(), kPlaces);
  FusionCount all;
  for (const std::string& chain : Chains()) {
    FusionCount count;
    ExpectFusedEqualsUnfused(kDecode + chain, files, count);
    if (HasFatalFailure()) return;
    // Some of the damage shows in no verdict, but in the pixels.
    EXPECT_GT(count.refused, static_cast<int>(files.size() / 2)) << chain;
    EXPECT_GT(count.pictures, static_cast<int>(files.size() / 4)) << chain;
    all.Add(count);
  }
  EXPECT_GT(all.by_seek_entries, files.size() / 4);
  EXPECT_GT(all.by_coefficients, files.size() / 4);
}

TEST(FusionTest, OptionsOfTheDecoderChangeNothingOfThat) {
  const std::vector<std::string> whole = WholeFiles();
  std::vector<std::string> files = DamagedFiles(whole);
  files.insert(files.end(), whole.begin(), whole.end());
  for (const std::string options : {"exif_orientation: true", "truncated { accept: 0.5 }",
                                    "scale: 2 fancy_upsampling: false dct: DCT_METHOD_IFAST"}) {
    for (const std::string crop :
         {"stages { random_resized_crop { size: 32 } }", "stages { random_crop { size: 30 } }"}) {
      FusionCount count;
      ExpectFusedEqualsUnfused(
          "stages { decode_image { max_pixels: 4000000 " + options + " } }" + crop, files, count);
      if (HasFatalFailure()) return;
      EXPECT_GE(count.pictures, static_cast<int>(2 * whole.size())) << options << crop;
    }
  }
}

}  // namespace
}  // namespace bulkhead
