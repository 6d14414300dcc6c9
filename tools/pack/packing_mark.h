#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/pack/file_plan.h"
#include "tools/pack/record_supply.h"

namespace bulkhead::tools {

// What a packing is: of which data, with which settings, and of what each of its files is made. It
// lies as text in the folder of the packing, where a later run compares it with its own.
class PackingMark {
 public:
  // `data`: the name of what is packed, in a form of which it has only one.
  PackingMark(std::string data, std::map<std::string, Setting> settings)
      : data_(std::move(data)), settings_(std::move(settings)) {}
  // Hashes what all records are made of.
  void SetFiles(const RecordSupply& supply, const std::vector<PlannedFile>& files);

  // A line for each, with its name.
  std::string Text() const;
  // Of another version of this program it has no data.
  static PackingMark Parse(absl::string_view text);

  const std::string& data() const { return data_; }
  // What was chosen otherwise in `earlier`: "--records was 1000 and is 500 now".
  std::vector<std::string> DifferencesFrom(const PackingMark& earlier) const;
  // The names of `earlier`'s files that are not to be written, or are made of something else now.
  std::vector<std::string> StaleFiles(const PackingMark& earlier) const;
  uint64_t file_count() const { return files_.size(); }

 private:
  std::string data_;
  std::map<std::string, Setting> settings_;
  std::map<std::string, std::string> files_;  // digests of what they are made of, by name
};

}  // namespace bulkhead::tools
