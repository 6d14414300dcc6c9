#include "server/spec/record_files.h"

namespace bulkhead {

bool HasRecordFiles(const v1::Source& source) { return source.has_tfrecord() || source.has_tar(); }

RecordFiles RecordFilesOf(const v1::Source& source) {
  if (source.has_tar()) return {"tar", &source.tar().files(), source.tar().compression()};
  return {"tfrecord", &source.tfrecord().files(), source.tfrecord().compression()};
}

google::protobuf::RepeatedPtrField<std::string>& MutableFilesOf(v1::Source& source) {
  return source.has_tar() ? *source.mutable_tar()->mutable_files()
                          : *source.mutable_tfrecord()->mutable_files();
}

absl::string_view UsualMark(const v1::Source& source) {
  return source.has_tar() ? ".tar" : ".tfrec";
}

}  // namespace bulkhead
