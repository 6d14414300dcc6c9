#include "server/worker/python/interpreter.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/arena/exit_codes.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"
#include "server/worker/current_stage.h"
#include "server/worker/flight_notes.h"

namespace bulkhead {
namespace {

constexpr size_t kErrorBytes = 8192;
using ErrorText = std::array<char, kErrorBytes>;

constexpr size_t kLoadedBytes = size_t{64} << 10;
constexpr size_t kGrowthBytes = size_t{64} << 10;

constexpr int kMemoryRefused = -2;
// The result of a ctypes callback that raised an exception.
constexpr int kUncaught = 0;

// Tells the supervisor through the flight recorder that a thread which waits for its turn does not
// hang.
void NoteTurn(FlightTurn turn) {
  FlightThread* const notes = current_stage.notes;
  if (notes == nullptr) return;
  if (turn == FlightTurn::kInside) {
    notes->turn_ns.store(MonotonicNanos(), std::memory_order_relaxed);
  }
  notes->turn.store(turn, std::memory_order_relaxed);
}

// Shorter waits are not traced: every call makes one.
constexpr int64_t kShortWaitNanos = 10'000;

}  // namespace

absl::StatusOr<int> Interpreter::Load(const std::string& stage,
                                      const std::vector<std::string>& inputs) {
  absl::MutexLock lock(&one_at_a_time_);
  ErrorText error{};
  const int number = functions_.load(stage.c_str(), absl::StrJoin(inputs, ",").c_str(),
                                     error.data(), error.size());
  if (number == kMemoryRefused) _exit(kExitOutOfMemory);
  if (number > 0) return number - 1;
  error.back() = 0;
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kStageUnusable, error.data());
}

void Interpreter::Attach() const {
  thread_local bool attached = false;
  if (attached) return;
  functions_.ensure();
  functions_.save();
  attached = true;
}

PythonHost::Verdict Interpreter::Call(int number, std::vector<int64_t>& words, std::string& error) {
  NoteTurn(FlightTurn::kWaiting);
  const FlightNotes* const writer = current_stage.writer;
  const bool traced = writer != nullptr && writer->traced();
  const int64_t begin_ns = traced ? MonotonicNanos() : 0;
  absl::MutexLock lock(&one_at_a_time_);
  const int64_t end_ns = traced ? MonotonicNanos() : 0;
  if (end_ns - begin_ns >= kShortWaitNanos) writer->NoteTurn(begin_ns, end_ns);
  NoteTurn(FlightTurn::kInside);
  Attach();
  ErrorText text;  // on the stack: with 8 KiB a thread, some C libraries do not load this library
  text[0] = 0;
  const int verdict = functions_.call(number, words.data(), text.data(), text.size());
  NoteTurn(FlightTurn::kNone);
  if (verdict == static_cast<int>(Verdict::kOk)) return Verdict::kOk;
  text.back() = 0;
  error = text.data();
  if (verdict != kUncaught) return static_cast<Verdict>(verdict);
  error = "the interpreter ended the call without a verdict; the service's log says why";
  return Verdict::kUnusable;
}

void Interpreter::SendNotesTo(NoteFn note) {
  note_ = std::move(note);
  const auto pass_on = [](void* self, int level, const char* function, const char* text) {
    static_cast<Interpreter*>(self)->note_(level, function, text);
  };
  functions_.notes(pass_on, this);
}

std::string Interpreter::TakeGrowth(uint64_t samples) {
  if (functions_.take_growth == nullptr) return "";
  __atomic_store_n(functions_.samples, samples, __ATOMIC_RELAXED);
  const uint64_t count = __atomic_load_n(functions_.growth_count, __ATOMIC_RELAXED);
  if (growth_taken_.exchange(count) == count) return "";
  std::string text(kGrowthBytes, 0);
  text.resize(functions_.take_growth(text.data(), text.size()));
  return text;
}

std::vector<PythonHost::LoadedFile> Interpreter::TakeLoaded() {
  std::vector<LoadedFile> files;
  const uint64_t count = __atomic_load_n(functions_.loaded_count, __ATOMIC_RELAXED);
  if (taken_.exchange(count) == count) return files;
  std::string text(kLoadedBytes, 0);
  while (const uint64_t bytes = functions_.take_loaded(text.data(), text.size())) {
    const std::vector<std::string> parts =
        absl::StrSplit(absl::string_view(text).substr(0, bytes - 1), '\0');
    for (size_t i = 0; i + 1 < parts.size(); i += 2) files.push_back({parts[i], parts[i + 1]});
  }
  return files;
}

}  // namespace bulkhead
