#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "server/base/error.h"

namespace bulkhead {

// A message from protobuf's text format.
template <typename Message>
Message FromText(absl::string_view text) {
  Message message;
  // Merging lets a second `batch {…}` add to the first.
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(std::string(text), &message)) << text;
  return message;
}

// A spec with an image folder as source and batches of two, and `text` besides.
inline v1::PipelineSpec FolderSpec(absl::string_view text) {
  return FromText<v1::PipelineSpec>(
      "source { image_folder { path: 'photos' } } batch { size: 2 } " + std::string(text));
}

// A spec with TFRecords as source and batches of two, and `text` (features at least) besides.
inline v1::PipelineSpec RecordSpec(absl::string_view text) {
  return FromText<v1::PipelineSpec>(
      "source { tfrecord { files: 'a.tfrecord' } } batch { size: 2 } " + std::string(text));
}

// The metadata `path` of an error.
inline std::string ErrorPath(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  if (!info.has_value()) return "(no error info)";
  EXPECT_EQ(info->reason, reason::kSpecInvalid);
  const auto found = info->metadata.find("path");
  return found == info->metadata.end() ? "(no path)" : found->second;
}

}  // namespace bulkhead
