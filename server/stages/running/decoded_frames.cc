#include "server/stages/running/decoded_frames.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "server/base/limits.h"

namespace bulkhead {
namespace {

uint64_t BytesOf(const ImageView& pixels) {
  return pixels.row_bytes() * static_cast<uint64_t>(pixels.height);
}

}  // namespace

void DecodedFrames::Begin(uint64_t lease, bool keeps) {
  lease_ = lease;
  ++sample_;
  keeps_ = keeps;
}

ImageView DecodedFrames::Find(uint64_t stage, uint64_t frame) {
  const auto found = std::find_if(frames_.begin(), frames_.end(), [&](const Frame& kept) {
    return kept.stage == stage && kept.frame == frame && kept.lease == lease_;
  });
  if (found == frames_.end()) return {};
  found->sample = sample_;
  return found->image.view();
}

void DecodedFrames::Keep(uint64_t stage, uint64_t frame, const ImageView& pixels) {
  uint64_t bytes = BytesOf(pixels);
  for (const Frame& kept : frames_) bytes += BytesOf(kept.image.view());
  Frame place;
  while (!frames_.empty()) {
    const auto oldest =
        std::min_element(frames_.begin(), frames_.end(),
                         [](const Frame& a, const Frame& b) { return a.sample < b.sample; });
    const bool is_over = oldest->lease != lease_;
    if (!is_over && (bytes <= kMostKeptFrameBytes || oldest->sample == sample_)) break;
    bytes -= BytesOf(oldest->image.view());
    place = std::move(*oldest);
    frames_.erase(oldest);
    if (bytes <= kMostKeptFrameBytes) break;
  }
  if (bytes > kMostKeptFrameBytes) return;
  place.stage = stage;
  place.frame = frame;
  place.lease = lease_;
  place.sample = sample_;
  const MutableImageView copy = place.image.Reshape(pixels.size(), pixels.channels);
  for (int y = 0; y < pixels.height; ++y) std::memcpy(copy.row(y), pixels.row(y), copy.row_bytes());
  frames_.push_back(std::move(place));
}

}  // namespace bulkhead
