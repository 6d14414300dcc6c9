#include "server/pipeline/values_aside.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

Value Elements(std::string& bytes, int64_t count) {
  Value value;
  value.form = Value::Form::kElements;
  value.dtype = v1::DTYPE_FLOAT32;
  value.data = reinterpret_cast<const std::byte*>(bytes.data());
  value.size_bytes = bytes.size();
  value.count = count;
  return value;
}

std::string BytesIn(const Value& value) {
  return std::string(reinterpret_cast<const char*>(value.data), value.size_bytes);
}

TEST(ValuesAsideTest, AreWhatTheyWereWhateverBecomesOfTheirMemory) {
  std::string boxes(32, 'b');
  std::string text = "text";
  std::string nothing;
  std::vector<float> visible = {0.5f, 0.25f};
  Image picture = MakePicture(6, 7, 3);
  const Image same = MakePicture(6, 7, 3);
  std::vector<Value> values(5);
  values[0] = Elements(boxes, 2);
  values[0].visible = visible.data();
  values[0].canvas = {60, 70};
  values[1].data = reinterpret_cast<const std::byte*>(text.data());
  values[1].size_bytes = text.size();
  // Rows apart.
  values[3].SetPixels(picture.mutable_view().Crop({1, 2, 4, 3}));
  values[4] = Elements(nothing, 0);
  const std::vector<size_t> features = {4, 3, 0, 1};
  ValuesAside aside;
  for (int round = 0; round < 2; ++round) {
    aside.Put(values, features);
    std::memset(picture.mutable_view().data, 0, 6 * 7 * 3);
    boxes.assign(boxes.size(), 'x');
    text.assign(text.size(), 'x');
    visible = {9, 9};
    std::vector<Value> others(5);
    others[2].count = 17;
    aside.Restore(others, features);
    EXPECT_EQ(BytesIn(others[0]), std::string(32, 'b'));
    EXPECT_EQ(others[0].count, 2);
    EXPECT_EQ(others[0].visible[0], 0.5f);
    EXPECT_EQ(others[0].visible[1], 0.25f);
    EXPECT_EQ(others[0].canvas, (ImageSize{60, 70}));
    EXPECT_EQ(BytesIn(others[1]), "text");
    EXPECT_EQ(others[1].form, Value::Form::kEncoded);
    EXPECT_EQ(others[2].count, 17);
    ASSERT_EQ(others[3].pixels.size(), (ImageSize{4, 3}));
    for (int y = 0; y < 4; ++y) {
      EXPECT_EQ(0, std::memcmp(others[3].pixels.row(y), same.view().row(y + 1) + 6, 9));
    }
    EXPECT_EQ(others[4].size_bytes, 0u);
    EXPECT_EQ(others[4].visible, nullptr);
    if (round == 0) {  // again, in the same memory
      boxes.assign(32, 'b');
      text = "text";
      visible = {0.5f, 0.25f};
      std::memcpy(picture.mutable_view().data, same.view().data, 6 * 7 * 3);
    }
  }
}

}  // namespace
}  // namespace bulkhead
