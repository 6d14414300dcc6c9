#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/pipeline/pipeline_part.h"
#include "server/pipeline/staged_context.h"
#include "server/stages/running/sample_key.h"

namespace bulkhead {

// The records of all parts of a pipeline, with continuous numbers. Immutable; thread-safe, if each
// thread uses its own context.
class RecordReader {
 public:
  // `parts`, at least one, outlive this.
  explicit RecordReader(const std::vector<PipelinePart>& parts) : parts_(parts) {}

  // A record's part, and its number there.
  const PipelinePart& PartOf(uint64_t record) const { return parts_[NumberOf(record)]; }
  // Of one of the parts.
  uint64_t NumberOf(const PipelinePart& part) const {
    return static_cast<uint64_t>(&part - parts_.data());
  }
  // The record's canonical name; reuses the memory of `identity`.
  void SetIdentity(uint64_t record, std::string& identity) const;

  // Source::Expect.
  void Expect(uint64_t record, StagedContext& own) const;
  // Reads the record, which becomes the current one. Errors: those of Source::Read.
  absl::Status Read(uint64_t record, StagedContext& own) const;
  // The current record is `record` again, whose bytes are own.record.
  void GoBackTo(uint64_t record, StagedContext& own) const;
  // An error in reading the record (`read`) or in making a sample of it (`produced`), with the
  // record's name and position; NOT_FETCHED for an image whose bytes may have arrived wrong.
  absl::Status NameFailure(const absl::Status& read, const absl::Status& produced, uint64_t record,
                           const SampleKey& key, StagedContext& own) const;

 private:
  // Images have no checksum: one that cannot be decoded is read from its store once more. OK: it
  // was, or lies in none.
  absl::Status ReadAgain(const absl::Status& produced, uint64_t record, StagedContext& own) const;
  size_t NumberOf(uint64_t record) const;
  // The context for the next record of a part.
  ReadContext& Prepare(size_t number, StagedContext& own) const;
  // Sets the record whose name errors have from now on.
  void Name(uint64_t record, StagedContext& own) const;
  // What is kept across samples is found by the current record.
  static void SetStores(StagedContext& own);

  const std::vector<PipelinePart>& parts_;
};

}  // namespace bulkhead
