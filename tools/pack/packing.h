#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "tools/pack/record_supply.h"

namespace bulkhead::tools {

struct PackingOptions {
  std::string data;  // what is packed, by a name of which it has only one
  std::string out;   // the folder
  uint64_t records_a_file = 1000;
  // How large a file may become, by what its records are expected to take, instead of
  // records_a_file; 0: not said.
  uint64_t file_bytes = 0;
  int threads = 1;
};

struct Packed {
  uint64_t files = 0;
  uint64_t kept_files = 0;  // that an earlier run had written
  // An earlier run had finished, every file reads as it was written, and nothing was written now.
  bool was_whole = false;
  uint64_t stale_files = 0;  // that an earlier run had written of data that have changed since
};

// Called now and then with the number of records that are written, from the calling thread.
using PackProgressFn = absl::FunctionRef<void(uint64_t records)>;

// Writes the records as part-000.tfrecord, … (or as their sets are called), the side files, and
// packed.yaml into a folder, made if missing. Each file is written under another name, read back
// and compared, and renamed; so whatever ends a run, files with their own name are whole, and the
// next run with the same data and options goes on. Which they are lies in the file `.packing`
// (PackingMark), and in `.packed` when all is written: then a run reads all files again, and writes
// anew those that are damaged or gone. An unfinished run writes anew the files whose data have
// changed since. FAILED_PRECONDITION, with what differs, if the folder holds a packing of other
// data or with other options, or a finished one of data that have changed, or something else;
// DATA_LOSS if a file does not read as it was written; errors of the records.
absl::StatusOr<Packed> PackRecords(const RecordSupply& supply, const PackingOptions& options,
                                   PackProgressFn progress);

}  // namespace bulkhead::tools
