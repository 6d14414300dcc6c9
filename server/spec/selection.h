#ifndef BULKHEAD_SERVER_SPEC_SELECTION_H_
#define BULKHEAD_SERVER_SPEC_SELECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// What exclude, filter, split, skip and take of a normalized spec say; of a mixture's, for one of
// its sources.
internal::v1::Selection SelectionOf(const v1::PipelineSpec& spec);
internal::v1::Selection SelectionOf(const v1::PipelineSpec& spec, int source);

// Whether the file called `name` is left out as a whole.
bool LeavesOutFile(const internal::v1::Selection& selection, absl::string_view name);

// Whether some records of every file may be left out, so that each file needs a selection of its
// own; skip and take alone need none.
bool SelectsRecords(const internal::v1::Selection& selection);
// Whether there is anything at all: exclude, filter, split, skip or take.
bool IsSelective(const internal::v1::Selection& selection);

// The declarations of the features that the filter reads: nothing else of `features` matters to it.
google::protobuf::Map<std::string, v1::Feature> FilterFeatures(
    const google::protobuf::Map<std::string, v1::Feature>& features,
    const internal::v1::Selection& selection);

// The canonical text of what decides which records are read (server/spec/canonical.h), a line each
// for exclude, filter, split, skip and take, and for what the filter's features are; empty when
// there is none of them. Part of the order fingerprint.
std::string SelectionText(const v1::Source& source,
                          const google::protobuf::Map<std::string, v1::Feature>& features,
                          const internal::v1::Selection& selection);

// What a file's selection is cached under, besides the file: everything that decides which of its
// records pass. 32 hex digits.
std::string SelectionDigest(const v1::Source& source,
                            const google::protobuf::Map<std::string, v1::Feature>& features,
                            const internal::v1::Selection& selection);

// Notes skip and take where those who read the source look for them.
void SetWindow(const internal::v1::Selection& selection, internal::v1::ResolvedSource& resolved);

// What becomes of the records of a source that was resolved, indexed and selected from.
v1::SelectionCounts CountSelected(const v1::Source& source,
                                  const internal::v1::ResolvedSource& resolved);

// "450 of 1000 records: 900 in the part `train`, 450 that the filter keeps", for people.
std::string SelectionSummary(const internal::v1::Selection& selection,
                             const v1::SelectionCounts& counts);

// OK when there is a sample; else NO_SAMPLES (FAILED_PRECONDITION), saying with counts which of
// exclude, split, filter and skip left nothing.
absl::Status CheckSelected(const internal::v1::Selection& selection,
                           const v1::SelectionCounts& counts);

// How many records of each file are read, in the files' order: what the source's order is made of.
// Skip and take cut the first and the last files short; a file of which nothing is left counts as
// an empty one. A source without files is one.
std::vector<uint64_t> SelectedFileRecords(const v1::Source& source,
                                          const internal::v1::ResolvedSource& resolved);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SPEC_SELECTION_H_
