// The `bulkhead` command. Every subcommand has a file of its own.
#include <CLI/CLI.hpp>

#include "tools/common/command_line.h"
#include "tools/cursor/cursor_command.h"
#include "tools/explain/explain_command.h"
#include "tools/explain/kept_look.h"
#include "tools/index/index_command.h"
#include "tools/inspect/inspect_command.h"
#include "tools/local/local_data.h"
#include "tools/measure/bench_command.h"
#include "tools/order/order_command.h"
#include "tools/pack/pack_command.h"
#include "tools/preview/preview_command.h"
#include "tools/purity/purity_check.h"
#include "tools/quarantine/quarantine_command.h"
#include "tools/recycle/recycle_command.h"
#include "tools/replay/replay_command.h"
#include "tools/scan/scan_command.h"
#include "tools/schema/schema_command.h"
#include "tools/status/status_command.h"
#include "tools/stream/stream_command.h"
#include "tools/synth/synth_command.h"
#include "tools/validate/count_records.h"
#include "tools/validate/validate_command.h"

int main(int argc, char** argv) {
  CLI::App app("Bulkhead: data loading for training jobs, in separate processes");
  app.set_version_flag("--version", "bulkhead " BULKHEAD_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  bulkhead synth photos                   draw 1,000 photos\n"
      "  bulkhead stream photos/tfrecord.yaml    and stream them\n"
      "  bulkhead validate train.yaml            check a spec\n"
      "  bulkhead bench run --spec train.yaml --json\n"
      "\n"
      "Details: `bulkhead SUBCOMMAND --help`\n");
  int exit_code = 0;
  bulkhead::tools::AddInspectCommand(app, exit_code);
  bulkhead::tools::AddStreamCommand(app, exit_code);
  bulkhead::AddValidateCommand(
      app, {bulkhead::tools::CountHere, bulkhead::tools::CountAt, bulkhead::tools::LookAtKept},
      bulkhead::tools::CheckPurity, exit_code);
  bulkhead::tools::AddScanCommand(app, exit_code);
  bulkhead::tools::AddSchemaCommand(app);
  bulkhead::tools::AddExplainCommand(app, exit_code);
  bulkhead::tools::AddPreviewCommand(app, exit_code);
  bulkhead::tools::AddIndexCommand(app, exit_code);
  bulkhead::tools::AddOrderCommand(app, exit_code);
  bulkhead::tools::AddSynthCommand(app, exit_code);
  bulkhead::tools::AddPackCommand(app, exit_code);
  bulkhead::tools::AddBenchCommand(app, exit_code);
  bulkhead::tools::AddCursorCommand(app, exit_code);
  bulkhead::tools::AddReplayCommand(app, exit_code);
  bulkhead::tools::AddStatusCommand(app, exit_code);
  bulkhead::tools::AddRecycleCommand(app, exit_code);
  bulkhead::tools::AddQuarantineCommand(app, exit_code);
  return bulkhead::tools::RunCommandLine(app, argc, argv, exit_code);
}
