#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/base/paths/object_url.h"
#include "server/base/record_name.h"
#include "server/data/data_finder.h"
#include "server/os/files/filesystem.h"
#include "server/source/file.h"
#include "server/source/images/image_list.h"
#include "server/source/images/image_rows.h"
#include "server/source/images/image_source.h"
#include "server/source/images/stored_images.h"
#include "server/source/policy_advice.h"
#include "server/source/records/record_source.h"
#include "server/source/source.h"
#include "server/source/tfrecord/example_reader.h"
#include "server/spec/image_lists.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/record_files.h"
#include "server/spec/yaml/yaml.h"
#include "tools/inspect/guess_spec.h"
#include "tools/inspect/spec_data.h"
#include "tools/local/local_data.h"
#include "tools/local/local_pipeline.h"
#include "tools/local/source_reading.h"
#include "tools/pack/record_supply.h"
#include "tools/synth/example.h"

namespace bulkhead::tools {
namespace {

using Kind = FeatureSignature::Kind;

absl::Status CannotPack(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid, what);
}

// The elements of a value, of type T.
template <typename T, typename Values>
void AddElements(const FeatureValue& value, Values& values) {
  std::vector<T> elements(value.size_bytes / sizeof(T));
  std::copy_n(value.data, value.size_bytes, reinterpret_cast<std::byte*>(elements.data()));
  values.Add(elements.begin(), elements.end());
}

// How the packed records hold a feature: bytes, int64 and float32 as lists, other types as tensors.
v1::Feature DeclarationFor(const FeatureSignature& signature,
                           const std::vector<std::string>& classes) {
  v1::Feature feature;
  const auto shape = [&](auto& typed) {
    for (const int64_t extent : signature.shape) typed.add_shape(extent);
    if (!signature.variable) return;
    typed.set_shape(0, -1);
    typed.set_max_count(static_cast<uint64_t>(signature.shape[0]));
  };
  if (signature.kind == Kind::kEncoded) {
    v1::BytesFeature& bytes = *feature.mutable_bytes();
    if (signature.max_bytes > 0) bytes.set_max_bytes(signature.max_bytes);
  } else if (signature.dtype == v1::DTYPE_INT64) {
    shape(*feature.mutable_int64());
    *feature.mutable_int64()->mutable_classes() = {classes.begin(), classes.end()};
  } else if (signature.dtype == v1::DTYPE_FLOAT32) {
    shape(*feature.mutable_float_());
  } else {
    shape(*feature.mutable_tensor());
    feature.mutable_tensor()->set_dtype(signature.dtype);
  }
  return feature;
}

// A record as it stands in its file.
class RawFormat final : public RecordFormat {
 public:
  std::unique_ptr<Scratch> NewScratch() const override { return std::make_unique<Scratch>(); }
  absl::Status Read(absl::string_view bytes, Scratch&,
                    std::vector<FeatureValue>& values) const override {
    BULKHEAD_ASSIGN_OR_RETURN(const absl::string_view data, DataOfFrame(bytes));
    values.assign(1, {reinterpret_cast<const std::byte*>(data.data()), data.size()});
    return absl::OkStatus();
  }
};

// An error of a record, as one who packs can do something about it.
absl::Status ForPacking(const absl::Status& status) {
  const auto info = GetErrorInfo(status);
  const std::string text =
      absl::StrReplaceAll(status.message(), {{kPassOverDamaged, ""}, {kPassOverMissing, ""}});
  if (!info.has_value() || (!IsSampleError(status) && text == status.message())) return status;
  return MakeError(status.code(), info->reason,
                   absl::StrCat(text,
                                "; mend it and run the same command again, or leave such records "
                                "out: `bulkhead scan SPEC --write-spec good.yaml` writes a spec "
                                "that `pack` takes (`bulkhead inspect DATA --out SPEC` writes one "
                                "of data)"),
                   info->metadata);
}

// The sizes and times of change of the files that the records of a source are read from, and the
// ETags of objects. Immutable, thread-safe; must not outlive the indexes of what was found.
class FileStates {
 public:
  // INDEX_DAMAGED; NOT_FOUND.
  static absl::StatusOr<FileStates> Of(const v1::Source& source, const FoundData& found);

