#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/doctor/judgement.h"
#include "tools/doctor/trial.h"

namespace bulkhead::tools {

// One of the doctor's runs.
struct DoctorRun {
  enum class Kind { kWhole, kPrefix, kAlone };
  Kind kind = Kind::kWhole;
  std::string title;  // "stages[0] to stages[1] python"
  std::string stage;  // kPrefix: the last one; kAlone: the one; as the whole spec calls it
  std::string note;   // what a reader has to know of it; or, where it did not run, why
  bool ran = false;
  Trial trial;
  JudgedTrial judged;

  // A run in which something was wrong, or certainly nothing.
  bool IsFault() const;
  bool IsUncertain() const;
  // "leak", "crashes", "fails": what weighs most in it.
  std::string Word() const;
  // Why its stream ended, as it concerns who has this command's options; "" if it did not.
  std::string Error() const;
};

// All runs of a spec, the whole one first.
struct Diagnosis {
  std::string spec;
  uint64_t samples = 0;  // that each run was asked for
  std::string sandbox;   // that the workers had: "all", "none", or parts of it
  std::vector<DoctorRun> runs;
  std::map<std::string, std::string> code;  // by stage: "my_aug:rotate"
  std::vector<std::string> joined;          // stages that run in one pass with another one

  // "stages[1] python (my_aug:rotate)"; of an empty name `worker`.
  std::string Named(const std::string& stage, const char* worker = "the worker") const;

  // "2000 samples in each run, made by a sandboxed worker of one thread".
  std::string Setting() const;

  // 0: nothing was found; 1: something was, or memory grew for a reason that is not clear.
  int ExitCode() const;
};

// What the runs together say, a sentence each, the gravest first:
// "stages[1] python (my_aug:rotate) keeps 24KiB more with each sample".
std::vector<std::string> Conclusions(const Diagnosis& diagnosis);

// "24KiB", "-3B", "0B".
std::string SignedBytes(double bytes);

}  // namespace bulkhead::tools
