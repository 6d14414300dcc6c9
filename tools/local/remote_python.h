#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/stages.pb.h"
#include "server/os/files/fd.h"
#include "server/os/memory/memory_map.h"
#include "server/os/process/child_process.h"
#include "server/stages/running/user_code.h"
#include "tools/local/confinement.h"

namespace bulkhead::tools {

// The user's interpreter in a process of its own (worker_host.py --serve-fd), for tools that run
// pipelines in their own process. Before it imports user code it enters the sandbox of a worker,
// with a worker's environment. What a call gets and gives is copied through shared memory, which
// costs what a socket's round trip costs. The interpreter ends with this object. Used by the thread
// that made it.
class RemotePython final : public PythonHost {
 public:
  struct Options {
    std::string interpreter;                // a path, or a name for PATH; empty: python3
    std::vector<std::string> python_paths;  // folders that functions may come from
    Confinement confinement;
  };
  // Errors: NOT_FOUND when there is no such interpreter, or worker_host.py is not where it belongs,
  // in ../lib/bulkhead of this program's folder; FAILED_PRECONDITION when it ends at once, of which
  // it wrote the reason to standard error; those of AskedEnvironment.
  static absl::StatusOr<std::unique_ptr<RemotePython>> Start(const Options& options);

  absl::StatusOr<int> Load(const std::string& stage,
                           const std::vector<std::string>& inputs) override;
  Verdict Call(int number, std::vector<int64_t>& words, std::string& error) override;

  // Ends the interpreter and waits until it has ended.
  ~RemotePython() override;

 private:
  // What the words of a stage's call mean.
  struct Shape {
    std::vector<int> dimensions;  // of the inputs; bytes: 0
    std::vector<v1::StageOutput> outputs;
  };
  // A piece of this process's memory and its place in the shared one.
  struct Piece {
    size_t word = 0;  // that holds its address
    uint64_t bytes = 0;
    uint64_t offset = 0;
    bool is_output = false;
  };
  struct Reply {
    int32_t verdict = 0;
    std::string text;
  };

  RemotePython(ChildProcess child, UniqueFd socket, MemoryMap memory);
  static std::vector<Piece> PiecesOf(const Shape& shape, const std::vector<int64_t>& words);
  // `passed_fd` goes with the request, unless it is negative.
  absl::StatusOr<Reply> Ask(const std::string& request, int passed_fd = -1);

  ChildProcess child_;
  UniqueFd socket_;
  const MemoryMap memory_;
  std::vector<Shape> shapes_;  // by the stage's number
};

}  // namespace bulkhead::tools
