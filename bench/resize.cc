// Resizing photos to the usual sizes by LinearResizer, and by OpenCV on one thread, in turns, and
// normalizing to float32 NCHW, in turns with filling the same memory: the best of all rounds.
//
//   build/release/bin/bulkhead-bench-resize [ROUNDS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <random>
#include <vector>

#include "server/image/color/normalize.h"
#include "server/image/resize/linear_resize.h"
#include "tools/common/machine.h"

namespace bulkhead {
namespace {

template <typename Function>
double Milliseconds(const Function& function) {
  const auto begin = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

void Measure(ImageSize in, ImageSize out, int rounds) {
  std::mt19937 random(1);
  std::vector<uint8_t> pixels(static_cast<size_t>(in.height) * in.width * 3);
  for (uint8_t& value : pixels) value = static_cast<uint8_t>(random());
  std::vector<uint8_t> ours(static_cast<size_t>(out.height) * out.width * 3);
  std::vector<uint8_t> theirs(ours.size());
  LinearResizer resizer;
  double best_ours = 1e9;
  double best_theirs = 1e9;
  for (int round = 0; round < rounds; ++round) {
    best_ours = std::min(best_ours, Milliseconds([&] {
                           if (!resizer.Prepare(in, 3, out, LinearResizer::Mirror::kNone)) return;
                           resizer.Begin(ContiguousImage(pixels.data(), in, 3));
                           for (int y = 0; y < out.height; ++y) {
                             resizer.NextRow(ours.data() + static_cast<size_t>(y) * out.width * 3);
                           }
                         }));
    best_theirs = std::min(best_theirs, Milliseconds([&] {
                             cv::Mat to(out.height, out.width, CV_8UC3, theirs.data());
                             cv::resize(cv::Mat(in.height, in.width, CV_8UC3, pixels.data()), to,
                                        to.size(), 0, 0, cv::INTER_LINEAR);
                           }));
  }
  std::printf("%4d x %-4d to %4d x %-4d  OpenCV %7.4f ms  ours %7.4f ms  %.2f x  %s\n", in.width,
              in.height, out.width, out.height, best_theirs, best_ours, best_theirs / best_ours,
              ours == theirs ? "equal" : "DIFFERENT");
}

void MeasureNormalize(ImageSize size, int rounds) {
  const size_t values = static_cast<size_t>(size.height) * size.width * 3;
  std::vector<uint8_t> pixels(values);
  std::mt19937 random(1);
  for (uint8_t& value : pixels) value = static_cast<uint8_t>(random());
  std::vector<float> out(values);
  const Normalizer normalizer(Normalizer::Formula::kMeanStd,
                              {{123.675F, 58.395F}, {116.28F, 57.12F}, {103.53F, 57.375F}});
  const ImageView in = ContiguousImage(pixels.data(), size, 3);
  double best[2] = {1e9, 1e9};  // the channels last, and first
  double best_fill = 1e9;
  for (int round = 0; round < rounds; ++round) {
    for (const bool channels_first : {false, true}) {
      best[channels_first] =
          std::min(best[channels_first],
                   Milliseconds([&] { normalizer.ApplyToImage(in, channels_first, out.data()); }));
    }
    best_fill = std::min(best_fill, Milliseconds([&] {
                           std::fill(out.begin(), out.end(), static_cast<float>(round));
                         }));
  }
  for (const bool channels_first : {false, true}) {
    const double time = best[channels_first];
    std::printf(
        "%4d x %-4d normalized, %s  %7.4f ms, %.1f GB/s written; filling that memory %7.4f ms\n",
        size.width, size.height, channels_first ? "NCHW" : "NHWC", time,
        static_cast<double>(values) * 4 / time / 1e6, best_fill);
  }
}

}  // namespace
}  // namespace bulkhead

int main(int argc, char** argv) {
  cv::setNumThreads(1);
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 200;
  std::printf("%s\nbest of %d rounds: bulkhead-bench-resize %d\n",
              bulkhead::tools::DescribeMachine().Text().c_str(), rounds, rounds);
  bulkhead::Measure({375, 500}, {640, 640}, rounds);
  bulkhead::Measure({375, 500}, {224, 224}, rounds);
  bulkhead::Measure({250, 300}, {224, 224}, rounds);
  bulkhead::Measure({150, 200}, {224, 224}, rounds);
  bulkhead::MeasureNormalize({224, 224}, rounds);
}
