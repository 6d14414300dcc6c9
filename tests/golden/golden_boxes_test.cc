// Boxes against torchvision.ops (make_golden_boxes.py). It computes in float32, we in double: what
// is compared may differ by float32's rounding of the steps between.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/image/boxes/boxes.h"

namespace bulkhead::golden_boxes_test {
namespace {

constexpr ImageSize kSize{431, 653};
constexpr double kRounding = 1e-4;  // pixels, of coordinates below 1100

class GoldenBoxesTest : public ::testing::Test {
 protected:
  GoldenBoxesTest() {
    std::ifstream file(
        absl::StrCat(std::getenv("BULKHEAD_SOURCE_DIR"), "/tests/golden/data/boxes.golden"),
        std::ios::binary);
    std::string line;
    std::getline(file, line);  // what wrote it
    while (std::getline(file, line)) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      size_t size_bytes = words[words.size() - 2] == "int64" ? 8 : 4;
      for (const absl::string_view extent : absl::StrSplit(words.back(), 'x')) {
        size_t value = 0;
        EXPECT_TRUE(absl::SimpleAtoi(extent, &value)) << line;
        size_bytes *= value;
      }
      std::string& bytes = arrays_[words.size() == 4 ? words[0] + " " + words[1] : words[0]];
      bytes.resize(size_bytes);
      file.read(bytes.data(), static_cast<std::streamsize>(size_bytes));
    }
    EXPECT_EQ(arrays_.size(), 9u);
  }

  size_t Rows(const std::string& name) const { return arrays_.at(name).size() / 16; }
  const std::byte* Row(const std::string& name, size_t i) const {
    return reinterpret_cast<const std::byte*>(arrays_.at(name).data()) + 16 * i;
  }
  Box BoxAt(const std::string& name, size_t i, BoxFormat format = BoxFormat::kXyxy) const {
    return ReadBox(Row(name, i), {format, false}, kSize);
  }

  std::map<std::string, std::string> arrays_;
};

void ExpectNear(const Box& a, const Box& b) {
  EXPECT_NEAR(a.left, b.left, kRounding);
  EXPECT_NEAR(a.top, b.top, kRounding);
  EXPECT_NEAR(a.right, b.right, kRounding);
  EXPECT_NEAR(a.bottom, b.bottom, kRounding);
}

TEST_F(GoldenBoxesTest, FormatsAreTorchvisions) {
  for (const auto& [name, format] :
       {std::pair{"xywh", BoxFormat::kXywh}, {"cxcywh", BoxFormat::kCxcywh}}) {
    for (size_t i = 0; i < Rows("first"); ++i) {
      float written[4];
      WriteBox(BoxAt("first", i), {format, false}, kSize, reinterpret_cast<std::byte*>(written));
      float expected[4];
      std::memcpy(expected, Row(name, i), sizeof(expected));
      for (int k = 0; k < 4; ++k) EXPECT_NEAR(written[k], expected[k], kRounding) << name << i;
      ExpectNear(BoxAt(name, i, format), BoxAt(std::string(name) + " back", i));
    }
  }
}

TEST_F(GoldenBoxesTest, OverlapsAreTorchvisions) {
  const std::string& iou = arrays_.at("iou");
  int overlapping = 0;
  for (size_t i = 0; i < Rows("first"); ++i) {
    for (size_t k = 0; k < Rows("second"); ++k) {
      float expected = 0;
      std::memcpy(&expected, iou.data() + 4 * (i * Rows("second") + k), 4);
      EXPECT_NEAR(Overlap(BoxAt("first", i), BoxAt("second", k)), expected, 1e-5);
      overlapping += expected > 0.2;
    }
  }
  EXPECT_GT(overlapping, 5);
}

TEST_F(GoldenBoxesTest, CuttingAndDroppingAreTorchvisions) {
  const Box canvas = {0, 0, 653, 431};
  std::vector<int64_t> kept;
  for (size_t i = 0; i < Rows("first"); ++i) {
    const Box cut = Clamp(BoxAt("first", i), canvas);
    ExpectNear(cut, BoxAt("clipped", i));
    if (cut.width() >= 20 && cut.height() >= 20) kept.push_back(static_cast<int64_t>(i));
  }
  ASSERT_EQ(kept.size() * 8, arrays_.at("kept").size());
  EXPECT_EQ(std::memcmp(kept.data(), arrays_.at("kept").data(), kept.size() * 8), 0);
}

}  // namespace
}  // namespace bulkhead::golden_boxes_test
