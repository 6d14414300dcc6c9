#include "tools/pack/altered_supply.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/spec/normalize/normalize.h"
#include "tensorflow/example.pb.h"
#include "tools/inspect/spec_data.h"
#include "tools/pack/recoding_plan.h"
#include "tools/synth/example.h"

namespace bulkhead::tools {
namespace {

using Features = google::protobuf::Map<std::string, ::bulkhead::tensorflow::Feature>;
using Declarations = google::protobuf::Map<std::string, v1::Feature>;

absl::Status WouldNotFollow(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                   absl::StrCat(what,
                                ", which is neither image nor label and would not follow a smaller "
                                "image: write a spec that declares all that records hold "
                                "(`bulkhead inspect` begins one), and pack that"));
}

// The declarations of all features: the spec's, or those of each source of its mixture.
std::vector<Declarations*> DeclarationsOf(v1::PipelineSpec& spec) {
  if (!spec.source().has_mixture()) return {spec.mutable_features()};
  std::vector<Declarations*> all;
  for (v1::MixedSource& mixed : *spec.mutable_source()->mutable_mixture()->mutable_sources()) {
    all.push_back(mixed.mutable_features());
  }
  return all;
}

// What the records of a packing call a feature, before it is altered and afterwards: one key, or
// one for each side of `boxes`.
struct RenamedKeys {
  std::vector<std::string> before;
  std::vector<std::string> after;
};

RenamedKeys Renamed(const std::string& name, v1::Feature feature, const Alteration& alteration) {
  RenamedKeys keys{RecordKeysOf(name, feature), {}};
  const auto chosen = alteration.keys.find(name);
  if (chosen != alteration.keys.end()) feature.set_key(chosen->second);
  keys.after = RecordKeysOf(name, feature);
  return keys;
}

// `undeclared`: keys of the records that are none of `features`.
absl::Status CheckKeys(const Declarations& features, const std::set<std::string>& undeclared,
                       const Alteration& alteration) {
  const auto refuse = [](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("--key ", what...));
  };
  std::set<std::string> names;
  for (const auto& [name, feature] : features) names.insert(name);
  for (const auto& [name, key] : alteration.keys) {
    if (key.empty()) return refuse(name, "=: an empty key");
    const auto feature = features.find(name);
    if (feature == features.end()) {
      return refuse(name, "=", key, ": the records have no feature `", name, "`, only ",
                    absl::StrJoin(names, ", "));
    }
    if (feature->second.sequence().empty()) continue;
    return refuse(name, "=", key, ": a list of steps keeps its name");
  }
  std::set<std::string> keys;
  for (const auto& [name, feature] : features) {
    for (const std::string& key : Renamed(name, feature, alteration).after) {
      if (undeclared.count(key) > 0) {
        return refuse(name, "=", key, ": the records hold another feature of this name, which the ",
                      "new spec leaves out; choose another key");
      }
      if (keys.insert(key).second) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the key `", key, "` is given to two features; choose another --key"));
    }
  }
  return absl::OkStatus();
}

