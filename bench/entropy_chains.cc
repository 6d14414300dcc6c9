// An experiment (docs/decisions/0045): can one thread decode two places of a JPEG's scan at once,
// and be faster than one after the other? The lower half of each photo begins at a seek entry, as
// every row of MCUs of a later epoch does.
//
//   build/release/bin/bulkhead-bench-entropy-chains FOLDER [ROUNDS]        FOLDER: JPEG files, at
//   any depth
//
// All ways make the same coefficients, which is checked; of each, the fastest of the rounds of each
// photo counts.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "server/image/jpeg/entropy_decoder.h"
#include "tools/common/machine.h"
#include "tools/measure/decode_limit.h"

#if defined(__x86_64__)
#define BENCH_BMI2 __attribute__((target("bmi2")))
#else
#define BENCH_BMI2
#endif

namespace bulkhead::jpeg {
namespace {

constexpr int kGroup = 8;  // MCUs of each half that are decoded at a time
constexpr int kPairLookups = 5;

// An AC entry with a flag that is the distance to a second table at once, of entries that take no
// bits, and of the coefficients to a place that nobody reads. So a block that has ended goes on
// without effect until its partner has, and no branch tells.
//
//   bits 0-5    bits to drop
//   bit 6       a value that has no room: 7-11 are the bits of its code, 24-31 is the symbol; if
//   there is nothing else,
//               the code is longer than the lookup
//   bits 7-12   how far to go; the second value stands before that
//   bit 13      the block ends
//   bits 14-17  zeros before the first value
//   bits 18-24  first value, signed; bits 25-31 the second one
constexpr uint32_t kSpecial = 1u << 6;
constexpr uint32_t kEnds = 1u << 13;

class ChainTable {
 public:
  void Build(const HuffmanSpec& spec) {
    constexpr int kMostValueBits = 6;
    if (!table_.Build(spec, kMostValueBits)) return;
    for (size_t i = 0; i < kSize; ++i) {
      entries_[i] = Repacked(table_.entry(i << (64 - AcTable::kLookupBits)));
    }
    std::fill(entries_.begin() + kSize, entries_.end(), kEnds);
  }

  // `ended` is 0 or kEnds.
  BULKHEAD_ALWAYS_INLINE uint32_t entry(uint64_t bits, uint32_t ended) const {
    uint32_t entry;
    std::memcpy(&entry,
                reinterpret_cast<const char*>(entries_.data()) + ended +
                    (bits >> (64 - AcTable::kLookupBits)) * sizeof(entry),
                sizeof(entry));
    return entry;
  }
  const CanonicalCodes& codes() const { return table_.codes(); }
  const AcTable& table() const { return table_; }

 private:
  static constexpr size_t kSize = size_t{1} << AcTable::kLookupBits;
  static_assert(kSize * sizeof(uint32_t) == kEnds);

  static uint32_t Repacked(AcEntry entry) {
    if (entry == 0) return kSpecial;
    if ((entry & 63) == 0) return kSpecial | (entry >> 8 & 31) << 7 | (entry >> 16 & 255) << 24;
    const uint32_t zeros = entry >> 6 & 15;
    return (entry & 63) | (zeros + (entry >> 10 & 31) + 1) << 7 |
           ((entry & kEndOfBlock) != 0 ? kEnds : 0) | zeros << 14 | (entry >> 16 & 127) << 18 |
           (entry >> 24 & 127) << 25;
  }

