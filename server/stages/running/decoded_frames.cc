#include "server/stages/running/decoded_frames.h"

#include <algorithm>
#include <utility>

#include "server/base/limits.h"

namespace bulkhead {
namespace {

uint64_t BytesOf(const Image& image) {
  return image.view().row_bytes() * static_cast<uint64_t>(image.view().height);
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
  return found->pixels;
}

bool DecodedFrames::Keep(uint64_t stage, uint64_t frame, const ImageView& pixels, Image& memory) {
  uint64_t bytes = BytesOf(memory);
  for (const Frame& kept : frames_) bytes += BytesOf(kept.image);
  Frame place;
  while (!frames_.empty()) {
    const auto oldest =
        std::min_element(frames_.begin(), frames_.end(),
                         [](const Frame& a, const Frame& b) { return a.sample < b.sample; });
    const bool is_over = oldest->lease != lease_;
    if (!is_over && (bytes <= kMostKeptFrameBytes || oldest->sample == sample_)) break;
    bytes -= BytesOf(oldest->image);
    place = std::move(*oldest);
    frames_.erase(oldest);
    if (bytes <= kMostKeptFrameBytes) break;
  }
  if (bytes > kMostKeptFrameBytes) return false;
  place.stage = stage;
  place.frame = frame;
  place.lease = lease_;
  place.sample = sample_;
  place.pixels = pixels;
  std::swap(place.image, memory);
  frames_.push_back(std::move(place));
  return true;
}

}  // namespace bulkhead