  // Another one when the file of a record has changed, or what its list says of it.
  uint64_t Of(const RecordIdentity& record) const;

 private:
  // Of the images of a list or folder, by path.
  absl::Status AddImages(const v1::Source& source, const internal::v1::ResolvedSource& resolved);

  uint64_t all_ = 0;  // of those that records do not name
  absl::flat_hash_map<std::string, uint64_t> by_file_;
  std::optional<ImageRows> rows_;
  absl::flat_hash_map<absl::string_view, uint64_t> by_image_;  // views of rows_
};

// `before`, with more in it.
uint64_t With(uint64_t before, absl::string_view more) {
  Sha256 hash;
  hash.Update(absl::StrCat(before, " ", more));
  const std::string digest = hash.Finish();
  return LoadLittle<uint64_t>(digest.data());
}

absl::StatusOr<FileStates> FileStates::Of(const v1::Source& source, const FoundData& found) {
  FileStates states;
  if (source.has_image_folder() || source.has_image_list()) {
    BULKHEAD_RETURN_IF_ERROR(states.AddImages(source, found.resolved));
    return states;
  }
  for (const auto& file : found.resolved.files()) {
    uint64_t& state = states.by_file_[file.name()];
    state = With(state, absl::StrCat(file.size_bytes(), " ", file.mtime_ns(), file.object().key()));
  }
  return states;
}

absl::Status FileStates::AddImages(const v1::Source& source,
                                   const internal::v1::ResolvedSource& resolved) {
  const internal::v1::ResolvedFile& file = resolved.files(0);
  BULKHEAD_ASSIGN_OR_RETURN(rows_, OpenImageRows(source, file));
  std::shared_ptr<const ObjectTable> objects;  // null: all images are files
  if (file.has_table()) {
    BULKHEAD_ASSIGN_OR_RETURN(objects, OpenTable(file.table(), file.name()));
  }
  const std::string folder = FolderOfList(file, resolved.base_dir());
  ImageRow row;
  for (uint64_t i = 0; i < rows_->record_count(); ++i) {
    BULKHEAD_RETURN_IF_ERROR(rows_->Get(i, row));
    std::string text(row.labels);
    for (const ImageRow::Image& image : row.images) {
      absl::StrAppend(&text, " ", image.path, " ", image.file.size_bytes, " ", image.file.mtime_ns);
      // The number in the table is no object's own.
      const bool is_object = objects != nullptr && !image.is_missing() && !image.is_malformed() &&
                             (source.has_image_folder() || NamesObject(folder, image.path));
      if (!is_object) continue;
      BULKHEAD_ASSIGN_OR_RETURN(const ObjectTable::Entry entry, objects->Get(image.file.inode));
      text += objects->KeyOf(entry);
    }
    // A window has the name of its clip.
    uint64_t& state = FramesOf(source) == nullptr ? by_image_[row.images[0].path] : all_;
    state = With(state, text);
  }
  return absl::OkStatus();
}

uint64_t FileStates::Of(const RecordIdentity& record) const {
  if (const auto image = by_image_.find(record.name); image != by_image_.end()) {
    return image->second;
  }
  const auto file = by_file_.find(record.name);
  return file == by_file_.end() ? all_ : file->second;
}

class SourceSupply final : public RecordSupply {
 public:
  // The records of TFRecord files as they are, whatever of them the normalized `spec` reads;
  // `undeclared`: what it is known to leave out. `data`: a file or a glob.
  static absl::StatusOr<std::unique_ptr<RecordSupply>> CreateRaw(v1::PipelineSpec spec,
                                                                 std::set<std::string> undeclared,
                                                                 const std::string& data,
                                                                 const FindProgressFn& progress) {
    BULKHEAD_ASSIGN_OR_RETURN(auto supply, Find(std::move(spec), "/", progress));
    FeatureSignature record;
    record.name = "record";
    record.kind = Kind::kEncoded;
    BULKHEAD_ASSIGN_OR_RETURN(
        supply->source_, OpenRecordSource(supply->spec_.source(), supply->data_->found().resolved,
                                          std::make_unique<RawFormat>(), {std::move(record)}));
    supply->is_raw_ = true;
    supply->undeclared_ = std::move(undeclared);
    const std::string beside = JoinPath(FolderOf(data), "packed.yaml");
    if (!IsObjectUrl(data) && StatFile(beside).ok()) supply->spec_beside_ = beside;
    return supply;
  }

