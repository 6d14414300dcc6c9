#include "tools/cursor/cursor_math.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/base/error.h"
#include "server/sampler/batch_plan.h"
#include "tools/common/count_text.h"

namespace bulkhead::tools {
namespace {

// Keeps every product of the arithmetic far from overflow.
constexpr uint64_t kLargest = uint64_t{1} << 31;

absl::Status Invalid(absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kCursorMismatch, what);
}

std::string Quarantine(const v1::Cursor& cursor) {
  return cursor.quarantined().empty() ? "none" : absl::StrJoin(cursor.quarantined(), ", ");
}

std::map<std::string, std::string> Code(const v1::Cursor& cursor) {
  std::map<std::string, std::string> digests;
  for (const v1::CodeFile& file : cursor.code()) digests[file.name()] = file.digest();
  return digests;
}

// A line on the user's code; empty when there is none.
std::string CodeLine(const v1::Cursor& cursor) {
  if (cursor.code().empty()) return "";
  return absl::StrCat("code               ",
                      absl::StrJoin(Code(cursor), ", ", absl::PairFormatter(" ")), "\n");
}

// Names each file of the user's code that differs.
void DiffCode(const v1::Cursor& a, const v1::Cursor& b, std::vector<std::string>* differences) {
  const auto before = Code(a);
  const auto after = Code(b);
  auto files = before;
  files.insert(after.begin(), after.end());
  const auto digest = [](const std::map<std::string, std::string>& code, const std::string& name) {
    const auto found = code.find(name);
    return found == code.end() ? std::string("none") : found->second;
  };
  for (const auto& [name, unused] : files) {
    const std::string old = digest(before, name);
    const std::string now = digest(after, name);
    if (old != now) differences->push_back(absl::StrCat("code: ", name, ": ", old, " and ", now));
  }
}

// Batches delivered before their turn; empty when there are none.
std::string OutOfTurn(const v1::Cursor& cursor) {
  if (cursor.completed().empty()) return "";
  const bool one = cursor.completed_size() == 1;
  return absl::StrCat(cursor.completed_size(), one ? " later batch" : " later batches",
                      " delivered before ", one ? "its" : "their", " turn: +",
                      absl::StrJoin(cursor.completed(), ", +"), " (batch size ",
                      cursor.batch_size(), ", world size ", cursor.world_size(), ")");
}

// How far `b` is from `a`, in one direction or the other.
std::string Distance(const v1::Cursor& a, const v1::Cursor& b) {
  const bool ahead = b.epoch() != a.epoch() ? b.epoch() > a.epoch() : b.consumed() > a.consumed();
  const v1::Cursor& low = ahead ? a : b;
  const v1::Cursor& high = ahead ? b : a;
  uint64_t epochs = high.epoch() - low.epoch();
  uint64_t positions = high.consumed() - low.consumed();
  if (high.consumed() < low.consumed()) {
    --epochs;
    positions = high.consumed() + low.samples_per_epoch() - low.consumed();
  }
  std::string distance = epochs > 0 ? CountText(epochs, "epoch") : "";
  if (positions > 0) {
    absl::StrAppend(&distance, epochs > 0 ? " and " : "", CountText(positions, "position"));
  }
  return absl::StrCat("the second is ", distance, ahead ? " ahead" : " behind");
}

}  // namespace

std::string DescribeCursor(const v1::Cursor& cursor) {
  const uint64_t size = cursor.samples_per_epoch();
  const double share = 100.0 * static_cast<double>(cursor.consumed()) / static_cast<double>(size);
  const std::string ahead = cursor.completed().empty()
                                ? ""
                                : absl::StrCat("out of turn        ", OutOfTurn(cursor), "\n");
  return absl::StrFormat(
      "epoch              %d\n"
      "consumed           %d of %d positions (%.2f%%), by all ranks together\n"
      "left in the epoch  %d\n"
      "%s"
      "substitutions      %d in this epoch\n"
      "quarantined        %s\n"
      "order fingerprint  %s  (source, files, order, seed)\n"
      "bytes fingerprint  %s  (stages, outputs, error policy)\n"
      "%s"
      "version            %d\n",
      cursor.epoch(), cursor.consumed(), size, share, size - cursor.consumed(), ahead,
      cursor.substitutions(), Quarantine(cursor), cursor.order_fingerprint(),
      cursor.bytes_fingerprint(), CodeLine(cursor), cursor.version());
}

