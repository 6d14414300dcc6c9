#include "server/source/images/image_list.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/base/record_name.h"
#include "server/source/file.h"
#include "server/source/images/image_rows.h"
#include "server/source/images/label_reader.h"
#include "server/source/images/list_parser.h"
#include "server/source/images/stored_images.h"
#include "server/source/index/index_file.h"
#include "server/source/objects.h"
#include "server/source/policy_advice.h"
#include "server/source/roots.h"

namespace bulkhead {
namespace {

constexpr size_t kReadBytes = 256 << 10;
// A line this long is not a list's.
constexpr size_t kMaxLineBytes = 64 << 10;
// Often enough that slow storage is not taken for hanging storage.
constexpr uint64_t kProgressLines = 64;

// Calls `take` with each line of a list, without its newline, until it returns false or an error,
// and `note` with each piece of the text before its lines. Of a line of more than kMaxLineBytes it
// takes a beginning that is longer than that, once that is read. `file` absent: the lines are the
// list's entries. Errors: those of `take`, and of reading.
absl::Status EachLine(const v1::ImageListSource& list, const std::optional<DataFile>& file,
                      absl::FunctionRef<void(absl::string_view)> note,
                      absl::FunctionRef<absl::StatusOr<bool>(absl::string_view)> take) {
  if (!file.has_value()) {
    for (const std::string& entry : list.entries()) {
      note(entry);
      note("\n");
      BULKHEAD_ASSIGN_OR_RETURN(const bool more, take(entry));
      if (!more) break;
    }
    return absl::OkStatus();
  }
  const std::unique_ptr<char[]> buffer(new char[kReadBytes]);
  std::string rest;      // a line's beginning, at the end of what was read
  bool is_left = false;  // the rest of an overlong line
  for (uint64_t offset = 0;;) {
    BULKHEAD_ASSIGN_OR_RETURN(const size_t got, file->ReadAt(offset, buffer.get(), kReadBytes));
    if (got == 0) break;
    offset += got;
    absl::string_view text(buffer.get(), got);
    note(text);
    while (!text.empty()) {
      const size_t end = text.find('\n');
      const bool ends = end != absl::string_view::npos;
      if (!is_left) rest.append(text.data(), ends ? end : text.size());
      const bool is_overlong = rest.size() > kMaxLineBytes;
      if (!is_left && (ends || is_overlong)) {
        BULKHEAD_ASSIGN_OR_RETURN(const bool more, take(rest));
        if (!more) return absl::OkStatus();
        rest.clear();
      }
      is_left = !ends && (is_left || is_overlong);
      text.remove_prefix(ends ? end + 1 : text.size());
    }
  }
  return rest.empty() ? absl::OkStatus() : take(rest).status();
}

class ListIndexer {
 public:
  // `folder`: where relative paths start, a URL for a list that is an object. `objects`: those that
  // it names; null: not known yet.
  ListIndexer(const internal::v1::BuildIndex& request, absl::string_view name, std::string folder,
              std::shared_ptr<const ObjectTable> objects, int fd, const IndexProgressFn& progress)
      : list_(request.source().image_list()),
        labels_(list_),
        learner_(list_, name, &labels_),
        parser_(list_, name, &labels_),
        keep_missing_(request.keep_missing()),
        keep_malformed_(request.keep_malformed()),
        name_(name),
        folder_(std::move(folder)),
        objects_(std::move(objects)),
        roots_(request.roots()),
        rows_(fd),
        progress_(progress) {}

  // Reads the list in `file`, or the entries in the spec.
  absl::Status Add(const std::optional<DataFile>& file) {
    const auto note_learned = [&](absl::string_view text) {
      if (!file.has_value()) return;
      learned_ += text.size();
      Report();
    };
    BULKHEAD_RETURN_IF_ERROR(EachLine(list_, file, note_learned,
                                      [&](absl::string_view line) { return LearnFrom(line); }));
    BULKHEAD_RETURN_IF_ERROR(EndLearning());
    const auto note = [&](absl::string_view text) {
      text_.Update(text);
      if (file.has_value()) bytes_done_ += text.size();
    };
    return EachLine(list_, file, note, [&](absl::string_view line) -> absl::StatusOr<bool> {
      BULKHEAD_RETURN_IF_ERROR(AddLine(line));
      return true;
    });
  }

  absl::StatusOr<uint64_t> Finish(const FileIdentity& list) {
    if (rows_.count() == 0) {
      return FileFault(absl::StatusCode::kInvalidArgument, reason::kNoSamples, name_,
                       "holds no samples; write one line for each: a path, then its label");
    }
    BULKHEAD_RETURN_IF_ERROR(
        rows_.Finish(v1::Source::kImageList, text_.Finish(), list.size_bytes, list.mtime_ns));
    return rows_.count();
  }

