#include "server/source/images/image_source.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/source/file.h"
#include "server/source/images/image_rows.h"
#include "server/source/images/list_parser.h"
#include "server/source/records/byte_buffer.h"
#include "server/source/roots.h"

namespace bulkhead {
namespace {

// A larger file is no image; it is refused before memory is asked for.
constexpr uint64_t kMaxImageBytes = uint64_t{1} << 30;

// Where a feature's value comes from.
struct Column {
  enum class Kind { kImage, kLabel, kPath };
  Kind kind = Kind::kPath;
  size_t number = 0;       // among the images or labels
  size_t label_bytes = 0;  // of one label
};

// Files that were opened because they are read soon, of one thread.
constexpr size_t kMaxExpected = 32;

// The file of an image column of a record, opened before it is read.
struct ExpectedFile {
  uint64_t record = 0;
  size_t number = 0;
  DataFile file;
};

class Context final : public ReadContext {
 public:
  bool IsExpected(uint64_t record, size_t number) const {
    return std::any_of(expected.begin(), expected.end(), [&](const ExpectedFile& file) {
      return file.record == record && file.number == number;
    });
  }

  // The file, if it was expected; it is the caller's then.
  std::optional<DataFile> Take(uint64_t record, size_t number) {
    const auto found = std::find_if(
        expected.begin(), expected.end(),
        [&](const ExpectedFile& file) { return file.record == record && file.number == number; });
    if (found == expected.end()) return std::nullopt;
    std::optional<DataFile> file(std::move(found->file));
    expected.erase(found);
    return file;
  }

  ImageRow row;
  ImageRow expected_row;
  std::vector<ExpectedFile> expected;  // the first one first; few
  std::vector<ByteBuffer> buffers;     // one an image column
  std::string path;
};

class ImageSource final : public Source {
 public:
  struct Parts {
    ImageRows rows;
    std::string name;    // of the list; empty for folders
    std::string folder;  // where relative paths start
    std::vector<Column> columns;
    Roots roots;
    std::vector<FeatureSignature> features;
  };

  explicit ImageSource(Parts parts) : parts_(std::move(parts)) {}

  uint64_t record_count() const override { return parts_.rows.record_count(); }
  const std::vector<FeatureSignature>& features() const override { return parts_.features; }
  std::unique_ptr<ReadContext> NewContext() const override { return std::make_unique<Context>(); }

  absl::Status Read(uint64_t index, ReadContext& context, Record& record) const override {
    auto& mine = static_cast<Context&>(context);
    BULKHEAD_RETURN_IF_ERROR(parts_.rows.Get(index, mine.row));
    SetOrigin(mine.row, mine, record);
    if (mine.row.images[0].is_malformed()) return Malformed(mine.row.images[0], mine.row.line);
    mine.buffers.resize(mine.row.images.size());
    record.values.resize(parts_.columns.size());
    for (size_t i = 0; i < parts_.columns.size(); ++i) {
      const Column& column = parts_.columns[i];
      absl::string_view bytes;
      if (column.kind == Column::Kind::kImage) {
        const absl::Status status = ReadImage(index, column.number, mine, bytes);
        if (!status.ok()) {
          return Annotate(status, record.origin, {{"offset", "0"}});
        }
      } else if (column.kind == Column::Kind::kLabel) {
        bytes = mine.row.labels.substr(column.number * column.label_bytes, column.label_bytes);
      } else {
        bytes = mine.row.images[0].path;
      }
      record.values[i] = {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), 1};
    }
    return absl::OkStatus();
  }

  void Expect(uint64_t index, ReadContext& context) const override {
    auto& mine = static_cast<Context&>(context);
    if (!parts_.rows.Get(index, mine.expected_row).ok()) return;
    if (mine.expected_row.images[0].is_malformed()) return;
    for (const Column& column : parts_.columns) {
      if (column.kind != Column::Kind::kImage || mine.IsExpected(index, column.number)) continue;
      const ImageRow::Image& image = mine.expected_row.images[column.number];
      if (image.is_missing()) continue;
      absl::StatusOr<DataFile> file = OpenImage(image, mine);
      if (!file.ok()) return;
      file->Prefetch(0, image.file.size_bytes);
      // Those of a lease that went elsewhere are not taken by anybody.
      if (mine.expected.size() >= kMaxExpected) mine.expected.erase(mine.expected.begin());
      mine.expected.push_back({index, column.number, *std::move(file)});
    }
  }

