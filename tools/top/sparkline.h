#pragma once

#include <cstddef>
#include <deque>
#include <string>

namespace bulkhead::tools {

// The last values of a figure, as a row of small bars. Not thread-safe.
class Sparkline {
 public:
  static constexpr size_t kWidth = 30;

  void Add(double value);
  // kWidth characters of UTF-8, the newest value last, spaces where there are no values yet. A
  // value of `most` or more is a full bar, and 0 an empty one; `most` 0: the largest of the values.
  std::string Draw(double most = 0) const;

 private:
  std::deque<double> values_;  // kWidth at most
};

}  // namespace bulkhead::tools