  AcTable table_;
  std::array<uint32_t, 2 * kSize> entries_{};
};

// Entries for a chain without branches: whatever a lookup says, the next one follows by arithmetic,
// also from the end of a block to the DC coefficient of the next.
//
//   bits 0-5    bits to drop
//   bit 6       to be looked at, as a value that has no room (kSpecial, as above)
//   bit 7       the block ends
//   bits 8-11   zeros before the first value
//   bits 12-17  how far to go; the second value stands before that
//   bits 18-24  first value, signed; bits 25-31 the second one
using StepEntry = uint32_t;
constexpr uint32_t kBlockEnds = 1u << 7;
static_assert(kSpecial ==
              kBlockCoefficients);  // a coefficient that is none is to be looked at, too
constexpr int kStepBits = 11;

inline StepEntry MakeStep(uint32_t bits, uint32_t zeros, uint32_t advance, int first, int second) {
  return bits | zeros << 8 | advance << 12 | (static_cast<uint32_t>(first) & 127) << 18 |
         static_cast<uint32_t>(second) << 25;
}

class StepTable {
 public:
  void BuildAc(const AcTable& table) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      const AcEntry entry = table.entry(uint64_t{i} << (64 - kStepBits));
      const uint32_t zeros = entry >> 6 & 15;
      if ((entry & 63) == 0) {
        entries_[i] = kSpecial | (entry >> 8 & 31) << 8 | (entry >> 16 & 255) << 24;
        continue;
      }
      entries_[i] = MakeStep((entry & 63) | ((entry & kEndOfBlock) != 0 ? kBlockEnds : 0), zeros,
                             zeros + (entry >> 10 & 31) + 1, static_cast<int8_t>(entry >> 16),
                             static_cast<int8_t>(entry >> 24));
    }
  }
  void BuildDc(const DcTable& table) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      const uint64_t bits = uint64_t{i} << (64 - kStepBits);
      const DcEntry entry = table.entry(bits);
      const uint32_t length = entry & 0xFF;
      const int value = SignedValue(bits << (entry >> 8 & 63), entry >> 16);
      const bool fits = length != 0 && length <= kStepBits && value >= -64 && value < 64;
      entries_[i] = fits ? MakeStep(length, 0, 1, value, value) : kSpecial;
    }
  }
  // Entries that do nothing.
  void BuildIdle() { entries_.fill(0); }
  const StepEntry* begin() const { return entries_.data(); }

 private:
  std::array<StepEntry, 1 << kStepBits> entries_;
};

// What a chain needs to know of each block that it comes to.
struct Block;

struct BlockStep {
  const StepEntry* ac = nullptr;       // of this block
  const StepEntry* next_dc = nullptr;  // of the one behind it
  int16_t* out = nullptr;
  const Block* block = nullptr;
};

struct Block {
  const DcTable* dc = nullptr;
  const ChainTable* ac = nullptr;
  const StepTable* dc_steps = nullptr;
  const StepTable* ac_steps = nullptr;
  int component = 0;
};

// One place of the scan.
struct Chain {
  BitReader in;
  ScanBytes bytes;
  std::array<int, kMaxComponents> dc{};
  // What lies behind the first 8 KiB is the place that nobody reads.
  alignas(64) std::array<int16_t, 2 * kEnds / sizeof(int16_t)> out;
  std::array<BlockStep, kGroup * kMaxBlocksInMcu + 1> steps;
  // that nobody reads

  void StartAt(absl::string_view file, const EntryPoint& point) {
    bytes.Begin(file, point.bit_offset / 8);
    in = {0, 0, bytes.begin()};
    in.Refill();
    in.Drop(static_cast<uint32_t>(point.bit_offset % 8));
    std::copy(point.dc.begin(), point.dc.end(), dc.begin());
  }
};

BULKHEAD_ALWAYS_INLINE void DecodeDc(BitReader& in, const Block& block, int& predictor,
                                     int16_t* out) {
  in.Refill();
  DcEntry entry = block.dc->entry(in.bits);
  if ((entry & 0xFF) == 0) [[unlikely]] {
    const CanonicalCodes::Found code = block.dc->codes().Find(static_cast<uint32_t>(in.bits >> 48));
    entry = MakeDcEntry(code.length, code.symbol);
  }
  predictor += SignedValue(in.After(entry >> 8), entry >> 16);
  in.Drop(entry);
  out[0] = static_cast<int16_t>(predictor);
}

struct Progress {
  BitReader in;
  uint32_t next;  // coefficient; above 63: the block is complete
};

// The next symbol, without the lookup.
__attribute__((noinline)) Progress DecodeSymbol(Progress progress, const ChainTable& table,
                                                int16_t* out) {
  BitReader& in = progress.in;
  in.Refill();
  const CanonicalCodes::Found code = table.codes().Find(static_cast<uint32_t>(in.bits >> 48));
  in.Drop(code.length);
  const int run = code.symbol >> 4;
  const int value_bits = code.symbol & 15;
  if (code.length == 0 || (value_bits == 0 && run != 15)) return {in, kBlockCoefficients};
  const uint32_t k = std::min<uint32_t>(progress.next + run, kBlockCoefficients - 1);
  progress.next = k + 1;
  if (value_bits == 0) return progress;
  out[kNaturalOrder[k]] = static_cast<int16_t>(SignedNonzero(in.bits, 64 - value_bits));
  in.Drop(value_bits);
  return progress;
}

