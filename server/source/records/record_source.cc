#include "server/source/records/record_source.h"

#include <algorithm>
#include <cerrno>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/source/file.h"
#include "server/source/records/byte_buffer.h"
#include "server/source/records/inflate_stream.h"
#include "server/source/records/record_index.h"
#include "server/source/roots.h"
#include "server/spec/record_files.h"

namespace bulkhead {
namespace {

constexpr size_t kMaxOpenFiles = 64;

struct OpenFile {
  size_t number = 0;  // in the order of the source
  DataFile file;
};

class Context final : public ReadContext {
 public:
  explicit Context(std::unique_ptr<RecordFormat::Scratch> of_format)
      : scratch(std::move(of_format)) {}

  ByteBuffer bytes;
  const std::unique_ptr<RecordFormat::Scratch> scratch;
  std::list<OpenFile> open;  // the last used one first
  // Decompression that stands somewhere in file `inflating`; made when the first compressed record
  // is read.
  std::unique_ptr<InflateStream> inflate;
  std::optional<size_t> inflating;
};

class RecordSource final : public Source {
 public:
  struct File {
    std::string path;
    DataFile::Object object;
    std::string name;
    std::string shown;  // the name, printable
    uint64_t inode = 0;
    RecordIndex index;
    uint64_t first_record = 0;
  };

  RecordSource(std::vector<File> files, uint64_t record_count,
               std::unique_ptr<const RecordFormat> format, Roots roots,
               std::vector<FeatureSignature> features)
      : files_(std::move(files)),
        record_count_(record_count),
        format_(std::move(format)),
        roots_(std::move(roots)),
        features_(std::move(features)) {}

  uint64_t record_count() const override { return record_count_; }
  const std::vector<FeatureSignature>& features() const override { return features_; }
  std::unique_ptr<ReadContext> NewContext() const override {
    return std::make_unique<Context>(format_->NewScratch());
  }

  absl::Status Read(uint64_t index, ReadContext& context, Record& record) const override {
    const size_t number = FileOf(index);
    const File& file = files_[number];
    BULKHEAD_ASSIGN_OR_RETURN(const auto extent, file.index.Find(index - file.first_record));
    const auto [begin, end] = extent;
    NameOffset(file, begin, record.origin);
    auto& mine = static_cast<Context&>(context);
    absl::string_view data;
    absl::Status status = ReadBytes(number, begin, end, mine, data, record.files);
    if (status.ok()) status = format_->Read(data, *mine.scratch, record.values);
    if (status.ok()) return status;
    // The index may have been overwritten behind its check.
    BULKHEAD_RETURN_IF_ERROR(file.index.Recheck(index - file.first_record));
    if (file.object && IsDamage(status) && context.fetched_again != nullptr) {
      const ObjectPart part = PartOf(file, extent);
      const auto& again = *context.fetched_again;
      if (std::find(again.begin(), again.end(), part) == again.end()) {
        return NotFetched(part.key, part.begin, part.end, /*wrong=*/true);
      }
    }
    // Errors of the file system name the file themselves.
    const bool is_named = !IsSampleError(status) && absl::StartsWith(status.message(), file.shown);
    return Annotate(status, is_named ? "" : record.origin,
                    {{"file", file.name}, {"offset", absl::StrCat(begin)}});
  }

  // A compressed record stands nowhere in its file.
  void Expect(uint64_t index, ReadContext& context) const override {
    const size_t number = FileOf(index);
    const File& file = files_[number];
    if (!file.object && file.index.compression() != v1::COMPRESSION_NONE) return;
    const auto extent = file.index.Find(index - file.first_record);
    if (!extent.ok() || extent->end < extent->begin) return;
    if (file.object) {
      if (context.wanted != nullptr) context.wanted->push_back(PartOf(file, *extent));
      return;
    }
    const auto opened = Open(number, static_cast<Context&>(context));
    if (opened.ok()) (*opened)->Prefetch(extent->begin, extent->end - extent->begin);
  }

  absl::StatusOr<RecordIdentity> Identity(uint64_t index) const override {
    const File& file = files_[FileOf(index)];
    BULKHEAD_ASSIGN_OR_RETURN(const auto extent, file.index.Find(index - file.first_record));
    return RecordIdentity{file.name, extent.begin};
  }

  void NameRecord(uint64_t index, std::string& name) const override {
    const File& file = files_[FileOf(index)];
    const auto extent = file.index.Find(index - file.first_record);
    name.clear();
    if (extent.ok()) NameOffset(file, extent->begin, name);
  }

 private:
  static void NameOffset(const File& file, uint64_t offset, std::string& name) {
    name.assign(file.shown);
    absl::StrAppend(&name, "@", offset);
  }

  static bool IsDamage(const absl::Status& status) {
    const auto info = GetErrorInfo(status);
    return info.has_value() && info->reason == reason::kCorruptRecord;
  }

  // The bytes of the object that the record at `extent` is read from.
  static ObjectPart PartOf(const File& file, const RecordIndex::Extent& extent) {
    if (file.index.compression() == v1::COMPRESSION_NONE) {
      return {file.object.key, extent.begin, extent.end};
    }
    return {file.object.key, 0, file.index.header().file_size_bytes};
  }

  // Which file holds record `index`.
  size_t FileOf(uint64_t index) const {
    const auto behind = std::ranges::upper_bound(files_, index, {}, &File::first_record);
    return static_cast<size_t>(behind - files_.begin()) - 1;
  }

