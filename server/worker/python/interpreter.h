#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/stages/running/user_code.h"
#include "server/worker/python/interpreter_functions.h"

namespace bulkhead {

// The interpreter that loaded this library. Lives as long as the process. Thread-safe: one thread
// at a time runs Python.
class Interpreter final : public PythonHost {
 public:
  explicit Interpreter(const BulkheadPython& functions) : functions_(functions) {}

  absl::StatusOr<int> Load(const std::string& stage,
                           const std::vector<std::string>& inputs) override;
  Verdict Call(int number, std::vector<int64_t>& words, std::string& error) override;
  std::vector<LoadedFile> TakeLoaded() override;
  bool WriteStacksTo(int fd) override { return functions_.stacks(fd) != 0; }
  void SendNotesTo(NoteFn note) override;
  std::string TakeGrowth(uint64_t samples) override;

 private:
  // Gives this thread a permanent state in the interpreter; a state made for one call costs more
  // than the call.
  void Attach() const;

  const BulkheadPython functions_;
  NoteFn note_;
  absl::Mutex one_at_a_time_;
  std::atomic<uint64_t> taken_{0};         // of *loaded_count
  std::atomic<uint64_t> growth_taken_{0};  // of *growth_count
};

}  // namespace bulkhead
