#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "server/sampler/order.h"

namespace bulkhead {

// An order from its text, `global { reshuffle: true }`, which must be valid.
inline std::unique_ptr<SampleOrder> OrderOf(const std::string& text, uint64_t seed,
                                            const std::vector<uint64_t>& files) {
  v1::Order order;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &order)) << text;
  auto made = MakeOrder(order, seed, files);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

// The records of the first `count` positions of an epoch.
inline std::vector<uint64_t> Records(const SampleOrder& order, uint64_t epoch, uint64_t count) {
  std::vector<uint64_t> records;
  for (uint64_t position = 0; position < count; ++position) {
    records.push_back(order.RecordAt(epoch, position));
  }
  return records;
}

// Whether every number below the size of `records` is in it.
inline bool IsPermutation(const std::vector<uint64_t>& records) {
  std::vector<bool> seen(records.size());
  for (const uint64_t record : records) {
    if (record >= seen.size() || seen[record]) return false;
    seen[record] = true;
  }
  return true;
}

inline uint64_t Sum(const std::vector<uint64_t>& values) {
  return std::accumulate(values.begin(), values.end(), uint64_t{0});
}

}  // namespace bulkhead
