#pragma once

#include <zlib.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

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
  TfRecordWriter(const TfRecordWriter&) = delete;
  TfRecordWriter& operator=(const TfRecordWriter&) = delete;

  absl::Status Write(absl::string_view record);
  // Writes what is buffered and closes the file. A writer that is destroyed without it leaves a
  // file that is cut short.
  absl::Status Close();

 private:
  explicit TfRecordWriter(std::string path) : path_(std::move(path)) {}
  absl::Status Put(absl::string_view bytes, bool finish);

  const std::string path_;
  FILE* file_ = nullptr;
  bool compressed_ = false;
  z_stream deflate_{};
};

// The frame of `record` as in a file.
std::string TfRecordFrame(absl::string_view record);

}  // namespace bulkhead
