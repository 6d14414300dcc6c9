#include "tools/pack/altered_supply.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/spec/normalize/normalize.h"
#include "tensorflow/example.pb.h"
#include "tools/pack/recoding_plan.h"
#include "tools/synth/example.h"

namespace bulkhead::tools {
namespace {

using Features = google::protobuf::Map<std::string, ::bulkhead::tensorflow::Feature>;
using Declarations = google::protobuf::Map<std::string, v1::Feature>;

// The declarations of all features: the spec's, or those of each source of its mixture.
std::vector<Declarations*> DeclarationsOf(v1::PipelineSpec& spec) {
  if (!spec.source().has_mixture()) return {spec.mutable_features()};
  std::vector<Declarations*> all;
  for (v1::MixedSource& mixed : *spec.mutable_source()->mutable_mixture()->mutable_sources()) {
    all.push_back(mixed.mutable_features());
  }
  return all;
}

absl::Status CheckKeys(const Declarations& features, const Alteration& alteration) {
  std::set<std::string> names;
  std::set<std::string> keys;
  for (const auto& [name, feature] : features) {
    names.insert(name);
    const auto key = alteration.keys.find(name);
    const std::string& chosen = key == alteration.keys.end() ? name : key->second;
    if (chosen.empty()) return absl::InvalidArgumentError(absl::StrCat(name, ": an empty key"));
    if (keys.insert(chosen).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the key `", chosen, "` is given to two features; choose another --key"));
  }
  for (const auto& [name, key] : alteration.keys) {
    if (names.count(name) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("--key ", name, "=", key,
                                                   ": the records have no feature `", name,
                                                   "`, only ", absl::StrJoin(names, ", ")));
  }
  return absl::OkStatus();
}

// Multiplies x and y in turn, each in float64, rounded to float32.
void Scale(const RecodedImage& image, ::bulkhead::tensorflow::Feature& coordinates) {
  auto& values = *coordinates.mutable_float_list()->mutable_value();
  for (int i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(values[i] * (i % 2 == 0 ? image.scale_x : image.scale_y));
  }
}

class AlteredSupply final : public RecordSupply {
 public:
  AlteredSupply(std::unique_ptr<RecordSupply> supply, const Alteration& alteration,
                RecodingPlan plan, MakeImageWorkFn make_image_work)
      : supply_(std::move(supply)),
        alteration_(alteration),
        plan_(std::move(plan)),
        make_image_work_(std::move(make_image_work)) {
    v1::PipelineSpec spec = supply_->Spec();
    for (const auto& [name, feature] : *DeclarationsOf(spec)[0]) {
      if (!feature.key().empty()) stored_keys_[name] = feature.key();
    }
  }

  uint64_t record_count() const override { return supply_->record_count(); }
  std::vector<RecordSet> sets() const override { return supply_->sets(); }
  std::string NameOf(uint64_t index) const override { return supply_->NameOf(index); }
  uint64_t InputBytes(uint64_t index) const override { return supply_->InputBytes(index); }
  uint64_t left_out() const override { return supply_->left_out(); }
  bool has_undeclared() const override { return supply_->has_undeclared(); }
  std::string identity() const override {
    const Recoding& recoding = alteration_.recoding;
    Sha256 hash;
    hash.Update(absl::StrCat(supply_->identity(), "\n", static_cast<int>(recoding.side), " ",
                             recoding.pixels, " ", recoding.quality, "\n"));
    for (const auto& [name, key] : alteration_.keys) {
      hash.Update(absl::StrCat(name.size(), " ", name, " ", key, "\n"));
    }
    return hash.FinishHex();
  }
  std::unique_ptr<Reader> NewReader() const override {
    return std::make_unique<AlteredReader>(*this);
  }
  v1::PipelineSpec Spec() const override {
    v1::PipelineSpec spec = supply_->Spec();
    for (Declarations* declarations : DeclarationsOf(spec)) {
      for (const auto& [name, key] : alteration_.keys) {
        (*declarations)[name].set_key(name == key ? "" : key);
      }
    }
    return spec;
  }
  std::vector<SideFile> side_files() const override { return supply_->side_files(); }
  std::vector<std::string> Notes() const override {
    std::vector<std::string> notes = supply_->Notes();
    if (alteration_.recoding.side == Recoding::Side::kAny) return notes;
    for (const std::string& name : plan_.undeclared) {
      notes.push_back(absl::StrCat("`", name,
                                   "` kept its values while images became smaller: no "
                                   "stage declares its rows of four numbers as `boxes`"));
    }
    return notes;
  }

 private:
  // What the records that are altered call a feature.
  const std::string& StoredKey(const std::string& name) const {
    const auto stored = stored_keys_.find(name);
    return stored == stored_keys_.end() ? name : stored->second;
  }

  class AlteredReader final : public Reader {
   public:
    explicit AlteredReader(const AlteredSupply& supply)
        : supply_(supply), reader_(supply.supply_->NewReader()) {
      if (!supply.plan_.images.empty()) image_work_ = supply.make_image_work_();
    }

    absl::StatusOr<std::string> Read(uint64_t index) override {
      BULKHEAD_RETURN_IF_ERROR(image_work_.status());
      BULKHEAD_ASSIGN_OR_RETURN(const std::string record, reader_->Read(index));
      ::bulkhead::tensorflow::Example example;
      if (!example.ParseFromString(record)) return absl::InternalError("a record is no tf.Example");
      Features& features = *example.mutable_features()->mutable_feature();
      for (const RecodingPlan::Image& image : supply_.plan_.images) {
        const absl::Status status = RecodeImage(image, features);
        if (!status.ok()) return Annotate(status, supply_.NameOf(index));
      }
      TakeKeys(features);
      return SerializeExample(example);
    }

   private:
    absl::Status RecodeImage(const RecodingPlan::Image& image, Features& features) {
      const auto found = features.find(supply_.StoredKey(image.name));
      if (found == features.end() || found->second.bytes_list().value_size() != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("`", image.name, "` is no encoded image of the records"));
      }
      std::string& file = *found->second.mutable_bytes_list()->mutable_value(0);
      Recoding recoding = supply_.alteration_.recoding;
      recoding.upright = image.upright;
      BULKHEAD_ASSIGN_OR_RETURN(RecodedImage recoded, (*image_work_)->Recode(file, recoding));
      if (recoded.is_kept) return absl::OkStatus();
      file = std::move(recoded.file);
      for (const std::string& name : image.coordinates) {
        Scale(recoded, features[supply_.StoredKey(name)]);
      }
      return absl::OkStatus();
    }

    void TakeKeys(Features& features) const {
      std::map<std::string, ::bulkhead::tensorflow::Feature> renamed;
      for (const auto& [name, key] : supply_.alteration_.keys) {
        renamed[key] = std::move(features[supply_.StoredKey(name)]);
      }
      for (const auto& [name, key] : supply_.alteration_.keys) {
        features.erase(supply_.StoredKey(name));
      }
      for (auto& [key, feature] : renamed) features[key] = std::move(feature);
    }

    const AlteredSupply& supply_;
    const std::unique_ptr<Reader> reader_;
    absl::StatusOr<std::unique_ptr<ImageWork>> image_work_ = nullptr;
  };

  const std::unique_ptr<RecordSupply> supply_;
  const Alteration alteration_;
  const RecodingPlan plan_;  // without images: none is encoded again
  const MakeImageWorkFn make_image_work_;
  std::map<std::string, std::string> stored_keys_;  // by feature, where they differ
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSupply>> AlterSupply(std::unique_ptr<RecordSupply> supply,
                                                          const Alteration& alteration,
                                                          MakeImageWorkFn make_image_work) {
  v1::PipelineSpec spec = supply->Spec();
  if (alteration.recoding.side != Recoding::Side::kAny && supply->has_undeclared()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
        "the records hold more than image and label, such as boxes, which would not follow a "
        "smaller image: write a spec that declares them (`bulkhead inspect` begins one), and pack "
        "that");
  }
  BULKHEAD_RETURN_IF_ERROR(CheckKeys(*DeclarationsOf(spec)[0], alteration));
  RecodingPlan plan;
  if (alteration.recoding.any()) {
    BULKHEAD_RETURN_IF_ERROR(Normalize(spec));
    BULKHEAD_ASSIGN_OR_RETURN(plan, RecodingPlan::Of(spec));
  }
  return std::make_unique<AlteredSupply>(std::move(supply), alteration, std::move(plan),
                                         std::move(make_image_work));
}

}  // namespace bulkhead::tools
