#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "server/supervisor/leases/lease_table.h"

namespace bulkhead {

// A batch that a stream begins and that somebody else may have.
struct BroughtBatch {
  uint64_t stream_id = 0;
  const v1::BatchHeader& header;
  const std::string& quarantine_digest;  // of the set that it must be made with
  uint32_t slot = 0;                     // of the stream's arena, where it belongs
  LeaseTable::WorkerId bringer = 0;      // its number, for Complete and GiveBack
};

// Has batches that streams need.
class BatchBringer {
 public:
  virtual ~BatchBringer() = default;
  // True: it will be brought, and BroughtBatches::Complete or GiveBack follows, later than this
  // call. False: the stream makes it.
  virtual bool Bring(const BroughtBatch& batch) = 0;
};

// A stream's batches that are brought instead of made. To its leases each of them has a worker of
// its own, which holds all leases of the batch: so it can be given back, and done again when the
// quarantine changes, as if that worker had died or reported.
//
// Lives on the supervisor's thread.
class BroughtBatches {
 public:
  // Bringers' numbers begin here, above those of all workers.
  static constexpr LeaseTable::WorkerId kFirstBringer = LeaseTable::WorkerId{1} << 63;

  // `on_change` is called after Complete and GiveBack.
  BroughtBatches(uint64_t stream_id, LeaseTable& leases, std::function<void()> on_change)
      : stream_id_(stream_id), leases_(leases), on_change_(std::move(on_change)) {}

  // Batches that were brought, and those that had to be made all the same.
  uint64_t shared() const { return shared_; }
  uint64_t alone() const { return alone_; }
  // Whether the oldest batch in work is one that is brought.
  bool is_awaited() const {
    return !coming_.empty() && coming_.begin()->second.sequence == leases_.head_sequence();
  }

  // Null: all batches are made.
  void SetBringer(BatchBringer* bringer) { bringer_ = bringer; }
  // Begins a batch, as LeaseTable::BeginBatch.
  void Begin(const v1::BatchHeader& header, const std::string& quarantine_digest);
  // The batch lies in its slot.
  void Complete(LeaseTable::WorkerId bringer,
                const std::vector<internal::v1::Substitution>& substitutions);
  // The batch will not be brought. Nobody may be writing to its slot.
  void GiveBack(LeaseTable::WorkerId bringer);

 private:
  struct Coming {
    uint64_t sequence = 0;
    std::vector<uint64_t> leases;  // their ids
  };

  const uint64_t stream_id_;
  LeaseTable& leases_;
  const std::function<void()> on_change_;
  BatchBringer* bringer_ = nullptr;
  LeaseTable::WorkerId next_ = kFirstBringer;
  std::map<LeaseTable::WorkerId, Coming> coming_;  // by bringer, the oldest first
  uint64_t shared_ = 0;
  uint64_t alone_ = 0;
};

}  // namespace bulkhead