absl::StatusOr<v1::Cursor> AdvanceCursor(const v1::Cursor& cursor, const CursorStep& step) {
  if (step.batch_size == 0 || step.world_size == 0) {
    return Invalid("batch size and world size must be at least 1");
  }
  if (std::max({step.batch_size, step.world_size, step.batches}) > kLargest ||
      cursor.samples_per_epoch() > kLargest * kLargest || cursor.epoch() > kLargest * kLargest) {
    return Invalid(absl::StrCat("batches, batch size and world size must be at most ", kLargest));
  }
  if (step.batches == 0) return cursor;
  if (!cursor.completed().empty()) {
    return Invalid(
        absl::StrCat("with `deterministic: false` the next batches are whichever are ready, "
                     "so this cursor cannot be advanced: ",
                     OutOfTurn(cursor)));
  }
  BatchPlan::Config config;
  config.samples_per_epoch = cursor.samples_per_epoch();
  config.batch_size = step.batch_size;
  config.world_size = step.world_size;
  config.last = step.last;
  config.first_epoch = cursor.epoch();
  config.consumed = cursor.consumed();
  const BatchPlan plan(config);
  if (plan.batches_per_epoch() == 0 && step.batches > plan.batches_left_in_first_epoch()) {
    return Invalid(absl::StrCat("an epoch of ", CountText(cursor.samples_per_epoch(), "sample"),
                                " gives no batch of ", step.batch_size, " to each of ",
                                CountText(step.world_size, "rank"),
                                " with this policy for the last"));
  }
  const BatchRange range = plan.At(step.batches - 1);
  v1::Cursor next = cursor;
  next.set_epoch(range.next_epoch);
  next.set_consumed(range.next_consumed);
  if (next.epoch() != cursor.epoch()) next.set_substitutions(0);
  return next;
}

std::vector<std::string> DiffCursors(const v1::Cursor& a, const v1::Cursor& b) {
  std::vector<std::string> differences;
  if (a.order_fingerprint() != b.order_fingerprint()) {
    differences.push_back(absl::StrCat(
        "order fingerprint: ", a.order_fingerprint(), " and ", b.order_fingerprint(),
        "; sources, files, orders or seeds differ, so neither cursor can continue the other"));
  }
  if (a.bytes_fingerprint() != b.bytes_fingerprint()) {
    differences.push_back(absl::StrCat("bytes fingerprint: ", a.bytes_fingerprint(), " and ",
                                       b.bytes_fingerprint(),
                                       "; stages, outputs, error policy or your code differ, so "
                                       "the same positions give other bytes"));
  }
  DiffCode(a, b, &differences);
  if (a.samples_per_epoch() != b.samples_per_epoch()) {
    differences.push_back(absl::StrCat("samples per epoch: ", a.samples_per_epoch(), " and ",
                                       b.samples_per_epoch(), "; the data set has changed"));
  } else if (a.epoch() != b.epoch() || a.consumed() != b.consumed()) {
    differences.push_back(absl::StrCat("place: epoch ", a.epoch(), ", ", a.consumed(),
                                       " consumed, and epoch ", b.epoch(), ", ", b.consumed(),
                                       " consumed; ", Distance(a, b)));
  }
  if (OutOfTurn(a) != OutOfTurn(b)) {
    const auto text = [](const v1::Cursor& cursor) {
      return cursor.completed().empty() ? std::string("none") : OutOfTurn(cursor);
    };
    differences.push_back(absl::StrCat("out of turn: ", text(a), "; and ", text(b)));
  }
  if (a.substitutions() != b.substitutions()) {
    differences.push_back(
        absl::StrCat("substitutions: ", a.substitutions(), " and ", b.substitutions()));
  }
  if (Quarantine(a) != Quarantine(b)) {
    differences.push_back(absl::StrCat("quarantined: ", Quarantine(a), "; and ", Quarantine(b)));
  }
  return differences;
}

}  // namespace bulkhead::tools
