#include "server/image/jpeg/entropy_decoder.h"

#include <algorithm>

#if defined(__x86_64__)
#define BULKHEAD_BMI2 __attribute__((target("bmi2")))
#else
#define BULKHEAD_BMI2
#endif

namespace bulkhead::jpeg {
namespace {

// Predictors of blocks that are not used may be larger than any DC coefficient that is kept.
constexpr int kMaxPredictor = 32767;

#if defined(__x86_64__)
bool HasBmi2() { return __builtin_cpu_supports("bmi2") != 0; }
#else
bool HasBmi2() { return false; }
#endif

// The same, but the compiler does not know: else it takes what it computed for a test for a shift,
// too, which then must wait for it.
BULKHEAD_ALWAYS_INLINE uint32_t Unrelated(uint32_t value) {
  asm("" : "+r"(value));
  return value;
}

inline bool Within(int value, int limit) {
  return static_cast<unsigned>(value + limit) <= 2u * static_cast<unsigned>(limit);
}

}  // namespace

Fallback EntropyDecoder::Begin(absl::string_view file, const Header& header) {
  file_ = file;
  restart_interval_ = header.restart_interval;
  stopped_ = Fallback::kNone;
  if (const Fallback reason = PrepareTables(header); reason != Fallback::kNone) return reason;
  bytes_.Begin(file, header.scan_begin);
  in_ = {0, 0, bytes_.begin()};
  dc_.fill(0);
  until_restart_ = restart_interval_;
  next_restart_ = 0;
  next_mcu_ = 0;
  return Fallback::kNone;
}

Fallback EntropyDecoder::PrepareTables(const Header& header) {
  block_count_ = 0;
  for (int c = 0; c < header.component_count; ++c) {
    const Component& component = header.components[c];
    const QuantTable& quant = header.quant[component.quant_slot];
    if (*std::max_element(quant.begin(), quant.end()) > kMaxAc) return Fallback::kTables;
    std::array<int16_t, kBlockCoefficients>& limits = ac_limits_[component.quant_slot];
    for (int k = 0; k < kBlockCoefficients; ++k) {
      limits[k] = static_cast<int16_t>(kMaxAc / std::max<int>(quant[kNaturalOrder[k]], 1));
    }
    if (!dc_tables_[component.dc_slot].Build(header.dc[component.dc_slot])) {
      return Fallback::kTables;
    }
    for (int i = 0; i < component.h * component.v; ++i) {
      plan_[block_count_++] = {&dc_tables_[component.dc_slot], &ac_tables_[component.ac_slot],
                               limits.data(), kMaxDc / std::max<int>(quant[0], 1), c};
    }
  }
  for (int slot = 0; slot < kTableSlots; ++slot) {
    // The largest value within the limits of every component that uses this table.
    int limit = kMaxAc;
    bool used = false;
    for (int i = 0; i < block_count_; ++i) {
      if (plan_[i].ac_table != &ac_tables_[slot]) continue;
      used = true;
      limit = std::min<int>(limit, *std::min_element(plan_[i].ac_limits + 1,
                                                     plan_[i].ac_limits + kBlockCoefficients));
    }
    int value_bits = 0;
    while ((2 << value_bits) - 1 <= limit) ++value_bits;
    if (used && !ac_tables_[slot].Build(header.ac[slot], value_bits)) return Fallback::kTables;
  }
  return Fallback::kNone;
}

void EntropyDecoder::StartAt(const EntryPoint& point, size_t wanted_bytes) {
  bytes_.Begin(file_, point.bit_offset / 8, wanted_bytes);
  in_ = {0, 0, bytes_.begin()};
  in_.Refill();
  in_.Drop(static_cast<uint32_t>(point.bit_offset % 8));
  std::copy(point.dc.begin(), point.dc.end(), dc_.begin());
  next_mcu_ = point.mcu;
  stopped_ = Fallback::kNone;
  if (restart_interval_ == 0) return;
  until_restart_ = restart_interval_ - static_cast<int>(point.mcu % restart_interval_);
  next_restart_ = static_cast<int>(point.mcu / restart_interval_ % 8);
}

EntryPoint EntropyDecoder::Entry() const {
  EntryPoint point;
  point.mcu = next_mcu_;
  if (restart_interval_ != 0 && until_restart_ == 0) {
    // Behind the marker that is to come.
    point.bit_offset = 8 * (bytes_.MarkerBehind(in_.at, in_.count()) + 2);
    return point;
  }
  const int whole_bytes = (in_.count() + 7) / 8;
  point.bit_offset = 8 * bytes_.FileOffset(in_.at - whole_bytes) + (8 * whole_bytes - in_.count());
  for (int c = 0; c < kMaxComponents; ++c) point.dc[c] = static_cast<int16_t>(dc_[c]);
  return point;
}

Fallback EntropyDecoder::BeginInterval() {
  const size_t marker = bytes_.MarkerBehind(in_.at, in_.count());
  if (marker == 0 || file_.size() - marker < 2) return Fallback::kData;
  if (static_cast<uint8_t>(file_[marker + 1]) != 0xD0 + next_restart_) return Fallback::kData;
  bytes_.Begin(file_, marker + 2);
  in_ = {0, 0, bytes_.begin()};
  dc_.fill(0);
  until_restart_ = restart_interval_;
  next_restart_ = (next_restart_ + 1) % 8;
  return Fallback::kNone;
}

Fallback EntropyDecoder::Decode(int count, const McuTarget& target) {
  return Run<true>(count, &target);
}

Fallback EntropyDecoder::Skip(int count) { return Run<false>(count, nullptr); }

template <bool kKeep>
Fallback EntropyDecoder::Run(int count, const McuTarget* target) {
  if (stopped_ != Fallback::kNone) return stopped_;
  McuTarget rest;
  if (kKeep) rest = *target;
  while (count > 0) {
    int now = count;
    if (restart_interval_ != 0) {
      if (until_restart_ == 0 && (stopped_ = BeginInterval()) != Fallback::kNone) return stopped_;
      now = std::min(count, until_restart_);
      until_restart_ -= now;
    }
    const bool good =
        HasBmi2() ? RunIntervalBmi2<kKeep>(now, &rest) : RunInterval<kKeep>(now, &rest);
    if (!good) return stopped_;
    count -= now;
    next_mcu_ += now;
    if (!kKeep) continue;
    for (BlockTarget& block : rest) {
      block.out += now * block.step;
      block.last += now * block.last_step;
    }
  }
  return Fallback::kNone;
}

template <bool kKeep>
bool EntropyDecoder::RunInterval(int count, const McuTarget* target) {
  return DecodeInterval<kKeep>(count, target);
}

template <bool kKeep>
BULKHEAD_BMI2 bool EntropyDecoder::RunIntervalBmi2(int count, const McuTarget* target) {
  return DecodeInterval<kKeep>(count, target);
}

template <bool kKeep>
BULKHEAD_ALWAYS_INLINE bool EntropyDecoder::DecodeInterval(int count, const McuTarget* target) {
  BitReader in = in_;
  for (int i = 0; i < count; ++i) {
    in.at = bytes_.Fill(in.at);
    for (int b = 0; b < block_count_; ++b) {
      int16_t* out = nullptr;
      uint8_t* last = nullptr;
      if (kKeep) {
        const BlockTarget& block = (*target)[b];
        out = block.out + i * block.step;
        last = block.last + i * block.last_step;
      }
      if (!DecodeBlock<kKeep>(in, plan_[b], out, last)) return false;
    }
    if (bytes_.IsBeyond(in.at, in.count())) return Stop(Fallback::kData);
  }
  in_ = in;
  return true;
}

template <bool kKeep>
BULKHEAD_ALWAYS_INLINE bool EntropyDecoder::DecodeBlock(BitReader& in, const BlockPlan& plan,
                                                        int16_t* out, uint8_t* last) {
  in.Refill();
  DcEntry entry = plan.dc_table->entry(in.bits);
  if ((entry & 0xFF) == 0) [[unlikely]] {
    const CanonicalCodes::Found code =
        plan.dc_table->codes().Find(static_cast<uint32_t>(in.bits >> 48));
    if (code.length == 0) return Stop(Fallback::kData);
    entry = MakeDcEntry(code.length, code.symbol);
  }
  int& predictor = dc_[plan.component];
  predictor += SignedValue(in.After(entry >> 8), entry >> 16);
  in.Drop(entry);
  if (!Within(predictor, kKeep ? plan.dc_limit : kMaxPredictor)) [[unlikely]] {
    return Stop(Fallback::kCoefficient);
  }
  if (kKeep) out[0] = static_cast<int16_t>(predictor);
  const int k = DecodeAc<kKeep>(in, plan, out);
  if (kKeep) *last = static_cast<uint8_t>(k);
  return k >= 0;
}

template <bool kKeep>
BULKHEAD_ALWAYS_INLINE int EntropyDecoder::DecodeAc(BitReader& in, const BlockPlan& plan,
                                                    int16_t* out) {
  // Lookups between two refills, which bring 56 bits.
  constexpr int kLookups = 5;
  static_assert(kLookups * AcTable::kLookupBits <= 56);
  const AcTable& table = *plan.ac_table;
  uint32_t next = 1;
  AcEntry entry = 0;
  for (;;) {
    in.Refill();
    int lookup = 0;
#pragma GCC unroll 5
    for (; lookup < kLookups; ++lookup) {
      entry = table.entry(in.bits);
      if ((Unrelated(entry) & 63) == 0) break;
      const uint32_t first = next + (entry >> 6 & 15);
      const uint32_t second = first + (entry >> 10 & 31);
      if (kKeep) {
        out[kNaturalOrder[first]] = static_cast<int8_t>(entry >> 16);
        out[kNaturalOrder[second]] = static_cast<int8_t>(entry >> 24);
      }
      next = second + 1;
      in.Drop(entry);
      if ((entry & kEndOfBlock) != 0) goto ended;
      if (next >= kBlockCoefficients) goto full;
    }
    if (lookup == kLookups) continue;
    if (entry == 0) {
      // Through copies, so that what this loop works on stays in registers.
      const Progress progress =
          DecodeSymbol({in, static_cast<int>(next), true}, plan, kKeep ? out : nullptr);
      if (!progress.good) return -1;
      in = progress.in;
      next = static_cast<uint32_t>(progress.next);
      if (next >= kBlockCoefficients) return kBlockCoefficients - 1;
      continue;
    }
    // A value that the lookup had no room for.
    in.Refill();
    const uint32_t symbol = entry >> 16;
    const uint32_t code_bits = entry >> 8 & 31;
    const int value = SignedNonzero(in.After(code_bits), -(symbol & 15));
    in.Drop(code_bits + (symbol & 15));
    next += (symbol >> 4) + 1;
    if (next > kBlockCoefficients) return StopBlock(Fallback::kData);
    if (kKeep) {
      if (!Within(value, plan.ac_limits[next - 1])) return StopBlock(Fallback::kCoefficient);
      out[kNaturalOrder[next - 1]] = static_cast<int16_t>(value);
    }
    if (next == kBlockCoefficients) return kBlockCoefficients - 1;
  }
ended:
  if (next < kBlockCoefficients) [[likely]] {
    // A block may end before its first coefficient, which then is zero.
    return kKeep && next == 2 && out[1] == 0 ? 0 : static_cast<int>(next) - 1;
  }
full:
  if (next == kBlockCoefficients && (entry & kEndOfBlock) == 0) return kBlockCoefficients - 1;
  // The block was complete within the last lookup, or is no good: back, and one by one.
  Progress progress;
  progress.next = static_cast<int>(next - 1 - (entry >> 6 & 15) - (entry >> 10 & 31));
  const int unused_bits = in.count() + static_cast<int>(entry & 63);
  progress.in.at = in.at - (unused_bits + 7) / 8;
  progress.in.Refill();
  progress.in.Drop(-unused_bits & 7);
  progress = DecodeSymbols(progress, plan, kKeep ? out : nullptr);
  in = progress.in;
  return progress.good ? kBlockCoefficients - 1 : -1;
}

EntropyDecoder::Progress EntropyDecoder::DecodeSymbols(Progress progress, const BlockPlan& plan,
                                                       int16_t* out) {
  while (progress.good && progress.next < kBlockCoefficients) {
    progress = DecodeSymbol(progress, plan, out);
  }
  return progress;
}

EntropyDecoder::Progress EntropyDecoder::DecodeSymbol(Progress progress, const BlockPlan& plan,
                                                      int16_t* out) {
  BitReader& in = progress.in;
  in.Refill();
  const auto stop = [&](Fallback reason) {
    progress.good = Stop(reason);
    return progress;
  };
  const CanonicalCodes::Found code =
      plan.ac_table->codes().Find(static_cast<uint32_t>(in.bits >> 48));
  if (code.length == 0) return stop(Fallback::kData);
  in.Drop(code.length);
  const int run = code.symbol >> 4;
  const int value_bits = code.symbol & 15;
  if (value_bits == 0 && run != 15) {
    progress.next = kBlockCoefficients;
    return progress;
  }
  const int k = progress.next + run;
  if (k > kBlockCoefficients - 1) return stop(Fallback::kData);
  progress.next = k + 1;
  int value = 0;
  if (value_bits != 0) {
    value = SignedNonzero(in.bits, 64 - value_bits);
    in.Drop(value_bits);
  }
  if (out == nullptr) return progress;
  if (!Within(value, plan.ac_limits[k])) return stop(Fallback::kCoefficient);
  out[kNaturalOrder[k]] = static_cast<int16_t>(value);
  return progress;
}

}  // namespace bulkhead::jpeg
