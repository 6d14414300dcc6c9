#include "server/source/tfrecord/tfrecord_source.h"

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
#include "server/source/roots.h"
#include "server/source/tfrecord/example_reader.h"
#include "server/source/tfrecord/inflate_stream.h"
#include "server/source/tfrecord/tfrecord_format.h"
#include "server/source/tfrecord/tfrecord_index.h"

namespace bulkhead {
namespace {

constexpr size_t kMaxOpenFiles = 64;

struct OpenFile {
  size_t number = 0;  // in the order of the source
  DataFile file;
};

class Context final : public ReadContext {
 public:
  ByteBuffer frame;
  ExampleScratch scratch;
  std::list<OpenFile> open;  // the last used one first
  // Decompression that stands somewhere in file `inflating`; made when the first compressed record
  // is read.
  std::unique_ptr<InflateStream> inflate;
  std::optional<size_t> inflating;
};

class TfRecordSource final : public Source {
 public:
  struct File {
    std::string path;
    std::string name;
    std::string shown;  // the name, printable
    uint64_t inode = 0;
    TfRecordIndex index;
    uint64_t first_record = 0;
  };

  TfRecordSource(std::vector<File> files, uint64_t record_count, ExampleReader reader, Roots roots,
                 std::vector<FeatureSignature> features)
      : files_(std::move(files)),
        record_count_(record_count),
        reader_(std::move(reader)),
        roots_(std::move(roots)),
        features_(std::move(features)) {}

  uint64_t record_count() const override { return record_count_; }
  const std::vector<FeatureSignature>& features() const override { return features_; }
  std::unique_ptr<ReadContext> NewContext() const override { return std::make_unique<Context>(); }

  absl::Status Read(uint64_t index, ReadContext& context, Record& record) const override {
    const size_t number = FileOf(index);
    const File& file = files_[number];
    BULKHEAD_ASSIGN_OR_RETURN(const TfRecordIndex::Extent extent,
                              file.index.Find(index - file.first_record));
    const auto [begin, end] = extent;
    NameOffset(file, begin, record.origin);
    auto& mine = static_cast<Context&>(context);
    absl::string_view data;
    absl::Status status = ReadFrame(number, begin, end, mine, data);
    if (status.ok()) status = reader_.Read(data, mine.scratch, record.values);
    if (status.ok()) return status;
    // The index may have been overwritten behind its check.
    BULKHEAD_RETURN_IF_ERROR(file.index.Recheck(index - file.first_record));
    // Errors of the file system name the file themselves.
    const bool is_named = !IsSampleError(status) && absl::StartsWith(status.message(), file.shown);
    return Annotate(status, is_named ? "" : record.origin,
                    {{"file", file.name}, {"offset", absl::StrCat(begin)}});
  }

  // A compressed record stands nowhere in its file.
  void Expect(uint64_t index, ReadContext& context) const override {
    const size_t number = FileOf(index);
    const File& file = files_[number];
    if (file.index.compression() != v1::COMPRESSION_NONE) return;
    const auto extent = file.index.Find(index - file.first_record);
    if (!extent.ok() || extent->end < extent->begin) return;
    const auto opened = Open(number, static_cast<Context&>(context));
    if (opened.ok()) (*opened)->Prefetch(extent->begin, extent->end - extent->begin);
  }

