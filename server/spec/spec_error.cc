#include "server/spec/spec_error.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"

namespace bulkhead {

absl::Status SpecError(absl::string_view path, absl::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                   path.empty() ? std::string(message) : absl::StrCat(path, ": ", message),
                   {{"path", std::string(path)}});
}

void SpecProblems::Add(absl::string_view path, absl::string_view message) {
  problems_.push_back({std::string(path), std::string(message)});
}

absl::Status SpecProblems::ToStatus() const {
  if (problems_.empty()) return absl::OkStatus();
  const std::string text =
      absl::StrJoin(problems_, "\n", [](std::string* out, const SpecProblem& problem) {
        absl::StrAppend(out, problem.path, problem.path.empty() ? "" : ": ", problem.message);
      });
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid, text,
                   {{"path", problems_.front().path}});
}

}  // namespace bulkhead
