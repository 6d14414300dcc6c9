#include "tests/supervisor/leases/lease_table_world.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"

namespace bulkhead {

// Reads the whole of a table; LeaseTable makes it a friend.
class LeaseTableInspector {
 public:
  using State = LeaseTable::LeaseState;
  static const auto& Batches(const LeaseTable& table) { return table.batches_; }
  // The lease with that id, if it is one of a pending batch; null otherwise.
  static const LeaseTable::LeaseEntry* Find(const LeaseTable& table, uint64_t lease_id) {
    for (const auto& [number, batch] : table.batches_) {
      for (const auto& entry : batch.leases) {
        if (entry.lease.lease_id() == lease_id) return &entry;
      }
    }
    return nullptr;
  }
  // Whether a worker that was written off holds a lease of the oldest batch.
  static bool HeadIsStuck(const LeaseTable& table) {
    if (table.batches_.empty()) return false;
    const auto& leases = table.batches_.begin()->second.leases;
    return std::any_of(leases.begin(), leases.end(), [&](const auto& entry) {
      return entry.state == State::kAssigned && table.written_off_.count(entry.worker) > 0;
    });
  }
  static const auto& FreeSlots(const LeaseTable& table) { return table.free_slots_; }
  static std::vector<uint32_t> LostSlots(const LeaseTable& table) {
    std::vector<uint32_t> slots;
    for (const auto& lost : table.lost_slots_) slots.push_back(lost.slot);
    return slots;
  }
  // Adds whom the lost slots wait for, with workers named by `name`.
  template <typename NameWorker>
  static void AddLost(const LeaseTable& table, const NameWorker& name, std::string& key) {
    for (const auto& lost : table.lost_slots_) {
      for (const auto& [worker, lease_id] : lost.writers) key += name(worker);
      key += ';';
    }
  }
};

namespace {

using State = LeaseTableInspector::State;

constexpr size_t kLeasesOfWorker = 2;  // as the worker pool's capacity bounds them
constexpr size_t kLateMessages = 1;
constexpr size_t kPromisedAtOnce = 2;
constexpr LeaseTable::WorkerId kFirstBringer = 1'000'000;

// The third batch begins an epoch.
uint64_t EpochOf(uint64_t sequence) { return sequence / 2; }

v1::BatchHeader Header(uint64_t sequence) {
  v1::BatchHeader header;
  header.set_epoch(EpochOf(sequence));
  header.set_sequence(sequence);
  header.set_first_position(sequence * LeaseTableWorld::kSamplesOfBatch);
  header.set_sample_count(LeaseTableWorld::kSamplesOfBatch);
  return header;
}

uint64_t SequenceOf(const internal::v1::Lease& lease) {
  return lease.first_position() / LeaseTableWorld::kSamplesOfBatch;
}

// One sample may be bad: what a failure does to one batch it does to any.
bool IsBad(const internal::v1::Lease& lease) {
  return SequenceOf(lease) == 1 && lease.first_sample() == 0;
}

}  // namespace

std::string Event::Text() const {
  switch (kind) {
    case Kind::kBegin:
      return "begin a batch";
    case Kind::kBeginBrought:
      return "begin a batch that is brought";
    case Kind::kCopy:
      return absl::StrCat("copy promised batch ", index);
    case Kind::kBring:
      return absl::StrCat("bring promised batch ", index);
    case Kind::kGiveBack:
      return absl::StrCat("give back promised batch ", index);
    case Kind::kAssign:
      return absl::StrCat("assign to worker ", worker);
    case Kind::kAssignPart:
      return absl::StrCat("assign one sample to worker ", worker);
    case Kind::kFinish:
      return absl::StrCat("worker ", worker, " finishes item ", index);
    case Kind::kGiveUp:
      return absl::StrCat("worker ", worker, " gives up item ", index);
    case Kind::kReceive:
      return absl::StrCat("receive item ", index, " of worker ", worker);
    case Kind::kReceiveLate:
      return absl::StrCat("receive late message ", index);
    case Kind::kKill:
      return absl::StrCat("kill worker ", worker);
    case Kind::kWriteOff:
      return absl::StrCat("write off worker ", worker);
    case Kind::kReap:
      return absl::StrCat("reap worker ", worker);
    case Kind::kTake:
      return "take the next batch";
    case Kind::kFree:
      return absl::StrCat("free slot ", index, " of those out");
    case Kind::kRedo:
      return "redo all";
  }
  return "?";
}

LeaseTableWorld::LeaseTableWorld(uint32_t slots, uint64_t batches, Misuse misuse,
                                 const Options& options)
    : batches_(batches),
      slots_(slots),
      misuse_(misuse),
      options_(options),
      table_(1, slots, options.split ? kSamplesOfBatch : 1, options.ordered),
      written_(slots) {
  workers_[0].id = 1;
  workers_[1].id = 2;
}

std::vector<Event> LeaseTableWorld::Enabled() const {
  using Kind = Event::Kind;
  std::vector<Event> events;
  if (failed_) return events;
  if (begun_ < batches_ && table_.has_free_slot()) {
    events.push_back({Kind::kBegin});
    if (options_.brought && promised_.size() < kPromisedAtOnce) {
      events.push_back({Kind::kBeginBrought});
    }
  }
  for (int i = 0; i < static_cast<int>(promised_.size()); ++i) {
    events.push_back({promised_[i].copied ? Kind::kBring : Kind::kCopy, 0, i});
    if (!promised_[i].copied) events.push_back({Kind::kGiveBack, 0, i});
  }
  for (int w = 0; w < 2; ++w) {
    const Worker& worker = workers_[w];
    const bool alive = worker.life == Worker::Life::kAlive;
    if (alive && worker.items.size() < kLeasesOfWorker && table_.has_planned()) {
      events.push_back({Kind::kAssign, w});
      if (options_.split) events.push_back({Kind::kAssignPart, w});
    }
    for (int i = 0; i < static_cast<int>(worker.items.size()); ++i) {
      if (worker.items[i].state == Item::State::kWriting) {
        events.push_back({Kind::kFinish, w, i});
        if (IsBad(worker.items[i].lease)) events.push_back({Kind::kGiveUp, w, i});
      } else {
        events.push_back({Kind::kReceive, w, i});
      }
    }
    if (alive) events.push_back({Kind::kKill, w});
    if (worker.life == Worker::Life::kKilled) events.push_back({Kind::kWriteOff, w});
    if (!alive) events.push_back({Kind::kReap, w});
  }
  for (int i = 0; i < static_cast<int>(late_.size()); ++i) {
    events.push_back({Kind::kReceiveLate, 0, i});
  }
  if (table_.pending() > 0) events.push_back({Kind::kTake});
  if (options_.redo && !redone_) events.push_back({Kind::kRedo});
  for (int i = 0; i < static_cast<int>(out_.size()); ++i) events.push_back({Kind::kFree, 0, i});
  return events;
}

std::string LeaseTableWorld::Apply(const Event& event) {
  Worker& worker = workers_[event.worker];
  switch (event.kind) {
    case Event::Kind::kBegin:
      table_.BeginBatch(Header(begun_++));
      return "";
    case Event::Kind::kBeginBrought:
      BeginBrought();
      return "";
    case Event::Kind::kCopy: {
      Promise& promise = promised_[event.index];
      promise.copied = true;
      for (const internal::v1::Lease& lease : promise.leases) {
        Write(lease, Content(SequenceOf(lease), promise.redone));
      }
      return "";
    }
    case Event::Kind::kBring:
    case Event::Kind::kGiveBack:
      return End(event.index);
    case Event::Kind::kAssign:
      return Give(worker, LeaseTable::kWholeLease);
    case Event::Kind::kAssignPart:
      return Give(worker, 1);
    case Event::Kind::kFinish: {
      Item& item = worker.items[event.index];
      item.state = Item::State::kDone;
      Write(item.lease, Content(SequenceOf(item.lease), item.redone));
      return "";
    }
    case Event::Kind::kGiveUp:
      worker.items[event.index].state = Item::State::kFailed;
      return "";
    case Event::Kind::kReceive: {
      const Item item = worker.items[event.index];
      worker.items.erase(worker.items.begin() + event.index);
      return Receive(item);
    }
    case Event::Kind::kReceiveLate: {
      const Item item = late_[event.index];
      late_.erase(late_.begin() + event.index);
      return Receive(item);
    }
    case Event::Kind::kKill:
      worker.life = Worker::Life::kKilled;
      if (misuse_ == Misuse::kReapAtKill) table_.WorkerGone(worker.id);
      return "";
    case Event::Kind::kWriteOff:
      worker.life = Worker::Life::kWrittenOff;
      if (table_.WriteOff(worker.id)) return "";
      failed_ = true;
      if (!LeaseTableInspector::HeadIsStuck(table_)) return "WriteOff() failed for another batch";
      return table_.free_slots() == 0 && out_.empty() ? "" : "WriteOff() failed with a slot left";
    case Event::Kind::kReap:
      Reap(worker);
      return "";
    case Event::Kind::kTake:
      return Take();
    case Event::Kind::kFree:
      table_.FreeSlot(out_[event.index]);
      out_.erase(out_.begin() + event.index);
      return "";
    case Event::Kind::kRedo:
      table_.RedoAll();
      redone_ = true;
      return "";
  }
  return "";
}

std::string LeaseTableWorld::Give(Worker& worker, uint64_t most_samples) {
  const auto lease = table_.Assign(worker.id, /*suspect=*/false, most_samples);
  if (!lease.has_value()) return "has_planned() promised a lease, Assign() gave none";
  if (lease->count() > most_samples) return "a lease has more samples than were asked for";
  worker.items.push_back({*lease, Item::State::kWriting, worker.id, redone_});
  Write(*lease, 0);
  return "";
}

void LeaseTableWorld::BeginBrought() {
  Promise promise{kFirstBringer + begun_, {}, false, redone_};
  promise.leases = table_.BeginBatch(Header(begun_++), promise.bringer);
  for (const internal::v1::Lease& lease : promise.leases) Write(lease, 0);
  promised_.push_back(std::move(promise));
}

std::string LeaseTableWorld::End(size_t index) {
  const Promise promise = promised_[index];
  if (misuse_ != Misuse::kGiveBackInCopy || promise.copied) {
    promised_.erase(promised_.begin() + static_cast<ptrdiff_t>(index));
  }
  if (!promise.copied) {
    const uint32_t leases = table_.WorkerGone(promise.bringer);
    return leases == promise.leases.size() ? "" : "not all leases of a promised batch came back";
  }
  for (const internal::v1::Lease& lease : promise.leases) {
    const auto& entry = *LeaseTableInspector::Find(table_, lease.lease_id());
    const State due = entry.outdated ? State::kPlanned : State::kReady;
    table_.Complete(lease.lease_id(), promise.bringer, {});
    if (entry.state != due) return "a promised batch was refused, or an outdated one was taken";
  }
  return "";
}

void LeaseTableWorld::Write(const internal::v1::Lease& lease, uint64_t content) {
  for (uint32_t i = 0; i < lease.count(); ++i) {
    written_[lease.slot()][lease.first_sample() + i] = content;
  }
}

bool LeaseTableWorld::Holds(LeaseTable::WorkerId worker, const internal::v1::Lease& lease) const {
  const auto* entry = LeaseTableInspector::Find(table_, lease.lease_id());
  return entry != nullptr && entry->state == State::kAssigned && entry->worker == worker;
}

std::string LeaseTableWorld::Receive(const Item& item) {
  const bool held = Holds(item.worker, item.lease);
  LeaseTable::WorkerId sender = item.worker;
  if (misuse_ == Misuse::kTrustAnyMessage) {
    const auto* entry = LeaseTableInspector::Find(table_, item.lease.lease_id());
    if (entry != nullptr) sender = entry->worker;
  }
  const bool taken = item.state == Item::State::kDone
                         ? table_.Complete(item.lease.lease_id(), sender, {}).has_value()
                         : table_.Fail(item.lease.lease_id(), sender, internal::v1::LeaseFailed());
  // A table that is told the wrong sender cannot know; what follows shows in the other promises.
  if (taken == held || misuse_ == Misuse::kTrustAnyMessage) return "";
  return held ? "the word of a lease's holder was refused"
              : "the word of a worker that does not hold the lease was taken";
}

std::string LeaseTableWorld::Take() {
  const auto batch = table_.TakeNext();
  if (!batch.has_value()) return "";
  out_.push_back(batch->slot);
  const uint64_t sequence = batch->header.sequence();
  const uint64_t oldest = static_cast<uint64_t>(std::countr_one(delivered_));
  if ((delivered_ >> sequence & 1) != 0) return absl::StrCat("batch ", sequence, " came twice");
  // Without order, only within an epoch, and a bad one not before its turn.
  const bool free_to_come =
      !options_.ordered && !batch->failure.has_value() && EpochOf(sequence) == EpochOf(oldest);
  if (sequence != oldest && !free_to_come) {
    return absl::StrCat("batch ", sequence, " was delivered where batch ", oldest, " belongs");
  }
  if (batch->failure.has_value()) {
    failed_ = true;
    return "";
  }
  delivered_ |= uint64_t{1} << sequence;
  for (uint64_t part = 0; part < kSamplesOfBatch; ++part) {
    if (written_[batch->slot][part] != Content(sequence, redone_)) {
      return absl::StrCat("batch ", sequence, " was delivered without its part ", part);
    }
  }
  return "";
}

void LeaseTableWorld::Reap(Worker& worker) {
  if (misuse_ != Misuse::kForgetReap) table_.WorkerGone(worker.id);
  for (const Item& item : worker.items) {
    if (item.state != Item::State::kWriting && late_.size() < kLateMessages) late_.push_back(item);
  }
  worker = Worker{next_worker_++, Worker::Life::kAlive, {}};
}

bool LeaseTableWorld::any_worker_alive() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.life == Worker::Life::kAlive; });
}

