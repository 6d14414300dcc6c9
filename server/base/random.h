#pragma once

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace bulkhead {

// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011): ten rounds
// turn a 128-bit counter and a 64-bit key into 128 random bits. Stateless; the same on every
// machine.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// 64 well-mixed bits from two words (one Philox block). For deriving keys, not for secrets.
uint64_t MixBits(uint64_t a, uint64_t b);

// A stable 64-bit hash of a string (FNV-1a, then mixed). Part of the data format, so it never
// changes.
uint64_t StableHash(absl::string_view text);

// The random numbers of one stage for one sample: a pure function of (seed, epoch, position, stage
// path, draw). Draw i does not depend on other draws, threads or workers. Not thread-safe; cheap to
// make (no allocation).
//
//   SampleRandom random(seed, epoch, position, StableHash("stages/1"));
//   const bool flip = random.NextUnit() < 0.5;
class SampleRandom {
 public:
  SampleRandom(uint64_t seed, uint64_t epoch, uint64_t position, uint64_t stage_hash);

  // The next 32 or 64 uniform bits.
  uint32_t Next32();
  uint64_t Next64();
  // Uniform in [0, 1), 53 bits.
  double NextUnit();
  // Uniform in [low, high); computed as low + (high − low) × NextUnit().
  double NextUniform(double low, double high);
  // Uniform in 0 … bound − 1, without bias (Lemire's multiply and reject). `bound` ≥ 1.
  uint64_t NextBelow(uint64_t bound);

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;  // words of block_ already used
};

}  // namespace bulkhead
