#include "server/stages/declaration/common_options.h"

namespace bulkhead {

Option Probability(double otherwise) {
  return Option("probability").Default(otherwise).Between(0, 1);
}

bool ActsByChance(const google::protobuf::Message& stage) {
  const double probability = stage.GetReflection()->GetDouble(
      stage, stage.GetDescriptor()->FindFieldByName("probability"));
  return probability > 0 && probability < 1;
}

Option Size() {
  return OptionalSize().Required("[height, width], or one number for a square", "224");
}

Option OptionalSize() {
  return Option("size")
      .OneStandsFor(2)
      .Count(2, 2, "has $0 numbers; give [height, width], or one for a square")
      .Between(1, kMaxExtent, "holds $0; each number must lie between $1 and $2");
}

Option Fill(double otherwise) {
  return Option("fill").Default(otherwise).Between(0, 255, "holds $0; a pixel's values end at 255");
}

Option With() { return Option("with").Count(0, kMaxSanitizedWith, "has more than $2 names"); }

Option Interpolation(v1::Interpolation otherwise) {
  return Option("interpolation").Default(otherwise);
}

}  // namespace bulkhead
