#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/worker.pb.h"
#include "tools/local/local_data.h"
#include "tools/local/parts_fetcher.h"

namespace bulkhead::tools {

// For user code, which a tool runs in a process of its own: that enters the sandbox of a worker and
// cannot leave it, while the tool goes on outside. The tool finds the data, and fetches objects.
//
//   tool                                     its child, the same program
//   RunAgain(arguments and a hidden one) ──▶ LocalPipeline::Create with `confine`: ReceiveData
//         parts of objects are here    ◀──▶  measure
//            the result or the error    ◀──  AnswerRun

// Runs this program with `args` to its end, with a worker's environment and a TMPDIR of its own
// that goes with it, and returns what it answered. Blocks. Errors: those that it answered, which
// advise as those of a service that a program starts for itself; ABORTED when it ended without an
// answer.
absl::StatusOr<std::string> RunAgain(std::vector<std::string> args, const LocalData& data);

// The arguments of this process.
std::vector<std::string> OwnArguments();

// What the process that started this one by RunAgain has found for it.
struct DataOfRun {
  internal::v1::ResolvedSource resolved;
  std::shared_ptr<const PartsFetcher> fetcher;  // asks that process; null: all are files
};
// Once. Blocks. Errors: those of PacketSocket::Receive; INTERNAL for what is no such data.
absl::StatusOr<DataOfRun> ReceiveData();

// Answers the process that started this one by RunAgain. Returns this one's exit code.
int AnswerRun(const absl::StatusOr<std::string>& result);

}  // namespace bulkhead::tools
