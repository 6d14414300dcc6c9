#include "server/supervisor/leases/brought_batches.h"

namespace bulkhead {

void BroughtBatches::Begin(const v1::BatchHeader& header, const std::string& quarantine_digest) {
  if (bringer_ == nullptr || header.sample_count() == 0) {
    leases_.BeginBatch(header);
    return;
  }
  const LeaseTable::WorkerId as = next_++;
  const std::vector<internal::v1::Lease> leases = leases_.BeginBatch(header, as);
  Coming& coming = coming_[as];
  coming.sequence = header.sequence();
  for (const internal::v1::Lease& lease : leases) coming.leases.push_back(lease.lease_id());
  if (bringer_->Bring({stream_id_, header, quarantine_digest, leases.front().slot(), as})) return;
  coming_.erase(as);
  ++alone_;
  leases_.WorkerGone(as);
}

void BroughtBatches::Complete(LeaseTable::WorkerId bringer,
                              const std::vector<internal::v1::Substitution>& substitutions) {
  const auto found = coming_.find(bringer);
  if (found == coming_.end()) return;
  const uint32_t finished = leases_.finished();
  bool first = true;
  for (const uint64_t id : found->second.leases) {
    leases_.Complete(id, bringer,
                     first ? substitutions : std::vector<internal::v1::Substitution>());
    first = false;
  }
  const bool is_made_again = leases_.finished() == finished;  // with other records in quarantine
  ++(is_made_again ? alone_ : shared_);
  coming_.erase(found);
  on_change_();
}

void BroughtBatches::GiveBack(LeaseTable::WorkerId bringer) {
  if (coming_.erase(bringer) == 0) return;
  ++alone_;
  leases_.WorkerGone(bringer);
  on_change_();
}

}  // namespace bulkhead
