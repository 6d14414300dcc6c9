#include "server/source/numbered_source.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/little_endian.h"
#include "server/spec/source_signature.h"

namespace bulkhead {
namespace {

class NumberedSource final : public Source {
 public:
  NumberedSource(std::unique_ptr<Source> source, int64_t source_id)
      : source_(std::move(source)),
        prefix_(absl::StrCat(source_id, ":")),
        place_in_spec_(absl::StrCat("source.mixture.sources[", source_id, "]")) {
    StoreLittle<int64_t>(source_id_, source_id);
    features_ = source_->features();
    const auto place = std::find_if(
        features_.begin(), features_.end(),
        [](const FeatureSignature& feature) { return feature.name > kSourceIdFeature; });
    place_ = place - features_.begin();
    FeatureSignature feature;
    feature.name = kSourceIdFeature;
    feature.dtype = v1::DTYPE_INT64;
    feature.path = "source.mixture";
    features_.insert(place, std::move(feature));
  }

  uint64_t record_count() const override { return source_->record_count(); }
  const std::vector<FeatureSignature>& features() const override { return features_; }
  std::unique_ptr<ReadContext> NewContext() const override { return source_->NewContext(); }

  absl::Status Read(uint64_t index, ReadContext& context, Record& record) const override {
    const absl::Status read = source_->Read(index, context, record);
    if (!read.ok()) return NameSource(read);
    record.origin.insert(0, prefix_);
    record.values.insert(record.values.begin() + place_, {source_id_, sizeof(source_id_), 1});
    return absl::OkStatus();
  }
  void Expect(uint64_t index, ReadContext& context) const override {
    source_->Expect(index, context);
  }
  absl::StatusOr<RecordIdentity> Identity(uint64_t index) const override {
    return source_->Identity(index);
  }
  void NameRecord(uint64_t index, std::string& name) const override {
    source_->NameRecord(index, name);
    if (!name.empty()) name.insert(0, prefix_);
  }

 private:
  // The error with the place of the source, and its file by the name that records of it have.
  absl::Status NameSource(const absl::Status& read) const {
    std::optional<ErrorInfo> info = GetErrorInfo(read);
    if (!info.has_value()) return Annotate(read, place_in_spec_);
    if (info->metadata.count("file") > 0) info->metadata["file"].insert(0, prefix_);
    const std::string message = absl::StrCat(place_in_spec_, ": ", std::string(read.message()));
    if (IsSampleError(read)) return SampleError(info->reason, message, std::move(info->metadata));
    return MakeError(read.code(), info->reason, message, std::move(info->metadata));
  }

  const std::unique_ptr<Source> source_;
  const std::string prefix_;  // of records' names
  const std::string place_in_spec_;
  std::byte source_id_[sizeof(int64_t)];
  std::vector<FeatureSignature> features_;
  ptrdiff_t place_ = 0;  // of source_id among them
};

}  // namespace

std::unique_ptr<Source> MakeNumberedSource(std::unique_ptr<Source> source, int64_t source_id) {
  return std::make_unique<NumberedSource>(std::move(source), source_id);
}

}  // namespace bulkhead
