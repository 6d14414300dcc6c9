#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// Writes a TFRecord file, for tests and synthetic data sets. The same records give the same bytes.
// Not thread-safe.
//
//   BULKHEAD_ASSIGN_OR_RETURN(auto writer, TfRecordWriter::Create(path));
//   BULKHEAD_RETURN_IF_ERROR(writer->Write(example.SerializeAsString()));
//   BULKHEAD_RETURN_IF_ERROR(writer->Close());
class TfRecordWriter {
 public:
  // Creates or empties `path`. FILE_UNREADABLE or FILE_NOT_FOUND when that fails.
  static absl::StatusOr<std::unique_ptr<TfRecordWriter>> Create(
      const std::string& path, v1::Compression compression = v1::COMPRESSION_NONE);
  ~TfRecordWriter();

  absl::Status Write(absl::string_view record);
  // Writes what is buffered and closes the file. A writer that is destroyed without it leaves a
  // file that is cut short.
  absl::Status Close();

 private:
  struct State;
  explicit TfRecordWriter(std::unique_ptr<State> state);
  absl::Status Put(absl::string_view bytes, bool finish);

  std::unique_ptr<State> state_;
};

// The frame of `record` as in a file.
std::string TfRecordFrame(absl::string_view record);

}  // namespace bulkhead
