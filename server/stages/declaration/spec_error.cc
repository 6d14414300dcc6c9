#include "server/stages/declaration/spec_error.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/base/record_name.h"

namespace bulkhead {

absl::Status SpecError(absl::string_view path, absl::string_view message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                   PrintableLines(path.empty() ? message : absl::StrCat(path, ": ", message)),
                   {{"path", PrintableLines(path)}});
}

bool IsAtOrBelow(absl::string_view path, absl::string_view whole) {
  if (!absl::ConsumePrefix(&path, whole)) return false;
  return path.empty() || whole.empty() || path[0] == '.' || path[0] == '[';
}

void SpecProblems::Add(absl::string_view path, absl::string_view message) {
  if (!known_.emplace(path, message).second) return;
  problems_.push_back({std::string(path), std::string(message)});
}

bool SpecProblems::AnyAt(absl::string_view path) const {
  const auto first = known_.lower_bound({std::string(path), ""});
  return first != known_.end() && first->first == path;
}

bool SpecProblems::AnyAtOrBelow(absl::string_view path) const {
  if (path.empty()) return !empty();
  if (AnyAt(path)) return true;
  for (const char* next : {".", "["}) {
    const std::string below = absl::StrCat(path, next);
    const auto first = known_.lower_bound({below, ""});
    if (first != known_.end() && absl::StartsWith(first->first, below)) return true;
  }
  return false;
}

void SpecProblems::Add(const absl::Status& status) {
  ErrorInfo info = GetErrorInfo(status).value_or(ErrorInfo{});
  const std::string path = info.metadata["path"];
  absl::string_view message = status.message();
  if (!path.empty()) absl::ConsumePrefix(&message, absl::StrCat(path, ": "));
  Add(path, message);
}

void SpecProblems::AddBelow(absl::string_view path, const SpecProblems& part) {
  for (const SpecProblem& problem : part.all()) {
    const bool dot = !path.empty() && !problem.path.empty();
    Add(absl::StrCat(path, dot ? "." : "", problem.path), problem.message);
  }
}

absl::Status SpecProblems::ToStatus() const {
  if (problems_.empty()) return absl::OkStatus();
  const std::string text =
      absl::StrJoin(problems_, "\n", [](std::string* out, const SpecProblem& problem) {
        absl::StrAppend(out, problem.path, problem.path.empty() ? "" : ": ", problem.message);
      });
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid, PrintableLines(text),
                   {{"path", PrintableLines(problems_.front().path)}});
}

}  // namespace bulkhead