// The value that `entry`, which is special, had no room for.
BULKHEAD_ALWAYS_INLINE void DecodeSpecial(BitReader& in, uint32_t& next, uint32_t entry,
                                          const ChainTable& table, int16_t* out) {
  if (entry == kSpecial) [[unlikely]] {
    const Progress progress = DecodeSymbol({in, next}, table, out);
    in = progress.in;
    next = progress.next;
    return;
  }
  in.Refill();
  const uint32_t code_bits = entry >> 7 & 31;
  const uint32_t value_bits = entry >> 24 & 15;
  const int value = SignedNonzero(in.After(code_bits), -value_bits);
  in.Drop(code_bits + value_bits);
  next += (entry >> 28) + 1;
  out[kNaturalOrder[next - 1]] = static_cast<int16_t>(value);
}

// After a lookup that led to coefficient 64 or beyond: back before it, and to the block's end one
// by one.
__attribute__((noinline)) BitReader Redo(BitReader in, uint32_t entry, uint32_t next,
                                         const ChainTable& table, int16_t* out) {
  Progress progress{{}, next - (entry >> 7 & 63)};
  const int unused_bits = in.count() + static_cast<int>(entry & 63);
  progress.in.at = in.at - (unused_bits + 7) / 8;
  progress.in.Refill();
  progress.in.Drop(-unused_bits & 7);
  while (progress.next < kBlockCoefficients) progress = DecodeSymbol(progress, table, out);
  return progress.in;
}

BULKHEAD_ALWAYS_INLINE void Store(uint32_t entry, uint32_t first, uint32_t next, int16_t* out) {
  out[kNaturalOrder[first]] = static_cast<int16_t>(static_cast<int32_t>(entry << 7) >> 25);
  out[kNaturalOrder[next - 1]] = static_cast<int16_t>(static_cast<int32_t>(entry) >> 25);
}

// From coefficient `next` to the end of a block.
BULKHEAD_ALWAYS_INLINE void DecodeAc(BitReader& in, uint32_t next, const ChainTable& table,
                                     int16_t* out) {
  while (next < kBlockCoefficients) {
    in.Refill();
#pragma GCC unroll 5
    for (int lookup = 0; lookup < kPairLookups; ++lookup) {
      const uint32_t entry = table.entry(in.bits, 0);
      if ((entry & kSpecial) != 0) {
        DecodeSpecial(in, next, entry, table, out);
        break;
      }
      const uint32_t first = next + (entry >> 14 & 15);
      next += entry >> 7 & 63;
      Store(entry, first, next, out);
      in.Drop(entry);
      if ((entry & kEnds) != 0 && next < kBlockCoefficients) return;
      if (next >= kBlockCoefficients) {
        if (next != kBlockCoefficients || (entry & kEnds) != 0)
          in = Redo(in, entry, next, table, out);
        return;
      }
    }
  }
}

// Both blocks at once, a lookup of each in turn, until one has ended; the rest of the other alone.
BULKHEAD_ALWAYS_INLINE void DecodeUntilOneEnds(BitReader& a, BitReader& b, const ChainTable& table,
                                               int16_t* out_a, int16_t* out_b) {
  uint32_t next_a = 1;
  uint32_t next_b = 1;
  for (;;) {
    a.Refill();
    b.Refill();
#pragma GCC unroll 5
    for (int lookup = 0; lookup < kPairLookups; ++lookup) {
      const uint32_t entry_a = table.entry(a.bits, 0);
      const uint32_t entry_b = table.entry(b.bits, 0);
      if (((entry_a | entry_b) & (kSpecial | kEnds)) != 0) goto one_by_one;
      const uint32_t to_a = next_a + (entry_a >> 7 & 63);
      const uint32_t to_b = next_b + (entry_b >> 7 & 63);
      if (((to_a | to_b) & kBlockCoefficients) != 0) goto one_by_one;
      Store(entry_a, next_a + (entry_a >> 14 & 15), to_a, out_a);
      Store(entry_b, next_b + (entry_b >> 14 & 15), to_b, out_b);
      next_a = to_a;
      next_b = to_b;
      a.Drop(entry_a);
      b.Drop(entry_b);
    }
    continue;
  one_by_one:
    const uint32_t entry_a = table.entry(a.bits, 0);
    const uint32_t entry_b = table.entry(b.bits, 0);
    if (((entry_a | entry_b) & kEnds) != 0 || next_a + (entry_a >> 7 & 63) >= kBlockCoefficients ||
        next_b + (entry_b >> 7 & 63) >= kBlockCoefficients) {
      DecodeAc(a, next_a, table, out_a);
      DecodeAc(b, next_b, table, out_b);
      return;
    }
    if ((entry_a & kSpecial) != 0) DecodeSpecial(a, next_a, entry_a, table, out_a);
    if ((entry_b & kSpecial) != 0) DecodeSpecial(b, next_b, entry_b, table, out_b);
    if (((next_a | next_b) & kBlockCoefficients) != 0) {
      DecodeAc(a, next_a, table, out_a);
      DecodeAc(b, next_b, table, out_b);
      return;
    }
  }
}

