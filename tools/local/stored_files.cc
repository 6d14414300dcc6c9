#include "tools/local/stored_files.h"

#include <fcntl.h>
#include <stdlib.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/index_header.h"
#include "server/base/paths/object_url.h"
#include "server/image/codecs/image_format.h"
#include "server/os/files/fd.h"
#include "server/source/index/index_file.h"
#include "tools/local/temporary_folder.h"

namespace bulkhead::tools {
namespace {

// Makes the table of what `list` asks for.
absl::StatusOr<internal::v1::TableOfObjects> MakeTable(ObjectFetcher& objects,
                                                       internal::v1::ListObjects list,
                                                       SharedFd urls, const std::string& activity,
                                                       const FindProgressFn& progress) {
  const auto tell = [&](uint64_t count) {
    v1::Progress report;
    report.set_activity(activity);
    report.set_records(count);
    progress(report);
  };
  return objects.List(std::move(list), std::move(urls), tell, [] { return false; });
}

// A file of URLs, as BuildIndex.urls_only writes it.
absl::StatusOr<UniqueFd> WriteUrls(const std::vector<std::string>& urls) {
  BULKHEAD_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make("urls"));
  std::string path = folder.path() + "/XXXXXX";
  UniqueFd fd(mkostemp(path.data(), O_CLOEXEC));
  if (!fd) return Unwritable(path, errno);
  IndexFileWriter out(fd.get());
  for (const std::string& url : urls) BULKHEAD_RETURN_IF_ERROR(out.Append(url + "\n"));
  IndexHeader header;
  header.kind = v1::Source::kImageList + IndexHeader::kUrls;
  header.record_count = urls.size();
  BULKHEAD_RETURN_IF_ERROR(out.Finish(header));
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoredFiles>> StoredFiles::Open(
    std::shared_ptr<ObjectFetcher> objects, const internal::v1::TableOfObjects& table) {
  auto files = std::make_unique<StoredFiles>();
  internal::v1::ResolvedSource source;
  *source.add_files()->mutable_table() = table;
  files->objects_ = std::move(objects);
  files->found_ = std::make_shared<const FoundObjects>(files->objects_.get(), source);
  BULKHEAD_ASSIGN_OR_RETURN(files->table_, OpenTable(table, "DATA"));
  BULKHEAD_ASSIGN_OR_RETURN(files->images_, StoredImages::Open(table, "DATA"));
  return files;
}

absl::StatusOr<std::unique_ptr<StoredFiles>> StoredFiles::OfFolder(
    std::shared_ptr<ObjectFetcher> objects, const std::string& url,
    const FindProgressFn& progress) {
  BULKHEAD_RETURN_IF_ERROR(ParseFolderUrl(url).status());
  internal::v1::ListObjects list;
  list.set_folder(absl::StrCat(absl::StripSuffix(url, "/"), "/"));
  BULKHEAD_ASSIGN_OR_RETURN(const internal::v1::TableOfObjects table,
                            MakeTable(*objects, std::move(list), nullptr,
                                      absl::StrCat("listing ", ShownUrl(url)), progress));
  return Open(std::move(objects), table);
}

absl::StatusOr<std::unique_ptr<StoredFiles>> StoredFiles::Named(
    std::shared_ptr<ObjectFetcher> objects, const std::vector<std::string>& urls,
    const FindProgressFn& progress) {
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd fd, WriteUrls(urls));
  BULKHEAD_ASSIGN_OR_RETURN(const internal::v1::TableOfObjects table,
                            MakeTable(*objects, {}, std::make_shared<const UniqueFd>(std::move(fd)),
                                      "looking up the images", progress));
  return Open(std::move(objects), table);
}

absl::StatusOr<ImageRow::Image> StoredFiles::ImageOf(uint64_t number) const {
  BULKHEAD_ASSIGN_OR_RETURN(const ObjectTable::Entry entry, table_->Get(number));
  return ImageRow::Image{"", {entry.size_bytes, entry.mtime_ns, number}};
}

StoredFiles::Reader::Reader(const StoredFiles& files,
                            std::function<uint64_t(uint64_t record)> number_of)
    : files_(files),
      number_of_(std::move(number_of)),
      ahead_(FetchHere(files.found_), [this](uint64_t record, std::vector<ObjectPart>& parts) {
        const auto image = files_.ImageOf(number_of_(record));
        if (image.ok() && image->file.size_bytes > 0) {
          parts.push_back(files_.images_->PartOf(*image));
        }
      }) {}

absl::StatusOr<std::string> StoredFiles::Reader::Read(uint64_t record) {
  BULKHEAD_ASSIGN_OR_RETURN(const ImageRow::Image image, files_.ImageOf(number_of_(record)));
  if (image.file.size_bytes > kMostImageFileBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("has ", FormatBytes(image.file.size_bytes),
                                                     ", at most ", FormatBytes(kMostImageFileBytes),
                                                     " are read"));
  }
  std::string bytes(image.file.size_bytes, '\0');
  BULKHEAD_RETURN_IF_ERROR(ahead_.Read(record, [&]() -> absl::Status {
    BULKHEAD_RETURN_IF_ERROR(files_.images_->Read(image, bytes.data()).status());
    // Bytes may have arrived wrong.
    const bool is_doubtful = !bytes.empty() && SniffFormat(bytes) == ImageFormat::kUnknown;
    if (!is_doubtful || !ahead_.fetched_again().empty()) return absl::OkStatus();
    const ObjectPart part = files_.images_->PartOf(image);
    return NotFetched(part.key, part.begin, part.end, /*wrong=*/true);
  }));
  return bytes;
}

}  // namespace bulkhead::tools
