#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/source/tfrecord/tensor_reader.h"
#include "tensorflow/example.pb.h"
#include "tools/common/json.h"

namespace bulkhead::tools {

// The first samples of data, a row each.
class SampleRows {
 public:
  static constexpr size_t kMost = 3;

  // What a sample holds: names and values, as people read them.
  using Values = std::vector<std::pair<std::string, std::string>>;

  bool full() const { return rows_.size() == kMost; }
  // `place`: the record, the line of the list or the path. Ignored when full.
  void Add(const std::string& place, Values values);

  // "first samples:\n  a.tfrecord@0: image JPEG 640 x 480 x 3; label 17\n"; empty without rows.
  std::string Text() const;
  std::vector<JsonObject> Json() const;

 private:
  std::vector<std::pair<std::string, Values>> rows_;
};

// The features and feature lists of a record, sorted by name.
SampleRows::Values ValuesOf(const ::bulkhead::tensorflow::SequenceExample& example);

// What a serialized tensor, or an array that numpy.save wrote, says of itself; absent of other
// bytes.
std::optional<StoredTensor> SniffArray(absl::string_view bytes);

// "float32 [3, 4]".
std::string TensorText(const StoredTensor& tensor);

}  // namespace bulkhead::tools