// Both blocks at once, until both have ended: the shorter one goes on by entries that do nothing.
BULKHEAD_ALWAYS_INLINE void DecodeUntilBothEnd(BitReader& a, BitReader& b, const ChainTable& table,
                                               int16_t* out_a, int16_t* out_b) {
  uint32_t next_a = 1;
  uint32_t next_b = 1;
  uint32_t entry_a = 0;
  uint32_t entry_b = 0;
  const auto out_of = [](int16_t* out, uint32_t entry) {
    return reinterpret_cast<int16_t*>(reinterpret_cast<char*>(out) + (entry & kEnds));
  };
  for (;;) {
    a.Refill();
    b.Refill();
#pragma GCC unroll 5
    for (int lookup = 0; lookup < kPairLookups; ++lookup) {
      int16_t* const to_a = out_of(out_a, entry_a);
      int16_t* const to_b = out_of(out_b, entry_b);
      entry_a = table.entry(a.bits, entry_a & kEnds);
      entry_b = table.entry(b.bits, entry_b & kEnds);
      if (((entry_a | entry_b) & kSpecial) != 0) [[unlikely]]
        goto special;
      const uint32_t first_a = next_a + (entry_a >> 14 & 15);
      const uint32_t first_b = next_b + (entry_b >> 14 & 15);
      next_a += entry_a >> 7 & 63;
      next_b += entry_b >> 7 & 63;
      Store(entry_a, first_a, next_a, to_a);
      Store(entry_b, first_b, next_b, to_b);
      a.Drop(entry_a);
      b.Drop(entry_b);
      if ((entry_a & entry_b & kEnds) != 0) goto ended;
      if (((next_a | next_b) & kBlockCoefficients) != 0) [[unlikely]]
        goto full;
    }
    continue;
  special:
    // One that is not special is looked up again; no special entry says that a block ends.
    if ((entry_a & kSpecial) != 0) {
      DecodeSpecial(a, next_a, entry_a, table, out_a);
      entry_a = 0;
    } else if (table.entry(a.bits, 0) == entry_a) {
      entry_a = 0;
    }
    if ((entry_b & kSpecial) != 0) {
      DecodeSpecial(b, next_b, entry_b, table, out_b);
      entry_b = 0;
    } else if (table.entry(b.bits, 0) == entry_b) {
      entry_b = 0;
    }
    if (((next_a | next_b) & kBlockCoefficients) == 0) continue;
  full:
    if (next_a >= kBlockCoefficients) {
      if (entry_a != 0 && (next_a != kBlockCoefficients || (entry_a & kEnds) != 0)) {
        a = Redo(a, entry_a, next_a, table, out_a);
      }
      entry_a = kEnds;
      next_a = 1;
    }
    if (next_b >= kBlockCoefficients) {
      if (entry_b != 0 && (next_b != kBlockCoefficients || (entry_b & kEnds) != 0)) {
        b = Redo(b, entry_b, next_b, table, out_b);
      }
      entry_b = kEnds;
      next_b = 1;
    }
    if ((entry_a & entry_b & kEnds) != 0) return;
  }
ended:
  // The one that ended with the last lookup may have been complete before.
  if (next_a >= kBlockCoefficients) a = Redo(a, entry_a, next_a, table, out_a);
  if (next_b >= kBlockCoefficients) b = Redo(b, entry_b, next_b, table, out_b);
}