 private:
  // Whether the next line is to be learned from as well.
  absl::StatusOr<bool> LearnFrom(absl::string_view line) {
    if (!labels_.learns()) return false;
    const absl::Status parsed = Parse(line, learner_).status();
    if (!parsed.ok() && !keep_malformed_) return parsed;
    return labels_.learns();
  }

  // A list that is read twice is half done when it was read once.
  void Report() const {
    const bool twice = learned_ > kReadBytes;
    if (progress_) progress_(rows_.count(), twice ? (learned_ + bytes_done_) / 2 : bytes_done_);
  }

  absl::Status EndLearning() {
    labels_.EndLearning();
    return rows_.AddNames(labels_.names());
  }

  static absl::StatusOr<bool> Parse(absl::string_view line, ListParser& parser) {
    if (line.size() <= kMaxLineBytes) return parser.Parse(line);
    (void)parser.Parse("");  // counts the line
    return parser.Invalid("is longer than 64 KiB; this is not an image list");
  }

  absl::Status AddLine(absl::string_view line) {
    const absl::StatusOr<bool> sample = Parse(line, parser_);
    row_.line = parser_.line_number();
    if (!sample.ok()) return keep_malformed_ ? AddMalformed(sample.status()) : sample.status();
    if (!*sample) return absl::OkStatus();
    row_.labels = parser_.labels();
    row_.images.clear();
    for (const absl::string_view path : parser_.paths()) {
      BULKHEAD_ASSIGN_OR_RETURN(const FileIdentity image, Identify(path));
      row_.images.push_back({path, image});
    }
    return AddRow();
  }

  // A row of the line that could not be read, which keeps what is wrong with it.
  absl::Status AddMalformed(const absl::Status& status) {
    const std::string what(
        absl::StripPrefix(status.message(), absl::StrCat(parser_.place(), ": ")));
    const std::string labels(
        LabelColumns(list_) * (list_.label_dtype() == v1::DTYPE_FLOAT32 ? 4 : 8), '\0');
    row_.labels = labels;
    row_.images.assign(PathColumns(list_), {what, ImageRow::kMalformed});
    return AddRow();
  }

  absl::Status AddRow() {
    BULKHEAD_RETURN_IF_ERROR(rows_.Add(row_));
    if (rows_.count() % kProgressLines == 0) Report();
    return absl::OkStatus();
  }

  // The object that `path` names.
  absl::StatusOr<FileIdentity> IdentifyObject(absl::string_view path) const {
    const std::string url = JoinUrl(folder_, path);
    BULKHEAD_RETURN_IF_ERROR(ParseObjectUrl(url).status());
    if (objects_ == nullptr) {
      return MakeError(absl::StatusCode::kFailedPrecondition, reason::kNotFetched,
                       "the list names objects, which were not looked for", {{"urls", ""}});
    }
    const absl::StatusOr<uint64_t> number = objects_->Find(url);
    if (absl::IsNotFound(number.status())) {
      return MakeError(absl::StatusCode::kNotFound, reason::kFileNotFound,
                       absl::StrCat(ShownUrl(url), ": there is no such object"),
                       {{"file", ShownUrl(url)}});
    }
    absl::Status status = number.status();
    if (number.ok()) {
      const auto entry = objects_->Get(*number);
      if (entry.ok()) return FileIdentity{entry->size_bytes, entry->mtime_ns, *number};
      status = entry.status();
    }
    return MakeError(
        status.code(), reason::kFileUnreadable,
        absl::StrCat(ShownUrl(url), ": ", status.message(), "; open the stream again"));
  }

  absl::StatusOr<FileIdentity> IdentifyLocal(absl::string_view path) const {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string full, roots_.Check(JoinPath(folder_, path), path));
    return IdentifyFile(full, path);
  }

