#include "server/source/images/image_list.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
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
constexpr uint64_t kProgressLines = 64;

// Calls `take` with each line of a list, without its newline, until it returns false or an error,
// and `note` with each piece of the file before its lines. Of a line of more than kMaxLineBytes it
// takes a beginning that is longer than that, once that is read. Errors: those of `take`, and of
// reading.
absl::Status EachLine(const DataFile& file, absl::FunctionRef<void(absl::string_view)> note,
                      absl::FunctionRef<absl::StatusOr<bool>(absl::string_view)> take) {
  const std::unique_ptr<char[]> buffer(new char[kReadBytes]);
  std::string rest;      // a line's beginning, at the end of what was read
  bool is_left = false;  // the rest of an overlong line
  for (uint64_t offset = 0;;) {
    BULKHEAD_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(offset, buffer.get(), kReadBytes));
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
  ListIndexer(const internal::v1::BuildIndex& request, absl::string_view name, std::string folder,
              int fd, const IndexProgressFn& progress)
      : list_(request.source().image_list()),
        labels_(list_),
        learner_(list_, name, &labels_),
        parser_(list_, name, &labels_),
        keep_missing_(request.keep_missing()),
        keep_malformed_(request.keep_malformed()),
        name_(name),
        folder_(std::move(folder)),
        roots_(request.roots()),
        rows_(fd),
        progress_(progress) {}

  absl::Status AddFile(const DataFile& file) {
    BULKHEAD_RETURN_IF_ERROR(EachLine(
        file,
        [&](absl::string_view text) {
          learned_ += text.size();
          Report();
        },
        [&](absl::string_view line) { return LearnFrom(line); }));
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

  absl::StatusOr<FileIdentity> Identify(absl::string_view path) {
    const absl::StatusOr<std::string> full = roots_.Check(JoinPath(folder_, path), path);
    absl::Status status = full.status();
    if (full.ok()) {
      absl::StatusOr<FileIdentity> image = IdentifyFile(*full, path);
      if (image.ok()) return image;
      status = image.status();
    }
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
                       : title
                           ? "; if this line holds the columns' titles, write `header: true`"
                           : absl::StrCat("; relative paths start from the ",
                                          list_.entries().empty() ? "list" : "spec",
                                          "'s folder, absolute ones may be written as well, and "
                                          "`errors: {policy: substitute}` takes "
                                          "others in place of missing images")),
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
  const Roots roots_;
  ImageRowsWriter rows_;
  const IndexProgressFn& progress_;
  Sha256 text_;
  ImageRow row_;
  uint64_t learned_ = 0;     // bytes of the list
  uint64_t bytes_done_ = 0;  // the same, of what became rows
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
