#include "tools/scan/exclusion.h"

#include <filesystem>
#include <fstream>
#include <set>
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

fs::path FolderOf(const fs::path& path) {
  std::error_code error;
  return fs::weakly_canonical(fs::absolute(path), error).parent_path();
}

bool AreSame(const fs::path& one, const fs::path& other) {
  std::error_code error;
  return fs::equivalent(one, other, error);
}

absl::Status Refuse(const std::string& option, const std::string& path, absl::string_view what,
                    const fs::path& instead) {
  return MakeError(
      absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
      absl::StrCat(option, " ", path, ": ", what, "; write ", option, " ", instead.string()));
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                   absl::StrCat(path, ": cannot be written"), {{"file", path}});
}

// The lines of `list` that no finding names.
std::string GoodLines(const fs::path& list, const std::vector<Finding>& findings) {
  std::set<std::string> bad;
  for (const Finding& finding : findings) bad.insert(finding.line);
  std::ifstream in(list, std::ios::binary);
  std::string good;
  uint64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    if (bad.count(absl::StrCat(++number)) == 0) absl::StrAppend(&good, line, "\n");
  }
  return good;
}

std::string Names(const std::vector<Finding>& findings) {
  std::string names;
  for (const Finding& finding : findings) {
    const bool whole_file = finding.record.empty();
    absl::StrAppend(&names, whole_file ? "# leave out the file " : "",
                    whole_file ? finding.file : finding.record, "\n");
  }
  return names;
}

// Whether `exclude` can leave it out; else somebody mends the list or the spec.
bool CanBeExcluded(const Finding& finding) {
  const bool is_file = finding.record.empty();
  return finding.reason != reason::kListInvalid &&
         !(is_file && finding.reason == reason::kFileNotFound);
}

// The spec `text`, which is that of `spec`, with `names` joining its `exclude`.
std::string WithExclude(const std::string& text, v1::PipelineSpec spec,
                        const std::vector<std::string>& names) {
  if (names.empty()) return text;
  std::string longer =
      absl::StrCat(text, absl::EndsWith(text, "\n") ? "" : "\n", "exclude:  # by bulkhead scan\n");
  for (const std::string& name : names) {
    spec.add_exclude(name);
    absl::StrAppend(&longer, "- ", Quoted(name), "\n");
  }
  // A spec in braces, or with such a list already, cannot simply go on.
  return ParseSpec(longer, "").ok() ? longer : SpecToYaml(spec);
}

}  // namespace

absl::Status CheckExclusion(const std::string& path, const v1::PipelineSpec& spec,
                            const std::string& base_dir) {
  const std::string& named = spec.source().image_list().path();
  if (named.empty()) return absl::OkStatus();
  const fs::path list = fs::path(base_dir) / named;
  const fs::path folder = FolderOf(list);
  if (AreSame(path, list)) {
    return Refuse("--exclude-list", path,
                  absl::StrCat("is the list ", named, " of the spec itself, which is not changed"),
                  folder / absl::StrCat("good-", list.filename().string()));
  }
  if (FolderOf(path) == folder) return absl::OkStatus();
  return Refuse("--exclude-list", path,
                absl::StrCat("the list without its bad lines must be another file of ",
                             folder.string(), ", where the list's paths start"),
                folder / fs::path(path).filename());
}

absl::StatusOr<std::string> WriteExclusion(const std::string& path, const v1::PipelineSpec& spec,
                                           const std::string& base_dir,
                                           const std::vector<Finding>& findings) {
  const std::string& list = spec.source().image_list().path();
  BULKHEAD_RETURN_IF_ERROR(WriteText(
      path, list.empty() ? Names(findings) : GoodLines(fs::path(base_dir) / list, findings)));
  if (findings.empty()) {
    return absl::StrCat(path, list.empty() ? ": empty" : ": the whole list",
                        ", as no record has to be left out");
  }
  if (!list.empty()) return absl::StrCat(path, ": the list without the bad lines");
  return absl::StrCat(path,
                      ": names of the bad records; leave them out with `--write-spec`, or with "
                      "`errors: {policy: substitute}` and `bulkhead quarantine add --from ",
                      path, "`");
}

absl::Status CheckGoodSpec(const std::string& path, const std::string& spec_path) {
  const fs::path folder = FolderOf(spec_path);
  if (FolderOf(path) == folder && !AreSame(path, spec_path)) return absl::OkStatus();
  return Refuse("--write-spec", path,
                absl::StrCat("the spec without the bad records must be another file of ",
                             folder.string(), ", where its relative paths start"),
                folder / absl::StrCat("good-", fs::path(spec_path).filename().string()));
}

absl::StatusOr<std::string> WriteGoodSpec(const std::string& path, const std::string& spec_path,
                                          const v1::PipelineSpec& spec,
                                          const std::vector<Finding>& findings) {
  std::vector<std::string> names;
  for (const Finding& finding : findings) {
    if (CanBeExcluded(finding)) names.push_back(finding.excluded_as);
  }
  const uint64_t rest = findings.size() - names.size();
  std::ostringstream text;
  text << std::ifstream(spec_path, std::ios::binary).rdbuf();
  BULKHEAD_RETURN_IF_ERROR(WriteText(path, WithExclude(text.str(), spec, names)));
  return absl::StrCat(
      path, ": the spec, ",
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
