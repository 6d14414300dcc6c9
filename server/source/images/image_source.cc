#include "server/source/images/image_source.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/base/file_bytes.h"
#include "server/base/paths/object_url.h"
#include "server/base/record_name.h"
#include "server/base/value_store.h"
#include "server/source/file.h"
#include "server/source/images/image_list.h"
#include "server/source/images/image_rows.h"
#include "server/source/images/list_parser.h"
#include "server/source/images/stored_images.h"
#include "server/source/records/byte_buffer.h"
#include "server/source/roots.h"
#include "server/spec/image_lists.h"

namespace bulkhead {
namespace {

// A larger file is no image; it is refused before memory is asked for.
constexpr uint64_t kMaxImageBytes = uint64_t{1} << 30;

// Where a feature's value comes from.
struct Column {
  enum class Kind { kImage, kLabel, kPath };
  Kind kind = Kind::kPath;
  size_t number = 0;       // among the images or labels
  uint64_t frame = 0;      // of an image: which row of the window has it
  size_t label_bytes = 0;  // of one label
};

// Files that were opened because they are read soon, of one thread.
constexpr size_t kMaxExpected = 32;

// The file of an image column of a row, opened before it is read.
struct ExpectedFile {
  uint64_t row = 0;
  size_t number = 0;
  DataFile file;
};

// A file whose last change is younger may be written to again without a sign: writes into mapped
// memory set its times once in so long, when the kernel writes the pages to the disk.
constexpr int64_t kSettledNs = 60'000'000'000;

// What identifies an image's file in its state; nothing if that is too young, or its times do not
// tell of every change. `text` is room for what is hashed.
std::optional<StoreKey> StateOf(absl::string_view path, const DataFile& opened, std::string& text) {
  const FileIdentity& file = opened.identity();
  const int64_t now_ns = absl::ToUnixNanos(absl::Now());
  if (now_ns - std::max(file.mtime_ns, file.ctime_ns) < kSettledNs) return std::nullopt;
  static_assert(std::has_unique_object_representations_v<FileIdentity>);
  const std::optional<uint64_t> file_system = opened.FileSystem();
  if (!file_system.has_value()) return std::nullopt;
  const absl::string_view identity(reinterpret_cast<const char*>(&file), sizeof(file));
  text.clear();
  absl::StrAppend(&text, "state 3 of an image file ", *file_system, " ", identity, path);
  return KeyOf(text);
}

// The bytes of an image.
class ReadBytes final : public FileBytes {
 public:
  // Whether it has the bytes of row `wanted`.
  bool Has(uint64_t wanted) const { return is_read_ && row_ == wanted; }
  absl::string_view bytes() const { return {buffer_.data(), size_}; }
  const FileIdentity& file() const { return file_; }

  // Memory for the `size` bytes of an image, which has none until SetRead.
  char* Begin(uint64_t size) {
    is_read_ = false;
    size_ = size;
    opened_.reset();
    return buffer_.Reserve(size);
  }
  void SetRead(uint64_t row, const FileIdentity& file) {
    row_ = row;
    file_ = file;
    is_read_ = true;
  }
  // An image of `size` bytes that is read later; `path` outlives the record. `text`: of StateOf.
  void SetLater(DataFile file, absl::string_view path, uint64_t size, std::string& text) {
    is_read_ = false;
    size_ = size;
    file_ = file.identity();
    path_ = path;
    state_ = StateOf(path, file, text);
    opened_ = std::move(file);
  }

  const std::optional<StoreKey>& state() const override { return state_; }
  uint64_t size_bytes() const override { return size_; }
  absl::StatusOr<absl::string_view> Get() override {
    if (opened_.has_value()) {
      BULKHEAD_RETURN_IF_ERROR(ReadFile(*opened_, path_, size_, buffer_.Reserve(size_)));
      opened_.reset();
    }
    return bytes();
  }

  // Reads all `size` bytes of an image's file to `to`.
  static absl::Status ReadFile(const DataFile& file, absl::string_view path, size_t size,
                               char* to) {
    BULKHEAD_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, to, size));
    BULKHEAD_RETURN_IF_ERROR(file.CheckStill());
    return got == size ? absl::OkStatus() : FileError(EIO, path, "read");
  }

