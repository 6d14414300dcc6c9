#include "server/service/cursor_check.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/arena/code_files.h"
#include "server/base/cursor_version.h"
#include "server/base/error.h"
#include "server/base/limits.h"
#include "server/base/record_name.h"
#include "server/spec/bytes_changes.h"

namespace bulkhead {
namespace {

constexpr char kOtherData[] = "the cursor belongs to other data, or to another order of them";

// Enough of a fingerprint to see that two differ.
absl::string_view Short(absl::string_view fingerprint) { return fingerprint.substr(0, 8); }

absl::Status Unfit(absl::string_view why, std::map<std::string, std::string> metadata = {}) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch, why,
                   std::move(metadata));
}

absl::Status Mismatch(absl::string_view verdict, absl::string_view what, absl::string_view mine,
                      absl::string_view theirs, absl::string_view advice) {
  return Unfit(absl::StrCat(verdict, ": its ", what, " is ", theirs, ", this stream's is ", mine,
                            "; ", advice));
}

// Digest of the file with that name; empty if it is not among `files`.
template <typename Files>
std::string DigestIn(const Files& files, const std::string& name) {
  const auto found = std::ranges::find(files, name, &v1::CodeFile::name);
  return found == files.end() ? "" : found->digest();
}

// Checks that the code that made the cursor's batches is unchanged on disk.
absl::Status CheckCode(const v1::Cursor& cursor, const std::vector<v1::CodeFile>& on_disk) {
  for (const v1::CodeFile& file : cursor.code()) {
    const std::string digest = DigestIn(on_disk, file.name());
    if (digest == file.digest()) continue;
    return Unfit(
        absl::StrCat("the cursor's batches were made by other code: ", Printable(file.name()), " ",
                     digest.empty() ? "is not there any more" : "was changed since",
                     "; allow_changed_bytes goes on all the same"),
        {{"file", file.name()}});
  }
  return absl::OkStatus();
}

}  // namespace

bool IsUnordered(const v1::PipelineSpec& spec) {
  return spec.has_deterministic() && !spec.deterministic();
}

absl::Status CheckCodeNames(const v1::Cursor& cursor) {
  const auto is_name = [](const v1::CodeFile& file) { return IsCodeName(file.name()); };
  const bool few = static_cast<size_t>(cursor.code_size()) <= kMostCodeFiles;
  if (few && std::ranges::all_of(cursor.code(), is_name)) {
    return absl::OkStatus();
  }
  return Unfit(absl::StrCat("the cursor is damaged: its code must name at most ", kMostCodeFiles,
                            " files, by printable paths without '..'"));
}

absl::Status CheckCursor(const v1::Open& open, const PreparedPipeline& prepared) {
  const v1::Cursor& cursor = open.cursor();
  if (std::string problem = CursorVersionProblem(cursor.version()); !problem.empty()) {
    return Unfit(problem);
  }
  if (cursor.samples_per_epoch() != prepared.samples_per_epoch) {
    return Mismatch(kOtherData, "number of samples per epoch",
                    absl::StrCat(prepared.samples_per_epoch),
                    absl::StrCat(cursor.samples_per_epoch()),
                    "the files, or what is selected from them, have changed: put back what the "
                    "cursor was made with, or begin anew without it");
  }
  if (cursor.order_fingerprint() != prepared.order_fingerprint) {
    return Mismatch(
        kOtherData, "order fingerprint", Short(prepared.order_fingerprint),
        Short(cursor.order_fingerprint()),
        "source, filter, split, skip, take, order or seed of the spec differ, or the files "
        "have changed: put back what the cursor was made with, or begin anew without it");
  }
  constexpr uint64_t kMostEpochs = uint64_t{1} << 62;
  if (cursor.epoch() > kMostEpochs) {
    return Unfit(
        absl::StrCat("the cursor is damaged: it says that ", cursor.epoch(), " epochs are done"));
  }
  if (cursor.substitutions() / prepared.samples_per_epoch > cursor.epoch() + 1) {
    return Unfit(absl::StrCat("the cursor is damaged: it says that ", cursor.substitutions(),
                              " samples were substituted by epoch ", cursor.epoch(), ", of ",
                              prepared.samples_per_epoch, " each"));
  }
  if (!open.allow_changed_bytes()) {
    BULKHEAD_RETURN_IF_ERROR(CheckCode(cursor, prepared.code_on_disk));
  }
  const std::vector<v1::CodeFile> code(cursor.code().begin(), cursor.code().end());
  const std::string fingerprint = FingerprintWithCode(prepared.bytes_fingerprint, code);
  if (cursor.bytes_fingerprint() != fingerprint && !open.allow_changed_bytes()) {
    const std::string changed = ChangedSince(prepared.spec, [&](const std::string& earlier) {
      return FingerprintWithCode(earlier, code) == cursor.bytes_fingerprint();
    });
    if (!changed.empty()) {
      return Unfit(
          absl::StrCat("the cursor's batches were made by another release, which made other bytes: "
                       "since then these changed: ",
                       changed, "; allow_changed_bytes goes on all the same"));
    }
    return Mismatch("the cursor's batches were made by another pipeline", "bytes fingerprint",
                    Short(fingerprint), Short(cursor.bytes_fingerprint()),
                    "stages, outputs or the error policy differ; allow_changed_bytes goes on "
                    "all the same");
  }
  if (cursor.consumed() > prepared.samples_per_epoch) {
    return Mismatch("the cursor is damaged", "consumed count",
                    absl::StrCat("at most ", prepared.samples_per_epoch),
                    absl::StrCat(cursor.consumed()), "take an earlier one");
  }
  return absl::OkStatus();
}

