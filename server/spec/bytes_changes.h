#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// A change by which a release makes other bytes from the same record and options
// (docs/decisions/0021-releases-that-change-bytes.md).
struct BytesChange {
  absl::string_view stage;  // for samples or batches, by its name in specs: "decode_image"
  absl::string_view what;   // human-readable: "BMP files with bit masks get their colours"
};

// All changes since the first release, oldest first. An entry is added in the commit that changes
// bytes and never removed: the number of a stage's changes is in the bytes fingerprint of every
// spec that has the stage.
absl::Span<const BytesChange> BytesChanges();

// The `changes` of the stages of `spec`, as part of the text of its bytes fingerprint; empty if
// there are none.
std::string BytesChangesText(const v1::PipelineSpec& spec, absl::Span<const BytesChange> changes);

// What changed since the release in which `spec` had the bytes fingerprint that `is_that` accepts,
// human-readable: "decode_image (BMP files with bit masks get their colours)". Empty if it had that
// in no release.
std::string ChangedSince(const v1::PipelineSpec& spec,
                         absl::FunctionRef<bool(const std::string& fingerprint)> is_that,
                         absl::Span<const BytesChange> changes = BytesChanges());

}  // namespace bulkhead
