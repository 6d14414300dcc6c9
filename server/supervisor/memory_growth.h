#ifndef BULKHEAD_SERVER_SUPERVISOR_MEMORY_GROWTH_H_
#define BULKHEAD_SERVER_SUPERVISOR_MEMORY_GROWTH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bulkhead {

// How the memory of one worker grows with the samples that it has decided: a leak grows with the
// work, not with the time. Between two looks a worker may have taken up a large image or be done
// with one; so what is compared are the lowest looks of the beginning, the middle and the end.
// Pure; used by one thread.
class MemoryGrowth {
 public:
  // Buffers grow to their size over the first samples; that is no leak.
  static constexpr uint64_t kWarmUpSamples = 32;
  // A slope over fewer samples than this says nothing.
  static constexpr uint64_t kMinSamples = 16;

  // The worker before it grew by so much with a sample; 0: it did not.
  void Expect(double bytes_per_sample) { expected_ = bytes_per_sample; }
  // The worker held `used_bytes` when it had decided `samples`, at `now_ns`. Samples and time never
  // go back.
  void Note(uint64_t samples, uint64_t used_bytes, int64_t now_ns);

  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t samples() const { return samples_; }
  // Of everything noted so far.
  uint64_t peak_bytes() const { return peak_bytes_; }

  // Bytes per sample, at least 0: the larger of what it was since the warm-up and what it was over
  // the later half of that time. While there is too little to tell: what is expected if three looks
  // bear it out; else that of all samples if the last looks all saw more than half of
  // `quota_bytes`; else 0.
  double BytesPerSample(uint64_t quota_bytes) const;
  // The larger of that and of what is expected: the worst that its next samples are likely to do.
  double LikelyBytesPerSample(uint64_t quota_bytes) const {
    return std::max(expected_, BytesPerSample(quota_bytes));
  }
  // The same from the first look to the last, warm-up and all.
  double SinceStart() const;
  // Samples per second: the fastest that a few looks in a row saw, or the later half of all of
  // them. A pause, in which nobody wants samples, does not make a worker slow.
  double SamplesPerSecond() const;
  // Whether growth goes on: the later half grew at least half as much per sample as the whole, by
  // a quarter of the quota in all.
  bool IsSteady(uint64_t quota_bytes) const;

 private:
  struct Point {
    uint64_t samples = 0;
    uint64_t used_bytes = 0;
    int64_t at_ns = 0;
  };
  // Points kept; when there are more, every other one is forgotten.
  static constexpr size_t kMaxPoints = 64;

  // Looks of which the lowest counts.
  static constexpr size_t kWindow = 3;

  // Looks between which a rate is taken.
  static constexpr size_t kRateLooks = 4;
  // Samples over which what is expected can be borne out.
  static constexpr uint64_t kExpectedSamples = 8;

  static double Slope(const Point& from, const Point& to);
  static double Rate(const Point& from, const Point& to);
  bool HasSlope() const;
  // Whether the looks since the warm-up bear out what is expected: half of it, since memory comes
  // in steps.
  bool IsAsExpected() const;
  // The lowest of a window of points that begins at `first`.
  const Point& Lowest(size_t first) const;
  const Point& First() const { return Lowest(0); }
  const Point& Middle() const { return Lowest(points_.size() / 2 - kWindow / 2); }
  const Point& Last() const { return Lowest(points_.size() - kWindow); }

  double expected_ = 0;  // bytes a sample
  Point first_;
  bool begun_ = false;
  std::vector<Point> points_;  // since the warm-up
  uint64_t stride_ = 1;        // samples between points
  uint64_t used_bytes_ = 0;
  uint64_t recent_[kWindow] = {};  // the last looks
  Point rate_looks_[kRateLooks];   // the last ones, by their numbers
  double fastest_ = 0;             // samples per second
  uint64_t looks_ = 0;
  uint64_t samples_ = 0;
  uint64_t peak_bytes_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_MEMORY_GROWTH_H_
