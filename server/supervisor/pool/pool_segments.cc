#include "server/supervisor/pool/pool_segments.h"

#include <utility>

#include "server/arena/code_files.h"

namespace bulkhead {

PoolSegments::PoolSegments(const PoolPart& pool) : PoolPart(pool) {
  for (const internal::v1::CacheKind kind : config_.caches) {
    if (context_.segments[kind] != nullptr) used_.push_back(context_.segments[kind]);
  }
  if (config_.user_code.empty()) domain_ = config_.trust_domain;
}

void PoolSegments::SetDomain(const std::string& domain) {
  if (std::exchange(domain_, domain) == domain) return;
  crew_.ForEach([this](PoolWorker& worker) {
    for (CacheSegments* segments : used_) segments->OnDomain(worker);
  });
}

void PoolSegments::SetCode(const std::vector<v1::CodeFile>& files) {
  if (config_.user_code.empty()) return;
  SetDomain(FingerprintWithCode(config_.trust_domain, files));
}

void PoolSegments::Tell() const {
  if (domain_.empty()) return;
  crew_.ForEach([this](PoolWorker& worker) {
    for (CacheSegments* segments : used_) segments->Tell(worker, domain_, writes_);
  });
}

bool PoolSegments::Lend() {
  writes_ = true;
  Tell();
  bool settled = true;
  crew_.ForEach([&](const PoolWorker& worker) {
    for (const CacheSegments* segments : used_) settled = settled && segments->IsSettled(worker);
  });
  return settled;
}

void PoolSegments::OnFull(PoolWorker& worker, internal::v1::CacheKind kind) const {
  for (CacheSegments* segments : used_) {
    if (segments->kind() == kind) segments->OnFull(worker);
  }
  Tell();
}

}  // namespace bulkhead
