// Decoding photos by the pipeline's JpegDecoder and by libjpeg-turbo alone, on one thread, file by
// file in turns: CPU time, and medians over the rounds of the ratios within a round.
//
//   build/release/bin/bulkhead-bench-jpeg FOLDER [ROUNDS]        FOLDER: JPEG files, at any depth
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "server/base/random.h"
#include "server/base/value_map.h"
#include "server/image/codecs/jpeg_decoder.h"
#include "server/image/codecs/plain_jpeg.h"
#include "tools/common/machine.h"
#include "tools/measure/decode_limit.h"

namespace bulkhead {
namespace {

constexpr uint64_t kMaxPixels = uint64_t{1} << 30;

// What is measured; each is compared with the first.
enum Way {
  kLimit,
  kLibjpegWhole,
  kWhole,
  kLibjpegCrop,
  kCrop,
  kMakingCrop,
  kSeekCrop,
  kKeepingCrop,
  kKeptCrop,
  kKeptWhole,
  kWayCount
};
constexpr std::array<const char*, kWayCount> kNames = {
    "libjpeg-turbo, whole image (the limit)",
    "JpegDecoder by libjpeg, whole image",
    "JpegDecoder, whole image",
    "JpegDecoder by libjpeg, random_resized_crop's rectangle",
    "JpegDecoder, random_resized_crop's rectangle",
    "the same, while seek entries are made",
    "the same, by seek entries",
    "the same, while coefficients are kept",
    "the same, by coefficients",
    "JpegDecoder, whole image, by coefficients"};
using Seconds = std::array<double, kWayCount>;

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// As torchvision chooses it: 8 to 100% of the area, aspect 3/4 to 4/3.
Rect RandomResizedCrop(ImageSize size, SampleRandom& random) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = random.NextUniform(0.08, 1) * size.height * size.width;
    const double aspect = std::exp(random.NextUniform(std::log(3.0 / 4), std::log(4.0 / 3)));
    const int width = static_cast<int>(std::lround(std::sqrt(area * aspect)));
    const int height = static_cast<int>(std::lround(std::sqrt(area / aspect)));
    if (width < 1 || width > size.width || height < 1 || height > size.height) continue;
    return {static_cast<int>(random.NextBelow(size.height - height + 1)),
            static_cast<int>(random.NextBelow(size.width - width + 1)), height, width};
  }
  const int side = std::min(size.height, size.width);
  return {(size.height - side) / 2, (size.width - side) / 2, side, side};
}

class Bench {
 public:
  Bench() {
    seeking_.SetStores({.seek = &entries_, .making = JpegDecoder::Making::kInPassing});
    keeping_.SetStores({.coefficients = &coefficients_, .making = JpegDecoder::Making::kAll});
  }

  // Adds the CPU time of each way with `file`; false when one of them fails.
  bool Run(const std::string& file, uint64_t key, Seconds& seconds) {
    const double begin = CpuSeconds();
    if (!plain_.Decode(file).ok()) return false;
    seconds[kLimit] += CpuSeconds() - begin;
    entries_.Clear();
    coefficients_.Clear();
    key_ = key;
    const bool good = Decode(libjpeg_, file, kWholeImage, seconds[kLibjpegWhole]) &&
                      Decode(libjpeg_, file, kRandomCrop, seconds[kLibjpegCrop]) &&
                      Decode(fastest_, file, kWholeImage, seconds[kWhole]) &&
                      Decode(fastest_, file, kRandomCrop, seconds[kCrop]) &&
                      Decode(seeking_, file, kRandomCrop, seconds[kMakingCrop]) &&
                      Decode(seeking_, file, kRandomCrop, seconds[kSeekCrop]) &&
                      Decode(keeping_, file, kRandomCrop, seconds[kKeepingCrop]) &&
                      Decode(keeping_, file, kRandomCrop, seconds[kKeptCrop]) &&
                      Decode(keeping_, file, kWholeImage, seconds[kKeptWhole]);
    entry_bytes_ += entries_.bytes();
    coefficient_bytes_ += coefficients_.bytes();
    file_bytes_ += file.size();
    return good;
  }

