#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/source/tfrecord/tensor_reader.h"
#include "tensorflow/example.pb.h"
#include "tools/common/json.h"
#include "tools/inspect/image_survey.h"

namespace bulkhead::tools {

// The least and the largest of numbers.
template <typename Number>
struct Range {
  uint64_t count = 0;
  Number low = 0;
  Number high = 0;

  void Take(Number number) {
    low = count == 0 ? number : std::min(low, number);
    high = count == 0 ? number : std::max(high, number);
    ++count;
  }
};

// What records hold under one name.
class FeatureSurvey {
 public:
  void Take(const ::bulkhead::tensorflow::Feature& feature, const std::string& place);

  // "bytes", "int64" or "float"; "bytes or int64" where records differ, "empty" where all are.
  std::string type() const;
  // Values in a record: "1", "0 to 12".
  std::string values() const;
  // "JPEG; 500 x 375 …, 3.1 KiB to 0.2 MiB", "0 to 999", "tensors float32 [-1, 4]".
  std::string what() const;
  uint64_t records() const { return values_.count; }
  // Whether all records that have it hold as many values.
  bool is_fixed() const { return values_.low == values_.high; }
  uint64_t most_values() const { return values_.high; }
  const ImageSurvey& images() const { return images_; }
  // The element type and shape of the serialized tensors that all of its byte strings are, with -1
  // for a first dimension that differs; absent when they are none, or differ otherwise.
  std::optional<StoredTensor> tensor() const;
  // The largest first dimension of these.
  uint64_t most_rows() const { return most_rows_; }
  // Bytes of the longest byte string.
  uint64_t most_bytes() const { return static_cast<uint64_t>(seen_.high); }
  JsonObject Json() const;

 private:
  void TakeBytes(const std::string& bytes, const std::string& place);
  void TakeTensor(const StoredTensor& tensor);

  std::map<std::string, uint64_t> types_;
  Range<uint64_t> values_;  // in a record
  Range<double> seen_;      // all values: of byte strings their lengths
  ImageSurvey images_;
  uint64_t tensors_ = 0;  // byte strings that are serialized tensors like the first, `tensor_`
  StoredTensor tensor_;
  uint64_t most_rows_ = 0;
  bool rows_differ_ = false;
};

// "max_count: 8", where records that were not looked at may have more than `most`.
std::string Bound(absl::string_view what, uint64_t most);
// How many of all records have it: "all", "40%".
std::string ShareText(uint64_t records, uint64_t all);

}  // namespace bulkhead::tools
