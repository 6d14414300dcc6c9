#include "server/source/images/image_list.h"

#include <cstring>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/source/file.h"
#include "server/source/images/image_rows.h"
#include "server/source/images/label_reader.h"
#include "server/source/images/list_parser.h"
#include "server/source/roots.h"

namespace bulkhead {
namespace {

constexpr size_t kReadBytes = 256 << 10;
// A line this long is not a list's.
constexpr size_t kMaxLineBytes = 64 << 10;
// Often enough that slow storage is not taken for hanging storage.
constexpr uint64_t kProgressRecords = 64;

// Calls `take` with each line of a list, without its newline, until it returns false or an error,
// and `note` with each piece of the file before its lines. Errors: those of `take`, and of reading.
absl::Status EachLine(const DataFile& file, absl::FunctionRef<void(absl::string_view)> note,
                      absl::FunctionRef<absl::StatusOr<bool>(absl::string_view)> take) {
  const std::unique_ptr<char[]> buffer(new char[kReadBytes]);
  std::string rest;  // a line's beginning, at the end of what was read
  for (uint64_t offset = 0;;) {
    BULKHEAD_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(offset, buffer.get(), kReadBytes));
    if (got == 0) break;
    offset += got;
    absl::string_view text(buffer.get(), got);
    note(text);
    for (size_t end; (end = text.find('\n')) != absl::string_view::npos;) {
      rest.append(text.data(), end);
      BULKHEAD_ASSIGN_OR_RETURN(const bool more, take(rest));
      if (!more) return absl::OkStatus();
      rest.clear();
      text.remove_prefix(end + 1);
    }
    rest.append(text.data(), text.size());
    if (rest.size() > kMaxLineBytes) return take(rest).status();
  }
  return rest.empty() ? absl::OkStatus() : take(rest).status();
}

class ListIndexer {
 public:
  ListIndexer(const internal::v1::BuildIndex& request, absl::string_view name, std::string folder,
              int fd, const IndexProgressFn& progress)
      : list_(request.source().image_list()),
        labels_(list_),
        learner_(list_, name, &labels_),
        parser_(list_, name, &labels_),
        keep_missing_(request.keep_missing()),
        name_(name),
        folder_(std::move(folder)),
        roots_(request.roots()),
        rows_(fd),
        progress_(progress) {}

  absl::Status AddFile(const DataFile& file) {
    BULKHEAD_RETURN_IF_ERROR(EachLine(
        file, [](absl::string_view) {}, [&](absl::string_view line) { return LearnFrom(line); }));
    BULKHEAD_RETURN_IF_ERROR(EndLearning());
    const auto note = [&](absl::string_view text) {
      text_.Update(text);
      bytes_done_ += text.size();
    };
    return EachLine(file, note, [&](absl::string_view line) -> absl::StatusOr<bool> {
      BULKHEAD_RETURN_IF_ERROR(AddLine(line));
      return true;
    });
  }

