#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/cache/segment_folder.h"
#include "server/os/files/fd_parcel.h"
#include "server/supervisor/tuning/worker_tuner.h"
#include "server/supervisor/worker/pipeline_stages.h"

namespace bulkhead {

// Memory that a client brought for its workers: a dataset, or the lists of its sampler.
struct DatasetMemory {
  SharedFd fd;
  uint64_t bytes = 0;
};

// The workers of one pipeline.
struct PipelineConfig {
  // Pipelines with equal keys are the same and share workers.
  std::string key;
  // A short name for logs and the status page.
  std::string name;
  // Serialized internal.v1.PipelineBinding.
  std::string binding;
  uint32_t workers = 1;
  uint32_t missing_workers = 0;  // that it wanted besides, but the memory budget did not hold
  // Set: `workers` are the first ones, and their number follows the clients' waits within these
  // limits.
  std::optional<TuningLimits> tuning;
  uint32_t threads = 1;
  uint64_t quota_bytes = 0;
  // Shared memory that a worker may map besides arenas: indexes on a tmpfs.
  uint64_t mapped_bytes = 0;
  // The indexes, open, in the order of IndexPaths. Later workers need them even if the cache folder
  // is gone. Empty: workers open them by their paths.
  std::vector<SharedFd> index_fds;
  // Other stages in workers' reports are ignored.
  PipelineStages stages;
  // By stage, the user's function or library that it runs.
  std::map<std::string, std::string> stage_code;
  bool attribution = true;  // count allocations by stage
  bool python = false;      // has Python stages
  bool brief = false;       // its workers end with its last stream, not some time later
  // What its Python workers open before they enter the sandbox: a dataset, the lists of its sampler
  // or null, further datasets. Kept while the pool exists.
  std::vector<std::shared_ptr<const DatasetMemory>> datasets;
  // The known user files, as they are on disk; one without a digest is gone.
  std::vector<v1::CodeFile> code;
  std::string user_code;  // the user's functions and libraries in it, human-readable; empty: none
  // It has batch stages: a lease is a whole batch, and all threads of a worker work on one.
  bool whole_batches = false;
  std::vector<internal::v1::CacheKind> caches;  // that it uses
  // The trust domain of the cache segments that its workers write (SegmentFolder): its own if it
  // runs user code.
  std::string trust_domain = SegmentFolder::kBuiltIn;

  // "stages[1] python (my_aug:rotate)": the stage with the user's code that it runs, if it runs
  // any.
  std::string WithCode(const std::string& stage) const {
    const auto code = stage_code.find(stage);
    return code == stage_code.end() ? stage : stage + " (" + code->second + ")";
  }

  // Leases that a worker may hold: one per thread in work, and as many waiting, so that no thread
  // runs dry while a message travels.
  uint32_t LeasesOfWorker() const { return 2 * (whole_batches ? 1 : threads); }
};

}  // namespace bulkhead