// Whether records need not have it: they have a list of no values then.
bool MayLack(const v1::Feature& feature) {
  const auto& shape = feature.has_bytes()    ? feature.bytes().shape()
                      : feature.has_int64()  ? feature.int64().shape()
                      : feature.has_float_() ? feature.float_().shape()
                                             : feature.tensor().shape();
  return feature.has_boxes() || feature.tensor().allow_missing() ||
         (!feature.has_tensor() && !shape.empty() && shape[0] == -1);
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
    declarations_ = *DeclarationsOf(spec)[0];
    for (const auto& [name, feature] : declarations_) {
      for (const std::string& key : RecordKeysOf(name, feature)) declared_keys_.insert(key);
    }
  }

  uint64_t record_count() const override { return supply_->record_count(); }
  std::vector<RecordSet> sets() const override { return supply_->sets(); }
  std::string NameOf(uint64_t index) const override { return supply_->NameOf(index); }
  uint64_t InputBytes(uint64_t index) const override { return supply_->InputBytes(index); }
  uint64_t left_out() const override { return supply_->left_out(); }
  std::set<std::string> undeclared() const override { return supply_->undeclared(); }
  std::string StateOf(uint64_t index) const override { return supply_->StateOf(index); }
  std::map<std::string, Setting> settings() const override {
    std::map<std::string, Setting> settings = supply_->settings();
    const Recoding& recoding = alteration_.recoding;
    if (makes_smaller()) {
      const bool is_longer = recoding.side == Recoding::Side::kLonger;
      settings[is_longer ? "--longer-side" : "--shorter-side"] = {absl::StrCat(recoding.pixels)};
    }
    if (recoding.quality > 0) settings["--quality"] = {absl::StrCat(recoding.quality)};
    if (!alteration_.keys.empty()) {
      settings["--key"] = {absl::StrJoin(alteration_.keys, ",", absl::PairFormatter("="))};
    }
    return settings;
  }
  std::unique_ptr<Reader> NewReader() const override {
    return std::make_unique<AlteredReader>(*this);
  }
  v1::PipelineSpec Spec() const override {
    v1::PipelineSpec spec = supply_->Spec();
    for (Declarations* declarations : DeclarationsOf(spec)) {
      for (const auto& [name, key] : alteration_.keys) {
        v1::Feature& feature = (*declarations)[name];
        feature.set_key(name == key && !feature.has_boxes() ? "" : key);
      }
    }
    return spec;
  }
  std::vector<SideFile> side_files() const override { return supply_->side_files(); }
  std::vector<std::string> Notes() const override {
    std::vector<std::string> notes = supply_->Notes();
    if (!makes_smaller()) return notes;
    for (const std::string& name : plan_.undeclared) {
      notes.push_back(absl::StrCat("`", name,
                                   "` kept its values while images became smaller: no "
                                   "stage declares its rows of four numbers as `boxes`"));
    }
    return notes;
  }

 private:
  bool makes_smaller() const { return alteration_.recoding.side != Recoding::Side::kAny; }
  // What the records that are altered call a feature that is not `boxes`.
  std::string StoredKey(const std::string& name) const {
    return RecordKeysOf(name, declarations_.at(name))[0];
  }

  class AlteredReader final : public Reader {
   public:
    explicit AlteredReader(const AlteredSupply& supply)
        : supply_(supply), reader_(supply.supply_->NewReader()) {
      if (!supply.plan_.images.empty()) image_work_ = supply.make_image_work_();
    }

    void WillRead(uint64_t first, uint64_t end) override { reader_->WillRead(first, end); }
    absl::StatusOr<std::string> Read(uint64_t index) override {
      BULKHEAD_RETURN_IF_ERROR(image_work_.status());
      BULKHEAD_ASSIGN_OR_RETURN(const std::string record, reader_->Read(index));
      // A tf.Example is a SequenceExample without lists.
      ::bulkhead::tensorflow::SequenceExample example;
      const absl::Status status = example.ParseFromString(record)
                                      ? Alter(example)
                                      : absl::InvalidArgumentError("the record is no tf.Example");
      if (!status.ok()) return Annotate(status, supply_.NameOf(index));
      return SerializeExample(example);
    }

   private:
    absl::Status Alter(::bulkhead::tensorflow::SequenceExample& example) {
      Features& features = *example.mutable_context()->mutable_feature();
      if (supply_.makes_smaller()) {
        for (const auto& [key, feature] : features) BULKHEAD_RETURN_IF_ERROR(CheckFollows(key));
        for (const auto& [key, list] : example.feature_lists().feature_list()) {
          BULKHEAD_RETURN_IF_ERROR(CheckFollows(key));
        }
      }
      for (const RecodingPlan::Image& image : supply_.plan_.images) {
        BULKHEAD_RETURN_IF_ERROR(RecodeImage(image, features));
      }
      return TakeKeys(features);
    }

    // What nobody has declared may hold numbers or pixels of the image.
    absl::Status CheckFollows(const std::string& key) const {
      if (supply_.declared_keys_.count(key) > 0) return absl::OkStatus();
      return WouldNotFollow(absl::StrCat("holds `", Printable(key), "`"));
    }

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
        const auto coordinates = features.find(supply_.StoredKey(name));
        if (coordinates != features.end()) Scale(recoded, coordinates->second);
      }
      return absl::OkStatus();
    }

    absl::Status TakeKeys(Features& features) const {
      std::map<std::string, ::bulkhead::tensorflow::Feature> renamed;
      for (const auto& [name, key] : supply_.alteration_.keys) {
        const v1::Feature& declaration = supply_.declarations_.at(name);
        const RenamedKeys keys = Renamed(name, declaration, supply_.alteration_);
        for (size_t i = 0; i < keys.before.size(); ++i) {
          const auto found = features.find(keys.before[i]);
          if (found != features.end()) {
            renamed[keys.after[i]] = std::move(found->second);
            features.erase(found);
          } else if (!MayLack(declaration)) {
            return absl::InvalidArgumentError(absl::StrCat(
                "has no feature `", Printable(keys.before[i]), "`, which --key ", name, "=", key,
                " gives another name; leave out such records, or that option"));
          }
        }
      }
      for (auto& [key, feature] : renamed) {
        if (features.contains(key)) {
          return absl::InvalidArgumentError(
              absl::StrCat("holds a feature `", Printable(key),
                           "` besides the one that gets this key; choose another --key"));
        }
        features[key] = std::move(feature);
      }
      return absl::OkStatus();
    }

    const AlteredSupply& supply_;
    const std::unique_ptr<Reader> reader_;
    absl::StatusOr<std::unique_ptr<ImageWork>> image_work_ = nullptr;
  };

  const std::unique_ptr<RecordSupply> supply_;
  const Alteration alteration_;
  const RecodingPlan plan_;  // without images: none is encoded again
  const MakeImageWorkFn make_image_work_;
  Declarations declarations_;            // of the records that are altered
  std::set<std::string> declared_keys_;  // in these
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSupply>> AlterSupply(std::unique_ptr<RecordSupply> supply,
                                                          const Alteration& alteration,
                                                          MakeImageWorkFn make_image_work) {
  v1::PipelineSpec spec = supply->Spec();
  const std::set<std::string> undeclared = supply->undeclared();
  if (alteration.recoding.side != Recoding::Side::kAny && !undeclared.empty()) {
    return WouldNotFollow(absl::StrCat("the records hold `", Printable(*undeclared.begin()), "`"));
  }
  BULKHEAD_RETURN_IF_ERROR(CheckKeys(*DeclarationsOf(spec)[0], undeclared, alteration));
  RecodingPlan plan;
  if (alteration.recoding.any()) {
    BULKHEAD_RETURN_IF_ERROR(Normalize(spec));
    BULKHEAD_ASSIGN_OR_RETURN(plan, RecodingPlan::Of(spec));
  }
  return std::make_unique<AlteredSupply>(std::move(supply), alteration, std::move(plan),
                                         std::move(make_image_work));
}

}  // namespace bulkhead::tools
