#include "server/service/limits/peers.h"

#include <gtest/gtest.h>

namespace bulkhead {
namespace {

TEST(PeersTest, TheProcessOfAnotherHostIsNotKnown) {
  Peers peers;
  peers.Connected(12, 4711);
  EXPECT_EQ(peers.ProcessOf("fd:12"), 4711);
  EXPECT_EQ(peers.ProcessOf("fd:13"), 0);
  EXPECT_EQ(peers.ProcessOf("ipv4:10.0.0.7:4321"), 0);
}

}  // namespace
}  // namespace bulkhead
