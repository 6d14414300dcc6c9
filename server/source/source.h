#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/base/file_bytes.h"
#include "server/source/file.h"
#include "server/source/objects.h"
#include "server/spec/signature.h"

namespace bulkhead {

// One feature of one record: a view, valid until the next Read with the same ReadContext.
struct FeatureValue {
  // For kEncoded: the byte string. Else `count` rows of elements, little-endian, of the declared
  // dtype. Not necessarily aligned.
  const std::byte* data = nullptr;
  size_t size_bytes = 0;
  // Extent of the first dimension for variable features; 1 for all others.
  int64_t count = 1;
  // Of a frame that neighbouring records have too: its number in the source, from 1. Else 0.
  uint64_t frame = 0;
  // Not null: `data` is null, since the bytes are read only when they are needed
  // (ReadContext::read_later).
  FileBytes* later = nullptr;
};

// One record.
struct Record {
  // In the order of Source::features().
  std::vector<FeatureValue> values;
  // Its origin, for messages: its name (Source::RecordName), for a list's record after the line:
  // "pos-003.tfrecord@81923", "cats/one.jpg", "train.txt:17 (cats/one.jpg)".
  std::string origin;
  // The files that its bytes were read from, as they were then; those of lists and indexes are not
  // among them.
  std::vector<FileIdentity> files;
  // The list that names the record, a view of the source, and the line in it; empty: no list.
  absl::string_view list;
  uint64_t line = 0;
};

// The identity by which a split assigns a record to a part, whatever data is added: the name of a
// record's file (ResolvedFile.name) and the offset in it; the path of the first image as the source
// writes it; a range's value. `name` is a view of the source.
struct RecordIdentity {
  absl::string_view name;
  uint64_t number = 0;
};

// What one thread needs to read: buffers, open files, decompression state. Reused from record to
// record, so that the steady state allocates nothing. Made by Source::NewContext; used by one
// thread at a time.
class ReadContext {
 public:
  virtual ~ReadContext() = default;

  // Not null: Source::Expect adds the parts of objects that it is called for.
  std::vector<ObjectPart>* wanted = nullptr;
  // Not null: bytes of objects may have arrived wrong. A record of them that is damaged gives
  // NOT_FETCHED with `wrong`, unless they are among these, which were read once more.
  const std::vector<ObjectPart>* fetched_again = nullptr;
  // Features, by name, whose reader may do without the bytes of their files, so that a source of
  // files may leave the reading to FeatureValue::later. Null: there are none.
  const std::vector<std::string>* read_later = nullptr;
  // Of which of these files enough is kept: they are not fetched in advance. Null: of none.
  KnownFiles* known = nullptr;
};

// Random access to the records of a resolved source. Thread-safe, if each thread uses its own
// ReadContext.
//
//   ASSIGN(auto source, OpenSource(binding.source(), binding.features(), binding.resolved()));
//   auto context = source->NewContext();
//   Record record;
//   RETURN_IF_ERROR(source->Read(17, *context, record));
class Source {
 public:
  virtual ~Source() = default;

  virtual uint64_t record_count() const = 0;
  // Like source_features of InferSignature: sorted by name.
  virtual const std::vector<FeatureSignature>& features() const = 0;
  virtual std::unique_ptr<ReadContext> NewContext() const = 0;

  // Reads record `index` < record_count() into `record`, whose views live in `context`. Blocks on
  // the file system. Sample errors (IsSampleError): CORRUPT_RECORD, TRUNCATED_RECORD,
  // RECORD_TOO_LARGE, MALFORMED_EXAMPLE, MISSING_FEATURE, WRONG_DTYPE, WRONG_SHAPE, OVER_BOUND,
  // with metadata `file` and `offset`. Other errors end the stream: FILE_NOT_FOUND,
  // FILE_UNREADABLE, FILE_CHANGED. NOT_FETCHED (UNAVAILABLE, with metadata `key`, `begin` and
  // `end`, and with `fetched_again` also `wrong`): bytes of an object are not on this host.
  virtual absl::Status Read(uint64_t index, ReadContext& context, Record& record) const = 0;

  // Record `index` < record_count() will be read with `context` soon: lets the kernel fetch data in
  // advance, and adds parts of objects to `context.wanted`. Does not wait; Read reports any error.
  virtual void Expect(uint64_t /*index*/, ReadContext& /*context*/) const {}

  // The identity of record `index` < record_count(), from the index alone. INDEX_DAMAGED; a sample
  // error (LIST_INVALID) for a list's line that could not be read.
  virtual absl::StatusOr<RecordIdentity> Identity(uint64_t index) const = 0;

  // Sets `name` to the name of record `index` < record_count() (server/base/record_name.h; not yet
  // canonical), from the index alone, reusing its memory. Empty if that part of the index is
  // damaged.
  virtual void NameRecord(uint64_t index, std::string& name) const = 0;
  std::string RecordName(uint64_t index) const {
    std::string name;
    NameRecord(index, name);
    return name;
  }
};

// Opens a source whose files have their indexes (ResolvedFile.index_path); maps the indexes. If the
// files have selections, or `resolved` has skip or take, only the kept records exist, numbered from
// 0. Errors: DATA_LOSS if an index is damaged, NOT_FOUND if it is gone.
absl::StatusOr<std::unique_ptr<Source>> OpenSource(const v1::Source& source,
                                                   const FeatureMap& features,
                                                   const internal::v1::ResolvedSource& resolved);

// The records of `resolved` with the features called `names` only, and all of them, whatever is
// selected: what a filter looks at. Reads no image whose column is not named.
absl::StatusOr<std::unique_ptr<Source>> OpenUnselected(const v1::Source& source,
                                                       const FeatureMap& features,
                                                       const internal::v1::ResolvedSource& resolved,
                                                       const std::set<std::string>& names);

}  // namespace bulkhead
