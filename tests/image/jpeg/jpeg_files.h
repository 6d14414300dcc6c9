#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "server/base/random.h"
#include "server/image/codecs/jpeg_decoder.h"
#include "server/image/image.h"
#include "server/image/pixel_format.h"

namespace bulkhead {

// What libjpeg is to make of a generated picture.
struct JpegRecipe {
  enum class Content { kSmooth, kNoise, kStripes, kFlat };

  int height = 64;
  int width = 64;
  bool gray = false;
  int h = 1;  // sampling factors of the luma; those of the chroma are 1
  int v = 1;
  int quality = 90;
  int restart_interval = 0;  // in MCUs
  bool optimize = false;     // Huffman tables of its own
  bool progressive = false;
  Content content = Content::kSmooth;
  uint64_t seed = 1;
};

// The file. "" when libjpeg refuses the recipe.
std::string MakeJpegFile(const JpegRecipe& recipe);

// As a camera writes it: 500 x 300 pixels, chroma of half the size.
JpegRecipe PhotoRecipe(int restart_interval = 0);

// Anything that a sequential JPEG may be, up to `max_extent` pixels high and wide.
JpegRecipe RandomRecipe(SampleRandom& random, int max_extent);

Rect RandomRectIn(ImageSize size, SampleRandom& random);

// Damages a file in one to four ways: flips bits, sets bytes, cuts it, takes out, doubles or moves
// ranges, puts in markers, changes tables and fields of its header.
std::string DamageJpeg(std::string file, SampleRandom& random);

// What a decode came to: the reason of its error, "" for none, the error's message and the pixels.
struct JpegOutcome {
  std::string reason;
  std::string message;
  std::string pixels;

  friend bool operator==(const JpegOutcome&, const JpegOutcome&) = default;
};

// Decodes what of the image lies under `share`, a rectangle of an image of 4096 × 4096 that stands
// for the file's whole.
JpegOutcome DecodeShareOf(JpegDecoder& decoder, absl::string_view file, PixelFormat format,
                          const Rect& share);
// The same of a file that is read only if the decoder needs it.
JpegOutcome DecodeShareOf(JpegDecoder& decoder, FileBytes& file, PixelFormat format,
                          const Rect& share);
inline constexpr Rect kWholeShare = {0, 0, 4096, 4096};
inline constexpr Rect kMiddleShare = {1500, 1500, 1000, 1000};

// A file in a state that is known by a number; 0: it is not known.
class JpegOnDisk final : public FileBytes {
 public:
  explicit JpegOnDisk(std::string bytes, uint64_t state = 1) : bytes_(std::move(bytes)) {
    if (state != 0) state_ = StoreKey{{state, 77}};
  }
  const std::optional<StoreKey>& state() const override { return state_; }
  uint64_t size_bytes() const override { return bytes_.size(); }
  absl::StatusOr<absl::string_view> Get() override {
    ++reads;
    return bytes_;
  }

  int reads = 0;

 private:
  const std::string bytes_;
  std::optional<StoreKey> state_;
};

}  // namespace bulkhead
