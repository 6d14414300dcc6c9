#include "server/image/image.h"

#include <gtest/gtest.h>
#include <malloc.h>

namespace bulkhead {
namespace {

TEST(ScratchBufferTest, IsReusedAndGivenBackAfterAHugeSample) {
  ScratchBuffer buffer;
  uint8_t* first = buffer.Resize(100'000);
  EXPECT_EQ(buffer.Resize(50'000), first);
  EXPECT_EQ(buffer.Resize(100'000), first);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  EXPECT_GE(malloc_usable_size(buffer.Resize(40'000'000)), 40'000'000u);
  EXPECT_LT(malloc_usable_size(buffer.Resize(100'000)), 1'000'000u);
}

TEST(ImageViewTest, CropIsAView) {
  Image image;
  const MutableImageView view = image.Reshape({4, 5}, 3);
  const MutableImageView crop = view.Crop({1, 2, 2, 3});
  EXPECT_EQ(crop.data, view.data + 15 + 6);
  EXPECT_EQ(crop.stride, 15u);
  EXPECT_NE(crop.stride, crop.row_bytes());
  EXPECT_EQ(view.stride, view.row_bytes());
}

}  // namespace
}  // namespace bulkhead
