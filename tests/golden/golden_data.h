#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"

namespace bulkhead {

// An array that a script wrote.
struct GoldenArray {
  std::string dtype;  // NumPy's name
  std::vector<int64_t> shape;
  std::string bytes;
};

// What TensorFlow, OpenCV and NumPy made of the records, as data/manifest.txt lists it.
struct GoldenData {
  std::vector<std::string> records;  // in the order of the TFRecord files
  std::map<std::string, std::map<std::string, GoldenArray>> arrays;  // by record, then by name
};

// Reads tests/golden/data. An empty result where something is missing.
GoldenData ReadGoldenData();

// The arrays of a file of tests/golden/data that golden_arrays.py wrote, by name. None where it is
// missing or damaged.
std::map<std::string, GoldenArray> ReadGoldenArrays(const std::string& name);

// A TFRecord source of tests/golden/data/<name>.tfrecord, indexed into `index_path`.
absl::StatusOr<internal::v1::ResolvedSource> ResolveGolden(const std::string& name,
                                                           const std::string& index_path);

}  // namespace bulkhead
