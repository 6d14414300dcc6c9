#include "server/spec/yaml/yaml.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "server/spec/yaml/yaml_mapper.h"
#include "server/spec/yaml/yaml_tree.h"
#include "server/stages/declaration/spec_error.h"

namespace bulkhead {
namespace {

// More than anyone reads at once.
constexpr size_t kMaxProblems = 20;

// Where `path` stands, or the nearest thing around it that was written.
YamlMark Locate(std::string path, const std::map<std::string, YamlMark>& marks) {
  while (!path.empty()) {
    const auto found = marks.find(path);
    if (found != marks.end()) return found->second;
    const size_t cut = path.find_last_of(".[");
    path.resize(cut == std::string::npos ? 0 : cut);
  }
  return {};
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
    lines.push_back(absl::StrCat(name, ":", problem.mark.line, ":", problem.mark.column, ": ",
                                 problem.path, problem.path.empty() ? "" : ": ", problem.message));
  }
  const MappedYaml::Problem& first = problems.front();
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                   absl::StrJoin(lines, "\n"),
                   {{"file", std::string(name)},
                    {"line", absl::StrCat(first.mark.line)},
                    {"column", absl::StrCat(first.mark.column)},
                    {"path", first.path}});
}

}  // namespace

absl::StatusOr<v1::PipelineSpec> ParseSpec(absl::string_view text, absl::string_view name) {
  const std::variant<YamlTree, YamlFault> parsed = YamlTree::Parse(text);
  if (const YamlFault* fault = std::get_if<YamlFault>(&parsed)) {
    return ToStatus({{fault->mark, "", fault->message}}, name);
  }
  v1::PipelineSpec spec;
  const MappedYaml mapped = MapYaml(std::get<YamlTree>(parsed).root(), spec);
  if (!mapped.problems.empty()) return ToStatus(mapped.problems, name);

  SpecProblems problems;
  Normalize(spec, problems);
  if (problems.empty()) {
    const auto signature = InferSignature(spec);
    if (!signature.ok()) problems.Add(signature.status());
  }
  if (problems.empty()) return spec;
  std::vector<MappedYaml::Problem> located;
  for (const SpecProblem& problem : problems.all()) {
    located.push_back({Locate(problem.path, mapped.marks), problem.path, problem.message});
  }
  return ToStatus(std::move(located), name);
}

}  // namespace bulkhead