  absl::Status AddEntries() {
    for (const std::string& entry : list_.entries()) {
      BULKHEAD_ASSIGN_OR_RETURN(const bool more, LearnFrom(entry));
      if (!more) break;
    }
    BULKHEAD_RETURN_IF_ERROR(EndLearning());
    for (const std::string& entry : list_.entries()) {
      text_.Update(entry);
      text_.Update("\n");
      BULKHEAD_RETURN_IF_ERROR(AddLine(entry));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> Finish(const FileIdentity& list) {
    if (rows_.count() == 0) {
      return MakeError(absl::StatusCode::kInvalidArgument, reason::kNoSamples,
                       absl::StrCat(Printable(name_),
                                    ": holds no samples; write one line for each: a path, "
                                    "then its label"),
                       {{"file", name_}});
    }
    BULKHEAD_RETURN_IF_ERROR(
        rows_.Finish(v1::Source::kImageList, text_.Finish(), list.size_bytes, list.mtime_ns));
    return rows_.count();
  }

 private:
  // Whether the next line is to be learned from as well.
  absl::StatusOr<bool> LearnFrom(absl::string_view line) {
    if (!labels_.learns()) return false;
    if (line.size() > kMaxLineBytes) return false;  // AddLine says so
    BULKHEAD_RETURN_IF_ERROR(learner_.Parse(line).status());
    return labels_.learns();
  }

  absl::Status EndLearning() {
    labels_.EndLearning();
    return rows_.AddNames(labels_.names());
  }

  absl::Status AddLine(absl::string_view line) {
    if (line.size() > kMaxLineBytes) {
      (void)parser_.Parse("");  // counts the line
      return parser_.Invalid("is longer than 64 KiB; this is not an image list");
    }
    BULKHEAD_ASSIGN_OR_RETURN(const bool sample, parser_.Parse(line));
    if (!sample) return absl::OkStatus();
    row_.line = parser_.line_number();
    row_.labels = parser_.labels();
    row_.images.clear();
    for (const absl::string_view path : parser_.paths()) {
      BULKHEAD_ASSIGN_OR_RETURN(const FileIdentity image, Identify(path));
      row_.images.push_back({path, image});
    }
    BULKHEAD_RETURN_IF_ERROR(rows_.Add(row_));
    if (progress_ && rows_.count() % kProgressRecords == 0) progress_(rows_.count(), bytes_done_);
    return absl::OkStatus();
  }

  absl::StatusOr<FileIdentity> Identify(absl::string_view path) {
    const std::string full = JoinPath(folder_, path);
    absl::Status status = roots_.Check(full, path);
    if (status.ok()) {
      absl::StatusOr<FileIdentity> image = IdentifyFile(full, path);
      if (image.ok()) return image;
      status = image.status();
    }
    const auto info = GetErrorInfo(status);
    const bool missing = info.has_value() && info->reason == reason::kFileNotFound;
    // A title would become a sample that is always missing, and a class.
    const bool title = missing && rows_.count() == 0 && !absl::StrContains(path, ".");
    if (missing && keep_missing_ && !title) return ImageRow::kMissing;
    if (title) {
      status =
          MakeError(status.code(), info->reason,
                    absl::StrCat(status.message(),
                                 "; if this line holds the columns' titles, write `header: true`"),
                    info->metadata);
    }
    return Annotate(status, parser_.place(),
                    {{"list", name_}, {"line", absl::StrCat(parser_.line_number())}});
  }

  const v1::ImageListSource& list_;
  LabelReader labels_;
  ListParser learner_;
  ListParser parser_;
  const bool keep_missing_;
  const std::string name_;
  const std::string folder_;
  const Roots roots_;
  ImageRowsWriter rows_;
  const IndexProgressFn& progress_;
  Sha256 text_;
  ImageRow row_;
  uint64_t bytes_done_ = 0;
};

}  // namespace

absl::StatusOr<uint64_t> BuildImageListIndex(const internal::v1::BuildIndex& request, int fd,
                                             const IndexProgressFn& progress) {
  const internal::v1::ResolvedFile& resolved = request.file();
  if (resolved.path().empty()) {
    ListIndexer indexer(request, "source.image_list.entries", request.base_dir(), fd, progress);
    BULKHEAD_RETURN_IF_ERROR(indexer.AddEntries());
    return indexer.Finish({});
  }
  const std::string& name = resolved.name().empty() ? resolved.path() : resolved.name();
  BULKHEAD_ASSIGN_OR_RETURN(const DataFile file,
                            Roots(request.roots()).Open(resolved.path(), name));
  BULKHEAD_RETURN_IF_ERROR(
      file.CheckUnchanged({resolved.size_bytes(), resolved.mtime_ns(), resolved.inode()}));
  ListIndexer indexer(request, name, FolderOf(resolved.path()), fd, progress);
  BULKHEAD_RETURN_IF_ERROR(indexer.AddFile(file));
  BULKHEAD_RETURN_IF_ERROR(file.CheckStill());
  return indexer.Finish(file.identity());
}

}  // namespace bulkhead
