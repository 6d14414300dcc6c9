#include "server/stages/running/decoded_frames.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "server/base/limits.h"

namespace bulkhead {
namespace {

// A gray image of one value.
ImageView Filled(Image& image, uint8_t value, ImageSize size = {4, 4}) {
  const MutableImageView view = image.Reshape(size, 1);
  for (int y = 0; y < view.height; ++y) std::fill_n(view.row(y), view.width, value);
  return view;
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
  frames.Keep(7, 1, Filled(image, 10));
  Filled(image, 99);  // what was kept is a copy
  for (int sample = 0; sample < 3; ++sample) {
    EXPECT_EQ(ValueOf(frames, 7, 1), 10);
    frames.Begin(1, false);
  }
  EXPECT_FALSE(frames.keeps());
  EXPECT_EQ(ValueOf(frames, 8, 1), -1);
  EXPECT_EQ(ValueOf(frames, 7, 2), -1);
  frames.Begin(2, true);
  EXPECT_EQ(ValueOf(frames, 7, 1), -1);
  frames.Keep(7, 2, Filled(image, 20));
  EXPECT_EQ(ValueOf(frames, 7, 2), 20);
}

TEST(DecodedFramesTest, TheLeastRecentlyUsedGoFirstAndNoneOfTheSampleAtHand) {
  DecodedFrames frames;
  Image image;
  const ImageSize third = {1024, static_cast<int>(kMostKeptFrameBytes / 1024 / 3)};
  for (uint8_t i = 1; i <= 3; ++i) {
    frames.Begin(1, true);
    frames.Keep(7, i, Filled(image, i, third));
  }
  EXPECT_EQ(ValueOf(frames, 7, 1), 1);  // used again
  frames.Begin(1, true);
  frames.Keep(7, 4, Filled(image, 4, third));
  EXPECT_EQ(ValueOf(frames, 7, 2), -1);
  for (const int kept : {1, 3, 4}) EXPECT_EQ(ValueOf(frames, 7, kept), kept);
  // All three are of this sample now.
  frames.Keep(7, 5, Filled(image, 5, third));
  EXPECT_EQ(ValueOf(frames, 7, 5), -1);
  EXPECT_EQ(ValueOf(frames, 7, 1), 1);
}

TEST(DecodedFramesTest, AFrameThatIsTooLargeIsNotKept) {
  DecodedFrames frames;
  Image image;
  frames.Begin(1, true);
  frames.Keep(7, 1, Filled(image, 1));
  frames.Begin(1, true);
  frames.Keep(7, 2, Filled(image, 2, {1024, static_cast<int>(kMostKeptFrameBytes / 1024) + 1}));
  EXPECT_EQ(ValueOf(frames, 7, 2), -1);
}

}  // namespace
}  // namespace bulkhead
