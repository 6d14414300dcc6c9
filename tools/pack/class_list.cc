#include "tools/pack/class_list.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/class_names.h"
#include "server/base/error.h"
#include "server/base/utf8.h"
#include "tools/pack/read_file.h"

namespace bulkhead::tools {
namespace {

// Of the names of classes in a spec, which has at most 1 MiB.
constexpr size_t kMostNamesInSpec = 512 << 10;

}  // namespace

ClassList::ClassList(std::vector<std::string> names) : names_(std::move(names)) {
  for (size_t i = 0; i < names_.size(); ++i) numbers_.emplace(names_[i], static_cast<int64_t>(i));
}

absl::StatusOr<ClassList> ClassList::Read(const std::string& path) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string text, ReadFileOf(path, path, kMostBytes));
  BULKHEAD_ASSIGN_OR_RETURN(std::vector<std::string> names, ParseClassesFile(text, path));
  return ClassList(std::move(names));
}

std::optional<int64_t> ClassList::NumberOf(absl::string_view name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

std::string ClassList::Text() const {
  std::string text;
  for (const std::string& name : names_) absl::StrAppend(&text, name, "\n");
  return text;
}

bool ClassList::FitsIntoSpec(const std::vector<std::string>& names) {
  std::set<absl::string_view> known;
  size_t bytes = 0;
  for (const std::string& name : names) {
    bytes += name.size();
    const bool is_name = !name.empty() && known.insert(name).second &&
                         FirstByteThatIsNoText(name) == absl::string_view::npos;
    if (!is_name) return false;
  }
  return bytes <= kMostNamesInSpec;
}

}  // namespace bulkhead::tools