 private:
  uint64_t row_ = 0;
  bool is_read_ = false;
  FileIdentity file_;
  size_t size_ = 0;
  ByteBuffer buffer_;
  // Of an image that is read later.
  std::optional<DataFile> opened_;
  absl::string_view path_;
  std::optional<StoreKey> state_;
};

class RowContext final : public ReadContext {
 public:
  auto FindExpected(uint64_t row, size_t number) {
    return std::ranges::find_if(expected, [&](const ExpectedFile& file) {
      return file.row == row && file.number == number;
    });
  }

  // The file, if it was expected; it is the caller's then.
  std::optional<DataFile> Take(uint64_t row, size_t number) {
    const auto found = FindExpected(row, number);
    if (found == expected.end()) return std::nullopt;
    std::optional<DataFile> file(std::move(found->file));
    expected.erase(found);
    return file;
  }

  std::vector<ImageRow> rows;  // of the window
  ImageRow expected_row;
  std::vector<ExpectedFile> expected;  // the first one first; few
  // Of row r and column c at (r modulo the window) × columns + c, so that the rows of a window lie
  // in places of their own.
  std::vector<ReadBytes> images;
  uint64_t last_record = UINT64_MAX;
  std::string path;
  std::string state;  // of StateOf
};

class ImageSource final : public Source {
 public:
  struct Parts {
    ImageRows rows;
    std::string name;                            // of the list; empty for folders
    std::string folder;                          // where relative paths start; of objects a URL
    std::unique_ptr<const StoredImages> stored;  // null: all images are files
    std::vector<Column> columns;
    uint64_t window = 1;    // rows of a record
    bool overlaps = false;  // neighbouring windows have rows in common
    bool is_clip = false;   // the identity of a record is its clip
    Roots roots;
    std::vector<FeatureSignature> features;
  };

  explicit ImageSource(Parts parts) : parts_(std::move(parts)) {}

  uint64_t record_count() const override { return parts_.rows.record_count(); }
  const std::vector<FeatureSignature>& features() const override { return parts_.features; }
  std::unique_ptr<ReadContext> NewContext() const override {
    return std::make_unique<RowContext>();
  }

