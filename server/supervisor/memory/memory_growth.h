#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bulkhead {

// How one worker's memory grows with the number of decided samples: a leak grows with work, not
// with time. A look may catch a large image in memory. So the lowest looks of the beginning, the
// middle and the end are compared. Pure; used by one thread.
class MemoryGrowth {
 public:
  // Buffers grow to their size over the first samples, which is no leak.
  static constexpr uint64_t kWarmUpSamples = 32;
  // A slope over fewer samples means nothing.
  static constexpr uint64_t kMinSamples = 16;

  // The growth of the previous worker in this place; 0: it did not grow.
  void Expect(double bytes_per_sample) { expected_ = bytes_per_sample; }
  // The worker held `used_bytes` at `now_ns`, after `samples` decided samples. Neither samples nor
  // time may decrease.
  void Note(uint64_t samples, uint64_t used_bytes, int64_t now_ns);

  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t samples() const { return samples_; }
  // The highest used_bytes noted.
  uint64_t peak_bytes() const { return peak_bytes_; }

  // Bytes per sample, at least 0: the larger of the growth since the warm-up and the growth over
  // the later half of that time. While too little is known: the expected growth if three looks bear
  // it out; else LastingBytesPerSample if all the last looks saw more than half of `quota_bytes`;
  // else 0.
  double BytesPerSample(uint64_t quota_bytes) const;
  // The growth that goes on over the last looks, at least 0: what nearly all steps between them
  // show, so that an import, tables made at some calls and large images are none. At least the
  // expected growth if three looks bear it out. 0 while too little is known.
  double LastingBytesPerSample() const;
  // Whether this worker alone has shown enough.
  bool is_known() const {
    return points_.size() >= 2 * kWindow &&
           points_.back().samples - points_.front().samples >= kMinSamples;
  }
  // The worst likely growth of the next samples: the largest of BytesPerSample, the expected growth
  // and, while too little is known, the growth since the start.
  double LikelyBytesPerSample(uint64_t quota_bytes) const {
    return std::max({expected_, BytesPerSample(quota_bytes), is_known() ? 0 : SinceStart()});
  }
  // Growth from the last look before a sample was done to the last, including the warm-up.
  double SinceStart() const { return std::max(0.0, Slope(first_, {samples_, used_bytes_, 0})); }
  // Samples per second: the higher of the best rate over kRateTimeNs, or over a few looks while
  // less is known, and the rate of the later half. So a pause without demand does not make a worker
  // slow, nor a burst fast.
  double SamplesPerSecond() const;
  // The most samples that are likely in so many seconds; in a short time a burst counts.
  double SamplesWithin(double seconds) const;
  // Whether growth continues: the later half grew at least half as much per sample as the whole,
  // and the total growth is at least a quarter of the quota.
  bool IsSteady(uint64_t quota_bytes) const;

 private:
  struct Point {
    uint64_t samples = 0;
    uint64_t used_bytes = 0;
    int64_t at_ns = 0;
  };
  // Points kept. When there are more, every other one is dropped.
  static constexpr size_t kMaxPoints = 64;

  // The lowest of this many looks is used.
  static constexpr size_t kWindow = 3;

  // The most looks over which growth must last, the fewest steps between them, the samples of a
  // step at least, and the part of the steps that may show less.
  static constexpr size_t kLastingLooks = 13;
  static constexpr size_t kLastingSteps = 3;
  static constexpr uint64_t kStepSamples = 8;
  static constexpr size_t kExceptions = 6;  // one in so many

  // Looks between which the rate of a burst is measured, and the time over which a lasting one is.
  static constexpr size_t kRateLooks = 4;
  static constexpr int64_t kRateTimeNs = 250'000'000;
  // Samples that can bear out the expected growth.
  static constexpr uint64_t kExpectedSamples = 8;

  void NoteLastLook(const Point& look);
  void NoteRate(const Point& look);
  static double Slope(const Point& from, const Point& to);
  static double Rate(const Point& from, const Point& to);
  // The growth since the warm-up. The lowest looks may be close together, and one step of memory
  // between them is no slope: it is measured over kMinSamples at least.
  double WholeSlope() const;
  // The growth over the later half; 0 if that is too few samples.
  double LaterSlope() const {
    return Last().samples >= Middle().samples + kMinSamples ? Slope(Middle(), Last()) : 0;
  }
  // Whether the looks since the warm-up show at least half the expected growth; memory comes in
  // steps.
  bool IsAsExpected() const;
  // The lowest of the window that begins at point `first`.
  const Point& Lowest(size_t first) const;
  const Point& First() const { return Lowest(0); }
  const Point& Middle() const { return Lowest(points_.size() / 2 - kWindow / 2); }
  const Point& Last() const { return Lowest(points_.size() - kWindow); }

  double expected_ = 0;  // bytes per sample
  Point first_;          // before the first sample was done
  bool begun_ = false;
  std::vector<Point> points_;      // since the warm-up
  std::vector<Point> last_looks_;  // kStepSamples apart, the newest last
  uint64_t stride_ = 1;            // samples between points
  uint64_t used_bytes_ = 0;
  Point recent_[kWindow];         // the last looks
  Point rate_looks_[kRateLooks];  // the last looks, by number
  double fastest_burst_ = 0;      // samples per second
  Point rate_from_;               // the look at which the time that is measured began
  int64_t busy_ns_ = 0;           // of that time, between looks that saw new samples
  double fastest_ = 0;            // over kRateTimeNs at least; 0: not known
  uint64_t looks_ = 0;
  uint64_t samples_ = 0;
  uint64_t peak_bytes_ = 0;
};

}  // namespace bulkhead