bool LeaseTableWorld::NeedsTheDead(const Event& event) const {
  const bool of_worker = event.kind == Event::Kind::kFinish || event.kind == Event::Kind::kReceive;
  return of_worker && workers_[event.worker].life != Worker::Life::kAlive;
}

std::string LeaseTableWorld::Check() const {
  for (const std::string& broken : {CheckSlots(), CheckWriters(), CheckLeases(), CheckCounts()}) {
    if (!broken.empty()) return broken;
  }
  return "";
}

// Every slot is in exactly one place.
std::string LeaseTableWorld::CheckSlots() const {
  std::vector<uint32_t> slots(out_);
  for (const uint32_t slot : LeaseTableInspector::FreeSlots(table_)) slots.push_back(slot);
  for (const auto& [number, batch] : LeaseTableInspector::Batches(table_))
    slots.push_back(batch.slot);
  for (const uint32_t slot : LeaseTableInspector::LostSlots(table_)) slots.push_back(slot);
  const std::set<uint32_t> distinct(slots.begin(), slots.end());
  if (distinct.size() < slots.size()) return "a slot is in two places";
  return slots.size() == slots_ ? "" : "a slot is nowhere";
}

// Where a worker may still write, only its own lease lies, or nothing.
std::string LeaseTableWorld::CheckWriters() const {
  const std::vector<uint32_t> lost = LeaseTableInspector::LostSlots(table_);
  for (const Worker& worker : workers_) {
    for (const Item& item : worker.items) {
      if (item.state != Item::State::kWriting || Holds(item.worker, item.lease)) continue;
      if (std::find(lost.begin(), lost.end(), item.lease.slot()) == lost.end()) {
        return absl::StrCat("slot ", item.lease.slot(), " was given away while a worker may write");
      }
    }
  }
  for (const Promise& promise : promised_) {
    for (const internal::v1::Lease& lease : promise.leases) {
      if (!Holds(promise.bringer, lease)) {
        return absl::StrCat("slot ", lease.slot(), " was given away while a batch may be copied");
      }
    }
  }
  return "";
}

