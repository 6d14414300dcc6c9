#include "server/app/server_config.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/app/access_config.h"
#include "server/app/mistake.h"
#include "server/app/python_program.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/paths/object_url.h"
#include "server/base/record_name.h"
#include "server/base/utf8.h"
#include "server/os/files/filesystem.h"
#include "server/os/files/user_folders.h"
#include "server/os/memory/process_memory.h"
#include "server/os/process/process_usage.h"
#include "server/os/process/worker_environment.h"
#include "server/os/sandbox/sandbox_parts.h"

namespace bulkhead {
namespace {

// Workers that a pipeline with --workers auto may get for each CPU: those that wait use none.
constexpr uint32_t kMostWorkersPerCpu = 4;
constexpr uint64_t kIndexShare = 4;  // of --cache-bytes, one in so many
constexpr uint64_t kMinQuotaBytes = uint64_t{32} << 20;
constexpr uint64_t kSupervisorBytes = uint64_t{48} << 20;
constexpr uint64_t kDatasetBytes = uint64_t{1} << 30;  // unless --dataset-bytes says otherwise

// Messages to workers hold folders as UTF-8 text.
absl::Status CheckText(absl::string_view option, const std::string& folder) {
  if (FirstByteThatIsNoText(folder) == absl::string_view::npos) return absl::OkStatus();
  return Mistake(option, " ", Printable(folder),
                 ": the name is not UTF-8; rename the folder, or name another");
}

absl::StatusOr<std::string> CacheDir(const DaemonOptions& options) {
  std::string folder = options.cache_dir;
  if (folder.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(folder, UserCacheFolder());
  }
  if (absl::Status made = MakeDirectories(folder); !made.ok()) {
    return Mistake("the cache folder cannot be used: ", made.message(),
                   "; give another --cache-dir");
  }
  BULKHEAD_ASSIGN_OR_RETURN(folder, RealPath(folder));
  BULKHEAD_RETURN_IF_ERROR(CheckText("--cache-dir", folder));
  if (absl::Status own = TakeOwnFolder(folder); !own.ok()) {
    return Mistake("the cache folder cannot be trusted: ", own.message(),
                   "; or give another --cache-dir");
  }
  return folder;
}

// The folders that an option names, links resolved.
absl::StatusOr<std::vector<std::string>> Folders(const char* option,
                                                 const std::vector<std::string>& names) {
  std::vector<std::string> folders;
  for (const std::string& name : names) {
    const auto path = RealPath(name);
    if (!path.ok()) {
      return Mistake(option, " ", path.status().message());  // it names the path
    }
    if (const auto info = StatFile(*path); !info.ok() || !info->is_directory) {
      return Mistake(option, " ", name, " is not a folder");
    }
    BULKHEAD_RETURN_IF_ERROR(CheckText(option, *path));
    folders.push_back(*path);
  }
  return folders;
}

// Checks a URL below which objects may be read: "s3://bucket" or "s3://bucket/prefix".
absl::Status CheckObjectRoot(const std::string& url) {
  const auto invalid = [](absl::string_view why) { return Mistake("--root ", why); };
  if (absl::EndsWith(url, "://")) {
    return invalid(
        absl::StrCat(url, ": names no bucket or host; write s3://BUCKET, or s3://BUCKET/PREFIX"));
  }
  if (url.find_first_of("*?[") != std::string::npos) {
    return invalid(absl::StrCat(ShownUrl(url),
                                ": has a wildcard; a root is what the URLs of specs begin with, "
                                "such as s3://BUCKET/PREFIX"));
  }
  const absl::Status status = ParseFolderUrl(url).status();
  return status.ok() ? status : invalid(status.message());
}

absl::StatusOr<DataRoots> Roots(const DaemonOptions& options) {
  DataRoots roots;
  roots.unrestricted = options.embedded && options.roots.empty();
  std::vector<std::string> folders;
  std::vector<std::string> urls;
  for (const std::string& root : options.roots) {
    (IsObjectUrl(root) || LooksLikeUrl(root) ? urls : folders).push_back(root);
  }
  BULKHEAD_ASSIGN_OR_RETURN(roots.roots, Folders("--root", folders));
  for (std::string& url : urls) {
    BULKHEAD_RETURN_IF_ERROR(CheckObjectRoot(url));
    roots.roots.push_back(std::move(url));
  }
  return roots;
}

// The memory for datasets of clients. Asked for, it must leave room for a worker that reads one.
absl::StatusOr<uint64_t> DatasetBytes(const DaemonOptions& options,
                                      const MemoryBudget::Config& memory) {
  if (options.dataset_bytes.empty()) return kDatasetBytes;
  BULKHEAD_ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(options.dataset_bytes));
  const uint64_t others = memory.supervisor_bytes + 2 * memory.replacement_bytes;
  if (bytes <= memory.budget_bytes - others) return bytes;
  return Mistake("--dataset-bytes ", options.dataset_bytes, " is a part of the memory budget of ",
                 FormatBytes(memory.budget_bytes), ", which has ",
                 FormatBytes(memory.budget_bytes - others), " beside supervisor ",
                 FormatBytes(memory.supervisor_bytes), ", a worker ",
                 FormatBytes(memory.replacement_bytes), " and one replacement ",
                 FormatBytes(memory.replacement_bytes),
                 "; give less, a larger --memory-budget or a smaller --worker-quota");
}

// The memory that the service may use of this machine or container.
absl::StatusOr<MemoryBudget::Config> Budget(const DaemonOptions& options, uint64_t worker_quota) {
  MemoryBudget::Config memory;
  memory.limit_bytes = MemoryLimitBytes();
  memory.supervisor_bytes = kSupervisorBytes;
  memory.replacement_bytes = worker_quota;
  const uint64_t usable = MemoryBudget::UsableOf(memory.limit_bytes);
  const std::string limit = FormatBytes(memory.limit_bytes);
  if (worker_quota > usable) {
    return Mistake("--worker-quota ", options.worker_quota,
                   " is more than 90% of the memory limit of ", limit, ", ", FormatBytes(usable),
                   "; give a smaller one");
  }
  std::string origin = "--memory-budget";
  if (!options.memory_budget.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(memory.budget_bytes, ParseBytes(options.memory_budget));
  } else if (options.embedded) {
    memory.budget_bytes = std::min(AvailableMemoryBytes() / 2, usable);
    origin = "half of the memory that is available";
  } else {
    memory.budget_bytes = memory.limit_bytes / 10 * 8;
    origin = absl::StrCat("80% of the memory limit of ", limit);
  }
  if (memory.budget_bytes > usable) {
    return Mistake("--memory-budget ", options.memory_budget,
                   " is more than 90% of the memory limit of ", limit, ", ", FormatBytes(usable),
                   "; the rest is for page cache and the kernel");
  }
  if (const auto fits = MemoryBudget::Create(memory); !fits.ok()) {
    return Mistake("the memory budget of ", FormatBytes(memory.budget_bytes), " (", origin,
                   ") holds not one worker: supervisor ", FormatBytes(kSupervisorBytes),
                   " + worker ", FormatBytes(worker_quota), " + one replacement ",
                   FormatBytes(worker_quota), " = ",
                   FormatBytes(kSupervisorBytes + 2 * worker_quota),
                   "; give a larger --memory-budget or a smaller --worker-quota");
  }
  return memory;
}

absl::StatusOr<ServiceLimits> Limits(const DaemonOptions& options) {
  ServiceLimits limits;
  limits.workers = static_cast<uint32_t>(options.workers > 0 ? options.workers : AvailableCpus());
  if (options.workers == 0) {
    // With a single worker its death would stop the streams until another has started.
    limits.tuning = TuningLimits{std::min(2u, limits.workers), kMostWorkersPerCpu * limits.workers,
                                 AvailableCpuTime()};
  }
  limits.threads = static_cast<uint32_t>(options.threads);
  limits.allow_fault_stages = options.allow_fault_stages;
  limits.attribution = options.attribution;
  BULKHEAD_ASSIGN_OR_RETURN(limits.worker_quota_bytes, ParseBytes(options.worker_quota));
  if (limits.worker_quota_bytes < kMinQuotaBytes) {
    return Mistake("--worker-quota ", options.worker_quota,
                   ": a worker without any sample takes 20 MiB; give it at least ",
                   kMinQuotaBytes >> 20, "MiB");
  }
  BULKHEAD_ASSIGN_OR_RETURN(limits.memory, Budget(options, limits.worker_quota_bytes));
  return limits;
}

// The parts that --sandbox names.
absl::StatusOr<internal::v1::Sandbox> ParseSandbox(const std::string& text) {
  BULKHEAD_ASSIGN_OR_RETURN(const SandboxOptions parts, ParseSandboxParts(text));
  internal::v1::Sandbox sandbox;
  sandbox.set_seccomp(parts.seccomp);
  sandbox.set_landlock(parts.landlock);
  sandbox.set_capabilities(parts.capabilities);
  return sandbox;
}

// Python workers open the trainer's dataset before they enter the sandbox.
absl::Status AddDataset(const DaemonOptions& options, WorkerProgram& program) {
  if (options.dataset.empty()) return absl::OkStatus();
  if (!options.embedded) {
    return Mistake("--dataset is for a service with --embedded");
  }
  for (const std::string& path : options.dataset) {
    BULKHEAD_ASSIGN_OR_RETURN(const FileInfo dataset, StatFile(path));
    program.shared_bytes += dataset.size_bytes;
  }
  program.environment.push_back(
      absl::StrCat("BULKHEAD_DATASET=", absl::StrJoin(options.dataset, ":")));
  return absl::OkStatus();
}

// The folder for workers with user code: the first candidate that is not in memory, which quotas
// would not count.
std::string ScratchDir(const DaemonOptions& options, const std::string& cache_dir) {
  if (!options.scratch_dir.empty()) return options.scratch_dir;
  for (const char* folder : {"/tmp", "/var/tmp"}) {
    const std::string own = absl::StrCat(folder, "/bulkhead-", getuid());
    if (MakeDirectories(own).ok() && CheckPrivateFolder(own).ok() && !IsInMemory(own)) {
      return own + "/scratch";
    }
  }
  return cache_dir + "/scratch";
}

// Sets the folders of user code and the programs that run it.
absl::Status ConfigureUserCode(const DaemonOptions& options, LoaderServer::Config& config) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::vector<std::string> native_paths,
                            Folders("--native-path", options.native_path));
  BULKHEAD_ASSIGN_OR_RETURN(std::vector<std::string> python_paths,
                            Folders("--python-path", options.python_path));
  if (options.allow_datasets) {
    BULKHEAD_ASSIGN_OR_RETURN(std::string functions, FolderOfDatasets(config.worker_program));
    python_paths.push_back(std::move(functions));
  }
  config.limits.allow_native = !native_paths.empty();
  for (const std::string& folder : native_paths) {
    config.supervisor.worker_args.push_back("--native-path=" + folder);
  }
  BULKHEAD_ASSIGN_OR_RETURN(config.supervisor.worker_environment,
                            AskedEnvironment(options.worker_env));
  std::vector<std::string> code_paths = python_paths;
  code_paths.insert(code_paths.end(), native_paths.begin(), native_paths.end());
  config.limits.code_folders = CodeFolders(code_paths);
  if (!code_paths.empty()) {
    config.supervisor.scratch_folder = ScratchDir(options, config.cache_dir);
  }
  if (python_paths.empty()) {
    if (options.python.empty()) return absl::OkStatus();
    return Mistake(
        "--python without --python-path: name the folders that functions may be imported from");
  }
  absl::StatusOr<WorkerProgram> program =
      PythonWorkerProgram(options, config.worker_program, python_paths, native_paths);
  if (program.ok()) {
    config.limits.no_python.clear();
    config.supervisor.python_program = *std::move(program);
    BULKHEAD_RETURN_IF_ERROR(AddDataset(options, config.supervisor.python_program));
    std::vector<std::string>& environment = config.supervisor.python_program.environment;
    environment.insert(environment.end(), config.supervisor.worker_environment.begin(),
                       config.supervisor.worker_environment.end());
    return absl::OkStatus();
  }
  // A trainer names its interpreter and its folders whether or not it has Python stages.
  if (!options.embedded) return program.status();
  config.limits.no_python = std::string(program.status().message());
  return absl::OkStatus();
}

