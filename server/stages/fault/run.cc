#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <set>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/base/byte_size.h"
#include "server/stages/running/families.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {
namespace {

constexpr uint64_t kPageBytes = 4096;

uint64_t BytesOf(const v1::Fault& spec) {
  const std::string& size = spec.has_leak()        ? spec.leak()
                            : spec.has_leak_mmap() ? spec.leak_mmap()
                            : spec.has_touch()     ? spec.touch()
                                                   : spec.burst();
  return ParseBytes(size).value_or(0);
}

// Writes to every page, in a way that keeps the compiler from removing the writes and the
// allocation.
void* Touched(void* memory, uint64_t bytes) {
  auto* const at = static_cast<volatile char*>(memory);
  for (uint64_t offset = 0; offset < bytes; offset += kPageBytes) at[offset] = 1;
  return memory;
}

void* Allocate(uint64_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return Touched(memory, bytes);
}

void* Map(uint64_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return Touched(memory, bytes);
}

// `fault`: misbehaves on the chosen records, as a broken library or a user's careless code would,
// and changes no byte. Leaked memory has no references. Memory that the kernel refuses is
// std::bad_alloc, like any stage's.
class FaultStage : public ValueStage {
 public:
  FaultStage(StagePlace place, const v1::Fault& spec)
      : ValueStage(std::move(place)),
        spec_(spec),
        records_(spec.records().begin(), spec.records().end()),
        every_(std::max<uint64_t>(1, spec.every())),
        bytes_(BytesOf(spec)) {}
  absl::Status Run(Value& value, const StageContext& context) const override {
    if (!Chooses(context)) return absl::OkStatus();
    switch (spec_.fault_case()) {
      case v1::Fault::kLeak:
        Allocate(bytes_);
        break;
      case v1::Fault::kLeakMmap:
        Map(bytes_);
        break;
      case v1::Fault::kTouch:
        munmap(Map(bytes_), bytes_);
        break;
      case v1::Fault::kBurst:
        std::free(Allocate(bytes_));
        break;
      case v1::Fault::kCrash:
        std::signal(SIGSEGV, SIG_DFL);
        std::raise(SIGSEGV);
        break;
      case v1::Fault::kHang:
        while (true) absl::SleepFor(absl::Hours(1));
      case v1::Fault::kSlow:
        absl::SleepFor(absl::Seconds(spec_.slow()));
        break;
      case v1::Fault::FAULT_NOT_SET:
        break;
    }
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kInPlace; }

 private:
  bool Chooses(const StageContext& context) const {
    return context.record % every_ == 0 && context.samples_before >= spec_.after_samples() &&
           (records_.empty() || records_.count(context.record) > 0);
  }

  v1::Fault spec_;
  std::set<uint64_t> records_;  // empty: all
  uint64_t every_;
  uint64_t bytes_ = 0;  // of the faults that take memory
};

}  // namespace

std::vector<NumberedMaker> FaultStages() {
  return {{v1::Stage::kFault, Make<FaultStage, &v1::Stage::fault>}};
}

}  // namespace bulkhead
