#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "tools/common/command_line.h"
#include "tools/common/commands.h"
#include "tools/common/json.h"
#include "tools/cursor/cursor_file.h"
#include "tools/cursor/cursor_math.h"

namespace bulkhead::tools {
namespace {

constexpr char kAboutFiles[] =
    "FILE holds the JSON of batch.cursor() or json.dumps(loader.state_dict()); - is standard "
    "input.\n";

absl::Status Show(const std::string& path, bool json) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::Cursor cursor, ReadCursor(path));
  std::fputs(json ? (CursorJson(cursor) + "\n").c_str() : DescribeCursor(cursor).c_str(), stdout);
  return absl::OkStatus();
}

absl::Status Advance(const std::string& path, const CursorStep& step) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::Cursor cursor, ReadCursor(path));
  BULKHEAD_ASSIGN_OR_RETURN(const v1::Cursor next, AdvanceCursor(cursor, step));
  std::printf("%s\n", CursorJson(next).c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> Differences(const std::string& first,
                                                     const std::string& second) {
  BULKHEAD_ASSIGN_OR_RETURN(const v1::Cursor a, ReadCursor(first));
  BULKHEAD_ASSIGN_OR_RETURN(const v1::Cursor b, ReadCursor(second));
  return DiffCursors(a, b);
}

// As diff(1): 1 says that they differ, so trouble is 2.
int Diff(const std::string& first, const std::string& second, bool json) {
  const absl::StatusOr<std::vector<std::string>> differences = Differences(first, second);
  if (!differences.ok()) {
    std::fprintf(stderr, "bulkhead cursor diff: %s\n",
                 std::string(differences.status().message()).c_str());
    return kUsageError;
  }
  if (json) {
    std::printf("%s\n", JsonObject()
                            .Add("equal", differences->empty())
                            .Add("differences", *differences)
                            .Text()
                            .c_str());
    return differences->empty() ? 0 : kFailed;
  }
  for (const std::string& difference : *differences) std::printf("%s\n", difference.c_str());
  if (differences->empty()) std::printf("the cursors are equal\n");
  return differences->empty() ? 0 : kFailed;
}

struct CursorArguments {
  std::string path;
  std::string other;
  CursorStep step;
  std::string last = "partial";
  bool json = false;
};

constexpr char kFile[] = "A cursor's JSON; - reads standard input";

Command ShowCommand() {
  const auto arguments = std::make_shared<CursorArguments>();
  return {.name = "show",
          .about = "Print the position of a cursor",
          .more = absl::StrCat(kAboutFiles,
                               "\nExamples:\n"
                               "  bulkhead cursor show cursor.json\n"
                               "  jq .loader checkpoint.json | bulkhead cursor show -\n"),
          .options = {{"FILE", kFile, Text(arguments->path, "FILE"), true},
                      {"--json", "Print it as JSON again, checked", Flag(arguments->json)}},
          .run = [arguments] { return Done(Show(arguments->path, arguments->json)); }};
}

Command AdvanceCommand() {
  const auto arguments = std::make_shared<CursorArguments>();
  CursorStep& step = arguments->step;
  return {
      .name = "advance",
      .about = "Print the cursor some batches later",
      .more = absl::StrCat(
          kAboutFiles,
          "Pure arithmetic: no data is read, `epochs` of a spec is not known here, and\n"
          "samples substituted on the way are not counted.\n\n"
          "Examples:\n"
          "  bulkhead cursor advance cursor.json --batches 100 --batch-size 64\n"
          "  bulkhead cursor advance c.json --batches 1 --batch-size 32 --world-size 8 "
          "--last drop > next.json\n"),
      .options = {{"FILE", kFile, Text(arguments->path, "FILE"), true},
                  {"--batches", "Batches to advance, on every rank", Number(step.batches), true},
                  {"--batch-size", "Samples per batch", Number(step.batch_size, 1), true},
                  {"--world-size", "Ranks that share the data", Number(step.world_size, 1)},
                  {"--last", "The spec's batch.last",
                   Choice(arguments->last, {"drop", "pad", "partial"})},
                  {"--json", "Print JSON, as a cursor is anyway", Flag(arguments->json)}},
      .run = [arguments] {
        arguments->step.last = arguments->last == "drop"  ? v1::LAST_BATCH_DROP
                               : arguments->last == "pad" ? v1::LAST_BATCH_PAD
                                                          : v1::LAST_BATCH_PARTIAL;
        return Done(Advance(arguments->path, arguments->step));
      }};
}

Command DiffCommand() {
  const auto arguments = std::make_shared<CursorArguments>();
  return {.name = "diff",
          .about = "Print how two cursors differ",
          .more =
              "Exit code: 0 when they are equal, 1 when they differ, 2 when one cannot be "
              "read.\n\n"
              "Examples:\n"
              "  bulkhead cursor diff before.json after.json\n"
              "  bulkhead cursor diff rank0.json rank1.json && echo all ranks agree\n",
          .options = {{"FIRST", kFile, Text(arguments->path, "FILE"), true},
                      {"SECOND", kFile, Text(arguments->other, "FILE"), true},
                      {"--json", "Print JSON", Flag(arguments->json)}},
          .run = [arguments] {
            return absl::StatusOr<int>(Diff(arguments->path, arguments->other, arguments->json));
          }};
}

}  // namespace

Command CursorCommand() {
  return {.name = "cursor",
          .about = "Read, move and compare cursors",
          .more =
              "Examples:\n"
              "  bulkhead cursor show cursor.json\n"
              "  bulkhead cursor advance cursor.json --batches 100 --batch-size 64\n"
              "  bulkhead cursor diff before.json after.json\n",
          .commands = {ShowCommand(), AdvanceCommand(), DiffCommand()}};
}

}  // namespace bulkhead::tools
