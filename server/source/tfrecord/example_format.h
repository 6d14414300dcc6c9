#ifndef BULKHEAD_SERVER_SOURCE_TFRECORD_EXAMPLE_FORMAT_H_
#define BULKHEAD_SERVER_SOURCE_TFRECORD_EXAMPLE_FORMAT_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/source/records/record_format.h"

namespace bulkhead {

// Frames of TFRecord files that hold tf.Examples. Both checksums are verified at every read.
// Errors: those of ExampleReader::Create; of reads CORRUPT_RECORD and those of ExampleReader::Read.
absl::StatusOr<std::unique_ptr<const RecordFormat>> NewExampleFormat(
    const std::vector<FeatureSignature>& signatures,
    const google::protobuf::Map<std::string, v1::Feature>& features);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SOURCE_TFRECORD_EXAMPLE_FORMAT_H_
