#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/source/objects.h"
#include "tools/local/local_data.h"

namespace bulkhead::tools {

// What an order reads of objects while the block cache has none of them.
struct ExplainedReading {
  std::string order;  // "global", "block {block_size: 1000}"
  bool is_of_spec = false;
  uint64_t sample_bytes = 0;   // read from the store for a sample, on average
  uint64_t record_bytes = 0;   // of these, the sample's own record
  double sample_requests = 0;  // sent to the store for a sample, on average
};

// Counts what bulkhead-fetch reads for batch after batch, as BlockFetcher does.
class BlockCount {
 public:
  // `object_bytes`: the sizes of the objects by their keys.
  explicit BlockCount(std::map<std::string, uint64_t> object_bytes)
      : object_bytes_(std::move(object_bytes)) {}

  // The parts that one batch reads, in any order.
  void Add(std::vector<ObjectPart> batch);

  uint64_t bytes() const { return bytes_; }
  uint64_t requests() const { return requests_; }

 private:
  // Reads the missing ones of the objects of a table: whole ones, each by a request.
  void ReadObjects(const ObjectPart& part);
  // Reads the missing ones of blocks [begin, end) of an object.
  void Read(const std::string& key, uint64_t begin, uint64_t end);

  const std::map<std::string, uint64_t> object_bytes_;
  std::map<std::string, absl::flat_hash_set<uint64_t>> blocks_;  // that are here, by key
  uint64_t bytes_ = 0;
  uint64_t requests_ = 0;
};

// Works out from the record indexes what the spec's order reads of its objects at the beginning of
// an epoch, and what other orders would; of a mixture only the former. Partners of a sample are not
// counted. `spec` is normalized, `data` are its data. Blocks: reads the indexes. Errors: those of
// LocalData::OpenPlain.
absl::StatusOr<std::vector<ExplainedReading>> ExplainReading(const v1::PipelineSpec& spec,
                                                             const LocalData& data);

}  // namespace bulkhead::tools
