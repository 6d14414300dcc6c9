#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "server/sampler/range_select.h"

namespace bulkhead {

// A file's place in the order of an epoch.
struct FileRecords {
  uint64_t first_record = 0;
  uint64_t count = 0;
};

// Finds the record of any position in an interleaved epoch, for one order of the files: in O(log
// files), with a table of O(files) that is built in O(files · log cycle_length).
//
// tf.data goes round over `cycle_length` slots, each with a file. A slot's *turn* gives up to
// block_length records of its file. A turn that reaches the end of its file is the file's last one,
// however few records it gave; so a file of n records has n div block_length full turns and one
// with the n mod block_length (perhaps 0) that are left. The slot's next turn opens the next file
// of the source; once there is none, the slot is dead.
//
// All turns give block_length records, but the last turns of files. The table cuts the epoch into
// *segments*, each ending with a file's last turn; inside a segment, turn and slot follow by
// division. Which slots are still alive matters only at the end, when no file is left to open.
//
// Immutable; thread-safe.
class InterleaveTable {
 public:
  // `files`: in this epoch's order; at least one. Both lengths ≥ 1.
  InterleaveTable(const std::vector<FileRecords>& files, uint64_t cycle_length,
                  uint64_t block_length);

  // `position` below the number of records.
  uint64_t RecordAt(uint64_t position) const;

 private:
  // A turn of a slot, in the order in which turns come.
  struct Turn {
    uint64_t round = 0;
    uint32_t slot = 0;
    friend auto operator<=>(const Turn&, const Turn&) = default;
  };
  struct Segment {
    uint64_t first_position = 0;
    uint64_t round = 0;  // in which it begins
    uint64_t place = 0;  // living slots that have had their turn of that round
    uint32_t dead = 0;   // slots that have died before
  };
  // A file's stay in its slot.
  struct Stay {
    uint64_t first_round = 0;
    uint64_t first_record = 0;
  };

  // Ends the last segment with a file's last turn, which gives `rest` records, and begins the next.
  void EndSegment(const Turn& last_turn, uint64_t rest, bool slot_dies);

  const uint64_t block_length_;
  uint64_t slots_;
  std::vector<Segment> segments_;
  std::vector<Stay> stays_;            // slot after slot, in the order of their rounds
  std::vector<uint64_t> stays_begin_;  // [s]: where slot s's stays begin
  std::optional<RangeSelect> dying_;   // slots in the order of their deaths
};

}  // namespace bulkhead
