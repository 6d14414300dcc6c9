#include "tools/scan/good_spec.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/spec/yaml/yaml.h"
#include "tools/common/count_text.h"
#include "tools/common/json.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

// Whether `exclude` can leave it out; else somebody mends the list or the spec.
bool CanBeExcluded(const Finding& finding) {
  const bool is_file = finding.record.empty();
  return finding.reason != reason::kListInvalid &&
         !(is_file && finding.reason == reason::kFileNotFound);
}

}  // namespace

std::string WithExclude(const std::string& text, const v1::PipelineSpec& spec,
                        const std::vector<std::string>& names) {
  v1::PipelineSpec wanted = spec;
  for (const std::string& name : names) wanted.add_exclude(name);
  if (names.empty()) return text;
  std::string longer =
      absl::StrCat(text, absl::EndsWith(text, "\n") ? "" : "\n", "exclude:  # by bulkhead scan\n");
  for (const std::string& name : names) absl::StrAppend(&longer, "- ", Quoted(name), "\n");
  // A spec in braces, or with such a list already, cannot simply go on.
  return ParseSpec(longer, "").ok() ? longer : SpecToYaml(wanted);
}

absl::StatusOr<GoodSpec> GoodSpec::To(const std::string& path, const std::string& spec_path) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(spec_path), error).parent_path();
  const bool beside = fs::weakly_canonical(fs::absolute(path), error).parent_path() == folder;
  if (beside && !fs::equivalent(path, spec_path, error)) return GoodSpec(path, spec_path);
  const std::string instead = absl::StrCat("good-", fs::path(spec_path).filename().string());
  return MakeError(
      absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
      absl::StrCat("--write-spec ", path,
                   ": the spec without the bad records must be "
                   "another file of ",
                   folder.string(), ", where its relative paths start; write --write-spec ",
                   (folder / instead).string()));
}

absl::StatusOr<std::string> GoodSpec::Write(const v1::PipelineSpec& spec,
                                            const std::vector<Finding>& findings) const {
  std::vector<std::string> names;
  uint64_t rest = 0;
  for (const Finding& finding : findings) {
    if (CanBeExcluded(finding)) {
      names.push_back(finding.excluded_as);
    } else {
      ++rest;
    }
  }
  std::ostringstream text;
  text << std::ifstream(spec_path_, std::ios::binary).rdbuf();
  std::ofstream out(path_, std::ios::binary);
  out << WithExclude(text.str(), spec, names);
  out.close();
  if (!out) {
    return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                     absl::StrCat(path_, ": cannot be written"), {{"file", path_}});
  }
  return absl::StrCat(
      path_, ": the spec, ",
      names.empty()
          ? "as it was"
          : absl::StrCat("without what is bad (`exclude`: ", CountText(names.size(), "name"), ")"),
      rest == 0 ? ""
                : absl::StrCat("; ",
                               CountText(rest, "malformed line or pattern without files",
                                         "malformed lines or patterns without files"),
                               " must be mended by hand"));
}

}  // namespace bulkhead::tools
