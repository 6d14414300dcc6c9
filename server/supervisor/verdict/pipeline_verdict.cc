#include "server/supervisor/verdict/pipeline_verdict.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "server/supervisor/verdict/python_lines.h"
#include "server/supervisor/verdict/verdict_text.h"
#include "server/supervisor/verdict/worker_curves.h"

namespace bulkhead {

void PipelineVerdict::OnGone(uint64_t worker, Finding last) {
  living_.erase(worker);
  if (!Keeps(last.memory)) return;
  last.gone = true;
  gone_.push_front(std::move(last));
  if (gone_.size() > kMaxGone) gone_.pop_back();
}

std::vector<const Finding*> PipelineVerdict::All() const {
  std::vector<const Finding*> all;
  for (const auto& [worker, finding] : living_) all.push_back(&finding);
  for (const Finding& finding : gone_) all.push_back(&finding);
  return all;
}

size_t PipelineVerdict::Witnesses(const Finding& finding) const {
  const std::vector<const Finding*> all = All();
  return static_cast<size_t>(std::ranges::count_if(all, [&](const Finding* other) {
    return other->memory.kind() == finding.memory.kind() &&
           other->memory.stage() == finding.memory.stage();
  }));
}

uint64_t PipelineVerdict::FullestBytes() const {
  uint64_t most = 0;
  for (const auto& [worker, finding] : living_)
    most = std::max(most, finding.memory.memory_bytes());
  return most;
}

v1::Verdict PipelineVerdict::Now() const {
  v1::Verdict verdict;
  verdict.set_kind(v1::VERDICT_KIND_WARM_UP);
  const Finding* worst = nullptr;
  // Kinds are numbered by weight. Among equal ones the living worker counts that has done most.
  const auto weight = [this](const Finding& finding) {
    return std::make_tuple(finding.memory.kind(), Keeps(finding.memory) ? Witnesses(finding) : 0,
                           !finding.gone, finding.memory.samples());
  };
  for (const Finding* finding : All()) {
    if (worst == nullptr || weight(*finding) > weight(*worst)) worst = finding;
  }
  if (worst != nullptr) {
    verdict = worst->memory;
    verdict.set_confirmed(Keeps(verdict) && Witnesses(*worst) > 1);
    const auto code = code_.find(verdict.stage());
    if (code != code_.end()) verdict.set_code(code->second);
    if (worst->python.has_value()) AddPythonLines(*worst->python, verdict);
    const double per_second = verdict.bytes_per_sample() * worst->samples_per_second;
    const bool grows = Keeps(verdict) || verdict.kind() == v1::VERDICT_KIND_INCONCLUSIVE;
    if (grows && per_second > 0 && quota_bytes_ > 0) {
      const uint64_t held = worst->gone ? FullestBytes() : verdict.memory_bytes();
      const uint64_t left = quota_bytes_ - std::min(quota_bytes_, held);
      verdict.set_seconds_to_quota(static_cast<double>(left) / per_second);
    }
  }
  verdict.set_quota_bytes(quota_bytes_);
  verdict.set_text(VerdictText(verdict, !code_.empty(), worst != nullptr && worst->gone));
  return verdict;
}

}  // namespace bulkhead
