#include "server/image/color/augment.h"

#include <gtest/gtest.h>

#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

constexpr uint8_t kFill[] = {9, 9, 9};

// Every operation at every magnitude; what they compute is golden_ops_test's business.
TEST(AugmentTest, RunsOnTheSmallestImagesAndOnGrayOnes) {
  Image copy;
  ScratchBuffer rows;
  for (const int channels : {1, 3}) {
    for (const ImageSize size : {ImageSize{1, 1}, ImageSize{2, 5}, ImageSize{16, 12}}) {
      for (int op = 0; op < kAugmentOps; ++op) {
        int changed = 0;
        for (int bin = 0; bin < kAugmentBins; ++bin) {
          const Image before = MakePicture(size.height, size.width, channels);
          Image image = MakePicture(size.height, size.width, channels);
          ApplyAugment(MakeAugmentStep(AugmentSpace::kTrivialAugmentWide,
                                       static_cast<AugmentOp>(op), bin, bin % 2 == 1, size),
                       WarpMethod::kLinear, kFill, image.mutable_view(), {copy, rows});
          changed += PixelsOf(image.view()) != PixelsOf(before.view());
        }
        if (size.height < 16) continue;
        const auto which = static_cast<AugmentOp>(op);
        const bool stays = which == AugmentOp::kIdentity ||
                           (which == AugmentOp::kColor && channels == 1) ||
                           // Too few pixels of each value for a step of its histogram.
                           which == AugmentOp::kEqualize;
        EXPECT_EQ(changed == 0, stays) << op << " " << channels;
      }
    }
  }
}

TEST(AugmentTest, TheLeastMagnitudeChangesNothingWhereItIsADistance) {
  Image copy;
  ScratchBuffer rows;
  for (int op = 0; op <= static_cast<int>(AugmentOp::kSharpness); ++op) {
    const Image before = MakePicture(14, 19, 3);
    Image image = MakePicture(14, 19, 3);
    ApplyAugment(
        MakeAugmentStep(AugmentSpace::kRandAugment, static_cast<AugmentOp>(op), 0, true, {14, 19}),
        WarpMethod::kNearest, kFill, image.mutable_view(), {copy, rows});
    EXPECT_EQ(PixelsOf(image.view()), PixelsOf(before.view())) << op;
  }
}

TEST(AugmentTest, PixelsFromOutsideAreTheFill) {
  Image copy;
  ScratchBuffer rows;
  Image image = MakePicture(40, 60, 3);
  ApplyAugment({AugmentOp::kTranslateX, 7}, WarpMethod::kNearest, kFill, image.mutable_view(),
               {copy, rows});
  const Image before = MakePicture(40, 60, 3);
  for (int y = 0; y < 40; ++y) {
    EXPECT_EQ(PixelsOf(image.view().Crop({y, 0, 1, 7})), std::string(21, '\x09'));
    EXPECT_EQ(PixelsOf(image.view().Crop({y, 7, 1, 53})),
              PixelsOf(before.view().Crop({y, 0, 1, 53})));
  }
}

}  // namespace
}  // namespace bulkhead
