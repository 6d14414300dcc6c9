#include "tools/pack/packing_mark.h"

#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/checksum.h"
#include "server/base/record_name.h"

namespace bulkhead::tools {
namespace {

constexpr absl::string_view kOf = ": ";  // between a name and its value
constexpr absl::string_view kData = "DATA";
constexpr absl::string_view kFile = "file ";

void AddLine(absl::string_view name, absl::string_view value, std::string& text) {
  absl::StrAppend(&text, name, kOf, absl::CEscape(value), "\n");
}

// "was 3", "was left out", "is given now".
std::string Chosen(absl::string_view verb, const Setting* setting) {
  if (setting == nullptr) return absl::StrCat(verb, " left out");
  return absl::StrCat(verb, " ", setting->value.empty() ? "given" : Printable(setting->value));
}

const Setting* Find(const std::map<std::string, Setting>& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() ? nullptr : &found->second;
}

}  // namespace

void PackingMark::SetFiles(const RecordSupply& supply, const std::vector<PlannedFile>& files) {
  for (const PlannedFile& file : files) {
    Sha256 hash;
    for (uint64_t i = file.first; i < file.end; ++i) {
      const std::string state = supply.StateOf(i);
      hash.Update(absl::StrCat(state.size(), " ", state));
    }
    files_[file.name] = hash.FinishHex();
  }
}

std::string PackingMark::Text() const {
  std::string text;
  AddLine(kData, data_, text);
  for (const auto& [name, setting] : settings_) AddLine(name, setting.value, text);
  for (const auto& [name, digest] : files_) AddLine(absl::StrCat(kFile, name), digest, text);
  return text;
}

PackingMark PackingMark::Parse(absl::string_view text) {
  PackingMark mark("", {});
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(line, absl::MaxSplits(kOf, 1));
    std::string value;
    if (!absl::CUnescape(halves.second, &value)) continue;
    const std::string name(halves.first);
    if (name == kData) {
      mark.data_ = value;
    } else if (absl::StartsWith(name, kFile)) {
      mark.files_[name.substr(kFile.size())] = value;
    } else {
      mark.settings_[name] = {value};
    }
  }
  return mark;
}

std::vector<std::string> PackingMark::DifferencesFrom(const PackingMark& earlier) const {
  std::set<std::string> names;
  for (const auto* settings : {&earlier.settings_, &settings_}) {
    for (const auto& [name, setting] : *settings) names.insert(name);
  }
  std::vector<std::string> differences;
  for (const std::string& name : names) {
    const Setting* const before = Find(earlier.settings_, name);
    const Setting* const now = Find(settings_, name);
    const bool is_same = before != nullptr && now != nullptr &&
                         (before->value == now->value || before->value == now->before);
    if (is_same) continue;
    differences.push_back(
        absl::StartsWith(name, "--")
            ? absl::StrCat(name, " ", Chosen("was", before), " and ", Chosen("is", now), " now")
            : absl::StrCat(name, " are other ones now"));
  }
  return differences;
}

std::vector<std::string> PackingMark::StaleFiles(const PackingMark& earlier) const {
  std::vector<std::string> stale;
  for (const auto& [name, digest] : earlier.files_) {
    const auto now = files_.find(name);
    if (now == files_.end() || now->second != digest) stale.push_back(name);
  }
  return stale;
}

}  // namespace bulkhead::tools
