#ifndef BULKHEAD_SERVER_SPEC_BYTES_CHANGES_H_
#define BULKHEAD_SERVER_SPEC_BYTES_CHANGES_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// A release made other bytes of the same record, with the same options. docs/decisions/0021.
struct BytesChange {
  absl::string_view stage;  // of samples or of batches, by its name in specs: "decode_image"
  absl::string_view what;   // for people: "BMP files with bit masks get their colours"
};

// All of them since the first release, the oldest first. A change is added together with what
// causes it and stays for good: a stage's number of changes is in the bytes fingerprint of every
// spec that has the stage.
absl::Span<const BytesChange> BytesChanges();

// Those of `changes` that concern the stages of `spec`, as a part of the text of its bytes
// fingerprint; empty when none does.
std::string BytesChangesText(const v1::PipelineSpec& spec, absl::Span<const BytesChange> changes);

// What changed since the release that gave `spec` the bytes fingerprint which `is_that` knows, for
// people: "decode_image (BMP files with bit masks get their colours)". Empty: no release did.
std::string ChangedSince(const v1::PipelineSpec& spec,
                         absl::FunctionRef<bool(const std::string& fingerprint)> is_that,
                         absl::Span<const BytesChange> changes = BytesChanges());

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_BYTES_CHANGES_H_
