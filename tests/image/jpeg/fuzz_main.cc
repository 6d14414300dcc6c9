// Damages JPEG files, for as long as it is told to, and compares what the pipeline's decoder makes
// of them, whole and in parts, in parts by seek entries that it made of the first part, and by
// coefficients, with and without reading the file, with what it makes of them by libjpeg-turbo
// alone: pixels, errors and messages must be equal.
//
//   bulkhead-fuzz-jpeg SECONDS [SEED [FOLDER]]      FOLDER: JPEG files to begin with, beside made
//   ones
//
// Ends with 1 at the first difference, which then stands in ./difference.jpg.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "server/base/value_map.h"
#include "tests/image/jpeg/jpeg_files.h"

namespace bulkhead {
namespace {

constexpr int kGeneratedFiles = 400;
constexpr int kGeneratedExtent = 96;
// Files above this size are not worth their time here.
constexpr size_t kMaxFileBytes = 60'000;

std::vector<std::string> ReadSeeds(const char* folder) {
  std::vector<std::string> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.file_size() > kMaxFileBytes) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Fuzzer {
 public:
  Fuzzer(uint64_t seed, const char* folder) : random_(seed, 0, 0, 0) {
    indexed_.SetStores({.seek = &entries_, .making = JpegDecoder::Making::kInPassing});
    keeping_.SetStores({.coefficients = &coefficients_, .making = JpegDecoder::Making::kAll});
    if (folder != nullptr) seeds_ = ReadSeeds(folder);
    for (int i = 0; i < kGeneratedFiles; ++i) {
      std::string file = MakeJpegFile(RandomRecipe(random_, kGeneratedExtent));
      if (!file.empty()) seeds_.push_back(std::move(file));
    }
  }

  // One file, whole and in part; false when a difference was found and written.
  bool Once() {
    std::string file = seeds_[random_.NextBelow(seeds_.size())];
    if (random_.NextBelow(16) != 0) file = DamageJpeg(std::move(file), random_);
    entries_.Clear();
    coefficients_.Clear();
    JpegOnDisk on_disk(file);
    for (int part = 0; part < kParts; ++part) {
      const auto format = static_cast<PixelFormat>(random_.NextBelow(4));
      const Rect share =
          part == 0 ? kWholeShare : RandomRectIn({kWholeShare.height, kWholeShare.width}, random_);
      JpegDecoder& decoder = part < kPlainParts     ? fastest_
                             : part < kIndexedParts ? indexed_
                                                    : keeping_;
      const JpegOutcome ours = part < kReadParts ? DecodeShareOf(decoder, file, format, share)
                                                 : DecodeShareOf(decoder, on_disk, format, share);
      const JpegOutcome theirs = DecodeShareOf(libjpeg_, file, format, share);
      ++decodes_;
      ++reasons_[theirs.reason.empty() ? "decoded" : theirs.reason];
      if (ours == theirs) continue;
      std::ofstream("difference.jpg", std::ios::binary) << file;
      std::printf(
          "difference: part %d %d %d %d of 4096, format %d, by %s\nours: %s "
          "%s\nlibjpeg: %s %s\n",
          share.top, share.left, share.height, share.width, static_cast<int>(format),
          part < kPlainParts     ? "itself"
          : part < kIndexedParts ? "seek entries"
          : part < kReadParts    ? "coefficients"
                                 : "coefficients, perhaps unread",
          ours.reason.c_str(), ours.message.c_str(), theirs.reason.c_str(), theirs.message.c_str());
      return false;
    }
    return true;
  }

  void Print() const {
    std::printf("%llu decodes compared\n", static_cast<unsigned long long>(decodes_));
    for (const auto& [reason, count] : reasons_) {
      std::printf("  %-20s %llu\n", reason.c_str(), static_cast<unsigned long long>(count));
    }
    std::printf("by which decoder (none: ours; else why it was libjpeg)\n");
    for (size_t i = 0; i < jpeg::kFallbackCount; ++i) {
      const uint64_t count =
          fastest_.counts().files[i] + indexed_.counts().files[i] + keeping_.counts().files[i];
      if (count == 0) continue;
      std::printf("  %-20s %llu\n",
                  std::string(jpeg::FallbackName(static_cast<jpeg::Fallback>(i))).c_str(),
                  static_cast<unsigned long long>(count));
    }
    std::printf("by seek entries: %llu of %llu crops\n",
                static_cast<unsigned long long>(indexed_.counts().entries_found),
                static_cast<unsigned long long>(indexed_.counts().crops));
    std::printf("by coefficients: %llu, which were kept of %llu files\n",
                static_cast<unsigned long long>(keeping_.counts().coefficients_found),
                static_cast<unsigned long long>(keeping_.counts().coefficients_made));
    std::printf("without reading the file: %llu\n",
                static_cast<unsigned long long>(keeping_.counts().unread));
  }

 private:
  // Of each file: decoded by itself, then by seek entries, then by coefficients, then by those
  // without reading it.
  static constexpr int kPlainParts = 2;
  static constexpr int kIndexedParts = 4;
  static constexpr int kReadParts = 6;
  static constexpr int kParts = 8;

  SampleRandom random_;
  std::vector<std::string> seeds_;
  JpegDecoder fastest_{JpegDecoder::Way::kFastest};
  JpegDecoder indexed_{JpegDecoder::Way::kFastest};
  JpegDecoder keeping_{JpegDecoder::Way::kFastest};
  ValueMap entries_;
  ValueMap coefficients_;
  JpegDecoder libjpeg_{JpegDecoder::Way::kLibjpeg};
  uint64_t decodes_ = 0;
  std::map<std::string, uint64_t> reasons_;
};

}  // namespace
}  // namespace bulkhead

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bulkhead-fuzz-jpeg SECONDS [SEED [FOLDER]]\n");
    return 2;
  }
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  bulkhead::Fuzzer fuzzer(seed, argc > 3 ? argv[3] : nullptr);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atol(argv[1]));
  bool equal = true;
  while (equal && std::chrono::steady_clock::now() < end) equal = fuzzer.Once();
  fuzzer.Print();
  return equal ? 0 : 1;
}
