#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/pack/image_work.h"

namespace bulkhead::tools {

// Images are parsed in a process of its own, which is in the sandbox of a worker and can read no
// data: it gets the bytes of a file and gives numbers and the bytes of a JPEG back, through a
// socket.
//
//   thread of the tool                          its child, this program
//   NewConfinedImageWork(sandbox) ──spawns──▶  ServeImages(sandbox): enters the sandbox
//   Recode(file, recoding)        ──file────▶  NewLocalImageWork()->Recode(…)
//                                 ◀──JPEG────

// For the thread that makes it; the process ends with it. `sandbox`: parts of the sandbox, as
// --sandbox takes them; empty: all. `max_pixels`: of NewLocalImageWork. Its calls also fail with
// ABORTED when the process ended or gave no answer for a minute. Errors: INVALID_ARGUMENT for parts
// that do not exist; those of ChildProcess::Spawn.
absl::StatusOr<std::unique_ptr<ImageWork>> NewConfinedImageWork(const std::string& sandbox,
                                                                uint64_t max_pixels);

// Carries the calls out in this process, which has one thread and was started for it, until the
// other end hangs up. Returns the exit code.
int ServeImages(const std::string& sandbox, uint64_t max_pixels);

// The option of `bulkhead pack` by which it is started.
inline constexpr char kServeImages[] = "--serve-images";

}  // namespace bulkhead::tools
