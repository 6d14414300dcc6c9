#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace bulkhead {

// An amount of memory of one worker against the number of samples that the worker has done. What a
// sample takes and gives back is no growth, so the curve holds the lowest amount of each stretch of
// samples. It holds at most kMaxStretches of them: when there are more, two become one. Pure; used
// by one thread.
class GrowthCurve {
 public:
  static constexpr size_t kMaxStretches = 128;

  // How the amount developed over a part of the curve.
  struct Trend {
    // Bytes per sample, negative if it shrank, and the half width of the 95 % confidence interval.
    double per_sample = 0;
    double bound = 0;
    double rise_bytes = 0;  // per_sample over the whole part
    // The later half grew clearly slower than the earlier one.
    bool slows = false;
    // At the end the amount was higher than it ever was before this part, so that it is no buffer
    // that fills and empties.
    bool is_new_height = false;

    // Whether the growth is certain and goes on.
    bool Grows() const { return per_sample > bound && !slows; }
  };

  // The amount was `bytes` after `samples` samples, which do not decrease.
  void Note(uint64_t samples, int64_t bytes);

  // The trend from sample number `from` on; absent while fewer than kMinStretches are known of it.
  std::optional<Trend> Since(uint64_t from) const;
  // The last sample number that was noted.
  uint64_t samples() const { return samples_; }
  // The growth from the lowest amount of the first stretch to that of the last; at least 0.
  uint64_t RiseBytes() const;

 private:
  struct Point {
    uint64_t samples = 0;
    int64_t bytes = 0;
  };
  static constexpr uint64_t kFirstWidth = 4;  // samples of a stretch, at first
  static constexpr size_t kMinStretches = 6;
  // Parts of equal size between whose lowest points growth is measured.
  static constexpr size_t kParts = 8;

  void Thin();

  std::vector<Point> lowest_;  // of each stretch, in order
  uint64_t width_ = kFirstWidth;
  uint64_t samples_ = 0;
};

}  // namespace bulkhead
