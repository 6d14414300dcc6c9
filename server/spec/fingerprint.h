#pragma once

#include <string>

#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/bytes_changes.h"

namespace bulkhead {

// Both fingerprints are SHA-256, as 64 lower-case hex digits, over the canonical text of a part of
// a normalized spec (server/spec/canonical.h). Cursors contain them, so the text never changes
// without a new version in its first line. Batch size, epochs, ranks, workers and transport are in
// neither.

// Fingerprint of what decides which record stands at which position: the source (its files by
// name, size, number of records and checksum; never by absolute path, time or glob; a folder by its
// content), how a list is split into columns, filter, split, skip and take, order, reshuffle and
// seed; for a mixture the same for each of its sources, their weights, and when an epoch ends.
std::string OrderFingerprint(const v1::PipelineSpec& spec,
                             const internal::v1::ResolvedSource& resolved);

// Fingerprint of what decides a record's bytes: features, how the source names them, stages (in a
// mixture also each source's own), outputs and error policy; and the `changes` of releases to those
// stages.
std::string BytesFingerprint(const v1::PipelineSpec& spec,
                             absl::Span<const BytesChange> changes = BytesChanges());

}  // namespace bulkhead
