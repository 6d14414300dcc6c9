#include "server/source/source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/source/images/image_source.h"
#include "server/source/records/record_source.h"
#include "server/source/selected_source.h"
#include "server/source/tar/tar_format.h"
#include "server/source/tfrecord/example_reader.h"
#include "server/spec/record_files.h"
#include "server/spec/source_signature.h"

namespace bulkhead {
namespace {

// The source `range`: record i is the number i. Reads no file, and never fails.
class NumberContext final : public ReadContext {
 public:
  int64_t index = 0;
};

class Range final : public Source {
 public:
  Range(uint64_t size, std::vector<FeatureSignature> features)
      : size_(size), features_(std::move(features)) {}

  uint64_t record_count() const override { return size_; }
  const std::vector<FeatureSignature>& features() const override { return features_; }
  std::unique_ptr<ReadContext> NewContext() const override {
    return std::make_unique<NumberContext>();
  }

  absl::Status Read(uint64_t index, ReadContext& context, Record& record) const override {
    int64_t& value = static_cast<NumberContext&>(context).index;
    value = static_cast<int64_t>(index);
    record.values.assign(1, {reinterpret_cast<const std::byte*>(&value), sizeof(value), 1});
    NameRecord(index, record.origin);
    return absl::OkStatus();
  }

  absl::StatusOr<RecordIdentity> Identity(uint64_t index) const override {
    return RecordIdentity{absl::string_view(), index};
  }

  void NameRecord(uint64_t index, std::string& name) const override {
    name.assign("range@");
    absl::StrAppend(&name, index);
  }

 private:
  const uint64_t size_;
  const std::vector<FeatureSignature> features_;
};

absl::StatusOr<std::unique_ptr<Source>> OpenAll(const v1::Source& source,
                                                const FeatureMap& features,
                                                const internal::v1::ResolvedSource& resolved,
                                                std::vector<FeatureSignature> signatures) {
  switch (source.source_case()) {
    case v1::Source::kTfrecord: {
      BULKHEAD_ASSIGN_OR_RETURN(auto format, ExampleReader::Create(signatures, features));
      return OpenRecordSource(source, resolved, std::move(format), std::move(signatures));
    }
    case v1::Source::kTar: {
      BULKHEAD_ASSIGN_OR_RETURN(auto format, NewTarFormat(signatures, features));
      return OpenRecordSource(source, resolved, std::move(format), std::move(signatures));
    }
    case v1::Source::kRange:
      if (source.range().size() == 0 || source.range().size() > uint64_t{INT64_MAX}) {
        return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                         "source.range.size: must be at least 1, and fit an int64",
                         {{"path", "source.range.size"}});
      }
      return std::make_unique<Range>(source.range().size(), std::move(signatures));
    default:  // SourceFeatures has refused a source that is not set
      return OpenImageSource(source, resolved, std::move(signatures));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> OpenSource(const v1::Source& source,
                                                   const FeatureMap& features,
                                                   const internal::v1::ResolvedSource& resolved) {
  BULKHEAD_ASSIGN_OR_RETURN(std::vector<FeatureSignature> signatures,
                            SourceFeatures(source, features));
  BULKHEAD_ASSIGN_OR_RETURN(std::unique_ptr<Source> all,
                            OpenAll(source, features, resolved, std::move(signatures)));
  if (!IsSelected(resolved)) return all;
  return SelectFrom(std::move(all), static_cast<uint32_t>(source.source_case()), resolved);
}

absl::StatusOr<std::unique_ptr<Source>> OpenUnselected(const v1::Source& source,
                                                       const FeatureMap& features,
                                                       const internal::v1::ResolvedSource& resolved,
                                                       const std::set<std::string>& names) {
  if (names.empty() && HasRecordFiles(source)) return OpenAll(source, {}, resolved, {});
  BULKHEAD_ASSIGN_OR_RETURN(std::vector<FeatureSignature> signatures,
                            SourceFeatures(source, features));
  FeatureMap named;
  std::vector<FeatureSignature> kept;
  for (FeatureSignature& signature : signatures) {
    if (names.count(signature.name) == 0) continue;
    const auto found = features.find(DeclarationOf(features, signature.name));
    if (found != features.end()) named[found->first] = found->second;
    kept.push_back(std::move(signature));
  }
  return OpenAll(source, named, resolved, std::move(kept));
}

}  // namespace bulkhead