  absl::StatusOr<FileIdentity> Identify(absl::string_view path) {
    absl::StatusOr<FileIdentity> image =
        LooksLikeUrl(path) ? ParseObjectUrl(path).status()  // of a store that is not known
        : NamesObject(folder_, path) ? IdentifyObject(path)
                                     : IdentifyLocal(path);
    if (image.ok()) return image;
    absl::Status status = image.status();
    const auto info = GetErrorInfo(status);
    const bool missing = info.has_value() && info->reason == reason::kFileNotFound;
    // A title would become a sample that is always missing, and a class.
    const bool doubtful = missing && rows_.count() == 0 && !absl::StrContains(path, ".");
    // The same of a label that stands where the path is to stand.
    const std::string order = missing ? parser_.OrderAdvice() : "";
    const bool title = doubtful && order.empty();
    if (missing && keep_missing_ && !doubtful) return ImageRow::kMissing;
    if (missing) {
      status = MakeError(
          status.code(), info->reason,
          absl::StrCat(status.message(),
                       !order.empty() ? order
                       : title ? "; if this line holds the columns' titles, write `header: true`"
                               : absl::StrCat("; relative paths start from the ",
                                              list_.entries().empty() ? "list" : "spec",
                                              "'s folder, absolute ones may be written as well",
                                              kPassOverMissing)),
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
  const bool keep_malformed_;
  const std::string name_;
  const std::string folder_;
  const std::shared_ptr<const ObjectTable> objects_;
  const Roots roots_;
  ImageRowsWriter rows_;
  const IndexProgressFn& progress_;
  Sha256 text_;
  ImageRow row_;
  uint64_t learned_ = 0;     // bytes of the list
  uint64_t bytes_done_ = 0;  // the same, of what became rows
};

// The URLs of the objects that a list names.
class UrlWriter {
 public:
  UrlWriter(const v1::ImageListSource& list, absl::string_view name, std::string folder, int fd,
            const IndexProgressFn& progress)
      : labels_(list),
        parser_(list, name, &labels_),
        folder_(std::move(folder)),
        out_(fd),
        progress_(progress) {}

  absl::StatusOr<bool> AddLine(absl::string_view line) {
    // What is wrong with a line is told when the index is built.
    const absl::StatusOr<bool> sample =
        line.size() <= kMaxLineBytes ? parser_.Parse(line) : parser_.Parse("");
    if (!sample.ok() || !*sample) return true;
    for (const absl::string_view path : parser_.paths()) {
      if (!NamesObject(folder_, path)) continue;
      const std::string url = absl::StrCat(JoinUrl(folder_, path), "\n");
      urls_.Update(url);
      BULKHEAD_RETURN_IF_ERROR(out_.Append(url));
      ++count_;
      if (progress_ && count_ % kProgressLines == 0) progress_(count_, out_.payload_bytes());
    }
    return true;
  }

  absl::StatusOr<uint64_t> Finish() {
    const std::string digest = urls_.Finish();
    IndexHeader header;
    header.kind = v1::Source::kImageList + IndexHeader::kUrls;
    header.record_count = count_;
    std::memcpy(header.checksum.data(), digest.data(), header.checksum.size());
    BULKHEAD_RETURN_IF_ERROR(out_.Finish(header));
    return count_;
  }

 private:
  LabelReader labels_;
  ListParser parser_;
  const std::string folder_;
  IndexFileWriter out_;
  const IndexProgressFn& progress_;
  Sha256 urls_;
  uint64_t count_ = 0;
};

}  // namespace

std::string FolderOfList(const internal::v1::ResolvedFile& list, const std::string& base_dir) {
  if (list.path().empty()) return base_dir;
  return list.has_object() ? FolderOfUrl(list.object().url()) : FolderOf(list.path());
}

absl::StatusOr<uint64_t> BuildImageListIndex(const internal::v1::BuildIndex& request, int fd,
                                             const IndexProgressFn& progress) {
  const internal::v1::ResolvedFile& resolved = request.file();
  const v1::ImageListSource& list = request.source().image_list();
  const bool is_inline = resolved.path().empty();
  const std::string name = is_inline                 ? "source.image_list.entries"
                           : resolved.name().empty() ? resolved.path()
                                                     : resolved.name();
  const std::string folder = FolderOfList(resolved, request.base_dir());
  std::optional<DataFile> file;
  if (!is_inline) {
    BULKHEAD_ASSIGN_OR_RETURN(file, OpenData(resolved, Roots(request.roots()), name));
  }
  if (request.urls_only()) {
    UrlWriter urls(list, name, folder, fd, progress);
    BULKHEAD_RETURN_IF_ERROR(EachLine(
        list, file, [](absl::string_view) {},
        [&](absl::string_view line) { return urls.AddLine(line); }));
    return urls.Finish();
  }
  std::shared_ptr<const ObjectTable> objects;
  if (resolved.has_table()) {
    BULKHEAD_ASSIGN_OR_RETURN(objects, OpenTable(resolved.table(), name));
  }
  ListIndexer indexer(request, name, folder, std::move(objects), fd, progress);
  BULKHEAD_RETURN_IF_ERROR(indexer.Add(file));
  if (is_inline) return indexer.Finish({});
  BULKHEAD_RETURN_IF_ERROR(file->CheckStill());
  return indexer.Finish(file->identity());
}

}  // namespace bulkhead
