#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// Frames, exclude, filter, split, skip and take of a normalized spec; of a mixture's, for one of
// its sources.
internal::v1::Selection SelectionOf(const v1::PipelineSpec& spec);
internal::v1::Selection SelectionOf(const v1::PipelineSpec& spec, int source);

// Whether the file called `name` is excluded as a whole.
bool LeavesOutFile(const internal::v1::Selection& selection, absl::string_view name);

// Whether records of any file may be left out, so that each file needs a selection; skip and take
// alone do not. With frames the images at which no window begins are left out.
bool SelectsRecords(const internal::v1::Selection& selection);
// Whether there are frames, an exclude, filter, split, skip or take.
bool IsSelective(const internal::v1::Selection& selection);

// The declarations in `features` of the features that the filter reads.
google::protobuf::Map<std::string, v1::Feature> FilterFeatures(
    const google::protobuf::Map<std::string, v1::Feature>& features,
    const internal::v1::Selection& selection);

// The canonical text (server/spec/canonical.h) of what decides which records are read: one line
// each for exclude, filter, split, skip, take and the filter's features; empty if there are none.
// Part of the order fingerprint.
std::string SelectionText(const v1::Source& source,
                          const google::protobuf::Map<std::string, v1::Feature>& features,
                          const internal::v1::Selection& selection);

// The key of a file's cached selection, besides the file: a hash of everything that decides which
// of its records pass. 32 hex digits.
std::string SelectionDigest(const v1::Source& source,
                            const google::protobuf::Map<std::string, v1::Feature>& features,
                            const internal::v1::Selection& selection);

// Copies skip and take to the resolved source.
void SetWindow(const internal::v1::Selection& selection, internal::v1::ResolvedSource& resolved);

// The counts of a source's records after it was resolved, indexed and selected from.
v1::SelectionCounts CountSelected(const v1::Source& source,
                                  const internal::v1::ResolvedSource& resolved);

// "450 of 1000 records: 900 in the part `train`, 450 that the filter keeps", human-readable.
std::string SelectionSummary(const internal::v1::Selection& selection,
                             const v1::SelectionCounts& counts);

// OK if there is a sample; else NO_SAMPLES (FAILED_PRECONDITION), which says with counts whether
// frames, exclude, split, filter or skip left nothing.
absl::Status CheckSelected(const internal::v1::Selection& selection,
                           const v1::SelectionCounts& counts);

// The number of records of each file that are read, in the files' order, from which the source's
// order is made. Skip and take shorten the first and the last files; a file of which nothing is
// left counts as empty. A source without files counts as one file.
std::vector<uint64_t> SelectedFileRecords(const v1::Source& source,
                                          const internal::v1::ResolvedSource& resolved);

}  // namespace bulkhead