  // Reads [begin, end) of a file's stream.
  absl::Status ReadBytes(size_t number, uint64_t begin, uint64_t end, Context& context,
                         absl::string_view& data, std::vector<FileIdentity>& files) const {
    if (end <= begin) return IndexDamaged(files_[number].name, "has impossible offsets");
    if (end - begin > kMaxRecordBytes) {
      return SampleError(reason::kRecordTooLarge,
                         absl::StrCat("the record has ", end - begin,
                                      " bytes, more than the limit of ", kMaxRecordBytes));
    }
    const size_t size = static_cast<size_t>(end - begin);
    char* bytes = context.bytes.Reserve(size);
    BULKHEAD_ASSIGN_OR_RETURN(const DataFile* file, Open(number, context));
    files.push_back(file->identity());
    const bool plain = files_[number].index.compression() == v1::COMPRESSION_NONE;
    absl::StatusOr<size_t> got = plain ? file->ReadAt(begin, bytes, size)
                                       : Inflate(number, *file, begin, bytes, size, context);
    // Whatever was read: bytes of another state of the file are none to judge.
    absl::Status status = file->CheckStill();
    if (status.ok()) status = got.status();
    if (status.ok() && *got < size) status = FileError(EIO, files_[number].name, "read");
    if (!status.ok()) {
      // A stale descriptor stays stale: the next attempt opens the file again.
      if (!IsSampleError(status)) Close(number, context);
      return status;
    }
    data = absl::string_view(bytes, size);
    return absl::OkStatus();
  }

  // Moves the context's decompression to `begin`, by going on or from a restart point, and reads.
  absl::StatusOr<size_t> Inflate(size_t number, const DataFile& file, uint64_t begin, char* to,
                                 size_t size, Context& context) const {
    const RecordIndex& index = files_[number].index;
    if (context.inflate == nullptr) context.inflate = std::make_unique<InflateStream>();
    InflateStream& stream = *context.inflate;
    RestartPoint point;
    BULKHEAD_ASSIGN_OR_RETURN(const bool has_point, index.FindRestart(begin, point));
    const uint64_t nearest = has_point ? point.output_offset : 0;
    const bool goes_on =
        context.inflating == number && stream.position() <= begin && stream.position() >= nearest;
    // Whatever fails below leaves the stream nowhere.
    context.inflating.reset();
    if (!goes_on && has_point) {
      BULKHEAD_RETURN_IF_ERROR(stream.StartAt(file, index.compression(), point));
    } else if (!goes_on) {
      stream.Start(file, index.compression());
    }
    const uint64_t gap = begin - stream.position();
    BULKHEAD_ASSIGN_OR_RETURN(const uint64_t skipped, stream.Skip(gap));
    if (skipped < gap) return size_t{0};
    BULKHEAD_ASSIGN_OR_RETURN(const size_t got, stream.Read(to, size));
    context.inflating = number;
    return got;
  }

  // The file, opened now or before; it stays open until 64 others were used.
  absl::StatusOr<const DataFile*> Open(size_t number, Context& context) const {
    auto& open = context.open;
    const auto found = std::ranges::find(open, number, &OpenFile::number);
    if (found != open.end()) {
      open.splice(open.begin(), open, found);
      return &open.front().file;
    }
    const File& file = files_[number];
    BULKHEAD_ASSIGN_OR_RETURN(DataFile opened, file.object
                                                   ? DataFile::OpenObject(file.object, file.name)
                                                   : roots_.Open(file.path, file.name));
    const IndexHeader& header = file.index.header();
    BULKHEAD_RETURN_IF_ERROR(
        opened.CheckUnchanged({header.file_size_bytes, header.file_mtime_ns, file.inode}));
    if (open.size() >= kMaxOpenFiles) {
      if (context.inflating == open.back().number) context.inflating.reset();
      open.pop_back();
    }
    open.push_front(OpenFile{number, std::move(opened)});
    return &open.front().file;
  }

  static void Close(size_t number, Context& context) {
    if (context.inflating == number) context.inflating.reset();
    context.open.remove_if([&](const OpenFile& file) { return file.number == number; });
  }

  const std::vector<File> files_;
  const uint64_t record_count_;
  const std::unique_ptr<const RecordFormat> format_;
  const Roots roots_;
  const std::vector<FeatureSignature> features_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> OpenRecordSource(
    const v1::Source& source, const internal::v1::ResolvedSource& resolved,
    std::unique_ptr<const RecordFormat> format, std::vector<FeatureSignature> signatures) {
  const uint32_t kind = static_cast<uint32_t>(source.source_case());
  std::vector<RecordSource::File> files;
  uint64_t record_count = 0;
  for (const internal::v1::ResolvedFile& resolved_file : resolved.files()) {
    BULKHEAD_ASSIGN_OR_RETURN(RecordIndex index, RecordIndex::Open(resolved_file, kind));
    const std::string& name =
        resolved_file.name().empty() ? resolved_file.path() : resolved_file.name();
    const IndexHeader& header = index.header();
    const bool same = (resolved_file.size_bytes() == 0 && resolved_file.mtime_ns() == 0) ||
                      (header.file_size_bytes == resolved_file.size_bytes() &&
                       header.file_mtime_ns == resolved_file.mtime_ns());
    if (!same) return IndexDamaged(name, "was made for another state of the file");
    const uint64_t count = index.record_count();
    files.push_back({resolved_file.path(), ObjectOf(resolved_file), name, Printable(name),
                     resolved_file.inode(), std::move(index), record_count});
    record_count += count;
  }
  if (record_count == 0) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, reason::kNoSamples,
        absl::StrCat("source.", RecordFilesOf(source).kind, ": its files hold no records"));
  }
  return std::make_unique<RecordSource>(std::move(files), record_count, std::move(format),
                                        Roots(resolved.roots()), std::move(signatures));
}

}  // namespace bulkhead
