#include "tools/pack/file_states.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/base/paths/object_url.h"
#include "server/source/images/image_list.h"
#include "server/source/images/image_source.h"
#include "server/source/images/stored_images.h"
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
    BULKHEAD_RETURN_IF_ERROR(states.AddImages(source, found.resolved));
    return states;
  }
  for (const auto& file : found.resolved.files()) {
    uint64_t& state = states.by_file_[file.name()];
    state = With(state, absl::StrCat(file.size_bytes(), " ", file.mtime_ns(), file.object().key()));
  }
  return states;
}

absl::Status FileStates::AddImages(const v1::Source& source,
                                   const internal::v1::ResolvedSource& resolved) {
  const internal::v1::ResolvedFile& file = resolved.files(0);
  BULKHEAD_ASSIGN_OR_RETURN(rows_, OpenImageRows(source, file));
  std::shared_ptr<const ObjectTable> objects;  // null: all images are files
  if (file.has_table()) {
    BULKHEAD_ASSIGN_OR_RETURN(objects, OpenTable(file.table(), file.name()));
  }
  const std::string folder = FolderOfList(file, resolved.base_dir());
  ImageRow row;
  for (uint64_t i = 0; i < rows_->record_count(); ++i) {
    BULKHEAD_RETURN_IF_ERROR(rows_->Get(i, row));
    std::string text(row.labels);
    for (const ImageRow::Image& image : row.images) {
      absl::StrAppend(&text, " ", image.path, " ", image.file.size_bytes, " ", image.file.mtime_ns);
      // The number in the table is no object's own.
      const bool is_object = objects != nullptr && !image.is_missing() && !image.is_malformed() &&
                             (source.has_image_folder() || NamesObject(folder, image.path));
      if (!is_object) continue;
      BULKHEAD_ASSIGN_OR_RETURN(const ObjectTable::Entry entry, objects->Get(image.file.inode));
      text += objects->KeyOf(entry);
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