// kNaturalOrder, one further.
struct ShiftedOrder {
  std::array<uint8_t, kBlockCoefficients + 33> at{};
  ShiftedOrder() { std::copy(kNaturalOrder.begin(), kNaturalOrder.end(), at.begin() + 1); }
};
const ShiftedOrder kOrder;

// A chain between two lookups.
struct Machine {
  BitReader in;
  const StepEntry* table;  // for the next lookup
  const BlockStep* step;
  uint32_t next = 0;  // coefficient; 0: the table is one of DC

  BULKHEAD_ALWAYS_INLINE Machine(BitReader begin, const BlockStep* first)
      : in(begin), table(first->block->dc_steps->begin()), step(first) {}

  BULKHEAD_ALWAYS_INLINE StepEntry Lookup() const { return table[in.bits >> (64 - kStepBits)]; }

  BULKHEAD_ALWAYS_INLINE void Take(StepEntry entry, uint32_t to) {
    int16_t* const out = step->out;
    const StepEntry* const ac = step->ac;
    const StepEntry* const next_dc = step->next_dc;
    out[kOrder.at[next + (entry >> 8 & 15) + 1]] =
        static_cast<int16_t>(static_cast<int32_t>(entry << 7) >> 25);
    out[kOrder.at[to]] = static_cast<int16_t>(static_cast<int32_t>(entry) >> 25);
    in.Drop(entry);
    const bool ends = (entry & kBlockEnds) != 0;
    table = ends ? next_dc : ac;
    next = ends ? 0 : to;
    step =
        reinterpret_cast<const BlockStep*>(reinterpret_cast<const char*>(step) +
                                           (entry & kBlockEnds) / (kBlockEnds / sizeof(BlockStep)));
  }
};
static_assert(sizeof(BlockStep) == 32);

// One symbol that the table of steps does not take.
BULKHEAD_ALWAYS_INLINE void TakeSlowly(Machine& machine, StepEntry entry) {
  const BlockStep* const step = machine.step;
  const Block& block = *step->block;
  if (machine.next == 0) {
    int difference = 0;
    DecodeDc(machine.in, block, difference, step->out);
    machine.next = 1;
    machine.table = step->ac;
    return;
  }
  uint32_t next = machine.next;
  if (entry != kSpecial && (entry & 63) == 0) [[likely]] {
    machine.in.Refill();
    const uint32_t code_bits = entry >> 8 & 31;
    const uint32_t value_bits = entry >> 24 & 15;
    const int value = SignedNonzero(machine.in.After(code_bits), -value_bits);
    machine.in.Drop(code_bits + value_bits);
    next += (entry >> 28) + 1;
    step->out[kOrder.at[next]] = static_cast<int16_t>(value);
  } else {
    const Progress progress = DecodeSymbol({machine.in, next}, *block.ac, step->out);
    machine.in = progress.in;
    next = progress.next;
  }
  machine.next = next;
  if (next < kBlockCoefficients) [[likely]]
    return;
  machine.next = 0;
  machine.table = step->next_dc;
  machine.step = step + 1;
}

BULKHEAD_ALWAYS_INLINE void RunSteps(Chain& chain, size_t count) {
  Machine machine(chain.in, chain.steps.data());
  const BlockStep* const end = machine.step + count;
  while (machine.step != end) {
    machine.in.at = chain.bytes.Fill(machine.in.at);
    machine.in.Refill();
    StepEntry entry;
#pragma GCC unroll 5
    for (int lookup = 0; lookup < kPairLookups; ++lookup) {
      entry = machine.Lookup();
      const uint32_t to = machine.next + (entry >> 12 & 63);
      if (((entry | to) & kSpecial) != 0) [[unlikely]]
        goto slow;
      machine.Take(entry, to);
    }
    continue;
  slow:
    TakeSlowly(machine, entry);
  }
  chain.in = machine.in;
}

