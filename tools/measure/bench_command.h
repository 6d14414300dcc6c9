#ifndef BULKHEAD_TOOLS_MEASURE_BENCH_COMMAND_H_
#define BULKHEAD_TOOLS_MEASURE_BENCH_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// `bulkhead bench run`, `recovery` and `decode-limit`: measurements.
void AddBenchCommand(CLI::App& app, int& exit_code);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_MEASURE_BENCH_COMMAND_H_
