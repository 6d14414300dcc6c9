#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/pack/record_supply.h"

namespace bulkhead::tools {

// Records that a function gives.
class FakeSupply final : public RecordSupply {
 public:
  using ReadFn = std::function<absl::StatusOr<std::string>(uint64_t index)>;
  FakeSupply(uint64_t count, ReadFn read, std::vector<RecordSet> sets = {})
      : count_(count), read_(std::move(read)), sets_(std::move(sets)) {}

  uint64_t record_count() const override { return count_; }
  std::vector<RecordSet> sets() const override {
    return sets_.empty() ? RecordSupply::sets() : sets_;
  }
  std::string NameOf(uint64_t index) const override { return absl::StrCat("record ", index); }
  uint64_t InputBytes(uint64_t index) const override {
    return index < input_bytes.size() ? input_bytes[index] : 0;
  }
  std::map<std::string, Setting> settings() const override { return chosen; }
  std::string StateOf(uint64_t index) const override {
    const auto found = states.find(index);
    return absl::StrCat("record ", index, found == states.end() ? "" : found->second);
  }
  v1::PipelineSpec Spec() const override {
    v1::PipelineSpec told = spec;
    told.mutable_source()->mutable_tfrecord()->add_files("*.tfrecord");
    return told;
  }
  std::vector<SideFile> side_files() const override { return {{"classes.txt", "cat\n"}}; }
  std::unique_ptr<Reader> NewReader() const override { return std::make_unique<FakeReader>(read_); }

  v1::PipelineSpec spec;
  std::map<std::string, Setting> chosen;
  std::map<uint64_t, std::string> states;  // by record
  std::vector<uint64_t> input_bytes;

 private:
  class FakeReader final : public Reader {
   public:
    explicit FakeReader(const ReadFn& read) : read_(read) {}
    absl::StatusOr<std::string> Read(uint64_t index) override { return read_(index); }

   private:
    const ReadFn& read_;
  };

  const uint64_t count_;
  const ReadFn read_;
  const std::vector<RecordSet> sets_;
};

}  // namespace bulkhead::tools
