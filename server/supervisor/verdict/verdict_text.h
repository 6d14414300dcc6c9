#pragma once

#include <string>

#include "bulkhead/v1/loader.pb.h"

namespace bulkhead {

// The verdict in one sentence: "stages[1] python (my_aug.rotate) keeps 24KiB more with each sample:
// 166MiB of 432MiB since it started; imports hold 209MiB". `imports`: the pipeline imports code of
// the user. `gone`: the worker that shows it has ended.
std::string VerdictText(const v1::Verdict& verdict, bool imports, bool gone);

}  // namespace bulkhead
