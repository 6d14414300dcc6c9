#include "server/worker/held_slots.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "server/worker/current_stage.h"

namespace bulkhead {
namespace {

constexpr uint64_t kSlotBytes = 8192;
constexpr uint32_t kSlots = 3;

// Whether this process may read there.
bool CanTouch(const std::byte* at) {
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  const UniqueFd reader(fds[0]);
  const UniqueFd writer(fds[1]);
  return write(writer.get(), at, 1) == 1;
}

class HeldSlotsTest : public testing::Test {
 protected:
  const std::shared_ptr<Arena> owner_ = Arena::Create(kSlotBytes, kSlots).value();
  const std::shared_ptr<HeldSlots> slots_ = std::make_shared<HeldSlots>(
      Arena::Attach(UniqueFd(fcntl(owner_->fd(), F_DUPFD_CLOEXEC, 0)), kSlotBytes, kSlots).value());
};

TEST_F(HeldSlotsTest, ASlotIsOpenFromItsFirstLeasesBeginToItsLastOnesEnd) {
  HeldSlots::Hold first(slots_, 1);
  HeldSlots::Hold second(slots_, 1);
  const HeldSlots::Hold waiting(slots_, 2);
  EXPECT_FALSE(CanTouch(slots_->slot(1)));
  first.Begin();
  slots_->slot(1)[kSlotBytes - 1] = std::byte{7};
  EXPECT_EQ(owner_->slot(1)[kSlotBytes - 1], std::byte{7});
  EXPECT_FALSE(CanTouch(slots_->slot(0)));
  EXPECT_FALSE(CanTouch(slots_->slot(2)));
  first.Release();
  first.Release();
  EXPECT_TRUE(CanTouch(slots_->slot(1)));
  second.Begin();
  { const HeldSlots::Hold moved = std::move(second); }
  EXPECT_FALSE(CanTouch(slots_->slot(1)));
}

TEST_F(HeldSlotsTest, PrefaultingOpensNothing) {
  const HeldSlots::Hold hold(slots_, 2);
  hold.Begin();
  slots_->Prefault();
  EXPECT_FALSE(CanTouch(slots_->slot(0)));
  EXPECT_TRUE(CanTouch(slots_->slot(2)));
}

// In a child each, since a fault ends the process; its parent reads the recorder as a supervisor
// does.
class WildAccessTest : public HeldSlotsTest {
 protected:
  template <typename Function>
  std::optional<FlightSnapshot::WildAccess> After(const Function& crash) {
    const FlightRecorder recorder = FlightRecorder::Create(1).value();
    recorder.SetStages({"worker", "source", "stages[0] native"});
    const pid_t child = fork();
    if (child == 0) {
      NoteWildAccesses(recorder);
      current_stage = {2, 0, recorder.thread(0).counters};
      crash();
      _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
    return recorder.Snapshot().wild;
  }
};

TEST_F(WildAccessTest, IsNotedWithSlotAndStage) {
  const auto wrote = After([&] { slots_->slot(2)[5] = std::byte{1}; });
  ASSERT_TRUE(wrote.has_value());
  EXPECT_EQ(wrote->slot, 2u);
  EXPECT_EQ(wrote->stage, "stages[0] native");
  const auto read =
      After([&] { (void)*reinterpret_cast<volatile const char*>(slots_->slot(0) + 8191); });
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->slot, 0u);
#if defined(__x86_64__)
  EXPECT_EQ(wrote->access, MemoryFault::Access::kWrite);
  EXPECT_EQ(read->access, MemoryFault::Access::kRead);
#endif
  EXPECT_EQ(owner_->slot(2)[5], std::byte{0});
}

TEST_F(WildAccessTest, IsToldFromOtherCrashes) {
  EXPECT_FALSE(After([] { *reinterpret_cast<volatile char*>(16) = 1; }).has_value());
  EXPECT_FALSE(After([] { raise(SIGSEGV); }).has_value());
  EXPECT_FALSE(After([&] {
                 const std::byte* const there = slots_->slot(0);
                 const_cast<std::shared_ptr<HeldSlots>&>(slots_).reset();
                 (void)*reinterpret_cast<volatile const char*>(there);
               }).has_value());
}

}  // namespace
}  // namespace bulkhead
