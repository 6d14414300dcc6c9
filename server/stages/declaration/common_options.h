#ifndef BULKHEAD_SERVER_STAGES_DECLARATION_COMMON_OPTIONS_H_
#define BULKHEAD_SERVER_STAGES_DECLARATION_COMMON_OPTIONS_H_

#include <set>
#include <string>

#include "bulkhead/v1/stages.pb.h"
#include "server/stages/declaration/option.h"
#include "server/stages/declaration/spec_error.h"

// Options that stages of several families have, and what stages with them have in common.
namespace bulkhead {

// The largest extent that any image format here can hold.
inline constexpr uint32_t kMaxExtent = 65'535;

// Features whose rows stages drop or join along with boxes, at most.
inline constexpr int kMaxSanitizedWith = 64;

// `probability`: that the stage acts.
Option Probability(double otherwise);
// Whether a stage with `probability` draws whether it acts.
bool ActsByChance(const google::protobuf::Message& stage);

// `size`: one or two extents, made two.
Option Size();
Option OptionalSize();

// `fill`: one value of a pixel, or one a channel (CheckFill).
Option Fill(double otherwise);

// `with`: features with a row for each box of `input`; and that no name stands there twice.
Option With();
template <typename Stage>
void CheckWith(const Stage& stage, const std::string& path, SpecProblems& problems) {
  std::set<std::string> names = {stage.input()};
  for (const std::string& name : stage.with()) {
    if (names.insert(name).second) continue;
    problems.Add(path + ".with", "`" + name + "` stands there twice, or is `input`");
  }
}

// `interpolation`.
Option Interpolation(v1::Interpolation otherwise = v1::INTERPOLATION_LINEAR);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_STAGES_DECLARATION_COMMON_OPTIONS_H_