  // `spec` is normalized; relative paths start from `base_dir`.
  static absl::StatusOr<std::unique_ptr<RecordSupply>> Create(v1::PipelineSpec spec,
                                                              const std::string& base_dir,
                                                              const FindProgressFn& progress) {
    if (spec.source().has_mixture()) {
      return CannotPack("source.mixture: pack each of its sources by itself");
    }
    for (const auto& [name, feature] : spec.features()) {
      if (feature.bytes().shape().empty()) continue;
      return CannotPack(
          absl::StrCat("features.", name, ": a list of byte strings is not packed; leave it out"));
    }
    BULKHEAD_ASSIGN_OR_RETURN(auto supply, Find(std::move(spec), base_dir, progress));
    BULKHEAD_ASSIGN_OR_RETURN(auto sources, supply->data_->Open());
    supply->source_ = std::move(sources[0]);
    return supply;
  }

  uint64_t record_count() const override { return source_->record_count(); }
  std::string NameOf(uint64_t index) const override { return source_->RecordName(index); }
  std::map<std::string, Setting> settings() const override {
    v1::PipelineSpec form = Spec();
    form.clear_batch();
    form.clear_order();
    form.clear_seed();
    Sha256 hash;
    hash.Update(SpecToYaml(form));
    return {{"the features or stages that DATA declares", {hash.FinishHex()}}};
  }
  std::string StateOf(uint64_t index) const override {
    const auto identity = source_->Identity(index);
    if (!identity.ok()) return "";  // it cannot be read
    return absl::StrCat(identity->name, "\n", identity->number, " ", states_.Of(*identity));
  }
  std::unique_ptr<Reader> NewReader() const override {
    return std::make_unique<SourceReader>(*source_, is_raw_, data_->found_objects());
  }
  v1::PipelineSpec Spec() const override {
    v1::PipelineSpec packed = spec_;
    packed.clear_source();
    packed.mutable_source()->mutable_tfrecord()->add_files("part-*.tfrecord");
    if (is_raw_) return packed;
    packed.clear_features();
    packed.clear_filter();
    packed.clear_split();
    packed.clear_skip();
    packed.clear_take();
    packed.clear_exclude();
    for (const FeatureSignature& signature : source_->features()) {
      const auto classes = data_->class_names().find(signature.name);
      const bool named = classes != data_->class_names().end();
      (*packed.mutable_features())[signature.name] =
          DeclarationFor(signature, named ? classes->second : std::vector<std::string>());
    }
    return packed;
  }
  std::set<std::string> undeclared() const override { return undeclared_; }
  std::vector<std::string> Notes() const override {
    std::vector<std::string> notes;
    if (!undeclared_.empty()) {
      notes.push_back(
          "the records have all their features; `bulkhead inspect 'OUT/part-*.tfrecord'` shows how "
          "to read those that packed.yaml leaves out");
    }
    if (!spec_beside_.empty()) {
      notes.push_back(absl::StrCat(Printable(spec_beside_),
                                   " lies beside the data: pack it instead to keep its stages and "
                                   "all that it declares"));
    }
    return notes;
  }