  absl::Status Read(uint64_t index, ReadContext& context, Record& record) const override {
    auto& mine = static_cast<RowContext&>(context);
    BULKHEAD_RETURN_IF_ERROR(FindRows(index, mine, record));
    // A file that changed is noticed when an epoch begins anew.
    const bool goes_on = mine.last_record != UINT64_MAX && index > mine.last_record;
    mine.last_record = index;
    record.values.resize(parts_.columns.size());
    for (size_t i = 0; i < parts_.columns.size(); ++i) {
      const Column& column = parts_.columns[i];
      absl::string_view bytes;
      uint64_t frame = 0;
      if (column.kind == Column::Kind::kImage) {
        const ImageRow& row = mine.rows[column.frame];
        const size_t images = row.images.size();
        ReadBytes& read =
            mine.images[(index + column.frame) % parts_.window * images + column.number];
        const bool later = IsReadLater(i, mine) && !IsStored(row.images[column.number]);
        const absl::Status status =
            ReadImage(row, index + column.frame, column.number, goes_on, later, mine, read);
        if (!status.ok()) {  // which names the file
          const std::string place =
              parts_.name.empty() ? "" : absl::StrCat(parts_.name, ":", row.line);
          return Annotate(status, place, {{"offset", "0"}});
        }
        record.files.push_back(read.file());
        if (later) {
          record.values[i] = {nullptr, read.size_bytes(), 1, 0, &read};
          continue;
        }
        bytes = read.bytes();
        if (parts_.overlaps) frame = (index + column.frame) * images + column.number + 1;
      } else if (column.kind == Column::Kind::kLabel) {
        bytes = mine.rows[0].labels.substr(column.number * column.label_bytes, column.label_bytes);
      } else {
        bytes = mine.rows[0].images[0].path;
      }
      record.values[i] = {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), 1, frame,
                          nullptr};
    }
    return absl::OkStatus();
  }

  void Expect(uint64_t index, ReadContext& context) const override {
    auto& mine = static_cast<RowContext&>(context);
    for (uint64_t row = index; row < index + parts_.window && row < record_count(); ++row) {
      if (!ExpectRow(row, row - index, mine)) return;
    }
  }

  absl::StatusOr<RecordIdentity> Identity(uint64_t index) const override {
    uint64_t line = 0;
    BULKHEAD_ASSIGN_OR_RETURN(const ImageRow::Image image, parts_.rows.FirstImage(index, line));
    if (image.is_malformed()) return Malformed(image, line);
    const absl::string_view path = WithoutQuery(image.path);
    if (parts_.is_clip) return RecordIdentity{ClipOf(path), 0};
    return RecordIdentity{path, QueryNumber(image.path)};
  }

  void NameRecord(uint64_t index, std::string& name) const override {
    uint64_t line = 0;
    const auto image = parts_.rows.FirstImage(index, line);
    name.clear();
    if (image.ok()) NameImage(*image, line, name);
  }

 private:
  // The folder of an image; empty: the source's own.
  static absl::string_view ClipOf(absl::string_view path) {
    const size_t slash = path.rfind('/');
    return slash == absl::string_view::npos ? absl::string_view() : path.substr(0, slash);
  }

  // Sets the rows of record `index` and its origin.
  absl::Status FindRows(uint64_t index, RowContext& context, Record& record) const {
    context.rows.resize(parts_.window);
    BULKHEAD_RETURN_IF_ERROR(parts_.rows.Get(index, context.rows[0]));
    const ImageRow& first = context.rows[0];
    SetOrigin(first, context, record);
    if (first.images[0].is_malformed()) return Malformed(first.images[0], first.line);
    if (parts_.window > record_count() - index) {
      return IndexDamaged(parts_.name, "has a window that begins where none can");
    }
    for (uint64_t i = 1; i < parts_.window; ++i) {
      BULKHEAD_RETURN_IF_ERROR(parts_.rows.Get(index + i, context.rows[i]));
    }
    context.images.resize(parts_.window * first.images.size());
    return absl::OkStatus();
  }

  // Opens the files of row `row`, which is that of frame `frame`; false: it cannot be read.
  bool ExpectRow(uint64_t row, uint64_t frame, RowContext& context) const {
    if (!parts_.rows.Get(row, context.expected_row).ok()) return false;
    if (context.expected_row.images[0].is_malformed()) return false;
    for (const Column& column : parts_.columns) {
      if (column.kind != Column::Kind::kImage || column.frame != frame) continue;
      const bool is_expected = context.FindExpected(row, column.number) != context.expected.end();
      if (is_expected || IsRead(row, column.number, context)) continue;
      const ImageRow::Image& image = context.expected_row.images[column.number];
      if (image.is_missing() || image.file.size_bytes > kMaxImageBytes) continue;
      if (IsStored(image)) {
        ExpectStored(image, context);
        continue;
      }
      absl::StatusOr<DataFile> file = OpenImage(image, context);
      if (!file.ok()) return false;
      if (!IsKnown(column, *file, image, context)) file->Prefetch(0, image.file.size_bytes);
      // Those of a lease that went elsewhere are not taken by anybody.
      if (context.expected.size() >= kMaxExpected) {
        context.expected.erase(context.expected.begin());
      }
      context.expected.push_back({row, column.number, *std::move(file)});
    }
    return true;
  }

  bool IsStored(const ImageRow::Image& image) const {
    // All images of a folder are objects of its table, whatever their names look like.
    const bool is_folder = parts_.name.empty();
    return parts_.stored != nullptr && (is_folder || NamesObject(parts_.folder, image.path));
  }

  void ExpectStored(const ImageRow::Image& image, RowContext& context) const {
    if (context.wanted == nullptr) return parts_.stored->Prefetch(image);
    if (image.file.size_bytes > 0) context.wanted->push_back(parts_.stored->PartOf(image));
  }

  // Whether the bytes of an image were read for a window that had it.
  bool IsRead(uint64_t row, size_t number, const RowContext& context) const {
    const size_t images = context.expected_row.images.size();
    const size_t place = row % parts_.window * images + number;
    if (!parts_.overlaps || place >= context.images.size()) return false;
    return context.images[place].Has(row);
  }

  // Whether the reader of column `i` may do without the bytes of a file. Those of a window are kept
  // for the next one.
  bool IsReadLater(size_t i, const RowContext& context) const {
    return context.read_later != nullptr && parts_.window == 1 &&
           std::ranges::find(*context.read_later, parts_.features[i].name) !=
               context.read_later->end();
  }

  // Whether it is likely to.
  bool IsKnown(const Column& column, const DataFile& file, const ImageRow::Image& image,
               RowContext& context) const {
    if (context.known == nullptr || !IsReadLater(&column - parts_.columns.data(), context)) {
      return false;
    }
    const std::optional<StoreKey> state = StateOf(image.path, file, context.state);
    return state.has_value() && context.known->Expect(*state);
  }

  absl::Status Malformed(const ImageRow::Image& image, uint64_t line) const {
    const std::string number = absl::StrCat(line);
    return SampleError(reason::kListInvalid,
                       absl::StrCat(parts_.name, ":", number, ": ", image.path),
                       {{"file", parts_.name}, {"line", number}});
  }

  // "cats/one.jpg"; of a malformed line "train.txt:17".
  void NameImage(const ImageRow::Image& image, uint64_t line, std::string& name) const {
    if (!image.is_malformed()) return NamePath(image.path, name);
    name.clear();
    absl::StrAppend(&name, parts_.name, ":", line);
  }

  // A list may spell the path of one file in many ways.
  static void NamePath(absl::string_view path, std::string& name) {
    if (IsObjectUrl(path)) {
      name = absl::StrCat(ShownUrl(path), QueryMark(path));
      return;
    }
    name.assign(path.data(), path.size());
    name = PlainPath(std::move(name));
    if (!IsPrintable(name)) name = Printable(name);
  }

  void SetOrigin(const ImageRow& row, RowContext& context, Record& record) const {
    NameImage(row.images[0], row.line, record.origin);
    record.list = parts_.name;
    record.line = row.line;
    if (parts_.name.empty() || row.images[0].is_malformed()) return;
    context.path.swap(record.origin);
    record.origin.clear();
    absl::StrAppend(&record.origin, parts_.name, ":", row.line, " (", context.path, ")");
  }

  absl::StatusOr<DataFile> OpenImage(const ImageRow::Image& image, RowContext& context) const {
    JoinPath(parts_.folder, image.path, context.path);
    return parts_.roots.Open(context.path, image.path);
  }

  // Reads image `number` of a row into `read`, unless that has it and `goes_on`. `later`: only
  // opens it.
  absl::Status ReadImage(const ImageRow& row, uint64_t row_number, size_t number, bool goes_on,
                         bool later, RowContext& context, ReadBytes& read) const {
    if (parts_.overlaps && goes_on && read.Has(row_number)) return absl::OkStatus();
    const ImageRow::Image& image = row.images[number];
    if (image.is_missing()) {
      return SampleError(reason::kFileNotFound,
                         absl::StrCat(Printable(image.path),
                                      ": there was no such file when the stream was opened"),
                         {{"file", std::string(image.path)}});
    }
    if (image.file.size_bytes > kMaxImageBytes) {
      return SampleError(reason::kRecordTooLarge,
                         absl::StrCat(Printable(image.path), ": has ", image.file.size_bytes,
                                      " bytes, more than the limit of ", kMaxImageBytes),
                         {{"file", std::string(image.path)}});
    }
    const size_t size = static_cast<size_t>(image.file.size_bytes);
    if (IsStored(image)) {
      char* const buffer = read.Begin(size);
      BULKHEAD_ASSIGN_OR_RETURN(const FileIdentity file, parts_.stored->Read(image, buffer));
      read.SetRead(row_number, file);
      return absl::OkStatus();
    }
    std::optional<DataFile> file = context.Take(row_number, number);
    if (!file.has_value()) {
      BULKHEAD_ASSIGN_OR_RETURN(file, OpenImage(image, context));
    }
    BULKHEAD_RETURN_IF_ERROR(file->CheckUnchanged(image.file));
    if (later) {
      read.SetLater(*std::move(file), image.path, size, context.state);
      return absl::OkStatus();
    }
    BULKHEAD_RETURN_IF_ERROR(ReadBytes::ReadFile(*file, image.path, size, read.Begin(size)));
    read.SetRead(row_number, file->identity());
    return absl::OkStatus();
  }

  const Parts parts_;
};