// Whoever holds a lease still has it to report: else it would be waited for without end.
std::string LeaseTableWorld::CheckLeases() const {
  for (const auto& [number, batch] : LeaseTableInspector::Batches(table_)) {
    for (const auto& entry : batch.leases) {
      if (entry.lease.slot() != batch.slot) return "a lease names another slot than its batch";
      if (entry.state != State::kAssigned) continue;
      const bool is_promised =
          std::any_of(promised_.begin(), promised_.end(),
                      [&](const Promise& promise) { return promise.bringer == entry.worker; });
      const bool in_hand =
          is_promised || std::any_of(workers_.begin(), workers_.end(), [&](const Worker& worker) {
            return std::any_of(worker.items.begin(), worker.items.end(), [&](const Item& item) {
              return worker.id == entry.worker && item.lease.lease_id() == entry.lease.lease_id();
            });
          });
      if (!in_hand) return "a lease is held by a worker that knows nothing of it";
    }
  }
  return "";
}

std::string LeaseTableWorld::CheckCounts() const {
  const auto& batches = LeaseTableInspector::Batches(table_);
  uint32_t finished = 0;
  bool planned = false;
  for (const auto& [number, batch] : batches) {
    bool all = true;
    for (const auto& entry : batch.leases) {
      all &= entry.state == State::kReady || entry.state == State::kFailed;
      planned |= entry.state == State::kPlanned;
    }
    finished += all ? 1 : 0;
  }
  if (!failed_ && batches.size() != begun_ - std::popcount(delivered_))
    return "a batch is lost or doubled";
  if (table_.pending() != batches.size()) return "pending() is wrong";
  if (table_.finished() != finished) return "finished() is wrong";
  if (table_.has_planned() != planned) return "has_planned() is wrong";
  if (table_.out_slots() != out_.size()) return "out_slots() is wrong";
  return "";
}

