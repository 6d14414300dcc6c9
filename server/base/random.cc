#include "server/base/random.h"

namespace bulkhead {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

uint64_t MixBits(uint64_t a, uint64_t b) {
  const auto block = Philox4x32({static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32), 0, 0},
                                {static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)});
  return uint64_t{block[1]} << 32 | block[0];
}

uint64_t StableHash(absl::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return MixBits(hash, text.size());
}

SampleRandom::SampleRandom(uint64_t seed, uint64_t epoch, uint64_t position, uint64_t stage_hash) {
  const uint64_t key = MixBits(MixBits(seed, epoch), stage_hash);
  key_ = {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
  counter_ = {0, 0, static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32)};
}

uint32_t SampleRandom::Next32() {
  if (used_ == 4) {
    block_ = Philox4x32(counter_, key_);
    if (++counter_[0] == 0) ++counter_[1];
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t SampleRandom::Next64() {
  const uint64_t low = Next32();
  return uint64_t{Next32()} << 32 | low;
}

double SampleRandom::NextUnit() { return static_cast<double>(Next64() >> 11) * 0x1p-53; }

double SampleRandom::NextUniform(double low, double high) {
  return low + (high - low) * NextUnit();
}

uint64_t SampleRandom::NextBelow(uint64_t bound) {
  unsigned __int128 product = static_cast<unsigned __int128>(Next64()) * bound;
  if (static_cast<uint64_t>(product) < bound) {
    const uint64_t threshold = (0 - bound) % bound;
    while (static_cast<uint64_t>(product) < threshold) {
      product = static_cast<unsigned __int128>(Next64()) * bound;
    }
  }
  return static_cast<uint64_t>(product >> 64);
}

}  // namespace bulkhead
