#include "server/arena/flight_recorder.h"

#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/utf8.h"
#include "server/os/event_loop.h"

namespace bulkhead {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Where the rings begin: at a page that they share with nothing else.
uint64_t RingsAt(uint32_t threads) {
  constexpr uint64_t kPage = 4096;
  const uint64_t notes = sizeof(FlightHeader) + (uint64_t{threads} + 1) * sizeof(FlightThread);
  return (notes + kPage - 1) / kPage * kPage;
}

uint64_t SizeFor(uint32_t threads) {
  return RingsAt(threads) + uint64_t{threads} * sizeof(FlightSpanRing);
}

// Wraps around on overflow, because the numbers may be anything.
void Add(int64_t& sum, int64_t more) {
  sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(more));
}

// At most `bytes` of text from a worker, with unprintable bytes replaced.
std::string CleanText(const char* text, size_t bytes) {
  std::string clean(text, strnlen(text, bytes));
  for (size_t i = 0; i < clean.size(); ++i) {
    if (static_cast<unsigned char>(clean[i]) < 0x20 || clean[i] == 0x7f) clean[i] = '?';
    // U+0080 to U+009F are control characters of two bytes. The first alone is invalid UTF-8,
    // replaced below.
    if (i > 0 && clean[i - 1] == '\xc2' && static_cast<unsigned char>(clean[i]) < 0xa0)
      clean[i] = '?';
  }
  for (size_t at; (at = FirstByteThatIsNoText(clean)) != std::string::npos;) clean[at] = '?';
  return clean;
}

}  // namespace

FlightRecorder::FlightRecorder(UniqueFd fd, MemoryMap map, uint32_t threads)
    : fd_(std::move(fd)),
      map_(std::move(map)),
      threads_(threads),
      header_(reinterpret_cast<FlightHeader*>(map_.data())),
      shards_(reinterpret_cast<FlightThread*>(map_.data() + sizeof(FlightHeader))),
      rings_(reinterpret_cast<FlightSpanRing*>(map_.data() + RingsAt(threads))) {}

absl::StatusOr<FlightRecorder> FlightRecorder::Create(uint32_t threads) {
  if (threads == 0 || threads > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat(threads, " threads in a flight recorder"));
  }
  auto fd = CreateSharedMemory("bulkhead-flight", SizeFor(threads));
  if (!fd.ok()) return fd.status();
  auto map = MemoryMap::Map(fd->get(), SizeFor(threads));
  if (!map.ok()) return map.status();
  FlightRecorder recorder(*std::move(fd), *std::move(map), threads);
  new (recorder.header_) FlightHeader;
  recorder.header_->layout = FlightHeader::kLayout;
  recorder.header_->thread_count = threads;
  for (uint32_t i = 0; i <= threads; ++i) new (&recorder.shards_[i]) FlightThread;
  return recorder;
}

absl::StatusOr<FlightRecorder> FlightRecorder::Attach(UniqueFd fd, uint32_t threads) {
  if (threads == 0 || threads > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat(threads, " threads in a flight recorder"));
  }
  auto map = MemoryMap::Map(fd.get(), SizeFor(threads));
  if (!map.ok()) return map.status();
  FlightRecorder recorder(std::move(fd), *std::move(map), threads);
  if (recorder.header_->layout != FlightHeader::kLayout) {
    return absl::InvalidArgumentError(
        "the flight recorder is from another build: bulkheadd and bulkhead-worker must be from the "
        "same build");
  }
  if (recorder.header_->thread_count != threads) {
    return absl::InvalidArgumentError("the flight recorder is for another number of threads");
  }
  return recorder;
}

void FlightRecorder::SetStages(absl::Span<const std::string> names) const {
  const size_t count = std::min(names.size(), FlightThread::kMaxStages);
  for (size_t i = 0; i < count; ++i) {
    const size_t length = std::min(names[i].size(), FlightHeader::kNameBytes - 1);
    std::memcpy(header_->names[i], names[i].data(), length);
    header_->names[i][length] = '\0';
  }
  header_->stage_count.store(static_cast<uint32_t>(count), std::memory_order_release);
}

int64_t FlightRecorder::LiveBytes() const {
  int64_t sum = 0;
  const size_t stages =
      std::min<size_t>(header_->stage_count.load(kRelaxed), FlightThread::kMaxStages);
  for (uint32_t i = 0; i <= threads_; ++i) {
    for (size_t s = 0; s < stages; ++s) Add(sum, shards_[i].counters[s].live_bytes.load(kRelaxed));
  }
  return sum;
}

void FlightRecorder::BeginSample(uint32_t thread, uint64_t stream_id, uint64_t lease_id,
                                 uint64_t epoch, uint64_t position) const {
  FlightThread& own = this->thread(thread);
  own.sample_length.store(0, std::memory_order_release);
  own.stream_id.store(stream_id, kRelaxed);
  own.epoch.store(epoch, kRelaxed);
  own.position.store(position, kRelaxed);
  own.began_ns.store(MonotonicNanos(), kRelaxed);
  own.began_live_bytes.store(LiveBytes(), kRelaxed);
  own.lease_id.store(lease_id, std::memory_order_release);
}

