#include "server/supervisor/verdict/verdict_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/byte_size.h"
#include "server/supervisor/verdict/python_lines.h"
#include "server/supervisor/verdict/worker_curves.h"

namespace bulkhead {
namespace {

std::string Bytes(double bytes) {
  return FormatBytes(static_cast<uint64_t>(std::llround(std::max(0.0, bytes))));
}

// "166MiB of 432MiB"
std::string OfQuota(uint64_t bytes, const v1::Verdict& verdict) {
  return verdict.quota_bytes() == 0
             ? FormatBytes(bytes)
             : absl::StrCat(FormatBytes(bytes), " of ", FormatBytes(verdict.quota_bytes()));
}

std::string Keeps(const v1::Verdict& verdict, bool imports, bool gone) {
  std::string text = verdict.stage();
  if (verdict.kind() == v1::VERDICT_KIND_RETENTION) text = "the worker";
  if (!verdict.code().empty()) absl::StrAppend(&text, " (", verdict.code(), ")");
  absl::StrAppend(&text, " keeps ", Bytes(verdict.bytes_per_sample()), " more with each sample",
                  PythonLinesText(verdict), ": ", OfQuota(verdict.kept_bytes(), verdict),
                  gone ? " when its worker ended" : " since it started");
  if (verdict.kind() == v1::VERDICT_KIND_RETENTION) {
    absl::StrAppend(&text, ", but no stage keeps what it allocates");
  }
  if (verdict.start_bytes() > 0) {  // not known of a worker that was first seen at work
    absl::StrAppend(&text, "; ", imports ? "imports hold " : "at its start it held ",
                    FormatBytes(verdict.start_bytes()));
  }
  if (!verdict.confirmed()) absl::StrAppend(&text, "; unconfirmed, as one worker shows it");
  return text;
}

}  // namespace

std::string VerdictText(const v1::Verdict& verdict, bool imports, bool gone) {
  switch (verdict.kind()) {
    case v1::VERDICT_KIND_LEAK:
    case v1::VERDICT_KIND_RETENTION:
      return Keeps(verdict, imports, gone);
    case v1::VERDICT_KIND_INCONCLUSIVE: {
      std::string text = absl::StrCat("memory still grows, by ", Bytes(verdict.bytes_per_sample()),
                                      " ± ", Bytes(verdict.bound_bytes()),
                                      " a sample: ", OfQuota(verdict.memory_bytes(), verdict),
                                      " after ", verdict.samples(), " samples");
      if (verdict.has_seconds_to_quota()) {
        absl::StrAppend(&text, "; at this rate the quota is met in ",
                        absl::FormatDuration(absl::Trunc(absl::Seconds(verdict.seconds_to_quota()),
                                                         absl::Seconds(1))));
      }
      return text;
    }
    case v1::VERDICT_KIND_CACHE:
      return absl::StrCat("memory grew by ", FormatBytes(verdict.kept_bytes()),
                          " and has levelled off at ", OfQuota(verdict.memory_bytes(), verdict));
    case v1::VERDICT_KIND_CLEAN:
      return absl::StrCat("memory does not grow: ", OfQuota(verdict.memory_bytes(), verdict),
                          " after ", verdict.samples(), " samples");
    default:
      return absl::StrCat("too early to tell: a worker has done ", verdict.samples(), " of ",
                          WorkerCurves::kJudgedSamples, " samples");
  }
}

}  // namespace bulkhead
