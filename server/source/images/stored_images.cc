#include "server/source/images/stored_images.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/base/record_name.h"
#include "server/source/index/index_file.h"

namespace bulkhead {

absl::StatusOr<std::shared_ptr<const ObjectTable>> OpenTable(
    const internal::v1::TableOfObjects& table, absl::string_view name) {
  absl::StatusOr<std::shared_ptr<const ObjectTable>> objects = ObjectTable::Open(table.path());
  if (objects.ok()) return objects;
  return FileFault(
      absl::StatusCode::kUnavailable, reason::kFileUnreadable, name,
      absl::StrCat("the table of its objects in the cache folder cannot be read: ",
                   objects.status().message(), "; open the stream again, which makes it again"));
}

absl::StatusOr<std::unique_ptr<StoredImages>> StoredImages::Open(
    const internal::v1::TableOfObjects& table, absl::string_view name) {
  BULKHEAD_ASSIGN_OR_RETURN(auto objects, OpenTable(table, name));
  return std::unique_ptr<StoredImages>(new StoredImages(table, name, std::move(objects)));
}

ObjectPart StoredImages::PartOf(const ImageRow::Image& image) const {
  const uint64_t number = image.file.inode;
  return {table_.key(), number, number + 1, image.file.size_bytes};
}

std::shared_ptr<const StoredImages::Places> StoredImages::Opened(bool again) const {
  absl::MutexLock lock(&mutex_);
  if (places_ != nullptr && !again) return places_;
  auto places = std::make_shared<Places>();
  if (auto cached = ObjectBlocks::Open(table_.path(), objects_); cached.ok()) {
    places->cached.emplace(*std::move(cached));
  }
  if (auto spare = ObjectBlocks::Open(table_.spare_path(), objects_); spare.ok()) {
    places->spare.emplace(*std::move(spare));
  }
  places_ = std::move(places);
  return places_;
}

void StoredImages::Prefetch(const ImageRow::Image& image) const {
  const std::shared_ptr<const Places> places = Opened(/*again=*/false);
  const uint64_t number = image.file.inode;
  for (const std::optional<ObjectBlocks>* blocks : {&places->cached, &places->spare}) {
    if (!blocks->has_value() || number >= objects_->count() || !(*blocks)->Has(number)) continue;
    return (*blocks)->Prefetch(number);
  }
}

absl::StatusOr<FileIdentity> StoredImages::Read(const ImageRow::Image& image, char* to) const {
  const uint64_t number = image.file.inode;
  const uint64_t size = image.file.size_bytes;
  const auto entry = objects_->Get(number);
  if (!entry.ok() || entry->size_bytes != size || entry->mtime_ns != image.file.mtime_ns) {
    return IndexDamaged(name_, "does not belong to the table of objects");
  }
  const FileIdentity identity{size, entry->mtime_ns,
                              ObjectBlocks::NumberOf(objects_->KeyOf(*entry))};
  if (size == 0) return identity;
  // Those that are open may have been removed, and made again.
  for (const bool again : {false, true}) {
    const std::shared_ptr<const Places> places = Opened(again);
    for (const std::optional<ObjectBlocks>* blocks : {&places->cached, &places->spare}) {
      if (blocks->has_value() && (*blocks)->Read(number, 0, to, size)) return identity;
    }
  }
  return MakeError(
      absl::StatusCode::kUnavailable, reason::kNotFetched,
      absl::StrCat("the bytes of ", ShownUrl(objects_->UrlOf(*entry)), " are not on this host"),
      {{"key", table_.key()}, {"begin", absl::StrCat(number)}, {"end", absl::StrCat(number + 1)}});
}

}  // namespace bulkhead
