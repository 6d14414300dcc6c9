// bulkhead-decode-rare FOLDER: decodes every image that standard input names, a file of FOLDER a
// line, to RGB. For each it prints a line, "ok HEIGHT WIDTH" and behind it the pixels, or the
// reason of the sample error (and its message to standard error), or "!" and a status that is none.
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "server/base/error.h"
#include "server/image/codecs/image_decoder.h"
#include "tests/image/test_images.h"

namespace bulkhead {
namespace {

constexpr uint64_t kMaxPixels = 1'000'000;

absl::StatusOr<ImageView> Decode(const std::string& file, Image& buffer) {
  ImageDecoder decoder;
  BULKHEAD_ASSIGN_OR_RETURN(const ImageSize size, decoder.Open(file, kMaxPixels));
  return decoder.Decode(PixelFormat::kRgb, WholeImage(size), buffer);
}

void Print(const absl::StatusOr<ImageView>& image) {
  if (image.ok()) {
    std::cout << "ok " << image->height << " " << image->width << "\n" << PixelsOf(*image);
  } else if (IsSampleError(image.status())) {
    std::cout << GetErrorInfo(image.status())->reason << "\n";
    std::cerr << image.status().message() << "\n";
  } else {
    std::cout << "! " << image.status() << "\n";
  }
}

}  // namespace
}  // namespace bulkhead

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bulkhead-decode-rare FOLDER < names\n";
    return 2;
  }
  for (std::string name; std::getline(std::cin, name);) {
    std::ifstream in(std::string(argv[1]) + "/" + name, std::ios::binary);
    const std::string file{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    bulkhead::Image buffer;
    bulkhead::Print(bulkhead::Decode(file, buffer));
  }
}