 private:
  // With the data of `spec` and their states; the source is to be opened.
  static absl::StatusOr<std::unique_ptr<SourceSupply>> Find(v1::PipelineSpec spec,
                                                            const std::string& base_dir,
                                                            const FindProgressFn& progress) {
    auto supply = std::make_unique<SourceSupply>();
    auto found = LocalData::Create(spec, base_dir, progress);
    if (!found.ok()) return ForPacking(found.status());
    supply->data_ = *std::move(found);
    BULKHEAD_ASSIGN_OR_RETURN(supply->states_,
                              FileStates::Of(spec.source(), supply->data_->found()));
    supply->spec_ = std::move(spec);
    return supply;
  }

  class SourceReader final : public Reader {
   public:
    SourceReader(const Source& source, bool is_raw, std::shared_ptr<const FoundObjects> objects)
        : reader_(source, std::move(objects)), source_(source), is_raw_(is_raw) {}
    void WillRead(uint64_t first, uint64_t end) override { reader_.WillRead(first, end); }
    absl::StatusOr<std::string> Read(uint64_t index) override {
      if (const absl::Status status = reader_.Read(index, record_); !status.ok()) {
        return ForPacking(status);
      }
      if (is_raw_) {
        const FeatureValue& bytes = record_.values[0];
        return std::string(reinterpret_cast<const char*>(bytes.data), bytes.size_bytes);
      }
      ExampleBuilder example;
      for (size_t i = 0; i < record_.values.size(); ++i) {
        AddValue(source_.features()[i], record_.values[i], example);
      }
      return example.Serialize();
    }

   private:
    static void AddValue(const FeatureSignature& signature, const FeatureValue& value,
                         ExampleBuilder& example) {
      const absl::string_view bytes(reinterpret_cast<const char*>(value.data), value.size_bytes);
      if (signature.kind == Kind::kEncoded) {
        example.Bytes(signature.name, bytes);
      } else if (signature.dtype == v1::DTYPE_INT64) {
        AddElements<int64_t>(value, example.Int64s(signature.name));
      } else if (signature.dtype == v1::DTYPE_FLOAT32) {
        AddElements<float>(value, example.Floats(signature.name));
      } else {
        std::vector<int64_t> shape = signature.shape;
        if (signature.variable) shape[0] = value.count;
        example.Bytes(signature.name, SerializeTensor(signature.dtype, shape, bytes));
      }
    }

    SourceReading reader_;
    const Source& source_;
    const bool is_raw_;
    Record record_;
  };

  v1::PipelineSpec spec_;
  std::unique_ptr<LocalData> data_;
  std::unique_ptr<Source> source_;
  bool is_raw_ = false;
  std::set<std::string> undeclared_;
  FileStates states_;
  std::string spec_beside_;  // the spec of an earlier packing; empty: there is none
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSupply>> SupplySource(const std::string& data,
                                                           const InspectedData& found,
                                                           const FindProgressFn& progress) {
  if (IsSpecFile(data)) {
    BULKHEAD_ASSIGN_OR_RETURN(v1::PipelineSpec spec, ReadSpecFile(data));
    return SourceSupply::Create(std::move(spec), SpecFolder(data), progress);
  }
  std::set<std::string> others;
  BULKHEAD_ASSIGN_OR_RETURN(const std::string text, found.files.empty()
                                                        ? GuessSpec({data}, {}, &others)
                                                        : GuessSpecOf(found, {data}, {}, &others));
  BULKHEAD_ASSIGN_OR_RETURN(v1::PipelineSpec spec, ParseSpec(text, data));
  spec.clear_epochs();  // `inspect` proposes one, for a look
  if (spec.source().has_tfrecord()) {
    return SourceSupply::CreateRaw(std::move(spec), std::move(others), data, progress);
  }
  BULKHEAD_RETURN_IF_ERROR(Normalize(spec));
  return SourceSupply::Create(std::move(spec), "/", progress);
}

}  // namespace bulkhead::tools