BULKHEAD_ALWAYS_INLINE void RunStepsOfBoth(Chain& first, Chain& second, size_t count) {
  Machine a(first.in, first.steps.data());
  Machine b(second.in, second.steps.data());
  const BlockStep* const end_a = a.step + count;
  const BlockStep* const end_b = b.step + count;
  while (a.step != end_a || b.step != end_b) {
    a.in.at = first.bytes.Fill(a.in.at);
    b.in.at = second.bytes.Fill(b.in.at);
    a.in.Refill();
    b.in.Refill();
    StepEntry entry_a;
    StepEntry entry_b;
    uint32_t to_a;
    uint32_t to_b;
#pragma GCC unroll 5
    for (int lookup = 0; lookup < kPairLookups; ++lookup) {
      entry_a = a.Lookup();
      entry_b = b.Lookup();
      to_a = a.next + (entry_a >> 12 & 63);
      to_b = b.next + (entry_b >> 12 & 63);
      if (((entry_a | to_a | entry_b | to_b) & kSpecial) != 0) [[unlikely]]
        goto slow;
      a.Take(entry_a, to_a);
      b.Take(entry_b, to_b);
    }
    continue;
  slow:
    if (((entry_a | to_a) & kSpecial) != 0) TakeSlowly(a, entry_a);
    if (((entry_b | to_b) & kSpecial) != 0) TakeSlowly(b, entry_b);
  }
  first.in = a.in;
  second.in = b.in;
}

enum Way {
  kProduct,
  kOneAfterTheOther,
  kBlocksInTurn,
  kUntilOneEnds,
  kUntilBothEnd,
  kSteps,
  kStepsOfBoth,
  kWayCount
};
constexpr std::array<const char*, kWayCount> kNames = {
    "the loader's decoder, one half after the other",
    "this program's loop, one half after the other",
    "two chains, a block of each in turn",
    "two chains, a lookup of each in turn until one block ends",
    "the same until both end, by entries that do nothing",
    "one chain without branches, one half after the other",
    "two chains without branches"};

class Bench {
 public:
  // False for a file that is none of the usual kind, or has restart markers.
  bool Open(absl::string_view file) {
    file_ = file;
    if (ParseHeader(file, header_) != Fallback::kNone || header_.restart_interval != 0)
      return false;
    if (decoder_->Begin(file, header_) != Fallback::kNone) return false;
    count_ = header_.mcus_across() * (header_.mcus_down() / 2);
    if (count_ < kGroup) return false;
    points_[0] = decoder_->Entry();
    if (decoder_->Skip(count_) != Fallback::kNone) return false;
    points_[1] = decoder_->Entry();
    if (decoder_->Skip(count_) != Fallback::kNone) return false;
    blocks_.clear();
    idle_.BuildIdle();
    stepped_ = 0;
    for (int c = 0; c < header_.component_count; ++c) {
      const Component& component = header_.components[c];
      dc_[component.dc_slot].Build(header_.dc[component.dc_slot]);
      ac_[component.ac_slot].Build(header_.ac[component.ac_slot]);
      dc_steps_[component.dc_slot].BuildDc(dc_[component.dc_slot]);
      ac_steps_[component.ac_slot].BuildAc(ac_[component.ac_slot].table());
      for (int i = 0; i < component.h * component.v; ++i) {
        blocks_.push_back({&dc_[component.dc_slot], &ac_[component.ac_slot],
                           &dc_steps_[component.dc_slot], &ac_steps_[component.ac_slot], c});
      }
    }
    return true;
  }

  size_t blocks() const { return 2 * size_t(count_) * blocks_.size(); }

