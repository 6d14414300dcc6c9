#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/arena/code_files.h"
#include "server/base/class_names.h"
#include "server/data/index_store.h"
#include "server/data/source_resolver.h"
#include "server/spec/signature.h"
#include "server/spec/yaml/yaml.h"
#include "server/supervisor/leases/stream_inputs.h"
#include "server/supervisor/memory/memory_budget.h"
#include "server/supervisor/tuning/worker_tuner.h"

namespace bulkhead {

// What every stream of this service gets.
struct ServiceLimits {
  uint32_t workers = 1;  // per pipeline
  // Set: `workers` are the first ones, and their number follows the clients' waits.
  std::optional<TuningLimits> tuning;
  uint32_t threads = 1;  // per worker
  uint64_t worker_quota_bytes = 0;
  MemoryBudget::Config memory;  // shared by all streams
  bool allow_fault_stages = false;
  bool attribution = true;  // count workers' allocations by stage
  // Why Python stages are unavailable, and what to do; empty: they are available.
  std::string no_python =
      "this service does not know where it may import it from: start bulkheadd with --python-path "
      "FOLDER (and --python PROGRAM for another interpreter than python3)";
  // Whether native stages are available: there are folders to load libraries from.
  bool allow_native = false;
  // The folders of --python-path and --native-path.
  CodeFolders code_folders;
};

// A spec that has been checked, with its files found and indexed.
struct PreparedPipeline {
  v1::PipelineSpec spec;  // normalized
  std::string spec_name;  // as messages name it, printable; may be empty
  SpecNotes notes;
  PipelineSignature signature;
  internal::v1::ResolvedSource resolved;
  uint64_t samples_per_epoch = 0;
  ClassNames class_names;  // by labels; known once the data were found
  std::string order_fingerprint;
  std::string bytes_fingerprint;  // of the spec, and of `code` once that is known
  // The user files that the workers had loaded when they were bound, sorted by name.
  std::vector<v1::CodeFile> code;
  // The present content of the user files known from earlier workers and the cursor.
  std::vector<v1::CodeFile> code_on_disk;
  v1::MemoryPlan memory;
  // The indexes and selections of `resolved`, open for its workers; see IndexStore::KeepOpen.
  std::vector<SharedFd> index_fds;
};

// The schema of its batches as sent to clients, with class names for labels that no stage but
// `one_hot` has changed.
v1::BatchSchema SchemaWithClasses(const PreparedPipeline& prepared);

// Turns a client's request into a pipeline that can be served. Stateless; thread-safe.
class Preparer {
 public:
  // Both must outlive this; `objects` may be null.
  Preparer(ServiceLimits limits, DataRoots roots, IndexStore* indexes,
           ObjectFetcher* objects = nullptr);

  // Batches in work per stream, unless the client asks for more.
  static constexpr uint32_t kDefaultSlots = 4;
  static constexpr uint32_t kMaxSlots = 64;

  // Checks the spec and infers what follows from it alone; reads no file. The arena gets `slots`
  // slots and one for redoing the head.
  absl::StatusOr<PreparedPipeline> Understand(const v1::SpecInput& input,
                                              uint32_t slots = kDefaultSlots) const;
  // Finds, indexes and selects the data of an understood spec. Blocks. Errors: those of
  // DataFinder::Find.
  absl::Status FindData(const std::string& base_dir, PreparedPipeline& prepared,
                        const FindProgressFn& progress, const FindCancelledFn& cancelled) const;

  // Reports damage in what FindData found.
  void NoteDamage(const internal::v1::ResolvedSource& resolved, const absl::Status& damage) const {
    indexes_->NoteDamage(resolved, damage);
  }

  // The current content of user files, by name, each once. Blocks. CANCELLED as soon as `cancelled`
  // returns true.
  absl::StatusOr<std::vector<v1::CodeFile>> ReadCode(std::vector<std::string> names,
                                                     const FindCancelledFn& cancelled) const;

  const ServiceLimits& limits() const { return limits_; }

  // What was read from object stores; false: nothing yet.
  bool Describe(v1::ObjectReads& reads) const {
    return objects_ != nullptr && objects_->Describe(reads);
  }

  // Brings the bytes of the objects that FindData found; without functions if there are none.
  InputFetcher FetcherOf(const internal::v1::ResolvedSource& resolved) const;

 private:
  const ServiceLimits limits_;
  const DataRoots roots_;
  IndexStore* const indexes_;
  ObjectFetcher* const objects_;
};

}  // namespace bulkhead
