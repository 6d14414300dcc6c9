#include "server/image/jpeg/huffman_table.h"

#include <algorithm>

namespace bulkhead::jpeg {
namespace {

constexpr int kMaxDcValueBits = 15;
// Values that an AC entry has room for.
constexpr int kMaxEntryValueBits = 7;

// The entry of one symbol and its value.
AcEntry MakeAcEntry(int bits, int run, int value) {
  const auto byte = static_cast<AcEntry>(value & 0xFF);
  return static_cast<AcEntry>(bits) | static_cast<AcEntry>(run) << 6 | byte << 16 | byte << 24;
}

}  // namespace

bool CanonicalCodes::Build(const HuffmanSpec& spec) {
  symbols_ = spec.symbols;
  uint32_t code = 0;
  int32_t first = 0;
  for (int length = 1; length <= 16; ++length) {
    const int count = spec.counts[length - 1];
    offset_[length] = first - static_cast<int32_t>(code);
    code += count;
    first += count;
    if (count != 0 && code >= (1u << length)) return false;
    limit_[length] = code << (16 - length);
    code <<= 1;
  }
  return true;
}

bool DcTable::Build(const HuffmanSpec& spec) {
  if (spec == spec_) return good_;
  spec_ = spec;
  good_ = codes_.Build(spec) &&
          std::all_of(spec.symbols.begin(), spec.symbols.begin() + spec.symbol_count,
                      [](uint8_t symbol) { return symbol <= kMaxDcValueBits; });
  if (!good_) return false;
  auto* at = entries_.data();
  for (int length = 1, next = 0; length <= kLookupBits; ++length) {
    for (int i = 0; i < spec.counts[length - 1]; ++i) {
      at = std::fill_n(at, size_t{1} << (kLookupBits - length),
                       MakeDcEntry(length, spec.symbols[next++]));
    }
  }
  std::fill(at, entries_.data() + entries_.size(), 0);
  return true;
}

bool AcTable::Build(const HuffmanSpec& spec, int max_value_bits) {
  if (spec == spec_ && max_value_bits == max_value_bits_) return good_;
  spec_ = spec;
  max_value_bits_ = max_value_bits;
  good_ = codes_.Build(spec);
  if (!good_) return false;
  FillSingle();
  FillPairs();
  return true;
}

void AcTable::FillSingle() {
  const int max_value_bits = std::min(max_value_bits_, kMaxEntryValueBits);
  AcEntry* at = single_.data();
  for (int length = 1, next = 0; length <= kLookupBits; ++length) {
    const size_t places = size_t{1} << (kLookupBits - length);
    for (int i = 0; i < spec_.counts[length - 1]; ++i) {
      const int symbol = spec_.symbols[next++];
      const int run = symbol >> 4;
      const int value_bits = symbol & 15;
      if (value_bits == 0) {
        at = std::fill_n(
            at, places,
            run == 15 ? MakeAcEntry(length, run, 0) : MakeAcEntry(length, 0, 0) | kEndOfBlock);
      } else if (value_bits > max_value_bits || length + value_bits > kLookupBits) {
        at = std::fill_n(at, places,
                         static_cast<AcEntry>(length) << 8 | static_cast<AcEntry>(symbol) << 16);
      } else {
        // All values in the order of their bits: from the most negative one up, without those
        // that fewer bits would do for.
        const int half = 1 << (value_bits - 1);
        for (int bits = 0; bits < 2 * half; ++bits) {
          const int value = bits < half ? bits - 2 * half + 1 : bits;
          at = std::fill_n(at, places >> value_bits, MakeAcEntry(length + value_bits, run, value));
        }
      }
    }
  }
  std::fill(at, single_.data() + single_.size(), 0);
}

void AcTable::FillPairs() {
  constexpr size_t kSize = size_t{1} << kLookupBits;
  for (size_t at = 0; at < kSize;) {
    const AcEntry first = single_[at];
    const int bits = static_cast<int>(first & 63);
    if (bits == 0 || (first & kEndOfBlock) != 0) {
      entries_[at++] = first;
      continue;
    }
    // All that begin with this symbol and value, by what follows.
    const size_t places = kSize >> bits;
    const AcEntry kept = first & ~AcEntry{0xFF000000u};
    for (size_t i = 0; i < places; ++i, ++at) {
      const AcEntry second = single_[i << bits];
      const int second_bits = static_cast<int>(second & 63);
      if (second_bits == 0 || second_bits + bits > kLookupBits) {
        entries_[at] = first;
      } else if ((second & kEndOfBlock) != 0) {
        entries_[at] = first + static_cast<AcEntry>(second_bits) + kEndOfBlock;
      } else {
        entries_[at] = kept + static_cast<AcEntry>(second_bits) + (((second >> 6 & 15) + 1) << 10) +
                       (second & 0xFF000000u);
      }
    }
  }
}

}  // namespace bulkhead::jpeg
