#include "server/image/draw/canvas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace bulkhead {
namespace {

constexpr Colour kPaper = {255, 255, 255};
constexpr Colour kInk = {200, 40, 10};

// A canvas of 60 × 200 and what was drawn on it.
class Sheet {
 public:
  Sheet() : view_(image_.Reshape({60, 200}, 3)), canvas_(view_, kPaper) {}

  Canvas& canvas() { return canvas_; }
  bool Blank(int y, int x) const {
    const uint8_t* pixel = view_.row(y) + x * 3;
    return pixel[0] == 255 && pixel[1] == 255 && pixel[2] == 255;
  }
  // The smallest rectangle that holds all that was drawn.
  Rect Drawn() const {
    int top = view_.height, left = view_.width, bottom = 0, right = 0;
    for (int y = 0; y < view_.height; ++y) {
      for (int x = 0; x < view_.width; ++x) {
        if (Blank(y, x)) continue;
        top = std::min(top, y), left = std::min(left, x);
        bottom = std::max(bottom, y + 1), right = std::max(right, x + 1);
      }
    }
    return {top, left, bottom - top, right - left};
  }

 private:
  Image image_;
  MutableImageView view_;
  Canvas canvas_;
};

TEST(CanvasTest, LeavesOutWhatLiesOutside) {
  Sheet sheet;
  sheet.canvas().Fill({-5, -5, 10, 10}, kInk);
  EXPECT_EQ(sheet.Drawn(), (Rect{0, 0, 5, 5}));
  Image image;
  const MutableImageView view = image.Reshape({20, 20}, 3);
  Canvas(view, kInk).Fill({0, 0, 12, 20}, kPaper);
  Sheet other;
  other.canvas().Put(view, 45, -10);
  EXPECT_EQ(other.Drawn(), (Rect{57, 0, 3, 10}));
  other.canvas().Put(view, 60, 0);
  other.canvas().Fill({0, 300, 5, 5}, kInk);
  EXPECT_EQ(other.Drawn(), (Rect{57, 0, 3, 10}));
}

TEST(CanvasTest, FramesLieWithinTheirRectangles) {
  Sheet sheet;
  sheet.canvas().Frame({10, 20, 30, 40}, 2, kInk);
  EXPECT_EQ(sheet.Drawn(), (Rect{10, 20, 30, 40}));
  EXPECT_FALSE(sheet.Blank(11, 21));
  EXPECT_TRUE(sheet.Blank(12, 22));
}

TEST(CanvasTest, TextFillsTheRoomThatItSays) {
  const std::string text = "Agjpqy|{0}";
  for (const TextSize size : {TextSize::kSmall, TextSize::kNormal, TextSize::kLarge}) {
    const int width = Canvas::TextWidth(text, size);
    const int height = Canvas::TextHeight(size);
    Sheet sheet;
    sheet.canvas().Text(text, 20, 10, size, kInk);
    const Rect drawn = sheet.Drawn();
    EXPECT_GE(drawn.top, 10 - 2);
    EXPECT_LE(drawn.bottom(), 10 + height + 2);
    EXPECT_GE(drawn.left, 20 - 2);
    EXPECT_LE(drawn.right(), 20 + width + 2);
    EXPECT_GT(drawn.width, width * 8 / 10);
    EXPECT_GT(drawn.height, height * 6 / 10);
  }
  EXPECT_LT(Canvas::TextHeight(TextSize::kLarge), Canvas::TextHeight(TextSize::kTitle));
}

TEST(CanvasTest, TextUpwardsIsTheSameTextTurned) {
  Sheet across;
  across.canvas().Text("f7", 3, 5, TextSize::kLarge, kInk);
  Sheet upwards;
  upwards.canvas().Text("f7", 5, 50, TextSize::kLarge, kInk, true);
  const Rect drawn = across.Drawn();
  ASSERT_GT(drawn.width, 5);
  for (int y = 0; y < 30; ++y) {
    for (int x = 0; x < 40; ++x) {
      // (3, 5) across is (5, 50) upwards.
      ASSERT_EQ(across.Blank(y, x), upwards.Blank(52 - x, y)) << y << ", " << x;
    }
  }
}

}  // namespace
}  // namespace bulkhead