absl::Status CheckCompleted(const v1::Open& open, const PreparedPipeline& prepared,
                            uint64_t world_size, uint64_t batches_left) {
  const v1::Cursor& cursor = open.cursor();
  if (cursor.completed().empty()) return absl::OkStatus();
  const std::string between =
      absl::StrCat("the cursor stands between batches that were delivered out of turn (",
                   cursor.completed_size(), " of them)");
  constexpr absl::string_view kUntil =
      " until a cursor has none, the end of an epoch at the latest";
  if (open.assigned()) return Unfit(absl::StrCat(between, ": go on with one service", kUntil));
  if (!IsUnordered(prepared.spec)) {
    return Unfit(absl::StrCat(between, ": go on with `deterministic: false`", kUntil));
  }
  if (cursor.batch_size() != prepared.spec.batch().size() || cursor.world_size() != world_size) {
    return Unfit(absl::StrCat(between, ", so it can only be resumed with its batch size ",
                              cursor.batch_size(), " and world size ", cursor.world_size(),
                              "; this stream has ", prepared.spec.batch().size(), " and ",
                              world_size));
  }
  uint64_t before = 0;
  for (const uint32_t batch : cursor.completed()) {
    if (batch <= before || batch > kMaxBatchesAhead || batch >= batches_left) {
      return Unfit(absl::StrCat(
          "the cursor is damaged: it says that batch ", batch,
          " behind it was delivered, where ascending numbers from 1, at most ", kMaxBatchesAhead,
          " and below the ", batches_left, " batches that are left, make sense"));
    }
    before = batch;
  }
  return absl::OkStatus();
}

absl::StatusOr<QuarantineSet> QuarantineOf(const v1::Cursor& cursor) {
  QuarantineSet set;
  for (const std::string& record : cursor.quarantined()) {
    if (const auto added = set.Add(record); !added.ok()) {
      return Annotate(added.status(), "the cursor's quarantined records");
    }
  }
  return set;
}

std::vector<v1::CodeFile> CodeOf(const v1::Cursor& cursor, const PreparedPipeline& prepared) {
  std::vector<v1::CodeFile> code = prepared.code;
  for (const v1::CodeFile& file : cursor.code()) {
    const bool as_it_was = DigestIn(prepared.code_on_disk, file.name()) == file.digest();
    if (file.later() && as_it_was && DigestIn(prepared.code, file.name()).empty()) {
      code.push_back(file);
    }
  }
  std::ranges::sort(code, {}, &v1::CodeFile::name);
  return code;
}

std::vector<v1::CodeFile> CodeToWatch(const v1::Open& open, const PreparedPipeline& prepared) {
  std::vector<v1::CodeFile> code = CodeOf(open.cursor(), prepared);
  if (open.allow_changed_bytes()) return code;
  for (v1::CodeFile& file : code) {
    const std::string digest = DigestIn(open.cursor().code(), file.name());
    if (!digest.empty()) file.set_digest(digest);
  }
  return code;
}

}  // namespace bulkhead