  absl::StatusOr<RecordIdentity> Identity(uint64_t index) const override {
    uint64_t line = 0;
    BULKHEAD_ASSIGN_OR_RETURN(const ImageRow::Image image, parts_.rows.FirstImage(index, line));
    if (image.is_malformed()) return Malformed(image, line);
    return RecordIdentity{image.path, 0};
  }

  void NameRecord(uint64_t index, std::string& name) const override {
    uint64_t line = 0;
    const auto image = parts_.rows.FirstImage(index, line);
    name.clear();
    if (image.ok()) NameImage(*image, line, name);
  }

 private:
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
    name.assign(path.data(), path.size());
    name = PlainPath(std::move(name));
    if (!IsPrintable(name)) name = Printable(name);
  }

  void SetOrigin(const ImageRow& row, Context& context, Record& record) const {
    NameImage(row.images[0], row.line, record.origin);
    record.list = parts_.name;
    record.line = row.line;
    if (parts_.name.empty() || row.images[0].is_malformed()) return;
    context.path.swap(record.origin);
    record.origin.clear();
    absl::StrAppend(&record.origin, parts_.name, ":", row.line, " (", context.path, ")");
  }

  absl::StatusOr<DataFile> OpenImage(const ImageRow::Image& image, Context& context) const {
    JoinPath(parts_.folder, image.path, context.path);
    return parts_.roots.Open(context.path, image.path);
  }

  absl::Status ReadImage(uint64_t record, size_t number, Context& context,
                         absl::string_view& bytes) const {
    const ImageRow::Image& image = context.row.images[number];
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
    std::optional<DataFile> opened = context.Take(record, number);
    if (!opened.has_value()) {
      BULKHEAD_ASSIGN_OR_RETURN(opened, OpenImage(image, context));
    }
    const DataFile& file = *opened;
    BULKHEAD_RETURN_IF_ERROR(file.CheckUnchanged(image.file));
    const size_t size = static_cast<size_t>(image.file.size_bytes);
    char* buffer = context.buffers[number].Reserve(size);
    BULKHEAD_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(0, buffer, size));
    BULKHEAD_RETURN_IF_ERROR(file.CheckStill());
    if (got != size) return FileError(EIO, image.path, "read");
    bytes = absl::string_view(buffer, size);
    return absl::OkStatus();
  }

  const Parts parts_;
};

// Which column gives each feature. Folders have one image and at most one label.
std::vector<Column> Columns(const v1::ImageListSource& list, size_t label_bytes,
                            const std::vector<FeatureSignature>& features) {
  std::vector<Column> columns;
  for (const FeatureSignature& feature : features) {
    Column column;
    column.label_bytes = label_bytes;
    const auto find = [&](const auto& names, absl::string_view fallback, Column::Kind kind) {
      for (int i = 0; i < names.size(); ++i) {
        if (names[i] != feature.name) continue;
        column.kind = kind;
        column.number = static_cast<size_t>(i);
      }
      if (names.empty() && feature.name == fallback) column.kind = kind;
    };
    find(list.images(), "image", Column::Kind::kImage);
    find(list.labels(), "label", Column::Kind::kLabel);
    columns.push_back(column);
  }
  return columns;
}

}  // namespace

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
  const size_t label_bytes = list.label_dtype() == v1::DTYPE_FLOAT32 ? 4 : 8;
  const size_t label_count = is_list                             ? LabelColumns(list)
                             : source.image_folder().unlabeled() ? 0
                                                                 : 1;
  BULKHEAD_ASSIGN_OR_RETURN(ImageRows rows,
                            ImageRows::Open(file, static_cast<uint32_t>(source.source_case()),
                                            static_cast<uint32_t>(PathColumns(list)),
                                            static_cast<uint32_t>(label_count * label_bytes)));
  std::string name;
  if (is_list) {
    name = file.path().empty()   ? "source.image_list.entries"
           : file.name().empty() ? file.path()
                                 : file.name();
  }
  std::string folder = !is_list              ? file.path()
                       : file.path().empty() ? resolved.base_dir()
                                             : FolderOf(file.path());
  std::vector<Column> columns = Columns(list, label_bytes, signatures);
  return std::make_unique<ImageSource>(
      ImageSource::Parts{std::move(rows), Printable(name), std::move(folder), std::move(columns),
                         Roots(resolved.roots()), std::move(signatures)});
}

}  // namespace bulkhead
