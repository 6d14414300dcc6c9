#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bulkhead::tools {

// Names of classes in the order of their numbers.
class ClassList {
 public:
  static constexpr uint64_t kMostBytes = uint64_t{16} << 20;  // of a file

  ClassList() = default;
  // A file as ParseClassesFile takes it. Errors: its, and those of ReadFileOf.
  static absl::StatusOr<ClassList> Read(const std::string& path);
  explicit ClassList(std::vector<std::string> names);

  const std::vector<std::string>& names() const { return names_; }
  bool empty() const { return names_.empty(); }
  // Absent: there is no such class.
  std::optional<int64_t> NumberOf(absl::string_view name) const;

  // The names as such a file.
  std::string Text() const;
  // Whether a spec can hold them: they are text, none is empty or repeated, and they are short
  // enough together.
  static bool FitsIntoSpec(const std::vector<std::string>& names);

 private:
  std::vector<std::string> names_;
  std::map<std::string, int64_t, std::less<>> numbers_;
};

}  // namespace bulkhead::tools
