#include "server/spec/yaml/yaml.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/spec/lint.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "server/spec/yaml/yaml_mapper.h"
#include "server/spec/yaml/yaml_tree.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {
namespace {

// More than anyone reads at once.
constexpr size_t kMaxProblems = 20;

// A list of so many files is a program's.
constexpr size_t kMostPlaces = 100;

// The place around `path`: "stages[2]" of "stages[2].resize", "stages" of that.
std::string Around(std::string path) {
  const size_t cut = path.find_last_of(".[");
  path.resize(cut == std::string::npos ? 0 : cut);
  return path;
}

// `path`, or the nearest place around it that was written.
std::string Written(std::string path, const std::map<std::string, YamlMark>& marks) {
  while (!path.empty() && marks.count(path) == 0) path = Around(std::move(path));
  return path;
}

YamlMark Locate(const std::string& path, const std::map<std::string, YamlMark>& marks) {
  const auto found = marks.find(Written(path, marks));
  return found == marks.end() ? YamlMark{} : found->second;
}

// Whether a problem at `path` may be there only because something at it, in it or around it could
// not be read.
bool FollowsFrom(const SpecProblems& unread, const MappedYaml& mapped, const std::string& path) {
  if (unread.AnyAt("") || unread.AnyAtOrBelow(path)) return true;
  for (std::string place = path; !place.empty(); place = Around(std::move(place))) {
    if (unread.AnyAt(place)) return true;
  }
  const std::string written = Written(path, mapped.marks);
  return written != path && mapped.incomplete.count(written) > 0;
}

// "f.yaml:3:7: stages: what is wrong".
std::string Line(absl::string_view name, YamlMark mark, absl::string_view what,
                 absl::string_view path, absl::string_view message) {
  return PrintableLines(absl::StrCat(name, ":", mark.line, ":", mark.column, ": ", what, path,
                                     path.empty() ? "" : ": ", message));
}

// "source.tfrecord.files[1]", "source.mixture.sources[0].source.image_folder.path".
bool NamesData(absl::string_view path) {
  return absl::StrContains(path, "source.tfrecord.files[") ||
         absl::StrContains(path, "source.tar.files[") ||
         (absl::StrContains(path, "source.image_") && absl::EndsWith(path, ".path"));
}

absl::Status ToStatus(std::vector<MappedYaml::Problem> problems, absl::string_view name) {
  std::stable_sort(problems.begin(), problems.end(), [](const auto& a, const auto& b) {
    return std::pair(a.mark.line, a.mark.column) < std::pair(b.mark.line, b.mark.column);
  });
  std::vector<std::string> lines;
  for (const MappedYaml::Problem& problem : problems) {
    if (lines.size() == kMaxProblems) {
      lines.push_back(absl::StrCat(name, ": and ", problems.size() - kMaxProblems, " more"));
      break;
    }
    lines.push_back(Line(name, problem.mark, "", problem.path, problem.message));
  }
  const MappedYaml::Problem& first = problems.front();
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                   absl::StrJoin(lines, "\n"),
                   {{"file", Printable(name)},
                    {"line", absl::StrCat(first.mark.line)},
                    {"column", absl::StrCat(first.mark.column)},
                    {"path", Printable(first.path)}});
}

}  // namespace

absl::StatusOr<v1::PipelineSpec> ParseSpec(absl::string_view text, absl::string_view name) {
  SpecNotes notes;
  return ParseSpec(text, name, notes);
}

absl::StatusOr<v1::PipelineSpec> ParseSpec(absl::string_view text, absl::string_view name,
                                           SpecNotes& notes) {
  const std::variant<YamlTree, YamlFault> parsed = YamlTree::Parse(text);
  if (const YamlFault* fault = std::get_if<YamlFault>(&parsed)) {
    return ToStatus({{fault->mark, "", fault->message}}, name);
  }
  v1::PipelineSpec spec;
  const MappedYaml mapped = MapYaml(std::get<YamlTree>(parsed).root(), spec);
  SpecProblems unread;  // what could not be read
  for (const MappedYaml::Problem& problem : mapped.problems) {
    unread.Add(problem.path, problem.message);
  }
  SpecProblems problems = unread;
  Normalize(spec, problems);
  std::optional<PipelineSignature> signature;
  if (!mapped.lacks_part) signature = InferSignature(spec, problems);
  if (problems.empty()) {
    for (const SpecProblem& warning : LintSpec(spec, *signature)) {
      notes.warnings.push_back(Line(name, Locate(warning.path, mapped.marks),
                                    "warning: ", warning.path, warning.message));
    }
    for (const auto& [path, mark] : mapped.marks) {
      if (NamesData(path) && notes.data_places.size() < kMostPlaces) {
        notes.data_places[path] =
            absl::StrCat(PrintableLines(name), ":", mark.line, ":", mark.column);
      }
    }
    return spec;
  }
  std::vector<MappedYaml::Problem> located = mapped.problems;
  for (size_t i = unread.all().size(); i < problems.all().size(); ++i) {
    const SpecProblem& problem = problems.all()[i];
    if (FollowsFrom(unread, mapped, problem.path)) continue;
    located.push_back({Locate(problem.path, mapped.marks), problem.path, problem.message});
  }
  return ToStatus(std::move(located), name);
}

}  // namespace bulkhead
