#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/source/objects.h"
#include "tools/local/parts_fetcher.h"

namespace bulkhead::tools {

// Brings what records are made of to this host before one thread reads them: a batch of records at
// a time, and the next batch meanwhile. What was read may go when room is needed. Not thread-safe.
class PartsAhead {
 public:
  // Adds what record `index` is made of.
  using PartsOfFn = std::function<void(uint64_t index, std::vector<ObjectPart>& parts)>;

  // `trust`: of what is on this host already.
  PartsAhead(std::shared_ptr<const PartsFetcher> fetcher, PartsOfFn parts_of,
             ObjectFetcher::Trust trust = internal::v1::FetchParts::TRUST_UNSPECIFIED);
  ~PartsAhead();

  // Records [first, end) are read next, in their order; others are fetched one by one.
  void WillRead(uint64_t first, uint64_t end);
  // Calls `read`, which reads record `index`, once its parts are on this host, and again after
  // NOT_FETCHED. Blocks for the network. Errors: those of the store and of `read`.
  absl::Status Read(uint64_t index, absl::FunctionRef<absl::Status()> read);
  // As ReadContext::fetched_again.
  const std::vector<ObjectPart>& fetched_again() const { return fetched_again_; }

 private:
  class Batch;

  // The records from `begin` on that are fetched together.
  std::unique_ptr<Batch> BatchFrom(uint64_t begin) const;
  absl::Status Await(uint64_t index);

  const std::shared_ptr<const PartsFetcher> fetcher_;
  const PartsOfFn parts_of_;
  const ObjectFetcher::Trust trust_;
  uint64_t end_ = 0;  // of what will be read
  std::unique_ptr<Batch> now_;
  std::unique_ptr<Batch> next_;
  std::vector<ObjectPart> fetched_again_;  // of the record that is read
};

}  // namespace bulkhead::tools
