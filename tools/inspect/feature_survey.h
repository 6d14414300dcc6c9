#pragma once

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
  uint64_t records() const { return records_; }
  // Whether all records that have it hold as many values.
  bool is_fixed() const { return least_values_ == most_values_; }
  uint64_t most_values() const { return most_values_; }
  const ImageSurvey& images() const { return images_; }
  // The element type and shape of the serialized tensors that all of its byte strings are, with -1
  // for a first dimension that differs; absent when they are none, or differ otherwise.
  std::optional<StoredTensor> tensor() const;
  // The largest first dimension of these.
  uint64_t most_rows() const { return most_rows_; }
  // Bytes of the longest byte string.
  uint64_t most_bytes() const { return static_cast<uint64_t>(high_); }
  JsonObject Json() const;

 private:
  void TakeBytes(const std::string& bytes, const std::string& place);
  void TakeNumber(double value);
  void TakeTensor(const StoredTensor& tensor);

  uint64_t records_ = 0;
  std::map<std::string, uint64_t> types_;
  uint64_t least_values_ = 0;
  uint64_t most_values_ = 0;
  // Of all values: of byte strings their lengths.
  uint64_t seen_ = 0;
  double low_ = 0;
  double high_ = 0;
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
