#include "server/source/index/selection_builder.h"

#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/source/index/record_filter.h"
#include "server/source/index/record_split.h"
#include "server/source/index/selection_index.h"
#include "server/source/source.h"

namespace bulkhead {
namespace {

// Progress is reported at least once in so many records.
constexpr uint64_t kSelectionProgressRecords = 4096;

// The record fails the indexing: it is no verdict on one sample.
absl::Status Unreadable(const absl::Status& status, const std::string& record) {
  ErrorInfo info = *GetErrorInfo(status);
  info.metadata["record"] = record;
  return MakeError(status.code(), info.reason,
                   absl::StrCat(std::string(status.message()),
                                "; so `filter` cannot tell whether to keep the record: mend it, "
                                "give the feature a default, or set errors.policy: substitute, "
                                "which keeps such records as sample errors"),
                   info.metadata);
}

// At which images of a source windows begin: within each clip, whose images share an identity, at
// every `stride`th, as long as the clip has enough of them. Asked for records in order.
class WindowStarts {
 public:
  WindowStarts(const Source& source, const v1::Frames& frames) : source_(source), frames_(frames) {}

  absl::StatusOr<bool> Has(uint64_t index) {
    if (index >= end_) BULKHEAD_RETURN_IF_ERROR(FindClip(index));
    return malformed_ ||
           ((index - begin_) % frames_.stride() == 0 && end_ - index >= uint64_t{frames_.window()});
  }

 private:
  // A line that cannot be read is a clip by itself, and a record, so that its error is told.
  absl::Status FindClip(uint64_t index) {
    begin_ = index;
    end_ = index + 1;
    const absl::StatusOr<RecordIdentity> clip = source_.Identity(index);
    malformed_ = IsSampleError(clip.status());
    if (malformed_) return absl::OkStatus();
    BULKHEAD_RETURN_IF_ERROR(clip.status());
    for (; end_ < source_.record_count(); ++end_) {
      const absl::StatusOr<RecordIdentity> next = source_.Identity(end_);
      if (!next.ok() && !IsSampleError(next.status())) return next.status();
      if (!next.ok() || next->name != clip->name) break;
    }
    return absl::OkStatus();
  }

  const Source& source_;
  const v1::Frames frames_;
  // The clip of the last record.
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  bool malformed_ = false;
};

// Goes through the records of one file.
class Selector {
 public:
  Selector(const Source& source, RecordFilter filter, const internal::v1::Selection& selection)
      : source_(source),
        filter_(std::move(filter)),
        exclude_(selection.exclude().begin(), selection.exclude().end()),
        keep_unreadable_(selection.keep_unreadable()),
        context_(source.NewContext()) {
    if (selection.has_split()) split_.emplace(selection.split());
    if (selection.has_frames()) starts_.emplace(source, selection.frames());
  }

  // Whether record `index` is kept.
  absl::StatusOr<bool> Keeps(uint64_t index) {
    if (starts_.has_value()) {
      BULKHEAD_ASSIGN_OR_RETURN(const bool starts, starts_->Has(index));
      if (!starts) return false;
    }
    if (!exclude_.empty() && exclude_.count(CanonicalRecordName(source_.RecordName(index))) > 0) {
      return false;
    }
    if (split_.has_value()) {
      const absl::StatusOr<RecordIdentity> identity = source_.Identity(index);
      const bool unreadable = keep_unreadable_ && IsSampleError(identity.status());
      if (!identity.ok() && !unreadable) return identity.status();
      if (identity.ok() && !split_->Contains(*identity)) return false;
    }
    ++part_count_;
    if (filter_.empty()) return true;
    const absl::Status status = source_.Read(index, *context_, record_);
    if (status.ok()) return filter_.Keeps(record_.values);
    if (!IsSampleError(status)) return status;
    if (keep_unreadable_) return true;
    return Unreadable(status, source_.RecordName(index));
  }

  uint64_t part_count() const { return part_count_; }

 private:
  const Source& source_;
  const RecordFilter filter_;
  std::optional<RecordSplit> split_;
  std::optional<WindowStarts> starts_;
  const std::set<std::string> exclude_;
  const bool keep_unreadable_;
  const std::unique_ptr<ReadContext> context_;
  Record record_;
  uint64_t part_count_ = 0;
};

// What the selection's header takes over from the index of its file.
absl::StatusOr<IndexHeader> HeaderFor(const internal::v1::BuildIndex& request) {
  const internal::v1::ResolvedFile& file = request.file();
  IndexHeader header;
  header.kind = static_cast<uint32_t>(request.source().source_case());
  header.file_size_bytes = file.size_bytes();
  header.file_mtime_ns = file.mtime_ns();
  if (file.checksum().empty()) return header;
  if (file.checksum().size() != header.checksum.size()) {
    return absl::InternalError("a file's checksum has the wrong size");
  }
  std::memcpy(header.checksum.data(), file.checksum().data(), header.checksum.size());
  return header;
}

}  // namespace

absl::StatusOr<uint64_t> BuildSelection(const internal::v1::BuildIndex& request, int fd,
                                        const IndexProgressFn& progress) {
  const internal::v1::Selection& selection = request.selection();
  BULKHEAD_ASSIGN_OR_RETURN(IndexHeader header, HeaderFor(request));
  internal::v1::ResolvedSource resolved;
  *resolved.add_files() = request.file();
  resolved.set_base_dir(request.base_dir());
  *resolved.mutable_roots() = request.roots();
  std::set<std::string> names;
  for (const v1::Condition& condition : selection.filter()) names.insert(condition.feature());
  BULKHEAD_ASSIGN_OR_RETURN(const std::unique_ptr<Source> source,
                            OpenUnselected(request.source(), request.features(), resolved, names));
  BULKHEAD_ASSIGN_OR_RETURN(RecordFilter filter,
                            RecordFilter::Create(selection.filter(), source->features()));
  Selector selector(*source, std::move(filter), selection);
  SelectionWriter writer(fd);
  const uint64_t records = source->record_count();
  for (uint64_t i = 0; i < records; ++i) {
    if (progress && i % kSelectionProgressRecords == 0 && i > 0) {
      const double share = static_cast<double>(i) / static_cast<double>(records);
      progress(i, static_cast<uint64_t>(share * static_cast<double>(request.file().size_bytes())));
    }
    BULKHEAD_ASSIGN_OR_RETURN(const bool keep, selector.Keeps(i));
    BULKHEAD_RETURN_IF_ERROR(writer.Add(keep));
  }
  header.part_count = selector.part_count();
  BULKHEAD_RETURN_IF_ERROR(writer.Finish(header));
  return writer.kept_count();
}

}  // namespace bulkhead
