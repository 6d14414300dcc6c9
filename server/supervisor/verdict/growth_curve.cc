#include "server/supervisor/verdict/growth_curve.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace bulkhead {
namespace {

// Student's t for 95 %, two-sided, by degrees of freedom from 1 on.
constexpr double kStudent[] = {12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365};
// Growth that goes on has at least this share of its earlier rate.
constexpr double kSteadyShare = 0.7;

// The half width of the 95 % confidence interval of the mean.
double BoundOfMean(const std::vector<double>& values, double mean) {
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto count = static_cast<double>(values.size());
  const double deviation = std::sqrt(squares / (count - 1));
  return kStudent[values.size() - 2] * deviation / std::sqrt(count);
}

}  // namespace

void GrowthCurve::Note(uint64_t samples, int64_t bytes) {
  samples_ = samples;
  if (!lowest_.empty() && lowest_.back().samples / width_ == samples / width_) {
    if (bytes < lowest_.back().bytes) lowest_.back() = {samples, bytes};
    return;
  }
  lowest_.push_back({samples, bytes});
  if (lowest_.size() > kMaxStretches) Thin();
}

void GrowthCurve::Thin() {
  width_ *= 2;
  size_t kept = 0;
  for (size_t i = 1; i < lowest_.size(); ++i) {
    if (lowest_[i].samples / width_ != lowest_[kept].samples / width_) {
      lowest_[++kept] = lowest_[i];
    } else if (lowest_[i].bytes < lowest_[kept].bytes) {
      lowest_[kept] = lowest_[i];
    }
  }
  lowest_.resize(kept + 1);
}

uint64_t GrowthCurve::RiseBytes() const {
  if (lowest_.empty()) return 0;
  return static_cast<uint64_t>(std::max<int64_t>(0, lowest_.back().bytes - lowest_.front().bytes));
}

std::optional<GrowthCurve::Trend> GrowthCurve::Since(uint64_t from) const {
  const auto begin =
      std::ranges::find_if(lowest_, [from](const Point& point) { return point.samples >= from; });
  const auto count = static_cast<size_t>(lowest_.end() - begin);
  if (count < kMinStretches) return std::nullopt;
  const size_t parts = std::min(count, kParts);
  std::vector<Point> lows;
  for (size_t part = 0; part < parts; ++part) {
    lows.push_back(*std::ranges::min_element(
        begin + static_cast<std::ptrdiff_t>(part * count / parts),
        begin + static_cast<std::ptrdiff_t>((part + 1) * count / parts), {}, &Point::bytes));
  }
  std::vector<double> slopes;
  for (size_t i = 1; i < lows.size(); ++i) {
    slopes.push_back(static_cast<double>(lows[i].bytes - lows[i - 1].bytes) /
                     static_cast<double>(lows[i].samples - lows[i - 1].samples));
  }
  Trend trend;
  const auto span = static_cast<double>(lows.back().samples - lows.front().samples);
  trend.rise_bytes = static_cast<double>(lows.back().bytes - lows.front().bytes);
  trend.per_sample = trend.rise_bytes / span;
  trend.bound = BoundOfMean(slopes, std::accumulate(slopes.begin(), slopes.end(), 0.0) /
                                        static_cast<double>(slopes.size()));
  const auto half = slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2);
  const double earlier = std::accumulate(slopes.begin(), half, 0.0) / (half - slopes.begin());
  const double later = std::accumulate(half, slopes.end(), 0.0) / (slopes.end() - half);
  trend.slows = later < kSteadyShare * earlier;
  const auto highest = std::ranges::max_element(lowest_.begin(), begin, {}, &Point::bytes);
  trend.is_new_height = highest == begin || lows.back().bytes > highest->bytes;
  return trend;
}

}  // namespace bulkhead
