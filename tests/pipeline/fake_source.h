#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/source/source.h"

namespace bulkhead {

// The bytes of a feature of one record, and how many rows they are.
struct FakeFeature {
  std::string bytes;
  int64_t count = 1;
  uint64_t frame = 0;
};

// One record, or the error that reading it ends in.
struct FakeRecord {
  std::map<std::string, FakeFeature> features;
  absl::Status error = absl::OkStatus();
};

template <typename T>
std::string BytesOf(const std::vector<T>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
}

// Records in memory; record i has the origin "fake.tfrecord@<100 i>".
class FakeSource : public Source {
 public:
  FakeSource(std::vector<FeatureSignature> features, std::vector<FakeRecord> records)
      : features_(std::move(features)), records_(std::move(records)) {}

  uint64_t record_count() const override { return records_.size(); }
  const std::vector<FeatureSignature>& features() const override { return features_; }
  std::unique_ptr<ReadContext> NewContext() const override {
    return std::make_unique<ReadContext>();
  }
  absl::Status Read(uint64_t index, ReadContext&, Record& record) const override {
    const FakeRecord& fake = records_[index];
    if (!fake.error.ok()) return fake.error;
    record.values.clear();
    for (const FeatureSignature& feature : features_) {
      const FakeFeature& value = fake.features.at(feature.name);
      record.values.push_back({reinterpret_cast<const std::byte*>(value.bytes.data()),
                               value.bytes.size(), value.count, value.frame});
    }
    record.origin = absl::StrCat("fake.tfrecord@", index * 100);
    return absl::OkStatus();
  }
  void Expect(uint64_t index, ReadContext&) const override {
    if (on_expect) on_expect(index);
  }
  std::function<void(uint64_t)> on_expect;

  absl::StatusOr<RecordIdentity> Identity(uint64_t index) const override {
    return RecordIdentity{"fake.tfrecord", index * 100};
  }
  void NameRecord(uint64_t index, std::string& name) const override {
    name = absl::StrCat("fake.tfrecord@", index * 100);
  }

 private:
  std::vector<FeatureSignature> features_;
  std::vector<FakeRecord> records_;
};

}  // namespace bulkhead
