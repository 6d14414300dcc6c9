// What Pillow and TensorFlow made of a few images (make_geometry_golden.py), bit for bit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/image/legacy_resize.h"
#include "server/image/resample.h"
#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

struct Golden {
  std::string name;
  ImageSize size;  // of images
  int channels = 0;
  std::string bytes;

  ImageView view() const {
    return {reinterpret_cast<const uint8_t*>(bytes.data()), size.height, size.width, channels,
            static_cast<size_t>(size.width) * channels};
  }
};

// All arrays, in their order.
std::vector<Golden> ReadGoldens() {
  std::ifstream file(
      absl::StrCat(std::getenv("BULKHEAD_SOURCE_DIR"), "/tests/golden/data/geometry.golden"),
      std::ios::binary);
  std::vector<Golden> goldens;
  std::string line;
  std::getline(file, line);  // what wrote it
  while (std::getline(file, line)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    Golden golden;
    golden.name =
        line.substr(0, line.size() - words.back().size() - words[words.size() - 2].size() - 2);
    std::vector<int> extents;
    size_t size_bytes = 1;
    for (const absl::string_view extent : absl::StrSplit(words.back(), 'x')) {
      EXPECT_TRUE(absl::SimpleAtoi(extent, &extents.emplace_back())) << line;
      size_bytes *= extents.back();
    }
    if (extents.size() == 3) {
      golden.size = {extents[0], extents[1]};
      golden.channels = extents[2];
    }
    golden.bytes.resize(size_bytes);
    file.read(golden.bytes.data(), static_cast<std::streamsize>(size_bytes));
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

class GoldenGeometryTest : public ::testing::Test {
 protected:
  // The array called `name`.
  const Golden& Get(const std::string& name) const {
    for (const Golden& golden : goldens_) {
      if (golden.name == name) return golden;
    }
    ADD_FAILURE() << "no array " << name;
    return goldens_.front();
  }

  const std::vector<Golden> goldens_ = ReadGoldens();
};

// "rgb" of "pillow rgb linear".
std::string Word(const std::string& name, size_t i) {
  return std::vector<std::string>(absl::StrSplit(name, ' '))[i];
}

TEST_F(GoldenGeometryTest, AntialiasedResizesArePillows) {
  ResampleScratch scratch;
  int compared = 0;
  for (const Golden& golden : goldens_) {
    const bool linear = absl::EndsWith(golden.name, " linear");
    if (!absl::StartsWith(golden.name, "pillow ") ||
        !(linear || absl::EndsWith(golden.name, " cubic"))) {
      continue;
    }
    ++compared;
    const Golden& input = Get(Word(golden.name, 1));
    Image made;
    ResampleImage(input.view(), linear ? ResampleFilter::kLinear : ResampleFilter::kCubic,
                  made.Reshape(golden.size, golden.channels), scratch);
    EXPECT_TRUE(PixelsOf(made.view()) == golden.bytes)
        << golden.name << " " << golden.size.height << " x " << golden.size.width;
  }
  EXPECT_EQ(compared, 36);
}

TEST_F(GoldenGeometryTest, OldCentersAreTensorFlow1s) {
  ScratchBuffer scratch;
  int compared = 0;
  for (const Golden& golden : goldens_) {
    if (!absl::StartsWith(golden.name, "tf1 ")) continue;
    ++compared;
    const Golden& input = Get(Word(golden.name, 1));
    const LegacyCenters centers =
        Word(golden.name, 3) == "aligned" ? LegacyCenters::kAligned : LegacyCenters::kCorner;
    Image made;
    const MutableImageView out = made.Reshape(golden.size, golden.channels);
    const bool nearest = Word(golden.name, 2) == "nearest";
    (nearest ? LegacyResizeNearest : LegacyResizeLinear)(input.view(), centers, out, scratch);
    EXPECT_TRUE(PixelsOf(made.view()) == golden.bytes)
        << golden.name << " " << golden.size.height << " x " << golden.size.width;
  }
  EXPECT_EQ(compared, 48);
}

}  // namespace
}  // namespace bulkhead
