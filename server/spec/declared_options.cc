#include "server/spec/declared_options.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/base/element_type.h"
#include "server/base/limits.h"
#include "server/spec/source_signature.h"
#include "server/stages/declaration/batch_kind.h"
#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {
namespace {

using google::protobuf::Descriptor;
using Tables = std::map<const Descriptor*, OptionTable>;

// Those of stages of `choice`, v1::Stage or v1::BatchStage.
template <typename Stage, typename KindFn>
void AddStages(KindFn kind_of, Tables& tables) {
  for (int i = 0; i < Stage::descriptor()->field_count(); ++i) {
    Stage stage;
    stage.GetReflection()->MutableMessage(&stage, Stage::descriptor()->field(i));
    const OptionTable& table = kind_of(stage)->options();
    tables.emplace(table.message(), table);
  }
}

bool IsTensorType(double number) {
  const auto dtype = static_cast<v1::DType>(static_cast<int>(number));
  return ElementBytes(dtype) > 0 && !IsForDelivery(dtype);
}

Option MaxPathBytes() {
  return Option("max_path_bytes")
      .Default(kDefaultMaxPathBytes)
      .Between(1, kMaxMaxPathBytes, "is $0, over the limit of $2");
}

Option Take() {
  return Option("take").Otherwise("all").Between(
      1, kNoLimit, "must be at least 1; leave it out to take everything");
}

Option Skip() { return Option("skip").Default(0); }

Option OrderOf() { return Option("order").Otherwise("`sequential`"); }

Option Reshuffle() { return Option("reshuffle").Default(true); }

Option Classes(std::string otherwise) { return Option("classes").Otherwise(std::move(otherwise)); }

Option MaxCount() { return Option("max_count").Between(1, kNoLimit); }

Tables AllTables() {
  Tables tables;
  const auto add = [&](const Descriptor* message, std::vector<Option> options) {
    tables.emplace(message, OptionTable(message, std::move(options)));
  };
  AddStages<v1::Stage>([](const v1::Stage& stage) { return KindOf(stage); }, tables);
  AddStages<v1::BatchStage>([](const v1::BatchStage& stage) { return BatchKindOf(stage); }, tables);
  add(v1::TruncatedImages::descriptor(),
      {Option("accept")
           .Required("the share of its rows that an image must have, above 0, at most 1")
           .Above(0, 1)});
  add(v1::StageOutput::descriptor(),
      {Option("name").Required("the feature that is made or replaced"),
       Option("dtype").Required("the element type, such as float32"), MaxCount()});

  add(v1::PipelineSpec::descriptor(),
      {Option("source").Required("where samples come from"),
       Option("batch").Required("how samples are grouped"), OrderOf(), Option("seed").Default(0),
       Option("epochs")
           .Otherwise("`forever`")
           .Between(1, kNoLimit, "must be at least 1; or write forever"),
       Option("errors").Otherwise("`{policy: fail}`"),
       Option("outputs").Otherwise("all features that are left after the stages, sorted by name"),
       Option("deterministic").Otherwise("true"), Option("filter").Otherwise("all records"),
       Option("split").Otherwise("everything"), Skip(), Take()});
  add(v1::Condition::descriptor(), {Option("feature").Required("the feature to test")});
  add(v1::Split::descriptor(),
      {Option("parts").Required("shares by name, such as {train: 0.9, validation: 0.1}"),
       Option("use").Required("the part that is read"), Option("salt").Default(0)});
  add(v1::TfRecordSource::descriptor(),
      {Option("files").Required("paths or globs, such as files: data/*.tfrecord"),
       Option("compression").Otherwise("found from each file's first bytes")});
  add(v1::TarSource::descriptor(),
      {Option("files").Required("paths or globs, such as files: data/*.tar"),
       Option("compression").Otherwise("found from each file's first bytes")});
  add(v1::ImageListSource::descriptor(),
      {Option("delimiter").Otherwise("tab if the first line has one, else comma, else space"),
       Option("images").DefaultName("image"), Option("labels").Otherwise("`label`"),
       Option("label_dtype").Otherwise("`int64`").OneOf({v1::DTYPE_INT64, v1::DTYPE_FLOAT32}, ""),
       MaxPathBytes(), Classes("the names that a label column holds, sorted by their bytes"),
       Option("frames").Otherwise("each line is a sample")});
  add(v1::ImageFolderSource::descriptor(),
      {Option("path").Required("the folder"),
       Option("extensions").Otherwise(absl::StrJoin(kImageExtensions, ", ")), MaxPathBytes(),
       Classes("all sub-folders, sorted by the bytes of their names"),
       Option("frames").Otherwise("each image is a sample")});
  add(v1::Frames::descriptor(),
      {Option("window")
           .Required("how many images make a sample, at least 2")
           .Between(2, kMaxFrames, "is $0; it must lie between $1 and $2"),
       Option("stride").Default(1).Between(1, kNoLimit)});
  add(v1::RangeSource::descriptor(),
      {Option("size").Required("how many integers, at least 1").Between(1, kNoLimit)});
  add(v1::MixtureSource::descriptor(), {Option("sources").Required("2 to 256 of them"),
                                        Option("stop").Default(v1::MIXTURE_STOP_FIRST_EXHAUSTED),
                                        Option("samples_per_epoch").Between(1, kMaxMixtureEpoch)});
  add(v1::MixedSource::descriptor(),
      {Option("weight")
           .Required("this source's share of the samples, above 0")
           .Between(1e-9, 1e9, "is $0; it must lie between $1 and $2"),
       Option("source").Required("any source but a mixture"), Skip(), Take(), OrderOf()});
  add(v1::Feature::descriptor(),
      {Option("key").Otherwise(
           absl::StrCat("the feature's own name; of `boxes` `", kBoxesKey, "`")),
       Option("sequence").Otherwise("none: a feature of the record itself")});
  add(v1::BytesFeature::descriptor(), {Option("max_bytes").Between(1, kNoLimit), MaxCount()});
  add(v1::BoxesFeature::descriptor(),
      {MaxCount().Required("the most boxes that a record may have")});
  add(v1::Int64Feature::descriptor(), {MaxCount()});
  add(v1::FloatFeature::descriptor(), {MaxCount()});
  add(v1::TensorFeature::descriptor(),
      {Option("dtype").Required("the element type to deliver").Only(IsTensorType, ""),
       Option("shape").Required("such as shape: [-1, 4] with max_count: 64"), MaxCount()});
  add(v1::Batch::descriptor(),
      {Option("size")
           .Required("how many samples a batch holds, at least 1")
           .Between(1, kMaxBatchSize, "is $0, over the limit of $2 samples"),
       Option("last").Default(v1::LAST_BATCH_PARTIAL),
       Option("drop_remainder").Otherwise("as `last` says")});
  add(v1::InterleaveOrder::descriptor(),
      {Option("cycle_length")
           .Required("how many files are read at a time, at least 1", "4")
           .Between(1, kNoLimit),
       Option("block_length").Default(1).Between(1, kNoLimit), Reshuffle()});
  add(v1::BlockOrder::descriptor(),
      {Option("block_size")
           .Required("how many consecutive records make a block, at least 1", "1000")
           .Between(1, kNoLimit),
       Option("window").Default(16).Between(1, kNoLimit), Reshuffle()});
  add(v1::SequentialOrder::descriptor(), {Reshuffle()});
  add(v1::GlobalOrder::descriptor(), {Reshuffle()});
  add(v1::ErrorPolicy::descriptor(), {Option("policy").Default(v1::ERROR_ACTION_FAIL),
                                      Option("max_fraction").Default(0.01).Between(0, 1)});
  return tables;
}

}  // namespace

const OptionTable* DeclaredOptions(const Descriptor* message) {
  static const auto& tables = *new Tables(AllTables());
  const auto found = tables.find(message);
  return found == tables.end() ? nullptr : &found->second;
}

const Option* DeclaredOption(const google::protobuf::FieldDescriptor& field) {
  const OptionTable* const table = DeclaredOptions(field.containing_type());
  return table == nullptr ? nullptr : table->Find(field.name());
}

void NormalizeOptions(google::protobuf::Message& options, const std::string& path,
                      SpecProblems& problems) {
  DeclaredOptions(options.GetDescriptor())->Normalize(options, path, problems);
}

}  // namespace bulkhead
