#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "google/protobuf/struct.pb.h"
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

// For people: outputs, counts, memory; a line each, and indented. `name` is the spec's file.
void PrintReport(const std::string& name, const SpecReport& report, std::ostream& out);

// For programs: what `bulkhead validate --json` says of a valid spec, and of one that is not.
void AddReport(const std::string& name, const SpecReport& report, google::protobuf::Struct& object);
void AddProblems(const absl::Status& status, google::protobuf::Struct& object);

// JSON with the keys of every object in order, so that equal reports give equal text.
std::string SortedJson(const google::protobuf::Value& value);

// Checks each spec file ("-" is standard input) and writes to `out` what its batches will be, as a
// table or, with `json`, as one JSON array with an object a file. Problems go to `err`, one a line
// ("file:line:column: what is wrong"); with `json` they are in the objects as well. Returns the
// exit code: 0 when all are valid, else 1. Looks at the specs only, and at their data as `look`
// can; errors of its `count` make a spec invalid.
int ValidateFiles(const std::vector<std::string>& files, bool json, const DataLook& look,
                  std::ostream& out, std::ostream& err);

}  // namespace bulkhead::tools
