#include "tools/scan/exclusion.h"

#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

absl::Status Unwritable(const std::string& path) {
  return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                   absl::StrCat(path, ": cannot be written"), {{"file", path}});
}

// The lines of `list` that no finding names.
std::string GoodLines(const std::string& list, const std::vector<Finding>& findings) {
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

}  // namespace

absl::StatusOr<Exclusion> Exclusion::To(const std::string& path, const v1::PipelineSpec& spec,
                                        const std::string& base_dir) {
  const std::string& named = spec.source().image_list().path();
  if (named.empty()) return Exclusion(path, "");
  const fs::path list = fs::path(base_dir) / named;
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(path), error).parent_path();
  const fs::path its_folder = fs::weakly_canonical(list, error).parent_path();
  const auto refuse = [&](absl::string_view what, const fs::path& instead) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                     absl::StrCat("--exclude-list ", path, ": ", what, "; write --exclude-list ",
                                  instead.string()));
  };
  if (fs::equivalent(path, list, error)) {
    const std::string other = absl::StrCat("good-", list.filename().string());
    return refuse(absl::StrCat("is the list ", named, " of the spec itself, which is not changed"),
                  its_folder / other);
  }
  if (folder != its_folder) {
    return refuse(absl::StrCat("the list without its bad lines must be another file of ",
                               its_folder.string(), ", where the list's paths start"),
                  its_folder / fs::path(path).filename());
  }
  return Exclusion(path, list.string());
}

absl::Status Exclusion::Write(const std::vector<Finding>& findings) const {
  std::ofstream out(path_, std::ios::binary);
  out << (list_.empty() ? Names(findings) : GoodLines(list_, findings));
  out.close();
  return out ? absl::OkStatus() : Unwritable(path_);
}

std::string Exclusion::NextStep(const std::vector<Finding>& findings) const {
  if (findings.empty()) {
    return absl::StrCat(path_, list_.empty() ? ": empty" : ": the whole list",
                        ", as no record has to be left out");
  }
  if (!list_.empty()) return absl::StrCat(path_, ": the list without the bad lines");
  return absl::StrCat(path_,
                      ": names of the bad records; leave them out with `--write-spec`, or with "
                      "`errors: {policy: substitute}` and `bulkhead quarantine add --from ",
                      path_, "`");
}

}  // namespace bulkhead::tools