size_t LabelBytes(const v1::ImageListSource& list) {
  return list.label_dtype() == v1::DTYPE_FLOAT32 ? 4 : 8;
}

// Which column gives each feature. Folders have one image and at most one label. `window`: images
// are lists, a row for each.
std::vector<Column> Columns(const v1::ImageListSource& list, size_t label_bytes, bool window,
                            const std::vector<FeatureSignature>& features) {
  std::vector<Column> columns;
  for (const FeatureSignature& feature : features) {
    Column column;
    column.label_bytes = label_bytes;
    const auto is_called = [&](absl::string_view name, Column::Kind kind) {
      if (!window || kind != Column::Kind::kImage) return feature.name == name;
      const std::optional<uint64_t> frame = ImageNumber(name, feature.name);
      if (frame.has_value()) column.frame = *frame;
      return frame.has_value();
    };
    const auto find = [&](const auto& names, absl::string_view fallback, Column::Kind kind) {
      for (int i = 0; i < names.size(); ++i) {
        if (!is_called(names[i], kind)) continue;
        column.kind = kind;
        column.number = static_cast<size_t>(i);
      }
      if (names.empty() && is_called(fallback, kind)) column.kind = kind;
    };
    find(list.images(), "image", Column::Kind::kImage);
    find(list.labels(), "label", Column::Kind::kLabel);
    columns.push_back(column);
  }
  return columns;
}

}  // namespace