// Slots by where they are, so that states which only number them differently are one.
std::array<char, LeaseTableWorld::kMostSlots> LeaseTableWorld::CanonicalSlots() const {
  std::array<char, kMostSlots> names{};
  char next = '0';
  const auto name = [&](uint32_t slot) { names.at(slot) = next++; };
  for (const auto& [number, batch] : LeaseTableInspector::Batches(table_)) name(batch.slot);
  for (const uint32_t slot : LeaseTableInspector::LostSlots(table_)) name(slot);
  for (const uint32_t slot : out_) name(slot);
  for (const uint32_t slot : LeaseTableInspector::FreeSlots(table_)) name(slot);
  return names;
}

// A byte for each fact: millions of keys are made and compared.
std::string LeaseTableWorld::KeyWith(const std::array<int, 2>& order) const {
  const std::array<char, kMostSlots> slots = CanonicalSlots();
  const auto name_worker = [&](LeaseTable::WorkerId id) {
    if (id == workers_[order[0]].id) return 'a';
    return id == workers_[order[1]].id ? 'b' : '-';
  };
  std::string key;
  key.reserve(64);
  const auto add = [&key](uint64_t number) { key += static_cast<char>('0' + number); };
  add(begun_);
  add(delivered_);
  add((failed_ ? 1 : 0) + (redone_ ? 2 : 0));
  // Names of the current leases; the numbers of all others are the same.
  absl::InlinedVector<std::pair<uint64_t, char>, 8> leases;
  for (const auto& [number, batch] : LeaseTableInspector::Batches(table_)) {
    for (const auto& entry : batch.leases) {
      const uint32_t part = entry.lease.first_sample();
      const uint64_t first = batch.header.sequence() * kSamplesOfBatch + part;
      leases.emplace_back(entry.lease.lease_id(), static_cast<char>('0' + first));
      add(static_cast<uint64_t>(entry.state));
      key += entry.state == State::kAssigned ? name_worker(entry.worker) : ' ';
      key += entry.outdated ? 'o' : ' ';
      for (uint32_t i = part; i < part + entry.lease.count(); ++i) {
        const bool whole = written_[batch.slot][i] == Content(batch.header.sequence(), redone_);
        key += whole ? 'w' : '-';
      }
      key += ' ';
    }
  }
  key += '|';
  LeaseTableInspector::AddLost(table_, name_worker, key);
  key += '|';
  add(out_.size());
  add(table_.free_slots());
  const auto add_items = [&](const std::vector<Item>& items, bool with_slot) {
    absl::InlinedVector<std::array<char, 3>, 4> names;
    for (const Item& item : items) {
      const auto lease = std::find_if(leases.begin(), leases.end(), [&](const auto& one) {
        return one.first == item.lease.lease_id();
      });
      names.push_back({static_cast<char>('0' + static_cast<int>(item.state)),
                       lease == leases.end() ? 'x' : lease->second,
                       with_slot ? slots.at(item.lease.slot()) : '-'});
    }
    std::sort(names.begin(), names.end());
    for (const std::array<char, 3>& name : names) key.append(name.data(), name.size());
  };
  for (const int w : order) {
    key += '|';
    add(static_cast<uint64_t>(workers_[w].life));
    add_items(workers_[w].items, true);
  }
  key += '|';
  add_items(late_, false);
  key += '|';
  // Their batches and slots are those of the leases that they hold; the older ones come first.
  for (const Promise& promise : promised_) key += promise.copied ? 'c' : 'p';
  return key;
}

std::string LeaseTableWorld::Key() const { return std::min(KeyWith({0, 1}), KeyWith({1, 0})); }

}  // namespace bulkhead