// Caches are stored beside the record indexes, but never in memory, where no quota would count
// them.
absl::StatusOr<Supervisor::Config::Cache> Cache(const char* option, const std::string& bytes,
                                                const std::string& folder) {
  Supervisor::Config::Cache cache;
  const bool chosen = bytes != "auto";
  const absl::StatusOr<uint64_t> size =
      chosen ? ParseBytes(bytes == "0" ? "0B" : bytes) : UsualCacheBytes(folder);
  if (!size.ok()) {
    return Mistake(option, " ", bytes, ": ", size.status().message());
  }
  if (chosen && *size == 0) {
    cache.reason = absl::StrCat(option, " is 0");
    return cache;
  }
  if (IsInMemory(folder)) {
    cache.reason = absl::StrCat("the cache folder ", folder,
                                " lies in memory; --cache-dir names one on a disk");
    return cache;
  }
  if (*size == 0) {
    cache.reason = absl::StrCat(option, " ", bytes, ": too little is free on the disk of ", folder);
    return cache;
  }
  cache.folder = folder;
  cache.bytes = *size;
  return cache;
}

}  // namespace

absl::StatusOr<LoaderServer::Config> MakeServerConfig(const DaemonOptions& options) {
  LoaderServer::Config config;
  config.address = options.listen;
  if (config.address.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string runtime, UserRuntimeFolder());
    config.address = absl::StrCat("unix:", runtime, "/loader.sock");
  }
  BULKHEAD_RETURN_IF_ERROR(ConfigureAccess(options, config));
  config.worker_program = options.worker_program;
  if (config.worker_program.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(const std::string self, ProgramPath());
    config.worker_program = absl::StrCat(self.substr(0, self.rfind('/')), "/bulkhead-worker");
  }
  if (access(config.worker_program.c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("no worker program at ", config.worker_program,
                                            "; install it there or give --worker-program"));
  }
  config.supervisor.timeouts.hang = absl::Seconds(options.hang_seconds);
  config.supervisor.idle_stream = absl::Seconds(options.idle_seconds);
  config.supervisor.share_window = static_cast<uint32_t>(options.share_window);
  config.openings_per_second = options.openings_per_second;
  config.idle_connection = absl::Seconds(options.connection_idle_seconds);
  RecycleConfig& recycle = config.supervisor.recycle;
  recycle.max_samples = options.recycle_samples;
  if (options.recycle_age_seconds > 0) {
    recycle.max_age = absl::Seconds(options.recycle_age_seconds);
  }
  recycle.slowdown = options.recycle_slowdown;
  recycle.by_growth = options.recycle_growth;
  config.supervisor.read_memory_limit = MemoryLimitBytes;
  BULKHEAD_ASSIGN_OR_RETURN(config.cache_dir, CacheDir(options));
  BULKHEAD_ASSIGN_OR_RETURN(config.roots, Roots(options));
  BULKHEAD_ASSIGN_OR_RETURN(config.limits, Limits(options));
  BULKHEAD_RETURN_IF_ERROR(ConfigureUserCode(options, config));
  BULKHEAD_ASSIGN_OR_RETURN(config.supervisor.sandbox, ParseSandbox(options.sandbox));
  config.supervisor.sandbox.add_readable(config.cache_dir);
  config.supervisor.sandbox.set_extra_threads(static_cast<uint32_t>(options.worker_extra_threads));
  BULKHEAD_ASSIGN_OR_RETURN(config.supervisor.seek_entries,
                            Cache("--cache-bytes", options.cache_bytes, config.cache_dir));
  // Indexes and selections are more valuable than seek entries, and far smaller.
  config.index_bytes = config.supervisor.seek_entries.bytes / kIndexShare;
  config.supervisor.seek_entries.bytes -= config.index_bytes;
  BULKHEAD_ASSIGN_OR_RETURN(
      config.supervisor.coefficients,
      Cache("--coefficient-cache-bytes", options.coefficient_cache_bytes, config.cache_dir));
  BULKHEAD_ASSIGN_OR_RETURN(
      config.supervisor.cache_stages,
      Cache("--stage-cache-bytes", options.stage_cache_bytes, config.cache_dir));
  BULKHEAD_ASSIGN_OR_RETURN(
      const Supervisor::Config::Cache blocks,
      Cache("--block-cache-bytes", options.block_cache_bytes, config.cache_dir));
  config.datasets.allowed = options.allow_datasets;
  BULKHEAD_ASSIGN_OR_RETURN(config.datasets.most_bytes,
                            DatasetBytes(options, config.limits.memory));
  config.objects.program = absl::StrCat(
      config.worker_program.substr(0, config.worker_program.rfind('/')), "/bulkhead-fetch");
  config.objects.folder = config.cache_dir + "/objects";
  config.objects.cache_bytes = blocks.bytes;
  config.objects.sandbox = config.supervisor.sandbox;
  config.supervisor.require_cgroup = options.quota_enforcement == "require_cgroup";
  config.supervisor.enforce_quotas = options.quota_enforcement != "off";
  return config;
}

}  // namespace bulkhead
