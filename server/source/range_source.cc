#include "server/source/range_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

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

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> OpenRangeSource(const v1::RangeSource& range,
                                                        std::vector<FeatureSignature> signatures) {
  if (range.size() == 0 || range.size() > static_cast<uint64_t>(INT64_MAX)) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                     "source.range.size: must be at least 1, and fit an int64",
                     {{"path", "source.range.size"}});
  }
  return std::make_unique<Range>(range.size(), std::move(signatures));
}

}  // namespace bulkhead