  const jpeg::FallbackCounts& counts() const { return fastest_.counts().files; }
  // What the entries and the coefficients take, in parts of the files.
  double entry_share() const { return static_cast<double>(entry_bytes_) / file_bytes_; }
  double coefficient_share() const { return static_cast<double>(coefficient_bytes_) / file_bytes_; }

 private:
  enum Part { kWholeImage, kRandomCrop };

  bool Decode(JpegDecoder& decoder, const std::string& file, Part part, double& seconds) {
    SampleRandom random(1, 0, key_, 0);
    const double begin = CpuSeconds();
    const auto size = decoder.Open(file, kMaxPixels);
    if (!size.ok()) return false;
    const Rect rect = part == kRandomCrop ? RandomResizedCrop(*size, random) : WholeImage(*size);
    if (!decoder.Decode(PixelFormat::kRgb, rect, image_).ok()) return false;
    seconds += CpuSeconds() - begin;
    return true;
  }

  PlainJpegDecoder plain_;
  JpegDecoder libjpeg_{JpegDecoder::Way::kLibjpeg};
  JpegDecoder fastest_{JpegDecoder::Way::kFastest};
  JpegDecoder seeking_{JpegDecoder::Way::kFastest};
  JpegDecoder keeping_{JpegDecoder::Way::kFastest};
  ValueMap entries_;
  ValueMap coefficients_;
  uint64_t key_ = 0;
  uint64_t entry_bytes_ = 0;
  uint64_t coefficient_bytes_ = 0;
  uint64_t file_bytes_ = 0;
  Image image_;
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

int Main(const char* folder, int rounds) {
  const auto files = tools::ReadJpegFiles(folder);
  if (!files.ok()) {
    std::fprintf(stderr, "%s\n", std::string(files.status().message()).c_str());
    return 1;
  }
  Bench bench;
  std::array<std::vector<double>, kWayCount> milliseconds;
  std::array<std::vector<double>, kWayCount> ratios;
  for (int round = -1; round < rounds; ++round) {
    Seconds seconds{};
    for (size_t i = 0; i < files->size(); ++i) {
      const uint64_t key = i * 1000 + static_cast<uint64_t>(round + 1);
      if (!bench.Run((*files)[i].bytes, key, seconds)) {
        std::fprintf(stderr, "%s: cannot be decoded\n", (*files)[i].path.c_str());
        return 1;
      }
    }
    if (round < 0) continue;  // to warm up
    for (int way = 0; way < kWayCount; ++way) {
      milliseconds[way].push_back(1e3 * seconds[way] / static_cast<double>(files->size()));
      ratios[way].push_back(seconds[kLimit] / seconds[way]);
    }
  }
  std::printf("%s\n%zu files, medians of %d rounds: bulkhead-bench-jpeg FOLDER %d\n",
              tools::DescribeMachine().Text().c_str(), files->size(), rounds, rounds);
  for (int way = 0; way < kWayCount; ++way) {
    std::printf("%-58s %7.4f ms  %.2f x\n", kNames[way], Median(milliseconds[way]),
                Median(ratios[way]));
  }
  std::printf("seek entries: %.2f%% of the files' bytes; coefficients: %.0f%%\n",
              100 * bench.entry_share(), 100 * bench.coefficient_share());
  for (size_t i = 1; i < jpeg::kFallbackCount; ++i) {
    if (bench.counts()[i] == 0) continue;
    std::printf("left to libjpeg: %llu of reason %s\n",
                static_cast<unsigned long long>(bench.counts()[i]),
                std::string(jpeg::FallbackName(static_cast<jpeg::Fallback>(i))).c_str());
  }
  return 0;
}

}  // namespace
}  // namespace bulkhead

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bulkhead-bench-jpeg FOLDER [ROUNDS]\n");
    return 2;
  }
  return bulkhead::Main(argv[1], argc > 2 ? std::max(1, std::atoi(argv[2])) : 5);
}
