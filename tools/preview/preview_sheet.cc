#include "tools/preview/preview_sheet.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/image/codecs/encode.h"
#include "server/image/draw/canvas.h"
#include "server/image/resize/resize.h"

namespace bulkhead::tools {
namespace {

constexpr int64_t kMaxPixels = 64 << 20;
constexpr int kGap = 8;
constexpr TextSize kCaption = TextSize::kNormal;
constexpr int kLine = 18;
constexpr int kTagMargin = 2;
constexpr int kLargeCell = 160;  // from this side on, labels are written as large as captions
constexpr Colour kSheetPaper = {24, 24, 27};
constexpr Colour kText = {228, 228, 231};
constexpr Colour kFaint = {161, 161, 170};
// Told apart also by those who see few colours.
constexpr Colour kBoxes[] = {{230, 159, 0},  {86, 180, 233}, {0, 158, 115},
                             {240, 228, 66}, {213, 94, 0},   {204, 121, 167}};

std::string Fitted(const std::string& text, int width) {
  std::string fitted = text;
  for (size_t left = text.size(); left > 1 && Canvas::TextWidth(fitted, kCaption) > width;) {
    fitted = text.substr(0, --left) + "..";
  }
  return fitted;
}

// How large the image is drawn.
ImageSize DrawnSize(ImageSize size, int side) {
  const int longest = std::max({size.height, size.width, 1});
  if (longest <= side) return {size.height * (side / longest), size.width * (side / longest)};
  const auto shrunk = [&](int extent) {
    return std::max(1, static_cast<int>(std::lround(extent * double{1} * side / longest)));
  };
  return {shrunk(size.height), shrunk(size.width)};
}

// Where boxes are drawn: an image of size `drawn` at (top, left).
class BoxPainter {
 public:
  BoxPainter(double scale, ImageSize drawn, int side, int top, int left, Canvas& canvas)
      : scale_(scale), drawn_(drawn), side_(side), top_(top), left_(left), canvas_(canvas) {}

  void Outline(const PreviewBox& box, Colour colour) {
    canvas_.Frame({top_ + At(box.top), left_ + At(box.left), At(box.bottom) - At(box.top),
                   At(box.right) - At(box.left)},
                  2, colour);
  }

  // On a chip, moved as far as it must be to lie on the image and on no other chip; what does not
  // fit is cut off.
  void Label(const PreviewBox& box, Colour colour) {
    if (box.label.empty()) return;
    const TextSize size = side_ >= kLargeCell ? kCaption : TextSize::kSmall;
    const int width = std::min(Canvas::TextWidth(box.label, size) + 2 * kTagMargin, drawn_.width);
    const int height = std::min(Canvas::TextHeight(size) + 2 * kTagMargin, drawn_.height);
    const std::optional<Rect> place = FreePlace(box, {height, width});
    if (!place.has_value()) return;
    chips_.push_back(*place);
    Image image;
    const MutableImageView view = image.Reshape({height, width}, 3);
    Canvas tag(view, colour);
    tag.Text(box.label, kTagMargin, kTagMargin, size, kSheetPaper);
    canvas_.Put(view, top_ + place->top, left_ + place->left);
  }

 private:
  // Of a chip on the image: at the box's upper left corner, above it, below the box, else in the
  // nearest row of the same column that has room.
  std::optional<Rect> FreePlace(const PreviewBox& box, ImageSize chip) const {
    const int last = drawn_.height - chip.height;
    const int left = std::clamp(At(box.left), 0, drawn_.width - chip.width);
    const int top = std::clamp(At(box.top), 0, last);
    std::vector<int> tops = {top, At(box.top) - chip.height, At(box.bottom)};
    for (int far = 1; far <= last; ++far) {
      tops.push_back(top + far);
      tops.push_back(top - far);
    }
    for (const int candidate : tops) {
      const Rect place = {candidate, left, chip.height, chip.width};
      const auto covers = [&](const Rect& other) {
        return place.top < other.top + other.height && other.top < place.top + place.height &&
               place.left < other.left + other.width && other.left < place.left + place.width;
      };
      if (candidate < 0 || candidate > last) continue;
      if (std::none_of(chips_.begin(), chips_.end(), covers)) return place;
    }
    return std::nullopt;
  }

