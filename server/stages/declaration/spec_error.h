#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// INVALID_ARGUMENT (SPEC_INVALID) about one place of a spec, such as "stages[2].resize.size". The
// message begins with the place, which is also in the metadata `path`.
absl::Status SpecError(absl::string_view path, absl::string_view message);

// The same; the parts of the message, at least two, are joined as by absl::StrCat.
template <typename First, typename Second, typename... Parts>
absl::Status SpecError(absl::string_view path, const First& first, const Second& second,
                       const Parts&... others) {
  return SpecError(path, absl::StrCat(first, second, others...));
}

// Whether `path` is the place `whole` or one in it: "stages[2].resize" is in "stages[2]".
bool IsAtOrBelow(absl::string_view path, absl::string_view whole);

// A mistake in a spec, and its place.
struct SpecProblem {
  std::string path;
  std::string message;
};

// Collects the problems of a spec, so that all are reported at once. Not thread-safe.
class SpecProblems {
 public:
  // Adds a problem, unless it was added before.
  void Add(absl::string_view path, absl::string_view message);
  // The same; the parts of the message, at least two, are joined as by absl::StrCat.
  template <typename First, typename Second, typename... Parts>
  void Add(absl::string_view path, const First& first, const Second& second,
           const Parts&... others) {
    Add(path, absl::StrCat(first, second, others...));
  }
  // A status made by SpecError.
  void Add(const absl::Status& status);
  // Adds the problems of a part of the spec that is at `path`.
  void AddBelow(absl::string_view path, const SpecProblems& part);
  const std::vector<SpecProblem>& all() const { return problems_; }
  bool empty() const { return problems_.empty(); }
  // Whether there is a problem at `path` itself, or also below it.
  bool AnyAt(absl::string_view path) const;
  bool AnyAtOrBelow(absl::string_view path) const;

  // OK if there is none; else SPEC_INVALID with one problem per line and the metadata `path` of the
  // first.
  absl::Status ToStatus() const;

 private:
  std::vector<SpecProblem> problems_;
  std::set<std::pair<std::string, std::string>> known_;  // path and message
};

}  // namespace bulkhead
