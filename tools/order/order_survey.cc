#include "tools/order/order_survey.h"

#include <algorithm>
#include <cmath>

#include "server/base/random.h"

namespace bulkhead::tools {
namespace {

// Pearson's correlation of pairs that come one by one.
class Correlation {
 public:
  void Add(double x, double y) {
    ++count_;
    const double dx = x - mean_x_;
    const double dy = y - mean_y_;
    mean_x_ += dx / count_;
    mean_y_ += dy / count_;
    xx_ += dx * (x - mean_x_);
    yy_ += dy * (y - mean_y_);
    xy_ += dx * (y - mean_y_);
  }
  double value() const { return xy_ / std::sqrt(xx_ * yy_); }

 private:
  double count_ = 0;
  double mean_x_ = 0;
  double mean_y_ = 0;
  double xx_ = 0;
  double yy_ = 0;
  double xy_ = 0;
};

}  // namespace

OrderSurvey SurveyOrder(const SampleOrder& order, uint64_t epoch, uint64_t positions,
                        absl::Span<const uint64_t> file_records) {
  std::vector<uint64_t> ends;
  uint64_t end = 0;
  for (const uint64_t count : file_records) ends.push_back(end += count);

  OrderSurvey survey;
  survey.positions = positions;
  Correlation correlation;
  uint64_t run_begin = 0;
  size_t run_file = 0;
  uint64_t last = 0;
  for (uint64_t position = 0; position < positions; ++position) {
    const uint64_t record = order.RecordAt(epoch, position);
    const size_t file = std::upper_bound(ends.begin(), ends.end(), record) - ends.begin();
    if (position > 0) correlation.Add(static_cast<double>(last), static_cast<double>(record));
    if (file != run_file || position == 0) {
      run_begin = position;
      run_file = file;
    }
    if (position - run_begin + 1 > survey.longest_run) {
      survey.longest_run = position - run_begin + 1;
      survey.longest_run_position = run_begin;
      survey.longest_run_file = file;
    }
    last = record;
  }
  survey.serial_correlation = correlation.value();
  return survey;
}

std::vector<uint64_t> PickPositions(uint64_t positions, uint64_t wanted) {
  const uint64_t stretch = positions <= wanted ? 1 : (positions - 1) / wanted + 1;
  std::vector<uint64_t> picked;
  for (uint64_t begin = 0; begin < positions; begin += stretch) {
    const uint64_t length = std::min(stretch, positions - begin);
    picked.push_back(begin + MixBits(begin, 1) % length);
  }
  return picked;
}

}  // namespace bulkhead::tools
