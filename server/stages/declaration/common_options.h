#pragma once

#include <set>
#include <string>

#include "bulkhead/v1/stages.pb.h"
#include "server/stages/declaration/option.h"
#include "server/stages/declaration/spec_error.h"

// Options of stages in several families, and what these stages have in common.
namespace bulkhead {

// The largest width or height of any supported image format.
inline constexpr uint32_t kMaxExtent = 65'535;

// The most features whose rows a stage drops or joins along with boxes.
inline constexpr int kMaxSanitizedWith = 64;

// `probability`: the probability that the stage acts.
Option Probability(double otherwise);
// Whether a stage with `probability` acts on some samples only.
bool ActsByChance(const google::protobuf::Message& stage);

// `size`: one or two extents; normalized to two.
Option Size();
Option OptionalSize();

// `fill`: the value of a pixel, one number or one per channel (CheckFill).
Option Fill(double otherwise);

// `with`: features with one row per box of `input`, and the check that no name is repeated.
Option With();
template <typename Stage>
void CheckWith(const Stage& stage, const std::string& path, SpecProblems& problems) {
  std::set<std::string> names = {stage.input()};
  for (const std::string& name : stage.with()) {
    if (names.insert(name).second) continue;
    problems.Add(path + ".with", "`" + name + "` is listed twice, or is `input`");
  }
}

// `interpolation`.
Option Interpolation(v1::Interpolation otherwise = v1::INTERPOLATION_LINEAR);

}  // namespace bulkhead
