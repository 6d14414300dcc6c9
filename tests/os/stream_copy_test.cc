#include "server/os/memory/stream_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace bulkhead {
namespace {

TEST(CopyToEachTest, EachPlaceGetsEveryByteAndNoMore) {
  std::mt19937 random(1);
  constexpr size_t kMost = (128 << 10) * 3;
  struct alignas(16) Block {
    std::byte bytes[kMost + 64];
  };
  const auto from = std::make_unique<Block>();
  for (std::byte& byte : from->bytes) byte = static_cast<std::byte>(random());
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{4096},
                             size_t{128 << 10}, (size_t{128} << 10) + 17, kMost}) {
    std::vector<std::unique_ptr<Block>> blocks;
    std::vector<std::byte*> places;
    for (int i = 0; i < 3; ++i) {
      blocks.push_back(std::make_unique<Block>());
      for (std::byte& byte : blocks.back()->bytes) byte = std::byte{0xa5};
      places.push_back(blocks.back()->bytes);
    }
    CopyToEach(places, from->bytes, bytes);
    for (const std::byte* place : places) {
      EXPECT_TRUE(std::equal(place, place + bytes, from->bytes)) << bytes;
      EXPECT_TRUE(std::all_of(place + bytes, place + kMost + 64, [](std::byte byte) {
        return byte == std::byte{0xa5};
      })) << bytes;
    }
  }
}

}  // namespace
}  // namespace bulkhead
