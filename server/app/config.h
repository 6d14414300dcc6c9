#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace CLI {
class App;
}

namespace bulkhead {

// Where values come from that are not of the command line: "at file.yaml:3:7", "by BULKHEADD_ROOT".
struct OptionOrigins {
  std::map<std::string, std::string> by_name;  // of the option, without dashes in front

  bool operator==(const OptionOrigins&) const { return true; }  // a value is the same from anywhere
};

// The options of bulkheadd.
struct DaemonOptions {
  std::string config;                // file that the options below were also taken from
  std::string listen;                // empty: the default socket of this user
  std::vector<std::string> roots;    // folders that may be read
  std::string cache_dir;             // empty: the user's cache folder
  std::string cache_bytes = "4GiB";  // of seek entries; 0: none are kept
  // Of JPEG images' coefficients; 0: none are kept; auto: what the disk has room for.
  std::string coefficient_cache_bytes = "auto";
  std::string block_cache_bytes = "auto";
  std::string stage_cache_bytes = "16GiB";  // of cache stages; 0: they keep nothing
  std::string worker_program;               // empty: bulkhead-worker beside bulkheadd
  std::string python;                       // empty: python3 of PATH
  std::vector<std::string> python_path;     // folders that functions may be imported from
  std::vector<std::string> native_path;     // folders that libraries may be loaded from
  std::vector<std::string> dataset;         // with `embedded`: memory of the trainer's dataset
  std::vector<std::string> worker_env;      // NAME or NAME=VALUE: for the workers' environment
  std::string scratch_dir;                  // empty: of this user, on a disk
  int workers = 0;                          // 0: auto, as the clients need
  int threads = 1;
  int worker_extra_threads = 32;  // that a worker may have beside its own
  std::string worker_quota = "512MiB";
  double hang_seconds = 30;
  double idle_seconds = 300;
  int share_window = 16;           // batches; 0: streams share nothing
  double openings_per_second = 2;  // of one client; 0: no limit
  double connection_idle_seconds = 60;
  uint64_t recycle_samples = 0;  // 0: never for that
  double recycle_age_seconds = 0;
  double recycle_slowdown = 3;
  bool recycle_growth = true;
  std::string quota_enforcement = "best-effort";
  std::string sandbox = "all";
  std::string memory_budget;  // empty: 80% of the memory limit; embedded: 50% of what is available
  bool attribution = true;
  bool trace_python = false;  // find the lines of Python code that allocate what is kept
  bool allow_fault_stages = false;
  bool allow_datasets = false;
  std::string dataset_bytes;  // of all datasets that clients brought; empty: 1GiB
  bool insecure_tcp = false;
  std::string tls_cert;  // PEM files; with --listen on TCP
  std::string tls_key;
  std::string tls_client_ca;
  std::vector<std::string> allow_stream;  // names of client certificates; "*": all
  std::vector<std::string> allow_status;
  std::vector<std::string> allow_operate;
  std::vector<std::string> allow_code;
  std::string token_instead_of_certificate;  // file with the token
  std::vector<std::string> token_rights;
  bool embedded = false;
  bool insecure_metrics = false;
  std::string metrics;     // address that metrics are served on over HTTP; empty: nowhere
  int watch_pid = 0;       // the trainer's process; ends with it
  std::string watch_lock;  // file that the trainers' processes have locked; ends with the last
  int ready_fd = -1;       // gets "ready ADDRESS\n"
  std::string log_level = "info";
  std::string log_format = "text";
  std::string log_file;  // gets the log as well; empty: none
  OptionOrigins origins;

  bool operator==(const DaemonOptions&) const = default;
};

// Defines the options of `app`. It writes to `options`, which hold the defaults and must outlive
// it.
void DefineOptions(CLI::App& app, DaemonOptions& options);

// Parses the command line, then the environment (BULKHEADD_WORKER_QUOTA is --worker-quota; lists
// have commas; not with --embedded), then the file of --config. The first that has an option wins.
// On --help and --version it prints and sets `exit_code`; then the service must not start.
// INVALID_ARGUMENT for mistakes.
absl::StatusOr<DaemonOptions> OptionsOf(int argc, char** argv, std::optional<int>& exit_code);
// The same, which prints mistakes, too, and sets `exit_code`.
DaemonOptions ParseCommandLine(int argc, char** argv, std::optional<int>& exit_code);

// `mistake`, which names options, with the places in file or environment that these come from.
absl::Status WithOrigins(const absl::Status& mistake, const DaemonOptions& options);

// Variables of the environment that look like options and are none, each with the one it may stand
// for.
std::vector<std::string> UnknownVariables();

}  // namespace bulkhead
