#pragma once

#include <cstdint>
#include <vector>

#include "server/image/image.h"

namespace bulkhead {

// Frames that were decoded for one sample of a lease, for others of the same lease, whose windows
// have them as well; at most kMostKeptFrameBytes, the least recently used ones go first. Used by
// one thread.
class DecodedFrames {
 public:
  // Call it at the begin of each sample. `lease`: another number than that of the lease before.
  // `keeps`: a later sample of the lease has frames of this one.
  void Begin(uint64_t lease, bool keeps);
  // Whether the current sample's frames are worth keeping.
  bool keeps() const { return keeps_; }

  // Frame `frame` as stage `stage` decoded it in this lease; no data if it did not.
  ImageView Find(uint64_t stage, uint64_t frame);
  // Keeps `pixels`, a view of `memory`, which gets other memory in exchange. False if there is no
  // room: both stay as they are.
  bool Keep(uint64_t stage, uint64_t frame, const ImageView& pixels, Image& memory);
  void Clear() { frames_.clear(); }

 private:
  struct Frame {
    uint64_t stage = 0;
    uint64_t frame = 0;
    uint64_t lease = 0;
    uint64_t sample = 0;  // the last that had it
    ImageView pixels;     // of `image`
    Image image;
  };

  std::vector<Frame> frames_;
  uint64_t lease_ = 0;
  uint64_t sample_ = 0;
  bool keeps_ = false;
};

}  // namespace bulkhead
