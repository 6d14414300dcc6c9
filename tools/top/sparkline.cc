#include "tools/top/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace bulkhead::tools {
namespace {

constexpr std::array<const char*, 9> kBars = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

}  // namespace

void Sparkline::Add(double value) {
  values_.push_back(std::max(0.0, value));
  if (values_.size() > kWidth) values_.pop_front();
}

std::string Sparkline::Draw(double most) const {
  if (most <= 0 && !values_.empty()) most = *std::max_element(values_.begin(), values_.end());
  std::string text(kWidth - values_.size(), ' ');
  for (const double value : values_) {
    // The smallest bar is for anything above 0.
    const double share = most > 0 ? std::min(1.0, value / most) : 0;
    text += kBars[static_cast<size_t>(std::ceil(share * (kBars.size() - 1)))];
  }
  return text;
}

}  // namespace bulkhead::tools
