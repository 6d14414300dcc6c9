#ifndef BULKHEAD_SERVER_SOURCE_TFRECORD_TFRECORD_SOURCE_H_
#define BULKHEAD_SERVER_SOURCE_TFRECORD_TFRECORD_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/source/source.h"

namespace bulkhead {

// OpenSource for TFRecord files: the records of all files, one file after the other. A read is one
// pread (uncompressed), or at most about 4 MiB of decompression from a restart point; a context
// that reads on where it stopped goes on without one. Both checksums are verified at every read.
absl::StatusOr<std::unique_ptr<Source>> OpenTfRecordSource(
    const google::protobuf::Map<std::string, v1::Feature>& features,
    const internal::v1::ResolvedSource& resolved, std::vector<FeatureSignature> signatures);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SOURCE_TFRECORD_TFRECORD_SOURCE_H_
