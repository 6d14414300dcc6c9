#include "tools/cursor/cursor_command.h"

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/cursor/cursor_file.h"
#include "tools/cursor/cursor_math.h"

namespace bulkhead::tools {
namespace {

// As diff(1) has it: 1 says that the files differ, so trouble needs another number.
constexpr int kTrouble = 2;

constexpr char kAboutFiles[] =
    "FILE holds the JSON of batch.cursor() or json.dumps(loader.state_dict()); - is standard "
    "input.\n";

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "bulkhead cursor: %s\n", std::string(status.message()).c_str());
  return kTrouble;
}

int Show(const std::string& path) {
  const auto cursor = ReadCursor(path);
  if (!cursor.ok()) return Fail(cursor.status());
  std::fputs(DescribeCursor(*cursor).c_str(), stdout);
  return 0;
}

int Advance(const std::string& path, const CursorStep& step) {
  const auto cursor = ReadCursor(path);
  if (!cursor.ok()) return Fail(cursor.status());
  const auto next = AdvanceCursor(*cursor, step);
  if (!next.ok()) return Fail(next.status());
  std::printf("%s\n", CursorJson(*next).c_str());
  return 0;
}

int Diff(const std::string& first, const std::string& second) {
  const auto a = ReadCursor(first);
  if (!a.ok()) return Fail(a.status());
  const auto b = ReadCursor(second);
  if (!b.ok()) return Fail(b.status());
  const std::vector<std::string> differences = DiffCursors(*a, *b);
  for (const std::string& difference : differences) std::printf("%s\n", difference.c_str());
  if (differences.empty()) std::printf("the cursors are equal\n");
  return differences.empty() ? 0 : 1;
}

void AddShow(CLI::App& cursor, int& exit_code) {
  CLI::App* command = cursor.add_subcommand("show", "Print where a cursor stands");
  const auto path = std::make_shared<std::string>();
  command->add_option("FILE", *path, "A cursor's JSON; - reads standard input")->required();
  command->footer(std::string(kAboutFiles) +
                  "Exit code: 0, or 2 when the cursor cannot be read.\n\n"
                  "Examples:\n"
                  "  bulkhead cursor show cursor.json\n"
                  "  jq .loader checkpoint.json | bulkhead cursor show -\n");
  command->callback([path, &exit_code] { exit_code = Show(*path); });
}

void AddAdvance(CLI::App& cursor, int& exit_code) {
  struct Arguments {
    std::string path;
    CursorStep step;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = cursor.add_subcommand("advance", "Print the cursor some batches later");
  command->add_option("FILE", arguments->path, "A cursor's JSON; - reads standard input")
      ->required();
  command->add_option("--batches", arguments->step.batches, "Batches to advance, on every rank")
      ->required();
  command->add_option("--batch-size", arguments->step.batch_size, "Samples per batch")->required();
  command->add_option("--world-size", arguments->step.world_size, "Ranks that share the data")
      ->capture_default_str();
  const std::map<std::string, v1::LastBatch> policies = {{"drop", v1::LAST_BATCH_DROP},
                                                         {"pad", v1::LAST_BATCH_PAD},
                                                         {"partial", v1::LAST_BATCH_PARTIAL}};
  command
      ->add_option("--last", arguments->step.last,
                   "The spec's batch.last: drop, pad or partial (default)")
      ->transform(CLI::Transformer(policies))
      ->option_text("NAME");
  command->footer(std::string(kAboutFiles) +
                  "Pure arithmetic: no data is read, `epochs` of a spec is not known here, and\n"
                  "samples substituted on the way are not counted.\n"
                  "Exit code: 0, or 2 when there is no such cursor.\n\n"
                  "Examples:\n"
                  "  bulkhead cursor advance cursor.json --batches 100 --batch-size 64\n"
                  "  bulkhead cursor advance c.json --batches 1 --batch-size 32 --world-size 8 "
                  "--last drop > next.json\n");
  command->callback(
      [arguments, &exit_code] { exit_code = Advance(arguments->path, arguments->step); });
}

void AddDiff(CLI::App& cursor, int& exit_code) {
  CLI::App* command = cursor.add_subcommand("diff", "Print how two cursors differ");
  const auto paths = std::make_shared<std::pair<std::string, std::string>>();
  command->add_option("FIRST", paths->first, "A cursor's JSON")->required();
  command->add_option("SECOND", paths->second, "A cursor's JSON")->required();
  command->footer(
      "Exit code: 0 when they are equal, 1 when they differ, 2 when one cannot be read.\n\n"
      "Examples:\n"
      "  bulkhead cursor diff before.json after.json\n"
      "  bulkhead cursor diff rank0.json rank1.json && echo all ranks agree\n");
  command->callback([paths, &exit_code] { exit_code = Diff(paths->first, paths->second); });
}

}  // namespace

void AddCursorCommand(CLI::App& app, int& exit_code) {
  CLI::App* cursor = app.add_subcommand("cursor", "Read, move and compare cursors");
  cursor->require_subcommand(1);
  cursor->footer(
      "Examples:\n"
      "  bulkhead cursor show cursor.json\n"
      "  bulkhead cursor advance cursor.json --batches 100 --batch-size 64\n"
      "  bulkhead cursor diff before.json after.json\n");
  AddShow(*cursor, exit_code);
  AddAdvance(*cursor, exit_code);
  AddDiff(*cursor, exit_code);
}

}  // namespace bulkhead::tools
