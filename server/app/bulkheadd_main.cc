// bulkheadd: parse → validate → build → start → wait → orderly stop.

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/app/config.h"
#include "server/app/daemon.h"
#include "server/app/log_sink.h"
#include "server/os/files/fd.h"
#include "server/os/files/log_output.h"
#include "server/os/memory/process_memory.h"

namespace {

// How long the log's reader may take for the last lines.
constexpr absl::Duration kLastWords = absl::Seconds(1);

}  // namespace

int main(int argc, char** argv) {
  bulkhead::KeepMemorySteady();
  std::optional<int> exit_code;
  const bulkhead::DaemonOptions options = bulkhead::ParseCommandLine(argc, argv, exit_code);
  if (exit_code.has_value()) return *exit_code;
  const bulkhead::LogStyle style =
      options.log_format == "json" ? bulkhead::LogStyle::kJson : bulkhead::LogStyle::kText;
  auto standard_error = bulkhead::DuplicateFd(STDERR_FILENO);
  absl::StatusOr<bulkhead::UniqueFd> file = bulkhead::UniqueFd();
  if (!options.log_file.empty()) file = bulkhead::OpenLogFile(options.log_file);
  const absl::Status filed = file.status();
  if (!filed.ok()) file = bulkhead::UniqueFd();
  auto started = standard_error.ok() ? bulkhead::LogOutput::Start(*std::move(standard_error),
                                                                  *std::move(file), style)
                                     : standard_error.status();
  if (!started.ok()) {
    std::fprintf(stderr, "bulkheadd: %s\n", std::string(started.status().message()).c_str());
    return 1;
  }
  const std::shared_ptr<bulkhead::LogOutput> log = *std::move(started);
  bulkhead::LogTo(log, options.log_level, style);
  if (!filed.ok()) spdlog::warn("--log-file: {}", std::string(filed.message()));
  const absl::Status ended = bulkhead::RunDaemon(options, *log, [argc, argv] {
    std::optional<int> printed;  // not again
    return bulkhead::OptionsOf(argc, argv, printed);
  });
  const absl::Status status = ended.ok() ? ended : bulkhead::WithOrigins(ended, options);
  // A mistake in the command line is for the person who typed it, unless a program reads the log;
  // and whoever logs nothing at all still learns why it ended.
  const bool is_mistyped = absl::IsInvalidArgument(status) && style == bulkhead::LogStyle::kText;
  if (!status.ok() && !is_mistyped && spdlog::should_log(spdlog::level::critical)) {
    spdlog::critical("{}", std::string(status.message()));
  } else if (!status.ok()) {
    log->Write(absl::StrCat("bulkheadd: ", std::string(status.message()), "\n"));
  }
  log->Flush(kLastWords);
  // Threads of the disk and of gRPC go on: they must not find OpenSSL and static objects torn down.
  _exit(status.ok() ? 0 : 1);
}