  // Seconds; the sum of all coefficients by their places goes to `sum`.
  double Run(Way way, uint64_t& sum, bool summing) {
    const auto began = std::chrono::steady_clock::now();
    sum = 0;
    if (way == kProduct || way == kOneAfterTheOther || way == kSteps) {
      for (int half = 0; half < 2; ++half) {
        Chain& chain = *chains_[0];
        decoder_->StartAt(points_[half]);
        chain.StartAt(file_, points_[half]);
        for (int done = 0; done < count_; done += kGroup) {
          const int now = std::min(kGroup, count_ - done);
          Clear(chain, now);
          if (way == kProduct) Product(now);
          if (way == kOneAfterTheOther) Alone(now);
          if (way == kSteps) Steps(now);
          if (summing) sum += Sum(chain, half, done, now);
        }
      }
    } else {
      for (int half = 0; half < 2; ++half) chains_[half]->StartAt(file_, points_[half]);
      for (int done = 0; done < count_; done += kGroup) {
        const int now = std::min(kGroup, count_ - done);
        for (auto& chain : chains_) Clear(*chain, now);
        Together(way, now);
        for (int half = 0; summing && half < 2; ++half) sum += Sum(*chains_[half], half, done, now);
      }
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  }

 private:
  void Clear(Chain& chain, int mcus) {
    std::memset(chain.out.data(), 0, mcus * blocks_.size() * kBlockCoefficients * sizeof(int16_t));
  }

  uint64_t Sum(const Chain& chain, int half, int done, int mcus) const {
    uint64_t sum = 0;
    const size_t count = mcus * blocks_.size() * kBlockCoefficients;
    for (size_t i = 0; i < count; ++i) {
      sum += (2 * (done * blocks_.size() * kBlockCoefficients + i) + half + 1) *
             uint64_t(chain.out[i]) * 0x9E3779B97F4A7C15u;
    }
    return sum;
  }

  void Product(int mcus) {
    std::array<uint8_t, kGroup * kMaxBlocksInMcu> last;
    McuTarget target;
    const auto step = static_cast<ptrdiff_t>(blocks_.size()) * kBlockCoefficients;
    for (size_t b = 0; b < blocks_.size(); ++b) {
      target[b] = {chains_[0]->out.data() + b * kBlockCoefficients, step, last.data() + b,
                   kMaxBlocksInMcu};
    }
    if (decoder_->Decode(mcus, target) != Fallback::kNone) std::abort();
  }

  BENCH_BMI2 void Alone(int mcus) {
    Chain& chain = *chains_[0];
    BitReader in = chain.in;
    int16_t* out = chain.out.data();
    for (int i = 0; i < mcus; ++i) {
      in.at = chain.bytes.Fill(in.at);
      for (const Block& block : blocks_) {
        DecodeDc(in, block, chain.dc[block.component], out);
        DecodeAc(in, 1, *block.ac, out);
        out += kBlockCoefficients;
      }
      if (chain.bytes.IsBeyond(in.at, in.count())) std::abort();
    }
    chain.in = in;
  }

  // For chains without branches, whose DC coefficients are differences at first.
  void PrepareSteps(int mcus) {
    if (stepped_ == mcus) return;
    stepped_ = mcus;
    const size_t count = mcus * blocks_.size();
    for (auto& chain : chains_) {
      for (size_t i = 0; i < count; ++i) {
        const Block& block = blocks_[i % blocks_.size()];
        const StepTable* next =
            i + 1 == count ? &idle_ : blocks_[(i + 1) % blocks_.size()].dc_steps;
        chain->steps[i] = {block.ac_steps->begin(), next->begin(),
                           chain->out.data() + i * kBlockCoefficients, &block};
      }
      chain->steps[count] = {idle_.begin(), idle_.begin(),
                             chain->out.data() + kEnds / sizeof(int16_t), &blocks_[0]};
    }
  }
  void AddDifferences(Chain& chain, int mcus) {
    int16_t* out = chain.out.data();
    for (int i = 0; i < mcus; ++i) {
      for (const Block& block : blocks_) {
        int& predictor = chain.dc[block.component];
        predictor += *out;
        *out = static_cast<int16_t>(predictor);
        out += kBlockCoefficients;
      }
    }
  }
  __attribute__((noinline)) BENCH_BMI2 void Steps(int mcus) {
    PrepareSteps(mcus);
    Chain& chain = *chains_[0];
    RunSteps(chain, mcus * blocks_.size());
    AddDifferences(chain, mcus);
  }
  __attribute__((noinline)) BENCH_BMI2 void StepsOfBoth(int mcus) {
    PrepareSteps(mcus);
    RunStepsOfBoth(*chains_[0], *chains_[1], mcus * blocks_.size());
    for (auto& chain : chains_) AddDifferences(*chain, mcus);
  }

  template <Way kWay>
  BULKHEAD_ALWAYS_INLINE void Pairs(int mcus) {
    Chain& first = *chains_[0];
    Chain& second = *chains_[1];
    BitReader a = first.in;
    BitReader b = second.in;
    int16_t* out_a = first.out.data();
    int16_t* out_b = second.out.data();
    for (int i = 0; i < mcus; ++i) {
      a.at = first.bytes.Fill(a.at);
      b.at = second.bytes.Fill(b.at);
      for (const Block& block : blocks_) {
        DecodeDc(a, block, first.dc[block.component], out_a);
        if (kWay == kBlocksInTurn) DecodeAc(a, 1, *block.ac, out_a);
        DecodeDc(b, block, second.dc[block.component], out_b);
        if (kWay == kBlocksInTurn) DecodeAc(b, 1, *block.ac, out_b);
        if (kWay == kUntilOneEnds) DecodeUntilOneEnds(a, b, *block.ac, out_a, out_b);
        if (kWay == kUntilBothEnd) DecodeUntilBothEnd(a, b, *block.ac, out_a, out_b);
        out_a += kBlockCoefficients;
        out_b += kBlockCoefficients;
      }
      if (first.bytes.IsBeyond(a.at, a.count()) || second.bytes.IsBeyond(b.at, b.count()))
        std::abort();
    }
    first.in = a;
    second.in = b;
  }
  __attribute__((noinline)) BENCH_BMI2 void InTurn(int mcus) { Pairs<kBlocksInTurn>(mcus); }
  __attribute__((noinline)) BENCH_BMI2 void UntilOneEnds(int mcus) { Pairs<kUntilOneEnds>(mcus); }
  __attribute__((noinline)) BENCH_BMI2 void UntilBothEnd(int mcus) { Pairs<kUntilBothEnd>(mcus); }
  void Together(Way way, int mcus) {
    if (way == kBlocksInTurn) return InTurn(mcus);
    if (way == kStepsOfBoth) return StepsOfBoth(mcus);
    way == kUntilOneEnds ? UntilOneEnds(mcus) : UntilBothEnd(mcus);
  }

  absl::string_view file_;
  Header header_;
  int count_ = 0;    // MCUs of a half
  int stepped_ = 0;  // MCUs that the chains' steps are for
  std::array<EntryPoint, 2> points_;
  std::vector<Block> blocks_;
  std::array<DcTable, kTableSlots> dc_;
  std::array<ChainTable, kTableSlots> ac_;
  std::array<StepTable, kTableSlots> dc_steps_;
  std::array<StepTable, kTableSlots> ac_steps_;
  StepTable idle_;
  std::unique_ptr<EntropyDecoder> decoder_ = std::make_unique<EntropyDecoder>();
  std::array<std::unique_ptr<Chain>, 2> chains_{std::make_unique<Chain>(),
                                                std::make_unique<Chain>()};
};

int Main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bulkhead-bench-entropy-chains FOLDER [ROUNDS]\n");
    return 2;
  }
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 9;
  const auto files = tools::ReadJpegFiles(argv[1]);
  if (!files.ok()) {
    std::fprintf(stderr, "%s\n", std::string(files.status().message()).c_str());
    return 1;
  }
  Bench bench;
  std::array<double, kWayCount> seconds{};
  size_t used = 0;
  size_t blocks = 0;
  for (const auto& file : *files) {
    if (!bench.Open(file.bytes)) continue;
    ++used;
    blocks += bench.blocks();
    std::array<uint64_t, kWayCount> sums;
    for (int way = 0; way < kWayCount; ++way) bench.Run(static_cast<Way>(way), sums[way], true);
    for (int way = 0; way < kWayCount; ++way) {
      if (sums[way] == sums[kProduct]) continue;
      std::fprintf(stderr, "%s: other coefficients: %s\n", file.path.c_str(), kNames[way]);
      return 1;
    }
    std::array<double, kWayCount> best;
    best.fill(1e9);
    for (int round = 0; round < rounds; ++round) {
      for (int way = 0; way < kWayCount; ++way) {
        best[way] = std::min(best[way], bench.Run(static_cast<Way>(way), sums[way], false));
      }
    }
    for (int way = 0; way < kWayCount; ++way) seconds[way] += best[way];
  }
  if (used == 0) {
    std::fprintf(stderr, "%s: no file of the usual kind without restart markers\n", argv[1]);
    return 1;
  }
  std::printf(
      "%s\n%zu of %zu files, %zu blocks a file, best of %d rounds: bulkhead-bench-entropy-chains "
      "FOLDER %d\n",
      tools::DescribeMachine().Text().c_str(), used, files->size(), blocks / used, rounds, rounds);
  for (int way = 0; way < kWayCount; ++way) {
    std::printf("%-62s %5.1f ns a block  %.2f x\n", kNames[way],
                1e9 * seconds[way] / double(blocks), seconds[kProduct] / seconds[way]);
  }
  return 0;
}

}  // namespace
}  // namespace bulkhead::jpeg

int main(int argc, char** argv) { return bulkhead::jpeg::Main(argc, argv); }
