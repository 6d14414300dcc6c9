// Pictures that TensorFlow wrote, through Pipeline: decoded pixels are TensorFlow's (accurate DCT)
// and OpenCV's, resized ones OpenCV's, normalized ones NumPy's, bit for bit (make_golden.py).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "server/pipeline/pipeline.h"
#include "server/stages/running/user_code.h"
#include "tests/golden/golden_data.h"

namespace bulkhead::golden_pixels_test {
namespace {

using Shape = std::vector<int64_t>;

class GoldenPixelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    index_path_ = (std::filesystem::temp_directory_path() / "golden.XXXXXX").string();
    close(mkstemp(index_path_.data()));
    const auto resolved = ResolveGolden("plain", index_path_);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    resolved_ = *resolved;
    ASSERT_EQ(golden_.records.size(), 4);
  }
  void TearDown() override { std::filesystem::remove(index_path_); }

  // A pipeline that decodes to `color` and resizes to the first two of `shape`.
  internal::v1::PipelineBinding Binding(v1::Color color, const Shape& shape,
                                        v1::Interpolation interpolation) const {
    internal::v1::PipelineBinding binding;
    binding.mutable_source()->mutable_tfrecord()->add_files("plain.tfrecord");
    (*binding.mutable_features())["image"].mutable_bytes();
    *binding.mutable_resolved() = resolved_;
    binding.add_outputs("image");
    v1::DecodeImage& decode = *binding.add_stages()->mutable_decode_image();
    decode.set_input("image");
    decode.set_color(color);
    decode.set_max_pixels(36'000'000);
    v1::Resize& resize = *binding.add_stages()->mutable_resize();
    resize.set_input("image");
    resize.add_size(static_cast<uint32_t>(shape[0]));
    resize.add_size(static_cast<uint32_t>(shape[1]));
    resize.set_interpolation(interpolation);
    return binding;
  }

  // Compares what `binding` makes of record `i` with the array called `what`.
  void Expect(const internal::v1::PipelineBinding& binding, size_t i, const std::string& what) {
    SCOPED_TRACE(golden_.records[i] + " " + what);
    const std::string& expected = Array(i, what).bytes;
    const auto pipeline = Pipeline::Create(binding, UserCode{});
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    const auto context = (*pipeline)->NewContext();
    std::string made(expected.size(), '\x5a');
    std::byte* const destination = reinterpret_cast<std::byte*>(made.data());
    const absl::Status status = (*pipeline)->Produce(i, {}, *context, {&destination, 1});
    ASSERT_TRUE(status.ok()) << status;
    size_t differing = 0;
    for (size_t b = 0; b < made.size(); ++b) differing += made[b] != expected[b];
    EXPECT_EQ(differing, 0) << "bytes of " << made.size();
  }

  const GoldenArray& Array(size_t i, const std::string& what) const {
    return golden_.arrays.at(golden_.records[i]).at(what);
  }

  // Resizing to the size that a picture has changes nothing: what is compared is the decoder.
  void ExpectDecoded(v1::Color color, const std::string& what) {
    for (size_t i = 0; i < golden_.records.size(); ++i) {
      Expect(Binding(color, Array(i, what).shape, v1::INTERPOLATION_NEAREST), i, what);
    }
  }

  void ExpectResized(v1::Interpolation interpolation, const std::string& what) {
    for (size_t i = 0; i < golden_.records.size(); ++i) {
      Expect(Binding(v1::COLOR_BGR, Array(i, what).shape, interpolation), i, what);
    }
  }

  const GoldenData golden_ = ReadGoldenData();
  std::string index_path_;
  internal::v1::ResolvedSource resolved_;
};

TEST_F(GoldenPixelsTest, RgbIsTensorFlowsAccurateDecode) { ExpectDecoded(v1::COLOR_RGB, "tf_rgb"); }
TEST_F(GoldenPixelsTest, BgrIsOpenCvsDecode) { ExpectDecoded(v1::COLOR_BGR, "cv_bgr"); }
TEST_F(GoldenPixelsTest, GrayIsOpenCvsDecode) { ExpectDecoded(v1::COLOR_GRAY, "cv_gray"); }

TEST_F(GoldenPixelsTest, LinearIsOpenCvsResize) {
  ExpectResized(v1::INTERPOLATION_LINEAR, "cv_linear");
}
TEST_F(GoldenPixelsTest, AreaIsOpenCvsResize) { ExpectResized(v1::INTERPOLATION_AREA, "cv_area"); }
TEST_F(GoldenPixelsTest, NearestIsOpenCvsResize) {
  ExpectResized(v1::INTERPOLATION_NEAREST, "cv_nearest");
}
TEST_F(GoldenPixelsTest, CubicIsOpenCvsResize) {
  ExpectResized(v1::INTERPOLATION_CUBIC, "cv_cubic");
}

TEST_F(GoldenPixelsTest, DivideAndSubtractIsNumPysFloat32) {
  for (size_t i = 0; i < golden_.records.size(); ++i) {
    auto binding =
        Binding(v1::COLOR_BGR, Array(i, "np_normalized").shape, v1::INTERPOLATION_LINEAR);
    v1::Normalize& normalize = *binding.add_stages()->mutable_normalize();
    normalize.set_input("image");
    normalize.add_divide(127.5f);
    normalize.add_subtract(1);
    Expect(binding, i, "np_normalized");
  }
}

}  // namespace
}  // namespace bulkhead::golden_pixels_test
