#ifndef BULKHEAD_SERVER_SERVICE_PREPARATION_H_
#define BULKHEAD_SERVER_SERVICE_PREPARATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/arena/code_files.h"
#include "server/data/index_store.h"
#include "server/data/source_resolver.h"
#include "server/spec/signature.h"
#include "server/supervisor/memory_budget.h"

namespace bulkhead {

// What every stream of this service gets.
struct ServiceLimits {
  uint32_t workers = 1;  // of each pipeline
  uint32_t threads = 1;  // of each worker
  uint64_t worker_quota_bytes = 0;
  MemoryBudget::Config memory;  // what all streams share
  bool allow_fault_stages = false;
  bool attribution = true;  // workers count their allocations by stage
  // Why there are no stages of Python, and what to do; empty: there are.
  std::string no_python =
      "this service does not know where it may import it from: start bulkheadd with --python-path "
      "FOLDER (and --python PROGRAM for another interpreter than python3)";
  // There are folders that libraries of native stages may be loaded from.
  bool allow_native = false;
  // Folders of --python-path and --native-path.
  CodeFolders code_folders;
};

// A spec made ready: understood, its files found and indexed.
struct PreparedPipeline {
  v1::PipelineSpec spec;  // normalized
  PipelineSignature signature;
  internal::v1::ResolvedSource resolved;
  uint64_t samples_per_epoch = 0;
  std::string order_fingerprint;
  std::string bytes_fingerprint;  // of the spec; once `code` is known, with that
  // What the workers had loaded of the user's code when they were bound, sorted by name.
  std::vector<v1::CodeFile> code;
  // Of the user's files that are known, from earlier workers and the cursor: what they hold now.
  std::vector<v1::CodeFile> code_on_disk;
  v1::MemoryPlan memory;
  bool attribution = true;
  // The indexes and selections of `resolved`, kept open for its workers; see IndexStore::KeepOpen.
  std::vector<SharedFd> index_fds;
};

// Turns what a client sends into what can be served. Stateless; thread-safe.
class Preparer {
 public:
  Preparer(ServiceLimits limits, DataRoots roots, IndexStore* indexes);

  // Batches that a stream works on at once, unless more are asked for.
  static constexpr uint32_t kDefaultSlots = 4;
  static constexpr uint32_t kMaxSlots = 64;

  // The spec and what it alone tells; no file is touched. The stream's arena gets `slots` slots and
  // one for redoing the head.
  absl::StatusOr<PreparedPipeline> Understand(const v1::SpecInput& input,
                                              uint32_t slots = kDefaultSlots) const;
  // Finds, indexes and selects from the data of an understood spec. Blocks. Errors: those of
  // DataFinder::Find.
  absl::Status FindData(const std::string& base_dir, PreparedPipeline& prepared,
                        const FindProgressFn& progress, const FindCancelledFn& cancelled) const;

  // What FindData found turned out to be damaged.
  void NoteDamage(const internal::v1::ResolvedSource& resolved, const absl::Status& damage) const {
    indexes_->NoteDamage(resolved, damage);
  }

  // What files of the user's code hold now, by name; each once. Blocks.
  std::vector<v1::CodeFile> ReadCode(std::vector<std::string> names) const;

  const ServiceLimits& limits() const { return limits_; }

 private:
  const ServiceLimits limits_;
  const DataRoots roots_;
  IndexStore* const indexes_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_PREPARATION_H_
