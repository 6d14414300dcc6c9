// bulkheadd: parse → validate → build → start → wait → orderly stop.

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <optional>
#include <string>

#include "server/app/config.h"
#include "server/app/daemon.h"
#include "server/app/log_format.h"
#include "server/os/process_memory.h"

int main(int argc, char** argv) {
  bulkhead::KeepMemorySteady();
  std::optional<int> exit_code;
  const bulkhead::DaemonOptions options = bulkhead::ParseCommandLine(argc, argv, exit_code);
  if (exit_code.has_value()) return *exit_code;
  spdlog::set_default_logger(spdlog::stderr_color_st("bulkheadd"));
  spdlog::set_formatter(bulkhead::LogFormat());
  spdlog::set_level(spdlog::level::from_str(options.log_level));

  absl::Status status = bulkhead::RunDaemon(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "bulkheadd: %s\n", std::string(status.message()).c_str());
  return 1;
}
