#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/declaration/annotation.h"

namespace bulkhead {

// What is known about one feature of a sample before any sample is read.
struct FeatureSignature {
  enum class Kind {
    kTensor,   // elements of `dtype`
    kEncoded,  // a byte string: an encoded image or text; dtype DTYPE_BYTES, shape []
    kImage,    // [height, width, channels], or [channels, height, width] when `channels_first`
  };
  std::string name;
  Kind kind = Kind::kTensor;
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  // Shape of one sample. -1: an extent that differs between samples and has no bound yet (a decoded
  // image).
  std::vector<int64_t> shape;
  // The first dimension varies from sample to sample; shape[0] is its bound. The batch gets
  // `<name>_count`.
  bool variable = false;
  bool channels_first = false;
  // A kTensor that is several images of one size: [n, height, width, channels], or [n, channels,
  // height, width] when `channels_first`.
  bool is_stack = false;
  // For kEncoded: bound of the length in bytes; 0: none, so it cannot be an output.
  uint64_t max_bytes = 0;
  // Declared boxes, points or a mask of an image.
  std::optional<Annotation> annotation;
  // How a batch stage packs it, and the stage ("batch_stages[0].pack_rows"). Only for features of a
  // batch (AddBatchFeatures).
  v1::Packing packing = v1::PACKING_UNSPECIFIED;
  std::string packed_at;
  // What the client still makes of the feature, which is uint8 with channels last until then, and
  // the stage that says so ("stages[2].normalize").
  std::optional<v1::Normalization> normalization;
  std::string normalized_at;
  // The place that messages about this feature name: "features.boxes", "stages[2].resize".
  std::string path;
};

}  // namespace bulkhead
