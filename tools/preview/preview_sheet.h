#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/image/image.h"

namespace bulkhead::tools {

// In pixels of the image, right and bottom excluded.
struct PreviewBox {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  // Written on a chip at its upper left corner, if it says something, or at the nearest place where
  // the chip covers no other; left out where there is none.
  std::string label;
};

// One image and what is said of it.
struct PreviewCell {
  Image image;  // RGB
  std::vector<PreviewBox> boxes;
  std::vector<std::string> caption;  // lines below the image
};

// Images side by side, row by row.
struct PreviewSheet {
  std::string title;
  std::vector<std::string> column_titles;  // empty, or one for each column
  size_t columns = 1;
  int side = 256;  // longest side of an image on the sheet, in pixels
  std::vector<PreviewCell> cells;
};

// The sheet as a PNG file. Large images are shrunk to `side`, small ones magnified by a whole
// number. INVALID_ARGUMENT when the sheet would have more than 64 megapixels.
absl::StatusOr<std::string> PreviewPng(const PreviewSheet& sheet);

}  // namespace bulkhead::tools
