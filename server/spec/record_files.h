#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// A source whose samples are records of files that patterns name: TFRecords, tars. Each file has an
// index of its own, which is kept.

// The options that such sources share: views of a source.
struct RecordFiles {
  absl::string_view kind;  // "tfrecord", the name of the source in specs
  const google::protobuf::RepeatedPtrField<std::string>* files = nullptr;
  v1::Compression compression = v1::COMPRESSION_UNSPECIFIED;
};

// Whether `source` is of this kind.
bool HasRecordFiles(const v1::Source& source);

// The options of `source`, for which HasRecordFiles is true.
RecordFiles RecordFilesOf(const v1::Source& source);
google::protobuf::RepeatedPtrField<std::string>& MutableFilesOf(v1::Source& source);

// The part of a file's name by which people tell such files: ".tfrec", ".tar".
absl::string_view UsualMark(const v1::Source& source);

}  // namespace bulkhead
