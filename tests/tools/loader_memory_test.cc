#include "tools/explain/loader_memory.h"

#include "gmock/gmock.h"

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ExplainedMemory Part(const std::string& what, uint64_t shm_bytes, uint64_t grpc_bytes) {
  return {what, "", shm_bytes, grpc_bytes, what == "client"};
}
ExplainedMemory Part(const std::string& what, uint64_t bytes) { return Part(what, bytes, bytes); }

std::vector<std::string> Names(const std::vector<ExplainedMemory>& parts) {
  std::vector<std::string> names;
  for (const ExplainedMemory& part : parts) names.push_back(part.what);
  return names;
}

uint64_t BytesOf(const std::vector<ExplainedMemory>& parts, const std::string& what, bool grpc) {
  for (const ExplainedMemory& part : parts) {
    if (part.what == what) return grpc ? part.grpc_bytes : part.shm_bytes;
  }
  ADD_FAILURE() << what << " is missing";
  return 0;
}

TEST(LoaderMemoryTest, TheLargestPartByEitherTransportComesFirst) {
  const RankedMemory ranked =
      RankMemory({Part("a", 30), Part("b", 100), Part("client", 0, 60), Part("c", 50)});
  EXPECT_THAT(Names(ranked.shown), ElementsAre("b", "client", "c", "a"));
  EXPECT_THAT(ranked.remaining, IsEmpty());
  EXPECT_EQ(ranked.together.shm_bytes, 180);
  EXPECT_EQ(ranked.together.grpc_bytes, 240);
}

TEST(LoaderMemoryTest, PartsBelowAHundredthAreRolledUp) {
  const RankedMemory ranked =
      RankMemory({Part("tiny", 3), Part("large", 9000), Part("small", 99), Part("enough", 1000)});
  EXPECT_THAT(Names(ranked.shown), ElementsAre("large", "enough"));
  EXPECT_THAT(Names(ranked.remaining), ElementsAre("small", "tiny"));
  EXPECT_EQ(SumOf(ranked.remaining).shm_bytes, 102);
}

TEST(LoaderMemoryTest, ASinglePartIsNotRolledUp) {
  const RankedMemory ranked = RankMemory({Part("tiny", 3), Part("large", 9000)});
  EXPECT_THAT(Names(ranked.shown), ElementsAre("large", "tiny"));
}

TEST(LoaderMemoryTest, TheClientsPartIsAlwaysShown) {
  const RankedMemory ranked =
      RankMemory({Part("large", 9000), Part("one", 1), Part("client", 0, 2), Part("two", 2)});
  EXPECT_THAT(Names(ranked.shown), ElementsAre("large", "client"));
  EXPECT_THAT(Names(ranked.remaining), ElementsAre("two", "one"));
}

TEST(LoaderMemoryTest, OverGrpcAClientHoldsItsCreditsAndABatchInUse) {
  EXPECT_EQ(ClientBytesOverGrpc(1 << 20), 5u << 20);
  // 256 MiB of credit hold two batches of 100 MiB, and one larger one may always come.
  EXPECT_EQ(ClientBytesOverGrpc(100 << 20), uint64_t{300} << 20);
  EXPECT_EQ(ClientBytesOverGrpc(uint64_t{1} << 30), uint64_t{2} << 30);
}

TEST(LoaderMemoryTest, TheArenaIsToldByOutputAndWithoutALeftover) {
  v1::BatchSchema schema;
  schema.set_batch_size(10);
  schema.set_batch_bytes(3136);
  v1::TensorSchema& image = *schema.add_tensors();
  image.set_name("image");
  image.set_sample_bytes(300);
  v1::TensorSchema& label = *schema.add_tensors();
  label.set_name("label");
  label.set_sample_bytes(8);
  StreamMemory plan;
  plan.workers = 3;
  plan.threads_per_worker = 1;
  plan.worker_quota_bytes = 1000000;
  plan.slot_count = 5;
  plan.slot_bytes = 4096;
  plan.arena_bytes = 5 * 4096;
  v1::MemoryBudget budget;
  budget.set_supervisor_bytes(50000);
  budget.set_replacement_bytes(1000000);
  const std::vector<ExplainedMemory> parts =
      MemoryParts(plan, budget, schema, /*reads_objects=*/false);
  EXPECT_THAT(Names(parts), ElementsAre("workers", "replacement", "supervisor", "arena: image",
                                        "arena: label", "arena: rounding", "client"));
  EXPECT_EQ(BytesOf(parts, "workers", false), 3000000);
  EXPECT_EQ(BytesOf(parts, "arena: image", true), 15000);
  EXPECT_EQ(BytesOf(parts, "arena: label", false), 400);
  EXPECT_EQ(BytesOf(parts, "client", false), 0);
  EXPECT_EQ(BytesOf(parts, "client", true), 5 * 3136);
  EXPECT_EQ(SumOf(parts).shm_bytes, 3000000 + 1000000 + 50000 + 5 * 4096);
  const auto with_objects = MemoryParts(plan, budget, schema, /*reads_objects=*/true);
  EXPECT_EQ(BytesOf(with_objects, "bulkhead-fetch", false), 128 << 20);
}

}  // namespace
}  // namespace bulkhead::tools
