#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/source/records/record_format.h"

namespace bulkhead {

// Frames of TFRecord files that hold tf.Examples. Both checksums are verified at every read.
// Errors: those of ExampleReader::Create; of reads CORRUPT_RECORD and those of ExampleReader::Read.
absl::StatusOr<std::unique_ptr<const RecordFormat>> NewExampleFormat(
    const std::vector<FeatureSignature>& signatures,
    const google::protobuf::Map<std::string, v1::Feature>& features);

// The record in the frame `bytes`, a view of it. CORRUPT_RECORD if a checksum does not match.
absl::StatusOr<absl::string_view> DataOfFrame(absl::string_view bytes);

}  // namespace bulkhead