void FlightRecorder::NameSample(uint32_t thread, absl::string_view identity) const {
  FlightThread& own = this->thread(thread);
  const size_t length = std::min(identity.size(), FlightThread::kSampleBytes);
  own.sample_length.store(0, std::memory_order_release);
  std::memcpy(own.sample, identity.data(), length);
  own.sample_length.store(static_cast<uint32_t>(length), std::memory_order_release);
}

void FlightRecorder::EndSample(uint32_t thread) const {
  FlightThread& own = this->thread(thread);
  own.samples.store(own.samples.load(kRelaxed) + 1, kRelaxed);
  EndBatch(thread);
}

void FlightRecorder::EndBatch(uint32_t thread) const {
  FlightThread& own = this->thread(thread);
  own.sample_length.store(0, kRelaxed);
  own.lease_id.store(0, std::memory_order_release);
}

void FlightRecorder::SetTraced(bool traced) const {
  const uint64_t at = RingsAt(threads_);
  if (traced) map_.Prefault(at, map_.size() - at);
  header_->traced.store(traced ? 1 : 0, kRelaxed);
  if (!traced) map_.Discard(at, map_.size() - at);
}

std::vector<std::string> FlightRecorder::StageNames() const {
  const size_t stages = std::min<size_t>(header_->stage_count.load(std::memory_order_acquire),
                                         FlightThread::kMaxStages);
  std::vector<std::string> names;
  for (size_t s = 0; s < stages; ++s) {
    names.push_back(CleanText(header_->names[s], FlightHeader::kNameBytes));
  }
  return names;
}

FlightSnapshot FlightRecorder::Snapshot(absl::Span<const std::string> names) const {
  FlightSnapshot snapshot;
  const size_t stages = std::min(names.size(), FlightThread::kMaxStages);
  for (size_t s = 0; s < stages; ++s) {
    FlightSnapshot::Stage stage;
    stage.name = names[s];
    uint64_t busy_ns = 0;
    for (uint32_t i = 0; i <= threads_; ++i) {
      const FlightCounters& counters = shards_[i].counters[s];
      Add(stage.live_bytes, counters.live_bytes.load(kRelaxed));
      Add(stage.live_blocks, counters.live_blocks.load(kRelaxed));
      stage.allocations += counters.allocations.load(kRelaxed);
      stage.runs += counters.runs.load(kRelaxed);
      busy_ns += counters.busy_ns.load(kRelaxed);
      for (size_t b = 0; b < kDurationBuckets; ++b) {
        stage.times[b] += counters.times[b].load(kRelaxed);
      }
    }
    stage.busy_seconds = static_cast<double>(busy_ns) / 1e9;
    Add(snapshot.live_bytes, stage.live_bytes);
    snapshot.stages.push_back(std::move(stage));
  }
  const auto name_of = [&](uint32_t tag) {
    return tag < snapshot.stages.size() ? snapshot.stages[tag].name : std::string();
  };
  for (uint32_t i = 0; i < threads_; ++i) {
    const FlightThread& own = shards_[1 + i];
    FlightSnapshot::Thread thread;
    thread.lease_id = own.lease_id.load(std::memory_order_acquire);
    const uint32_t stage = own.stage.load(kRelaxed);
    thread.stage = name_of(stage);
    thread.reads = stage == kSourceStage;
    thread.stream_id = own.stream_id.load(kRelaxed);
    thread.epoch = own.epoch.load(kRelaxed);
    thread.position = own.position.load(kRelaxed);
    thread.began_ns = own.began_ns.load(kRelaxed);
    thread.turn = own.turn.load(kRelaxed);
    thread.turn_ns = own.turn_ns.load(kRelaxed);
    thread.grown_bytes =
        static_cast<int64_t>(static_cast<uint64_t>(snapshot.live_bytes) -
                             static_cast<uint64_t>(own.began_live_bytes.load(kRelaxed)));
    const size_t length = std::min<size_t>(own.sample_length.load(std::memory_order_acquire),
                                           FlightThread::kSampleBytes);
    if (thread.lease_id != 0) thread.sample = CleanText(own.sample, length);
    snapshot.samples += own.samples.load(kRelaxed);
    for (size_t i = 0; i < kFlightCounts; ++i) snapshot.counts[i] += own.counts[i].load(kRelaxed);
    snapshot.threads.push_back(std::move(thread));
  }
  snapshot.tells_stacks = header_->tells_stacks.load(kRelaxed) != 0;
  const uint32_t refused = header_->refused_stage.load(std::memory_order_acquire);
  if (refused != FlightHeader::kNobody) {
    snapshot.refused_stage = name_of(refused);
    snapshot.refused_bytes = header_->refused_bytes.load(kRelaxed);
    const uint32_t thread = header_->refused_thread.load(kRelaxed);
    if (thread < threads_) snapshot.refused_thread = static_cast<int>(thread);
  }
  const uint32_t slot = header_->wild_slot.load(std::memory_order_acquire);
  if (slot != FlightHeader::kNobody) {
    const uint32_t access = header_->wild_access.load(kRelaxed);
    constexpr auto kLast = static_cast<uint32_t>(MemoryFault::Access::kWrite);
    snapshot.wild = {slot, static_cast<MemoryFault::Access>(access <= kLast ? access : 0),
                     name_of(header_->wild_stage.load(kRelaxed))};
  }
  return snapshot;
}

}  // namespace bulkhead