absl::StatusOr<ImageRows> OpenImageRows(const v1::Source& source,
                                        const internal::v1::ResolvedFile& file) {
  const v1::ImageListSource& list = source.image_list();  // of a folder: the defaults
  const size_t label_count = source.has_image_list()             ? LabelColumns(list)
                             : source.image_folder().unlabeled() ? 0
                                                                 : 1;
  return ImageRows::Open(file, static_cast<uint32_t>(source.source_case()),
                         static_cast<uint32_t>(PathColumns(list)),
                         static_cast<uint32_t>(label_count * LabelBytes(list)));
}

absl::StatusOr<std::unique_ptr<Source>> OpenImageSource(
    const v1::Source& source, const internal::v1::ResolvedSource& resolved,
    std::vector<FeatureSignature> signatures) {
  if (resolved.files_size() != 1) {
    return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                     "an image source is resolved to exactly one file");
  }
  const internal::v1::ResolvedFile& file = resolved.files(0);
  const bool is_list = source.source_case() == v1::Source::kImageList;
  const v1::ImageListSource& list = source.image_list();  // of a folder: the defaults
  BULKHEAD_ASSIGN_OR_RETURN(ImageRows rows, OpenImageRows(source, file));
  std::string name;
  if (is_list) {
    name = file.path().empty()   ? "source.image_list.entries"
           : file.name().empty() ? file.path()
                                 : file.name();
  }
  std::string folder = is_list ? FolderOfList(file, resolved.base_dir()) : file.path();
  std::unique_ptr<const StoredImages> stored;
  if (file.has_table()) {
    BULKHEAD_ASSIGN_OR_RETURN(stored, StoredImages::Open(file.table(), file.name()));
  }
  const v1::Frames* const frames = FramesOf(source);
  std::vector<Column> columns = Columns(list, LabelBytes(list), frames != nullptr, signatures);
  return std::make_unique<ImageSource>(
      ImageSource::Parts{.rows = std::move(rows),
                         .name = Printable(name),
                         .folder = std::move(folder),
                         .stored = std::move(stored),
                         .columns = std::move(columns),
                         .window = frames == nullptr ? 1 : frames->window(),
                         .overlaps = frames != nullptr && frames->stride() < frames->window(),
                         .is_clip = frames != nullptr,
                         .roots = Roots(resolved.roots()),
                         .features = std::move(signatures)});
}

}  // namespace bulkhead