  int At(double coordinate) const {
    return static_cast<int>(std::lround(std::clamp(coordinate * scale_, -2.0, side_ + 2.0)));
  }

  const double scale_;
  const ImageSize drawn_;
  const int side_;
  const int top_;
  const int left_;
  Canvas& canvas_;
  std::vector<Rect> chips_;  // on the image
};

absl::Status DrawCell(const PreviewCell& cell, int side, int top, int left, Canvas& canvas) {
  const ImageSize size = cell.image.view().size();
  const ImageSize drawn = DrawnSize(size, side);
  Image scaled;
  const MutableImageView view = scaled.Reshape(drawn, 3);
  const ResizeMethod method =
      drawn.width < size.width ? ResizeMethod::kArea : ResizeMethod::kNearest;
  BULKHEAD_RETURN_IF_ERROR(ResizeImage(cell.image.view(), method, view));
  canvas.Put(view, top, left);
  const double scale = static_cast<double>(drawn.width) / size.width;
  BoxPainter painter(scale, drawn, side, top, left, canvas);
  const auto colour = [](size_t box) { return kBoxes[box % std::size(kBoxes)]; };
  for (size_t i = 0; i < cell.boxes.size(); ++i) painter.Outline(cell.boxes[i], colour(i));
  for (size_t i = 0; i < cell.boxes.size(); ++i) painter.Label(cell.boxes[i], colour(i));
  for (size_t i = 0; i < cell.caption.size(); ++i) {
    canvas.Text(Fitted(cell.caption[i], side), left, top + side + 4 + static_cast<int>(i) * kLine,
                kCaption, i == 0 ? kText : kFaint);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> PreviewPng(const PreviewSheet& sheet) {
  size_t caption_lines = 0;
  for (const PreviewCell& cell : sheet.cells) {
    caption_lines = std::max(caption_lines, cell.caption.size());
  }
  const auto columns = static_cast<int64_t>(std::max<size_t>(sheet.columns, 1));
  const int64_t rows = (static_cast<int64_t>(sheet.cells.size()) + columns - 1) / columns;
  const int64_t step_x = sheet.side + kGap;
  const int64_t step_y = sheet.side + kGap + static_cast<int64_t>(caption_lines) * kLine;
  const int head = kGap + kLine + 4 + (sheet.column_titles.empty() ? 0 : kLine);
  const int64_t width = kGap + columns * step_x;
  const int64_t height = head + rows * step_y + kGap;
  if (width * height > kMaxPixels) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                     absl::StrCat("the sheet would have ", width, " x ", height,
                                  " pixels: ask for fewer --samples or a smaller --cell"));
  }
  Image image;
  const MutableImageView view =
      image.Reshape({static_cast<int>(height), static_cast<int>(width)}, 3);
  Canvas canvas(view, kSheetPaper);
  canvas.Text(Fitted(sheet.title, static_cast<int>(width) - 2 * kGap), kGap, kGap, kCaption, kText);
  for (size_t i = 0; i < sheet.column_titles.size(); ++i) {
    const std::string& title = sheet.column_titles[i];
    const TextSize size =
        Canvas::TextWidth(title, kCaption) <= sheet.side ? kCaption : TextSize::kSmall;
    canvas.Text(title, static_cast<int>(kGap + static_cast<int64_t>(i) * step_x),
                head - 4 - Canvas::TextHeight(size), size, kFaint);
  }
  for (size_t i = 0; i < sheet.cells.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    BULKHEAD_RETURN_IF_ERROR(DrawCell(sheet.cells[i], sheet.side,
                                      static_cast<int>(head + place / columns * step_y),
                                      static_cast<int>(kGap + place % columns * step_x), canvas));
  }
  return EncodePng(view);
}

}  // namespace bulkhead::tools
