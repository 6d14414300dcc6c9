#include "server/supervisor/memory/memory_growth.h"

#include <algorithm>
#include <span>

namespace bulkhead {

void MemoryGrowth::Note(uint64_t samples, uint64_t used_bytes, int64_t now_ns) {
  used_bytes_ = used_bytes;
  samples_ = samples;
  peak_bytes_ = std::max(peak_bytes_, used_bytes);
  const Point point{samples, used_bytes, now_ns};
  NoteRate(point);
  recent_[looks_ % kWindow] = point;
  ++looks_;
  if (!begun_ || samples == first_.samples) {
    // An import, or what the first sample takes, is no growth.
    begun_ = true;
    first_ = point;
  }
  NoteLastLook(point);
  if (samples < first_.samples + kWarmUpSamples) return;
  if (points_.size() >= 2 && samples < points_[points_.size() - 2].samples + stride_) {
    points_.back() = point;  // the newest is always there
    return;
  }
  points_.push_back(point);
  if (points_.size() <= kMaxPoints) return;
  for (size_t i = 0; 2 * i < points_.size(); ++i) points_[i] = points_[2 * i];
  points_.resize(points_.size() / 2 + 1);
  stride_ = std::max<uint64_t>(1, (points_.back().samples - points_.front().samples) / kMaxPoints);
}

void MemoryGrowth::NoteLastLook(const Point& look) {
  const size_t count = last_looks_.size();
  const bool is_near =
      count > 0 && look.samples < (count > 1 ? last_looks_[count - 2].samples + kStepSamples
                                             : last_looks_[0].samples + 1);
  if (is_near) {
    last_looks_.back() = look;  // the newest is always there
    return;
  }
  if (count == kLastingLooks) last_looks_.erase(last_looks_.begin());
  last_looks_.push_back(look);
}

void MemoryGrowth::NoteRate(const Point& look) {
  Point& earlier = rate_looks_[looks_ % kRateLooks];
  if (looks_ >= kRateLooks && look.samples >= earlier.samples + kMinSamples) {
    fastest_burst_ = std::max(fastest_burst_, Rate(earlier, look));
  }
  earlier = look;
  if (looks_ == 0) rate_from_ = look;
  const Point& last = looks_ == 0 ? look : recent_[(looks_ - 1) % kWindow];
  if (look.samples > last.samples) busy_ns_ += look.at_ns - last.at_ns;
  if (look.at_ns < rate_from_.at_ns + kRateTimeNs) return;
  const int64_t time_ns = std::max(busy_ns_, kRateTimeNs);
  fastest_ = std::max(fastest_, Rate(rate_from_, {look.samples, 0, rate_from_.at_ns + time_ns}));
  rate_from_ = look;
  busy_ns_ = 0;
}

double MemoryGrowth::Slope(const Point& from, const Point& to) {
  if (to.samples <= from.samples) return 0;
  return (static_cast<double>(to.used_bytes) - static_cast<double>(from.used_bytes)) /
         static_cast<double>(to.samples - from.samples);
}

double MemoryGrowth::WholeSlope() const {
  Point to = Last();
  to.samples = std::max(to.samples, First().samples + kMinSamples);
  return Slope(First(), to);
}

const MemoryGrowth::Point& MemoryGrowth::Lowest(size_t first) const {
  return *std::ranges::min_element(std::span(points_).subspan(first, kWindow), {},
                                   &Point::used_bytes);
}

bool MemoryGrowth::IsAsExpected() const {
  if (expected_ <= 0 || points_.size() < 3) return false;
  const Point& lower =
      std::ranges::min(points_.back(), points_[points_.size() - 2], {}, &Point::used_bytes);
  return lower.samples >= points_.front().samples + kExpectedSamples &&
         Slope(points_.front(), lower) >= expected_ / 2;
}

double MemoryGrowth::BytesPerSample(uint64_t quota_bytes) const {
  if (is_known()) {
    return std::max({0.0, WholeSlope(), LaterSlope()});
  }
  if (IsAsExpected()) return expected_;
  const uint64_t lowest = std::ranges::min_element(recent_, {}, &Point::used_bytes)->used_bytes;
  if (lowest < quota_bytes / 2) return 0;
  return LastingBytesPerSample();
}

double MemoryGrowth::LastingBytesPerSample() const {
  const double expected = IsAsExpected() ? expected_ : 0;
  if (last_looks_.size() <= kLastingSteps) return expected;
  // What is given back again is no growth: each look counts with the lowest from it on.
  std::vector<double> slopes;
  Point later = last_looks_.back();
  for (size_t i = last_looks_.size() - 1; i-- > 0;) {
    Point look = last_looks_[i];
    look.used_bytes = std::min(look.used_bytes, later.used_bytes);
    slopes.push_back(Slope(look, later));
    later = look;
  }
  const auto typical = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / kExceptions);
  std::nth_element(slopes.begin(), typical, slopes.end());
  return std::max(expected, *typical);
}

double MemoryGrowth::SamplesPerSecond() const {
  const Point& from = points_.size() >= 2 ? points_[points_.size() / 2] : first_;
  const Point& to = points_.empty() ? first_ : points_.back();
  return std::max(fastest_ > 0 ? fastest_ : fastest_burst_, Rate(from, to));
}

double MemoryGrowth::SamplesWithin(double seconds) const {
  const double lasting = SamplesPerSecond();
  const double burst = std::max(lasting, fastest_burst_);
  return std::min(burst * seconds, lasting * std::max(seconds, kRateTimeNs / 1e9));
}

double MemoryGrowth::Rate(const Point& from, const Point& to) {
  if (to.at_ns <= from.at_ns) return 0;
  return static_cast<double>(to.samples - from.samples) * 1e9 /
         static_cast<double>(to.at_ns - from.at_ns);
}

bool MemoryGrowth::IsSteady(uint64_t quota_bytes) const {
  if (!is_known()) return false;
  const double whole = WholeSlope();
  const uint64_t base = std::min(first_.used_bytes, used_bytes_);
  return whole > 0 && Slope(Middle(), Last()) >= whole / 2 && used_bytes_ - base >= quota_bytes / 4;
}

}  // namespace bulkhead
