// The same comparison as fuzz_main.cc for libFuzzer, which changes files by what code they reach:
// scripts/fuzz_jpeg.sh builds it with clang and runs it.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "server/base/random.h"
#include "server/base/value_map.h"
#include "server/image/codecs/jpeg_decoder.h"
#include "tests/image/jpeg/jpeg_files.h"

namespace bulkhead {
namespace {

constexpr int kParts = 5;
constexpr int kIndexedParts = 3;

struct Decoders {
  JpegDecoder indexed{JpegDecoder::Way::kFastest};
  JpegDecoder keeping{JpegDecoder::Way::kFastest};
  JpegDecoder libjpeg{JpegDecoder::Way::kLibjpeg};
  ValueMap entries;
  ValueMap coefficients;

  Decoders() {
    indexed.SetStores({.seek = &entries, .making = JpegDecoder::Making::kInPassing});
    keeping.SetStores({.coefficients = &coefficients, .making = JpegDecoder::Making::kAll});
  }
};

// Parts of the image, chosen by the file itself; the second and third by seek entries, the last
// two by coefficients.
void Compare(absl::string_view file) {
  static Decoders& decoders = *new Decoders;
  decoders.entries.Clear();
  decoders.coefficients.Clear();
  SampleRandom random(StableHash(file), 0, 0, 0);
  for (int part = 0; part < kParts; ++part) {
    const auto format = static_cast<PixelFormat>(random.NextBelow(4));
    const Rect share = RandomRectIn({kWholeShare.height, kWholeShare.width}, random);
    JpegDecoder& decoder = part < kIndexedParts ? decoders.indexed : decoders.keeping;
    const JpegOutcome ours = DecodeShareOf(decoder, file, format, share);
    const JpegOutcome theirs = DecodeShareOf(decoders.libjpeg, file, format, share);
    if (ours == theirs) continue;
    std::fprintf(stderr, "part %d differs\nours: %s %s\nlibjpeg: %s %s\n", part,
                 ours.reason.c_str(), ours.message.c_str(), theirs.reason.c_str(),
                 theirs.message.c_str());
    std::abort();
  }
}

}  // namespace
}  // namespace bulkhead

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bulkhead::Compare({reinterpret_cast<const char*>(data), size});
  return 0;
}
