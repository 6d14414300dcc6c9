#include "server/stages/running/decoded_frames.h"

#include <gtest/gtest.h>

#include <cstring>

#include "server/base/limits.h"

namespace bulkhead {
namespace {

// Keeps a gray image of one value, made in `image`.
bool Keep(DecodedFrames& frames, uint64_t stage, uint64_t frame, uint8_t value, Image& image,
          ImageSize size = {4, 4}) {
  const MutableImageView view = image.Reshape(size, 1);
  std::memset(view.data, value, view.row_bytes() * view.height);
  return frames.Keep(stage, frame, view, image);
}

// The value of a frame; -1: it is not kept.
int ValueOf(DecodedFrames& frames, uint64_t stage, uint64_t frame) {
  const ImageView view = frames.Find(stage, frame);
  return view.data == nullptr ? -1 : view.row(0)[0];
}

TEST(DecodedFramesTest, AFrameIsKeptForItsLeaseAndItsStage) {
  DecodedFrames frames;
  Image image;
  frames.Begin(1, true);
  EXPECT_TRUE(frames.keeps());
  EXPECT_TRUE(Keep(frames, 7, 1, 10, image));
  image.Reshape({4, 4}, 1).row(0)[0] = 99;  // other memory
  for (int sample = 0; sample < 3; ++sample) {
    EXPECT_EQ(ValueOf(frames, 7, 1), 10);
    frames.Begin(1, false);
  }
  EXPECT_FALSE(frames.keeps());
  EXPECT_EQ(ValueOf(frames, 8, 1), -1);
  EXPECT_EQ(ValueOf(frames, 7, 2), -1);
  frames.Begin(2, true);
  EXPECT_EQ(ValueOf(frames, 7, 1), -1);
  EXPECT_TRUE(Keep(frames, 7, 2, 20, image));
  EXPECT_EQ(ValueOf(frames, 7, 2), 20);
}

TEST(DecodedFramesTest, TheLeastRecentlyUsedGoFirstAndNoneOfTheSampleAtHand) {
  DecodedFrames frames;
  Image image;
  const ImageSize third = {1024, static_cast<int>(kMostKeptFrameBytes / 1024 / 3)};
  for (uint8_t i = 1; i <= 3; ++i) {
    frames.Begin(1, true);
    EXPECT_TRUE(Keep(frames, 7, i, i, image, third));
  }
  EXPECT_EQ(ValueOf(frames, 7, 1), 1);  // used again
  frames.Begin(1, true);
  EXPECT_TRUE(Keep(frames, 7, 4, 4, image, third));
  EXPECT_EQ(ValueOf(frames, 7, 2), -1);
  for (const int kept : {1, 3, 4}) EXPECT_EQ(ValueOf(frames, 7, kept), kept);
  // All three are of this sample now.
  EXPECT_FALSE(Keep(frames, 7, 5, 5, image, third));
  EXPECT_EQ(image.view().row(0)[0], 5);
  EXPECT_EQ(ValueOf(frames, 7, 5), -1);
  EXPECT_EQ(ValueOf(frames, 7, 1), 1);
}

TEST(DecodedFramesTest, AFrameThatIsTooLargeIsNotKept) {
  DecodedFrames frames;
  Image image;
  frames.Begin(1, true);
  EXPECT_TRUE(Keep(frames, 7, 1, 1, image));
  frames.Begin(1, true);
  const ImageSize large = {1024, static_cast<int>(kMostKeptFrameBytes / 1024) + 1};
  EXPECT_FALSE(Keep(frames, 7, 2, 2, image, large));
  EXPECT_EQ(ValueOf(frames, 7, 2), -1);
}

// A codec may use more memory than the frame's pixels, such as for four channels of a file.
TEST(DecodedFramesTest, TheMemoryThatAFrameIsInCounts) {
  DecodedFrames frames;
  Image image;
  const MutableImageView wide =
      image.Reshape({1024, static_cast<int>(kMostKeptFrameBytes / 1024)}, 2);
  frames.Begin(1, true);
  EXPECT_FALSE(frames.Keep(7, 1, wide.Crop({0, 0, 1, 1}), image));
  const MutableImageView four = image.Reshape({4, 4}, 1);
  four.row(2)[3] = 30;
  EXPECT_TRUE(frames.Keep(7, 1, four.Crop({2, 3, 1, 1}), image));
  EXPECT_EQ(ValueOf(frames, 7, 1), 30);
}

}  // namespace
}  // namespace bulkhead
