#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/supervisor/leases/lease_table.h"

namespace bulkhead {

// What may happen next to a lease table and the workers around it.
struct Event {
  enum class Kind {
    kBegin,         // the next batch gets a slot
    kBeginBrought,  // the same, and it is promised from outside: no worker gets a lease of it
    kCopy,          // promised batch `index` is copied into its slot; the message is under way
    kBring,         // that message arrives
    kGiveBack,      // promised batch `index`, to which nobody writes, does not come
    kAssign,        // a lease goes to `worker`, which from then on writes into its slot
    kAssignPart,    // the same, but of its first sample: the other is a lease of its own
    kFinish,        // `worker` has written its item `index`; the message is under way
    kGiveUp,        // the same, but the sample is bad: a LeaseFailed is under way
    kReceive,       // the message about item `index` arrives
    kReceiveLate,   // message `index` of a worker that was reaped meanwhile arrives
    kKill,          // `worker` gets no more leases; it may still write and its messages may arrive
    kWriteOff,      // the killed `worker` does not end
    kReap,          // it is gone, and another takes its place
    kTake,          // the next batch is handed out, if one is finished
    kFree,          // slot `index` of those handed out comes back
    kRedo,          // what leases are done by changes; once
  };
  Kind kind;
  int worker = 0;
  int index = 0;

  std::string Text() const;
};

// Supervisors that use the table wrongly: the checker must find them.
enum class Misuse {
  kNone,
  kReapAtKill,       // takes a killed worker for gone
  kTrustAnyMessage,  // takes a message about a lease for its holder's
  kForgetReap,       // never says that a worker is gone
  kGiveBackInCopy,   // gives a promised batch back that is still copied
};

// The real LeaseTable with two workers and a trainer around it: one state of the model. A value:
// copies go their own ways. `Apply` lets something happen and `Check` says which promise is broken,
// if any.
class LeaseTableWorld {
 public:
  static constexpr uint64_t kSamplesOfBatch = 2;
  static constexpr size_t kMostSlots = 4;

  struct Options {
    bool ordered = true;
    bool redo = false;   // kRedo may happen
    bool split = false;  // a batch is planned as one lease, and kAssignPart may happen; else as two
    bool brought = false;  // kBeginBrought may happen
  };
  LeaseTableWorld(uint32_t slots, uint64_t batches, Misuse misuse, const Options& options);
  LeaseTableWorld(uint32_t slots, uint64_t batches, Misuse misuse)
      : LeaseTableWorld(slots, batches, misuse, Options()) {}

  std::vector<Event> Enabled() const;
  // Empty, or the promise that the table broke in this step.
  std::string Apply(const Event& event);
  // Empty, or the promise that is broken in this state.
  std::string Check() const;
  // Equal for states that differ only in the numbers given to slots, leases and workers, and in
  // which worker is which.
  std::string Key() const;

  bool complete() const { return delivered_ == (uint64_t{1} << batches_) - 1; }
  // The stream ended with an error: a bad sample, or no slot left to move the head to.
  bool failed() const { return failed_; }
  bool any_worker_alive() const;
  // It is a killed worker's doing: possible, and not to be waited for.
  bool NeedsTheDead(const Event& event) const;

 private:
  struct Item {  // a lease in a worker's hands, or the message about it
    enum class State { kWriting, kDone, kFailed };
    internal::v1::Lease lease;
    State state = State::kWriting;
    LeaseTable::WorkerId worker = 0;
    bool redone = false;  // given out after kRedo
  };
  struct Worker {
    enum class Life { kAlive, kKilled, kWrittenOff };
    LeaseTable::WorkerId id = 0;
    Life life = Life::kAlive;
    std::vector<Item> items;
  };

  struct Promise {  // a batch that is brought
    LeaseTable::WorkerId bringer = 0;
    std::vector<internal::v1::Lease> leases;
    bool copied = false;
    bool redone = false;  // begun after kRedo
  };

  // What a slot's part holds when it is that of the batch, made before or after kRedo.
  static uint64_t Content(uint64_t sequence, bool redone) { return sequence + (redone ? 101 : 1); }

  std::string Give(Worker& worker, uint64_t most_samples);
  std::string Receive(const Item& item);
  void BeginBrought();
  // The promised batch comes, or, if it was not copied, is given back.
  std::string End(size_t index);
  // Puts `content` where the lease's samples are.
  void Write(const internal::v1::Lease& lease, uint64_t content);
  std::string Take();
  void Reap(Worker& worker);
  bool Holds(LeaseTable::WorkerId worker, const internal::v1::Lease& lease) const;
  std::string CheckSlots() const;
  std::string CheckWriters() const;
  std::string CheckLeases() const;
  std::string CheckCounts() const;
  std::array<char, kMostSlots> CanonicalSlots() const;
  std::string KeyWith(const std::array<int, 2>& order) const;

  const uint64_t batches_;
  const uint32_t slots_;
  const Misuse misuse_;
  const Options options_;
  LeaseTable table_;
  std::array<Worker, 2> workers_;
  LeaseTable::WorkerId next_worker_ = 3;
  std::vector<Item> late_;  // messages of reaped workers
  std::vector<Promise> promised_;
  std::vector<uint32_t> out_;  // slots at the trainer, the oldest first
  // Which batch each part of a slot holds completely: its Content.
  std::vector<std::array<uint64_t, kSamplesOfBatch>> written_;
  uint64_t begun_ = 0;
  uint64_t delivered_ = 0;  // bit i: batch i
  bool failed_ = false;
  bool redone_ = false;
};

}  // namespace bulkhead
