#ifndef BULKHEAD_SERVER_STAGES_DECLARATION_SPEC_ERROR_H_
#define BULKHEAD_SERVER_STAGES_DECLARATION_SPEC_ERROR_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace bulkhead {

// INVALID_ARGUMENT (SPEC_INVALID) about one place of a spec, such as "stages[2].resize.size": the
// place leads the message and is its metadata `path`.
absl::Status SpecError(absl::string_view path, absl::string_view message);

// Whether `path` is the place `whole` or one in it: "stages[2].resize" is in "stages[2]".
bool IsAtOrBelow(absl::string_view path, absl::string_view whole);

// One thing that is wrong with a spec, and where.
struct SpecProblem {
  std::string path;
  std::string message;
};

// Collects the problems of a spec, so that all are reported at once. Not thread-safe.
class SpecProblems {
 public:
  // A problem that is known already is not added once more.
  void Add(absl::string_view path, absl::string_view message);
  // A status made by SpecError.
  void Add(const absl::Status& status);
  // What was found in a part of the spec that stands at `path`.
  void AddBelow(absl::string_view path, const SpecProblems& part);
  const std::vector<SpecProblem>& all() const { return problems_; }
  bool empty() const { return problems_.empty(); }
  // Whether one of them stands at `path` itself, or also at something below it.
  bool AnyAt(absl::string_view path) const;
  bool AnyAtOrBelow(absl::string_view path) const;

  // OK when there is none; else SPEC_INVALID with one problem a line and metadata `path` of the
  // first.
  absl::Status ToStatus() const;

 private:
  std::vector<SpecProblem> problems_;
  std::set<std::pair<std::string, std::string>> known_;  // path and message of each
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_DECLARATION_SPEC_ERROR_H_
