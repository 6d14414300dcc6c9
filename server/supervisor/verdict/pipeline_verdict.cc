#include "server/supervisor/verdict/pipeline_verdict.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "server/supervisor/verdict/python_lines.h"
#include "server/supervisor/verdict/verdict_text.h"

namespace bulkhead {

void PipelineVerdict::OnGone(uint64_t worker, Finding last) {
  living_.erase(worker);
  if (!last.Keeps()) return;
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
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), [&](const Finding* other) {
    return other->kind == finding.kind && other->stage == finding.stage;
  }));
}

uint64_t PipelineVerdict::FullestBytes() const {
  uint64_t most = 0;
  for (const auto& [worker, finding] : living_) most = std::max(most, finding.memory_bytes);
  return most;
}

v1::Verdict PipelineVerdict::Now() const {
  v1::Verdict verdict;
  verdict.set_kind(v1::VERDICT_KIND_WARM_UP);
  verdict.set_quota_bytes(quota_bytes_);
  const Finding* worst = nullptr;
  // Kinds are numbered by weight. Among equal ones the living worker counts that has done most.
  const auto weight = [this](const Finding& finding) {
    return std::make_tuple(finding.kind, finding.Keeps() ? Witnesses(finding) : 0, !finding.gone,
                           finding.samples);
  };
  for (const Finding* finding : All()) {
    if (worst == nullptr || weight(*finding) > weight(*worst)) worst = finding;
  }
  if (worst != nullptr) {
    verdict.set_kind(worst->kind);
    verdict.set_confirmed(worst->Keeps() && Witnesses(*worst) > 1);
    verdict.set_stage(worst->stage);
    const auto code = code_.find(worst->stage);
    if (code != code_.end()) verdict.set_code(code->second);
    verdict.set_bytes_per_sample(worst->bytes_per_sample);
    if (worst->python.has_value()) AddPythonLines(*worst->python, verdict);
    verdict.set_bound_bytes(worst->bound_bytes);
    verdict.set_kept_bytes(worst->kept_bytes);
    verdict.set_start_bytes(worst->start_bytes);
    verdict.set_memory_bytes(worst->memory_bytes);
    verdict.set_samples(worst->samples);
    const double per_second = worst->bytes_per_sample * worst->samples_per_second;
    const bool grows = worst->Keeps() || worst->kind == v1::VERDICT_KIND_INCONCLUSIVE;
    if (grows && per_second > 0 && quota_bytes_ > 0) {
      const uint64_t held = worst->gone ? FullestBytes() : worst->memory_bytes;
      const uint64_t left = quota_bytes_ - std::min(quota_bytes_, held);
      verdict.set_seconds_to_quota(static_cast<double>(left) / per_second);
    }
  }
  verdict.set_text(VerdictText(verdict, !code_.empty(), worst != nullptr && worst->gone));
  return verdict;
}

}  // namespace bulkhead
