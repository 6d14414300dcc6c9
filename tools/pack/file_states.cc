#include "tools/pack/file_states.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/little_endian.h"
#include "server/source/images/image_source.h"
#include "server/spec/image_lists.h"

namespace bulkhead::tools {
namespace {

// `before`, with more in it.
uint64_t With(uint64_t before, absl::string_view more) {
  Sha256 hash;
  hash.Update(absl::StrCat(before, " ", more));
  const std::string digest = hash.Finish();
  return LoadLittle<uint64_t>(digest.data());
}

}  // namespace

absl::StatusOr<FileStates> FileStates::Of(const v1::Source& source, const FoundData& found) {
  FileStates states;
  if (source.has_image_folder() || source.has_image_list()) {
    BULKHEAD_RETURN_IF_ERROR(states.AddImages(source, found.resolved.files(0)));
    return states;
  }
  for (const auto& file : found.resolved.files()) {
    uint64_t& state = states.by_file_[file.name()];
    state = With(state, absl::StrCat(file.size_bytes(), " ", file.mtime_ns()));
  }
  return states;
}

absl::Status FileStates::AddImages(const v1::Source& source,
                                   const internal::v1::ResolvedFile& file) {
  BULKHEAD_ASSIGN_OR_RETURN(rows_, OpenImageRows(source, file));
  ImageRow row;
  for (uint64_t i = 0; i < rows_->record_count(); ++i) {
    BULKHEAD_RETURN_IF_ERROR(rows_->Get(i, row));
    std::string text(row.labels);
    for (const ImageRow::Image& image : row.images) {
      absl::StrAppend(&text, " ", image.path, " ", image.file.size_bytes, " ", image.file.mtime_ns);
    }
    // A window has the name of its clip.
    uint64_t& state = FramesOf(source) == nullptr ? by_image_[row.images[0].path] : all_;
    state = With(state, text);
  }
  return absl::OkStatus();
}

uint64_t FileStates::Of(const RecordIdentity& record) const {
  if (const auto image = by_image_.find(record.name); image != by_image_.end()) {
    return image->second;
  }
  const auto file = by_file_.find(record.name);
  return file == by_file_.end() ? all_ : file->second;
}

}  // namespace bulkhead::tools
