#include "tools/measure/theil_sen.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace bulkhead::tools {
namespace {

constexpr size_t kMaxPoints = 2000;
constexpr double kNormal975 = 1.959964;  // of the standard normal distribution

}  // namespace

SlopeEstimate TheilSen(const std::vector<double>& values) {
  const size_t stride = (values.size() + kMaxPoints - 1) / kMaxPoints;
  std::vector<double> slopes;
  double points = 0;
  for (size_t i = 0; i < values.size(); i += std::max<size_t>(1, stride)) {
    ++points;
    for (size_t j = i + stride; j < values.size(); j += stride) {
      slopes.push_back((values[j] - values[i]) / static_cast<double>(j - i));
    }
  }
  if (slopes.size() < 3) return {};
  std::sort(slopes.begin(), slopes.end());
  const auto count = static_cast<double>(slopes.size());
  const double spread = kNormal975 * std::sqrt(points * (points - 1) * (2 * points + 5) / 18);
  const auto at = [&](double rank) {
    return slopes[static_cast<size_t>(std::clamp(rank, 0.0, count - 1))];
  };
  return {at(std::floor((count - spread) / 2)), slopes[slopes.size() / 2],
          at(std::ceil((count + spread) / 2))};
}

}  // namespace bulkhead::tools
