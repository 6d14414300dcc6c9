#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/memory_plan.h"
#include "server/spec/signature.h"
#include "server/spec/yaml/yaml.h"
#include "tools/validate/cache_report.h"

namespace bulkhead::tools {

// How many records have each class, by the label's feature and the name of the class.
using ClassCounts = std::map<std::string, std::map<std::string, uint64_t>>;

// How many records a spec selects, and the fingerprint of its processing, which the data's names of
// classes belong to.
struct DataCounts {
  // Of all sources together; `records` is 0 where only the samples are known.
  v1::SelectionCounts whole;
  // Of a mixture: of each source that has a selection of its own, in their order.
  std::vector<v1::SelectionCounts> selections;
  std::string bytes_fingerprint;
  ClassCounts classes;  // before the selection; empty where they are not known
};

// Counts the records that a normalized spec selects; its relative paths start from `base_dir`.
using CountDataFn = std::function<absl::StatusOr<DataCounts>(const v1::PipelineSpec& spec,
                                                             const std::string& base_dir)>;

// How --data looks at the data; null: not at all.
struct DataLook {
  CountDataFn count;
  LookAtKeptFn kept;  // asked about specs with a cache stage
};

// A valid spec, and what follows from it.
struct SpecReport {
  v1::PipelineSpec spec;
  SpecNotes notes;
  PipelineSignature signature;
  v1::MemoryPlan memory;
  std::vector<std::string> random_stages;
  std::optional<DataCounts> counts;  // where the data was looked at
  std::vector<CacheReport> caches;
};

// Reads the spec in that file ("-" is standard input), and its data as `look` can. Errors: those of
// the file, of the spec (all of its problems, a line each) and of `look.count`.
absl::StatusOr<SpecReport> ExamineSpec(const std::string& name, const DataLook& look);

// What is doubtful about a valid spec, a line each: "FILE: warning: what".
std::vector<std::string> Warnings(const std::string& name, const SpecReport& report);

// "samples", "rows" or "extents", as clients call it; "normalized_by_client".
std::string PackingOf(const v1::TensorSchema& tensor);

}  // namespace bulkhead::tools
