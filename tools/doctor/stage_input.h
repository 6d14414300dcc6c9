#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/batch.h"
#include "bulkhead/v1/types.pb.h"
#include "server/stages/declaration/feature_signature.h"

namespace bulkhead::tools {

// Values of one feature, of several samples.
struct InputValues {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;        // of a sample; the first extent may be less in `samples`
  std::vector<std::string> samples;  // their elements, row by row
};
using CapturedValues = std::map<std::string, InputValues>;

// How many samples of a stage's input are kept: the stage gets them again and again.
inline constexpr uint64_t kInputSamples = 16;

// Adds the samples of a batch to `captured`, up to kInputSamples. Rows beyond a sample's count
// (`<name>_count`) are left out.
void Capture(const Batch& batch, CapturedValues& captured);

// Where the input of a stage that runs alone comes from.
struct InputChoice {
  enum class Kind { kCaptured, kZeros, kRandom, kFile };
  Kind kind = Kind::kCaptured;
  InputValues file;  // kFile

  // "captured", "zeros", "random", or the name of a .npy file, which is read. Errors: those of
  // reading it; INVALID_ARGUMENT when it is no array.
  static absl::StatusOr<InputChoice> Parse(const std::string& text);
};

// Values for the feature: captured ones, or made ones, of the feature's shape; of an extent that is
// not known 256. `how` gets what they are, for people: "captured", "zeros [32,32,3]". Errors:
// FAILED_PRECONDITION, for people, when there are none.
absl::StatusOr<InputValues> ValuesFor(const FeatureSignature& feature, const InputChoice& choice,
                                      const CapturedValues& captured, std::string& how);

}  // namespace bulkhead::tools
