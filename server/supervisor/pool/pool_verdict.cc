#include "server/supervisor/pool/pool_verdict.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "server/supervisor/verdict/python_lines.h"

namespace bulkhead {
namespace {

// A fast worker does thousands of samples a second.
constexpr absl::Duration kInterval = absl::Milliseconds(50);

}  // namespace

void PoolVerdict::Look(int64_t now_ns) {
  if (Between(looked_ns_, now_ns) < kInterval) return;
  looked_ns_ = now_ns;
  crew_.ForEach([this](PoolWorker& worker) {
    Finding finding = Judge(worker, /*outgrew=*/false);
    worker.keeps_growing = Keeps(finding.memory);
    verdict_.Note(worker.id, std::move(finding));
  });
  TellIfChanged();
  ProbeIfAlone();
}

void PoolVerdict::TellIfChanged() {
  const v1::Verdict now = verdict_.Now();
  const bool changed = now.kind() != told_.kind() || now.stage() != told_.stage() ||
                       now.confirmed() != told_.confirmed() || now.line() != told_.line() ||
                       (PythonLinesText(told_).empty() && !PythonLinesText(now).empty());
  // Whether memory that has levelled off counts as a cache or as nothing may change often.
  if (!changed || (!Keeps(now) && !Keeps(told_))) {
    return;
  }
  const bool kept = Keeps(now);
  const std::string text = now.kind() == v1::VERDICT_KIND_LEAK ? "leak: " + now.text() : now.text();
  spdlog::log(kept ? spdlog::level::warn : spdlog::level::info, "pipeline {}: {}", config_.name,
              text);
  const bool replaces = kept && context_.recycle.by_growth && config_.quota_bytes > 0;
  streams_.Tell(kept ? v1::Note::LEVEL_WARNING : v1::Note::LEVEL_INFO,
                replaces ? text +
                               ". Workers are replaced before they meet their quota; the batches "
                               "stay the same"
                         : text);
  told_ = now;
}

void PoolVerdict::ProbeIfAlone() {
  if (!probes_ || crew_.slots().size() != 1) return;
  Slot& slot = *crew_.slots()[0];
  // One that was full is replaced anyway, and so will be its successor.
  const bool suspected = slot.worker != nullptr && slot.worker->keeps_growing;
  if (!suspected || verdict_.Now().confirmed()) return;
  probes_ = false;
  slot.probed = true;
}

void PoolVerdict::AppendStatus(v1::GetStatusResponse& response) const {
  v1::Verdict& verdict = *response.add_verdicts();
  verdict = verdict_.Now();
  verdict.set_pipeline(config_.name);
}

}  // namespace bulkhead