  absl::StatusOr<RecordIdentity> Identity(uint64_t index) const override {
    const File& file = files_[FileOf(index)];
    BULKHEAD_ASSIGN_OR_RETURN(const TfRecordIndex::Extent extent,
                              file.index.Find(index - file.first_record));
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

  // Which file holds record `index`.
  size_t FileOf(uint64_t index) const {
    const auto behind =
        std::upper_bound(files_.begin(), files_.end(), index,
                         [](uint64_t i, const File& file) { return i < file.first_record; });
    return static_cast<size_t>(behind - files_.begin()) - 1;
  }

  // Reads and verifies the frame at [begin, end) of a file's stream.
  absl::Status ReadFrame(size_t number, uint64_t begin, uint64_t end, Context& context,
                         absl::string_view& data) const {
    if (end < begin || end - begin < kFrameBytes) {
      return IndexDamaged(files_[number].name, "has impossible offsets");
    }
    const uint64_t length = end - begin - kFrameBytes;
    if (length > kMaxRecordBytes) {
      return SampleError(reason::kRecordTooLarge,
                         absl::StrCat("the record has ", length, " bytes, more than the limit of ",
                                      kMaxRecordBytes));
    }
    const size_t size = static_cast<size_t>(end - begin);
    char* frame = context.frame.Reserve(size);
    BULKHEAD_ASSIGN_OR_RETURN(const DataFile* file, Open(number, context));
    const bool plain = files_[number].index.compression() == v1::COMPRESSION_NONE;
    absl::StatusOr<size_t> got = plain ? file->ReadAt(begin, frame, size)
                                       : Inflate(number, *file, begin, frame, size, context);
    // Whatever was read: bytes of another state of the file are none to judge.
    absl::Status status = file->CheckStill();
    if (status.ok()) status = got.status();
    if (status.ok() && *got < size) status = FileError(EIO, files_[number].name, "read");
    if (!status.ok()) {
      // A stale descriptor stays stale: the next attempt opens the file again.
      if (!IsSampleError(status)) Close(number, context);
      return status;
    }
    if (!FrameHeaderIsValid(frame)) {
      return SampleError(reason::kCorruptRecord,
                         "the record's length does not match its checksum; restore the file, or "
                         "set errors.policy: substitute to pass over damaged records");
    }
    if (LoadLittle<uint64_t>(frame) != length) {
      return SampleError(reason::kCorruptRecord,
                         absl::StrCat("the record says ", LoadLittle<uint64_t>(frame), " bytes, ",
                                      length, " when it was indexed"));
    }
    data = absl::string_view(frame + kFrameHeaderBytes, static_cast<size_t>(length));
    if (LoadLittle<uint32_t>(frame + size - kFrameFooterBytes) != MaskCrc32c(Crc32c(data))) {
      return SampleError(reason::kCorruptRecord,
                         "the record's data does not match its checksum; restore the file, or "
                         "set errors.policy: substitute to pass over damaged records");
    }
    return absl::OkStatus();
  }

  // Moves the context's decompression to `begin`, by going on or from a restart point, and reads.
  absl::StatusOr<size_t> Inflate(size_t number, const DataFile& file, uint64_t begin, char* to,
                                 size_t size, Context& context) const {
    const TfRecordIndex& index = files_[number].index;
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
    const auto found = std::find_if(open.begin(), open.end(),
                                    [&](const OpenFile& file) { return file.number == number; });
    if (found != open.end()) {
      open.splice(open.begin(), open, found);
      return &open.front().file;
    }
    const File& file = files_[number];
    BULKHEAD_ASSIGN_OR_RETURN(DataFile opened, roots_.Open(file.path, file.name));
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
  const ExampleReader reader_;
  const Roots roots_;
  const std::vector<FeatureSignature> features_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> OpenTfRecordSource(
    const google::protobuf::Map<std::string, v1::Feature>& features,
    const internal::v1::ResolvedSource& resolved, std::vector<FeatureSignature> signatures) {
  BULKHEAD_ASSIGN_OR_RETURN(ExampleReader reader, ExampleReader::Create(signatures, features));
  std::vector<TfRecordSource::File> files;
  uint64_t record_count = 0;
  for (const internal::v1::ResolvedFile& resolved_file : resolved.files()) {
    BULKHEAD_ASSIGN_OR_RETURN(TfRecordIndex index, TfRecordIndex::Open(resolved_file));
    const std::string& name =
        resolved_file.name().empty() ? resolved_file.path() : resolved_file.name();
    const IndexHeader& header = index.header();
    const bool same = (resolved_file.size_bytes() == 0 && resolved_file.mtime_ns() == 0) ||
                      (header.file_size_bytes == resolved_file.size_bytes() &&
                       header.file_mtime_ns == resolved_file.mtime_ns());
    if (!same) return IndexDamaged(name, "was made for another state of the file");
    const uint64_t count = index.record_count();
    files.push_back({resolved_file.path(), name, Printable(name), resolved_file.inode(),
                     std::move(index), record_count});
    record_count += count;
  }
  if (record_count == 0) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kNoSamples,
                     "source.tfrecord: its files hold no records");
  }
  return std::make_unique<TfRecordSource>(std::move(files), record_count, std::move(reader),
                                          Roots(resolved.roots()), std::move(signatures));
}

}  // namespace bulkhead
